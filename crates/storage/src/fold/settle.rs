//! The second step of applying an event: files and definitions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use freshet_base::budget::Budget;
use freshet_base::{Incarnation, Lsn, TabletId, Version};
use freshet_schema::{Partition, Table};

use super::{Barrier, Event};
use crate::compaction::check_rows;
use crate::delta::{Bounds, DeltaRead, Freshness};
use crate::resolver::{EndedSwap, FlushSwap, MergeSwap, flushed_to};
use crate::rowset::Rowset;
use crate::view::{TableView, TabletFiles};

/// What settling events leaves to be done once the view is shown.
#[derive(Default)]
pub(crate) struct Settled {
    /// Rowsets that are no longer in the view.
    pub gone: Vec<Arc<Rowset>>,
    pub swaps: Vec<EndedSwap>,
}

/// How often a swap tries to read keys.
const RESOLVE_ATTEMPTS: usize = 4;

impl Event<'_> {
    /// Makes the marks up to the horizon while no snapshot opens, in a swap.
    ///
    /// # Panics
    /// When keys cannot be read, as they could a moment before: what is in the log cannot be
    /// refused any more, and the next start begins with what is stored.
    pub(crate) fn resolve(&mut self) {
        let swap = match self {
            Self::Publish { swap: Some(swap), .. } => &mut swap.swap,
            Self::Replace { swap: Some(swap), .. } => &mut swap.swap,
            _ => return,
        };
        let mut resolved = swap.resolve();
        for _ in 1..RESOLVE_ATTEMPTS {
            resolved = resolved.or_else(|_| swap.resolve());
        }
        if let Err(error) = resolved {
            panic!("the files of a table cannot be replaced: {error}");
        }
    }

    /// Whether it replaces files of a keyed table.
    pub(crate) fn is_swap(&self) -> bool {
        matches!(self, Self::Publish { swap: Some(_), .. } | Self::Replace { swap: Some(_), .. })
    }

    /// Whether it changes the table's definition in the catalog.
    pub fn defines(&self) -> bool {
        matches!(self, Self::Barrier { .. } | Self::Define)
    }

    /// Whether rows of the delta are no longer needed after it, except by earlier snapshots.
    pub(crate) fn frees_rows(&self) -> bool {
        match self {
            Self::Publish { .. } => true,
            Self::Barrier { barrier, .. } => {
                !matches!(barrier, Barrier::Alter(_) | Barrier::Divide(..))
            }
            _ => false,
        }
    }
}

impl TableView {
    /// What its delta contains above its files, up to `lsn`.
    pub fn read_up_to(&self, lsn: Lsn) -> DeltaRead {
        let (flushed, freshness) = (self.flushed, Freshness::Committed);
        let bounds = Bounds { flushed, horizon: lsn, freshness };
        DeltaRead::new(&self.delta.chunks(&self.head), bounds)
    }

    /// Applies an event at `at`, after which `table` is the definition in metadata. Rowsets that
    /// are removed are added to `settled`, and the memory of rows that only snapshots need moves to
    /// the budget `kept`. Returns whether the table still exists.
    pub(crate) fn settle(
        &mut self,
        at: Lsn,
        event: Event<'_>,
        table: Option<&Arc<Table>>,
        kept: &Budget,
        settled: &mut Settled,
    ) -> bool {
        let is_own = table.is_none_or(|table| table.id == self.table.id);
        assert!(is_own, "an event has the definition of its table");
        match event {
            // Rows remain in the delta until a flush has written them to files.
            Event::Load(_) | Event::GroupEnd { .. } | Event::Term { .. } => {}
            Event::Publish { version, schema, rowsets, swap } => {
                let flushed = self.advance(at, version, kept);
                assert!(schema.version >= self.schema.version, "a flush has the newest columns");
                self.schema = schema;
                settled.swaps.extend(self.flushed(rowsets, swap, flushed));
            }
            Event::Replace { tablet, removed, added, swap } => {
                self.merged(tablet, removed, (added, swap), settled);
            }
            Event::Barrier { barrier: Barrier::Drop, .. } => {
                settled.gone.extend(self.rowsets());
                self.delta.flushed(self.delta.freeze(), kept);
                return false;
            }
            Event::Barrier { barrier: Barrier::Truncate { incarnation }, version, .. } => {
                let table = table.expect("a table is truncated before it is dropped");
                let before = self.rowsets().into_iter().filter(|rowset| rowset.lsns().1 <= at);
                settled.gone.extend(before);
                if let Some(schema) = self.read_up_to(at).schema {
                    self.schema = schema;
                }
                // Frozen, so that earlier rows release their memory.
                self.delta.freeze();
                self.advance(at, version, kept);
                self.empty(table, incarnation);
            }
            Event::Barrier { barrier: Barrier::Alter(_) | Barrier::Divide(..), .. }
            | Event::Define => {
                if let Some(table) = table {
                    self.divide(at, table, &mut settled.gone);
                    (self.table, self.defined) = (Arc::clone(table), at);
                }
            }
        }
        true
    }

    /// Advances the flushed LSN to `at`, and returns its old value.
    fn advance(&mut self, at: Lsn, version: Version, kept: &Budget) -> Lsn {
        let from = std::mem::replace(&mut self.flushed, at);
        let before = std::mem::replace(&mut self.version, version);
        // A TRUNCATE added by replay for a lost record may have the LSN of the record before it.
        assert!(from <= at, "the flushed LSN of a table goes forward: {from} to {at}");
        assert!(before <= version, "the version of a table never falls: {before} to {version}");
        self.head = self.delta.flushed(at, kept);
        from
    }

