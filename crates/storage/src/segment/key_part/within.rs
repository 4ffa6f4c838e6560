//! The rows of an index whose values are within ranges: what a scan reads instead of a segment.

use std::ops::Range;

use super::index;
use super::reader::{KeyPart, READS_MAX};
use crate::error::Result;
use crate::segment::footers::WaitMode;

/// Values of an index, in their bytes: from `from` on, up to `to` and all that begin with it. Both
/// may be values of the leading columns alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ValueRange {
    pub from: Vec<u8>,
    pub to: Vec<u8>,
}

impl ValueRange {
    fn reaches(&self, value: &[u8]) -> bool {
        value <= self.to.as_slice() || value.starts_with(&self.to)
    }
}

impl KeyPart {
    /// At most so many rows have values within these ranges; known without reading.
    pub fn rows_within_at_most(&self, ranges: &[ValueRange]) -> u64 {
        ranges.iter().map(|range| self.directory.rows_in(self.blocks_within(range))).sum()
    }

    /// The rows whose values are within these ranges, ascending, dead ones too; `None` if they are
    /// more than `rows_max`. Of the part of an index, or else of the keys that sort the rows.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`].
    pub async fn rows_within(
        &self,
        ranges: &[ValueRange],
        (rows_max, is_index): (usize, bool),
        wait_mode: WaitMode,
    ) -> Result<Option<Vec<u32>>> {
        if self.rows_within_at_least(ranges) > rows_max as u64 {
            return Ok(None);
        }
        let mut wanted = Vec::new();
        for range in ranges {
            wanted.extend(self.blocks_within(range).map(|block| (block, range)));
        }
        wanted.sort_unstable();
        let blocks = wanted.chunk_by(|a, b| a.0 == b.0).collect::<Vec<_>>();
        let mut rows = Vec::new();
        for blocks in blocks.chunks(READS_MAX) {
            let places = blocks.iter().map(|of| self.directory.block(of[0].0)).collect();
            for (of, bytes) in blocks.iter().zip(self.read(places, wait_mode).await?) {
                let number = of[0].0;
                let block = self.open_block(number, &bytes)?;
                for (_, range) in *of {
                    if !is_index {
                        let first = self.directory.rows_of(number).start;
                        let keys = block.keys().skip_while(|(key, _)| *key < range.from);
                        let keys = keys.take_while(|(key, _)| range.reaches(key));
                        rows.extend(keys.flat_map(|(_, of)| first + of.start..first + of.end));
                        continue;
                    }
                    let entries = block.keys_from(&range.from);
                    for entry in entries.take_while(|entry| range.reaches(entry)) {
                        let row = index::split(&entry).filter(|(_, row)| *row < self.rows());
                        let place = self.directory.block(number).start;
                        let (_, row) =
                            row.ok_or_else(|| self.damaged(place, "an entry is of no row"))?;
                        rows.push(row);
                    }
                }
            }
            if rows.len() > rows_max {
                return Ok(None);
            }
        }
        rows.sort_unstable();
        // Ranges may overlap.
        rows.dedup();
        Ok(Some(rows))
    }

    /// At least so many rows are found: those of the blocks that lie within ranges as a whole.
    fn rows_within_at_least(&self, ranges: &[ValueRange]) -> u64 {
        let rows = |range: &ValueRange| {
            let Range { start, end } = self.blocks_within(range);
            self.directory.rows_in(start + 1..end.saturating_sub(1))
        };
        ranges.iter().map(rows).max().unwrap_or(0)
    }

    /// The blocks that may have values of a range.
    fn blocks_within(&self, range: &ValueRange) -> Range<usize> {
        if self.directory.max < range.from || !range.reaches(&self.directory.min) {
            return 0..0;
        }
        let start = self.directory.block_of(&range.from);
        start..self.directory.blocks_up_to(&range.to).max(start)
    }
}
