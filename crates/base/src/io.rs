//! Files as an argument: the real file system here, a crashing one in simulation.
//!
//! Calls block: they are made on threads that may block (`task::run`, the log's own thread).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod real;

pub use real::RealFs;

/// A shared file system.
pub type FsRef = Arc<dyn Fs>;
/// An open file; closed on drop.
pub type FileRef = Arc<dyn File>;

/// Alignment of address, offset and length of a write to a [`Mode::Direct`] file.
pub const DIRECT_ALIGN_BYTES: usize = 4096;

/// How to open a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Read only; it must exist.
    Read,
    /// Read and write; it must exist.
    Write,
    /// Read and write; it must not exist.
    CreateNew,
    /// Read and write what exists; every write is on the device when it returns, past the
    /// page cache where the file system can (else as write and `fdatasync`).
    Direct,
}

/// A directory entry.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    /// Full path.
    pub path: PathBuf,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Length; 0 for a directory.
    pub len_bytes: u64,
}

/// A file system.
pub trait Fs: Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, mode: Mode) -> io::Result<FileRef>;
    /// Makes a directory and those above it.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The entries of a directory, in the order of their names.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;
    /// Renames, replacing what stands there; durable after `sync_dir` of the target's parent.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory and all in it; none there is no error.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Whether something stands at `path`.
    fn exists(&self, path: &Path) -> bool;
    /// Bytes that can still be written under `path`.
    fn available_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Takes an exclusive lock on a file, made if missing, until the guard is dropped or the
    /// process ends; `WouldBlock` when another process has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// Takes from everybody but its owner every right to use a file or directory; returns whether
    /// anybody had one. Where there are no users there is nothing to do.
    fn close(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// Makes a directory and those above it, where they are not there yet, and makes the names of
    /// all of them durable: as far as it can also of those that an earlier process made and had no
    /// time to sync.
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        let is_dir = |dir: &&Path| !dir.as_os_str().is_empty();
        let made = path.ancestors().filter(is_dir).take_while(|dir| !self.exists(dir)).count();
        self.create_dir_all(path)?;
        for (level, dir) in path.ancestors().skip(1).enumerate() {
            let dir = if is_dir(&dir) { dir } else { Path::new(".") };
            match self.sync_dir(dir) {
                // What was there before may be somebody else's, or on a file system that has no
                // such call.
                Err(_) if level >= made => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Reads a whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open(path, Mode::Read)?;
        let len = usize::try_from(file.len_bytes()?).expect("a file read whole fits in memory");
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Writes a file whole under a name of its own, syncs it, and gives it its name: after a
    /// crash either the old content stands there or the new.
    fn write_atomic(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let temporary = path.with_extension("tmp");
        if self.exists(&temporary) {
            self.remove_file(&temporary)?;
        }
        let file = self.open(&temporary, Mode::CreateNew)?;
        file.write_all_at(bytes, 0)?;
        file.sync()?;
        self.rename(&temporary, path)?;
        self.sync_dir(parent)
    }
}

/// An open file.
pub trait File: Send + Sync + 'static {
    /// Reads into all of `buffer`; `UnexpectedEof` when the file is shorter.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `bytes`, which must be aligned where the file is [`Mode::Direct`].
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Starts to bring what was written there to the device, so that the sync finds little left
    /// to do. A hint: it promises nothing, and what fails is told by the sync.
    fn write_back(&self, _offset: u64, _len_bytes: u64) {}
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// Cuts or lengthens with zeros.
    fn set_len(&self, len_bytes: u64) -> io::Result<()>;
    /// Length.
    fn len_bytes(&self) -> io::Result<u64>;
    /// Syncs, then forgets cached pages, so that the next read comes from the device.
    fn drop_cache(&self) -> io::Result<()>;
}
