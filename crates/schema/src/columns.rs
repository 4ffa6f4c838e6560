//! Encoded rows to Arrow columns, many rows at a time.

use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, BooleanBufferBuilder, RecordBatch, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{DataType, SchemaRef, i256};

use crate::row::take_length;
use crate::views::Views;
use crate::{ColumnType, Layout, TableSchema};

/// Converts encoded rows to Arrow columns.
///
/// The bytes must be rows of the schema, written by `RowWriter` or checked by `row::validate`: a
/// builder asserts that the bytes of a row end with its last cell, and checks nothing else.
pub struct ColumnsBuilder {
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    rows: usize,
}

impl ColumnsBuilder {
    pub fn new(schema: &TableSchema, capacity: usize) -> Self {
        let columns =
            schema.columns.iter().map(|column| ColumnBuilder::new(column.ty, capacity)).collect();
        Self { schema: Arc::clone(schema.arrow()), columns, rows: 0 }
    }

    /// The columns of `count` encoded rows.
    ///
    /// # Panics
    /// As [`Self::append`].
    pub fn batch_of(schema: &TableSchema, bytes: &[u8], count: usize) -> RecordBatch {
        let mut columns = Self::new(schema, count);
        columns.append(bytes, count);
        columns.finish()
    }

    /// Appends `count` rows.
    ///
    /// # Panics
    /// When `bytes` are not exactly `count` rows of the schema.
    pub fn append(&mut self, bytes: &[u8], count: usize) {
        let mut rest = bytes;
        for _ in 0..count {
            rest = self.append_row(rest);
        }
        assert!(rest.is_empty(), "{count} rows end {} bytes early", rest.len());
        self.rows += count;
    }

    /// Appends all rows in `bytes`.
    ///
    /// # Panics
    /// When `bytes` are not rows of the schema.
    pub fn append_all(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = self.append_row(rest);
            self.rows += 1;
        }
    }

    /// Appends the row at the front of `bytes`; returns the bytes after it.
    #[inline]
    fn append_row<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (nulls, mut rest) = bytes.split_at(self.columns.len().div_ceil(8));
        if nulls.iter().all(|&byte| byte == 0) {
            for column in &mut self.columns {
                rest = column.push(rest);
            }
            return rest;
        }
        for (at, column) in self.columns.iter_mut().enumerate() {
            if nulls[at >> 3] >> (at & 7) & 1 == 1 {
                column.push_null();
            } else {
                rest = column.push(rest);
            }
        }
        rest
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn finish(self) -> RecordBatch {
        let fields = self.schema.fields();
        let arrays = self
            .columns
            .into_iter()
            .zip(fields)
            .map(|(column, field)| column.finish(field.data_type(), self.rows))
            .collect();
        RecordBatch::try_new(self.schema, arrays).expect("columns were built for this schema")
    }
}

/// The values of a column, grouped by width: types of equal width share a representation.
enum Values {
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
    Eight(Vec<u64>),
    /// DECIMAL of 8 bytes in a row; 16 in Arrow.
    Wide(Vec<i128>),
    Sixteen(Vec<i128>),
    /// LARGEINT: 16 bytes in a row, 32 in Arrow.
    Large(Vec<i256>),
    Views(Views),
}

pub(crate) struct ColumnBuilder {
    values: Values,
    valid: Option<BooleanBufferBuilder>,
}

impl ColumnBuilder {
    pub(crate) fn new(ty: ColumnType, capacity: usize) -> Self {
        let values = match (ty, ty.layout()) {
            (ColumnType::LargeInt, _) => Values::Large(Vec::with_capacity(capacity)),
            (ColumnType::Decimal { .. }, Layout::Fixed(8)) => {
                Values::Wide(Vec::with_capacity(capacity))
            }
            (_, Layout::Fixed(1)) => Values::One(Vec::with_capacity(capacity)),
            (_, Layout::Fixed(2)) => Values::Two(Vec::with_capacity(capacity)),
            (_, Layout::Fixed(4)) => Values::Four(Vec::with_capacity(capacity)),
            (_, Layout::Fixed(8)) => Values::Eight(Vec::with_capacity(capacity)),
            (_, Layout::Fixed(_)) => Values::Sixteen(Vec::with_capacity(capacity)),
            (_, Layout::Bytes) => Values::Views(Views::new(capacity)),
        };
        Self { values, valid: None }
    }

