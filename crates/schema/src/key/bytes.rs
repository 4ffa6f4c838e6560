//! Keys as bytes whose order (`memcmp`) is that in which rows are sorted.
//!
//! A key is its columns one after the other. A nullable column begins with a byte, 0 for NULL and
//! 1 for a value. Numbers and times stand big endian, their sign bit inverted; of negative floats
//! all bits are. In text and binary strings 00 becomes 00 01, and 00 00 ends them. Texts that are
//! compared by a collation stand as its weights, so equal ones are one key. So no key of
//! some columns is the beginning of another key of these columns, and whatever is appended to keys
//! only decides between equal ones.

use arrow::array::RecordBatch;
use freshet_base::ColumnId;

use super::part::length_of;
use super::weights::{put_text_of, put_weights, text_of};
use crate::value::{bytes_text, cell_text};
use crate::{Collation, ColumnType, Layout, RowCells, TableSchema, encode};

mod rows;

pub use rows::KeyRows;

/// The longest key, in bytes of its cells, as in MySQL.
pub const KEY_BYTES_MAX: usize = 3072;

const NULL: u8 = 0;
const VALUE: u8 = 1;
/// What stands behind a 00 of a string.
const ESCAPED: u8 = 1;
const END: [u8; 2] = [0, 0];
const SIGN: u8 = 0x80;

/// Encodes the values of some columns of a schema as keys, and decodes them.
pub struct KeyCodec {
    columns: Vec<KeyColumn>,
    cells: RowCells,
    /// Whether what is beyond [`KEY_BYTES_MAX`] is cut off.
    clips: bool,
    /// Whether rows have weights in place of texts ([`Self::put_row`]).
    of_removals: bool,
}

struct KeyColumn {
    /// Its index in the schema.
    at: usize,
    nullable: bool,
    layout: Layout,
    order: Order,
    /// Of texts by weights.
    collation: Option<Collation>,
    /// How many characters of a text count, or bytes of others, if not all do.
    first: Option<First>,
}

/// The first characters or bytes of a value.
#[derive(Clone, Copy)]
enum First {
    Characters(usize),
    Bytes(usize),
}

impl First {
    fn of(self, cell: &[u8]) -> &[u8] {
        match self {
            Self::Bytes(count) => &cell[..cell.len().min(count)],
            Self::Characters(count) => {
                let text = std::str::from_utf8(cell).expect("a text is UTF-8");
                let end = text.char_indices().nth(count).map_or(cell.len(), |(at, _)| at);
                &cell[..end]
            }
        }
    }
}

/// How the cells of a type are ordered.
#[derive(Clone, Copy)]
enum Order {
    Unsigned,
    Signed,
    /// As `total_cmp` does.
    Float,
    /// The same with one zero.
    FoldedFloat,
}

impl KeyCodec {
    /// The byte in front of a value of a nullable column.
    pub const VALUE: u8 = VALUE;

    /// The codec of keys of these columns, which are indices in the schema.
    pub fn new(schema: &TableSchema, columns: &[usize]) -> Self {
        let of = |&at: &usize| {
            let column = &schema.columns[at];
            let (layout, order) = (column.ty.layout(), Order::of(column.ty));
            let (nullable, collation) = (column.nullable, column.key_collation());
            KeyColumn { at, nullable, layout, order, collation, first: None }
        };
        let columns = columns.iter().map(of).collect();
        Self { columns, cells: RowCells::new(schema), clips: false, of_removals: false }
    }

    /// The codec of the keys of rows that only remove them, made by [`Self::put_row`].
    #[must_use]
    pub fn of_removals(self) -> Self {
        Self { of_removals: true, ..self }
    }

