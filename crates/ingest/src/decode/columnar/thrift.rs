//! Reads the compact protocol of Thrift as far as headers of Parquet have to be looked into before
//! they are given to a reader that takes memory for what they claim.

/// How deep values may be nested.
const DEPTH_MAX: usize = 32;

pub(super) const I32: u8 = 5;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
pub(super) const STRUCT: u8 = 12;

/// The rest of some bytes. Its functions give `None` where these end early or are no Thrift.
#[derive(Clone, Copy)]
pub(super) struct Thrift<'a> {
    pub rest: &'a [u8],
}

impl<'a> Thrift<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(count).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A signed number of any width.
    pub fn int(&mut self) -> Option<i64> {
        let zigzag = self.varint()?;
        Some((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    /// Passes each field of a struct to `each`, by its id and type; `each` takes its value, or
    /// [`Self::skip`]s it.
    pub fn fields(&mut self, mut each: impl FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut id = 0i64;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Some(());
            }
            id = match header >> 4 {
                0 => self.int()?,
                delta => id.checked_add(i64::from(delta))?,
            };
            each(self, id, header & 0x0f)?;
        }
    }

    /// The length of a list and the type of its elements, each of which takes a byte or more.
    pub fn list(&mut self) -> Option<(usize, u8)> {
        let header = self.byte()?;
        let length = match header >> 4 {
            15 => usize::try_from(self.varint()?).ok()?,
            length => usize::from(length),
        };
        (length <= self.rest.len()).then_some((length, header & 0x0f))
    }

    pub fn skip(&mut self, ty: u8) -> Option<()> {
        self.skip_within(ty, DEPTH_MAX)
    }

    fn skip_within(&mut self, ty: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match ty {
            // Of a field, the type is the value.
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            7 => drop(self.bytes(8)?),
            BINARY => {
                let length = self.varint()?;
                self.bytes(length)?;
            }
            LIST | 10 => {
                let (length, ty) = self.list()?;
                for _ in 0..length {
                    match ty {
                        1 | 2 => drop(self.byte()?),
                        _ => self.skip_within(ty, depth)?,
                    }
                }
            }
            11 => {
                let length = self.varint()?;
                if length > 0 {
                    let types = self.byte()?;
                    for _ in 0..length {
                        self.skip_within(types >> 4, depth)?;
                        self.skip_within(types & 0x0f, depth)?;
                    }
                }
            }
            STRUCT => self.fields(|inner, _, ty| inner.skip_within(ty, depth))?,
            13 => drop(self.bytes(16)?),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_others_skipped() {
        // 1: i32 -3, 2: list of two binaries, 4: struct { 1: true }, 20: i64 300.
        let bytes = [0x15, 5, 0x19, 0x28, 1, b'x', 0, 0x2c, 0x11, 0, 0x06, 40, 0xd8, 0x04, 0];
        let mut found = Vec::new();
        let mut thrift = Thrift::new(&bytes);
        thrift
            .fields(|field, id, ty| {
                match id {
                    1 | 20 => found.push((id, field.int()?)),
                    _ => field.skip(ty)?,
                }
                Some(())
            })
            .unwrap();
        assert_eq!(found, [(1, -3), (20, 300)]);
        assert!(thrift.rest.is_empty());
    }

    #[test]
    fn what_ends_early_or_is_too_deep_is_none() {
        assert_eq!(Thrift::new(&[0x18, 5, b'x']).skip(STRUCT), None);
        assert_eq!(Thrift::new(&[0xf9, 0xff, 0xff, 0xff, 0xff, 0x0f]).list(), None);
        assert_eq!(Thrift::new(&[0x1c; 100_000]).skip(STRUCT), None);
        let map = [0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x11];
        assert_eq!(Thrift::new(&[&map[..], &[0; 9]].concat()).skip(13), Some(()));
    }
}
