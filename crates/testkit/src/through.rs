//! A file system whose files a test opens itself.

use std::io;
use std::path::Path;

use freshet_base::io::{Entry, FileRef, Fs, FsRef, Mode};

/// A file system that passes every call through, and opens files with a function of the test, which
/// may wait, count, or wrap what it returns.
pub struct ThroughFs<F> {
    inner: FsRef,
    open: F,
}

impl<F: Fn(&dyn Fs, &Path, Mode) -> io::Result<FileRef>> ThroughFs<F> {
    /// `open` is given the file system behind this one.
    pub fn new(inner: FsRef, open: F) -> Self {
        Self { inner, open }
    }
}

impl<F> Fs for ThroughFs<F>
where
    F: Fn(&dyn Fs, &Path, Mode) -> io::Result<FileRef> + Send + Sync + 'static,
{
    fn open(&self, path: &Path, mode: Mode) -> io::Result<FileRef> {
        (self.open)(&*self.inner, path, mode)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.inner.list(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_dir_all(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)
    }
    fn exists(&self, path: &Path) -> bool {
        self.inner.exists(path)
    }
    fn available_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.available_bytes(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.inner.lock(path)
    }
}
