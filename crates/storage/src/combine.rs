//! Rows with equal keys of an AGGREGATE KEY table become one, where files are merged.
//!
//! A reader does the same with what is left, so it does not matter how much has been combined
//! already: each function of [`Aggregate`] is associative.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BinaryViewBuilder,
    PrimitiveArray, RecordBatch, UInt32Array, downcast_primitive_array, make_comparator,
};
use arrow::compute::{SortOptions, concat_batches, take};
use arrow::datatypes::Decimal256Type;
use freshet_schema::aggregate::large_sum;
use freshet_schema::key::{KeyComparator, KeyWords};
use freshet_schema::sketch::SketchKind;
use freshet_schema::{Aggregate, TableSchema};

use crate::error::{Error, Result};

/// Combines the neighbours of a stream of rows that is sorted by key, where equal keys stand in the
/// order of the log. It holds one row back, since the next batch may go on with its key.
pub struct Combiner<'a> {
    schema: &'a TableSchema,
    held: Option<RecordBatch>,
}

impl<'a> Combiner<'a> {
    /// For rows with the columns of `schema`; `None` if none of them is aggregated.
    pub fn new(schema: &'a TableSchema) -> Option<Self> {
        schema.is_combined().then_some(Self { schema, held: None })
    }

    /// Takes the next rows of the stream, and returns those whose keys have ended.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict the schema.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let all = match self.held.take() {
            Some(held) => concat_batches(self.schema.arrow(), [&held, batch])?,
            None => batch.clone(),
        };
        let combined = self.combined(&all)?;
        let ended = combined.num_rows().saturating_sub(1);
        self.held = (combined.num_rows() > 0).then(|| combined.slice(ended, 1));
        Ok(combined.slice(0, ended))
    }

    /// The last row, behind the end of the stream.
    pub fn end(&mut self) -> Option<RecordBatch> {
        self.held.take()
    }

    /// One row for each key of the batch.
    fn combined(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let ends = self.ends(batch);
        if ends.len() == batch.num_rows() {
            return Ok(batch.clone());
        }
        let columns = self.schema.columns.iter().zip(batch.columns());
        let columns = columns.map(|(column, values)| match column.aggregate {
            Some(Aggregate::Sum) => sums(values, &ends),
            Some(function) if let Some(kind) = function.joins() => joined(values, &ends, kind),
            Some(function) => pick(values, &ends, function),
            // The key, which is the same in all of its rows.
            None => pick(values, &ends, Aggregate::Replace),
        });
        Ok(RecordBatch::try_new(batch.schema(), columns.collect::<Result<_>>()?)?)
    }

    /// The row behind the last one of each key.
    fn ends(&self, batch: &RecordBatch) -> Vec<usize> {
        let words = KeyWords::new(batch, self.schema);
        let whole = (!words.is_exact()).then(|| KeyComparator::new(batch, batch, self.schema));
        let differ = |row: usize| {
            let order = words.row(row - 1).cmp(words.row(row));
            let order = match (&whole, order) {
                (Some(whole), Ordering::Equal) => whole.compare(row - 1, row),
                (_, order) => order,
            };
            assert!(order.is_le(), "rows are combined in the order of their keys");
            order.is_lt()
        };
        let rows = batch.num_rows();
        (1..rows).filter(|row| differ(*row)).chain((rows > 0).then_some(rows)).collect()
    }
}

/// The rows of each key.
fn groups(ends: &[usize]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, end)| start..*end)
}

/// For each key the value of one of its rows.
fn pick(values: &ArrayRef, ends: &[usize], function: Aggregate) -> Result<ArrayRef> {
    let compare = make_comparator(values, values, SortOptions::default())?;
    let mut picked = Vec::with_capacity(ends.len());
    for rows in groups(ends) {
        let last = rows.end - 1;
        let mut present = rows.filter(|row| values.is_valid(*row));
        let row = match function {
            Aggregate::Replace => Some(last),
            Aggregate::ReplaceIfNotNull => present.next_back(),
            Aggregate::Min => present.min_by(|a, b| compare(*a, *b)),
            Aggregate::Max => present.max_by(|a, b| compare(*a, *b)),
            Aggregate::Sum | Aggregate::BitmapUnion | Aggregate::HllUnion => {
                unreachable!("what is made of all values is the value of no row")
            }
        };
        picked.push(row.unwrap_or(last) as u32);
    }
    Ok(take(values, &UInt32Array::from(picked), None)?)
}

fn sums(values: &ArrayRef, ends: &[usize]) -> Result<ArrayRef> {
    if let Some(values) = values.as_primitive_opt::<Decimal256Type>() {
        return Ok(Arc::new(sums_of(values, ends, large_sum)));
    }
    let sums: ArrayRef = downcast_primitive_array!(
        values => Arc::new(sums_of(values, ends, |one, other| one.add_wrapping(other))),
        other => panic!("a SUM is of numbers, and not of {other}")
    );
    Ok(sums)
}

fn sums_of<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    ends: &[usize],
    sum: impl Fn(T::Native, T::Native) -> T::Native,
) -> PrimitiveArray<T> {
    let of = |rows: std::ops::Range<usize>| {
        let present = rows.filter(|row| values.is_valid(*row)).map(|row| values.value(row));
        present.reduce(&sum)
    };
    let sums = groups(ends).map(of).collect::<PrimitiveArray<T>>();
    sums.with_data_type(values.data_type().clone())
}

/// For each key one sketch of those of its rows.
fn joined(values: &ArrayRef, ends: &[usize], kind: SketchKind) -> Result<ArrayRef> {
    let values = values.as_binary_view();
    let mut joined = BinaryViewBuilder::with_capacity(ends.len());
    for rows in groups(ends) {
        let mut present = rows.filter(|row| values.is_valid(*row)).map(|row| values.value(row));
        let (first, second) = (present.next(), present.next());
        match (first, second) {
            (None, _) => joined.append_null(),
            (Some(one), None) => joined.append_value(one),
            (Some(one), Some(other)) => {
                let all = kind.union([one, other].into_iter().chain(present));
                let damaged = |why| Error::Internal(format!("a stored {}: {why}", kind.name()));
                joined.append_value(all.map_err(damaged)?);
            }
        }
    }
    Ok(Arc::new(joined.finish()))
}

#[cfg(test)]
mod tests;
