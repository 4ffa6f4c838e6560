//! Runs of numbers in streams of an ORC file: bytes, bits, and integers of both versions.

use std::collections::VecDeque;

use freshet_base::Result;

use super::damaged;
use super::stream::Stream;

/// A run has at most so many integers, and one more.
const RUN_MAX: u64 = 512;

/// Bytes: a run of equal ones, or some as they are.
pub struct ByteRuns {
    stream: Stream,
    left: usize,
    repeated: Option<u8>,
}

impl ByteRuns {
    pub fn new(stream: Stream) -> Self {
        Self { stream, left: 0, repeated: None }
    }

    pub fn next(&mut self) -> Result<u8> {
        if self.left == 0 {
            let head = self.stream.byte()?;
            (self.left, self.repeated) = match head {
                0..128 => (usize::from(head) + 3, Some(self.stream.byte()?)),
                _ => (256 - usize::from(head), None),
            };
        }
        self.left -= 1;
        match self.repeated {
            Some(byte) => Ok(byte),
            None => self.stream.byte(),
        }
    }
}

/// Bits, the highest of a byte first.
pub struct BitRuns {
    bytes: ByteRuns,
    byte: u8,
    left: u8,
}

impl BitRuns {
    pub fn new(stream: Stream) -> Self {
        Self { bytes: ByteRuns::new(stream), byte: 0, left: 0 }
    }

    pub fn next(&mut self) -> Result<bool> {
        if self.left == 0 {
            (self.byte, self.left) = (self.bytes.next()?, 8);
        }
        self.left -= 1;
        Ok(self.byte >> self.left & 1 == 1)
    }
}

/// Integers, whose bits are kept as they are: callers know whether they are signed.
pub struct IntRuns {
    stream: Stream,
    is_new: bool,
    signed: bool,
    ready: VecDeque<i64>,
}

impl IntRuns {
    /// `is_new` says which of both versions the stream has.
    pub fn new(stream: Stream, is_new: bool, signed: bool) -> Self {
        Self { stream, is_new, signed, ready: VecDeque::new() }
    }

    pub fn next(&mut self) -> Result<i64> {
        loop {
            if let Some(number) = self.ready.pop_front() {
                return Ok(number);
            }
            match self.is_new {
                true => self.new_run()?,
                false => self.old_run()?,
            }
        }
    }

    /// A length that is never negative.
    pub fn next_length(&mut self) -> Result<usize> {
        usize::try_from(self.next()?).map_err(|_| damaged("a length of it is negative"))
    }

    fn varint(&mut self) -> Result<i64> {
        let number = self.stream.varint()?;
        Ok(if self.signed { zigzag(number) } else { number.cast_signed() })
    }

    fn old_run(&mut self) -> Result<()> {
        let head = self.stream.byte()?.cast_signed();
        if head < 0 {
            for _ in 0..head.unsigned_abs() {
                let number = self.varint()?;
                self.ready.push_back(number);
            }
            return Ok(());
        }
        let step = i64::from(self.stream.byte()?.cast_signed());
        let first = self.varint()?;
        let numbers = (0..i64::from(head) + 3).map(|at| first.wrapping_add(step.wrapping_mul(at)));
        self.ready.extend(numbers);
        Ok(())
    }

    fn new_run(&mut self) -> Result<()> {
        let head = self.stream.byte()?;
        match head >> 6 {
            0 => self.short_repeat(head),
            1 => self.direct(head),
            2 => self.patched(head),
            _ => self.delta(head),
        }
    }

    fn short_repeat(&mut self, head: u8) -> Result<()> {
        let (bytes, count) = ((head >> 3 & 7) + 1, (head & 7) + 3);
        let number = self.big_endian(bytes)?;
        let number = if self.signed { zigzag(number) } else { number.cast_signed() };
        self.ready.extend((0..count).map(|_| number));
        Ok(())
    }

