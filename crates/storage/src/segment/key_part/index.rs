//! The index of a segment by other columns than its sort key: for each row the value, and behind it
//! the number of the row in four bytes, big endian, in the order of these bytes. Values are made as
//! keys are, so none is the beginning of another.

use arrow::array::RecordBatch;
use freshet_base::ColumnId;
use freshet_schema::TableSchema;
use freshet_schema::key::{KeyOrder, Keys};

/// The bytes of a row's number behind its value.
const ROW_BYTES: usize = size_of::<u32>();

/// Gathers the values of one index; it holds all of them until it ends.
pub struct IndexWriter {
    columns: Vec<ColumnId>,
    values: Vec<u8>,
    /// Where each value ends.
    ends: Vec<u64>,
}

impl IndexWriter {
    pub fn new(columns: Vec<ColumnId>) -> Self {
        Self { columns, values: Vec::new(), ends: Vec::new() }
    }

    /// Appends the values of the next rows, which have the columns of `schema`.
    ///
    /// # Panics
    /// When the schema lacks a column of the index.
    pub fn push(&mut self, batch: &RecordBatch, schema: &TableSchema) {
        let values = Keys::of_index(batch, schema, &self.columns);
        let (values, _) = values.expect("an index is of columns of the segment");
        for row in 0..values.len() {
            self.values.extend_from_slice(values.key(row));
            self.ends.push(self.values.len() as u64);
        }
    }

    /// The bytes that it holds.
    pub fn memory_bytes(&self) -> u64 {
        (self.values.len() + self.ends.len() * (size_of::<u64>() + ROW_BYTES)) as u64
    }

    /// The number of rows.
    ///
    /// # Panics
    /// When there are more than a segment may have.
    pub fn rows(&self) -> u32 {
        u32::try_from(self.ends.len()).expect("rows of a segment have 32 bits")
    }

    pub fn columns(&self) -> &[ColumnId] {
        &self.columns
    }

    /// The values in their order, each with its row; rows with equal ones stay in their order.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], u32)> {
        let order = KeyOrder::of(self.rows(), |row| self.value(row));
        order.numbers.into_iter().map(|row| (self.value(row), row))
    }

    fn value(&self, row: u32) -> &[u8] {
        let row = row as usize;
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.values[start as usize..self.ends[row] as usize]
    }
}

/// The value and the row of an entry; `None` if it is too short to be one.
pub(super) fn split(entry: &[u8]) -> Option<(&[u8], u32)> {
    let (value, row) = entry.split_last_chunk()?;
    Some((value, u32::from_be_bytes(*row)))
}
