//! The format version of the store.

use freshet_base::{Result, bail, err};

use crate::keys;
use crate::store::{Batch, MetaStore};

/// The format version written by this code.
pub(crate) const FORMAT_VERSION: u32 = 10;

/// Rejects a store with another format version, and writes the version to an empty one.
///
/// - Versions 1 to 3 had a log without heads and terms, version 4 one without flushes and merges,
///   version 5 had JSON where forms of [`crate::disk`] are, version 6 bounds of keys by rowset, not
///   by segment, version 7 no records of terms, version 8 shorter stamps of loads. They were never
///   released.
/// - Version 9 is the oldest supported one.
///
/// The version is decimal text in every format, so that all versions can name it.
pub(crate) fn check(store: &dyn MetaStore) -> Result<()> {
    let stored = store.get(keys::FORMAT)?;
    let version = match &stored {
        Some(bytes) => {
            let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
            number.ok_or_else(|| {
                err!(Corruption, "the format version of meta.redb is no number; restore a backup")
            })?
        }
        None if store.scan("/")?.is_empty() => FORMAT_VERSION,
        None => bail!(Corruption, "meta.redb has entries but no format version"),
    };
    if version > FORMAT_VERSION {
        bail!(
            NotSupported,
            "the data directory is of format {version}, this server reads formats up to \
             {FORMAT_VERSION}: start the version that wrote it, or a newer one"
        );
    }
    if version < FORMAT_VERSION {
        bail!(
            NotSupported,
            "the data directory is of format {version}, which only unreleased versions wrote; \
             this server reads format {FORMAT_VERSION}: export its tables with the version that \
             wrote it, and load them into a new directory"
        );
    }
    if stored.is_some() {
        return Ok(());
    }
    let put = vec![(keys::FORMAT.to_owned(), FORMAT_VERSION.to_string().into_bytes())];
    Ok(store.commit(Batch { put, ..Batch::default() })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemStore;

    #[test]
    fn an_empty_store_is_marked_and_opens_again() {
        let store = MemStore::new();
        check(&store).unwrap();
        check(&store).unwrap();
        assert_eq!(store.get(keys::FORMAT).unwrap().unwrap(), b"10");
    }

    #[test]
    fn a_store_of_an_older_format_is_refused_by_name() {
        for format in ["1", "2", "3", "4", "5", "6", "7", "8", "9"] {
            let store = MemStore::new();
            let put = vec![(keys::FORMAT.to_owned(), format.as_bytes().to_vec())];
            store.commit(Batch { put, ..Batch::default() }).unwrap();
            let error = check(&store).unwrap_err();
            assert!(error.message().contains(&format!("of format {format}")), "{error}");
            assert!(error.message().contains("reads format 10"), "{error}");
        }
    }

    #[test]
    fn a_newer_format_is_refused_with_what_to_do() {
        let store = MemStore::new();
        let put = vec![(keys::FORMAT.to_owned(), b"11".to_vec())];
        store.commit(Batch { put, ..Batch::default() }).unwrap();
        let error = check(&store).unwrap_err();
        assert!(error.message().contains("format 11"), "{error}");
        assert!(error.message().contains("or a newer one"), "{error}");
    }

    #[test]
    fn entries_without_a_format_are_not_taken_for_an_empty_store() {
        let store = MemStore::new();
        let put = vec![("/db/1".to_owned(), b"{}".to_vec())];
        store.commit(Batch { put, ..Batch::default() }).unwrap();
        assert!(check(&store).is_err());
    }
}
