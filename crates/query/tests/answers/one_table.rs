//! A store with one table, and queries of it.

use std::sync::Arc;

use freshet_base::budget::Budget;
use freshet_base::{Lsn, Result, Version};
use freshet_query::engine::StatementContext;
use freshet_query::provider::StoredTable;
use freshet_query::session::Session;
use freshet_query::tables::{self, Tables};
use freshet_schema::{Table, Zone};
use freshet_storage::delta::Freshness;
use freshet_storage::snapshot::TableSnapshot;
use freshet_storage::view::{StoreView, TableView};
use freshet_storage::views::Views;

use crate::common::session;

/// The table under any name, in a time zone.
pub struct One(pub TableSnapshot, pub Zone);

impl Tables for One {
    fn table(&self, database: &str, name: &str) -> Result<tables::Table> {
        let table = StoredTable::new((database, name), self.0.clone(), self.1);
        Ok(tables::Table::new(Arc::new(table)))
    }
}

impl StatementContext for One {
    fn session(&self) -> Session<'_> {
        session()
    }
}

/// A store with this table, which is empty.
pub fn views(table: &Arc<Table>) -> Views {
    let view = TableView::new(Arc::clone(table), Lsn(0), Version(1), Vec::new());
    let mut store = StoreView { catalog: Default::default(), tables: Default::default() };
    store.tables.insert(table.id, Arc::new(view));
    Views::new(store, Budget::new("memory of snapshots", 1 << 20))
}

/// A snapshot of such a store.
pub fn empty(table: &Arc<Table>) -> TableSnapshot {
    views(table).pin(Freshness::Committed, || Lsn(9)).table(table.id).unwrap().unwrap()
}
