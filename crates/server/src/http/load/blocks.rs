//! Unpacks blocks of LZ4 and Snappy as they arrive, in the form of Hadoop: the size of a block,
//! then the pieces that it was packed in, each with its packed size before it. Sizes are of four
//! bytes, the first one highest. Nothing marks the end: a body ends behind a block.

use std::io;

use super::lz4::pass;

/// The largest block.
const BLOCK_BYTES_MAX: usize = 4 << 20;
/// How much more a piece that could not be packed may take than it holds.
const PIECE_MARGIN_BYTES: usize = 64 << 10;

/// How pieces are packed.
#[derive(Clone, Copy)]
pub(super) enum Codec {
    Lz4,
    Snappy,
}

/// What the next bytes are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    BlockSize,
    PieceSize,
    Piece,
}

/// The blocks of a body.
pub(super) struct Blocks {
    codec: Codec,
    unit: Unit,
    /// Of the unit, what has arrived, and how much it has.
    gathered: Vec<u8>,
    wanted: usize,
    /// How much of the block is not unpacked yet.
    left: usize,
    /// The unpacked piece, and how much of it was passed on.
    piece: Vec<u8>,
    passed: usize,
}

impl Blocks {
    pub fn new(codec: Codec) -> Self {
        let (gathered, piece) = (Vec::new(), Vec::new());
        Self { codec, unit: Unit::BlockSize, gathered, wanted: 4, left: 0, piece, passed: 0 }
    }

    /// Unpacks into the room of `out`: how much was read, and whether a block has ended.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<(usize, bool)> {
        let mut read = 0;
        loop {
            if !pass(&self.piece, &mut self.passed, out) {
                return Ok((read, false));
            }
            let taken = (self.wanted - self.gathered.len()).min(input.len() - read);
            self.gathered.extend_from_slice(&input[read..read + taken]);
            read += taken;
            if self.gathered.len() < self.wanted {
                let has_ended = self.unit == Unit::BlockSize && self.gathered.is_empty();
                return Ok((read, has_ended));
            }
            let bytes = std::mem::take(&mut self.gathered);
            self.take(&bytes)?;
        }
    }

    /// Takes a whole unit, and says what comes next.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.unit {
            Unit::BlockSize => {
                self.left = size(bytes);
                if self.left > BLOCK_BYTES_MAX {
                    return Err(bad("a block is larger than 4 MiB"));
                }
            }
            Unit::PieceSize => {
                self.wanted = size(bytes);
                if self.wanted == 0 || self.wanted > self.left + self.left / 2 + PIECE_MARGIN_BYTES
                {
                    return Err(bad("a piece is larger than its block, or empty"));
                }
                self.unit = Unit::Piece;
                return Ok(());
            }
            Unit::Piece => self.unpack(bytes)?,
        }
        self.unit = if self.left == 0 { Unit::BlockSize } else { Unit::PieceSize };
        self.wanted = 4;
        Ok(())
    }

    fn unpack(&mut self, packed: &[u8]) -> io::Result<()> {
        self.piece.resize(self.left, 0);
        let unpacked = match self.codec {
            Codec::Lz4 => lz4_flex::block::decompress_into(packed, &mut self.piece)
                .map_err(|error| bad(&error.to_string()))?,
            Codec::Snappy => snap::raw::Decoder::new()
                .decompress(packed, &mut self.piece)
                .map_err(|error| bad(&error.to_string()))?,
        };
        if unpacked == 0 {
            return Err(bad("a piece holds nothing"));
        }
        self.piece.truncate(unpacked);
        self.left -= unpacked;
        self.passed = 0;
        Ok(())
    }
}

fn size(bytes: &[u8]) -> usize {
    u32::from_be_bytes(bytes.try_into().expect("a size has four bytes")) as usize
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
