//! Blocks of sorted keys with what belongs to each: an encoded row, where it is, or nothing.
//!
//! A block is its CRC-32C; the number of keys; the length of what all keys begin with, and that of
//! the values; where each key ends and, if their lengths differ, each value; the beginning and the
//! rests of the keys; the values.

use std::cmp::Ordering;
use std::ops::Range;

const CHECKSUM_BYTES: usize = 4;
const HEAD_BYTES: usize = 8;
/// The length of values that do not have the same.
const VARIED: u16 = u16::MAX;

fn short(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes(*bytes[at..].first_chunk().unwrap()))
}

fn long(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize
}

/// Gathers entries until a block is full.
#[derive(Default)]
pub struct BlockBuilder {
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    values: Vec<u8>,
    value_ends: Vec<u32>,
    varied: bool,
}

impl BlockBuilder {
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.varied |= self.values.len() != self.value_ends.len() * value.len();
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len());
        self.values.extend_from_slice(value);
        self.value_ends.push(self.values.len() as u32);
    }

    /// About the length that the block has now.
    pub fn bytes(&self) -> usize {
        let ends = self.len() * (2 + if self.varied { 4 } else { 0 });
        let shared = self.shared() * self.len().saturating_sub(1);
        HEAD_BYTES + ends + self.keys.len() - shared + self.values.len()
    }

    pub fn len(&self) -> usize {
        self.key_ends.len()
    }

    fn key(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.key_ends[before]);
        &self.keys[start..self.key_ends[at]]
    }

    fn shared(&self) -> usize {
        let Some(last) = self.len().checked_sub(1) else { return 0 };
        self.key(0).iter().zip(self.key(last)).take_while(|(a, b)| a == b).count()
    }

    pub fn finish(&mut self, lz4: bool) -> Vec<u8> {
        let shared = self.shared();
        let width = if self.varied { VARIED } else { (self.values.len() / self.len()) as u16 };
        let mut body = Vec::with_capacity(self.bytes());
        body.extend((self.len() as u32).to_le_bytes());
        body.extend((shared as u16).to_le_bytes());
        body.extend(width.to_le_bytes());
        let ends = self.key_ends.iter().zip(1..).map(|(end, keys)| end - keys * shared);
        ends.for_each(|end| body.extend((end as u16).to_le_bytes()));
        if self.varied {
            self.value_ends.iter().for_each(|end| body.extend(end.to_le_bytes()));
        }
        body.extend(&self.key(0)[..shared]);
        (0..self.len()).for_each(|at| body.extend(&self.key(at)[shared..]));
        body.extend(&self.values);
        *self = Self::default();
        if lz4 {
            body = lz4_flex::block::compress_prepend_size(&body);
        }
        [&crc_fast::crc32_iscsi(&body).to_le_bytes(), body.as_slice()].concat()
    }
}

/// A block that was read.
pub struct Block {
    body: Vec<u8>,
    len: usize,
    shared: usize,
    width: usize,
    /// Where the beginning of all keys stands.
    keys: usize,
}

impl Block {
    pub fn open(mut bytes: Vec<u8>, lz4: bool) -> Self {
        let stored = &bytes[CHECKSUM_BYTES..];
        assert_eq!(long(&bytes, 0), crc_fast::crc32_iscsi(stored) as usize);
        let body = if lz4 {
            lz4_flex::block::decompress_size_prepended(stored).unwrap()
        } else {
            bytes.drain(..CHECKSUM_BYTES);
            bytes
        };
        let (len, shared, width) = (long(&body, 0), short(&body, 4), short(&body, 6));
        let each = if width == usize::from(VARIED) { 6 } else { 2 };
        Self { body, len, shared, width, keys: HEAD_BYTES + len * each }
    }

    /// Where the rest of a key is, from the first one on.
    fn rest(&self, at: usize) -> Range<usize> {
        let end = |at: usize| short(&self.body, HEAD_BYTES + at * 2);
        at.checked_sub(1).map_or(0, end)..end(at)
    }

    /// The place of a key.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        let (beginning, rests) = self.body[self.keys..].split_at(self.shared);
        let rest = key.strip_prefix(beginning)?;
        let (mut from, mut to) = (0, self.len);
        while from < to {
            let middle = usize::midpoint(from, to);
            match rests[self.rest(middle)].cmp(rest) {
                Ordering::Equal => return Some(middle),
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
            }
        }
        None
    }

    pub fn value(&self, at: usize) -> &[u8] {
        let values = &self.body[self.keys + self.shared + self.rest(self.len - 1).end..];
        if self.width != usize::from(VARIED) {
            return &values[at * self.width..][..self.width];
        }
        let end = |at: usize| long(&self.body, HEAD_BYTES + self.len * 2 + at * 4);
        &values[at.checked_sub(1).map_or(0, end)..end(at)]
    }
}
