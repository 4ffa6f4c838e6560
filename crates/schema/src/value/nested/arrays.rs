//! Nested values as arrays of queries.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ListArray, MapArray, StringViewArray, StructArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Fields};

use super::parse::{Value, parse};
use super::query_type;
use crate::columns::ColumnBuilder;
use crate::row::put_bytes;
use crate::{Column, ColumnType, Rules};

/// The texts of a nested column as values of [`query_type`]. What is no such value, as only a
/// damaged file has it, is named.
///
/// # Errors
/// The first text that is no value of the column.
pub fn arrays(column: &Column, texts: &StringViewArray) -> Result<ArrayRef, String> {
    made(column, texts, false)
}

/// The same of any texts: what is no value becomes NULL.
///
/// # Errors
/// When the texts are too long for one array.
pub fn arrays_or_null(column: &Column, texts: &StringViewArray) -> Result<ArrayRef, String> {
    made(column, texts, true)
}

fn made(column: &Column, texts: &StringViewArray, is_lax: bool) -> Result<ArrayRef, String> {
    // Each element has a byte at least, and its number must fit the offsets of an array.
    let bytes = texts.iter().flatten().map(str::len).sum::<usize>();
    if i32::try_from(bytes).is_err() {
        return Err(format!("column '{}': {bytes} bytes are too many at once", column.name));
    }
    let mut builder = Builder::new(column, texts.len());
    let rules = Rules::default();
    for text in texts {
        match text.map(|text| parse(column, text, &rules)) {
            None | Some(Ok(None)) => builder.push(&Value::Null),
            Some(Ok(Some(value))) => builder.push(&value),
            Some(Err(_)) if is_lax => builder.push(&Value::Null),
            Some(Err(bad)) => return Err(format!("column '{}': {}", column.name, bad.reason())),
        }
    }
    Ok(builder.finish())
}

/// Collects the values of a column, or of what stands inside one.
struct Builder<'a> {
    column: &'a Column,
    len: usize,
    /// By value, whether it is not NULL; that of scalars is in `cells`.
    valid: Vec<bool>,
    /// Where the values of ARRAY and MAP end among those inside.
    ends: Vec<i32>,
    inside: Vec<Builder<'a>>,
    cells: Option<ColumnBuilder>,
}

impl<'a> Builder<'a> {
    fn new(column: &'a Column, capacity: usize) -> Self {
        let inside = column.elements.iter().map(|element| Self::new(element, capacity)).collect();
        let cells = (!column.ty.is_nested()).then(|| ColumnBuilder::new(column.ty, capacity));
        Self { column, len: 0, valid: Vec::new(), ends: vec![0], inside, cells }
    }

    fn push(&mut self, value: &Value) {
        self.len += 1;
        if let Some(cells) = &mut self.cells {
            let Value::Cell(cell) = value else { return cells.push_null() };
            let mut with_length = Vec::new();
            if self.column.ty.is_text() {
                put_bytes(&mut with_length, cell);
            }
            let cell = if with_length.is_empty() { cell } else { with_length.as_slice() };
            return assert!(cells.push(cell).is_empty(), "a cell is one value");
        }
        self.valid.push(!matches!(value, Value::Null));
        match value {
            Value::Entries(entries) => {
                for (key, value) in entries {
                    self.inside[0].push(key);
                    self.inside[1].push(value);
                }
            }
            Value::Items(items) if self.column.ty == ColumnType::Struct => {
                self.inside.iter_mut().zip(items).for_each(|(field, item)| field.push(item));
            }
            Value::Items(items) => items.iter().for_each(|item| self.inside[0].push(item)),
            Value::Null | Value::Cell(_) => {
                if self.column.ty == ColumnType::Struct {
                    self.inside.iter_mut().for_each(|field| field.push(&Value::Null));
                }
            }
        }
        if self.column.ty != ColumnType::Struct {
            let end = i32::try_from(self.inside[0].len);
            self.ends.push(end.expect("there are fewer elements than bytes of text"));
        }
    }

    fn finish(self) -> ArrayRef {
        let ty = query_type(self.column);
        if let Some(cells) = self.cells {
            return cells.finish(&ty, self.len);
        }
        if self.len == 0 {
            return new_null_array(&ty, 0);
        }
        let nulls = Some(NullBuffer::from(self.valid)).filter(|nulls| nulls.null_count() > 0);
        let inside = self.inside.into_iter().map(Self::finish).collect::<Vec<_>>();
        let ends = || OffsetBuffer::new(self.ends.into());
        match ty {
            DataType::List(item) => {
                let [items] = <[ArrayRef; 1]>::try_from(inside).expect("an ARRAY has one type");
                Arc::new(ListArray::new(item, ends(), items, nulls))
            }
            DataType::Map(entries, is_sorted) => {
                let DataType::Struct(fields) = entries.data_type() else {
                    unreachable!("a MAP has entries")
                };
                let both = StructArray::new(Fields::clone(fields), inside, None);
                Arc::new(MapArray::new(entries, ends(), both, nulls, is_sorted))
            }
            DataType::Struct(fields) => Arc::new(StructArray::new(fields, inside, nulls)),
            other => unreachable!("{other} is not nested"),
        }
    }
}
