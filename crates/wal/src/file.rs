//! Log files: created with zeros, opened for direct writes.

use std::io;
use std::path::{Path, PathBuf};

use freshet_base::io::{FileRef, Fs, Mode};

use crate::BLOCK_BYTES;
use crate::buffer::AlignedBuffer;

/// Zeros are written in pieces of this size: large enough for the device, small enough for the
/// log's own writes to get in between.
const ZERO_PIECE_BYTES: usize = 1 << 20;

/// A log file as listed in metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFile {
    /// Its number, never reused.
    pub id: u64,
    pub path: PathBuf,
    /// The length with which it was created; files of one log may differ.
    pub bytes: u64,
}

/// Creates a log file of `file_bytes` zeros, which is durable with its name on return. The blocks
/// are written instead of only allocated, because a synced write to unwritten blocks costs a
/// journal entry of the file system each time. They bypass the page cache, which would collect the
/// whole file and then keep the device busy for a long time.
///
/// # Errors
/// Those of the file system. A file left by an earlier attempt is replaced.
pub fn make_file(fs: &dyn Fs, path: &Path, file_bytes: u64) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    if fs.exists(path) {
        fs.remove_file(path)?;
    }
    fs.open(path, Mode::CreateNew)?.set_len(file_bytes)?;
    let file = fs.open(path, Mode::Direct)?;
    let mut zeros = AlignedBuffer::new(ZERO_PIECE_BYTES);
    zeros.push_zeros(ZERO_PIECE_BYTES);
    let mut at = 0;
    while at < file_bytes {
        let left = usize::try_from(file_bytes - at).unwrap_or(ZERO_PIECE_BYTES);
        let piece = &zeros.bytes()[..left.min(ZERO_PIECE_BYTES)];
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    file.sync()?;
    fs.sync_dir(parent)
}

/// A log file opened for direct writes.
#[derive(Clone)]
pub(crate) struct OpenFile {
    pub log_file: LogFile,
    pub file: FileRef,
}

impl OpenFile {
    pub(crate) fn open(fs: &dyn Fs, log_file: LogFile) -> io::Result<Self> {
        let file = fs.open(&log_file.path, Mode::Direct)?;
        let len_bytes = file.len_bytes()?;
        if len_bytes != log_file.bytes {
            let (path, expected) = (log_file.path.display(), log_file.bytes);
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("log file {path} has {len_bytes} bytes, expected {expected}"),
            ));
        }
        Ok(Self { log_file, file })
    }
}

/// The next possible start of a batch at or after `offset`.
pub(crate) const fn next_block(offset: u64) -> u64 {
    offset.next_multiple_of(BLOCK_BYTES)
}
