//! What non-strict modes store instead of a value that does not fit.

use super::bad::BadValue;
use super::text::{Encoding, limit_bytes};
use super::{
    Literal, OnBad, Rules, labels, number, put_i64, put_number, put_text, put_zero, put_zero_date,
    time,
};
use crate::row::{POWERS_OF_TEN, Put, put_bytes};
use crate::{Column, ColumnType, DECIMAL_PRECISION_I64_MAX};

/// Appends the substitute for `literal`, which failed with `bad`; the caller adds a warning.
/// Returns `bad` if there is no substitute, as always in strict mode.
pub fn adjust(
    column: &Column,
    literal: Literal<'_>,
    bad: BadValue,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    match (&bad, rules.on_bad) {
        (_, OnBad::Refuse) | (BadValue::Null, OnBad::Null) | (BadValue::NotSketch, _) => Err(bad),
        (BadValue::Null, OnBad::Clamp) => implicit(column, bad, rules, out),
        (BadValue::TooLong { limit, .. }, _) => cut(column, literal, *limit as usize, bad, out),
        (BadValue::NotUtf8, OnBad::Null)
        | (BadValue::NotJson(_) | BadValue::NotNested(_), OnBad::Clamp) => Err(bad),
        (BadValue::NotUtf8, OnBad::Clamp) => valid_part(column, literal, bad, rules, out),
        (BadValue::NotLabel, OnBad::Clamp) => Ok(labels::put_known(column, literal, out)),
        (BadValue::OutOfRange { .. }, OnBad::Clamp) => bound(column, bad, out),
        (BadValue::NotNumber | BadValue::Trailing, OnBad::Clamp) => {
            leading_number(column, literal, rules, out)
        }
        (BadValue::NotTemporal, OnBad::Clamp) if let ColumnType::Time { fsp } = column.ty => {
            out.extend_from_slice(&leading_time(literal, fsp).to_le_bytes());
            Ok(Put::Value)
        }
        (BadValue::NotTemporal | BadValue::ZeroDate, OnBad::Clamp) if column.ty.is_temporal() => {
            put_zero_date(column.ty, out);
            Ok(Put::Value)
        }
        _ => null(column, bad),
    }
}

/// NULL, if the column is nullable.
fn null(column: &Column, bad: BadValue) -> Result<Put, BadValue> {
    if column.nullable { Ok(Put::Null) } else { Err(bad) }
}

/// The implicit default that MySQL stores for NULL in a NOT NULL column: zero, or an empty string.
fn implicit(
    column: &Column,
    bad: BadValue,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    match column.ty {
        ty if ty.is_temporal() => {
            put_zero_date(ty, out);
            Ok(Put::Value)
        }
        // There is no empty document.
        ty if ty.is_document() => Err(bad),
        ColumnType::Enum { .. } => labels::put_number(column, 1, out),
        ty if ty.is_text() || ty.is_binary() => put_text(column, b"", Encoding::Utf8, rules, out),
        _ => put_i64(column, 0, rules, out),
    }
}

/// The longest prefix of a text that fits.
fn cut(
    column: &Column,
    literal: Literal<'_>,
    limit: usize,
    bad: BadValue,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    if let ColumnType::Bit { len } = column.ty {
        out.extend_from_slice(&(u64::MAX >> (64 - len)).to_le_bytes());
        return Ok(Put::Value);
    }
    // A prefix of a document is none.
    if column.ty.is_document() {
        return null(column, bad);
    }
    match literal {
        Literal::Binary(bytes) if column.ty.is_binary() => put_bytes(out, &bytes[..limit]),
        Literal::Text(text) if column.ty.is_binary() => put_bytes(out, &text[..limit]),
        Literal::Text(text) | Literal::Binary(text) | Literal::Number(text) => {
            put_bytes(out, &text[..limit_bytes(column, text, limit)]);
        }
        Literal::Int(value) => put_bytes(out, &value.to_string().as_bytes()[..limit]),
        Literal::Float(value) => put_bytes(out, &value.to_string().as_bytes()[..limit]),
        Literal::Time(value) => put_bytes(out, &value.to_string().as_bytes()[..limit]),
        // A part of a sketch is none.
        Literal::Sketch(_) => return null(column, bad),
        Literal::Null => return Err(BadValue::Null),
    }
    Ok(Put::Value)
}

