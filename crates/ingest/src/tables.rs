//! All tables: their metadata, what readers see of them, and their states for writers.

use std::sync::Arc;

use arc_swap::ArcSwap;
use freshet_base::{Lsn, TableId};
use freshet_meta::{Catalog, Meta};
use freshet_schema::Table;
use freshet_storage::fold::{Barrier, Event};
use freshet_storage::gc::Retired;
use freshet_storage::resolver::KeyMemory;
use freshet_storage::view::TableView;
use freshet_storage::views::Views;
use imbl::HashMap;
use parking_lot::Mutex;

use crate::log_dirs::Lock;
use crate::state::TableState;

/// Metadata comes first: views and states follow what has settled in it.
pub(crate) struct Tables {
    pub meta: Meta,
    pub views: Views,
    states: ArcSwap<HashMap<TableId, Arc<TableState>>>,
    /// Of tables that are just created, the table whose generated ids they take.
    counting_with: Mutex<HashMap<TableId, TableId>>,
    /// Rowsets that the view no longer contains.
    pub retired: Retired,
    /// Of the keys of all tables.
    pub key_memory: KeyMemory,
    /// The size of a table's rows in memory at which they are flushed.
    flush_bytes: u64,
    /// Exclude other processes from the store. They are the last field, so that metadata is closed
    /// first, and here, since background work that outlives the engine has the tables.
    _locks: Vec<Lock>,
}

/// Whose ids a table takes is told until this is dropped: its statement may be given up.
pub(crate) struct CountingWith<'a> {
    tables: &'a Tables,
    id: TableId,
}

impl Drop for CountingWith<'_> {
    fn drop(&mut self) {
        self.tables.counting_with.lock().remove(&self.id);
    }
}

impl Tables {
    pub fn new(
        meta: Meta,
        views: Views,
        states: HashMap<TableId, Arc<TableState>>,
        (key_memory, flush_bytes): (KeyMemory, u64),
        locks: Vec<Lock>,
    ) -> Self {
        Self {
            meta,
            views,
            states: ArcSwap::from_pointee(states),
            counting_with: Mutex::default(),
            retired: Retired::default(),
            key_memory,
            flush_bytes,
            _locks: locks,
        }
    }

    pub fn state(&self, id: TableId) -> Option<Arc<TableState>> {
        self.states.load().get(&id).cloned()
    }

    /// The states of all tables, by id.
    pub fn states(&self) -> Vec<Arc<TableState>> {
        let mut states = self.states.load().values().cloned().collect::<Vec<_>>();
        states.sort_unstable_by_key(|state| state.id);
        states
    }

    /// The view of a table.
    pub fn view(&self, id: TableId) -> Option<Arc<TableView>> {
        self.views.load().tables.get(&id).cloned()
    }

    /// The currently published catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.views.load().catalog)
    }

    /// Publishes the current catalog of metadata.
    pub fn show_catalog(&self) {
        self.views.show(|| self.meta.catalog());
    }

    /// Lets a table that is added while the guard lives take generated ids of `owner`.
    pub fn count_with(&self, id: TableId, owner: TableId) -> CountingWith<'_> {
        self.counting_with.lock().insert(id, owner);
        CountingWith { tables: self, id }
    }

    /// Makes a table that was just added to metadata visible to readers and writers.
    pub fn add(&self, table: &Arc<Table>) {
        let view = TableView::created(table).with_resolver(&self.key_memory);
        let catalog = self.meta.catalog();
        let db = catalog.database_name(table);
        let next_id = self.meta.fold().counter(table);
        let owner =
            table.temporary_of.or_else(|| self.counting_with.lock().get(&table.id).copied());
        let owner = owner.and_then(|of| self.state(of));
        let state = TableState::new(&view, db, view.flushed, (next_id, self.flush_bytes));
        let state = Arc::new(state.counting_with(owner.as_deref()));
        let before = self.states.rcu(|states| states.update(state.id, Arc::clone(&state)));
        assert!(!before.contains_key(&state.id), "a table is created once");
        self.views.add(view, || self.meta.catalog());
    }

    /// Removes tables that the record at `lsn` has removed from metadata. Their files are deleted
    /// once no older snapshot reads them.
    pub fn remove(&self, lsn: Lsn, ids: &[TableId]) {
        let event = |state: Arc<TableState>| {
            let (barrier, version) = (Barrier::Drop, state.version());
            (state.id, Event::Barrier { barrier, ended: None, version })
        };
        let events = ids.iter().filter_map(|id| self.state(*id)).map(event).collect();
        self.show(lsn, lsn, events);
        let shown = self.views.load();
        let is_gone = ids.iter().all(|id| !shown.tables.contains_key(id));
        assert!(is_gone, "readers see no table that metadata has dropped");
        self.states.rcu(|states| {
            let mut states = HashMap::clone(states);
            ids.iter().for_each(|id| drop(states.remove(id)));
            states
        });
    }

    /// Publishes events of the record at `lsn`, which metadata reflects; the view of their tables
    /// is at `at` afterwards.
    pub fn show(&self, lsn: Lsn, at: Lsn, events: Vec<(TableId, Event<'_>)>) {
        assert!(at <= lsn, "a record tells of what stands before it in the log");
        let tables = events.iter().map(|(table, _)| *table).collect::<Vec<_>>();
        let gone = self.views.settle(at, events, || {
            let catalog = self.meta.catalog();
            // Called while changes of the view are serialized, so that published definitions never
            // go back.
            for id in &tables {
                if let Some((state, table)) = self.state(*id).zip(catalog.table_by_id(*id)) {
                    state.adopt(table, catalog.database_name(table));
                }
            }
            catalog
        });
        let fold = self.meta.fold();
        for rowset in &gone {
            // Those of partitions that went to the recycle bin stay.
            match tables.iter().any(|id| fold.rests(*id, rowset.meta())) {
                true => self.retired.add_resting(rowset),
                false => self.retired.add(lsn, rowset),
            }
        }
    }
}
