//! The structure that a footer must have before the Parquet crate may read it.
//!
//! A footer is a few structs in Thrift's compact protocol. The Parquet crate skips what it does
//! not know, and a list of two billion booleans that takes six bytes keeps it busy for seconds
//! (found by the fuzzer); and it reads a field as what it should be, whatever the bytes say that
//! it is. Here a footer passes only with fields that this server writes, each of the type it
//! has, and with no list longer than the bytes that are left.
//!
//! Source: `parquet.thrift` of the Parquet format, and Thrift's compact protocol.

/// What a value looks like.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// A boolean: in a field its type says it, in a list it takes a byte.
    Flag,
    /// A byte.
    I8,
    /// Integers of these sizes, as zigzag varints.
    I16,
    I32,
    I64,
    /// Bytes behind their number.
    Bytes,
    /// Values of one shape behind their number.
    List(&'static Shape),
    /// Fields, each with its number.
    Struct(&'static [(i64, Shape)]),
}

use Shape::{Bytes, Flag, I8, I16, I32, I64, List, Struct};

/// A struct without fields: the kinds of a union.
const KIND: Shape = Struct(&[]);
const KEY_VALUE: Shape = Struct(&[(1, Bytes), (2, Bytes)]);
const TIME_UNIT: Shape = Struct(&[(1, KIND), (2, KIND), (3, KIND)]);
const TIME: Shape = Struct(&[(1, Flag), (2, TIME_UNIT)]);
const LOGICAL_TYPE: Shape = Struct(&[
    (1, KIND),
    (5, Struct(&[(1, I32), (2, I32)])),
    (6, KIND),
    (7, TIME),
    (8, TIME),
    (10, Struct(&[(1, I8), (2, Flag)])),
    (12, KIND),
]);
const SCHEMA_ELEMENT: Shape = Struct(&[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Bytes),
    (5, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, LOGICAL_TYPE),
]);
const STATISTICS: Shape = Struct(&[
    (1, Bytes),
    (2, Bytes),
    (3, I64),
    (4, I64),
    (5, Bytes),
    (6, Bytes),
    (7, Flag),
    (8, Flag),
]);
const ENCODING_STATISTICS: Shape = Struct(&[(1, I32), (2, I32), (3, I32)]);
const SIZE_STATISTICS: Shape = Struct(&[(1, I64), (2, List(&I64)), (3, List(&I64))]);
const COLUMN: Shape = Struct(&[
    (1, I32),
    (2, List(&I32)),
    (3, List(&Bytes)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, List(&KEY_VALUE)),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, STATISTICS),
    (13, List(&ENCODING_STATISTICS)),
    (14, I64),
    (15, I32),
    (16, SIZE_STATISTICS),
]);
const COLUMN_CHUNK: Shape =
    Struct(&[(1, Bytes), (2, I64), (3, COLUMN), (4, I64), (5, I32), (6, I64), (7, I32)]);
const SORTING_COLUMN: Shape = Struct(&[(1, I32), (2, Flag), (3, Flag)]);
const ROW_GROUP: Shape = Struct(&[
    (1, List(&COLUMN_CHUNK)),
    (2, I64),
    (3, I64),
    (4, List(&SORTING_COLUMN)),
    (5, I64),
    (6, I64),
    (7, I16),
]);
const COLUMN_ORDER: Shape = Struct(&[(1, KIND)]);
const PAGE_LOCATION: Shape = Struct(&[(1, I64), (2, I32), (3, I64)]);

/// What stands at the end of a file.
pub(super) const FILE: Shape = Struct(&[
    (1, I32),
    (2, List(&SCHEMA_ELEMENT)),
    (3, I64),
    (4, List(&ROW_GROUP)),
    (5, List(&KEY_VALUE)),
    (6, Bytes),
    (7, List(&COLUMN_ORDER)),
]);
/// The bounds of a column's pages.
pub(super) const COLUMN_INDEX: Shape = Struct(&[
    (1, List(&Flag)),
    (2, List(&Bytes)),
    (3, List(&Bytes)),
    (4, I32),
    (5, List(&I64)),
    (6, List(&I64)),
    (7, List(&I64)),
]);
/// Where a column's pages are.
pub(super) const OFFSET_INDEX: Shape = Struct(&[(1, List(&PAGE_LOCATION)), (2, List(&I64))]);

