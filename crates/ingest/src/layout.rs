//! The names of files and directories of a store.

use std::path::{Path, PathBuf};

use freshet_storage::DataDir;

/// The file name of the metadata store.
pub const META_FILE: &str = "meta.redb";
/// The file name of the term, which counts the starts of the store.
pub const TERM_FILE: &str = "raft.state";
/// The file that identifies the store of a log directory.
pub const STORE_FILE: &str = "STORE";
/// The file whose lock excludes other servers from a directory.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// The directory of table files.
pub(crate) fn data_dir(store: &Path) -> DataDir {
    DataDir::new(store.join("data"))
}

/// The directory of side files.
pub(crate) fn side_dir(store: &Path) -> PathBuf {
    store.join("side")
}

/// The directory of notes of prepared loads.
pub(crate) fn prepared_dir(store: &Path) -> PathBuf {
    store.join("prepared")
}

/// The directory of event files.
pub(crate) fn events_dir(store: &Path) -> PathBuf {
    store.join("events")
}
