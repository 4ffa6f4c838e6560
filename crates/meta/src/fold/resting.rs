//! Partitions in the recycle bin: what DROP PARTITION has taken out of a table, with the files that
//! have its rows (RFC 0046).

use std::sync::Arc;

use freshet_base::{PartitionId, TableId};
use freshet_schema::{DeclaredKey, Partition, Table};

use super::Fold;
use crate::rowset::{MarkFileMeta, RowsetMeta};

/// A partition in the recycle bin. Its id is never the id of a partition again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resting {
    /// The table that it was of.
    pub table: TableId,
    /// As it was: its rows are in the rowsets of its tablets.
    pub partition: Partition,
    /// When it was dropped, microseconds since 1970-01-01 UTC.
    pub dropped_micros: i64,
    /// The mark files that tell which of its rows are dead.
    pub marks: Vec<MarkFileMeta>,
    /// The unique keys of the table then, which its rows fulfil.
    pub keys: Vec<DeclaredKey>,
}

/// A partition in the recycle bin, and its rowsets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredResting {
    pub resting: Arc<Resting>,
    /// By tablet, in LSN order.
    pub rowsets: Vec<RowsetMeta>,
}

impl StoredResting {
    /// The size of its files.
    pub fn bytes(&self) -> u64 {
        self.rowsets.iter().map(RowsetMeta::bytes).sum()
    }
}

impl Fold {
    /// The partitions of all tables in the recycle bin.
    pub fn resting(&self) -> Vec<StoredResting> {
        self.resting.values().map(|one| self.with_rowsets(one)).collect()
    }

    /// Those of one table.
    pub fn resting_of(&self, table: TableId) -> Vec<StoredResting> {
        let of_table = (table, PartitionId(0))..=(table, PartitionId(u64::MAX));
        self.resting.range(of_table).map(|(_, one)| self.with_rowsets(one)).collect()
    }

    fn with_rowsets(&self, resting: &Arc<Resting>) -> StoredResting {
        let tablets = resting.partition.tablets.iter();
        let rowsets = tablets.flat_map(|tablet| self.rowsets(*tablet)).cloned().collect();
        StoredResting { resting: Arc::clone(resting), rowsets }
    }

    /// Whether a file of this rowset is of a partition in the recycle bin.
    pub fn rests(&self, table: TableId, rowset: &RowsetMeta) -> bool {
        let of_table = (table, PartitionId(0))..=(table, PartitionId(u64::MAX));
        let mut resting = self.resting.range(of_table);
        resting.any(|(_, one)| one.partition.tablets.contains(&rowset.tablet))
    }

    /// Puts a partition of a table into the recycle bin. All its rows are in files, and which of
    /// them are dead.
    pub(crate) fn rest(&mut self, table: &Table, partition: Partition, dropped_micros: i64) {
        let unique = table.declared_keys.iter().filter(|key| key.kind.is_unique());
        let resting = Resting {
            table: table.id,
            dropped_micros,
            marks: self.marks(table.id).collect(),
            keys: unique.cloned().collect(),
            partition,
        };
        let place = (table.id, resting.partition.id);
        let before = self.resting.insert(place, Arc::new(resting));
        assert!(before.is_none(), "the id of a partition is given once");
    }

    /// Forgets a partition of the recycle bin, with its files.
    pub(crate) fn forget(&mut self, table: TableId, partition: PartitionId) {
        let Some(resting) = self.resting.remove(&(table, partition)) else { return };
        self.changes += 1;
        self.remove_rowsets(resting.partition.tablets.iter().copied());
    }

    /// Forgets all of a table.
    pub(crate) fn forget_all(&mut self, table: TableId) {
        for one in self.resting_of(table) {
            self.forget(table, one.resting.partition.id);
        }
    }
}