/// The valid UTF-8 prefix of a text.
fn valid_part(
    column: &Column,
    literal: Literal<'_>,
    bad: BadValue,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let (Literal::Text(text) | Literal::Binary(text)) = literal else { return Err(bad) };
    let valid = text.utf8_chunks().next().map_or("", |chunk| chunk.valid()).as_bytes();
    match put_text(column, valid, Encoding::Utf8, rules, out) {
        Err(BadValue::TooLong { limit, .. }) => {
            put_bytes(out, &valid[..limit_bytes(column, valid, limit as usize)]);
            Ok(Put::Value)
        }
        other => other,
    }
}

/// The number at the beginning of a text, or zero.
fn leading_number(
    column: &Column,
    literal: Literal<'_>,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let (Literal::Text(text) | Literal::Number(text)) = literal else {
        return put_i64(column, 0, rules, out);
    };
    let text = text.trim_ascii_start();
    let put = match number::take(text) {
        Some((_, taken)) => put_number(column, &text[..taken], rules, out),
        None => put_i64(column, 0, rules, out),
    };
    match put {
        Err(bad @ BadValue::OutOfRange { .. }) => bound(column, bad, out),
        other => other,
    }
}

/// The time at the beginning of a text, the longest one, or zero, in microseconds.
fn leading_time(literal: Literal<'_>, fsp: u8) -> i64 {
    let number;
    let text = match literal {
        Literal::Text(text) | Literal::Number(text) | Literal::Binary(text) => text,
        Literal::Int(value) => {
            number = value.to_string();
            number.as_bytes()
        }
        Literal::Float(value) => {
            number = value.to_string();
            number.as_bytes()
        }
        Literal::Null | Literal::Time(_) | Literal::Sketch(_) => return 0,
    };
    time::parse(text).map_or(0, |value| value.clamped(fsp))
}

/// The minimum or maximum of a numeric column.
fn bound(column: &Column, bad: BadValue, out: &mut Vec<u8>) -> Result<Put, BadValue> {
    let below = bad == BadValue::OutOfRange { below: true };
    if below && column.non_negative {
        put_zero(column.ty, out);
        return Ok(Put::Value);
    }
    macro_rules! bound {
        ($int:ty) => {
            out.extend_from_slice(&(if below { <$int>::MIN } else { <$int>::MAX }).to_le_bytes())
        };
    }
    match column.ty {
        ColumnType::Boolean | ColumnType::TinyInt { unsigned: false } => bound!(i8),
        ColumnType::TinyInt { unsigned: true } => bound!(u8),
        ColumnType::SmallInt { unsigned: false } => bound!(i16),
        ColumnType::SmallInt { unsigned: true } => bound!(u16),
        ColumnType::MediumInt { unsigned: false } => {
            let value = if below { -(1 << 23) } else { (1 << 23) - 1i32 };
            out.extend_from_slice(&value.to_le_bytes());
        }
        ColumnType::MediumInt { unsigned: true } => {
            let value = if below { 0 } else { (1 << 24) - 1i32 };
            out.extend_from_slice(&value.to_le_bytes());
        }
        ColumnType::Int { unsigned: false } => bound!(i32),
        ColumnType::Int { unsigned: true } => bound!(u32),
        ColumnType::BigInt { unsigned: false } => bound!(i64),
        ColumnType::BigInt { unsigned: true } => bound!(u64),
        // What is no year is stored as the year 0, as in MySQL.
        ColumnType::Year => put_zero(column.ty, out),
        ColumnType::LargeInt => bound!(i128),
        ColumnType::Float => bound!(f32),
        ColumnType::Double => bound!(f64),
        ColumnType::Decimal { precision, .. } => {
            let largest = POWERS_OF_TEN[precision as usize] as i128 - 1;
            let value = if below { -largest } else { largest };
            if precision <= DECIMAL_PRECISION_I64_MAX {
                out.extend_from_slice(&(value as i64).to_le_bytes());
            } else {
                out.extend_from_slice(&value.to_le_bytes());
            }
        }
        _ => return null(column, bad),
    }
    Ok(Put::Value)
}
