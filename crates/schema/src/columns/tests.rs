use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    Date32Type, Decimal128Type, Decimal256Type, Int32Type, TimestampMicrosecondType, UInt16Type,
};
use freshet_base::{ColumnId, SchemaVersion};

use super::*;
use crate::Column;
use crate::row::{RowWriter, put_bytes};

fn schema(types: &[ColumnType]) -> TableSchema {
    let column =
        |(at, &ty): (usize, &ColumnType)| Column::new(ColumnId(at as u32), format!("c{at}"), ty);
    TableSchema::new(SchemaVersion(1), types.iter().enumerate().map(column).collect(), vec![])
}

/// Encodes rows from encoded cells; `None` is NULL.
fn encode(columns: usize, rows: &[&[Option<Vec<u8>>]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RowWriter::new(columns, &mut bytes);
    for row in rows {
        writer.begin_row();
        for cell in *row {
            match cell {
                Some(cell) => writer.put_encoded(cell),
                None => writer.put_null(),
            }
        }
        writer.end_row();
    }
    bytes
}

fn text(value: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    put_bytes(&mut out, value.as_bytes());
    Some(out)
}

#[test]
fn every_layout_becomes_its_arrow_type() {
    let types = [
        ColumnType::Boolean,
        ColumnType::SmallInt { unsigned: true },
        ColumnType::Int { unsigned: false },
        ColumnType::Decimal { precision: 15, scale: 2 },
        ColumnType::Decimal { precision: 30, scale: 2 },
        ColumnType::LargeInt,
        ColumnType::Date,
        ColumnType::Timestamp { fsp: 6 },
        ColumnType::Blob,
    ];
    let row = [
        Some(vec![1]),
        Some(65_535u16.to_le_bytes().to_vec()),
        Some((-2i32).to_le_bytes().to_vec()),
        Some((-150i64).to_le_bytes().to_vec()),
        Some((-1i128 << 80).to_le_bytes().to_vec()),
        Some(i128::MIN.to_le_bytes().to_vec()),
        Some(1i32.to_le_bytes().to_vec()),
        Some((-1i64).to_le_bytes().to_vec()),
        text("bytes longer than a view"),
    ];
    let nulls = vec![None; types.len()];
    let schema = schema(&types);
    let mut builder = ColumnsBuilder::new(&schema, 4);
    builder.append(&encode(types.len(), &[&row]), 1);
    builder.append(&encode(types.len(), &[&nulls, &row]), 2);
    assert_eq!(builder.rows(), 3);
    let batch = builder.finish();
    assert_eq!(&batch.schema(), schema.arrow());
    for column in batch.columns() {
        assert_eq!(column.null_count(), 1);
        assert!(column.is_valid(0) && column.is_null(1) && column.is_valid(2));
    }
    assert_eq!(batch.column(1).as_primitive::<UInt16Type>().value(2), 65_535);
    assert_eq!(batch.column(2).as_primitive::<Int32Type>().value(2), -2);
    assert_eq!(batch.column(3).as_primitive::<Decimal128Type>().value(2), -150);
    assert_eq!(batch.column(4).as_primitive::<Decimal128Type>().value(2), -1 << 80);
    let large = batch.column(5).as_primitive::<Decimal256Type>().value(2);
    assert_eq!(large, i256::from_i128(i128::MIN));
    assert_eq!(batch.column(6).as_primitive::<Date32Type>().value(2), 1);
    assert_eq!(batch.column(7).as_primitive::<TimestampMicrosecondType>().value(2), -1);
    assert_eq!(batch.column(8).as_binary_view().value(2), b"bytes longer than a view");
}

#[test]
fn text_of_every_length_around_a_view_survives() {
    let texts: Vec<String> =
        (0..40).map(|length| "abcdefghij".repeat(4)[..length].into()).collect();
    let rows: Vec<_> = texts.iter().map(|value| [text(value)]).collect();
    let rows: Vec<&[_]> = rows.iter().map(<[_; 1]>::as_slice).collect();
    let batch =
        ColumnsBuilder::batch_of(&schema(&[ColumnType::Text]), &encode(1, &rows), rows.len());
    let column = batch.column(0).as_string_view();
    for (at, value) in texts.iter().enumerate() {
        assert_eq!(column.value(at), value);
    }
}

#[test]
fn no_rows_make_an_empty_batch() {
    let batch = ColumnsBuilder::new(&schema(&[ColumnType::Text, ColumnType::Date]), 0).finish();
    assert_eq!((batch.num_rows(), batch.num_columns()), (0, 2));
}

#[test]
#[should_panic(expected = "bytes early")]
fn more_bytes_than_rows_are_refused() {
    let bytes = encode(1, &[&[text("a")], &[text("b")]]);
    ColumnsBuilder::new(&schema(&[ColumnType::Text]), 2).append(&bytes, 1);
}