    /// Appends the cell at the front of `cells`; returns the bytes after it.
    #[inline]
    pub(crate) fn push<'a>(&mut self, cells: &'a [u8]) -> &'a [u8] {
        if let Some(valid) = &mut self.valid {
            valid.append(true);
        }
        match &mut self.values {
            Values::One(values) => take(cells, |[value]| values.push(value)),
            Values::Two(values) => take(cells, |value| values.push(u16::from_le_bytes(value))),
            Values::Four(values) => take(cells, |value| values.push(u32::from_le_bytes(value))),
            Values::Eight(values) => take(cells, |value| values.push(u64::from_le_bytes(value))),
            Values::Wide(values) => {
                take(cells, |value| values.push(i128::from(i64::from_le_bytes(value))))
            }
            Values::Sixteen(values) => take(cells, |value| values.push(i128::from_le_bytes(value))),
            Values::Large(values) => {
                take(cells, |value| values.push(i256::from_i128(i128::from_le_bytes(value))))
            }
            Values::Views(views) => {
                let (length, taken) = take_length(cells).expect("a cell of bytes has its length");
                views.push(&cells[taken..], length);
                &cells[taken + length..]
            }
        }
    }

    #[cold]
    pub(crate) fn push_null(&mut self) {
        let rows = self.len();
        self.valid
            .get_or_insert_with(|| {
                let mut valid = BooleanBufferBuilder::new(rows + 1);
                valid.append_n(rows, true);
                valid
            })
            .append(false);
        match &mut self.values {
            Values::One(values) => values.push(0),
            Values::Two(values) => values.push(0),
            Values::Four(values) => values.push(0),
            Values::Eight(values) => values.push(0),
            Values::Wide(values) | Values::Sixteen(values) => values.push(0),
            Values::Large(values) => values.push(i256::ZERO),
            Values::Views(views) => views.push_null(),
        }
    }

    fn len(&self) -> usize {
        match &self.values {
            Values::One(values) => values.len(),
            Values::Two(values) => values.len(),
            Values::Four(values) => values.len(),
            Values::Eight(values) => values.len(),
            Values::Wide(values) | Values::Sixteen(values) => values.len(),
            Values::Large(values) => values.len(),
            Values::Views(views) => views.len(),
        }
    }

    pub(crate) fn finish(self, data_type: &DataType, rows: usize) -> ArrayRef {
        let nulls = self.valid.map(|mut valid| NullBuffer::new(valid.finish()));
        let buffer = match self.values {
            Values::One(values) => Buffer::from_vec(values),
            Values::Two(values) => Buffer::from_vec(values),
            Values::Four(values) => Buffer::from_vec(values),
            Values::Eight(values) => Buffer::from_vec(values),
            Values::Wide(values) | Values::Sixteen(values) => Buffer::from_vec(values),
            Values::Large(values) => Buffer::from_vec(values),
            Values::Views(views) => return views.finish(data_type, nulls),
        };
        let data = ArrayData::builder(data_type.clone()).len(rows).nulls(nulls).add_buffer(buffer);
        make_array(data.build().expect("cells of validated rows are values of their types"))
    }
}

/// Passes the first `N` bytes of `cells` to `push`; returns the bytes after them.
#[inline]
fn take<const N: usize>(cells: &[u8], push: impl FnOnce([u8; N])) -> &[u8] {
    let (value, rest) = cells.split_first_chunk().expect("a row ends where its last cell ends");
    push(*value);
    rest
}

#[cfg(test)]
mod tests;