/// Checks that `bytes` begin with a struct of the shape.
///
/// # Errors
/// What is wrong, and at which byte.
pub(super) fn check(shape: &Shape, bytes: &[u8]) -> Result<(), String> {
    let mut walk = Walk { bytes, at: 0 };
    match walk.value(shape) {
        Some(()) => Ok(()),
        None => Err(format!("byte {} of the structure is not what this server writes", walk.at)),
    }
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn value(&mut self, shape: &Shape) -> Option<()> {
        match shape {
            Flag | I8 => self.skip(1),
            I16 | I32 | I64 => self.varint().map(drop),
            Bytes => {
                let count = self.varint()?;
                self.skip(count)
            }
            List(element) => self.list(element),
            Struct(fields) => self.fields(fields),
        }
    }

    fn fields(&mut self, fields: &[(i64, Shape)]) -> Option<()> {
        let mut number = 0;
        loop {
            let head = self.byte()?;
            if head & 0xf == 0 {
                return Some(());
            }
            number = match head >> 4 {
                0 => unzigzag(self.varint()?),
                step => number + i64::from(step),
            };
            let (_, shape) = fields.iter().find(|(known, _)| *known == number)?;
            if !fits(shape, head & 0xf) {
                return None;
            }
            // The type of the field was its value.
            if !matches!(shape, Flag) {
                self.value(shape)?;
            }
        }
    }

    fn list(&mut self, element: &Shape) -> Option<()> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        // Each element takes a byte at least.
        let left = self.bytes.len().saturating_sub(self.at) as u64;
        if (count > 0 && !fits(element, head & 0xf)) || count > left {
            return None;
        }
        (0..count).try_for_each(|_| self.value(element))
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(count).ok()?)?;
        self.bytes.get(self.at..end)?;
        self.at = end;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Whether the protocol calls a value of the shape by this type.
fn fits(shape: &Shape, kind: u8) -> bool {
    match shape {
        Flag => kind == 1 || kind == 2,
        I8 => kind == 3,
        I16 => kind == 4,
        I32 => kind == 5,
        I64 => kind == 6,
        Bytes => kind == 8,
        List(_) => kind == 9,
        Struct(_) => kind == 12,
    }
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A struct with one field of each sort that matters.
    const SAMPLE: Shape =
        Struct(&[(1, List(&Flag)), (2, Flag), (3, Bytes), (20, Struct(&[(1, I64)]))]);

    #[test]
    fn what_is_written_passes() {
        let bytes = [
            0x19, 0x31, 1, 2, 1,    // 1: three flags, a byte each
            0x11, // 2: true, no byte
            0x18, 2, b'o', b'k', // 3: two bytes
            0x0c, 40, 0x16, 0xff, 1, 0, // 20, its number in full: a struct with a long
            0,
        ];
        assert_eq!(check(&SAMPLE, &bytes), Ok(()));
        for len in 0..bytes.len() {
            assert!(check(&SAMPLE, &bytes[..len]).is_err(), "it ends after {len} bytes");
        }
    }

    #[test]
    fn a_list_is_no_longer_than_what_is_left() {
        assert!(check(&SAMPLE, &[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 1, 1, 0]).is_err());
        assert!(check(&SAMPLE, &[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(check(&SAMPLE, &[0x38, 0xff, 0xff, 0xff, 0xff, 7, 0]).is_err());
    }

    #[test]
    fn another_field_and_another_type_are_refused() {
        assert!(check(&SAMPLE, &[0x49, 0x01, 0]).is_err(), "field 4 is unknown");
        assert!(check(&SAMPLE, &[0x15, 2, 0]).is_err(), "field 1 is a list");
        assert!(check(&SAMPLE, &[0x19, 0x15, 2, 0]).is_err(), "of flags");
        assert_eq!(check(&SAMPLE, &[0x19, 0x00, 0]), Ok(()), "an empty list says no type");
        assert!(check(&SAMPLE, &[0x0c, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_err());
    }

    #[test]
    fn a_number_of_any_size_is_no_overflow() {
        let far = [0x02, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0xf2, 0];
        assert!(check(&SAMPLE, &far).is_err());
    }
}
