//! Arrow columns to encoded rows: the inverse of [`ColumnsBuilder`](crate::ColumnsBuilder).

use std::ops::Range;

use arrow::array::{
    Array, AsArray, BinaryViewArray, RecordBatch, StringViewArray, downcast_primitive_array,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;

use crate::row::{RowWriter, put_bytes};
use crate::{Column, Layout, TableSchema};

/// Appends the encoded rows of `batch` to `out`; `batch` has the columns of `schema`.
///
/// # Panics
/// When a column does not have its type, or has a NULL although it is NOT NULL.
pub fn encode(batch: &RecordBatch, schema: &TableSchema, out: &mut Vec<u8>) {
    encode_rows(batch, 0..batch.num_rows(), schema, out);
}

/// As [`encode`], of some rows of the batch.
///
/// # Panics
/// As there.
pub fn encode_rows(
    batch: &RecordBatch,
    rows: Range<usize>,
    schema: &TableSchema,
    out: &mut Vec<u8>,
) {
    assert_eq!(batch.num_columns(), schema.columns.len(), "the batch has the schema's columns");
    let columns: Vec<_> = schema
        .columns
        .iter()
        .zip(batch.columns())
        .map(|(column, array)| Source::new(column, array.as_ref()))
        .collect();
    let mut writer = RowWriter::new(columns.len(), out);
    for row in rows {
        writer.begin_row();
        for column in &columns {
            column.put(row, &mut writer);
        }
        writer.end_row();
    }
}

/// An Arrow column and how to read cells from it.
struct Source<'a> {
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    /// Values every `stride` bytes, of which the low `width` are the cell: a DECIMAL of 8 bytes is
    /// the lower half of Arrow's 16, a LARGEINT of 16 the lower half of 32.
    Fixed {
        bytes: Buffer,
        stride: usize,
        width: usize,
    },
    Text(&'a StringViewArray),
    Bytes(&'a BinaryViewArray),
}

impl<'a> Source<'a> {
    fn new(column: &Column, array: &'a dyn Array) -> Self {
        assert_eq!(array.data_type(), &column.ty.arrow(), "column {}", column.name);
        assert!(column.nullable || array.null_count() == 0, "NULL in column {}", column.name);
        let values = match (column.ty.layout(), array.data_type()) {
            (Layout::Bytes, DataType::Utf8View) => Values::Text(array.as_string_view()),
            (Layout::Bytes, _) => Values::Bytes(array.as_binary_view()),
            (Layout::Fixed(width), data_type) => {
                let stride = data_type.primitive_width().expect("a fixed cell is a primitive");
                Values::Fixed { bytes: bytes_of(array), stride, width }
            }
        };
        Self { nulls: array.nulls().filter(|nulls| nulls.null_count() > 0), values }
    }

    #[inline]
    fn put(&self, row: usize, writer: &mut RowWriter<'_>) {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return writer.put_null();
        }
        match &self.values {
            Values::Fixed { bytes, stride, width } => {
                let cell = &bytes[row * stride..];
                // A copy of a length known at compile time needs no call of memcpy.
                match width {
                    1 => writer.put_encoded(&cell[..1]),
                    2 => writer.put_encoded(&cell[..2]),
                    4 => writer.put_encoded(&cell[..4]),
                    8 => writer.put_encoded(&cell[..8]),
                    _ => writer.put_encoded(&cell[..*width]),
                }
            }
            Values::Text(values) => writer.put_value(values.value(row).as_bytes()),
            Values::Bytes(values) => writer.put_value(values.value(row)),
        }
    }
}

/// The values of an array of primitives.
fn bytes_of(array: &dyn Array) -> Buffer {
    downcast_primitive_array! {
        array => array.values().inner().clone(),
        other => unreachable!("{other} has no values of one width"),
    }
}

impl RowWriter<'_> {
    /// Writes the next cell of [`Layout::Bytes`].
    fn put_value(&mut self, bytes: &[u8]) {
        let written = self.cell(|out| {
            put_bytes(out, bytes);
            Ok::<_, std::convert::Infallible>(crate::row::Put::Value)
        });
        let Ok(()) = written;
    }
}

#[cfg(test)]
mod tests {
    use freshet_base::{ColumnId, SchemaVersion};
    use proptest::prelude::*;

    use super::*;
    use crate::value::put;
    use crate::{ColumnType, ColumnsBuilder, Literal, Rules};

    fn schema() -> TableSchema {
        let types = [
            ColumnType::Boolean,
            ColumnType::SmallInt { unsigned: true },
            ColumnType::MediumInt { unsigned: false },
            ColumnType::Decimal { precision: 9, scale: 2 },
            ColumnType::Decimal { precision: 38, scale: 2 },
            ColumnType::LargeInt,
            ColumnType::Double,
            ColumnType::Text,
            ColumnType::Blob,
        ];
        let column = |(at, ty)| Column::new(ColumnId(at as u32), format!("c{at}"), ty);
        let columns = types.into_iter().enumerate().map(column).collect();
        TableSchema::new(SchemaVersion(1), columns, vec![])
    }

    proptest! {
        #[test]
        fn columns_become_the_rows_they_came_from(
            rows in prop::collection::vec(
                prop::collection::vec(prop::option::of("-?[1-9][0-9]{0,1}"), 9..10), 1..20),
            from in 0usize..20,
        ) {
            let schema = schema();
            let (mut bytes, mut starts) = (Vec::new(), Vec::new());
            for row in &rows {
                starts.push(bytes.len());
                let mut writer = RowWriter::new(9, &mut bytes);
                writer.begin_row();
                for (column, text) in schema.columns.iter().zip(row) {
                    let text = text.as_deref().map(|text| match column.ty.is_unsigned() {
                        true => text.trim_start_matches('-'),
                        false => text,
                    });
                    let literal = text.map_or(Literal::Null, |text| Literal::Text(text.as_bytes()));
                    let rules = Rules::default();
                    writer.cell(|out| put(column, literal, &rules, out)).unwrap();
                }
                writer.end_row();
            }
            let batch = ColumnsBuilder::batch_of(&schema, &bytes, rows.len());
            let from = from % rows.len();
            let mut again = Vec::new();
            encode(&batch.slice(from, rows.len() - from), &schema, &mut again);
            prop_assert_eq!(&again, &bytes[starts[from]..]);
        }
    }
}
