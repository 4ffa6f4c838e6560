//! Unpacks compressed bodies as they arrive, a bounded part at a time, whatever they unpack to.

use std::io::{self, Write};

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress};
use freshet_base::{Error, Result, err};
use zstd::stream::raw::{Decoder as Zstd, InBuffer, Operation, OutBuffer};

use super::blocks::{Blocks, Codec};
use super::headers::Compression;
use super::lz4::Lz4Frame;

/// How much is unpacked at a time.
const PART_BYTES: usize = 64 << 10;

/// Unpacks one body, which may have several streams one behind the other.
pub(super) struct Unpacker {
    compression: Compression,
    decoder: Decoder,
    /// What was received and is not unpacked yet.
    input: Bytes,
    /// Whether more may come without further input.
    is_full: bool,
    /// Whether all streams that began have ended.
    has_ended: bool,
    read_bytes: u64,
}

enum Decoder {
    // Boxed, since it is large.
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zlib(Decompress),
    Bzip2(bzip2::Decompress),
    Zstd(Zstd<'static>),
    Lz4(Box<Lz4Frame>),
    Blocks(Box<Blocks>),
}

/// What one step of a decoder did.
struct Step {
    read: usize,
    has_ended: bool,
}

impl Unpacker {
    /// # Errors
    /// `OutOfRoom` when zstd gets no memory.
    pub fn new(compression: Compression) -> Result<Self> {
        let decoder = Decoder::new(compression)
            .map_err(|error| err!(OutOfRoom, "a body cannot be unpacked: {error}"))?;
        let input = Bytes::new();
        Ok(Self { compression, decoder, input, is_full: false, has_ended: true, read_bytes: 0 })
    }

    /// Adds what was received.
    ///
    /// # Panics
    /// Unless [`Self::next`] has returned `None`.
    pub fn feed(&mut self, bytes: Bytes) {
        assert!(self.input.is_empty(), "a body is unpacked before more of it is received");
        self.input = bytes;
    }

    /// The next unpacked part, or `None` when it needs more input.
    ///
    /// # Errors
    /// `WrongArguments` when the body is not what it says.
    pub fn next(&mut self) -> Result<Option<Bytes>> {
        let mut out = Vec::with_capacity(PART_BYTES);
        while !self.input.is_empty() || self.is_full {
            if self.has_ended && !self.input.is_empty() {
                self.decoder
                    .begin_stream(self.compression)
                    .map_err(|error| self.damaged(&error))?;
                self.has_ended = false;
            }
            let step = self.decoder.step(&self.input, &mut out);
            let Step { read, has_ended } = step.map_err(|error| self.damaged(&error))?;
            self.has_ended = has_ended;
            self.is_full = !has_ended && out.len() >= PART_BYTES;
            if read == 0 && out.is_empty() && !has_ended && !self.input.is_empty() {
                return Err(self.damaged(&"it goes on with what is no such stream"));
            }
            self.input.advance(read);
            self.read_bytes += read as u64;
            if !out.is_empty() {
                return Ok(Some(out.into()));
            }
        }
        Ok(None)
    }

    /// What is left at the end of the body.
    ///
    /// # Errors
    /// `WrongArguments` when the body ends early.
    pub fn finish(&mut self) -> Result<Bytes> {
        if let Decoder::Gzip(gzip) = &mut self.decoder
            && self.read_bytes > 0
        {
            let rest = gzip.try_finish().map(|()| std::mem::take(gzip.get_mut()));
            return rest.map(Bytes::from).map_err(|error| self.damaged(&error));
        }
        match self.has_ended {
            true => Ok(Bytes::new()),
            false => Err(self.damaged(&"it ends in the middle")),
        }
    }

