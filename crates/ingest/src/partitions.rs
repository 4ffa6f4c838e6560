//! Partitions of a table at the end of the log: which rows and files may be appended (RFC 0019).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use freshet_base::{Error, Result, TabletId, bail, err};
use freshet_meta::{Repartition, RowsetMeta};
use freshet_schema::{
    Partition, PartitionBy, PartitionKey, RoutedKeys, Router, RowCells, Table, TableSchema,
    Unrouted,
};
use freshet_storage::division::Division;

/// The partitions of a table as of the log's end.
pub(crate) struct Layout {
    router: Arc<Router>,
    tablets: HashSet<TabletId>,
    /// Of a table whose partitions are made when rows need them.
    auto: Option<PartitionBy>,
}

impl Layout {
    /// Those of a table; `None` without PARTITION BY.
    pub fn of(table: &Table) -> Option<Arc<Self>> {
        let by = table.partition_by.as_ref()?;
        Some(Arc::new(Self::new(by, &table.partitions)))
    }

    /// Those behind a change.
    pub fn behind(change: &Repartition) -> Arc<Self> {
        Arc::new(Self::new(&change.by, &change.partitions))
    }

    fn new(by: &PartitionBy, partitions: &[Partition]) -> Self {
        let values = partitions.iter().filter_map(|one| one.values.as_ref());
        Self {
            router: Arc::new(Router::new(by, values)),
            tablets: partitions.iter().flat_map(|one| one.tablets.iter().copied()).collect(),
            auto: by.auto.map(|_| by.clone()),
        }
    }

    /// The same partitions behind a TRUNCATE, which gives them these tablets.
    pub fn emptied(&self, tablets: &[TabletId]) -> Arc<Self> {
        let (router, auto) = (Arc::clone(&self.router), self.auto.clone());
        Arc::new(Self { router, tablets: tablets.iter().copied().collect(), auto })
    }

    /// The values of rows that need a partition which AUTO PARTITION makes.
    pub fn wanted(&self, schema: &TableSchema, rows: &[u8], removals: u32) -> Vec<PartitionKey> {
        let Some(by) = &self.auto else { return Vec::new() };
        self.router.wanted(by, schema, behind(schema, rows, removals))
    }

    /// Tells which keys of rows with these columns partitions take.
    pub fn routed_keys(&self, schema: &TableSchema) -> RoutedKeys {
        RoutedKeys::new(Arc::clone(&self.router), schema)
    }

    /// Checks encoded rows; the first `removals` only remove their key.
    ///
    /// # Errors
    /// 1526 for the first row that no partition takes.
    pub fn check(&self, schema: &TableSchema, rows: &[u8], removals: u32) -> Result<()> {
        let checked = self.router.check(schema, behind(schema, rows, removals));
        checked.map_err(|unrouted| no_partition(&unrouted))
    }

    /// Checks that the partitions of files are there.
    pub fn check_files(&self, table: &str, files: &[RowsetMeta]) -> Result<()> {
        if files.iter().all(|file| self.tablets.contains(&file.tablet)) {
            return Ok(());
        }
        bail!(
            SnapshotTooOld,
            "a partition of table '{table}' was dropped or truncated while the load ran; nothing \
             was loaded, send it again"
        );
    }
}

/// The rows behind those that only remove their key.
fn behind<'r>(schema: &TableSchema, mut rows: &'r [u8], removals: u32) -> &'r [u8] {
    let cells = RowCells::new(schema);
    for _ in 0..removals {
        rows = &rows[cells.row_bytes(rows)..];
    }
    rows
}

/// 1526 in MySQL's words; rows are counted from 1.
pub(crate) fn no_partition(Unrouted { row, values }: &Unrouted) -> Error {
    err!(NoPartition, "Table has no partition for value {values}: row {}", row + 1)
}

/// What a change of partitions means for a table.
pub(crate) struct Divided {
    pub division: Arc<Division>,
    /// `None` without PARTITION BY.
    pub layout: Option<Arc<Layout>>,
    /// Those that the table has from there on.
    pub tablets: Vec<TabletId>,
    /// Whose rows come with the change.
    pub files: Vec<RowsetMeta>,
    /// Of the table.
    pub schema: Arc<TableSchema>,
}

impl Divided {
    /// What it means for a table with these partitions; `None` where its views are known to have
    /// those behind the change.
    pub fn new(
        change: &Repartition,
        schema: &Arc<TableSchema>,
        before: Option<&[Partition]>,
    ) -> Self {
        let changed = before.map(|before| changed(before, &change.partitions));
        let division = Arc::new(Division::new(&change.by, schema, &change.removed, changed));
        let is_divided = change.partitions.iter().any(|one| one.values.is_some());
        let layout = is_divided.then(|| Layout::behind(change));
        let tablets = change.partitions.iter().flat_map(|one| one.tablets.iter().copied());
        let (tablets, files) = (tablets.collect(), change.files.clone());
        Self { division, layout, tablets, files, schema: Arc::clone(schema) }
    }
}

/// The partitions that are new, or other than before.
fn changed(before: &[Partition], behind: &[Partition]) -> Vec<Partition> {
    let before = before.iter().map(|one| (one.id, one)).collect::<HashMap<_, _>>();
    behind.iter().filter(|one| before.get(&one.id) != Some(one)).cloned().collect()
}
