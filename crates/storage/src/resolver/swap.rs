//! The swap: a flush or a merge replaces what readers see of a keyed table, and the marks that were
//! made meanwhile move to the new places of their rows (keys.md K20, RFC 0012).

use std::ops::Range;
use std::sync::Arc;

use freshet_base::lock::Held;
use freshet_base::{ColumnId, Lsn, RowsetId, SegmentId};
use freshet_meta::{RowsetMeta, SegmentMeta};

use super::{Resolver, State, ValueTable};
use crate::compaction::RowMap;
use crate::delta::DeltaMark;
use crate::error::Result;
use crate::flush::Written;
use crate::marks::{DeadRows, Mark, MarkSection, SegmentMarks, SegmentPlace};
use crate::rowset::Rowset;
use crate::segment::{WaitMode, at_once};
use crate::tablet::TabletFiles;

/// Keeps others from resolving until the files of a table are replaced.
pub struct Swap {
    state: Held<State>,
    horizon: Box<dyn Fn() -> Lsn + Send + Sync>,
}

impl Resolver {
    /// Says that a flush writes the rows up to `lsn`: their keys are forgotten at once when it
    /// ends, and who writes waits for its swap no longer than need be.
    ///
    /// # Errors
    /// Those of [`Self::resolve_to`].
    pub async fn begin_flush(&self, lsn: Lsn) -> Result<()> {
        self.resolve_to(lsn).await?;
        let mut state = self.state.lock().await;
        state.keys.write().begin_generation();
        state.values.iter_mut().for_each(ValueTable::begin_generation);
        Ok(())
    }

    /// Begins a swap with all marks up to the horizon made.
    ///
    /// # Errors
    /// Those of [`Self::resolve_to`].
    pub async fn begin_swap(
        &self,
        horizon: impl Fn() -> Lsn + Send + Sync + 'static,
    ) -> Result<Swap> {
        // Most is resolved before others are kept out.
        self.resolve_to(horizon()).await?;
        let mut state = self.state.lock().await;
        state.resolve(horizon(), WaitMode::Awaiting).await?;
        Ok(Swap { state, horizon: Box::new(horizon) })
    }
}

impl Swap {
    /// Whether files with these indexes can be looked up by all unique keys, some of which may be
    /// younger than the files.
    pub fn takes_files_with(&self, indexes: &[Vec<ColumnId>]) -> bool {
        self.state.values.iter().all(|values| indexes.contains(&values.columns))
    }

    /// Makes the marks up to the horizon, blocking, while no snapshot opens.
    ///
    /// # Errors
    /// Those of [`Resolver::resolve_to`].
    pub(crate) fn resolve(&mut self) -> Result<()> {
        let to = (self.horizon)();
        at_once(self.state.resolve(to, WaitMode::Blocking))
    }

    /// Goes on with the files of the view up to `flushed`, and with the rows of the delta from
    /// `first_row` on.
    fn end(mut self, tablets: &[TabletFiles], flushed: Lsn, first_row: u64) -> EndedSwap {
        let state = &mut *self.state;
        state.runs.renew(tablets, flushed);
        if state.cut > flushed {
            // The view does not know of the TRUNCATE yet.
            state.runs.forget_to(flushed);
        }
        state.values.iter_mut().for_each(|index| index.keep_from(first_row));
        state.keep_ranks(|row| row >= first_row);
        // What was resolved in the open node holds it since.
        state.pass_nodes(state.resolved);
        state.marks.forget_before(first_row);
        state.made.retain(|mark| mark.row >= first_row);
        state.made.shrink_to_fit();
        let head = state.delta.head();
        if let Some(unkeyed) = &mut state.unkeyed {
            unkeyed.begins(head);
        }
        EndedSwap { state: self.state, first_row }
    }
}

/// A swap whose view is not shown yet. Who reads a key by the view before finds it in the key table
/// until then (keys.md K2).
pub(crate) struct EndedSwap {
    state: Held<State>,
    first_row: u64,
}

impl EndedSwap {
    /// Forgets the keys that are in files now: the view is shown.
    pub fn forget_keys(mut self) {
        let keys = &self.state.keys;
        // Point reads go on while it is found out what stays.
        let kept = keys.read().kept_from(self.first_row);
        keys.write().keep(kept);
        self.state.account();
    }
}

/// Where a flush has written rows of the delta.
#[derive(Debug, Default)]
pub struct FlushedRows {
    /// The numbers of the rows that were handed to it, ascending, and how many come before each
    /// stretch.
    numbers: Vec<(Range<u64>, u32)>,
    /// For each row handed over its rowset among those written, and its place there.
    places: Vec<(u32, u32)>,
    /// The number of rows of each segment of each rowset.
    rowsets: Vec<(RowsetId, Vec<u32>)>,
}

