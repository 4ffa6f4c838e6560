//! Synced writes as the log does them: overwriting a preallocated file, past the page cache.

use std::fs;
use std::path::Path;

use freshet_base::io::{DIRECT_ALIGN_BYTES, FileRef, Fs, Mode, RealFs};

/// The size of the file.
pub const FILE_BYTES: u64 = 64 << 20;

/// A buffer with the alignment that direct writes need.
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// The alignment of length and address.
    pub const UNIT: usize = DIRECT_ALIGN_BYTES;

    /// A zeroed buffer; `len` is a multiple of [`Aligned::UNIT`].
    pub fn zeros(len: usize) -> Self {
        assert!(len.is_multiple_of(Self::UNIT), "{len} is no multiple of {}", Self::UNIT);
        let bytes = vec![0; len + Self::UNIT];
        let start = bytes.as_ptr().align_offset(Self::UNIT);
        Self { bytes, start, len }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

/// Creates and syncs a file of [`FILE_BYTES`] zeros, and opens it for direct synced writes.
pub fn preallocated(path: &Path) -> Result<FileRef, String> {
    let make = || {
        fs::write(path, vec![0; FILE_BYTES as usize])?;
        let file = RealFs.open(path, Mode::Write)?;
        file.sync()?;
        RealFs.open(path, Mode::Direct)
    };
    make().map_err(|error| format!("{}: {error}", path.display()))
}
