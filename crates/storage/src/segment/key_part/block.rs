//! A block: distinct sorted keys, and which rows have them.
//!
//! ```text
//! u32            CRC-32C of what follows
//! u32            how many rows have these keys
//! u16 u16        how many keys there are; the length of what all of them begin with
//! u16 * keys     where the rest of each key ends
//! u32 * keys     where the rows of each key end; missing if each has one
//! u32 * rows     where each row ends among the stored ones; missing if none are stored
//! bytes          what all keys begin with, then the rests
//! ```
//!
//! The rows of a block are those behind the rows of the block before. Stored rows stand elsewhere
//! in the file; of equal keys only the last row is stored, and the others are empty.

use std::ops::Range;

use super::{Parts, shared_bytes};
use crate::segment::checksum::crc32c;

/// Where a block of several keys ends. Rows that repeat its last key may add four bytes a key.
const BLOCK_BYTES: usize = 4096;
const CHECKSUM_BYTES: usize = 4;
const HEAD_BYTES: usize = CHECKSUM_BYTES + 4 + 2 + 2;

/// Gathers the keys of a block.
#[derive(Default)]
pub(super) struct BlockBuilder {
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    row_ends: Vec<u32>,
    /// Where each row ends among the stored ones; empty if none are stored.
    stored_ends: Vec<u32>,
}

impl BlockBuilder {
    /// Appends a key above all others, with one row.
    pub fn push(&mut self, key: &[u8]) {
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len());
        self.row_ends.push(self.rows() + 1);
    }

    /// One more row has the last key.
    pub fn repeat(&mut self) {
        let rows = self.row_ends.last_mut().expect("a key has come");
        *rows = rows.checked_add(1).expect("the rows of a segment have numbers of 32 bits");
    }

    /// The last row is stored up to here. The one before, if it has the same key, is not any more.
    pub fn store(&mut self, end: u32) {
        self.stored_ends.push(end);
    }

    /// Where the row in front of the last one ends, when that one is not stored any more.
    pub fn forget_stored(&mut self) -> u32 {
        let last = self.stored_ends.len() - 1;
        let start = last.checked_sub(1).map_or(0, |before| self.stored_ends[before]);
        self.stored_ends[last] = start;
        start
    }

    pub fn rows(&self) -> u32 {
        self.row_ends.last().copied().unwrap_or(0)
    }

    /// The greatest key.
    pub fn last(&self) -> Option<&[u8]> {
        self.key_ends.len().checked_sub(1).map(|at| self.key(at))
    }

    /// Whether `key`, which is above all others, fits. An empty block takes any.
    pub fn takes(&self, key: &[u8]) -> bool {
        let before = self.key_ends.len();
        if before == 0 {
            return true;
        }
        // A key that begins otherwise makes the rests of all others longer.
        let rests = self.keys.len() + key.len() - before * shared_bytes(self.key(0), key);
        HEAD_BYTES + (before + 1) * self.bytes_beside() + rests <= BLOCK_BYTES
    }

    /// The bytes of a key beside its rest.
    fn bytes_beside(&self) -> usize {
        let rows = if self.has_one_row_each() { 2 } else { 6 };
        if self.stored_ends.is_empty() { rows } else { rows + 4 }
    }

    fn has_one_row_each(&self) -> bool {
        self.rows() as usize == self.key_ends.len()
    }

    fn key(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.key_ends[before]);
        &self.keys[start..self.key_ends[at]]
    }

    /// Appends the block, and begins an empty one.
    ///
    /// # Panics
    /// When it has no keys.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let last = self.last().expect("a block has keys");
        let shared = shared_bytes(self.key(0), last);
        let short = |number: usize| {
            u16::try_from(number)
                .expect("a block of several keys ends at 4 KiB, and a key is shorter than 64 KiB")
        };
        let start = out.len();
        out.extend_from_slice(&[0; CHECKSUM_BYTES]);
        out.extend_from_slice(&self.rows().to_le_bytes());
        out.extend_from_slice(&short(self.key_ends.len()).to_le_bytes());
        out.extend_from_slice(&short(shared).to_le_bytes());
        for (end, keys) in self.key_ends.iter().zip(1..) {
            out.extend_from_slice(&short(end - keys * shared).to_le_bytes());
        }
        if !self.has_one_row_each() {
            self.row_ends.iter().for_each(|end| out.extend_from_slice(&end.to_le_bytes()));
        }
        let has_all = self.stored_ends.is_empty() || self.stored_ends.len() == self.rows() as usize;
        assert!(has_all, "all rows of a block are stored, or none");
        self.stored_ends.iter().for_each(|end| out.extend_from_slice(&end.to_le_bytes()));
        out.extend_from_slice(&last[..shared]);
        (0..self.key_ends.len()).for_each(|at| out.extend_from_slice(&self.key(at)[shared..]));
        let checksum = crc32c(&out[start + CHECKSUM_BYTES..]);
        out[start..start + CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
        *self = Self::default();
    }
}

