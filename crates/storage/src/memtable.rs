//! The rows of one flush: everything of a table up to a cut, in the order of the log, divided
//! by tablet. Nothing is sorted before the flush.

use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::{PartitionId, TabletId};
use freshet_schema::{Table, hash};

use crate::error::Result;
use crate::sort::Rows;

/// The rows of one flush.
pub struct Memtable {
    /// All rows.
    pub rows: Arc<Rows>,
    /// Tablets that have rows, with the numbers of theirs, ascending.
    pub tablets: Vec<TabletRows>,
}

/// What a flush has for a tablet.
pub struct TabletRows {
    /// The tablet.
    pub tablet: TabletId,
    /// The partition it is of.
    pub partition: PartitionId,
    /// Numbers of its rows, ascending.
    pub rows: Vec<u32>,
}

impl Memtable {
    /// Divides `batches`, which have the table's current columns. `turn` is where rows of a
    /// RANDOM table begin: the number of rows flushed before.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict the table's.
    ///
    /// # Panics
    /// When the table has no partition.
    pub fn new(table: &Table, batches: &[RecordBatch], turn: u64) -> Result<Self> {
        let partition = table.partitions.first().expect("a table has a partition");
        let buckets = u32::try_from(partition.tablets.len()).expect("buckets are bounded");
        let rows = Rows::new(table.schema(), batches)?;
        let mut numbers = vec![Vec::new(); partition.tablets.len()];
        let buckets = hash::tablet_indices(rows.batch(), table, buckets, turn);
        for (bucket, row) in buckets.into_iter().zip(0u32..) {
            numbers[bucket as usize].push(row);
        }
        let tablets = partition.tablets.iter().zip(numbers).filter(|(_, rows)| !rows.is_empty());
        let tablets = tablets
            .map(|(&tablet, rows)| TabletRows { tablet, partition: partition.id, rows })
            .collect();
        Ok(Self { rows: Arc::new(rows), tablets })
    }
}
