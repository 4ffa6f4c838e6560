//! Marks on the rows of a chunk: from which LSN on they are dead (keys.md K18, RFC 0012).

use std::ops::Range;

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
    /// For each row the LSN from which on it is dead, zero while it lives; up to the last dead row.
    dead_from: Mutex<Vec<u64>>,
}

impl ChunkMarks {
    /// Marks a row of the chunk.
    ///
    /// # Panics
    /// When it is dead already.
    pub fn mark(&self, row: usize, lsn: Lsn) {
        let mut dead_from = self.dead_from.lock();
        if dead_from.len() <= row {
            dead_from.resize(row + 1, 0);
        }
        assert_eq!(dead_from[row], 0, "a row of a delta dies once");
        dead_from[row] = lsn.get();
    }

    /// What is left of these ascending ranges of rows without those that are dead at `horizon`.
    pub fn alive(&self, ranges: &[Range<usize>], horizon: Lsn) -> Vec<Range<usize>> {
        let dead_from = self.dead_from.lock();
        let is_dead = |row: &usize| (1..=horizon.get()).contains(&dead_from[*row]);
        let mut alive = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut start = range.start;
            for dead in (range.start..range.end.min(dead_from.len())).filter(is_dead) {
                alive.push(start..dead);
                start = dead + 1;
            }
            alive.push(start..range.end);
        }
        alive.retain(|range| !range.is_empty());
        alive
    }
}
