//! Reserved disk space for metadata: freeing space must not itself require space.

use std::io;
use std::path::{Path, PathBuf};

use freshet_base::io::{FsRef, Mode};

/// Zeros are written in steps of this size.
const STEP_BYTES: usize = 1 << 16;

/// A file of zeros that is deleted when the disk is full, and recreated later. Until then only
/// metadata, and flushes that free log space, may grow files.
pub struct Ballast {
    fs: FsRef,
    path: PathBuf,
    bytes: u64,
}

impl std::fmt::Debug for Ballast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ballast({}, {} bytes)", self.path.display(), self.bytes)
    }
}

impl Ballast {
    /// The ballast file at `path`, which may exist already.
    pub fn new(fs: FsRef, path: impl Into<PathBuf>, bytes: u64) -> Self {
        Self { fs, path: path.into(), bytes }
    }

    /// Whether the file exists.
    pub fn is_held(&self) -> bool {
        self.fs.exists(&self.path)
    }

    /// Creates the file unless it exists. It is written under a temporary name first, so that an
    /// incomplete file never counts.
    ///
    /// # Errors
    /// When the disk is full; the temporary file is removed then.
    pub fn make(&self) -> io::Result<()> {
        if self.is_held() {
            return Ok(());
        }
        let temporary = self.path.with_extension("tmp");
        let made = self.write(&temporary).and_then(|()| {
            self.fs.rename(&temporary, &self.path)?;
            self.fs.sync_dir(self.path.parent().unwrap_or(Path::new(".")))
        });
        if made.is_err() && self.fs.exists(&temporary) {
            self.fs.remove_file(&temporary)?;
        }
        made
    }

    /// Deletes the file; returns whether it existed.
    ///
    /// # Errors
    /// When the file cannot be deleted.
    pub fn give_up(&self) -> io::Result<bool> {
        if !self.is_held() {
            return Ok(false);
        }
        self.fs.remove_file(&self.path)?;
        Ok(true)
    }

    fn write(&self, temporary: &Path) -> io::Result<()> {
        if self.fs.exists(temporary) {
            self.fs.remove_file(temporary)?;
        }
        let file = self.fs.open(temporary, Mode::CreateNew)?;
        let zeros = vec![0; STEP_BYTES];
        for at in (0..self.bytes).step_by(STEP_BYTES) {
            let step = usize::try_from(self.bytes - at).map_or(STEP_BYTES, |n| n.min(STEP_BYTES));
            file.write_all_at(&zeros[..step], at)?;
        }
        file.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_base::io::RealFs;
    use std::sync::Arc;

    #[test]
    fn room_is_taken_given_up_and_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let ballast = Ballast::new(Arc::new(RealFs), dir.path().join("ballast"), 100_000);
        assert!(!ballast.give_up().unwrap());
        ballast.make().unwrap();
        ballast.make().unwrap();
        let fs: FsRef = Arc::new(RealFs);
        assert_eq!(fs.list(dir.path()).unwrap()[0].len_bytes, 100_000);
        assert!(ballast.give_up().unwrap());
        assert!(!ballast.is_held());
        ballast.make().unwrap();
        assert!(ballast.is_held());
    }
}
