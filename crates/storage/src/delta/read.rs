//! The part of a delta that a reader sees: the last barrier at or below its horizon, and the rows
//! after it.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::{Lsn, TxnId};
use freshet_schema::{TableSchema, history};

use super::encoded::Entry;
use super::node::{Chunk, Event};
use crate::division::Division;
use crate::error::Result;
use crate::rowset::Rowset;

/// Which records a reader sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Freshness {
    /// All durable records.
    #[default]
    Committed,
    /// Records of ended commit groups only.
    Published,
}

/// The bounds of a read.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Records up to this LSN are in files.
    pub flushed: Lsn,
    /// Records above this LSN are not visible.
    pub horizon: Lsn,
    /// Which records between are visible.
    pub freshness: Freshness,
}

/// What a delta adds to a table's files between two LSNs.
#[derive(Clone)]
pub struct DeltaRead {
    /// The columns of the table at the horizon, if an ALTER has changed them.
    pub schema: Option<Arc<TableSchema>>,
    /// The last TRUNCATE: files below it are not visible.
    pub truncated: Option<Lsn>,
    /// The changes of partitions: files of those that are gone are not visible.
    pub divisions: Vec<(Lsn, Arc<Division>)>,
    /// Whether the table is dropped.
    pub dropped: bool,
    /// Rows and files in log order.
    pub parts: Vec<DeltaPart>,
    /// The highest LSN of a visible row or event.
    pub last: Option<Lsn>,
}

/// Rows or files of a delta.
#[derive(Clone)]
pub enum DeltaPart {
    Rows(DeltaRows),
    /// The LSN and files of a large load.
    Rowsets(Lsn, Vec<Arc<Rowset>>),
}

impl DeltaPart {
    /// The number of rows.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Rows(rows) => rows.rows(),
            Self::Rowsets(_, rowsets) => rowsets.iter().map(|rowset| rowset.rows()).sum(),
        }
    }

    /// The first and last LSN.
    fn lsns(&self) -> (Lsn, Lsn) {
        match self {
            Self::Rows(rows) => rows.lsns,
            Self::Rowsets(lsn, _) => (*lsn, *lsn),
        }
    }
}

/// Visible rows of one chunk, without those that are marked as dead.
#[derive(Clone)]
pub struct DeltaRows {
    chunk: Arc<Chunk>,
    /// Its rows, also those that are dead.
    ranges: Vec<Range<usize>>,
    /// Marks above it are not visible.
    horizon: Lsn,
    /// The first and last LSN of these rows.
    pub lsns: (Lsn, Lsn),
}

/// Rows of some entries: their LSNs, the number of the first one, and their columns.
pub(crate) struct EntryRows {
    pub lsns: Vec<Lsn>,
    /// Whether a row only removes its key.
    pub is_removal: Vec<bool>,
    pub first: u64,
    pub batches: Vec<(Arc<TableSchema>, RecordBatch)>,
}

/// What the resolver takes of a chunk at once.
pub(crate) enum Step {
    /// Rows of these entries.
    Rows(Range<usize>),
    /// The LSN and files of a large load.
    Rowsets(Lsn, Vec<Arc<Rowset>>),
    /// Nothing before it exists any more.
    Truncate(Lsn),
    /// What stood in partitions that are gone does not exist any more.
    Divide(Lsn, Arc<Division>),
}

impl Chunk {
    /// The rows of the wanted ones among these entries, without those that only remove their key;
    /// adjacent ranges are joined.
    fn ranges(&self, entries: Range<usize>, wanted: impl Fn(&Entry) -> bool) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut start = self.rows_before(entries.start) as usize;
        for entry in &self.entries[entries] {
            let (from, end) = (start + entry.removals as usize, entry.rows_end as usize);
            start = end;
            if from == end || !wanted(entry) {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.end == from => last.end = end,
                _ => ranges.push(from..end),
            }
        }
        ranges
    }

    /// What it has above `from` and up to `to`, in the order of the log.
    pub(crate) fn steps(&self, from: Lsn, to: Lsn) -> Vec<Step> {
        let bounds = Bounds { flushed: from, horizon: to, freshness: Freshness::Committed };
        let up_to = |lsn: Lsn| self.entries.partition_point(|entry| entry.lsn <= lsn);
        let (mut at, mut steps) = (up_to(from), Vec::new());
        for (lsn, event) in bounds.events(self) {
            let step = match event {
                Event::Rowsets(rowsets) => Step::Rowsets(*lsn, rowsets.clone()),
                Event::Truncate => Step::Truncate(*lsn),
                Event::Divide(division) => Step::Divide(*lsn, Arc::clone(division)),
                Event::Schema(_) | Event::Drop | Event::GroupEnd(_) => continue,
            };
            let before = std::mem::replace(&mut at, up_to(*lsn));
            steps.extend([Step::Rows(before..at), step]);
        }
        steps.push(Step::Rows(at..up_to(to)));
        steps.retain(|step| !matches!(step, Step::Rows(entries) if entries.is_empty()));
        steps
    }

    /// The rows of some entries.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict the schema.
    pub(crate) fn rows_of(&self, entries: Range<usize>) -> Result<EntryRows> {
        let first = self.rows_before(entries.start);
        let (mut lsns, mut is_removal) = (Vec::new(), Vec::new());
        for entry in &self.entries[entries] {
            is_removal.resize(lsns.len() + entry.removals as usize, true);
            lsns.resize((entry.rows_end - first) as usize, entry.lsn);
            is_removal.resize(lsns.len(), false);
        }
        let rows = first as usize..first as usize + lsns.len();
        let mut batches = Vec::new();
        self.columns().select(std::slice::from_ref(&rows), &mut batches)?;
        Ok(EntryRows { lsns, is_removal, first: self.first_row + u64::from(first), batches })
    }
}