    /// The codec of the values of an index of these columns, of which equal ones have equal bytes;
    /// `None` if the schema lacks one of them. Of strings that go beyond [`KEY_BYTES_MAX`], which
    /// DDL refuses in unique keys alone, the rest is cut off: these values are still in order, and
    /// unequal ones may have equal bytes.
    pub fn of_index(schema: &TableSchema, columns: &[ColumnId]) -> Option<Self> {
        let places = columns.iter().map(|id| schema.position_of(*id));
        let mut codec = Self::new(schema, &places.collect::<Option<Vec<_>>>()?);
        codec.clips = true;
        for (column, part) in codec.columns.iter_mut().zip(columns) {
            let is_text = schema.columns[column.at].ty.is_text();
            column.first = length_of(*part, &schema.columns).map(|length| match is_text {
                true => First::Characters(length as usize),
                false => First::Bytes(length as usize),
            });
            if matches!(column.order, Order::Float) {
                column.order = Order::FoldedFloat;
            }
        }
        Some(codec)
    }

    /// The values of an index in encoded rows that follow each other, and which of them have NULL.
    ///
    /// # Panics
    /// Those of [`Self::put`].
    pub fn values_of_rows(&self, mut rows: &[u8]) -> (Keys, Vec<bool>) {
        let (mut keys, mut nulls) = (Keys::default(), Vec::new());
        while !rows.is_empty() {
            self.put(rows, &mut keys.bytes);
            keys.end_key();
            let is_null = |column: &KeyColumn| self.cells.cell(rows, column.at).is_none();
            nulls.push(self.columns.iter().any(is_null));
            rows = &rows[self.cells.row_bytes(rows)..];
        }
        (keys, nulls)
    }

