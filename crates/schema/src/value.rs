//! Conversion of literals to column values.
//!
//! The `put_` functions append the cell of a value (see `row`) or return what is wrong with it, by
//! the rules of MySQL's strict mode; on an error nothing was appended. In the other modes
//! [`adjust`] then stores a substitute.

pub mod bad;
pub mod nested;
pub mod number;
pub mod temporal;
pub mod time;

mod json;
mod labels;
mod lax;
mod numeric;
mod show;
mod text;
mod year;

use crate::row::{Put, ZERO_DAY, ZERO_MICROS};
use crate::sketch::{SKETCH_BYTES_MAX, SketchKind};
use crate::{Column, ColumnType, DefaultValue, Zone, bytes_of_hex};

pub use bad::BadValue;
pub use labels::{number_of_label, number_of_set};
pub use lax::adjust;
pub use number::ShortNumber;
use numeric::put_quoted;
pub use numeric::{put_decimal, put_f64, put_i64, put_i128, put_number, put_short};
pub use show::{bytes_text, cell_text, default_text, literal_text};
pub use temporal::{LocalDateTime, micros_cut};
pub use text::{Encoding, instant_literal, put_binary, put_date_time, put_text};

/// What happens to a value that does not fit its column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnBad {
    /// It is an error: strict mode.
    #[default]
    Refuse,
    /// It is clamped to the column's range, truncated to its length, or parsed up to the first
    /// invalid character: MySQL without strict mode.
    Clamp,
    /// It becomes NULL, or is truncated to the column's length: Doris without strict mode.
    Null,
}

/// What happens to the zero date, `0000-00-00`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ZeroDates {
    /// It is a value as any other.
    #[default]
    Taken,
    /// It is a date that does not exist: `NO_ZERO_DATE`.
    Bad,
}

/// How literals are converted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    pub on_bad: OnBad,
    /// The zone of TIMESTAMP literals.
    pub zone: Zone,
    pub zero_dates: ZeroDates,
}

impl Default for Rules {
    fn default() -> Self {
        Self { on_bad: OnBad::Refuse, zone: Zone::UTC, zero_dates: ZeroDates::Taken }
    }
}

impl Rules {
    pub fn strict(&self) -> bool {
        self.on_bad == OnBad::Refuse
    }
}

