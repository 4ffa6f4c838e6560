//! Marks: which rows of a segment are dead, and from which LSN on (keys.md K18, RFC 0012).
//!
//! A view has the marks of each of its segments: a bitmap, exact at the view's flushed LSN, and a
//! list of those made since. Marks are only added. When a flush moves the flushed LSN, the next
//! view gets marks of its own, and those of the view before stay as they are for its readers.

mod file;
mod section;
#[cfg(test)]
mod tests;

use std::ops::Range;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use freshet_base::Lsn;

use crate::sync::Mutex;

pub use file::{MarkFile, MarkSection, SegmentPlace, write_mark_file};

/// A row of a segment that is dead from `lsn` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Its number in the segment.
    pub row: u32,
    pub lsn: Lsn,
}

/// The marks of one segment in one view.
#[derive(Debug)]
pub struct SegmentMarks {
    /// The number of rows of the segment.
    rows: u32,
    /// Marks up to here are in the bitmap.
    flushed: Lsn,
    /// A set bit is a dead row.
    flushed_dead: DeadRows,
    recent: Mutex<Recent>,
}

/// Marks above the flushed LSN.
#[derive(Debug, Default)]
struct Recent {
    /// In the order of their LSNs.
    marks: Vec<Mark>,
    /// A bit for each row of the segment, set for these marks; empty while there are none.
    bits: Vec<u64>,
}

impl Recent {
    fn contains(&self, row: u32) -> bool {
        self.bits.get(row as usize >> 6).is_some_and(|word| word >> (row & 63) & 1 == 1)
    }

    fn set(&mut self, row: u32, rows: u32) {
        if self.bits.is_empty() {
            self.bits.resize((rows as usize).div_ceil(64), 0);
        }
        self.bits[row as usize >> 6] |= 1 << (row & 63);
    }

    /// The marks up to an LSN.
    fn up_to(&self, lsn: Lsn) -> &[Mark] {
        &self.marks[..self.marks.partition_point(|mark| mark.lsn <= lsn)]
    }
}

/// Dead rows of a segment at one LSN.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeadRows {
    /// A set bit is a dead row; `None` if no row is dead.
    bits: Option<BooleanBuffer>,
    count: u32,
}

impl DeadRows {
    /// The dead rows among `rows` rows; numbers may come in any order.
    ///
    /// # Panics
    /// When a row is named twice, or the segment does not have it.
    pub fn new(rows: u32, dead: impl IntoIterator<Item = u32>) -> Self {
        Self::default().with(rows, dead)
    }

    /// These and further dead rows of a segment of `rows` rows.
    ///
    /// # Panics
    /// When a row is already dead, or the segment does not have it.
    #[must_use]
    pub fn with(&self, rows: u32, dead: impl IntoIterator<Item = u32>) -> Self {
        let mut dead = dead.into_iter().peekable();
        if dead.peek().is_none() {
            return self.clone();
        }
        let mut bits = BooleanBufferBuilder::new(rows as usize);
        match &self.bits {
            Some(before) => bits.append_buffer(before),
            None => bits.append_n(rows as usize, false),
        }
        assert_eq!(bits.len(), rows as usize, "marks are of one segment");
        let mut count = self.count;
        for row in dead {
            assert!(row < rows, "row {row} of a segment of {rows} rows is marked");
            assert!(!bits.get_bit(row as usize), "row {row} of a segment dies twice");
            bits.set_bit(row as usize, true);
            count += 1;
        }
        Self { bits: Some(bits.finish()), count }
    }

    /// All rows of a segment of `rows` rows but these ascending ones.
    ///
    /// # Panics
    /// When a row is named twice, or the segment does not have it.
    pub fn all_but(rows: u32, kept: &[u32]) -> Self {
        let gaps = std::iter::once(0).chain(kept.iter().map(|row| row + 1));
        Self::new(rows, gaps.zip(kept.iter().copied().chain([rows])).flat_map(|(a, b)| a..b))
    }

    /// A set bit is a dead row; `None` if no row is dead.
    pub fn bits(&self) -> Option<&BooleanBuffer> {
        self.bits.as_ref()
    }

    /// The number of dead rows.
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn contains(&self, row: u32) -> bool {
        self.bits.as_ref().is_some_and(|bits| bits.value(row as usize))
    }

    /// The dead rows, ascending.
    pub fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.bits.iter().flat_map(|bits| bits.set_indices()).map(|row| row as u32)
    }
}

