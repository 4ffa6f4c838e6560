//! What readers pin: all tables' files and deltas at one instant, swapped whole.

use std::sync::Arc;

use arc_swap::ArcSwap;
use freshet_base::budget::Budget;
use freshet_base::{Lsn, PartitionId, TableId, TabletId, Version};
use freshet_meta::Catalog;
use freshet_schema::{Table, TableSchema};
use imbl::HashMap;

use crate::delta::{Delta, Freshness, Node};
use crate::pins::Pins;
use crate::rowset::Rowset;
use crate::snapshot::{Reach, Snapshot};
use crate::sync::Mutex;

/// The files of a tablet, up to its table's flushed LSN.
#[derive(Clone)]
pub struct TabletFiles {
    /// The tablet.
    pub id: TabletId,
    /// The partition it is of.
    pub partition: PartitionId,
    /// Its rowsets, in the order of their LSNs, which do not overlap.
    pub rowsets: Vec<Arc<Rowset>>,
}

/// A table at one instant: files up to an LSN, delta from there on.
#[derive(Clone)]
pub struct TableView {
    /// Its definition.
    pub table: Arc<Table>,
    /// Its columns at `flushed`; an ALTER above it is in the delta.
    pub schema: Arc<TableSchema>,
    /// Records up to here are in `tablets`.
    pub flushed: Lsn,
    /// The table's version at `flushed`.
    pub version: Version,
    /// Its files.
    pub tablets: Vec<TabletFiles>,
    /// Records above `flushed`, and perhaps some below that are not looked at.
    pub delta: Arc<Delta>,
    /// Where in the delta to begin.
    pub head: Arc<Node>,
}

impl TableView {
    /// The tablets of a table that has no files.
    pub fn empty_tablets(table: &Table) -> Vec<TabletFiles> {
        let of_partition = |partition: &freshet_schema::Partition| {
            let id = partition.id;
            let empty = move |tablet| TabletFiles { id: tablet, partition: id, rowsets: vec![] };
            partition.tablets.iter().copied().map(empty).collect::<Vec<_>>()
        };
        table.partitions.iter().flat_map(of_partition).collect()
    }

    /// All files that it or a snapshot of it may name: those of tablets, and of every large load
    /// in its delta, also behind a TRUNCATE or a DROP.
    pub fn rowsets(&self) -> Vec<Arc<Rowset>> {
        let files = self.tablets.iter().flat_map(|tablet| tablet.rowsets.iter().cloned());
        files.chain(self.delta.rowsets(&self.head)).collect()
    }
}

/// All tables at one instant.
#[derive(Clone)]
pub struct StoreView {
    /// Names, users, definitions.
    pub catalog: Arc<Catalog>,
    /// The tables.
    pub tables: HashMap<TableId, Arc<TableView>>,
}

/// The one place where the current [`StoreView`] is, and the snapshots of earlier ones.
pub struct Views {
    current: ArcSwap<StoreView>,
    writing: Mutex<()>,
    pins: Arc<Pins>,
}

impl Views {
    /// Starts with `view`. Rows that only open snapshots keep are counted in `memory`.
    pub fn new(view: StoreView, memory: Budget) -> Self {
        let pins = Arc::new(Pins::new(memory));
        Self { current: ArcSwap::from_pointee(view), writing: Mutex::new(()), pins }
    }

    /// The view now.
    pub fn load(&self) -> Arc<StoreView> {
        self.current.load_full()
    }

    /// Replaces the view by what `change` makes of it, in one step for all readers. Changes
    /// follow each other; `change` must not call back.
    pub fn update(&self, change: impl FnOnce(&mut StoreView)) {
        let _one_at_a_time = self.writing.lock();
        let mut view = StoreView::clone(&self.current.load());
        change(&mut view);
        self.current.store(Arc::new(view));
    }

    /// Pins a snapshot: the view first and the horizon second, so that the delta of the view
    /// reaches at least from its files to the horizon, whatever is flushed meanwhile.
    pub fn pin(&self, freshness: Freshness, horizon: impl FnOnce() -> Lsn) -> Snapshot {
        self.pins.open(|| {
            let view = StoreView::clone(&self.current.load());
            Reach::new(view, horizon(), freshness)
        })
    }

    /// Replaces the view by one in which records of `delta` up to `lsn` are in files, or gone:
    /// `change` gets the head behind them. Open snapshots are handed what they may still look at
    /// and let go of the rest; what only they keep in memory counts as theirs from now on.
    pub fn settle(&self, delta: &Delta, lsn: Lsn, change: impl FnOnce(&mut StoreView, Arc<Node>)) {
        let head = delta.flushed(lsn, self.pins.memory());
        self.update(|view| change(view, head));
        // In this order: whoever pins behind the update finds the new view.
        self.pins.detach(&[delta.table()]);
        self.pins.keep_to_limit();
    }

    /// Replaces the view by what `change` makes of it, without the tables of these deltas, which
    /// nobody writes any more. Their rows need no files: open snapshots keep what they may still
    /// look at. Returns the tables as they were.
    pub fn remove(
        &self,
        deltas: &[Arc<Delta>],
        change: impl FnOnce(&mut StoreView),
    ) -> Vec<Arc<TableView>> {
        for delta in deltas {
            delta.flushed(delta.cut(), self.pins.memory());
        }
        let ids = deltas.iter().map(|delta| delta.table()).collect::<Vec<_>>();
        let mut removed = Vec::new();
        self.update(|view| {
            change(view);
            removed.extend(ids.iter().filter_map(|id| view.tables.remove(id)));
        });
        self.pins.detach(&ids);
        self.pins.keep_to_limit();
        removed
    }

    /// The snapshots that are open.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }
}

#[cfg(test)]
mod tests;
