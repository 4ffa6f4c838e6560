//! What the blocks of a key part are, and the separators between them.
//!
//! ```text
//! u8             the version of the key part: 1, or 2 if rows are stored beside the keys
//! u64            where the filter begins, from the start of the key part on
//! u32            the number of its pages
//! u16, bytes     the least key, and the same of the greatest
//! u32            the number of blocks
//! then of each block
//!   u32 u32      its length, and how many rows it has
//!   u16, bytes   a separator: above the keys before the block, and not above its first key
//!   u64          in version 2: where in the file its stored rows begin
//! ```

use std::ops::Range;

use super::{Parts, filter, put_key};

const VERSION: u8 = 1;
/// That of keys with stored rows.
const VERSION_WITH_ROWS: u8 = 2;

/// A directory in memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Directory {
    /// Where the filter begins in the key part.
    pub filter_start: u64,
    pub filter_pages: u32,
    pub min: Vec<u8>,
    pub max: Vec<u8>,
    /// Where each block ends in the key part.
    ends: Vec<u64>,
    /// The last row of each block, plus one.
    row_ends: Vec<u32>,
    separators: Vec<u8>,
    separator_ends: Vec<u32>,
    /// Where the stored rows of each block begin in the file; empty if none are stored.
    pub stored_starts: Vec<u64>,
}

impl Directory {
    /// Appends a block.
    pub fn push(&mut self, bytes: u32, rows: u32, separator: &[u8]) -> Option<()> {
        self.ends.push(self.ends.last().unwrap_or(&0).checked_add(bytes.into())?);
        self.row_ends.push(self.rows().checked_add(rows)?);
        self.separators.extend_from_slice(separator);
        self.separator_ends.push(u32::try_from(self.separators.len()).ok()?);
        Some(())
    }

    pub fn rows(&self) -> u32 {
        self.row_ends.last().copied().unwrap_or(0)
    }

    pub fn blocks(&self) -> usize {
        self.ends.len()
    }

    /// Whether rows are stored beside their keys.
    pub fn stores_rows(&self) -> bool {
        !self.stored_starts.is_empty()
    }

    /// Where blocks end and what follows them begins.
    pub fn blocks_end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Where a block is in the key part.
    pub fn block(&self, at: usize) -> Range<u64> {
        at.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[at]
    }

    /// The rows of a block.
    pub fn rows_of(&self, at: usize) -> Range<u32> {
        at.checked_sub(1).map_or(0, |before| self.row_ends[before])..self.row_ends[at]
    }

    /// The block that has a key, if any has it.
    pub fn block_of(&self, key: &[u8]) -> usize {
        let (mut from, mut to) = (0, self.blocks());
        while from < to {
            let middle = usize::midpoint(from, to);
            if self.separator(middle) <= key { from = middle + 1 } else { to = middle }
        }
        from.saturating_sub(1)
    }

    fn separator(&self, at: usize) -> &[u8] {
        let end = |at: usize| self.separator_ends[at] as usize;
        &self.separators[at.checked_sub(1).map_or(0, end)..end(at)]
    }

    /// Approximate memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let of_blocks = self.blocks() * 16 + self.stored_starts.len() * 8;
        (size_of::<Self>() + of_blocks + self.separators.len()) as u64
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(if self.stores_rows() { VERSION_WITH_ROWS } else { VERSION });
        out.extend_from_slice(&self.filter_start.to_le_bytes());
        out.extend_from_slice(&self.filter_pages.to_le_bytes());
        put_key(&self.min, out);
        put_key(&self.max, out);
        let blocks = u32::try_from(self.blocks()).expect("blocks have rows, which 32 bits number");
        out.extend_from_slice(&blocks.to_le_bytes());
        for at in 0..self.blocks() {
            let (place, rows) = (self.block(at), self.rows_of(at));
            let bytes = u32::try_from(place.end - place.start).expect("a block ends at 4 KiB");
            out.extend_from_slice(&bytes.to_le_bytes());
            out.extend_from_slice(&(rows.end - rows.start).to_le_bytes());
            put_key(self.separator(at), out);
            if let Some(start) = self.stored_starts.get(at) {
                out.extend_from_slice(&start.to_le_bytes());
            }
        }
    }

    /// Parses the directory of a key part of so many bytes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8], part_bytes: u64) -> Result<Self, String> {
        let mut parts = Parts(bytes);
        let stores_rows = match parts.bytes(1) {
            Some([VERSION]) => false,
            Some([VERSION_WITH_ROWS]) => true,
            Some(other) => return Err(format!("keys of version {} are newer", other[0])),
            None => return Err("the directory of keys is empty".to_owned()),
        };
        let directory = Self::take(&mut parts, stores_rows).filter(|_| parts.0.is_empty());
        let directory = directory.ok_or("the directory of keys is not what it says")?;
        let filter_bytes = u64::from(directory.filter_pages) * filter::PAGE_BYTES as u64;
        let filter_end = directory.filter_start.checked_add(filter_bytes);
        let directory_start = part_bytes.checked_sub(bytes.len() as u64);
        let in_order = directory.blocks_end() <= directory.filter_start
            && directory.filter_pages > 0
            && directory.blocks() > 0
            && filter_end == directory_start;
        in_order.then_some(directory).ok_or_else(|| "keys are not where they must be".to_owned())
    }

    fn take(parts: &mut Parts<'_>, stores_rows: bool) -> Option<Self> {
        let mut directory = Self {
            filter_start: parts.u64()?,
            filter_pages: parts.u32()?,
            min: parts.key()?.to_vec(),
            max: parts.key()?.to_vec(),
            ..Self::default()
        };
        for _ in 0..parts.u32()? {
            let (bytes, rows) = (parts.u32()?, parts.u32()?);
            directory.push(bytes, rows, parts.key()?)?;
            if stores_rows {
                directory.stored_starts.push(parts.u64()?);
            }
        }
        Some(directory)
    }
}
