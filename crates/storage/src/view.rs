//! What readers pin: all tables' files and deltas at one instant, swapped whole.

use std::sync::Arc;

use arc_swap::ArcSwap;
use freshet_base::budget::Budget;
use freshet_base::{Lsn, PartitionId, TableId, TabletId, Version};
use freshet_meta::Catalog;
use freshet_schema::{Table, TableSchema};
use imbl::HashMap;

use crate::delta::{Delta, Freshness, Node};
use crate::fold::Event;
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
    /// A table whose records up to `flushed` are in files, of which `tablets` has those that it
    /// still has; its delta is empty.
    pub fn new(
        table: Arc<Table>,
        flushed: Lsn,
        version: Version,
        tablets: Vec<TabletFiles>,
    ) -> Self {
        let delta = Arc::new(Delta::new(table.id, table.history.versions()));
        let (schema, head) = (Arc::clone(table.schema()), delta.head());
        Self { table, schema, flushed, version, tablets, delta, head }
    }

    /// A table that was just created.
    pub fn created(table: &Arc<Table>) -> Self {
        Self::new(Arc::clone(table), Lsn::ZERO, Version(1), Self::empty_tablets(table))
    }

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

    /// Shows the catalog as `catalog` finds it.
    pub fn show(&self, catalog: impl FnOnce() -> Arc<Catalog>) {
        self.replace(|store| store.catalog = catalog());
    }

    /// Shows a table that metadata has just got, and the catalog that names it.
    ///
    /// # Panics
    /// When it is shown already.
    pub fn add(&self, table: TableView, catalog: impl FnOnce() -> Arc<Catalog>) {
        self.replace(|store| {
            store.catalog = catalog();
            let before = store.tables.insert(table.table.id, Arc::new(table));
            assert!(before.is_none(), "a table is created once");
        });
    }

    /// Applies events at `at` that metadata reflects now, in one step for all readers: what
    /// `catalog` finds then is shown with those that change definitions. Tables that are gone
    /// are passed over. Returns the rowsets that no view has any more.
    ///
    /// Open snapshots are handed what they may still look at of a table whose delta gives rows
    /// back, and let go of the rest; what only they keep in memory counts as theirs from now on.
    ///
    /// # Panics
    /// When an event does not fit the table: metadata is told first, and refuses what does not.
    pub fn settle(
        &self,
        at: Lsn,
        events: Vec<(TableId, Event<'_>)>,
        catalog: impl FnOnce() -> Arc<Catalog>,
    ) -> Vec<Arc<Rowset>> {
        let freed = events.iter().filter(|(_, event)| event.frees_rows());
        let freed = freed.map(|(table, _)| *table).collect::<Vec<_>>();
        let mut gone = Vec::new();
        self.replace(|store| {
            // Without events a database has gone that had no table.
            if events.is_empty() || events.iter().any(|(_, event)| event.defines()) {
                store.catalog = catalog();
            }
            for (id, event) in events {
                let Some(current) = store.tables.get(&id) else { continue };
                let table = store.catalog.table_by_id(id);
                let mut next = TableView::clone(current);
                match next.settle(at, event, table, self.pins.memory(), &mut gone) {
                    true => store.tables.insert(id, Arc::new(next)),
                    false => store.tables.remove(&id),
                };
            }
        });
        // In this order: whoever pins behind the swap finds the new view.
        if !freed.is_empty() {
            self.pins.detach(&freed);
            self.pins.keep_to_limit();
        }
        gone
    }

    /// The one place that writes the view. Changes follow each other; none may call back.
    fn replace(&self, change: impl FnOnce(&mut StoreView)) {
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

    /// The snapshots that are open.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }
}

#[cfg(test)]
mod tests;
