//! Keys as rows of which nothing else counts.

use std::ops::Range;

use super::KeyCodec;
use crate::row::{LENGTH_BYTES_MAX, Put, RowWriter, put_bytes};
use crate::value::put_zero;
use crate::{Layout, TableSchema};

/// Writes rows of a schema of which only the key counts.
pub struct KeyRows<'a> {
    codec: &'a KeyCodec,
    schema: &'a TableSchema,
    /// Which of the columns of the key each column of the schema is.
    places: Vec<Option<usize>>,
    /// The cells of a key, one after the other, and where each is; `None` for NULL.
    cells: Vec<u8>,
    ranges: Vec<Option<Range<usize>>>,
}

impl<'a> KeyRows<'a> {
    pub fn new(codec: &'a KeyCodec, schema: &'a TableSchema) -> Self {
        let mut places = vec![None; schema.columns.len()];
        codec.columns.iter().enumerate().for_each(|(at, column)| places[column.at] = Some(at));
        Self { codec, schema, places, cells: Vec::new(), ranges: Vec::new() }
    }

    /// The most bytes of a row, besides so many times the bytes of its key.
    pub fn bytes_max(&self) -> (usize, usize) {
        let mut bytes = Vec::new();
        for (column, place) in self.schema.columns.iter().zip(&self.places) {
            match place {
                Some(_) if column.ty.layout() == Layout::Bytes => {
                    bytes.resize(bytes.len() + LENGTH_BYTES_MAX, 0);
                }
                None if !column.nullable => put_zero(column.ty, &mut bytes),
                _ => {}
            }
        }
        let bitmap = self.schema.columns.len().div_ceil(8);
        // A weight is a character of two bytes at most.
        (bitmap + bytes.len(), if self.codec.has_weights() { 2 } else { 1 })
    }

    /// Appends the row of a key: other columns are NULL, or the zero of their type, and texts by
    /// weights have these ([`KeyCodec::of_removals`]).
    ///
    /// # Errors
    /// What is wrong with bytes that are not a key of these columns.
    pub fn put(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        self.take_cells(key)?;
        let Self { places, cells, ranges, .. } = self;
        let mut row = RowWriter::new(self.schema.columns.len(), out);
        row.begin_row();
        for (column, place) in self.schema.columns.iter().zip(places.iter()) {
            let range = place.and_then(|at| ranges[at].clone());
            let put = |out: &mut Vec<u8>| -> Result<Put, &'static str> {
                match (range, column.ty.layout()) {
                    (Some(range), Layout::Bytes) => put_bytes(out, &cells[range]),
                    (Some(range), Layout::Fixed(_)) => out.extend_from_slice(&cells[range]),
                    (None, _) if column.nullable => return Ok(Put::Null),
                    (None, _) => put_zero(column.ty, out),
                }
                Ok(Put::Value)
            };
            row.cell(put)?;
        }
        row.end_row();
        Ok(())
    }

    fn take_cells(&mut self, mut key: &[u8]) -> Result<(), &'static str> {
        self.cells.clear();
        self.ranges.clear();
        for column in &self.codec.columns {
            let start = self.cells.len();
            let is_value = column.takes_value(&mut key)?;
            if is_value {
                column.take_cell_to(&mut key, &mut self.cells)?;
            }
            self.ranges.push(is_value.then_some(start..self.cells.len()));
        }
        if key.is_empty() { Ok(()) } else { Err("a key that is too long") }
    }
}
