//! Values of expressions and queries on their way into encoded rows.

use arrow::array::Array;
use freshet_base::{Result, bail};
use freshet_ingest::decode::{Fault, RowEncoder};
use freshet_query::result::Cells;
use freshet_schema::{Literal, value};

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
        Cells::Int(values) => put(encoder, Literal::Int(values.value(row).into())),
        Cells::UInt(values) | Cells::Year(values) | Cells::Bits(values, _) => {
            put(encoder, Literal::Int(values.value(row).into()))
        }
        Cells::Float(values) => put(encoder, Literal::Float(values.value(row).into())),
        Cells::Double(values, _) => put(encoder, Literal::Float(values.value(row))),
        Cells::Text(values) => put(encoder, Literal::Text(values.value(row).as_bytes())),
        // A computed binary value is a string, unlike a hex literal, which may be a number.
        Cells::Bytes(values) => put(encoder, Literal::Text(values.value(row))),
        Cells::Decimal(..) | Cells::Large(..) => {
            text.clear();
            cells.exact(row, text);
            put(encoder, Literal::Number(text))
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

/// A date or time as a number: its digits, with sign and fraction.
fn digits_of(time: &[u8]) -> Vec<u8> {
    let (sign, rest) = time.split_at(usize::from(time.starts_with(b"-")));
    let digits = rest.iter().filter(|byte| byte.is_ascii_digit() || **byte == b'.');
    sign.iter().chain(digits).copied().collect()
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
