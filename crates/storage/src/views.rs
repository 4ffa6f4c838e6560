//! The current view, which is replaced atomically, and the snapshots of it and of earlier ones.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use freshet_base::budget::Budget;
use freshet_base::{Lsn, TableId};
use freshet_meta::Catalog;

use crate::delta::Freshness;
use crate::fold::{Event, Settled};
use crate::pins::Pins;
use crate::resolver::EndedSwap;
use crate::rowset::Rowset;
use crate::snapshot::{Snapshot, SnapshotTables};
use crate::sync::Mutex;
use crate::view::{StoreView, TableView};

/// The current [`StoreView`], and snapshots of earlier ones.
pub struct Views {
    current: ArcSwap<StoreView>,
    writing: Mutex<()>,
    pins: Pins,
}

impl Views {
    /// Starts with `view`. Rows that only open snapshots need are accounted in `memory`.
    pub fn new(view: StoreView, memory: Budget) -> Self {
        let pins = Pins::new(memory);
        Self { current: ArcSwap::from_pointee(view), writing: Mutex::new(()), pins }
    }

    /// The current view.
    pub fn load(&self) -> Arc<StoreView> {
        self.current.load_full()
    }

    /// A table as it is now.
    pub fn table(&self, id: TableId) -> Option<Arc<TableView>> {
        self.current.load().tables.get(&id).cloned()
    }

    /// Whether this is the published catalog.
    pub fn shows(&self, catalog: &Weak<Catalog>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.current.load().catalog), catalog.as_ptr())
    }

    /// Publishes the catalog that `catalog` returns.
    pub fn show(&self, catalog: impl FnOnce() -> Arc<Catalog>) {
        self.replace(|store| store.catalog = catalog());
    }

    /// Publishes a new table and the catalog that contains it.
    ///
    /// # Panics
    /// When the view has the table already.
    pub fn add(&self, table: TableView, catalog: impl FnOnce() -> Arc<Catalog>) {
        self.replace(|store| {
            store.catalog = catalog();
            let before = store.tables.insert(table.table.id, Arc::new(table));
            assert!(before.is_none(), "a table is created once");
        });
    }

    /// Applies the events at `at`, which metadata now reflects, atomically for all readers. If
    /// definitions change, the catalog that `catalog` returns is published with them. Tables that
    /// no longer exist are skipped. Returns the rowsets that are no longer in the view.
    ///
    /// If a table's delta releases rows, open snapshots get what they may still read of the table
    /// and drop the rest; rows that only they need are accounted to them from now on.
    ///
    /// # Panics
    /// When an event does not fit the table: metadata is updated first, and rejects such events.
    pub fn settle(
        &self,
        at: Lsn,
        mut events: Vec<(TableId, Event<'_>)>,
        catalog: impl FnOnce() -> Arc<Catalog>,
    ) -> Vec<Arc<Rowset>> {
        // Who has a snapshot of the view before sees nothing that is resolved after it (K20).
        let no_snapshot_opens = events.iter().any(|(_, event)| event.is_swap());
        let no_snapshot_opens = no_snapshot_opens.then(|| self.pins.hold());
        events.iter_mut().for_each(|(_, event)| event.resolve());
        let freed = events.iter().filter(|(_, event)| event.frees_rows());
        let freed = freed.map(|(table, _)| *table).collect::<Vec<_>>();
        let mut settled = Settled::default();
        self.replace(|store| {
            // No events: a database without tables was dropped.
            if events.is_empty() || events.iter().any(|(_, event)| event.defines()) {
                store.catalog = catalog();
            }
            for (id, event) in events {
                let Some(current) = store.tables.get(&id) else { continue };
                let table = store.catalog.table_by_id(id);
                let mut next = TableView::clone(current);
                match next.settle(at, event, table, self.pins.memory(), &mut settled) {
                    true => store.tables.insert(id, Arc::new(next)),
                    false => store.tables.remove(&id),
                };
            }
        });
        let Settled { gone, swaps } = settled;
        swaps.into_iter().for_each(EndedSwap::forget_keys);
        drop(no_snapshot_opens);
        // In this order: a snapshot opened after the replacement gets the new view.
        if !freed.is_empty() {
            self.pins.detach(&freed);
            self.pins.keep_to_limit();
        }
        gone
    }

    /// The only function that changes the view. Changes are serialized, and must not call back.
    fn replace(&self, change: impl FnOnce(&mut StoreView)) {
        let _one_at_a_time = self.writing.lock();
        let mut view = StoreView::clone(&self.current.load());
        change(&mut view);
        self.current.store(Arc::new(view));
    }

    /// Opens a snapshot. The view is loaded before the horizon, so that its delta covers everything
    /// between its files and the horizon, regardless of concurrent flushes.
    pub fn pin(&self, freshness: Freshness, horizon: impl FnOnce() -> Lsn) -> Snapshot {
        self.pins.open(|| {
            let view = StoreView::clone(&self.current.load());
            SnapshotTables::new(view, horizon(), freshness)
        })
    }

    /// The open snapshots.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }
}

#[cfg(test)]
mod tests;
