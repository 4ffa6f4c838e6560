//! Resolves tables in a snapshot.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::LogicalPlan;
use freshet_base::{Result, TableId, err};
use freshet_storage::snapshot::{Snapshot, TableSnapshot};

use crate::provider::{StoredTable, UnboundTable};
use crate::tables::{Table, Tables};
use freshet_schema::Zone;

/// The tables of a snapshot, with the uncommitted rows of a transaction.
pub struct SnapshotTables<'a> {
    pub snapshot: &'a Snapshot,
    /// The time zone in which instants are displayed.
    pub zone: Zone,
    /// Adds rows that are visible to this session only.
    pub overlay: &'a (dyn Fn(TableSnapshot) -> Result<TableSnapshot> + Send + Sync),
    /// The tables of system databases.
    pub system: &'a dyn Tables,
}

impl SnapshotTables<'_> {
    /// The table of this id, listed or not.
    ///
    /// # Errors
    /// 1146 when it does not exist.
    pub fn stored(&self, database: &str, name: &str, id: TableId) -> Result<Table> {
        let missing = || err!(NoSuchTable, "Table '{database}.{name}' doesn't exist");
        let snapshot = self.snapshot.table(id)?.ok_or_else(missing)?;
        let snapshot = (self.overlay)(snapshot)?;
        Ok(Table(Arc::new(StoredTable::new(database, snapshot, self.zone))))
    }
}

impl Tables for SnapshotTables<'_> {
    fn table(&self, database: &str, name: &str) -> Result<Table> {
        if freshet_meta::is_reserved_database(database) {
            return self.system.table(database, name);
        }
        let catalog = &self.snapshot.catalog;
        catalog.require_database(database)?;
        let table = catalog.require_table(database, name)?;
        self.stored(database, name, table.id)
    }
}

/// Database and name of a stored table; `None` for other tables.
pub fn place(provider: &dyn TableProvider) -> Option<(String, String)> {
    let unbound = || provider.downcast_ref::<UnboundTable>().map(UnboundTable::place);
    provider.downcast_ref::<StoredTable>().map(StoredTable::place).or_else(unbound)
}

/// Removes the snapshot of a stored table; `None` for other tables.
pub fn unbound(provider: &dyn TableProvider) -> Option<Arc<dyn TableProvider>> {
    let table = provider.downcast_ref::<StoredTable>()?;
    Some(Arc::new(UnboundTable::new(table)))
}

/// Replaces the tables of a plan by those that `change` returns.
///
/// # Errors
/// Those of `change`.
pub fn on_tables(
    plan: LogicalPlan,
    change: impl Fn(&dyn TableProvider) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError>,
) -> Result<LogicalPlan, DataFusionError> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
        let provider = source_as_provider(&scan.source)?;
        let Some(other) = change(provider.as_ref())? else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        scan.source = provider_as_source(other);
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })
    .map(|transformed| transformed.data)
}
