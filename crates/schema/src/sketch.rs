//! Sketches: values that stand for sets. BITMAP holds numbers exactly, HLL tells about how many
//! values there were. A stored one begins with a byte that says which it is
//! (`docs/rfc/0036-sketches.md` has the format), so neither passes for the other.

mod bitmap;
mod hash;
mod hll;

use std::fmt;

use crate::{ColumnType, TEXT_BYTES_MAX};

pub use bitmap::Bitmap;
pub use hash::{bitmap_hash, bitmap_hash64, hll_hash};
pub use hll::Hll;

/// The longest stored sketch, in bytes; a row must fit in a log record.
pub const SKETCH_BYTES_MAX: usize = TEXT_BYTES_MAX as usize;

/// Why bytes are no sketch, or a sketch cannot be stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadSketch {
    /// Bytes that no sketch has.
    Damaged(&'static str),
    /// It takes so many bytes, and may take `limit`.
    TooLarge { bytes: u64, limit: u64 },
}

impl fmt::Display for BadSketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(why) => f.write_str(why),
            Self::TooLarge { bytes, limit } => {
                write!(f, "it takes {bytes} bytes, more than {limit}")
            }
        }
    }
}

/// What kinds of sketches there are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SketchKind {
    Bitmap,
    Hll,
}

impl SketchKind {
    /// The kind that a stored sketch says it is.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match *bytes.first()? {
            tag if bitmap::TAGS.contains(&tag) => Some(Self::Bitmap),
            tag if hll::TAGS.contains(&tag) => Some(Self::Hll),
            _ => None,
        }
    }

    /// The stored form of the empty one.
    pub const fn empty(self) -> &'static [u8] {
        match self {
            Self::Bitmap => &[bitmap::EMPTY],
            Self::Hll => &[hll::EMPTY],
        }
    }

    /// The name of its type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bitmap => "BITMAP",
            Self::Hll => "HLL",
        }
    }

    /// The function that makes one of a value.
    pub const fn made_by(self) -> &'static str {
        match self {
            Self::Bitmap => "to_bitmap",
            Self::Hll => "hll_hash",
        }
    }

    /// Joins stored sketches of this kind, of which there is at least one.
    ///
    /// # Errors
    /// When one of them is none, or all together are too large.
    pub fn union<'a>(self, sketches: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>, BadSketch> {
        let mut out = Vec::new();
        match self {
            Self::Bitmap => {
                let mut all = Bitmap::default();
                for sketch in sketches {
                    all.unite(&Bitmap::read(sketch)?);
                }
                all.write(&mut out);
            }
            Self::Hll => {
                let mut all = Hll::default();
                for sketch in sketches {
                    all.unite(&Hll::read(sketch)?);
                }
                all.write(&mut out);
            }
        }
        Ok(out)
    }
}

impl ColumnType {
    /// The kind of sketch that its values are.
    pub const fn sketch(self) -> Option<SketchKind> {
        match self {
            Self::Bitmap => Some(SketchKind::Bitmap),
            Self::Hll => Some(SketchKind::Hll),
            _ => None,
        }
    }
}

/// Takes the next `N` bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], BadSketch> {
    let (value, rest) = bytes.split_first_chunk().ok_or(BadSketch::Damaged("it ends too early"))?;
    *bytes = rest;
    Ok(*value)
}

/// Checks that nothing follows.
fn end(bytes: &[u8]) -> Result<(), BadSketch> {
    match bytes.is_empty() {
        true => Ok(()),
        false => Err(BadSketch::Damaged("more follows behind its end")),
    }
}

#[cfg(test)]
mod tests;
