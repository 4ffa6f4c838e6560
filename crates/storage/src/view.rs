//! The view that readers pin: files and deltas of all tables at one instant.

use std::sync::Arc;

use freshet_base::{Lsn, TableId, Version};
use freshet_meta::Catalog;
use freshet_schema::{Table, TableSchema};
use imbl::HashMap;

use crate::delta::{Delta, Node};
use crate::resolver::{KeyMemory, Resolver};
use crate::rowset::Rowset;
pub use crate::tablet::TabletFiles;

/// A table at one instant: files up to an LSN, and a delta after it.
#[derive(Clone)]
pub struct TableView {
    pub table: Arc<Table>,
    /// Its columns at `flushed`; an ALTER above is in the delta.
    pub schema: Arc<TableSchema>,
    /// Records up to this LSN are in `tablets`.
    pub flushed: Lsn,
    /// The table's version at `flushed`.
    pub version: Version,
    /// The last change of its definition that has settled since the start, zero if none has:
    /// `table` has it and all before.
    pub defined: Lsn,
    /// In the order of partitions and buckets; shared with snapshots.
    pub tablets: Arc<Vec<TabletFiles>>,
    /// Records above `flushed`; older ones in it are not read.
    pub delta: Arc<Delta>,
    /// The first node of the delta to read.
    pub head: Arc<Node>,
    /// Makes its marks.
    pub resolver: Option<Arc<Resolver>>,
}

impl TableView {
    /// A table with an empty delta, whose records up to `flushed` are in files; `tablets` has those
    /// that still exist.
    pub fn new(
        table: Arc<Table>,
        flushed: Lsn,
        version: Version,
        tablets: Vec<TabletFiles>,
    ) -> Self {
        let delta = Arc::new(Delta::new(table.id, table.history.versions()));
        let (schema, head) = (Arc::clone(table.schema()), delta.head());
        let (defined, tablets) = (Lsn::ZERO, Arc::new(tablets));
        Self { table, schema, flushed, version, defined, tablets, delta, head, resolver: None }
    }

    /// With what makes the marks of its rows.
    #[must_use]
    pub fn with_resolver(mut self, memory: &KeyMemory) -> Self {
        let table = &self.table;
        let new = Resolver::new(table, &self.delta, self.flushed, &self.tablets, memory);
        self.resolver = Some(Arc::new(new));
        self
    }

    /// A newly created table.
    pub fn created(table: &Arc<Table>) -> Self {
        Self::new(Arc::clone(table), Lsn::ZERO, Version(1), Self::empty_tablets(table))
    }

    /// The tablets of a table without files.
    pub fn empty_tablets(table: &Table) -> Vec<TabletFiles> {
        let of_partition = |partition: &freshet_schema::Partition| {
            let id = partition.id;
            let empty = move |tablet| TabletFiles { id: tablet, partition: id, rowsets: vec![] };
            partition.tablets.iter().copied().map(empty).collect::<Vec<_>>()
        };
        table.partitions.iter().flat_map(of_partition).collect()
    }

    /// All files that the table or a snapshot of it may use: those of tablets, and of all large
    /// loads in its delta, including those before a TRUNCATE or DROP.
    pub fn rowsets(&self) -> Vec<Arc<Rowset>> {
        let files = self.tablets.iter().flat_map(|tablet| tablet.rowsets.iter().cloned());
        files.chain(self.delta.rowsets(&self.head)).collect()
    }
}

/// All tables at one instant.
#[derive(Clone)]
pub struct StoreView {
    /// Names, users and definitions.
    pub catalog: Arc<Catalog>,
    pub tables: HashMap<TableId, Arc<TableView>>,
}