    /// Whether a key has NULL in one of its columns.
    ///
    /// # Errors
    /// What is wrong with bytes that are not a key of these columns.
    pub fn has_null(&self, key: &[u8]) -> Result<bool, &'static str> {
        Ok(self.decode(key)?.iter().any(Option::is_none))
    }

    /// The codec of sort keys.
    pub fn of_sort_key(schema: &TableSchema) -> Self {
        Self::new(schema, &schema.sort_key)
    }

    /// Appends the key of the encoded row at the front of `row`.
    ///
    /// # Panics
    /// When `row` does not begin with a row of the schema, when NULL stands in a column that takes
    /// none, or when the key is longer than [`KEY_BYTES_MAX`].
    pub fn put(&self, row: &[u8], out: &mut Vec<u8>) {
        let cells = self.columns.iter().map(|column| self.cells.cell(row, column.at));
        self.put_cells(cells, out);
    }

    /// Appends the key of the columns that have these cells, without lengths, in the order of the
    /// key; `None` for NULL.
    ///
    /// # Panics
    /// When NULL stands in a column that takes none, or when the key is longer than
    /// [`KEY_BYTES_MAX`].
    pub fn put_cells<'a>(&self, cells: impl Iterator<Item = Option<&'a [u8]>>, out: &mut Vec<u8>) {
        let mut length = 0;
        for (column, cell) in self.columns.iter().zip(cells) {
            assert!(cell.is_some() || column.nullable, "NULL in a key column that takes none");
            if column.nullable {
                out.push(if cell.is_some() { VALUE } else { NULL });
            }
            let Some(mut cell) = cell else { continue };
            if let Some(first) = column.first.filter(|_| !self.of_removals) {
                cell = first.of(cell);
            }
            if let Some(collation) = column.collation {
                let text = std::str::from_utf8(cell).expect("a text is UTF-8");
                let mut weights = Vec::with_capacity(cell.len());
                match self.of_removals {
                    true => put_text_of(text, &mut weights),
                    false => put_weights(collation, text, &mut weights),
                }
                put_string(&weights, out);
                continue;
            }
            if self.clips && column.layout == Layout::Bytes {
                cell = &cell[..cell.len().min(KEY_BYTES_MAX.saturating_sub(length))];
            }
            length += cell.len();
            match column.layout {
                Layout::Bytes => put_string(cell, out),
                Layout::Fixed(1) => put_fixed::<1>(cell, column.order, out),
                Layout::Fixed(2) => put_fixed::<2>(cell, column.order, out),
                Layout::Fixed(4) => put_fixed::<4>(cell, column.order, out),
                Layout::Fixed(8) => put_fixed::<8>(cell, column.order, out),
                Layout::Fixed(_) => put_fixed::<16>(cell, column.order, out),
            }
        }
        let fits = self.clips || length <= KEY_BYTES_MAX;
        assert!(fits, "a key of {length} bytes is longer than DDL allows");
    }

    /// The keys of encoded rows that follow each other.
    ///
    /// # Panics
    /// Those of [`Self::put`].
    pub fn of_rows(&self, mut rows: &[u8]) -> Keys {
        let mut keys = Keys::default();
        while !rows.is_empty() {
            self.put(rows, &mut keys.bytes);
            keys.end_key();
            rows = &rows[self.cells.row_bytes(rows)..];
        }
        keys
    }

    /// Appends a row of the schema of which only the key counts ([`KeyRows::put`]).
    ///
    /// # Errors
    /// What is wrong with bytes that are not a key of these columns.
    pub fn put_row(
        &self,
        schema: &TableSchema,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), &'static str> {
        KeyRows::new(self, schema).put(key, out)
    }

    /// The key as text, for messages: its values joined by hyphens, as MySQL shows it. Weights are
    /// shown as hex digits; [`Self::row_text`] knows their texts.
    ///
    /// # Errors
    /// What is wrong with bytes that are not a key of these columns.
    pub fn text(&self, schema: &TableSchema, key: &[u8]) -> Result<String, &'static str> {
        let mut cells = self.decode(key)?;
        for (column, cell) in self.columns.iter().zip(&mut cells) {
            let Some(cell) = cell.as_mut().filter(|_| column.collation.is_some()) else { continue };
            let mut weights = Vec::new();
            put_text_of(std::str::from_utf8(cell).expect("a text is UTF-8"), &mut weights);
            let digits = weights.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
            *cell = format!("0x{digits}").into_bytes();
        }
        Ok(self.shown(schema, cells.iter().map(Option::as_deref)))
    }

    /// The key of an encoded row as text.
    pub fn row_text(&self, schema: &TableSchema, row: &[u8]) -> String {
        let cell = |column: &KeyColumn| {
            let cell = self.cells.cell(row, column.at);
            cell.map(|cell| column.first.map_or(cell, |first| first.of(cell)))
        };
        self.shown(schema, self.columns.iter().map(cell))
    }

    fn shown<'c>(
        &self,
        schema: &TableSchema,
        cells: impl Iterator<Item = Option<&'c [u8]>>,
    ) -> String {
        let shown = self.columns.iter().zip(cells).map(|(column, cell)| match cell {
            Some(cell) => match schema.columns[column.at].ty {
                ty if ty.is_binary() => bytes_text(ty, cell),
                ty => cell_text(ty, cell),
            },
            None => "NULL".to_owned(),
        });
        shown.collect::<Vec<_>>().join("-")
    }

    /// Whether keys have weights in place of texts.
    pub fn has_weights(&self) -> bool {
        self.columns.iter().any(|column| column.collation.is_some())
    }

    /// The bytes of each column of a key.
    ///
    /// # Errors
    /// What is wrong with bytes that are not a key of these columns.
    pub fn pieces<'k>(&self, key: &'k [u8]) -> Result<Vec<&'k [u8]>, &'static str> {
        let (mut rest, mut pieces) = (key, Vec::with_capacity(self.columns.len()));
        for column in &self.columns {
            let start = key.len() - rest.len();
            let null = match column.nullable {
                false => VALUE,
                true => *rest.split_off_first().ok_or("a key that ends too early")?,
            };
            if null == VALUE {
                column.take_cell(&mut rest)?;
            }
            pieces.push(&key[start..key.len() - rest.len()]);
        }
        Ok(pieces)
    }

    /// The cells of a key, as they stand in rows, without lengths; `None` for NULL. Weights stand
    /// as in rows that only remove their key.
    ///
    /// # Errors
    /// What is wrong with bytes that are not a key of these columns.
    pub fn decode(&self, mut key: &[u8]) -> Result<Vec<Option<Vec<u8>>>, &'static str> {
        let mut cells = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            cells.push(match column.takes_value(&mut key)? {
                false => None,
                true => Some(column.take_cell(&mut key)?),
            });
        }
        if key.is_empty() { Ok(cells) } else { Err("a key that is too long") }
    }
}

