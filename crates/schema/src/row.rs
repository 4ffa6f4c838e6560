//! The row encoding of the log and the delta.
//!
//! A row is a NULL bitmap (bit `i & 7` of byte `i >> 3` is column `i`, set means NULL), then the
//! cells of the non-NULL columns in order: [`Layout::Fixed`] little endian, [`Layout::Bytes`] as a
//! LEB128 length and that many bytes. Rows follow each other without separators, so the rows of
//! several loads can be concatenated.

use std::fmt;

use freshet_base::SchemaVersion;

use crate::sketch::SketchKind;
use crate::{ColumnType, DECIMAL_PRECISION_MAX, Layout, TableSchema};

mod cells;

pub use cells::RowCells;

/// The longest encoding of the length in front of a cell.
pub(crate) const LENGTH_BYTES_MAX: usize = 5;
/// 0000-01-01 in days since 1970-01-01.
pub const DAYS_MIN: i32 = -719_528;
/// MySQL's zero date, 0000-00-00: the day before all others (RFC 0072).
pub const ZERO_DAY: i32 = DAYS_MIN - 1;
/// 0000-00-00 00:00:00, whatever the time zone.
pub const ZERO_MICROS: i64 = ZERO_DAY as i64 * MICROS_PER_DAY;
/// 9999-12-31 in days since 1970-01-01.
pub const DAYS_MAX: i32 = 2_932_896;
/// 0000-01-01 00:00:00 in microseconds since 1970-01-01.
pub const MICROS_MIN: i64 = DAYS_MIN as i64 * MICROS_PER_DAY;
/// The first instant of a TIMESTAMP, 1970-01-01 00:00:01 UTC, in microseconds since 1970-01-01.
pub const TIMESTAMP_MICROS_MIN: i64 = 1_000_000;
/// The last instant of a TIMESTAMP, 2038-01-19 03:14:07.999999 UTC.
pub const TIMESTAMP_MICROS_MAX: i64 = 2_147_483_648 * 1_000_000 - 1;
/// 9999-12-31 23:59:59.999999 in microseconds since 1970-01-01.
pub const MICROS_MAX: i64 = (DAYS_MAX as i64 + 1) * MICROS_PER_DAY - 1;
/// The longest TIME, 838:59:59.
pub const TIME_MICROS_MAX: u64 = (838 * 3_600 + 59 * 60 + 59) * 1_000_000;
/// Microseconds of a day.
pub const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Rows of one load, encoded under one schema version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rows {
    pub schema_version: SchemaVersion,
    pub count: usize,
    pub bytes: Vec<u8>,
}

/// What a cell writer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Put {
    /// It appended the cell's bytes.
    Value,
    /// The cell is NULL; nothing was appended.
    Null,
}

/// Appends rows to a byte vector cell by cell, without allocating per row.
pub struct RowWriter<'a> {
    out: &'a mut Vec<u8>,
    columns: usize,
    bitmap_bytes: usize,
    row_start: usize,
    column: usize,
    rows: usize,
}

impl<'a> RowWriter<'a> {
    /// `columns` is the number of cells of each row.
    pub fn new(columns: usize, out: &'a mut Vec<u8>) -> Self {
        let row_start = out.len();
        Self {
            out,
            columns,
            bitmap_bytes: columns.div_ceil(8),
            row_start,
            column: columns,
            rows: 0,
        }
    }

    #[inline]
    pub fn begin_row(&mut self) {
        debug_assert_eq!(self.column, self.columns, "the row before is complete");
        self.row_start = self.out.len();
        self.column = 0;
        self.out.resize(self.row_start + self.bitmap_bytes, 0);
    }

