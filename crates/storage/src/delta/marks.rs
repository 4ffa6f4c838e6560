//! Marks on the rows of a chunk: from which LSN on they are dead (keys.md K18, RFC 0012).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use freshet_base::Lsn;

use crate::sync::Mutex;

/// A row of a delta that is dead from `lsn` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeltaMark {
    /// Its number: how many rows the delta had got before it.
    pub row: u64,
    pub lsn: Lsn,
}

/// The marks of one chunk, from the time when it is the open node until its last reader is gone.
#[derive(Default)]
pub(super) struct ChunkMarks {
    dead: Mutex<Dead>,
}

#[derive(Default)]
struct Dead {
    /// For each row the LSN from which on it is dead, zero while it lives; up to the last dead row.
    from: Vec<u64>,
    /// The same for rows that were lost with their partition, whether or not they were dead.
    cut_from: Vec<u64>,
    /// The changes of partitions whose lost rows are known.
    cuts: Vec<Lsn>,
}

impl Dead {
    fn is_cut(&self, row: usize, horizon: Lsn) -> bool {
        self.cut_from.get(row).is_some_and(|lsn| (1..=horizon.get()).contains(lsn))
    }

    fn is_dead(&self, row: usize, horizon: Lsn) -> bool {
        self.from.get(row).is_some_and(|lsn| (1..=horizon.get()).contains(lsn))
            || self.is_cut(row, horizon)
    }
}

impl ChunkMarks {
    /// Marks a row of the chunk.
    ///
    /// # Panics
    /// When it is dead already.
    pub fn mark(&self, row: usize, lsn: Lsn) {
        let dead_from = &mut self.dead.lock().from;
        if dead_from.len() <= row {
            dead_from.resize(row + 1, 0);
        }
        assert_eq!(dead_from[row], 0, "a row of a delta dies once");
        dead_from[row] = lsn.get();
    }

    fn is_dead(&self, row: usize) -> bool {
        let dead = self.dead.lock();
        [&dead.from, &dead.cut_from].iter().any(|lsns| lsns.get(row).is_some_and(|lsn| *lsn != 0))
    }

    fn is_dead_at(&self, row: usize, horizon: Lsn) -> bool {
        self.dead.lock().is_dead(row, horizon)
    }

    /// Whether the rows are known that were lost with their partitions at `lsn`.
    pub fn is_cut(&self, lsn: Lsn) -> bool {
        self.dead.lock().cuts.contains(&lsn)
    }

    /// Marks the rows that were lost with their partitions at `lsn`.
    pub fn cut(&self, rows: &[usize], lsn: Lsn) {
        let mut dead = self.dead.lock();
        let end = rows.last().map_or(0, |last| last + 1);
        if dead.cut_from.len() < end {
            dead.cut_from.resize(end, 0);
        }
        for &row in rows {
            // A later partition with the same range may be gone as well.
            let before = dead.cut_from[row];
            dead.cut_from[row] = if before == 0 { lsn.get() } else { before.min(lsn.get()) };
        }
        dead.cuts.push(lsn);
    }

    /// What is left of a range of rows without those that were lost with their partitions.
    pub fn uncut(&self, range: Range<usize>, horizon: Lsn) -> Vec<Range<usize>> {
        let dead = self.dead.lock();
        let end = dead.cut_from.len();
        divided(&[range], end, |row| dead.is_cut(row, horizon))
    }

    /// What is left of these ascending ranges of rows without those that are dead at `horizon`.
    pub fn alive(&self, ranges: &[Range<usize>], horizon: Lsn) -> Vec<Range<usize>> {
        let dead = self.dead.lock();
        let end = dead.from.len().max(dead.cut_from.len());
        divided(ranges, end, |row| dead.is_dead(row, horizon))
    }
}

/// Ranges without some rows, all of which are before `end`.
fn divided(
    ranges: &[Range<usize>],
    end: usize,
    is_out: impl Fn(usize) -> bool,
) -> Vec<Range<usize>> {
    let mut left = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut start = range.start;
        for out in (range.start..range.end.min(end)).filter(|row| is_out(*row)) {
            left.push(start..out);
            start = out + 1;
        }
        left.push(start..range.end);
    }
    left.retain(|range| !range.is_empty());
    left
}

/// The marks of the chunks of a delta, by the numbers of their rows.
#[derive(Default)]
pub(crate) struct DeltaMarks {
    /// The number of the first row of each known chunk, ascending, and its marks.
    chunks: VecDeque<(u64, Arc<ChunkMarks>)>,
    /// The number of the row behind those of known chunks.
    end: u64,
}

impl DeltaMarks {
    /// Makes the rows of a chunk known; chunks come in their order. A copy of the open node may
    /// come before the node is sealed.
    pub(super) fn know(&mut self, rows: Range<u64>, marks: &Arc<ChunkMarks>) {
        if rows.is_empty() || rows.end <= self.end {
            return;
        }
        if self.chunks.back().is_none_or(|(first, _)| *first < rows.start) {
            self.chunks.push_back((rows.start, Arc::clone(marks)));
        }
        self.end = rows.end;
    }

    /// Marks a row as dead. Readers see the mark if they have not begun to read its columns.
    ///
    /// # Panics
    /// When it is dead already, or not of a known chunk.
    pub fn mark(&self, DeltaMark { row, lsn }: DeltaMark) {
        let (at, chunk) = self.place(row);
        chunk.mark(at, lsn);
    }

    /// Whether a row is dead, from whatever LSN on.
    ///
    /// # Panics
    /// When it is not of a known chunk.
    pub fn is_dead(&self, row: u64) -> bool {
        let (at, chunk) = self.place(row);
        chunk.is_dead(at)
    }

    /// Whether a row is dead at `horizon`.
    ///
    /// # Panics
    /// When it is not of a known chunk.
    pub fn is_dead_at(&self, row: u64, horizon: Lsn) -> bool {
        let (at, chunk) = self.place(row);
        chunk.is_dead_at(at, horizon)
    }

    fn place(&self, row: u64) -> (usize, &ChunkMarks) {
        assert!(row < self.end, "row {row} of a delta is marked before it is known");
        let behind = self.chunks.partition_point(|(first, _)| *first <= row);
        let chunk = behind.checked_sub(1).map(|at| &self.chunks[at]);
        let (first, chunk) = chunk.expect("rows in files are marked there");
        ((row - first) as usize, chunk)
    }

    /// Forgets the chunks whose rows are all before `row`, since they are in files.
    pub fn forget_before(&mut self, row: u64) {
        let ends = self.chunks.iter().skip(1).map(|(first, _)| *first).chain([self.end]);
        let whole = ends.take_while(|end| *end <= row).count().min(self.chunks.len());
        self.chunks.drain(..whole);
    }
}
