//! The storage of redb on the engine's own file system, so that the simulation can crash it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use freshet_base::io::FileRef;
use redb::StorageBackend;

/// Written in steps when the file grows.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Set when the file could not grow, the only failure after which the store continues to work.
#[derive(Clone, Debug, Default)]
pub(super) struct GrowthFailed(Arc<AtomicBool>);

impl GrowthFailed {
    /// Whether growth failed since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

pub(super) struct FileBackend {
    file: FileRef,
    growth_failed: GrowthFailed,
}

impl std::fmt::Debug for FileBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileBackend")
    }
}

impl FileBackend {
    pub fn new(file: FileRef, growth_failed: GrowthFailed) -> Self {
        Self { file, growth_failed }
    }

    /// Allocates the blocks now, so that a full disk is detected here and not when a page is
    /// written.
    fn grow(&self, from: u64, to: u64) -> io::Result<()> {
        let mut at = from;
        while at < to {
            let step = (to - at).min(ZEROS.len() as u64);
            let zeros = &ZEROS[..usize::try_from(step).expect("a step fits the zeros")];
            self.file.write_all_at(zeros, at)?;
            at += step;
        }
        Ok(())
    }
}

impl StorageBackend for FileBackend {
    fn len(&self) -> io::Result<u64> {
        self.file.len_bytes()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let now = self.file.len_bytes()?;
        if len <= now {
            return self.file.set_len(len);
        }
        let grown = self.grow(now, len);
        if let Err(error) = &grown
            && matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        {
            self.growth_failed.0.store(true, Ordering::Release);
            // Frees what was added so far. If even that fails, the longer file is harmless, since
            // redb keeps its length in its header.
            let _ = self.file.set_len(now);
        }
        grown
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }
}
