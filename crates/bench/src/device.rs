//! Synced writes as the log makes them: over a file that was written once, past the page cache.

use std::fs;
use std::path::Path;

use freshet_base::io::{DIRECT_ALIGN_BYTES, FileRef, Fs, Mode, RealFs};

/// Size of the file that is overwritten.
pub const FILE_BYTES: u64 = 64 << 20;

/// Bytes at an address that direct writes take.
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// Length and address of direct writes are multiples of this.
    pub const UNIT: usize = DIRECT_ALIGN_BYTES;

    /// That many zeros, a multiple of [`Aligned::UNIT`].
    pub fn zeros(len: usize) -> Self {
        assert!(len.is_multiple_of(Self::UNIT), "{len} is no multiple of {}", Self::UNIT);
        let bytes = vec![0; len + Self::UNIT];
        let start = bytes.as_ptr().align_offset(Self::UNIT);
        Self { bytes, start, len }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

/// Makes a file of [`FILE_BYTES`] zeros, synced, and opens it for direct synced writes.
pub fn preallocated(path: &Path) -> Result<FileRef, String> {
    let make = || {
        fs::write(path, vec![0; FILE_BYTES as usize])?;
        let file = RealFs.open(path, Mode::Write)?;
        file.sync()?;
        RealFs.open(path, Mode::Direct)
    };
    make().map_err(|error| format!("{}: {error}", path.display()))
}
