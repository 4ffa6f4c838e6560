//! Stored rows that a reader does not see: those of keys, or whole ones, that its transaction has
//! changed (keys.md K23, RFC 0022), and those that delete their key (RFC 0032).

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int8Array, RecordBatch};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{and, filter_record_batch};
use freshet_schema::key::{KeyCodec, Keys, key_alone};
use freshet_schema::{Column, TableSchema};

/// Rows of a table.
#[derive(Clone, Debug)]
pub struct HiddenKeys {
    hidden: Hidden,
    /// The positions in the table of the columns that tell.
    columns: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Hidden {
    /// Those with these keys, and the columns of the key alone; behind these is the delete sign in
    /// a table that has one, by which others are hidden, too.
    Keys(Arc<HashSet<Box<[u8]>>>, Arc<TableSchema>),
    /// Those with a delete sign.
    Deleted,
}

impl HiddenKeys {
    /// These keys of a table with the columns of `schema`; `None` if there are none.
    pub fn new(keys: impl IntoIterator<Item = Box<[u8]>>, schema: &TableSchema) -> Option<Self> {
        let keys = keys.into_iter().collect::<HashSet<_>>();
        let mut columns = schema.sort_key.clone();
        let alone = Arc::new(key_alone(schema, &columns));
        columns.extend(schema.delete_sign());
        let hidden = Hidden::Keys(Arc::new(keys), alone);
        hidden.has_any().then_some(Self { hidden, columns })
    }

    /// Rows that delete their key, in a table that keeps such; `None` in others.
    pub fn deleted(schema: &TableSchema) -> Option<Self> {
        let columns = vec![schema.delete_sign()?];
        Some(Self { hidden: Hidden::Deleted, columns })
    }

    /// Encoded rows of a table with the columns of `schema`, all of whose values count; `None` if
    /// there are none.
    pub fn of_rows(rows: &[Vec<u8>], schema: &TableSchema) -> Option<Self> {
        let columns = (0..schema.columns.len()).collect::<Vec<_>>();
        let schema = Arc::new(values_alone(schema));
        let keys = KeyCodec::of_sort_key(&schema).of_rows(&rows.concat());
        let keys = (0..keys.len()).map(|at| Box::from(keys.key(at))).collect::<HashSet<_>>();
        let hidden = Hidden::Keys(Arc::new(keys), schema);
        hidden.has_any().then_some(Self { hidden, columns })
    }

    /// The columns that tell, as positions in the table.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The rows of a batch that are seen; the columns that tell are at `places`.
    pub fn seen(&self, batch: &RecordBatch, places: &[usize]) -> RecordBatch {
        let told = batch.project(places).expect("the columns that tell are read");
        let seen = match &self.hidden {
            Hidden::Keys(hidden, schema) => {
                let of_key = (0..schema.columns.len()).collect::<Vec<_>>();
                let alone = told.project(&of_key).expect("the columns of the key come first");
                let keys = Keys::of_batch(&alone, schema);
                let is_seen = |row: usize| Some(!hidden.contains(keys.key(row)));
                let seen = (0..batch.num_rows()).map(is_seen).collect::<BooleanArray>();
                match told.columns().get(of_key.len()) {
                    Some(sign) => and(&seen, &lives(sign)).expect("both have a value for each row"),
                    None => seen,
                }
            }
            Hidden::Deleted => lives(told.column(0)),
        };
        filter_record_batch(batch, &seen).expect("the mask has the rows of the batch")
    }
}

/// Of each row, whether it does not delete its key.
fn lives(sign: &ArrayRef) -> BooleanArray {
    eq(sign, &Int8Array::new_scalar(0)).expect("the sign is a TINYINT")
}

impl Hidden {
    fn has_any(&self) -> bool {
        match self {
            Self::Keys(keys, _) => !keys.is_empty(),
            Self::Deleted => true,
        }
    }
}

/// All columns of a schema as a key, in which equal texts of a collation are not the same.
fn values_alone(schema: &TableSchema) -> TableSchema {
    let exact = |column: &Column| Column { keyed_by_weights: false, ..column.clone() };
    let columns = schema.columns.iter().map(exact).collect::<Vec<_>>();
    let sort_key = (0..columns.len()).collect();
    TableSchema::new(schema.version, columns, sort_key)
}
