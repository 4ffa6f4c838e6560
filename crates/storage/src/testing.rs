//! Tables, rows and files for tests of this crate.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use freshet_base::budget::{Budget, Permit};
use freshet_base::io::{FsRef, RealFs};
use freshet_base::task::InlinePool;
use freshet_base::{ColumnId, SchemaVersion, TableId, TabletId};
use freshet_schema::{
    Column, ColumnType, ColumnsBuilder, Distribution, RowWriter, SchemaHistory, Table, TableSchema,
};

use crate::flush::Files;
use crate::layout::DataDir;
use crate::segment::SegmentAccess;

/// Files in a directory, with all I/O on the caller's thread.
pub fn files(root: &Path) -> Files {
    files_on(Arc::new(RealFs), root)
}

/// Like [`files`], on another file system.
pub fn files_on(fs: FsRef, root: &Path) -> Files {
    let segments = SegmentAccess::of_files(&fs);
    Files { fs, dir: DataDir::new(root), pool: Arc::new(InlinePool), segments }
}

pub const TABLE: TableId = TableId(7);

pub fn column(id: u32, name: &str, ty: ColumnType) -> Column {
    Column::new(ColumnId(id), name, ty)
}

/// `k BIGINT, s VARCHAR(100)`, sorted by `k`; from version 2 also `extra INT`.
pub fn schema(version: u32) -> Arc<TableSchema> {
    let mut columns = vec![
        column(1, "k", ColumnType::BigInt { unsigned: false }),
        column(2, "s", ColumnType::VarChar { len: 100 }),
    ];
    if version > 1 {
        columns.push(column(3, "extra", ColumnType::Int { unsigned: false }));
    }
    Arc::new(TableSchema::new(SchemaVersion(version), columns, vec![0]))
}

pub fn table(schemas: &[Arc<TableSchema>], tablets: u64) -> Table {
    let mut history = SchemaHistory::new(schemas[0].as_ref().clone());
    for schema in &schemas[1..] {
        history = history.with(schema.as_ref().clone());
    }
    let tablets = (0..tablets).map(|tablet| TabletId(100 + tablet)).collect();
    let plain = Table::plain(TABLE, schemas[schemas.len() - 1].as_ref().clone(), tablets);
    Table { history, distribution: Distribution::Hash(vec![ColumnId(1)]), ..plain }
}

/// Encoded rows with these keys; every fifth has no text.
pub fn encode(schema: &TableSchema, keys: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rows = RowWriter::new(schema.columns.len(), &mut bytes);
    for &key in keys {
        rows.begin_row();
        rows.put_encoded(&key.to_le_bytes());
        match key % 5 {
            0 => rows.put_null(),
            _ => {
                let mut cell = Vec::new();
                freshet_schema::row::put_bytes(&mut cell, text(key).as_bytes());
                rows.put_encoded(&cell);
            }
        }
        if schema.columns.len() > 2 {
            rows.put_encoded(&(key as i32).to_le_bytes());
        }
        rows.end_row();
    }
    bytes
}

fn text(key: i64) -> String {
    format!("the text that belongs to {key}")
}

pub fn batch(schema: &TableSchema, keys: &[i64]) -> RecordBatch {
    ColumnsBuilder::batch_of(schema, &encode(schema, keys), keys.len())
}

/// The keys of batches made by [`batch`]; verifies the other columns.
pub fn keys<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> Vec<i64> {
    let mut keys = Vec::new();
    for batch in batches {
        let found = batch.column(0).as_primitive::<Int64Type>();
        let texts = batch.column(1).as_string_view();
        for (key, text_found) in found.values().iter().zip(texts) {
            assert_eq!(text_found, (key % 5 != 0).then(|| text(*key)).as_deref());
            keys.push(*key);
        }
    }
    keys
}

pub fn permit(bytes: u64) -> Permit {
    static BUDGET: LazyLock<Budget> = LazyLock::new(|| Budget::new("test", u64::MAX));
    BUDGET.acquire_over(bytes)
}
