//! Keys, or whole rows, whose stored rows a reader does not see, since its transaction has changed
//! them (keys.md K23, RFC 0022).

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use freshet_schema::key::{KeyCodec, Keys, key_alone};
use freshet_schema::{Column, TableSchema};

/// Keys of a table.
#[derive(Clone, Debug)]
pub struct HiddenKeys {
    keys: Arc<HashSet<Box<[u8]>>>,
    /// The columns of the key alone.
    schema: Arc<TableSchema>,
    /// Their positions in the table.
    columns: Vec<usize>,
}

impl HiddenKeys {
    /// These keys of a table with the columns of `schema`; `None` if there are none.
    pub fn new(keys: impl IntoIterator<Item = Box<[u8]>>, schema: &TableSchema) -> Option<Self> {
        let keys = keys.into_iter().collect::<HashSet<_>>();
        let columns = schema.sort_key.clone();
        let schema = Arc::new(key_alone(schema, &columns));
        (!keys.is_empty()).then(|| Self { keys: Arc::new(keys), schema, columns })
    }

    /// Encoded rows of a table with the columns of `schema`, all of whose values count; `None` if
    /// there are none.
    pub fn of_rows(rows: &[Vec<u8>], schema: &TableSchema) -> Option<Self> {
        let columns = (0..schema.columns.len()).collect::<Vec<_>>();
        let schema = Arc::new(values_alone(schema));
        let keys = KeyCodec::of_sort_key(&schema).of_rows(&rows.concat());
        let keys = (0..keys.len()).map(|at| Box::from(keys.key(at))).collect::<HashSet<_>>();
        (!keys.is_empty()).then(|| Self { keys: Arc::new(keys), schema, columns })
    }

    /// The columns of the key, as positions in the table.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The rows of a batch that are seen; the columns of the key are at `places`.
    pub fn seen(&self, batch: &RecordBatch, places: &[usize]) -> RecordBatch {
        let of_key = batch.project(places).expect("the columns of the key are read");
        let keys = Keys::of_batch(&of_key, &self.schema);
        let is_seen = |row: usize| Some(!self.keys.contains(keys.key(row)));
        let seen = (0..batch.num_rows()).map(is_seen).collect::<BooleanArray>();
        filter_record_batch(batch, &seen).expect("the mask has the rows of the batch")
    }
}

/// All columns of a schema as a key, in which equal texts of a collation are not the same.
fn values_alone(schema: &TableSchema) -> TableSchema {
    let exact = |column: &Column| Column { keyed_by_weights: false, ..column.clone() };
    let columns = schema.columns.iter().map(exact).collect::<Vec<_>>();
    let sort_key = (0..columns.len()).collect();
    TableSchema::new(schema.version, columns, sort_key)
}
