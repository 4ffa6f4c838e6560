//! Resolves tables in a snapshot.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::LogicalPlan;
use freshet_base::{Result, TableId, bail, err};
use freshet_meta::unknown_partition;
use freshet_storage::snapshot::{Snapshot, TableSnapshot};

use crate::provider::{StoredTable, UnboundTable};
use crate::tables::{Table, Tables};
use freshet_schema::Zone;

/// The tables of a snapshot, with the uncommitted rows of a transaction.
pub struct SnapshotTables<'a> {
    pub snapshot: &'a Snapshot,
    /// The time zone in which instants are displayed.
    pub zone: Zone,
    /// Adds rows that are visible to this session only; told whether the statement reads rows here
    /// that are given in place of those of the table.
    pub overlay: &'a (dyn Fn(TableSnapshot, bool) -> Result<TableSnapshot> + Send + Sync),
    /// Whether hidden columns are seen.
    pub shows_hidden: bool,
    /// The tables of system databases.
    pub system: &'a dyn Tables,
}

/// Stands between the name of a table and those of the partitions that are read of it.
pub const PARTITION_MARK: char = '\u{1}';

/// Stands in front of the names of temporary partitions, as a name.
pub const TEMPORARY_MARK: &str = "\u{2}";

/// Stands behind the names of partitions, as a name, where hidden columns are read, too.
pub const HIDDEN_MARK: &str = "\u{3}";

/// The temporary partitions among these names, if they are such.
pub fn temporary_names<N: AsRef<str>>(names: &[N]) -> Option<&[N]> {
    let (first, names) = names.split_first()?;
    (first.as_ref() == TEMPORARY_MARK).then_some(names)
}

/// The name of a table without the partitions that are read of it.
pub fn without_partitions(name: &str) -> &str {
    name.split_once(PARTITION_MARK).map_or(name, |(table, _)| table)
}

/// Whether rows that are given stand under this name, in place of those of the table.
pub fn is_given(name: &str) -> bool {
    name.split_once(PARTITION_MARK).is_some_and(|(_, partitions)| partitions.is_empty())
}

/// What a statement reads of the partitions that it names.
fn within(snapshot: TableSnapshot, names: &[&str]) -> Result<TableSnapshot> {
    let table = &snapshot.table;
    if table.partition_by.is_none() {
        bail!(PartitionClause, "PARTITION () clause on non partitioned table");
    }
    let at = |name: &&str| table.partition_at(name).ok_or_else(|| unknown_partition(table, name));
    let partitions = names.iter().map(at).collect::<Result<Vec<_>>>()?;
    Ok(snapshot.within(&partitions))
}

impl SnapshotTables<'_> {
    /// The table of this id, listed or not; its name may have partitions that are read of it.
    ///
    /// # Errors
    /// 1146 when it does not exist; 1735 and 1747 for partitions that there are none.
    pub fn stored(&self, database: &str, full_name: &str, id: TableId) -> Result<Table> {
        let mut names = full_name.split(PARTITION_MARK);
        let name = names.next().unwrap_or_default();
        let mut partitions = names.collect::<Vec<_>>();
        let shows_hidden = self.shows_hidden || partitions.last() == Some(&HIDDEN_MARK);
        partitions.retain(|name| *name != HIDDEN_MARK);
        let is_given = partitions == [""];
        let missing = || err!(NoSuchTable, "Table '{database}.{name}' doesn't exist");
        let (id, named) = self.named(id, &partitions)?;
        let snapshot = self.snapshot.table(id)?.ok_or_else(missing)?;
        let mut snapshot = (self.overlay)(snapshot, is_given)?;
        if !named.is_empty() && !is_given {
            snapshot = within(snapshot, named)?;
        }
        let mut stored = StoredTable::new((database, full_name), snapshot, self.zone);
        if shows_hidden {
            stored = stored.showing_hidden();
        }
        Ok(Table::new(Arc::new(stored)))
    }
}

impl SnapshotTables<'_> {
    /// The table that has the named partitions, and their names.
    fn named<'n>(&self, id: TableId, names: &'n [&'n str]) -> Result<(TableId, &'n [&'n str])> {
        let Some(temporary) = temporary_names(names) else { return Ok((id, names)) };
        let table = self.snapshot.catalog.require(id)?;
        let first = temporary.first().copied().unwrap_or_default();
        match self.snapshot.catalog.temporary_partitions(id) {
            Some(there) if !temporary.is_empty() => Ok((there.id, temporary)),
            _ => Err(unknown_partition(table, first)),
        }
    }
}

impl Tables for SnapshotTables<'_> {
    fn table(&self, database: &str, full_name: &str) -> Result<Table> {
        let name = without_partitions(full_name);
        if freshet_meta::is_reserved_database(database) {
            return self.system.table(database, name);
        }
        let catalog = &self.snapshot.catalog;
        catalog.require_database(database)?;
        let table = catalog.require_table(database, name)?;
        self.stored(database, full_name, table.id)
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
