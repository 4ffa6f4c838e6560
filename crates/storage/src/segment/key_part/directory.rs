//! What the blocks of a key part are, and the separators between them.
//!
//! ```text
//! u8             the version of the key part: 1, and 1 more if rows are stored beside the keys,
//!                and 2 more if there are indexes in it
//! u64            where the filter begins, from the start of the key part on
//! u32            the number of its pages
//! u16, bytes     the least key, and the same of the greatest
//! u32            the number of blocks
//! then of each block
//!   u32 u32      its length, and how many rows it has
//!   u16, bytes   a separator: above the keys before the block, and not above its first key
//!   u64          with stored rows: where in the file those of the block begin
//! with indexes
//! u16            the number of indexes
//! then of each index
//!   u16, u32 *   the ids of its columns
//!   u64 u64      where its part begins, from the start of this one on, and its length
//!   u32 u32      the length of its directory, and the CRC-32C of that
//! ```
//!
//! A segment of a table without keys has a part of indexes alone: the version 5, the number of rows
//! (u32), and what is above from the number of the indexes on.

use std::ops::Range;

use freshet_base::ColumnId;
use freshet_meta::KeyPartMeta;

use super::{Parts, filter, put_key};

const VERSION: u8 = 1;
/// More where keys have stored rows.
const WITH_ROWS: u8 = 1;
/// More where there are indexes.
const WITH_INDEXES: u8 = 2;
/// Of a part that has indexes and no keys.
const INDEXES_ALONE: u8 = 5;

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
    /// The columns of each index, and where its part is in this one.
    pub indexes: Vec<(Vec<ColumnId>, KeyPartMeta)>,
    /// Of a part without keys: the rows of its indexes.
    pub rows_alone: Option<u32>,
}

impl Directory {
    /// The directory of a part of indexes alone, of a segment of so many rows.
    pub fn of_indexes(rows: u32) -> Self {
        Self { rows_alone: Some(rows), ..Self::default() }
    }

    /// Appends a block.
    pub fn push(&mut self, bytes: u32, rows: u32, separator: &[u8]) -> Option<()> {
        self.ends.push(self.ends.last().unwrap_or(&0).checked_add(bytes.into())?);
        self.row_ends.push(self.rows().checked_add(rows)?);
        self.separators.extend_from_slice(separator);
        self.separator_ends.push(u32::try_from(self.separators.len()).ok()?);
        Some(())
    }

    pub fn rows(&self) -> u32 {
        self.rows_alone.or(self.row_ends.last().copied()).unwrap_or(0)
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
        self.rows_before(at)..self.row_ends[at]
    }

    /// The number of rows of some blocks.
    pub fn rows_in(&self, blocks: Range<usize>) -> u64 {
        match blocks.is_empty() {
            true => 0,
            false => u64::from(self.rows_before(blocks.end) - self.rows_before(blocks.start)),
        }
    }

    fn rows_before(&self, block: usize) -> u32 {
        block.checked_sub(1).map_or(0, |before| self.row_ends[before])
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

    /// The blocks from the first on up to the last that may have keys below `to`, or keys that
    /// begin with it.
    pub fn blocks_up_to(&self, to: &[u8]) -> usize {
        let (mut from, mut end) = (0, self.blocks());
        while from < end {
            let middle = usize::midpoint(from, end);
            let separator = self.separator(middle);
            let may_have = separator < to || separator.starts_with(to);
            if may_have { from = middle + 1 } else { end = middle }
        }
        from
    }

    /// Above all keys of a block; `None` for the last one.
    pub fn end_of(&self, block: usize) -> Option<&[u8]> {
        (block + 1 < self.blocks()).then(|| self.separator(block + 1))
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
        if let Some(rows) = self.rows_alone {
            out.push(INDEXES_ALONE);
            out.extend_from_slice(&rows.to_le_bytes());
            return self.encode_indexes(out);
        }
        let has_indexes = !self.indexes.is_empty();
        let more = u8::from(self.stores_rows()) * WITH_ROWS + u8::from(has_indexes) * WITH_INDEXES;
        out.push(VERSION + more);
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
        if has_indexes {
            self.encode_indexes(out);
        }
    }

    fn encode_indexes(&self, out: &mut Vec<u8>) {
        let short = |number: usize| u16::try_from(number).expect("indexes have a limit");
        out.extend_from_slice(&short(self.indexes.len()).to_le_bytes());
        for (columns, part) in &self.indexes {
            out.extend_from_slice(&short(columns.len()).to_le_bytes());
            columns.iter().for_each(|column| out.extend_from_slice(&column.get().to_le_bytes()));
            out.extend_from_slice(&part.start.to_le_bytes());
            out.extend_from_slice(&part.bytes.to_le_bytes());
            out.extend_from_slice(&part.directory_bytes.to_le_bytes());
            out.extend_from_slice(&part.directory_checksum.to_le_bytes());
        }
    }

    fn take_indexes(parts: &mut Parts<'_>) -> Option<Vec<(Vec<ColumnId>, KeyPartMeta)>> {
        let mut indexes = Vec::new();
        for _ in 0..parts.u16()? {
            let columns = (0..parts.u16()?).map(|_| parts.u32().map(ColumnId));
            let columns = columns.collect::<Option<Vec<_>>>()?;
            let (start, bytes) = (parts.u64()?, parts.u64()?);
            let (directory_bytes, directory_checksum) = (parts.u32()?, parts.u32()?);
            indexes
                .push((columns, KeyPartMeta { start, bytes, directory_bytes, directory_checksum }));
        }
        Some(indexes)
    }

    /// Parses the directory of a key part of so many bytes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8], part_bytes: u64) -> Result<Self, String> {
        let mut parts = Parts(bytes);
        let version = parts.bytes(1).ok_or("the directory of keys is empty")?[0];
        let directory = match version {
            INDEXES_ALONE => Self::take_alone(&mut parts),
            VERSION..=4 => {
                let more = version - VERSION;
                Self::take(&mut parts, (more & WITH_ROWS != 0, more & WITH_INDEXES != 0))
            }
            newer => return Err(format!("keys of version {newer} are newer")),
        };
        let directory = directory.filter(|_| parts.0.is_empty());
        let directory = directory.ok_or("the directory of keys is not what it says")?;
        let filter_bytes = u64::from(directory.filter_pages) * filter::PAGE_BYTES as u64;
        let filter_end = directory.filter_start.checked_add(filter_bytes);
        let indexes = directory.indexes.iter().map(|(_, part)| part);
        let indexes_end = indexes.fold(filter_end, |end, part| match end == Some(part.start) {
            true => part.start.checked_add(part.bytes),
            false => None,
        });
        let directory_start = part_bytes.checked_sub(bytes.len() as u64);
        let has_content = match directory.rows_alone {
            Some(rows) => rows > 0 && !directory.indexes.is_empty(),
            None => directory.filter_pages > 0 && directory.blocks() > 0,
        };
        let in_order = directory.blocks_end() <= directory.filter_start
            && has_content
            && indexes_end.is_some()
            && indexes_end == directory_start;
        in_order.then_some(directory).ok_or_else(|| "keys are not where they must be".to_owned())
    }

    fn take_alone(parts: &mut Parts<'_>) -> Option<Self> {
        let rows_alone = Some(parts.u32()?);
        Some(Self { rows_alone, indexes: Self::take_indexes(parts)?, ..Self::default() })
    }

    fn take(parts: &mut Parts<'_>, (stores_rows, has_indexes): (bool, bool)) -> Option<Self> {
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
        if has_indexes {
            directory.indexes = Self::take_indexes(parts)?;
        }
        Some(directory)
    }
}