/// A block that was read.
pub(super) struct Block<'a> {
    rows: u32,
    key_ends: &'a [[u8; 2]],
    /// `None` if each key has one row.
    row_ends: Option<&'a [[u8; 4]]>,
    /// Empty if no rows are stored.
    stored_ends: &'a [[u8; 4]],
    /// What all keys begin with.
    beginning: &'a [u8],
    rests: &'a [u8],
}

impl<'a> Block<'a> {
    /// Checks a block of so many rows, which may be stored.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(bytes: &'a [u8], rows: u32, are_stored: bool) -> Result<Self, &'static str> {
        let mut parts = Parts(bytes);
        let checksum = parts.u32().ok_or("a block of keys is too short")?;
        if checksum != crc32c(parts.0) {
            return Err("the checksum of a block of keys differs");
        }
        let block = Self::take(parts, are_stored).ok_or("a block of keys is not what it says")?;
        match block.rows == rows && block.is_consistent() {
            true => Ok(block),
            false => Err("a block of keys has other rows than the directory says"),
        }
    }

    /// A block whose bytes [`Self::open`] has checked.
    ///
    /// # Panics
    /// When they are no block.
    pub fn checked(bytes: &'a [u8], are_stored: bool) -> Self {
        let block = bytes.get(CHECKSUM_BYTES..).map(Parts);
        let block = block.and_then(|parts| Self::take(parts, are_stored));
        block.expect("a block that was checked is one")
    }

    fn take(mut parts: Parts<'a>, are_stored: bool) -> Option<Self> {
        let rows = parts.u32()?;
        let (count, shared) = (parts.u16()?, parts.u16()?);
        let key_ends = parts.bytes(count * 2)?.as_chunks().0;
        let row_ends = match count == rows as usize {
            true => None,
            false => Some(parts.bytes(count * 4)?.as_chunks().0),
        };
        let stored_bytes = if are_stored { (rows as usize).checked_mul(4)? } else { 0 };
        let stored_ends = parts.bytes(stored_bytes)?.as_chunks().0;
        let beginning = parts.bytes(shared)?;
        Some(Self { rows, key_ends, row_ends, stored_ends, beginning, rests: parts.0 })
    }

    /// Whether all ends are within bounds, and the last ones where they must be.
    fn is_consistent(&self) -> bool {
        let keys_end = self.key_ends.last().map(|end| usize::from(u16::from_le_bytes(*end)));
        let rows_end = match self.row_ends {
            Some(ends) => ends.last().map(|end| u32::from_le_bytes(*end)),
            None => Some(self.rows),
        };
        let rises = self.key_ends.is_sorted_by_key(|end| u16::from_le_bytes(*end));
        let rows_rise =
            self.row_ends.is_none_or(|ends| ends.is_sorted_by_key(|end| u32::from_le_bytes(*end)));
        let stored_rise = self.stored_ends.is_sorted_by_key(|end| u32::from_le_bytes(*end));
        rises
            && rows_rise
            && stored_rise
            && keys_end == Some(self.rests.len())
            && rows_end == Some(self.rows)
    }

    /// A search for keys in their order.
    pub fn search(&self) -> Search<'_> {
        Search { block: self, from: 0 }
    }

    /// Where a row is stored, counted from the first row of the block on; `None` if it is not.
    pub fn stored(&self, row: u32) -> Option<Range<u32>> {
        let end = |at: usize| u32::from_le_bytes(self.stored_ends[at]);
        let at = row as usize;
        let is_known = at < self.stored_ends.len();
        let stored = is_known.then(|| at.checked_sub(1).map_or(0, end)..end(at));
        stored.filter(|stored| !stored.is_empty())
    }

    /// The keys that begin with these bytes, each without them, and whether the next block may have
    /// more of them.
    pub fn with_beginning<'b>(
        &'b self,
        bytes: &'b [u8],
    ) -> (impl Iterator<Item = Vec<u8>> + 'b, bool) {
        let key = |at: usize| self.beginning.iter().chain(self.rest(at));
        let (mut from, mut to) = (0, self.key_ends.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            match key(middle).lt(bytes) {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        let begins = move |at: &usize| {
            let mut key = key(*at);
            bytes.iter().all(|byte| key.next() == Some(byte))
        };
        let last = self.key_ends.len().saturating_sub(1);
        let goes_on = from == self.key_ends.len() || begins(&last);
        let rest = move |at: usize| key(at).skip(bytes.len()).copied().collect();
        ((from..self.key_ends.len()).take_while(begins).map(rest), goes_on)
    }

    /// Its keys from `from` on, in their order.
    pub fn keys_from(&self, from: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
        let key = |at: usize| self.beginning.iter().chain(self.rest(at));
        let (mut start, mut end) = (0, self.key_ends.len());
        while start < end {
            let middle = usize::midpoint(start, end);
            if key(middle).lt(from) { start = middle + 1 } else { end = middle }
        }
        (start..self.key_ends.len()).map(|at| [self.beginning, self.rest(at)].concat())
    }

    /// Its keys in their order, with the rows that have them from its first row on.
    pub fn keys(&self) -> impl Iterator<Item = (Vec<u8>, Range<u32>)> + '_ {
        (0..self.key_ends.len()).map(|at| {
            let key = [self.beginning, self.rest(at)].concat();
            (key, self.rows_of(at))
        })
    }

    fn rest(&self, at: usize) -> &'a [u8] {
        let end = |at: usize| usize::from(u16::from_le_bytes(self.key_ends[at]));
        &self.rests[at.checked_sub(1).map_or(0, end)..end(at)]
    }

    fn rows_of(&self, at: usize) -> Range<u32> {
        let Some(ends) = self.row_ends else { return at as u32..at as u32 + 1 };
        let end = |at: usize| u32::from_le_bytes(ends[at]);
        at.checked_sub(1).map_or(0, end)..end(at)
    }
}

/// Searches a block for keys in their order.
pub(super) struct Search<'a> {
    block: &'a Block<'a>,
    /// All keys before this one are below the next one that is asked for.
    from: usize,
}

impl Search<'_> {
    /// The rows that have a key, from the first row of the block on. The key is not below the one
    /// before.
    pub fn find(&mut self, key: &[u8]) -> Option<Range<u32>> {
        let (block, count) = (self.block, self.block.key_ends.len());
        let wanted = key.strip_prefix(block.beginning)?;
        // Where many are asked for, the next one is near.
        let (mut to, mut step) = (self.from, 1);
        while to < count && block.rest(to) < wanted {
            self.from = to + 1;
            to += step;
            step *= 2;
        }
        to = to.min(count);
        // What is at `to`, or behind the last key, is not below it.
        while self.from < to {
            let middle = usize::midpoint(self.from, to);
            if block.rest(middle) < wanted { self.from = middle + 1 } else { to = middle }
        }
        let is_there = self.from < count && block.rest(self.from) == wanted;
        is_there.then(|| block.rows_of(self.from))
    }
}
