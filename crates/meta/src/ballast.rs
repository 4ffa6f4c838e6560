//! Room kept back for metadata: what frees room must not need the room it frees.

use std::io;
use std::path::{Path, PathBuf};

use freshet_base::io::{FsRef, Mode};

/// Zeros written at a time.
const STEP_BYTES: usize = 1 << 16;

/// A file of zeros that is removed when the disk is full, and made again later. Until then only
/// metadata, and flushes that free log, may grow files.
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
    /// The ballast at `path`; what stands there from before counts.
    pub fn new(fs: FsRef, path: impl Into<PathBuf>, bytes: u64) -> Self {
        Self { fs, path: path.into(), bytes }
    }

    /// Whether the room is kept.
    pub fn is_held(&self) -> bool {
        self.fs.exists(&self.path)
    }

    /// Takes the room, unless it is held. A half made one never counts: it is written under
    /// another name first.
    ///
    /// # Errors
    /// Where the disk has no room for it; nothing stays behind.
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

    /// Gives the room up; returns whether there was any.
    ///
    /// # Errors
    /// When the file cannot be removed.
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
