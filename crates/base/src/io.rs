//! File access, passed as an argument: the real file system here, a simulated one in tests.
//!
//! Calls block; make them on threads that may block (`task::run`, the log's thread).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod real;

pub use real::RealFs;

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
    /// Read and write; it must exist. Every write is durable when it returns, past the page cache
    /// where the file system supports it (else `write` and `fdatasync`).
    Direct,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    pub path: PathBuf,
    pub is_dir: bool,
    /// 0 for a directory.
    pub len_bytes: u64,
}

/// A file system.
pub trait Fs: Send + Sync + 'static {
    /// Opens a file.
    fn open(&self, path: &Path, mode: Mode) -> io::Result<FileRef>;
    /// Creates a directory and its missing parents.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The entries of a directory, sorted by name.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;
    /// Renames, replacing the target; durable after `sync_dir` of the target's parent.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with its content; no error if it does not exist.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    fn exists(&self, path: &Path) -> bool;
    /// Free space under `path`, in bytes.
    fn available_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Takes an exclusive lock on a file, creating it if missing, until the guard is dropped or the
    /// process ends; `WouldBlock` when another process holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// Removes the permissions of group and others on a file or directory; returns whether there
    /// were any. Does nothing where there are no users.
    fn close(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// The absolute path of what exists, without symbolic links.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        match self.exists(path) {
            true => Ok(path.to_path_buf()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether it is a file with content of its own, neither a directory nor a pipe or device.
    fn is_regular(&self, path: &Path) -> bool {
        self.exists(path)
    }

    /// Creates a directory and its missing parents durably. Parents that existed before are synced
    /// too where possible: an earlier process may have created them and crashed before its sync.
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        let is_dir = |dir: &&Path| !dir.as_os_str().is_empty();
        let made = path.ancestors().filter(is_dir).take_while(|dir| !self.exists(dir)).count();
        self.create_dir_all(path)?;
        for (level, dir) in path.ancestors().skip(1).enumerate() {
            let dir = if is_dir(&dir) { dir } else { Path::new(".") };
            match self.sync_dir(dir) {
                // An existing parent may belong to another user, or be on a file system that cannot
                // sync a directory.
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

    /// Replaces a file atomically (temporary file, sync, rename): after a crash it has either the
    /// old content or the new.
    fn write_atomic(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.write_parts_atomic(path, &[bytes])
    }

    /// Like [`Self::write_atomic`], of bytes that stand in several places.
    fn write_parts_atomic(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let temporary = path.with_extension("tmp");
        if self.exists(&temporary) {
            self.remove_file(&temporary)?;
        }
        self.write_new(&temporary, parts)?;
        self.rename(&temporary, path)?;
        self.sync_dir(parent)
    }

    /// Creates a file of these parts, one behind the other, and syncs it; not its directory.
    fn write_new(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        write_parts(&*self.open(path, Mode::CreateNew)?, parts)
    }
}

/// Writes all of an empty file, and syncs it.
fn write_parts(file: &dyn File, parts: &[&[u8]]) -> io::Result<()> {
    let mut at = 0;
    for part in parts {
        file.write_all_at(part, at)?;
        at += part.len() as u64;
    }
    file.sync()
}

/// An open file.
pub trait File: Send + Sync + 'static {
    /// Reads into all of `buffer`; `UnexpectedEof` when the file is shorter.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Like [`Self::read_exact_at`] without waiting for the device: `false` unless all of it is in
    /// memory, or where that is not known.
    fn read_cached_at(&self, _buffer: &mut [u8], _offset: u64) -> io::Result<bool> {
        Ok(false)
    }
    /// Writes all of `bytes`, which must be aligned where the file is [`Mode::Direct`].
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Starts writing a range back to the device, so that a later sync has less to do. Only a hint:
    /// errors are reported by the sync.
    fn write_back(&self, _offset: u64, _len_bytes: u64) {}
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// Truncates, or extends with zeros.
    fn set_len(&self, len_bytes: u64) -> io::Result<()>;
    fn len_bytes(&self) -> io::Result<u64>;
    /// Syncs, then evicts the file from the page cache: the next read comes from the device.
    fn drop_cache(&self) -> io::Result<()>;
}
