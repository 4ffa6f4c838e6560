//! Files with events that are too long for their records of the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use freshet_base::io::FsRef;
use freshet_base::{Error, Lsn, Result};
use parking_lot::Mutex;

use crate::layout::events_dir;

/// Makes event files, and removes those that nothing needs any more.
pub(crate) struct EventFiles {
    fs: FsRef,
    dir: PathBuf,
    /// Written ones. Each may be removed once the store reflects the record at its LSN.
    files: Mutex<Vec<(Lsn, PathBuf)>>,
}

impl EventFiles {
    pub fn new(fs: FsRef, store: &Path) -> Self {
        Self { fs, dir: events_dir(store), files: Mutex::default() }
    }

    /// A new file, to be written by the caller.
    pub fn file(self: &Arc<Self>, name: &str) -> EventFile {
        EventFile { files: Arc::clone(self), path: self.dir.join(name), free_at: Lsn::ZERO }
    }

    /// Removes the files of records up to `saved`, which the store reflects.
    pub fn remove_up_to(&self, saved: Lsn) -> Result<()> {
        let mut files = self.files.lock();
        let mut free = files.extract_if(.., |(lsn, _)| *lsn <= saved).collect::<Vec<_>>();
        drop(files);
        while let Some((_, file)) = free.last() {
            if let Err(error) = remove_event_file(&self.fs, file) {
                // The next checkpoint retries it.
                self.files.lock().append(&mut free);
                return Err(error);
            }
            free.pop();
        }
        Ok(())
    }

    /// Registers the files of records above the checkpoint, and removes all others.
    pub fn adopt(&self, files: Vec<(Lsn, PathBuf)>) -> Result<()> {
        let listed = self.fs.list(&self.dir).map_err(|error| Error::io("list files", error))?;
        for entry in listed {
            if !files.iter().any(|(_, file)| *file == entry.path) {
                remove_event_file(&self.fs, &entry.path)?;
            }
        }
        let before = std::mem::replace(&mut *self.files.lock(), files);
        assert!(before.is_empty(), "a start takes over files before it writes any");
        Ok(())
    }
}

/// An event file. When dropped, it is left to the next checkpoint that reflects its record, or to
/// the next one if no record refers to it.
pub(crate) struct EventFile {
    files: Arc<EventFiles>,
    pub path: PathBuf,
    /// The LSN of its record, once that has settled.
    pub free_at: Lsn,
}

impl Drop for EventFile {
    fn drop(&mut self) {
        self.files.files.lock().push((self.free_at, std::mem::take(&mut self.path)));
    }
}

fn remove_event_file(fs: &FsRef, file: &Path) -> Result<()> {
    match fs.remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format_args!("remove {}", file.display()), error))
        }
        _ => Ok(()),
    }
}
