//! Which format the store is written in.

use freshet_base::{Result, bail};

use crate::keys;
use crate::store::{Batch, MetaStore};

/// The format this code writes.
pub(crate) const FORMAT_VERSION: u32 = 3;

/// Refuses a store that a newer version wrote, brings an older one up to date, and marks an
/// empty one as ours.
pub(crate) fn check(store: &dyn MetaStore) -> Result<()> {
    let stored = store.get(keys::FORMAT)?;
    let version = match &stored {
        Some(bytes) => keys::decode::<u32>(keys::FORMAT, bytes)?,
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
    if stored.is_some() && version == FORMAT_VERSION {
        return Ok(());
    }
    let mut batch = upgrade(store, version)?;
    batch.expect.push((keys::FORMAT.to_owned(), stored));
    batch.put.push((keys::FORMAT.to_owned(), keys::encode(&FORMAT_VERSION)));
    Ok(store.commit(batch)?)
}

/// The changes that bring a store of format `from` up to date.
///
/// - 1 is the first.
/// - 2 added slow hashes of passwords and the values of columns for rows of before them. What 1
///   wrote means the same, but a server of 1 would take a slow hash for no password.
/// - 3 added what directories and files of the log are. The next start finds out what 2 did not
///   write; a server of 2 would read all files of the log with the size of its own settings.
fn upgrade(_store: &dyn MetaStore, from: u32) -> Result<Batch> {
    match from {
        1..=FORMAT_VERSION => Ok(Batch::default()),
        _ => bail!(Corruption, "the data directory is of format {from}, which never existed"),
    }
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
        assert_eq!(store.get(keys::FORMAT).unwrap().unwrap(), b"3");
    }

    #[test]
    fn a_store_of_an_older_format_is_marked_as_of_this_one() {
        let store = MemStore::new();
        let put = vec![(keys::FORMAT.to_owned(), b"1".to_vec())];
        store.commit(Batch { put, ..Batch::default() }).unwrap();
        check(&store).unwrap();
        assert_eq!(store.get(keys::FORMAT).unwrap().unwrap(), b"3");
    }

    #[test]
    fn a_newer_format_is_refused_with_what_to_do() {
        let store = MemStore::new();
        let put = vec![(keys::FORMAT.to_owned(), b"4".to_vec())];
        store.commit(Batch { put, ..Batch::default() }).unwrap();
        let error = check(&store).unwrap_err();
        assert!(error.message().contains("format 4"), "{error}");
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
