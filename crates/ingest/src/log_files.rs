//! The files of the log: made ahead of need, listed in metadata, and removed.

use std::path::PathBuf;
use std::sync::Arc;

use freshet_base::io::FsRef;
use freshet_base::{Error, Result};
use freshet_meta::{LogFileRecord, Meta};
use freshet_wal::{LogFile, make_file};
use parking_lot::Mutex;

use crate::log_dirs;
use crate::store::Store;

/// Makes files for a log that runs.
pub(crate) struct LogFiles {
    pub store: Arc<Store>,
    /// The id of the next file, from its reservation until the file is listed in metadata.
    pub next: Mutex<Option<u64>>,
}

impl LogFiles {
    /// Creates another log file, lists it in metadata, and hands it to the log.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn make(&self) -> Result<()> {
        self.store.disk.may_grow()?;
        let mut next = self.next.lock();
        let id = match *next {
            Some(id) => id,
            None => *next.insert(self.store.meta().next_log_file()?),
        };
        let path = self.roomiest_dir().join(format!("{id:08}.log"));
        let bytes = self.store.config.wal_file_bytes.bytes();
        if let Err(error) = make_file(self.store.fs(), &path, bytes) {
            // On a full disk a partial file would occupy space that flushes need.
            let _ = self.store.fs().remove_file(&path);
            return Err(Error::io(format_args!("make log file {}", path.display()), error));
        }
        let listed = log_dirs::listed(&self.store.config.data_dir, &path)?;
        self.store.meta().add_log_file(LogFileRecord { id, path: listed, bytes })?;
        *next = None;
        drop(next);
        self.store
            .wal
            .offer_file(LogFile { id, path: path.clone(), bytes })
            .map_err(|e| Error::io(format_args!("open log file {}", path.display()), e))
    }

    /// The directory with most free space.
    fn roomiest_dir(&self) -> &PathBuf {
        let room = |dir: &&PathBuf| self.store.fs().available_bytes(dir).unwrap_or(0);
        self.store.config.wal_dirs.iter().max_by_key(room).expect("there is a log directory")
    }
}

/// Removes a log file without live records. A crash after the first step leaves an unlisted file,
/// which the next start removes.
pub(crate) fn remove_log_file(fs: &FsRef, meta: &Meta, file: &LogFile) -> Result<()> {
    meta.remove_log_file(file.id)?;
    fs.remove_file(&file.path)
        .map_err(|error| Error::io(format_args!("remove log file {}", file.path.display()), error))
}
