//! The rows of one flush: everything frozen of a table, in log order, divided by tablet.
//! Nothing is sorted before the flush.

use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::{PartitionId, TabletId};
use freshet_schema::{Partition, Table, TableSchema, hash};

use crate::error::{Error, Result};
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
    /// [`Error::Internal`] when batches cannot be concatenated, [`Error::NoPartition`] for a row
    /// that no partition takes.
    ///
    /// # Panics
    /// When a batch has other columns.
    pub fn new(
        table: &Table,
        schema: &TableSchema,
        batches: &[RecordBatch],
        turn: u64,
    ) -> Result<Self> {
        let rows = Rows::new(schema, batches)?;
        let mut numbers = vec![Vec::new(); table.tablets().count()];
        let places = Places::of(table, schema, rows.batch(), turn);
        match table.router() {
            None => {
                for row in 0..rows.len() as u32 {
                    numbers[places.tablet(0, row)].push(row);
                }
            }
            Some(router) => {
                let partitions = router.of_batch(rows.batch(), schema);
                for (partition, row) in partitions.into_iter().zip(0u32..) {
                    let partition = partition.ok_or_else(|| {
                        Error::NoPartition(router.text(rows.batch(), schema, row as usize))
                    })?;
                    numbers[places.tablet(partition as usize, row)].push(row);
                }
            }
        }
        let of_partition = |one: &Partition| {
            let id = one.id;
            one.tablets.clone().into_iter().map(move |tablet| (tablet, id))
        };
        let tablets = table.partitions.iter().flat_map(of_partition).zip(numbers);
        let tablets = tablets
            .filter(|(_, rows)| !rows.is_empty())
            .map(|((tablet, partition), rows)| TabletRows { tablet, partition, rows })
            .collect::<Vec<_>>();
        let divided = tablets.iter().map(|tablet| tablet.rows.len()).sum::<usize>();
        assert_eq!(divided, rows.len(), "each row is of one tablet");
        Ok(Self { rows: Arc::new(rows), tablets })
    }
}

/// Where rows are among the tablets of all partitions.
struct Places {
    /// The index of the first tablet of each partition, and how many it has.
    partitions: Vec<(usize, u32)>,
    /// `None` where each partition has one tablet.
    in_partition: Option<hash::Places>,
}

impl Places {
    fn of(table: &Table, schema: &TableSchema, batch: &RecordBatch, turn: u64) -> Self {
        let mut first = 0;
        let counted = |one: &Partition| {
            let partition = (first, one.tablets.len() as u32);
            first += one.tablets.len();
            partition
        };
        let in_partition = table
            .has_several_buckets()
            .then(|| hash::Places::new(batch, schema, &table.distribution, turn));
        Self { partitions: table.partitions.iter().map(counted).collect(), in_partition }
    }

    /// The index of the tablet of a row of a partition.
    fn tablet(&self, partition: usize, row: u32) -> usize {
        let (first, count) = self.partitions[partition];
        let places = self.in_partition.as_ref();
        first + places.map_or(0, |places| places.bucket(row as usize, count)) as usize
    }
}
