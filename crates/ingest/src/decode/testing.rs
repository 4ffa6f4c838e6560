//! Schemas and printed rows for tests of the decoders.

use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use freshet_base::{ColumnId, SchemaVersion};
use freshet_schema::{Collation, Column, ColumnType, ColumnsBuilder, LengthUnit, TableSchema};

pub(crate) fn schema(columns: &[(&str, ColumnType, bool)]) -> Arc<TableSchema> {
    let column = |(at, &(name, ty, nullable)): (usize, &(&str, ColumnType, bool))| Column {
        nullable,
        collation: Collation::Utf8mb4Bin,
        length_unit: LengthUnit::Characters,
        ..Column::new(ColumnId(at as u32), name, ty)
    };
    let columns = columns.iter().enumerate().map(column).collect();
    Arc::new(TableSchema::new(SchemaVersion(1), columns, vec![]))
}

/// Encoded rows as text, one line per row; NULL is `-`.
pub(crate) fn show(schema: &TableSchema, bytes: &[u8], count: usize) -> Vec<String> {
    freshet_schema::row::validate(schema, bytes, count).unwrap();
    let batch = ColumnsBuilder::batch_of(schema, bytes, count);
    let cell = |column: &arrow::array::ArrayRef, row| match column.is_null(row) {
        true => "-".to_owned(),
        false => array_value_to_string(column, row).unwrap(),
    };
    let line =
        |row| batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join("|");
    (0..count).map(line).collect()
}