    /// Writes the next cell: `write` appends its bytes, or returns [`Put::Null`] and appends
    /// nothing.
    #[inline]
    pub fn cell<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<Put, E>) -> Result<(), E> {
        match write(self.out)? {
            Put::Value => self.column += 1,
            Put::Null => self.put_null(),
        }
        Ok(())
    }

    #[inline]
    pub fn put_null(&mut self) {
        self.out[self.row_start + (self.column >> 3)] |= 1 << (self.column & 7);
        self.column += 1;
    }

    /// Writes the next cell from encoded bytes.
    #[inline]
    pub fn put_encoded(&mut self, cell: &[u8]) {
        self.out.extend_from_slice(cell);
        self.column += 1;
    }

    /// The bytes so far: where the next cell begins.
    #[inline]
    pub fn offset(&self) -> usize {
        self.out.len()
    }

    /// The bytes from `offset` on.
    pub fn bytes_from(&self, offset: usize) -> &[u8] {
        &self.out[offset..]
    }

    /// The bytes of the row that was begun last.
    pub fn row_bytes(&self) -> &[u8] {
        &self.out[self.row_start..]
    }

    /// Puts another complete row in the place of the one that was begun last.
    ///
    /// # Panics
    /// When the row does not have all its cells.
    pub fn replace_row(&mut self, row: &[u8]) {
        assert_eq!(self.column, self.columns, "a row is complete before it is replaced");
        self.out.truncate(self.row_start);
        self.out.extend_from_slice(row);
    }

    /// Overwrites bytes of a cell.
    pub fn patch(&mut self, offset: usize, bytes: &[u8]) {
        self.out[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// The index of the next cell in its row.
    #[inline]
    pub fn column(&self) -> usize {
        self.column
    }

    /// Completes the row.
    ///
    /// # Panics
    /// When the row does not have a cell for every column.
    #[inline]
    pub fn end_row(&mut self) {
        assert_eq!(self.column, self.columns, "a row has a cell for every column");
        self.rows += 1;
    }

    /// Removes the row that was begun and not ended.
    #[inline]
    pub fn abort_row(&mut self) {
        self.out.truncate(self.row_start);
        self.column = self.columns;
    }

    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }
}

/// Appends a cell of [`Layout::Bytes`].
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the LEB128 length of a [`Layout::Bytes`] cell.
#[inline]
pub fn put_length(out: &mut Vec<u8>, length: usize) {
    let mut rest = length;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Reads a length from the front of `bytes`: the length and how many bytes encode it.
#[inline]
pub fn take_length(bytes: &[u8]) -> Option<(usize, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((first as usize, 1));
    }
    let mut length = (first & 0x7f) as usize;
    for (at, &byte) in bytes.iter().enumerate().take(LENGTH_BYTES_MAX).skip(1) {
        length |= ((byte & 0x7f) as usize) << (7 * at);
        if byte < 0x80 {
            // Only the shortest encoding is accepted, so that equal rows are equal bytes.
            return (byte != 0 && u32::try_from(length).is_ok()).then_some((length, at + 1));
        }
    }
    None
}

/// Why bytes are not valid rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowFault {
    /// The row, counted from 0.
    pub row: usize,
    /// The column's index, or the number of columns when the fault is not in a column.
    pub column: usize,
    /// The offset of the faulty cell or row in the bytes.
    pub offset: usize,
    pub reason: &'static str,
}

impl fmt::Display for RowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, column, offset, reason } = self;
        write!(f, "row {row}, column {column}, byte {offset}: {reason}")
    }
}

impl std::error::Error for RowFault {}

/// Iterates over the cells of encoded rows.
pub struct RowCursor<'a> {
    layouts: Vec<Layout>,
    bytes: &'a [u8],
    at: usize,
    row: usize,
}

impl<'a> RowCursor<'a> {
    /// `bytes` are rows of `schema`.
    pub fn new(schema: &TableSchema, bytes: &'a [u8]) -> Self {
        let layouts = schema.columns.iter().map(|column| column.ty.layout()).collect();
        Self { layouts, bytes, at: 0, row: 0 }
    }

    pub fn offset(&self) -> usize {
        self.at
    }