impl Chunk {
    /// The rows that only remove others in these entries, by record.
    ///
    /// # Errors
    /// Those of [`Self::rows_of`].
    pub(crate) fn removed(
        &self,
        entries: Range<usize>,
    ) -> Result<Vec<(Lsn, Arc<TableSchema>, RecordBatch)>> {
        let mut removed = Vec::new();
        for at in entries.filter(|at| self.entries[*at].removals > 0) {
            let first = self.rows_before(at) as usize;
            let rows = first..first + self.entries[at].removals as usize;
            let mut batches = Vec::new();
            self.columns().select(std::slice::from_ref(&rows), &mut batches)?;
            let lsn = self.entries[at].lsn;
            removed.extend(batches.into_iter().map(|(schema, batch)| (lsn, schema, batch)));
        }
        Ok(removed)
    }

    /// The rows of all entries above `lsn`.
    ///
    /// # Errors
    /// Those of [`Self::rows_of`].
    pub(crate) fn rows_above(&self, lsn: Lsn) -> Result<EntryRows> {
        let from = self.entries.partition_point(|entry| entry.lsn <= lsn);
        self.rows_of(from..self.entries.len())
    }
}

impl DeltaRows {
    /// The numbers of the rows that are alive, in the order of [`Self::batches`].
    pub fn numbers(&self) -> Vec<Range<u64>> {
        let first = self.chunk.first_row;
        let number = |range: Range<usize>| first + range.start as u64..first + range.end as u64;
        self.alive().into_iter().map(number).collect()
    }

    /// The number of rows that are alive.
    pub fn rows(&self) -> u64 {
        count(&self.alive())
    }

    fn alive(&self) -> Vec<Range<usize>> {
        self.chunk.marks.alive(&self.ranges, self.horizon)
    }

    pub(crate) fn chunk(&self) -> &Arc<Chunk> {
        &self.chunk
    }

    /// Approximate size as encoded.
    pub fn bytes(&self) -> u64 {
        let all = self.chunk.rows().max(1);
        self.chunk.encoded_bytes() * self.rows() / all
    }

    /// The rows that are alive as columns of `schema`, converting them if that has not been done.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict the schema.
    pub fn batches(&self, schema: &TableSchema, out: &mut Vec<RecordBatch>) -> Result<()> {
        let (alive, mut selected) = (self.alive(), Vec::new());
        self.chunk.columns().select(&alive, &mut selected)?;
        let rows = selected.iter().map(|(_, batch)| batch.num_rows() as u64).sum::<u64>();
        assert_eq!(rows, count(&alive), "rows in memory are rows that are read");
        out.extend(selected.into_iter().map(|(from, batch)| history::adapt(&batch, &from, schema)));
        Ok(())
    }
}

pub(super) fn count(ranges: &[Range<usize>]) -> u64 {
    ranges.iter().map(|range| range.len() as u64).sum()
}

impl DeltaRead {
    /// Reads `chunks`, which are all of the table above `bounds.flushed`, in order.
    pub fn new(chunks: &[Arc<Chunk>], bounds: Bounds) -> Self {
        let (divisions, parts) = (Vec::new(), Vec::new());
        let mut read =
            Self { schema: None, truncated: None, divisions, dropped: false, parts, last: None };
        let mut ended = HashSet::new();
        for (lsn, event) in chunks.iter().flat_map(|chunk| bounds.events(chunk)) {
            match event {
                Event::Rowsets(_) => {}
                Event::Truncate => read.truncated = Some(*lsn),
                Event::Divide(division) => read.divisions.push((*lsn, Arc::clone(division))),
                Event::Schema(schema) => read.schema = Some(Arc::clone(schema)),
                Event::Drop => read.dropped = true,
                Event::GroupEnd(txn) => {
                    ended.insert(*txn);
                }
            }
            read.last = Some(*lsn);
        }
        let from = read.truncated.map_or(bounds.flushed, |at| at.max(bounds.flushed));
        let bounds = Bounds { flushed: from, ..bounds };
        divide(chunks, &read.divisions);
        for chunk in chunks {
            read.push(chunk, bounds, &ended);
        }
        let is_inside = read.last.is_none_or(|last| last <= bounds.horizon);
        assert!(is_inside, "a reader sees nothing above its horizon");
        let in_order = read.parts.is_sorted_by(|a, b| a.lsns().1 < b.lsns().0);
        assert!(in_order, "rows and files are read in the order of the log");
        read
    }

