//! Rows with a sequence column; that of a version follows from its number.

use std::sync::Arc;

use freshet_base::{ColumnId, SchemaVersion};
use freshet_schema::{ColumnType, RowWriter, TableSchema, hidden_columns, row};

/// The rank of a version: few of them, so that many are equal, and some are NULL.
fn rank(version: u64) -> Option<i32> {
    let rank = version * 7919 % 11 % 5;
    (rank > 0).then_some(rank as i32 - 3)
}

pub fn replaces(new: u64, before: u64) -> bool {
    rank(new) >= rank(before)
}

/// The columns of other tests, and a hidden sequence.
pub fn schema() -> Arc<TableSchema> {
    let mut columns = crate::testing::schema(1).columns.clone();
    let first = ColumnId(columns.len() as u32 + 1);
    columns.extend(hidden_columns(first, Some(ColumnType::Int { unsigned: false })));
    let schema = TableSchema::new(SchemaVersion(1), columns, vec![0]);
    Arc::new(schema.sequenced_by(Some(first)))
}

pub fn encoded(with: &[(i64, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rows = RowWriter::new(4, &mut bytes);
    for (key, text) in with {
        rows.begin_row();
        rows.put_encoded(&key.to_le_bytes());
        let mut cell = Vec::new();
        row::put_bytes(&mut cell, text.as_bytes());
        rows.put_encoded(&cell);
        match rank(text.parse().expect("a row has the number of its version")) {
            Some(rank) => rows.put_encoded(&rank.to_le_bytes()),
            None => rows.put_null(),
        }
        rows.put_encoded(&[0]);
        rows.end_row();
    }
    bytes
}