impl FlushedRows {
    /// The places of the rows with these numbers, in the order in which they were handed over.
    ///
    /// # Panics
    /// When these are not the rows that were written.
    pub fn new(numbers: impl IntoIterator<Item = Range<u64>>, written: &[Written]) -> Self {
        let mut rows = 0;
        let counted = |range: Range<u64>| {
            let before = rows;
            rows += u32::try_from(range.end - range.start).expect("a flush has few rows");
            (range, before)
        };
        let numbers = numbers.into_iter().map(counted).collect::<Vec<_>>();
        assert!(numbers.is_sorted_by(|a, b| a.0.end <= b.0.start), "numbers of rows ascend");
        let mut places = vec![(u32::MAX, 0); rows as usize];
        for (written, rowset) in written.iter().zip(0..) {
            for (&row, place) in written.rows.iter().zip(0..) {
                places[row as usize] = (rowset, place);
            }
        }
        let all = places.iter().all(|(rowset, _)| *rowset != u32::MAX);
        assert!(all, "each row that is handed to a flush is written");
        let rowsets = written.iter().map(|written| {
            let rows = written.rowset.segments.iter().map(|segment| rows_of(segment.rows));
            (written.rowset.id, rows.collect())
        });
        Self { numbers, places, rowsets: rowsets.collect() }
    }

    /// The place of a row of the delta; `None` if it was not handed over.
    fn place(&self, row: u64) -> Option<(RowsetId, SegmentId, u32)> {
        let at = self.numbers.partition_point(|(range, _)| range.end <= row);
        let (range, before) = self.numbers.get(at).filter(|(range, _)| range.contains(&row))?;
        let handed = *before as usize + (row - range.start) as usize;
        let (rowset, mut place) = self.places[handed];
        let (id, segments) = &self.rowsets[rowset as usize];
        for (&rows, segment) in segments.iter().zip(0..) {
            if place < rows {
                return Some((*id, SegmentId(segment), place));
            }
            place -= rows;
        }
        unreachable!("a row of a rowset is in one of its segments")
    }
}

/// The swap of a flush.
pub struct FlushSwap {
    pub swap: Swap,
    /// The rows that it has written.
    pub rows: Vec<FlushedRows>,
}

impl FlushSwap {
    /// The new rowsets of the flush up to `at` with their marks: those of large loads have some,
    /// the others get those that were made on rows of the delta meanwhile.
    pub(crate) fn with_marks(&self, rowsets: Vec<Arc<Rowset>>, at: Lsn) -> Vec<Arc<Rowset>> {
        let mut carried = self.swap.state.made.iter().filter_map(|&DeltaMark { row, lsn }| {
            let place = self.rows.iter().find_map(|rows| rows.place(row));
            assert!(place.is_none() || lsn > at, "a flush leaves out the rows that are dead");
            Some((place?, lsn))
        });
        let mut carried = carried.by_ref().collect::<Vec<_>>();
        carried.sort_by_key(|&((rowset, segment, _), lsn)| (rowset, segment, lsn));
        let add = |rowset: Arc<Rowset>| match rowset.marks() {
            Some(_) => flushed_to(&rowset, at),
            None => {
                let id = rowset.meta().id;
                let marks = rowset.segments().iter().map(|segment| {
                    let segment = segment.meta();
                    let marks = SegmentMarks::new(rows_of(segment.rows), at, DeadRows::default());
                    let is_of = |((of, place, _), _): &&((RowsetId, SegmentId, u32), Lsn)| {
                        (*of, *place) == (id, segment.id)
                    };
                    let own = carried.iter().filter(is_of);
                    let own = own.map(|&((_, _, row), lsn)| Mark { row, lsn });
                    marks.push(&own.collect::<Vec<_>>());
                    Arc::new(marks)
                });
                Arc::new(rowset.with_marks(marks.collect()))
            }
        };
        rowsets.into_iter().map(add).collect()
    }

    /// Ends the swap with the view that readers see next.
    pub(crate) fn end(self, tablets: &[TabletFiles], flushed: Lsn, first_row: u64) -> EndedSwap {
        self.swap.end(tablets, flushed, first_row)
    }
}

/// The same rowset in a view whose files reach up to `at`.
pub(crate) fn flushed_to(rowset: &Arc<Rowset>, at: Lsn) -> Arc<Rowset> {
    let marks = rowset.marks().expect("the rowsets of a keyed table have marks");
    let marks = marks.iter().map(|marks| Arc::new(marks.flushed_to(at)));
    Arc::new(rowset.with_marks(marks.collect()))
}

/// The rows of these rowsets that died behind the flushed LSN of their view and up to `to`.
pub fn died<'a>(rowsets: impl Iterator<Item = &'a Arc<Rowset>>, to: Lsn) -> Vec<MarkSection> {
    sections(rowsets, |marks| marks.died_up_to(to))
}

/// All rows of these rowsets that are dead at `to`.
pub fn dead<'a>(rowsets: impl Iterator<Item = &'a Arc<Rowset>>, to: Lsn) -> Vec<MarkSection> {
    sections(rowsets, |marks| marks.dead_at(to).rows().collect())
}

