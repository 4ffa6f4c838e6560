//! The rows of one flush: everything of a table up to a cut, in the order of the log, divided
//! by tablet. Nothing is sorted before the flush, and nothing is copied here.

use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::{PartitionId, TabletId};
use freshet_schema::{Table, hash};

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
    /// # Panics
    /// When the table has no partition.
    pub fn new(table: &Table, batches: Vec<RecordBatch>, turn: u64) -> Self {
        let partition = table.partitions.first().expect("a table has a partition");
        let buckets = u32::try_from(partition.tablets.len()).expect("buckets are bounded");
        let rows = Rows::new(batches);
        let mut numbers = vec![Vec::new(); partition.tablets.len()];
        if buckets == 1 {
            numbers[0] = (0..rows.len() as u32).collect();
        } else {
            let mut row = 0;
            for batch in rows.batches() {
                let turn = turn + u64::from(row);
                for bucket in hash::tablet_indices(batch, table, buckets, turn) {
                    numbers[bucket as usize].push(row);
                    row += 1;
                }
            }
        }
        let tablets = partition.tablets.iter().zip(numbers).filter(|(_, rows)| !rows.is_empty());
        let tablets = tablets
            .map(|(&tablet, rows)| TabletRows { tablet, partition: partition.id, rows })
            .collect();
        Self { rows: Arc::new(rows), tablets }
    }
}