    /// The last LSN at or below the horizon where a group of the table has ended: all before it
    /// has ended too, since in keyed tables a record that ends its own group ends the open one
    /// (keys.md K21).
    pub fn last_end(chunks: &[Arc<Chunk>], bounds: Bounds) -> Lsn {
        let mut last = bounds.flushed;
        for chunk in chunks {
            let entries = chunk.entries.iter().filter(|entry| entry.ends_group);
            let entries = entries.map(|entry| entry.lsn).filter(|lsn| *lsn <= bounds.horizon);
            // A large load is a group of its own, and barriers end the open one.
            let events = bounds.events(chunk).map(|(lsn, _)| *lsn);
            last = entries.chain(events).fold(last, Lsn::max);
        }
        last
    }

    /// Adds the visible parts of a chunk, splitting rows where a large load stands between them.
    fn push(&mut self, chunk: &Arc<Chunk>, bounds: Bounds, ended: &HashSet<TxnId>) {
        let mut from = bounds.flushed;
        for (lsn, event) in bounds.events(chunk) {
            if let Event::Rowsets(rowsets) = event {
                let before = Bounds { flushed: from, horizon: *lsn, ..bounds };
                self.push_rows(chunk, before, ended, bounds.horizon);
                self.parts.push(DeltaPart::Rowsets(*lsn, self.kept(*lsn, rowsets)));
                from = *lsn;
            }
        }
        let behind = Bounds { flushed: from, ..bounds };
        self.push_rows(chunk, behind, ended, bounds.horizon);
    }

    /// The files of a large load at `lsn` whose partitions are not gone.
    fn kept(&self, lsn: Lsn, rowsets: &[Arc<Rowset>]) -> Vec<Arc<Rowset>> {
        let is_kept = |rowset: &&Arc<Rowset>| !is_lost(&self.divisions, lsn, rowset);
        rowsets.iter().filter(is_kept).cloned().collect()
    }

    /// Adds the rows of a chunk inside of `bounds`, as they are at `horizon`.
    fn push_rows(
        &mut self,
        chunk: &Arc<Chunk>,
        bounds: Bounds,
        ended: &HashSet<TxnId>,
        horizon: Lsn,
    ) {
        let first = chunk.entries.partition_point(|entry| entry.lsn <= bounds.flushed);
        let end = chunk.entries.partition_point(|entry| entry.lsn <= bounds.horizon);
        if first >= end {
            return;
        }
        let lsns = (chunk.entries[first].lsn, chunk.entries[end - 1].lsn);
        self.last = self.last.max(Some(lsns.1));
        let ranges = match bounds.freshness {
            Freshness::Committed => chunk.ranges(first..end, |_| true),
            Freshness::Published => {
                chunk.ranges(first..end, |entry| entry.ends_group || ended.contains(&entry.txn))
            }
        };
        if ranges.iter().any(|range| !range.is_empty()) {
            let chunk = Arc::clone(chunk);
            self.parts.push(DeltaPart::Rows(DeltaRows { chunk, ranges, horizon, lsns }));
        }
    }
}

/// Makes the rows of chunks dead that changes of partitions have lost.
pub(crate) fn divide(chunks: &[Arc<Chunk>], divisions: &[(Lsn, Arc<Division>)]) {
    for (lsn, division) in divisions {
        chunks.iter().for_each(|chunk| chunk.divide(*lsn, division));
    }
}

/// Whether the partition of a file of a large load at `lsn` is gone.
pub(super) fn is_lost(divisions: &[(Lsn, Arc<Division>)], lsn: Lsn, rowset: &Rowset) -> bool {
    divisions.iter().any(|(at, division)| *at > lsn && division.loses(rowset.meta().tablet))
}

impl Bounds {
    fn events(self, chunk: &Chunk) -> impl Iterator<Item = &(Lsn, Event)> {
        chunk
            .events
            .iter()
            .skip_while(move |(lsn, _)| *lsn <= self.flushed)
            .take_while(move |(lsn, _)| *lsn <= self.horizon)
    }
}
