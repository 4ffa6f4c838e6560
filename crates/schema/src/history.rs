//! Rows of one schema version converted to another, and what two versions have in common.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{is_not_null, take};

use freshet_base::ColumnId;

use crate::row::{Put, RowWriter};
use crate::value::{Encoding, put_binary, put_text, put_zero};
use crate::widen::widened;
use crate::{Column, ColumnsBuilder, DefaultValue, Rules, TableSchema, bytes_of_hex};

/// Converts `batch`, which has the columns of `from`, to the columns of `to`.
///
/// Columns are matched by id, so values follow renames. A column that `from` lacks is filled with
/// the literal recorded for older rows when the column was added, else its literal default, else
/// NULL, else the type's zero value. Defined for all versions of a table and projections of them,
/// because the type of a column only ever becomes one that holds all values of those before.
pub fn adapt(batch: &RecordBatch, from: &TableSchema, to: &TableSchema) -> RecordBatch {
    if from.version == to.version && ids(from).eq(ids(to)) {
        return batch.clone();
    }
    let rows = batch.num_rows();
    let columns = to
        .columns
        .iter()
        .map(|column| match from.position_of(column.id) {
            Some(at) => carry(batch.column(at), column),
            None => constant(column, rows),
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(to.arrow()), columns, &options)
        .expect("every column has the type and nullability of its field")
}

fn ids(schema: &TableSchema) -> impl Iterator<Item = ColumnId> {
    schema.columns.iter().map(|column| column.id)
}

/// The values of a column that both versions have; NULLs are replaced where `column` is NOT NULL.
fn carry(values: &ArrayRef, column: &Column) -> ArrayRef {
    let values = widened(values, column.ty);
    if column.nullable || values.null_count() == 0 {
        return values;
    }
    let mask = is_not_null(&values).expect("every array knows its nulls");
    zip(&mask, &values, &constant(column, values.len())).expect("both sides have one type")
}

/// What a column shows for rows written before it was added.
fn constant(column: &Column, rows: usize) -> ArrayRef {
    let mut bytes = Vec::new();
    let mut writer = RowWriter::new(1, &mut bytes);
    writer.begin_row();
    let written = writer.cell(|out| {
        let rules = Rules::default();
        let put = match (&column.before, &column.default) {
            (Some(text), _) | (None, Some(DefaultValue::Literal(text))) => {
                put_text(column, text.as_bytes(), Encoding::Utf8, &rules, out).ok()
            }
            (None, Some(DefaultValue::Bits(digits))) => {
                let bytes = bytes_of_hex(digits).unwrap_or_default();
                put_binary(column, &bytes, &rules, out).ok()
            }
            _ => None,
        };
        if let Some(put) = put {
            return Ok::<_, std::convert::Infallible>(put);
        }
        if column.nullable {
            return Ok(Put::Null);
        }
        put_zero(column.ty, out);
        Ok(Put::Value)
    });
    let Ok(()) = written;
    writer.end_row();
    if bytes == [1] {
        return new_null_array(&column.ty.arrow(), rows);
    }
    let schema = TableSchema::new(Default::default(), vec![column.clone()], Vec::new());
    let one = ColumnsBuilder::batch_of(&schema, &bytes, 1);
    let indices = UInt32Array::from(vec![0; rows]);
    take(one.column(0), &indices, None).expect("row 0 exists")
}

impl TableSchema {
    /// Whether it has constraints that are enforced.
    pub fn is_checked(&self) -> bool {
        self.checks.iter().any(|check| check.is_enforced)
    }

    /// Whether it has columns whose default is an expression.
    pub fn has_expression_defaults(&self) -> bool {
        self.columns
            .iter()
            .any(|column| matches!(column.default, Some(DefaultValue::Expression(_))))
    }

    /// Whether it has generated columns.
    pub fn is_generated(&self) -> bool {
        self.columns.iter().any(|column| column.generated.is_some())
    }

    /// Whether it has the generated columns of another version, computed in the same way.
    pub fn generates_as(&self, other: &Self) -> bool {
        let all = |schema: &Self| {
            let generated = |column: &Column| Some((column.id, column.generated.clone()?.text));
            let mut all = schema.columns.iter().filter_map(generated).collect::<Vec<_>>();
            all.sort_unstable();
            all
        };
        all(self) == all(other)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::Int32Type;
    use freshet_base::{ColumnId, SchemaVersion};

    use super::*;
    use crate::ColumnType;

    fn column(id: u32, ty: ColumnType, nullable: bool, default: Option<&str>) -> Column {
        let default = default.map(|text| DefaultValue::Literal(text.into()));
        Column { nullable, default, ..Column::new(ColumnId(id), format!("c{id}"), ty) }
    }

    const INT: ColumnType = ColumnType::Int { unsigned: false };

    #[test]
    fn columns_are_matched_by_id_and_filled_by_default() {
        let from = TableSchema::new(
            SchemaVersion(1),
            vec![column(1, INT, true, None), column(2, INT, true, None)],
            vec![],
        );
        let mut renamed = column(2, INT, false, None);
        renamed.name = "other".into();
        let to = TableSchema::new(
            SchemaVersion(2),
            vec![
                renamed,
                column(3, ColumnType::Text, false, Some("a long default of a text")),
                column(4, ColumnType::Text, true, None),
                column(5, ColumnType::Text, false, None),
                column(6, INT, false, Some("7")),
            ],
            vec![],
        );
        let batch = RecordBatch::try_new(
            Arc::clone(from.arrow()),
            vec![
                Arc::new(Int32Array::from(vec![1, 2])),
                Arc::new(Int32Array::from(vec![Some(3), None])),
            ],
        )
        .unwrap();
        let seen = adapt(&batch, &from, &to);
        assert_eq!(&seen.schema(), to.arrow());
        assert_eq!(seen.column(0).as_primitive::<Int32Type>().values(), &[3, 0]);
        assert_eq!(seen.column(1).as_string_view().value(1), "a long default of a text");
        assert_eq!(seen.column(2).null_count(), 2);
        assert_eq!(seen.column(3).as_string_view().value(0), "");
        assert_eq!(seen.column(4).as_primitive::<Int32Type>().values(), &[7, 7]);
        assert_eq!(adapt(&batch.slice(0, 0), &from, &to).num_rows(), 0);
        let none = TableSchema::new(SchemaVersion(1), vec![], vec![]);
        let counted = adapt(&batch, &from, &none);
        assert_eq!((counted.num_rows(), counted.num_columns()), (2, 0));
    }

    #[test]
    fn every_type_has_a_zero_that_is_valid() {
        let types = [
            ColumnType::Boolean,
            INT,
            ColumnType::LargeInt,
            ColumnType::Double,
            ColumnType::Decimal { precision: 38, scale: 2 },
            ColumnType::Date,
            ColumnType::Timestamp { fsp: 0 },
            ColumnType::Json,
            ColumnType::Blob,
        ];
        for ty in types {
            let filled = constant(&column(1, ty, false, None), 3);
            assert_eq!((filled.len(), filled.null_count()), (3, 0), "{ty}");
        }
    }
}
