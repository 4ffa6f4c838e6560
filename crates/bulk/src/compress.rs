//! Packed files.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use clap::ValueEnum;

/// How a file is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
    Lz4,
    Bzip2,
}

/// What packed files begin with. No text begins so.
const MAGIC: [(&[u8], Compression); 3] = [
    (&[0x1f, 0x8b], Compression::Gzip),
    (&[0x28, 0xb5, 0x2f, 0xfd], Compression::Zstd),
    (&[0x04, 0x22, 0x4d, 0x18], Compression::Lz4),
];
/// Bzip2 begins like a text, with a digit between these.
const BZIP2_MAGIC: (&[u8], &[u8]) = (b"BZh", b"1AY&SY");
/// How many bytes tell how a file is packed.
const MAGIC_BYTES: usize = 10;
const BUFFER_BYTES: usize = 256 << 10;

impl Compression {
    /// By the ending of a name.
    pub fn of_name(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst" | "zstd") => Self::Zstd,
            Some("lz4") => Self::Lz4,
            Some("bz2") => Self::Bzip2,
            _ => Self::None,
        }
    }

    /// The ending of names of such files.
    pub fn ending(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
            Self::Lz4 => ".lz4",
            Self::Bzip2 => ".bz2",
        }
    }

    /// Unpacks what `input` has; several streams one behind the other are one.
    ///
    /// # Errors
    /// When zstd gets no memory.
    fn reader(self, input: impl BufRead + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::None => Box::new(input),
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(input)?),
            Self::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(input)),
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
        })
    }
}

/// Unpacks `input`, by what it begins with if `compression` does not say how.
///
/// # Errors
/// Of the input.
pub fn unpacked(
    mut input: impl Read + Send + 'static,
    compression: Option<Compression>,
) -> io::Result<Box<dyn Read + Send>> {
    let (compression, begin) = match compression {
        Some(compression) => (compression, Vec::new()),
        None => sniff(&mut input)?,
    };
    let input = io::Cursor::new(begin).chain(input);
    compression.reader(BufReader::with_capacity(BUFFER_BYTES, input))
}

/// How an input is packed by what it begins with, and that beginning.
///
/// # Errors
/// Of the input.
pub fn sniff(input: &mut impl Read) -> io::Result<(Compression, Vec<u8>)> {
    let mut begin = Vec::with_capacity(MAGIC_BYTES);
    input.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut begin)?;
    let is = |(magic, _): &&(&[u8], Compression)| begin.starts_with(magic);
    let (before, behind) = BZIP2_MAGIC;
    let is_bzip2 = begin.strip_prefix(before).is_some_and(|rest| rest.get(1..) == Some(behind));
    let found = MAGIC.iter().find(is).map_or(Compression::None, |(_, found)| *found);
    Ok((if is_bzip2 { Compression::Bzip2 } else { found }, begin))
}

/// Packs what is written to it.
pub enum Packer<W: Write> {
    None(W),
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
    Lz4(Box<lz4_flex::frame::FrameEncoder<W>>),
    Bzip2(bzip2::write::BzEncoder<W>),
}

impl<W: Write> Packer<W> {
    /// # Errors
    /// When zstd gets no memory.
    pub fn new(compression: Compression, to: W) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::None(to),
            Compression::Gzip => {
                Self::Gzip(flate2::write::GzEncoder::new(to, flate2::Compression::default()))
            }
            Compression::Zstd => {
                Self::Zstd(zstd::stream::write::Encoder::new(to, zstd::DEFAULT_COMPRESSION_LEVEL)?)
            }
            Compression::Lz4 => Self::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(to))),
            Compression::Bzip2 => {
                Self::Bzip2(bzip2::write::BzEncoder::new(to, bzip2::Compression::default()))
            }
        })
    }

    /// Writes the end; returns what it was written to.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::None(to) => Ok(to),
            Self::Gzip(to) => to.finish(),
            Self::Zstd(to) => to.finish(),
            Self::Lz4(to) => to.finish().map_err(io::Error::other),
            Self::Bzip2(to) => to.finish(),
        }
    }

    fn to(&mut self) -> &mut dyn Write {
        match self {
            Self::None(to) => to,
            Self::Gzip(to) => to,
            Self::Zstd(to) => to,
            Self::Lz4(to) => to,
            Self::Bzip2(to) => to,
        }
    }
}

impl<W: Write> Write for Packer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_what_they_begin_with() {
        let text = "1,a\n".repeat(100_000);
        let all = [
            Compression::None,
            Compression::Gzip,
            Compression::Zstd,
            Compression::Lz4,
            Compression::Bzip2,
        ];
        let packed = all.map(|compression| {
            let mut packer = Packer::new(compression, Vec::new()).unwrap();
            packer.write_all(text.as_bytes()).unwrap();
            packer.finish().unwrap()
        });
        let twice = packed.iter().map(|packed| (packed.repeat(2), text.repeat(2)));
        let once = packed.iter().map(|packed| (packed.clone(), text.clone()));
        for (packed, text) in once.chain(twice) {
            let mut back = String::new();
            let input = io::Cursor::new(packed);
            let mut input = unpacked(input, None).unwrap();
            while input.read_to_string(&mut back).unwrap() > 0 {}
            assert!(back == text);
        }
    }
}