impl KeyColumn {
    /// Whether a value follows in a key, and not NULL.
    fn takes_value(&self, key: &mut &[u8]) -> Result<bool, &'static str> {
        if !self.nullable {
            return Ok(true);
        }
        match *key.split_off_first().ok_or("a key that ends too early")? {
            NULL => Ok(false),
            VALUE => Ok(true),
            _ => Err("a key that is neither NULL nor a value"),
        }
    }

    fn take_cell(&self, key: &mut &[u8]) -> Result<Vec<u8>, &'static str> {
        let mut cell = Vec::new();
        self.take_cell_to(key, &mut cell)?;
        Ok(cell)
    }

    /// Appends the next cell of a key.
    fn take_cell_to(&self, key: &mut &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        let start = out.len();
        if self.collation.is_some() {
            take_string(key, out)?;
            let text = text_of(&out[start..]);
            out.truncate(start);
            out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let Layout::Fixed(width) = self.layout else { return take_string(key, out) };
        let cell = key.split_off(..width).ok_or("a key that ends too early")?;
        out.extend_from_slice(cell);
        self.order.restore(&mut out[start..]);
        out[start..].reverse();
        Ok(())
    }
}

impl Order {
    fn of(ty: ColumnType) -> Self {
        match ty {
            ColumnType::Float | ColumnType::Double => Self::Float,
            // Strings are compared byte by byte.
            _ if ty.is_unsigned() || ty.layout() == Layout::Bytes => Self::Unsigned,
            _ => Self::Signed,
        }
    }

    /// Changes a big-endian cell so that the order of its bytes is that of its values.
    #[inline]
    fn apply(self, cell: &mut [u8]) {
        match self {
            Self::Unsigned => {}
            Self::FoldedFloat if cell[0] == SIGN && cell[1..].iter().all(|byte| *byte == 0) => {}
            Self::Float | Self::FoldedFloat if cell[0] & SIGN != 0 => {
                cell.iter_mut().for_each(|byte| *byte = !*byte);
            }
            Self::Signed | Self::Float | Self::FoldedFloat => cell[0] ^= SIGN,
        }
    }

    /// Undoes [`Self::apply`].
    fn restore(self, cell: &mut [u8]) {
        match self {
            Self::Unsigned => {}
            Self::Float | Self::FoldedFloat if cell[0] & SIGN == 0 => {
                cell.iter_mut().for_each(|byte| *byte = !*byte);
            }
            Self::Signed | Self::Float | Self::FoldedFloat => cell[0] ^= SIGN,
        }
    }
}

#[inline]
fn put_fixed<const WIDTH: usize>(cell: &[u8], order: Order, out: &mut Vec<u8>) {
    let mut cell = <[u8; WIDTH]>::try_from(cell).expect("a cell has the width of its layout");
    cell.reverse();
    order.apply(&mut cell);
    out.extend_from_slice(&cell);
}

#[inline]
fn put_string(mut cell: &[u8], out: &mut Vec<u8>) {
    while let Some(zero) = cell.iter().position(|&byte| byte == 0) {
        out.extend_from_slice(&cell[..=zero]);
        out.push(ESCAPED);
        cell = &cell[zero + 1..];
    }
    out.extend_from_slice(cell);
    out.extend_from_slice(&END);
}

