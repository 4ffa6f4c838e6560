//! The rows of one flush: everything frozen of a table, in log order, divided by tablet.
//! Nothing is sorted before the flush.

use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::{PartitionId, TabletId};
use freshet_schema::{Table, TableSchema, hash};

use crate::error::Result;
use crate::sort::Rows;

/// The rows of one flush.
pub struct Memtable {
    pub rows: Arc<Rows>,
    /// Tablets that have rows.
    pub tablets: Vec<TabletRows>,
}

/// The rows of one tablet.
pub struct TabletRows {
    pub tablet: TabletId,
    /// The tablet's partition.
    pub partition: PartitionId,
    /// Indices of its rows, ascending.
    pub rows: Vec<u32>,
}

impl Memtable {
    /// Divides `batches`, which have the columns of `schema`; the table may have others by now.
    /// `turn`, the number of rows flushed before, determines the first tablet for the rows of a
    /// RANDOM table.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when batches cannot be concatenated.
    ///
    /// # Panics
    /// When a batch has other columns.
    pub fn new(
        table: &Table,
        schema: &TableSchema,
        batches: &[RecordBatch],
        turn: u64,
    ) -> Result<Self> {
        let partition = table.partition();
        let buckets = u32::try_from(partition.tablets.len()).expect("buckets are bounded");
        let rows = Rows::new(schema, batches)?;
        let mut numbers = vec![Vec::new(); partition.tablets.len()];
        let buckets =
            hash::tablet_indices(rows.batch(), schema, &table.distribution, buckets, turn);
        for (bucket, row) in buckets.into_iter().zip(0u32..) {
            numbers[bucket as usize].push(row);
        }
        let tablets = partition.tablets.iter().zip(numbers).filter(|(_, rows)| !rows.is_empty());
        let tablets = tablets
            .map(|(&tablet, rows)| TabletRows { tablet, partition: partition.id, rows })
            .collect::<Vec<_>>();
        let divided = tablets.iter().map(|tablet| tablet.rows.len()).sum::<usize>();
        assert_eq!(divided, rows.len(), "each row is of one tablet");
        Ok(Self { rows: Arc::new(rows), tablets })
    }
}