impl SegmentMarks {
    /// The marks of a segment of `rows` rows, of which these are dead at the flushed LSN.
    ///
    /// # Panics
    /// When the rows are of a segment of another length.
    pub fn new(rows: u32, flushed: Lsn, dead: DeadRows) -> Self {
        let is_of_segment = dead.bits.as_ref().is_none_or(|bits| bits.len() == rows as usize);
        assert!(is_of_segment, "marks are of one segment");
        Self { rows, flushed, flushed_dead: dead, recent: Mutex::default() }
    }

    /// Adds marks above the flushed LSN, in the order of LSNs.
    ///
    /// # Panics
    /// When a mark is out of order, on a row that the segment does not have, or on a dead one.
    pub fn push(&self, marks: &[Mark]) {
        let mut recent = self.recent.lock();
        let mut last = recent.marks.last().map_or(self.flushed.next(), |mark| mark.lsn);
        for mark in marks {
            let Mark { row, lsn } = *mark;
            assert!(lsn >= last, "a mark at {lsn} comes behind one at {last}");
            assert!(row < self.rows, "row {row} of a segment of {} rows is marked", self.rows);
            let is_dead = self.flushed_dead.contains(row) || recent.contains(row);
            assert!(!is_dead, "row {row} of a segment dies twice");
            recent.set(row, self.rows);
            last = lsn;
        }
        recent.marks.extend_from_slice(marks);
    }

    /// Whether any row has a mark.
    pub fn has_any(&self) -> bool {
        self.flushed_dead.count > 0 || !self.recent.lock().marks.is_empty()
    }

    /// Whether a row has any mark.
    pub fn is_dead(&self, row: u32) -> bool {
        self.flushed_dead.contains(row) || self.recent.lock().contains(row)
    }

    /// Of each of these ranges of rows the last row that has no mark.
    pub fn living(&self, ranges: impl Iterator<Item = Range<u32>>) -> Vec<Option<u32>> {
        let recent = self.recent.lock();
        let lives = |row: &u32| !self.flushed_dead.contains(*row) && !recent.contains(*row);
        ranges.map(|rows| rows.rev().find(lives)).collect()
    }

    /// Whether a row is dead at `horizon`, which is not below the flushed LSN.
    pub fn is_dead_at(&self, row: u32, horizon: Lsn) -> bool {
        if self.flushed_dead.contains(row) {
            return true;
        }
        let recent = self.recent.lock();
        if !recent.contains(row) {
            return false;
        }
        // A DELETE may have made many of them: they are nearly all on one side.
        let is_it = |mark: &Mark| mark.row == row;
        let (before, behind) = recent.marks.split_at(recent.up_to(horizon).len());
        match before.len() < behind.len() {
            true => before.iter().any(is_it),
            false => !behind.iter().any(is_it),
        }
    }

    /// The rows that are dead at `horizon`.
    ///
    /// # Panics
    /// When the horizon is below the flushed LSN.
    pub fn dead_at(&self, horizon: Lsn) -> DeadRows {
        assert!(self.flushed <= horizon, "a reader of a view sees all that is in its files");
        let recent = self.recent.lock();
        self.flushed_dead.with(self.rows, recent.up_to(horizon).iter().map(|mark| mark.row))
    }

    /// The number of rows that are dead at `horizon`.
    pub fn count_at(&self, horizon: Lsn) -> u32 {
        self.flushed_dead.count + self.recent.lock().up_to(horizon).len() as u32
    }

    /// The rows that have died behind the flushed LSN, up to `to`, ascending: what a flush up to
    /// there stores.
    pub fn died_up_to(&self, to: Lsn) -> Vec<u32> {
        let recent = self.recent.lock();
        let mut died = recent.up_to(to).iter().map(|mark| mark.row).collect::<Vec<_>>();
        died.sort_unstable();
        died
    }

    /// The marks of the next view, whose files reach up to `to`.
    #[must_use]
    pub fn flushed_to(&self, to: Lsn) -> Self {
        let next = Self::new(self.rows, to, self.dead_at(to));
        next.push(&self.above(to));
        next
    }

    /// Marks above `to` with the rows that they are on: what a merge carries over to new places.
    pub fn above(&self, to: Lsn) -> Vec<Mark> {
        let recent = self.recent.lock();
        recent.marks[recent.up_to(to).len()..].to_vec()
    }

    /// The number of rows of the segment.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The flushed LSN of the view.
    pub fn flushed(&self) -> Lsn {
        self.flushed
    }

    /// The dead rows at the flushed LSN of the view.
    pub fn flushed_dead(&self) -> &DeadRows {
        &self.flushed_dead
    }
}