    fn damaged(&self, what: &dyn std::fmt::Display) -> Error {
        let name = self.compression.name();
        let at = self.read_bytes;
        err!(
            WrongArguments,
            "the body cannot be unpacked as {name} after its first {at} bytes: {what}"
        )
    }
}

impl Decoder {
    fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Compression::Zlib => Self::Zlib(Decompress::new(true)),
            Compression::Bzip2 => Self::Bzip2(bzip2::Decompress::new(false)),
            Compression::Zstd => Self::Zstd(Zstd::new()?),
            Compression::Lz4 => Self::Lz4(Box::new(Lz4Frame::new())),
            Compression::Lz4Block => Self::Blocks(Box::new(Blocks::new(Codec::Lz4))),
            Compression::SnappyBlock => Self::Blocks(Box::new(Blocks::new(Codec::Snappy))),
        })
    }

    /// Begins a stream. Those of gzip and zstd begin by themselves.
    fn begin_stream(&mut self, compression: Compression) -> io::Result<()> {
        if matches!(self, Self::Zlib(_) | Self::Bzip2(_) | Self::Lz4(_)) {
            *self = Self::new(compression)?;
        }
        Ok(())
    }

    /// Unpacks into the room of `out`, which gzip may exceed by what it keeps itself, 32 KiB.
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<Step> {
        match self {
            Self::Gzip(gzip) => {
                std::mem::swap(gzip.get_mut(), out);
                let mut read = 0;
                while read < input.len() && gzip.get_ref().len() < PART_BYTES {
                    match gzip.write(&input[read..])? {
                        0 => break,
                        more => read += more,
                    }
                }
                std::mem::swap(gzip.get_mut(), out);
                // Whether it has ended is known when it is finished.
                Ok(Step { read, has_ended: false })
            }
            Self::Zlib(zlib) => {
                let before = zlib.total_in();
                let status = zlib.decompress_vec(input, out, FlushDecompress::None)?;
                let read = (zlib.total_in() - before) as usize;
                Ok(Step { read, has_ended: status == flate2::Status::StreamEnd })
            }
            Self::Bzip2(bzip2) => {
                let before = bzip2.total_in();
                let status = bzip2.decompress_vec(input, out)?;
                let read = (bzip2.total_in() - before) as usize;
                Ok(Step { read, has_ended: status == bzip2::Status::StreamEnd })
            }
            Self::Zstd(zstd) => {
                let mut input = InBuffer::around(input);
                let hint = zstd.run(&mut input, &mut OutBuffer::around(out))?;
                Ok(Step { read: input.pos(), has_ended: hint == 0 })
            }
            Self::Lz4(frame) => {
                let (read, has_ended) = frame.step(input, out)?;
                Ok(Step { read, has_ended })
            }
            Self::Blocks(blocks) => {
                let (read, has_ended) = blocks.step(input, out)?;
                Ok(Step { read, has_ended })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

    use super::*;

    const ALL: [Compression; 7] = [
        Compression::Gzip,
        Compression::Zlib,
        Compression::Bzip2,
        Compression::Zstd,
        Compression::Lz4,
        Compression::Lz4Block,
        Compression::SnappyBlock,
    ];

    fn pack(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        match compression {
            Compression::Gzip => {
                let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
            Compression::Zlib => {
                let mut to =
                    flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
            Compression::Bzip2 => {
                let mut to = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(6));
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
            Compression::Zstd => zstd::encode_all(bytes, 3).unwrap(),
            Compression::Lz4 => lz4(bytes, FrameInfo::new().content_checksum(true)),
            Compression::Lz4Block => blocks(bytes, lz4_flex::block::compress),
            Compression::SnappyBlock => {
                blocks(bytes, |part| snap::raw::Encoder::new().compress_vec(part).unwrap())
            }
        }
    }

    /// Blocks of two pieces each.
    fn blocks(bytes: &[u8], pack: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut all = Vec::new();
        for block in bytes.chunks(256 << 10) {
            all.extend_from_slice(&(block.len() as u32).to_be_bytes());
            for piece in block.chunks(block.len().div_ceil(2)) {
                let packed = pack(piece);
                all.extend_from_slice(&(packed.len() as u32).to_be_bytes());
                all.extend_from_slice(&packed);
            }
        }
        all
    }

    fn lz4(bytes: &[u8], info: FrameInfo) -> Vec<u8> {
        let mut to = FrameEncoder::with_frame_info(info, Vec::new());
        to.write_all(bytes).unwrap();
        to.finish().unwrap()
    }

    #[test]
    fn frames_of_lz4_have_blocks_of_every_kind() {
        let rows = rows();
        for mode in [BlockMode::Linked, BlockMode::Independent] {
            for size in [BlockSize::Max64KB, BlockSize::Max1MB] {
                let info = FrameInfo::new().block_mode(mode).block_size(size);
                let info = info.block_checksums(true).content_size(Some(rows.len() as u64));
                let packed = lz4(&rows, info);
                for step in [1, 1000, 1 << 20] {
                    assert!(unpack(Compression::Lz4, &packed, step).unwrap() == rows);
                }
                let mut flipped = packed.clone();
                flipped[packed.len() / 2] ^= 1;
                unpack(Compression::Lz4, &flipped, 1000).unwrap_err();
            }
        }
        let skipped =
            [&[0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9][..], &lz4(b"x", FrameInfo::new())];
        assert_eq!(unpack(Compression::Lz4, &skipped.concat(), 2).unwrap(), b"x");
    }

    fn unpack(compression: Compression, packed: &[u8], step: usize) -> Result<Vec<u8>> {
        let mut unpacker = Unpacker::new(compression)?;
        let mut all = Vec::new();
        for part in packed.chunks(step) {
            unpacker.feed(Bytes::copy_from_slice(part));
            while let Some(part) = unpacker.next()? {
                assert!(part.len() <= 1 << 20, "{} bytes at once", part.len());
                all.extend_from_slice(&part);
            }
        }
        all.extend_from_slice(&unpacker.finish()?);
        Ok(all)
    }

    fn rows() -> Vec<u8> {
        (0u64..40_000).flat_map(|row| format!("{row},{}\n", row * row % 977).into_bytes()).collect()
    }

    #[test]
    fn what_was_packed_is_unpacked_in_parts_of_any_size() {
        let rows = rows();
        for compression in ALL {
            let packed = pack(compression, &rows);
            for step in [1, 7, 1000, 1 << 20] {
                let back = unpack(compression, &packed, step).unwrap();
                assert!(back == rows, "{compression:?} by {step}");
            }
            assert_eq!(unpack(compression, &[], 1).unwrap(), b"");
            let empty = pack(compression, b"");
            assert_eq!(unpack(compression, &empty, 1).unwrap(), b"");
        }
    }

    #[test]
    fn streams_may_follow_each_other() {
        for compression in ALL {
            let packed = [pack(compression, b"1,2\n"), pack(compression, b"3,4\n")].concat();
            for step in [1, 1000] {
                assert_eq!(unpack(compression, &packed, step).unwrap(), b"1,2\n3,4\n");
            }
        }
    }

    #[test]
    fn a_bomb_comes_in_bounded_parts() {
        let zeros = vec![0; 64 << 20];
        for compression in ALL {
            let packed = pack(compression, &zeros);
            // Snappy makes a twentieth of it, the others less.
            assert!(packed.len() < 4 << 20);
            let mut unpacker = Unpacker::new(compression).unwrap();
            unpacker.feed(packed.into());
            let mut bytes = 0;
            while let Some(part) = unpacker.next().unwrap() {
                assert!(part.len() <= 1 << 20, "{compression:?}: {} bytes at once", part.len());
                bytes += part.len();
            }
            assert_eq!(bytes + unpacker.finish().unwrap().len(), zeros.len());
        }
    }

    #[test]
    fn a_torn_or_foreign_body_is_refused() {
        let rows = rows();
        for compression in ALL {
            let packed = pack(compression, &rows);
            for len in [1, 5, packed.len() / 2, packed.len() - 1] {
                let error = unpack(compression, &packed[..len], 4096).unwrap_err();
                assert!(error.message().contains(compression.name()), "{}", error.message());
            }
            unpack(compression, &rows, 4096).unwrap_err();
            let behind = [&packed[..], b"and something else"].concat();
            unpack(compression, &behind, 4096).unwrap_err();
            let mut flipped = packed.clone();
            flipped[packed.len() / 2] ^= 0x10;
            let back = unpack(compression, &flipped, 4096);
            assert!(back.is_err() || back.unwrap() != rows);
        }
    }
}
