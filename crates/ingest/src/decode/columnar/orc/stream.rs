//! The bytes of a stream of an ORC file: unpacked block by block, as they are read.

use std::ops::Range;

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use freshet_base::{Result, bail};

use super::super::file::FileBytes;
use super::damaged;

/// How the blocks of a file are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    None,
    Zlib,
    Snappy,
    Lz4,
    Zstd,
}

/// The packing of a file, and the most bytes that a block of it unpacks to.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    pub packing: Packing,
    pub block_bytes: usize,
}

/// The largest block: that of writers is 256 KiB, or 64.
pub const BLOCK_BYTES_MAX: usize = 8 << 20;
/// How much of what is not packed is read at a time.
const READ_BYTES: usize = 64 << 10;
/// The length in front of a block.
const HEAD_BYTES: usize = 3;

impl Packed {
    /// The memory of a stream of this length while it is read.
    pub fn stream_bytes(self, length: u64) -> u64 {
        match self.packing {
            Packing::None => length.min(READ_BYTES as u64),
            // A block as it is stored and as it is read.
            _ => length.min(self.block_bytes as u64) + self.block_bytes as u64,
        }
    }

    /// Unpacks a block into `out`.
    fn unpack(self, block: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.resize(self.block_bytes, 0);
        let bytes = match self.packing {
            Packing::None => bail!(Internal, "nothing is packed"),
            Packing::Zlib => {
                let mut inflate = Decompress::new(false);
                let done = inflate.decompress(block, out, FlushDecompress::Finish);
                matches!(done, Ok(Status::StreamEnd)).then_some(inflate.total_out() as usize)
            }
            Packing::Snappy => snap::raw::Decoder::new().decompress(block, out).ok(),
            Packing::Lz4 => lz4_flex::block::decompress_into(block, out).ok(),
            Packing::Zstd => zstd::bulk::decompress_to_buffer(block, &mut out[..]).ok(),
        };
        out.truncate(bytes.ok_or_else(|| damaged("a block of it cannot be unpacked"))?);
        Ok(())
    }
}

/// A stream, read from its beginning.
pub struct Stream {
    file: FileBytes,
    packed: Packed,
    /// What is left of it in the file.
    left: Range<u64>,
    /// What was read and is not consumed.
    block: Bytes,
    /// The memory of blocks that were unpacked.
    spare: Vec<u8>,
    at: usize,
}

impl Stream {
    pub fn new(file: &FileBytes, packed: Packed, range: Range<u64>) -> Self {
        let (block, spare, at) = (Bytes::new(), Vec::new(), 0);
        Self { file: file.clone(), packed, left: range, block, spare, at }
    }

    /// One without bytes.
    pub fn empty(file: &FileBytes, packed: Packed) -> Self {
        Self::new(file, packed, 0..0)
    }

    fn current(&self) -> &[u8] {
        if self.spare.is_empty() { &self.block } else { &self.spare }
    }

    /// Reads the next block once the one before is consumed; `false` at the end.
    fn fill(&mut self) -> Result<bool> {
        while self.at == self.current().len() {
            if self.left.is_empty() {
                return Ok(false);
            }
            self.at = 0;
            self.spare.clear();
            self.block = match self.packed.packing {
                Packing::None => self.part(READ_BYTES.min(self.left_bytes()))?,
                _ => self.packed_block()?,
            };
        }
        Ok(true)
    }

    fn packed_block(&mut self) -> Result<Bytes> {
        let head = self.part(HEAD_BYTES)?;
        let head = u32::from_le_bytes([head[0], head[1], head[2], 0]);
        let (is_original, bytes) = (head & 1 == 1, head as usize >> 1);
        if bytes > self.packed.block_bytes {
            return Err(damaged("a block of it is longer than blocks may be"));
        }
        let block = self.part(bytes)?;
        if is_original {
            return Ok(block);
        }
        let mut unpacked = std::mem::take(&mut self.spare);
        self.packed.unpack(&block, &mut unpacked)?;
        self.spare = unpacked;
        Ok(Bytes::new())
    }

    fn left_bytes(&self) -> usize {
        usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX)
    }

    fn part(&mut self, bytes: usize) -> Result<Bytes> {
        if bytes > self.left_bytes() {
            return Err(damaged("a stream of it ends within a block"));
        }
        let part = self.file.part(self.left.start, bytes)?;
        self.left.start += bytes as u64;
        Ok(part)
    }

    /// # Errors
    /// At the end.
    #[inline]
    pub fn byte(&mut self) -> Result<u8> {
        if self.at == self.current().len() && !self.fill()? {
            return Err(damaged("a stream of it ends too early"));
        }
        let byte = self.current()[self.at];
        self.at += 1;
        Ok(byte)
    }

    /// Appends the next `count` bytes.
    pub fn read(&mut self, mut count: usize, out: &mut Vec<u8>) -> Result<()> {
        while count > 0 {
            if !self.fill()? {
                return Err(damaged("a stream of it ends too early"));
            }
            let current = self.current();
            let some = count.min(current.len() - self.at);
            out.extend_from_slice(&current[self.at..self.at + some]);
            self.at += some;
            count -= some;
        }
        Ok(())
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    /// All that is left, at most `limit` bytes.
    pub fn all(mut self, limit: usize) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        while self.fill()? {
            let part = &self.current()[self.at..];
            if all.len() + part.len() > limit {
                bail!(
                    OutOfRoom,
                    "a part of the ORC file takes more than {limit} bytes at once; write it with \
                     smaller stripes"
                );
            }
            all.extend_from_slice(part);
            self.at = self.current().len();
        }
        Ok(all)
    }

    /// A number in groups of seven bits, the lowest first.
    pub fn varint(&mut self) -> Result<u64> {
        match u64::try_from(self.wide_varint()?) {
            Ok(number) => Ok(number),
            Err(_) => Err(damaged("a number of it is too long")),
        }
    }

    pub fn wide_varint(&mut self) -> Result<u128> {
        let mut number = 0;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            number |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged("a number of it is too long"))
    }
}