    fn big_endian(&mut self, bytes: u8) -> Result<u64> {
        let mut number = 0;
        for _ in 0..bytes {
            number = number << 8 | u64::from(self.stream.byte()?);
        }
        Ok(number)
    }

    /// The width in the first byte of a run, and the number of its integers.
    fn head(&mut self, head: u8) -> Result<(u8, u64)> {
        let count = (u64::from(head & 1) << 8 | u64::from(self.stream.byte()?)) + 1;
        Ok((head >> 1 & 31, count.min(RUN_MAX)))
    }

    fn direct(&mut self, head: u8) -> Result<()> {
        let (width, count) = self.head(head)?;
        let mut bits = Bits::default();
        for _ in 0..count {
            let number = bits.take(&mut self.stream, width_of(width))?;
            self.ready.push_back(match self.signed {
                true => zigzag(number),
                false => number.cast_signed(),
            });
        }
        Ok(())
    }

    /// Numbers above a base, of which few have more bits than the others.
    fn patched(&mut self, head: u8) -> Result<()> {
        let (width, count) = self.head(head)?;
        let width = width_of(width);
        let (third, fourth) = (self.stream.byte()?, self.stream.byte()?);
        let base_bytes = (third >> 5) + 1;
        let (patch_width, gap_width) = (width_of(third & 31), (fourth >> 5) + 1);
        let base = self.big_endian(base_bytes)?;
        let sign = 1_u64 << (8 * u32::from(base_bytes) - 1);
        let base = match base & sign {
            0 => base.cast_signed(),
            _ => (base & (sign - 1)).cast_signed().wrapping_neg(),
        };
        let mut bits = Bits::default();
        let numbers = (0..count).map(|_| bits.take(&mut self.stream, width));
        let mut numbers = numbers.collect::<Result<Vec<_>>>()?;
        let (mut bits, mut at) = (Bits::default(), 0_usize);
        let entry_width = closest(patch_width + gap_width)
            .ok_or_else(|| damaged("the patches of a run of it are too wide"))?;
        for _ in 0..fourth & 31 {
            let entry = bits.take(&mut self.stream, entry_width)?;
            let patch = entry & mask(patch_width);
            at += usize::try_from(entry >> patch_width).unwrap_or(usize::MAX);
            // A gap too wide for its bits is said by patches of nothing.
            let number = numbers.get_mut(at);
            let number = number.ok_or_else(|| damaged("a patch of it is behind its run"))?;
            if width < 64 {
                *number |= patch.unbounded_shl(width.into());
            }
        }
        let numbers = numbers.into_iter().map(|number| base.wrapping_add(number.cast_signed()));
        self.ready.extend(numbers);
        Ok(())
    }

    /// A first number, a first difference, and how much those behind are apart.
    fn delta(&mut self, head: u8) -> Result<()> {
        let (width, count) = self.head(head)?;
        let mut number = self.varint()?;
        let step = zigzag(self.stream.varint()?);
        self.ready.push_back(number);
        let mut bits = Bits::default();
        for at in 1..count {
            let apart = match (at, width) {
                (1, _) | (_, 0) => step,
                _ => {
                    let apart = bits.take(&mut self.stream, width_of(width))?.cast_signed();
                    if step < 0 { apart.wrapping_neg() } else { apart }
                }
            };
            number = number.wrapping_add(apart);
            self.ready.push_back(number);
        }
        Ok(())
    }
}

pub fn zigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ (number & 1).cast_signed().wrapping_neg()
}

fn mask(width: u8) -> u64 {
    1_u64.unbounded_shl(width.into()).wrapping_sub(1)
}

/// The number of bits that a code of five bits stands for.
fn width_of(code: u8) -> u8 {
    match code {
        0..=23 => code + 1,
        24 => 26,
        25 => 28,
        26 => 30,
        27 => 32,
        28 => 40,
        29 => 48,
        30 => 56,
        _ => 64,
    }
}

/// The smallest width of a code that has so many bits.
fn closest(bits: u8) -> Option<u8> {
    (0..32).map(width_of).find(|width| *width >= bits)
}