fn sections<'a>(
    rowsets: impl Iterator<Item = &'a Arc<Rowset>>,
    dead: impl Fn(&SegmentMarks) -> Vec<u32>,
) -> Vec<MarkSection> {
    let mut sections = Vec::new();
    for rowset in rowsets {
        let marks = rowset.marks().expect("the rowsets of a keyed table have marks");
        for (segment, marks) in rowset.segments().iter().zip(marks) {
            let (tablet, id, segment) = (rowset.meta().tablet, rowset.meta().id, segment.meta().id);
            let place = SegmentPlace { tablet, rowset: id, segment };
            sections.push(MarkSection { place, rows: marks.rows(), dead: dead(marks) });
        }
    }
    sections.retain(|section| !section.dead.is_empty());
    sections.sort_by_key(|section| section.place);
    sections
}

/// The swap of a merge.
pub struct MergeSwap {
    pub swap: Swap,
    /// Where the rows of the result come from; `None` if no row of an input has died since it was
    /// read ([`Self::has_all_deaths`]).
    pub rows: Option<RowMap>,
}

impl MergeSwap {
    /// Whether all marks of these inputs were known when they were read as `read`.
    pub fn has_all_deaths(read: &[Arc<Rowset>], inputs: &[Arc<Rowset>]) -> bool {
        let known = read.iter().map(|rowset| rowset.rows() - rowset.flushed_rows());
        let all = inputs.iter().map(|rowset| rowset.rows() - rowset.rows_at(Lsn(u64::MAX)));
        known.eq(all)
    }

    /// The marks of the result, by segment and in the order of LSNs, for the inputs as they are in
    /// the view now. What is stored in files has the flushed LSN.
    fn carried(&self, inputs: &[Arc<Rowset>]) -> Vec<(SegmentId, Vec<Mark>)> {
        let Some(rows) = &self.rows else { return Vec::new() };
        let marks = inputs
            .iter()
            .flat_map(|rowset| rowset.marks().expect("the rowsets of a keyed table have marks"));
        let since = marks.zip(rows.dead()).map(|(marks, before)| {
            let is_new = |row: &u32| !before.contains(*row);
            let stored = marks.flushed_dead().rows().filter(is_new);
            let stored = stored.map(|row| Mark { row, lsn: marks.flushed() });
            stored.chain(marks.above(marks.flushed())).collect::<Vec<_>>()
        });
        rows.carry(&since.collect::<Vec<_>>())
    }

    /// The marks of the result that belong in files, since they are up to the flushed LSN, and the
    /// LSN above which they were made.
    pub fn stored(
        &self,
        removed: &[Arc<Rowset>],
        inputs: &[Arc<Rowset>],
        added: &RowsetMeta,
        flushed: Lsn,
    ) -> (Lsn, Vec<MarkSection>) {
        let before = removed.iter().flat_map(|rowset| rowset.marks()).flatten();
        let from = before.map(|marks| marks.flushed()).max().unwrap_or(flushed);
        let section = |((segment, carried), meta): ((SegmentId, Vec<Mark>), &SegmentMeta)| {
            let stored = carried.iter().filter(|mark| mark.lsn <= flushed);
            let mut dead = stored.map(|mark| mark.row).collect::<Vec<_>>();
            dead.sort_unstable();
            let place = SegmentPlace { tablet: added.tablet, rowset: added.id, segment };
            MarkSection { place, rows: rows_of(meta.rows), dead }
        };
        let sections = self.carried(inputs).into_iter().zip(&added.segments).map(section);
        (from, sections.filter(|section| !section.dead.is_empty()).collect())
    }

    /// The result with the marks of its inputs.
    pub(crate) fn with_marks(&self, added: &Rowset, inputs: &[Arc<Rowset>], at: Lsn) -> Rowset {
        let mut carried = self.carried(inputs).into_iter();
        let marks = added.segments().iter().map(|segment| {
            let own = carried.next().unwrap_or((segment.meta().id, Vec::new()));
            let (id, carried) = own;
            assert_eq!(segment.meta().id, id, "marks are carried by segment");
            let stored = carried.partition_point(|mark| mark.lsn <= at);
            let rows = rows_of(segment.meta().rows);
            let dead = DeadRows::new(rows, carried[..stored].iter().map(|mark| mark.row));
            let marks = SegmentMarks::new(rows, at, dead);
            marks.push(&carried[stored..]);
            Arc::new(marks)
        });
        added.with_marks(marks.collect())
    }

    /// Ends the swap with the view that readers see next.
    pub(crate) fn end(self, tablets: &[TabletFiles], flushed: Lsn, first_row: u64) -> EndedSwap {
        self.swap.end(tablets, flushed, first_row)
    }
}

fn rows_of(rows: u64) -> u32 {
    u32::try_from(rows).expect("the rows of a segment have numbers of 32 bits")
}