    /// Passes the cells of the next row to `each` (column index, bytes without length, or `None`
    /// for NULL); false at the end of the bytes.
    pub fn next_row(
        &mut self,
        mut each: impl FnMut(usize, Option<&'a [u8]>) -> Result<(), &'static str>,
    ) -> Result<bool, RowFault> {
        if self.at == self.bytes.len() {
            return Ok(false);
        }
        let columns = self.layouts.len();
        let bitmap_bytes = columns.div_ceil(8);
        let start = self.at;
        let fault = |column, offset, reason| RowFault { row: self.row, column, offset, reason };
        let Some(nulls) = self.bytes.get(start..start + bitmap_bytes) else {
            return Err(fault(columns, start, "the bytes end inside the bitmap of NULLs"));
        };
        if columns & 7 != 0 && nulls[bitmap_bytes - 1] >> (columns & 7) != 0 {
            return Err(fault(columns, start, "the bitmap names columns that do not exist"));
        }
        let mut at = start + bitmap_bytes;
        for (column, &layout) in self.layouts.iter().enumerate() {
            if nulls[column >> 3] >> (column & 7) & 1 == 1 {
                each(column, None).map_err(|reason| fault(column, at, reason))?;
                continue;
            }
            let cell = cell_at(self.bytes, at, layout)
                .ok_or_else(|| fault(column, at, "the bytes end inside a cell"))?;
            each(column, Some(&self.bytes[cell.clone()]))
                .map_err(|reason| fault(column, at, reason))?;
            at = cell.end;
        }
        self.at = at;
        self.row += 1;
        Ok(true)
    }
}

/// The byte range of the content of the cell that begins at `at`.
fn cell_at(bytes: &[u8], at: usize, layout: Layout) -> Option<std::ops::Range<usize>> {
    let (from, length) = match layout {
        Layout::Fixed(width) => (at, width),
        Layout::Bytes => {
            let (length, taken) = take_length(bytes.get(at..)?)?;
            (at + taken, length)
        }
    };
    let end = from.checked_add(length)?;
    (end <= bytes.len()).then_some(from..end)
}

/// Checks bytes from outside this process: they must be exactly `count` rows of `schema`, and every
/// cell a valid value of its column.
pub fn validate(schema: &TableSchema, bytes: &[u8], count: usize) -> Result<(), RowFault> {
    let mut cursor = RowCursor::new(schema, bytes);
    let mut rows = 0;
    while cursor.next_row(|at, cell| {
        let column = &schema.columns[at];
        match cell {
            None if column.nullable => Ok(()),
            None => Err("NULL in a column that takes none"),
            Some(cell) => check_cell(column.ty, cell),
        }
    })? {
        rows += 1;
    }
    if rows == count {
        return Ok(());
    }
    let column = schema.columns.len();
    Err(RowFault { row: rows, column, offset: bytes.len(), reason: "not as many rows as promised" })
}

/// Checks that a cell is a valid value of its type.
fn check_cell(ty: ColumnType, cell: &[u8]) -> Result<(), &'static str> {
    let fits = match ty {
        ColumnType::MediumInt { unsigned: false } => {
            (-(1 << 23)..1 << 23).contains(&(fixed(cell) as i64 as i32))
        }
        ColumnType::MediumInt { unsigned: true } => fixed(cell) < 1 << 24,
        ColumnType::Float => f32::from_bits(fixed(cell) as u32).is_finite(),
        ColumnType::Double => f64::from_bits(fixed(cell)).is_finite(),
        ColumnType::Decimal { precision, .. } => {
            decimal(cell).unsigned_abs() < POWERS_OF_TEN[precision as usize]
        }
        ColumnType::Date => (ZERO_DAY..=DAYS_MAX).contains(&(fixed(cell) as i64 as i32)),
        ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => {
            let micros = fixed(cell).cast_signed();
            micros == ZERO_MICROS || (MICROS_MIN..=MICROS_MAX).contains(&micros)
        }
        ColumnType::Time { .. } => fixed(cell).cast_signed().unsigned_abs() <= TIME_MICROS_MAX,
        ColumnType::Bit { len } => fixed(cell) >> (len - 1) <= 1,
        ColumnType::Year => matches!(fixed(cell), 0 | 1901..=2155),
        _ if ty.is_text() => std::str::from_utf8(cell).is_ok(),
        ColumnType::Bitmap | ColumnType::Hll => SketchKind::of(cell) == ty.sketch(),
        _ => true,
    };
    if fits { Ok(()) } else { Err("a value that the type of its column does not have") }
}

/// The little-endian bits of a cell of up to 8 bytes.
#[inline]
pub(crate) fn fixed(cell: &[u8]) -> u64 {
    let mut bits = [0; 8];
    bits[..cell.len()].copy_from_slice(cell);
    u64::from_le_bytes(bits)
}

/// The unscaled value of a DECIMAL or LARGEINT cell of 8 or 16 bytes.
pub(crate) fn decimal(cell: &[u8]) -> i128 {
    match <[u8; 16]>::try_from(cell) {
        Ok(bytes) => i128::from_le_bytes(bytes),
        Err(_) => i128::from(fixed(cell).cast_signed()),
    }
}

/// 10^0 to 10^38.
pub(crate) const POWERS_OF_TEN: [u128; DECIMAL_PRECISION_MAX as usize + 1] = {
    let mut powers = [1; DECIMAL_PRECISION_MAX as usize + 1];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

#[cfg(test)]
mod tests;