    /// Adds the rowsets of a flush that began after `from`; in keyed tables, all files get the
    /// marks of this view.
    fn flushed(
        &mut self,
        rowsets: Vec<Arc<Rowset>>,
        swap: Option<Box<FlushSwap>>,
        from: Lsn,
    ) -> Option<EndedSwap> {
        assert_eq!(swap.is_some(), self.resolver.is_some(), "marks of a keyed table are swapped");
        let Some(swap) = swap else {
            rowsets.into_iter().for_each(|rowset| self.add(rowset, from));
            return None;
        };
        let at = self.flushed;
        for tablet in Arc::make_mut(&mut self.tablets) {
            tablet.rowsets.iter_mut().for_each(|rowset| *rowset = flushed_to(rowset, at));
        }
        let rowsets = swap.with_marks(rowsets, at);
        rowsets.into_iter().for_each(|rowset| self.add(rowset, from));
        Some(swap.end(&self.tablets, at, self.delta.first_row()))
    }

    /// Adds a rowset of a flush that began after `from`.
    fn add(&mut self, rowset: Arc<Rowset>, from: Lsn) {
        let (first, last) = rowset.lsns();
        assert!(from < first && last <= self.flushed, "a flush writes rows of its range");
        assert!(rowset.schema().version <= self.schema.version, "the table has its columns");
        let mut tablets = Arc::make_mut(&mut self.tablets).iter_mut();
        let tablet = tablets.find(|tablet| tablet.id == rowset.meta().tablet);
        let rowsets = &mut tablet.expect("a flush writes to tablets that the table has").rowsets;
        let before = rowsets.last().map(|before| before.lsns().1);
        assert!(before < Some(first), "rowsets of a tablet follow each other");
        rowsets.push(rowset);
    }

    /// Replaces the inputs of a merge by its result. Flushes may have added newer rowsets since.
    fn merged(
        &mut self,
        tablet: TabletId,
        removed: Vec<Arc<Rowset>>,
        (added, swap): (Arc<Rowset>, Option<Box<MergeSwap>>),
        settled: &mut Settled,
    ) {
        assert_eq!(swap.is_some(), self.resolver.is_some(), "marks of a keyed table are swapped");
        let flushed = self.flushed;
        let tablets = Arc::make_mut(&mut self.tablets);
        let tablet = tablets.iter_mut().find(|files| files.id == tablet);
        // A TRUNCATE has replaced the table's tablets meanwhile.
        let Some(TabletFiles { rowsets, .. }) = tablet else {
            return settled.gone.push(added);
        };
        let at = rowsets.iter().position(|rowset| rowset.meta().id == removed[0].meta().id);
        let at = at.expect("only its merge removes a rowset");
        let range = at..at + removed.len();
        let inputs = rowsets[range.clone()].iter().zip(&removed);
        assert!(
            inputs.clone().all(|(a, b)| a.meta().id == b.meta().id),
            "inputs stand side by side"
        );
        check_rows(&removed, added.rows(), added.schema());
        let (first, last) = (removed[0].lsns().0, removed[removed.len() - 1].lsns().1);
        let is_inside = first <= added.lsns().0 && added.lsns().1 <= last;
        assert!(is_inside, "a merge has the LSNs of its inputs");
        let added = match &swap {
            Some(swap) => Arc::new(swap.with_marks(&added, &rowsets[range.clone()], flushed)),
            None => added,
        };
        // A merge of rows that were all dead leaves nothing.
        let added = Some(added).filter(|added| added.rows() > 0);
        settled.gone.extend(rowsets.splice(range, added));
        let ended = swap.map(|swap| swap.end(&self.tablets, flushed, self.delta.first_row()));
        settled.swaps.extend(ended);
    }

    /// Takes the tablets of the partitions that a table has from `at` on, with their files.
    fn divide(&mut self, at: Lsn, table: &Table, gone: &mut Vec<Arc<Rowset>>) {
        if table.tablets().eq(self.tablets.iter().map(|files| files.id)) {
            return;
        }
        let known = self.tablets.iter().map(|files| (files.id, &files.rowsets));
        let mut known = known.collect::<HashMap<_, _>>();
        let mut tablets = Self::empty_tablets(table);
        for tablet in &mut tablets {
            if let Some(rowsets) = known.remove(&tablet.id) {
                tablet.rowsets.clone_from(rowsets);
            }
        }
        gone.extend(known.into_values().flatten().cloned());
        let kept = table.tablets().collect::<HashSet<_>>();
        let loaded = self.delta.rowsets(&self.head).into_iter().filter(|rowset| {
            let lsn = rowset.lsns().1;
            self.flushed < lsn && lsn < at && !kept.contains(&rowset.meta().tablet)
        });
        gone.extend(loaded);
        self.tablets = Arc::new(tablets);
    }

    /// Takes the definition of a truncated table. Metadata may contain later changes of it, but no
    /// other tablets.
    fn empty(&mut self, table: &Arc<Table>, incarnation: Incarnation) {
        let is_newer = |partition: &Partition| partition.incarnation >= incarnation;
        assert!(table.partitions.iter().all(is_newer), "metadata has the incarnation of the log");
        let tablets = Self::empty_tablets(table);
        let is_old = |new: &TabletFiles| self.tablets.iter().any(|old| old.id == new.id);
        assert!(!tablets.iter().any(is_old), "a truncated table has other tablets");
        (self.table, self.tablets) = (Arc::clone(table), Arc::new(tablets));
    }
}
