//! Values of tables as queries have them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, TimestampMicrosecondType};
use freshet_base::{Result, err};
use freshet_schema::{Column, ColumnType, TableSchema, Zone, nested};

use crate::convert;
use crate::error::mapped;

/// Whether a column is a TIMESTAMP.
pub fn is_instant(column: &Column) -> bool {
    matches!(column.ty, ColumnType::Timestamp { .. })
}

/// The values of a column as queries have them: instants as local time of the session, nested
/// values as nested arrays, sketches in a type that nothing else has.
///
/// # Errors
/// For a text that is no value of a nested column.
pub fn shown(column: &Column, values: &ArrayRef, zone: Zone) -> Result<ArrayRef> {
    match column.ty {
        ColumnType::Timestamp { .. } => Ok(local(values, zone)),
        ty if ty.sketch().is_some() => {
            cast(values, &convert::SKETCH).map_err(|error| err!(Internal, "{error}"))
        }
        ty if ty.is_nested() => nested::arrays(column, values.as_string_view())
            .map_err(|damage| err!(Internal, "a stored value cannot be read: {damage}")),
        _ => Ok(Arc::clone(values)),
    }
}

/// The values of a column of a query in the type in which tables store them.
///
/// # Errors
/// When they have no such type.
pub fn stored(values: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    match values.data_type() {
        same if same == ty => Ok(Arc::clone(values)),
        from if from.is_nested() => {
            convert::text(values).map(|texts| Arc::new(texts) as ArrayRef).map_err(mapped)
        }
        _ => cast(values, ty).map_err(|error| err!(Internal, "{error}")),
    }
}

/// Rows of a table as queries show them.
///
/// # Errors
/// When the batch does not have the columns of `schema`.
pub fn displayed(batch: &RecordBatch, schema: &TableSchema, zone: Zone) -> Result<RecordBatch> {
    let is_other = |column: &Column| {
        is_instant(column) || column.ty.is_nested() || column.ty.sketch().is_some()
    };
    if !schema.columns.iter().any(is_other) {
        return Ok(batch.clone());
    }
    let columns = schema.columns.iter().zip(batch.columns());
    let columns = columns.map(|(column, values)| shown(column, values, zone));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let field = |(field, column): (&Arc<Field>, &ArrayRef)| {
        Field::new(field.name(), column.data_type().clone(), field.is_nullable())
    };
    let fields = schema.arrow().fields().iter().zip(&columns).map(field).collect::<Vec<_>>();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| err!(Unknown, "rows cannot be shown: {error}"))
}

fn local(column: &ArrayRef, zone: Zone) -> ArrayRef {
    if zone == Zone::UTC {
        return crate::prune::without_zone(column);
    }
    let values = column.as_primitive::<TimestampMicrosecondType>();
    let values: TimestampMicrosecondArray = values.unary(|micros| zone.to_local(micros));
    Arc::new(values)
}
