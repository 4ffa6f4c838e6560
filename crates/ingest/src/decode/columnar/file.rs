//! The bytes of a file that was received, in memory or on disk, as readers of Parquet want them.

use std::io::{self, Read};

use bytes::Bytes;
use freshet_base::io::FileRef;
use freshet_base::{Error, Result};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

/// How much is read at a time where a reader does not say how much it needs.
const READ_BYTES: usize = 64 << 10;

/// The bytes of a file that was received.
#[derive(Clone)]
pub enum FileBytes {
    Memory(Bytes),
    Disk { file: FileRef, bytes: u64 },
}

impl FileBytes {
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Disk { bytes, .. } => *bytes,
        }
    }

    /// As [`Self::read`], with an error for people.
    pub(super) fn part(&self, at: u64, bytes: usize) -> Result<Bytes> {
        self.read(at, bytes).map_err(|error| Error::io("read the body of a load", error))
    }

    fn read(&self, at: u64, bytes: usize) -> io::Result<Bytes> {
        let end = at.checked_add(bytes as u64).filter(|end| *end <= self.len_bytes());
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        match self {
            Self::Memory(all) => Ok(all.slice(at as usize..end as usize)),
            Self::Disk { file, .. } => {
                let mut buffer = vec![0; bytes];
                file.read_exact_at(&mut buffer, at)?;
                Ok(buffer.into())
            }
        }
    }
}

impl Length for FileBytes {
    fn len(&self) -> u64 {
        self.len_bytes()
    }
}

impl ChunkReader for FileBytes {
    type T = Reading;

    fn get_read(&self, start: u64) -> ParquetResult<Reading> {
        Ok(Reading { file: self.clone(), at: start, buffer: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.read(start, length).map_err(|error| ParquetError::External(Box::new(error)))
    }
}

/// Reads on from a place in a file.
pub struct Reading {
    file: FileBytes,
    at: u64,
    buffer: Bytes,
}

impl Read for Reading {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.buffer.is_empty() {
            let left = self.file.len_bytes().saturating_sub(self.at);
            let bytes = READ_BYTES.min(usize::try_from(left).unwrap_or(READ_BYTES));
            self.buffer = self.file.read(self.at, bytes)?;
            self.at += bytes as u64;
        }
        let count = out.len().min(self.buffer.len());
        out[..count].copy_from_slice(&self.buffer.split_to(count));
        Ok(count)
    }
}