/// A literal of any kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Literal<'a> {
    Null,
    /// An integer, TRUE or FALSE.
    Int(i128),
    /// A number as written, with sign, point and exponent.
    Number(&'a [u8]),
    Float(f64),
    /// A quoted string, a field of a CSV line, a date as written.
    Text(&'a [u8]),
    Time(LocalDateTime),
    /// A hex or bit literal, or a parameter without character set.
    Binary(&'a [u8]),
    /// What a function of sketches gave.
    Sketch(&'a [u8]),
}

/// Stores NULL, which appends nothing; an error if the column is NOT NULL.
#[inline]
pub fn put_null(column: &Column) -> Result<Put, BadValue> {
    if column.nullable { Ok(Put::Null) } else { Err(BadValue::Null) }
}

/// Appends the cell of `literal`.
pub fn put(
    column: &Column,
    literal: Literal<'_>,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    match literal {
        Literal::Null => put_null(column),
        Literal::Int(value) => put_i128(column, value, rules, out),
        Literal::Number(text) => put_number(column, text, rules, out),
        Literal::Float(value) => put_f64(column, value, rules, out),
        Literal::Text(text) => put_text(column, text, Encoding::Unknown, rules, out),
        Literal::Time(value) => put_date_time(column, value, rules, out),
        Literal::Binary(bytes) => put_binary(column, bytes, rules, out),
        Literal::Sketch(bytes) => put_sketch(column, bytes, out),
    }
}

/// Appends a sketch, which columns of its kind take.
fn put_sketch(column: &Column, bytes: &[u8], out: &mut Vec<u8>) -> Result<Put, BadValue> {
    match column.ty.sketch() {
        None => return Err(BadValue::NotStorable),
        kind if kind != SketchKind::of(bytes) => return Err(BadValue::NotSketch),
        Some(_) if bytes.len() > SKETCH_BYTES_MAX => {
            return Err(BadValue::too_long(bytes.len(), SKETCH_BYTES_MAX));
        }
        Some(_) => crate::row::put_bytes(out, bytes),
    }
    Ok(Put::Value)
}

/// Why a column that was given no value gets none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadDefault {
    /// It has no default and is NOT NULL, or one that rows compute.
    Missing,
    /// Its default does not fit the column.
    Value(BadValue),
}

/// Appends the cell of the column's default. `now` is the time of the statement in microseconds
/// since 1970-01-01 UTC.
pub fn put_default(
    column: &Column,
    now: i64,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadDefault> {
    if let (None, Some(kind)) = (&column.default, column.ty.sketch()) {
        crate::row::put_bytes(out, kind.empty());
        return Ok(Put::Value);
    }
    let put = match &column.default {
        None if column.nullable => return Ok(Put::Null),
        // As in MySQL, the first value of an ENUM.
        None if matches!(column.ty, ColumnType::Enum { .. }) => labels::put_number(column, 1, out),
        None | Some(DefaultValue::Expression(_)) => return Err(BadDefault::Missing),
        Some(DefaultValue::Literal(text)) => {
            // CREATE TABLE has asked whether the zero date may be a default.
            let rules = Rules { zero_dates: ZeroDates::Taken, ..*rules };
            put_text(column, text.as_bytes(), Encoding::Utf8, &rules, out)
        }
        Some(DefaultValue::Bits(digits)) => {
            let bytes = bytes_of_hex(digits).unwrap_or_default();
            put_binary(column, &bytes, rules, out)
        }
        Some(DefaultValue::CurrentTimestamp) => text::put_instant(column, now, rules, out),
        Some(DefaultValue::CurrentDate) => {
            let midnight = rules.zone.to_local(now).div_euclid(crate::row::MICROS_PER_DAY);
            text::put_day(column, midnight as i32, rules, out)
        }
    };
    put.map_err(BadDefault::Value)
}

/// Appends the cell of the type's zero value, which rows older than a new NOT NULL column without
/// default show, the date of which is 1970-01-01.
pub fn put_zero(ty: ColumnType, out: &mut Vec<u8>) {
    match ty.layout() {
        crate::Layout::Fixed(width) => out.resize(out.len() + width, 0),
        crate::Layout::Bytes if ty.is_json() => crate::row::put_bytes(out, b"null"),
        crate::Layout::Bytes if ty == ColumnType::Array => crate::row::put_bytes(out, b"[]"),
        // A STRUCT shows what was recorded when it was added.
        crate::Layout::Bytes if ty.is_nested() => crate::row::put_bytes(out, b"{}"),
        crate::Layout::Bytes if let ColumnType::Binary { len } = ty => {
            crate::row::put_bytes(out, &vec![0; len as usize]);
        }
        crate::Layout::Bytes => {
            crate::row::put_bytes(out, ty.sketch().map_or(b"", SketchKind::empty));
        }
    }
}

/// Appends what MySQL stores without a strict mode in a NOT NULL column that is given no value: the
/// zero of the type.
pub fn put_implicit(ty: ColumnType, out: &mut Vec<u8>) {
    match ty.is_temporal() {
        true => put_zero_date(ty, out),
        false => put_zero(ty, out),
    }
}

fn put_zero_date(ty: ColumnType, out: &mut Vec<u8>) {
    match ty {
        ColumnType::Date => out.extend_from_slice(&ZERO_DAY.to_le_bytes()),
        _ => out.extend_from_slice(&ZERO_MICROS.to_le_bytes()),
    }
}

#[cfg(test)]
mod tests;