/// Numbers of a few bits each, the highest first; a run begins with a new byte.
#[derive(Default)]
struct Bits {
    byte: u8,
    left: u8,
}

impl Bits {
    fn take(&mut self, stream: &mut Stream, width: u8) -> Result<u64> {
        let (mut number, mut wanted) = (0_u64, width);
        while wanted > 0 {
            if self.left == 0 {
                (self.byte, self.left) = (stream.byte()?, 8);
            }
            let some = wanted.min(self.left);
            self.left -= some;
            let bits = u64::from(self.byte >> self.left) & mask(some);
            number = number << some | bits;
            wanted -= some;
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::stream::{Packed, Packing};
    use super::*;
    use crate::decode::columnar::FileBytes;

    fn stream(bytes: &[u8]) -> Stream {
        let packed = Packed { packing: Packing::None, block_bytes: 1 << 18 };
        let file = FileBytes::Memory(Bytes::copy_from_slice(bytes));
        Stream::new(&file, packed, 0..bytes.len() as u64)
    }

    fn ints(bytes: &[u8], is_new: bool, signed: bool) -> Vec<i64> {
        let mut runs = IntRuns::new(stream(bytes), is_new, signed);
        std::iter::from_fn(|| runs.next().ok()).collect()
    }

    /// The examples of the specification.
    #[test]
    fn integers_of_the_second_version() {
        assert_eq!(ints(&[0x0a, 0x27, 0x10], true, false), [10_000; 5]);
        let direct = [0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef];
        assert_eq!(ints(&direct, true, false), [23_713, 43_806, 57_005, 48_879]);
        let patched = [
            0x8e, 0x13, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46,
            0x50, 0x5a, 0x64, 0x6e, 0x78, 0x82, 0x8c, 0x96, 0xa0, 0xaa, 0xb4, 0xbe, 0xfc, 0xe8,
        ];
        let mut wanted = vec![2030, 2000, 2020, 1_000_000];
        wanted.extend((2040..=2190).step_by(10));
        assert_eq!(ints(&patched, true, false), wanted);
        let delta = [0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46];
        assert_eq!(ints(&delta, true, false), [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
    }

    #[test]
    fn integers_of_the_first_version() {
        let falling = (1..=100).rev().collect::<Vec<_>>();
        assert_eq!(ints(&[0x61, 0xff, 0x64], false, false), falling);
        assert_eq!(ints(&[0xfb, 2, 3, 6, 7, 11], false, false), [2, 3, 6, 7, 11]);
        assert_eq!(ints(&[0xfe, 1, 4], false, true), [-1, 2]);
    }

    #[test]
    fn bytes_and_bits() {
        let bytes = |bytes: &[u8]| {
            let mut runs = ByteRuns::new(stream(bytes));
            std::iter::from_fn(|| runs.next().ok()).collect::<Vec<_>>()
        };
        assert_eq!(bytes(&[0x61, 0]), [0; 100]);
        assert_eq!(bytes(&[0xfe, 0x44, 0x45]), [0x44, 0x45]);
        let mut bits = BitRuns::new(stream(&[0xff, 0x80]));
        let bits = std::iter::from_fn(|| bits.next().ok()).collect::<Vec<_>>();
        assert_eq!(bits, [true, false, false, false, false, false, false, false]);
    }

    #[test]
    fn runs_that_end_too_early_are_refused() {
        for bytes in [&[][..], &[0x5e], &[0x5e, 0x03], &[0x8e, 0x13, 0x2b], &[0xc6, 0x09, 0x02]] {
            let mut runs = IntRuns::new(stream(bytes), true, false);
            assert!(runs.next().is_err(), "{bytes:?}");
        }
        // A patch behind the end of its run.
        let mut runs =
            IntRuns::new(stream(&[0x80, 0x00, 0x00, 0xe1, 0, 0, 0xff, 0xff]), true, false);
        assert!(runs.next().is_err());
    }
}
