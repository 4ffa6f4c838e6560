//! Values of expressions and queries on their way into encoded rows.

use arrow::array::Array;
use freshet_base::{Result, bail};
use freshet_ingest::decode::{Fault, RowEncoder, StoredValues};
use freshet_query::result::Cells;
use freshet_schema::row::{DAYS_MAX, DAYS_MIN, MICROS_PER_DAY};
use freshet_schema::value::{Encoding, LocalDateTime, micros_cut, put_i64, put_text};
use freshet_schema::{Column, ColumnType, Literal, value};

/// Dates from the year 1 on, which are stored as their text is.
const PLAIN_DAYS: std::ops::RangeInclusive<i32> = DAYS_MIN + 366..=DAYS_MAX;

/// Writes a literal.
///
/// # Errors
/// When its column does not take it.
pub fn put(
    encoder: &mut RowEncoder<'_>,
    literal: Literal<'_>,
) -> std::result::Result<(), Box<Fault>> {
    encoder.put(literal, |column, rules, out| value::put(column, literal, rules, out))
}

/// Writes a computed value.
///
/// # Errors
/// When its column does not take it.
pub fn put_cell(
    encoder: &mut RowEncoder<'_>,
    cells: &Cells,
    row: usize,
    text: &mut Vec<u8>,
) -> std::result::Result<(), Box<Fault>> {
    if let Cells::Sketch(values) = cells
        && values.is_valid(row)
    {
        return put(encoder, Literal::Sketch(values.value(row)));
    }
    if cells.is_null(row) {
        return encoder.put_null();
    }
    match cells {
        Cells::Bool(values) => put(encoder, Literal::Int(values.value(row).into())),
        Cells::Int(values) => {
            let value = values.value(row);
            encoder.put(Literal::Int(value.into()), |column, rules, out| {
                put_i64(column, value, rules, out)
            })
        }
        Cells::UInt(values) | Cells::Year(values) | Cells::Bits(values, _) => {
            put(encoder, Literal::Int(values.value(row).into()))
        }
        Cells::Float(values) => put(encoder, Literal::Float(values.value(row).into())),
        Cells::Double(values, _) => put(encoder, Literal::Float(values.value(row))),
        Cells::Text(values) => {
            let text = values.value(row).as_bytes();
            encoder.put(Literal::Text(text), |column, rules, out| {
                put_text(column, text, Encoding::Utf8, rules, out)
            })
        }
        // A computed binary value is a string, unlike a hex literal, which may be a number.
        Cells::Bytes(values) => put(encoder, Literal::Text(values.value(row))),
        Cells::Decimal(..) | Cells::Large(..) => {
            text.clear();
            cells.exact(row, text);
            put(encoder, Literal::Number(text))
        }
        Cells::Date(_) | Cells::DateTime(..)
            if let Some(moment) =
                encoder.column().and_then(|column| moment(column, cells, row)) =>
        {
            put(encoder, Literal::Time(moment))
        }
        Cells::Null | Cells::Sketch(_) | Cells::Date(_) | Cells::DateTime(..) | Cells::Time(..) => {
            text.clear();
            cells.text(row, text);
            let text = &*text;
            encoder.put(Literal::Text(text), |column, rules, out| match column.ty.is_numeric() {
                true => value::put(column, Literal::Number(&digits_of(text)), rules, out),
                false => value::put(column, Literal::Text(text), rules, out),
            })
        }
    }
}

/// A date or time for a column that stores it as what its text says, without that text.
fn moment(column: &Column, cells: &Cells, row: usize) -> Option<LocalDateTime> {
    let micros = match (cells, column.ty) {
        (Cells::Date(values), ColumnType::Date | ColumnType::DateTime { .. }) => {
            i64::from(values.value(row)) * MICROS_PER_DAY
        }
        (Cells::DateTime(values, shown), ColumnType::DateTime { .. }) => {
            micros_cut(values.value(row), shown.unwrap_or(6))
        }
        _ => return None,
    };
    plain_moment(micros)
}

fn plain_moment(micros: i64) -> Option<LocalDateTime> {
    let moment = LocalDateTime::from_micros(micros);
    PLAIN_DAYS.contains(&moment.days).then_some(moment)
}

/// Computed values as rows hold them, if all of them fit their column as they are.
pub fn stored(cells: &Cells, column: &Column) -> Option<StoredValues> {
    match cells {
        Cells::Int(values) => StoredValues::of_ints(values, column),
        Cells::Text(values) => StoredValues::of_texts(values, column),
        Cells::Date(values) => StoredValues::of_days(values, column, &PLAIN_DAYS),
        Cells::DateTime(values, shown) => StoredValues::of_moments(values, column, |micros| {
            plain_moment(micros_cut(micros, shown.unwrap_or(6)))
        }),
        _ => None,
    }
}

/// A date or time as a number: its digits, with sign and fraction.
fn digits_of(time: &[u8]) -> Vec<u8> {
    let (sign, rest) = time.split_at(usize::from(time.starts_with(b"-")));
    let digits = rest.iter().filter(|byte| byte.is_ascii_digit() || **byte == b'.');
    sign.iter().chain(digits).copied().collect()
}

/// The values of a row as LOAD DATA and Stream Load read them, with `None` for NULL.
pub fn line_of<T: AsRef<[u8]>>(values: impl Iterator<Item = Option<T>>) -> Vec<u8> {
    let mut line = Vec::new();
    for (at, value) in values.enumerate() {
        if at > 0 {
            line.push(b'\t');
        }
        line.extend_from_slice(value.as_ref().map_or(&b"\\N"[..], AsRef::as_ref));
    }
    line
}

/// The same of computed values.
pub fn line_of_cells(cells: &[Cells], row: usize) -> Vec<u8> {
    line_of(cells.iter().map(|cells| text_of(cells, row)))
}

/// A computed value as a text; `None` for NULL, and for what has none.
pub fn text_of(cells: &Cells, row: usize) -> Option<Vec<u8>> {
    // Sketches have no text.
    if cells.is_null(row) || matches!(cells, Cells::Sketch(_)) {
        return None;
    }
    let mut text = Vec::new();
    cells.text(row, &mut text);
    Some(text)
}

/// The numbers in the first column, that of [`ROW`](freshet_query::change::ROW).
///
/// # Errors
/// When it is something else.
pub fn row_numbers(cells: &[Cells]) -> Result<Vec<usize>> {
    match cells.first() {
        Some(Cells::Int(numbers)) => Ok(numbers.values().iter().map(|&at| at as usize).collect()),
        _ => bail!(Internal, "the query over current rows does not number them"),
    }
}
