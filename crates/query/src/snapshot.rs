//! The tables of one snapshot.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use freshet_base::{Result, err};
use freshet_storage::snapshot::{Snapshot, TableSnapshot};

use crate::provider::{StoredTable, UnboundTable};
use crate::tables::{Table, Tables};
use freshet_schema::Zone;

/// The tables of one snapshot, and what a transaction has put on top of them.
pub struct SnapshotTables<'a> {
    /// What is read.
    pub snapshot: &'a Snapshot,
    /// The zone that instants are shown in.
    pub zone: Zone,
    /// Rows that only this session sees.
    pub overlay: &'a (dyn Fn(TableSnapshot) -> Result<TableSnapshot> + Send + Sync),
    /// The tables of `information_schema` and the like.
    pub system: &'a dyn Tables,
}

impl Tables for SnapshotTables<'_> {
    fn table(&self, database: &str, name: &str) -> Result<Table> {
        if crate::system::is_system(database) {
            return self.system.table(database, name);
        }
        let catalog = &self.snapshot.catalog;
        catalog.require_database(database)?;
        let table = catalog.require_table(database, name)?;
        let missing = || err!(NoSuchTable, "Table '{database}.{name}' doesn't exist");
        let snapshot = self.snapshot.table(table.id)?.ok_or_else(missing)?;
        let snapshot = (self.overlay)(snapshot)?;
        Ok(Table(Arc::new(StoredTable::new(database, snapshot, self.zone))))
    }
}

/// Database and name of a stored table; `None` for others, which hold what they say.
pub fn place(provider: &dyn TableProvider) -> Option<(String, String)> {
    let unbound = || provider.downcast_ref::<UnboundTable>().map(UnboundTable::place);
    provider.downcast_ref::<StoredTable>().map(StoredTable::place).or_else(unbound)
}

/// The same table without its snapshot; `None` where there is none to let go of.
pub fn unbound(provider: &dyn TableProvider) -> Option<Arc<dyn TableProvider>> {
    let table = provider.downcast_ref::<StoredTable>()?;
    Some(Arc::new(UnboundTable::new(table)))
}