/// Appends the next string of a key.
fn take_string(key: &mut &[u8], cell: &mut Vec<u8>) -> Result<(), &'static str> {
    loop {
        let zero = key.iter().position(|&byte| byte == 0).ok_or("a string that does not end")?;
        let (before, rest) = key.split_at(zero);
        cell.extend_from_slice(before);
        let (mark, rest) = rest[1..].split_first().ok_or("a string that does not end")?;
        *key = rest;
        match *mark {
            ESCAPED => cell.push(0),
            0 => return Ok(()),
            _ => return Err("a string with a 00 that is not escaped"),
        }
    }
}

/// The keys of several rows, one after the other.
#[derive(Default)]
pub struct Keys {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
}

impl Keys {
    /// The sort keys of the rows of a batch, which has the columns of `schema`.
    pub fn of_batch(batch: &RecordBatch, schema: &TableSchema) -> Self {
        assert!(!schema.sort_key.is_empty(), "rows without a key have no keys");
        Self::of_columns(batch, schema, &schema.sort_key)
    }

    /// The keys that these columns of a batch are, which has the columns of `schema`.
    pub fn of_columns(batch: &RecordBatch, schema: &TableSchema, at: &[usize]) -> Self {
        let (keys_only, rows) = columns_of(batch, schema, at);
        KeyCodec::of_sort_key(&keys_only).of_rows(&rows)
    }

    /// The values of an index in the rows of a batch, which has the columns of `schema`, and which
    /// of them have NULL; `None` if the schema lacks a column of the index.
    pub fn of_index(
        batch: &RecordBatch,
        schema: &TableSchema,
        columns: &[ColumnId],
    ) -> Option<(Self, Vec<bool>)> {
        let places = columns.iter().map(|id| schema.position_of(*id));
        let (alone, rows) = columns_of(batch, schema, &places.collect::<Option<Vec<_>>>()?);
        Some(KeyCodec::of_index(&alone, columns)?.values_of_rows(&rows))
    }

    /// The values of an index in the rows of a batch, where texts by weights are those of
    /// [`asked_text`](super::asked_text); `None` if the schema lacks a column of the index.
    pub fn of_weighed_index(
        batch: &RecordBatch,
        schema: &TableSchema,
        columns: &[ColumnId],
    ) -> Option<Self> {
        let mut rows = Vec::new();
        encode(batch, schema, &mut rows);
        let codec = KeyCodec::of_index(schema, columns)?.of_removals();
        Some(codec.values_of_rows(&rows).0)
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The key of the row with this index.
    #[inline]
    pub fn key(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[row] as usize]
    }

    fn end_key(&mut self) {
        let end = u32::try_from(self.bytes.len());
        self.ends.push(end.expect("the keys of a batch are far below 4 GiB"));
    }
}

/// Some columns of a schema alone; they are the sort key.
pub fn key_alone(schema: &TableSchema, places: &[usize]) -> TableSchema {
    let columns = places.iter().map(|&at| schema.columns[at].clone()).collect();
    TableSchema::new(schema.version, columns, (0..places.len()).collect())
}

/// Some columns of a batch as encoded rows, and their schema, whose sort key they are.
fn columns_of(
    batch: &RecordBatch,
    schema: &TableSchema,
    places: &[usize],
) -> (TableSchema, Vec<u8>) {
    let alone = key_alone(schema, places);
    let batch = batch.project(places).expect("these are columns of the batch");
    let mut rows = Vec::new();
    encode(&batch, &alone, &mut rows);
    (alone, rows)
}

impl<'a> FromIterator<&'a [u8]> for Keys {
    fn from_iter<T: IntoIterator<Item = &'a [u8]>>(keys: T) -> Self {
        let mut all = Self::default();
        for key in keys {
            all.bytes.extend_from_slice(key);
            all.end_key();
        }
        all
    }
}

#[cfg(test)]
mod tests;
