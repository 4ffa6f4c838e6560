//! Storing text and bytes in columns of every type.

use super::bad::BadValue;
use super::number;
use super::temporal::{self, LocalDateTime};
use super::{
    Rules, ZeroDates, json, labels, nested, put_i64, put_i128, put_quoted, put_short,
    put_zero_date, time, year,
};
use crate::row::{self, MICROS_PER_DAY, Put, put_bytes};
use crate::{Column, ColumnType, LengthUnit, Zone};

/// The longest hex or bit literal that can be a number.
const BINARY_NUMBER_BYTES_MAX: usize = 8;

/// Whether text was checked to be UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    Utf8,
    Unknown,
}

/// Appends the cell of a text: a quoted string, a field of a CSV line, a date.
#[inline]
pub fn put_text(
    column: &Column,
    text: &[u8],
    encoding: Encoding,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    match column.ty {
        ColumnType::VarChar { len } => put_string(column, text, len, encoding, out),
        ColumnType::Text => {
            put_string(column, text, column.lob_size.stored_bytes_max(), encoding, out)
        }
        ColumnType::Char { len } => {
            // MySQL strips the trailing blanks of a CHAR when it is read; Doris keeps them.
            let text = match column.length_unit {
                LengthUnit::Characters => trim_blanks(text),
                LengthUnit::Bytes => text,
            };
            put_string(column, text, len, encoding, out)
        }
        // The bits of the bytes, as MySQL reads them.
        ColumnType::Binary { .. }
        | ColumnType::VarBinary { .. }
        | ColumnType::Blob
        | ColumnType::Bit { .. } => put_binary(column, text, rules, out),
        ColumnType::Date
            if let Some(days) = temporal::parse_plain_date(text)
                && days != row::ZERO_DAY =>
        {
            out.extend_from_slice(&days.to_le_bytes());
            Ok(Put::Value)
        }
        ColumnType::DateTime { .. } if let Some(plain) = temporal::parse_plain_moment(text) => {
            let micros = i64::from(plain.days) * row::MICROS_PER_DAY + plain.micros;
            out.extend_from_slice(&micros.to_le_bytes());
            Ok(Put::Value)
        }
        ColumnType::Date | ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => {
            let value = temporal::parse(text).ok_or(BadValue::NotTemporal)?;
            put_date_time(column, value, rules, out)
        }
        ColumnType::Time { fsp } => {
            let value = time::parse(text).ok_or(BadValue::NotTemporal)?;
            let micros = value.stored(fsp).ok_or(BadValue::NotTemporal)?;
            out.extend_from_slice(&micros.to_le_bytes());
            Ok(Put::Value)
        }
        ColumnType::Year if year::is_zero_of_text(text) => put_i64(column, 2000, rules, out),
        ty if ty.is_json() => {
            check_utf8(text, encoding)?;
            json::put(text, out)
        }
        ty if ty.is_nested() => nested::put(column, text, rules, out),
        ColumnType::Enum { .. } | ColumnType::Set { .. } => labels::put_labels(column, text, out),
        ColumnType::Bitmap | ColumnType::Hll => Err(BadValue::NotSketch),
        _ => put_numeric_text(column, text, rules, out),
    }
}

/// Appends the cell of a number in a quoted string.
#[inline]
fn put_numeric_text(
    column: &Column,
    text: &[u8],
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    if let Some((short, taken)) = number::take_short(text)
        && taken == text.len()
    {
        // Text is rounded before its sign is checked: '-0.4' is stored as 0.
        if short.unscaled < 0 && column.ty.is_unsigned() {
            let rounded = number::Number::from(short).unscaled(0).unwrap_or_default();
            return put_i128(column, rounded, rules, out);
        }
        return put_short(column, short, text, rules, out);
    }
    let trimmed = text.trim_ascii();
    if column.ty == ColumnType::Boolean {
        for (name, value) in [("true", 1), ("false", 0)] {
            if trimmed.eq_ignore_ascii_case(name.as_bytes()) {
                return put_i64(column, value, rules, out);
            }
        }
    }
    put_quoted(column, trimmed, rules, out)
}

/// Appends a string of at most `limit` of the column's length unit.
#[inline]
fn put_string(
    column: &Column,
    text: &[u8],
    limit: u32,
    encoding: Encoding,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    check_utf8(text, encoding)?;
    // A character has at least one byte, so short text need not be counted.
    let text =
        if text.len() > limit as usize { shorten(column, text, limit as usize)? } else { text };
    put_bytes(out, text);
    Ok(Put::Value)
}

#[inline]
fn check_utf8(text: &[u8], encoding: Encoding) -> Result<(), BadValue> {
    match encoding {
        Encoding::Utf8 => Ok(()),
        Encoding::Unknown => std::str::from_utf8(text).map(drop).map_err(|_| BadValue::NotUtf8),
    }
}

/// The text, without trailing blanks that exceed `limit`; an error if anything else exceeds it.
fn shorten<'a>(column: &Column, text: &'a [u8], limit: usize) -> Result<&'a [u8], BadValue> {
    let end = limit_bytes(column, text, limit);
    let spare = &text[end..];
    let characters = counts_characters(column);
    if spare.is_empty() || characters && spare.iter().all(|&byte| byte == b' ') {
        return Ok(&text[..end]);
    }
    let actual = if characters { count_characters(text) } else { text.len() };
    Err(BadValue::too_long(actual, limit))
}

/// The length in bytes of the prefix of `text` that fits `limit`, in whole characters.
pub(super) fn limit_bytes(column: &Column, text: &[u8], limit: usize) -> usize {
    let starts = |byte: u8| byte & 0xc0 != 0x80;
    if counts_characters(column) {
        let starts_at = text.iter().enumerate().filter(|(_, byte)| starts(**byte));
        return starts_at.map(|(at, _)| at).nth(limit).unwrap_or(text.len());
    }
    if text.len() <= limit {
        return text.len();
    }
    (0..=limit).rev().find(|&at| starts(text[at])).unwrap_or(0)
}

fn counts_characters(column: &Column) -> bool {
    column.length_unit == LengthUnit::Characters && column.ty.counts_characters()
}

fn count_characters(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

fn trim_blanks(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// Appends the cell of a hex or bit literal, or of a parameter without character set.
pub fn put_binary(
    column: &Column,
    bytes: &[u8],
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let limit = match column.ty {
        ColumnType::Binary { len } | ColumnType::VarBinary { len } => len as usize,
        ColumnType::Blob => column.lob_size.stored_bytes_max() as usize,
        ty if ty.is_text() => return put_text(column, bytes, Encoding::Unknown, rules, out),
        ty if ty.is_integer() || is_fractional(ty) => {
            let bytes = match ty {
                ColumnType::Bit { .. } => without_zeros(bytes),
                _ => bytes,
            };
            if bytes.len() > BINARY_NUMBER_BYTES_MAX {
                return Err(match ty {
                    ColumnType::Bit { len } => BadValue::too_long(8 * bytes.len(), len.into()),
                    _ => BadValue::OutOfRange { below: false },
                });
            }
            let value = bytes.iter().fold(0, |value, &byte| value << 8 | i128::from(byte));
            return put_i128(column, value, rules, out);
        }
        ColumnType::Bitmap | ColumnType::Hll => return Err(BadValue::NotSketch),
        _ => return Err(BadValue::NotTemporal),
    };
    if bytes.len() > limit {
        return Err(BadValue::too_long(bytes.len(), limit));
    }
    if let ColumnType::Binary { .. } = column.ty {
        let mut padded = bytes.to_vec();
        padded.resize(limit, 0);
        put_bytes(out, &padded);
    } else {
        put_bytes(out, bytes);
    }
    Ok(Put::Value)
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let first = bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len());
    &bytes[first..]
}

fn is_fractional(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Float | ColumnType::Double | ColumnType::Decimal { .. })
}

pub fn put_date_time(
    column: &Column,
    value: LocalDateTime,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    match column.ty {
        ty if ty.is_temporal() && value.is_zero() => match rules.zero_dates {
            ZeroDates::Taken => put_zero_date(ty, out),
            ZeroDates::Bad => return Err(BadValue::ZeroDate),
        },
        ColumnType::Date => {
            let days = value.in_zone(rules.zone).days;
            if !(row::DAYS_MIN..=row::DAYS_MAX).contains(&days) {
                return Err(BadValue::NotTemporal);
            }
            out.extend_from_slice(&days.to_le_bytes());
        }
        ColumnType::DateTime { fsp } => {
            let local = value.in_zone(rules.zone).micros_rounded(fsp);
            out.extend_from_slice(&local.ok_or(BadValue::NotTemporal)?.to_le_bytes());
        }
        ColumnType::Timestamp { fsp } => {
            let local = value.micros_rounded(fsp).ok_or(BadValue::NotTemporal)?;
            let zone = value.offset.map_or(rules.zone, crate::Zone::Offset);
            let instants = row::TIMESTAMP_MICROS_MIN..=row::TIMESTAMP_MICROS_MAX;
            let utc = zone.to_utc(local).filter(|utc| instants.contains(utc));
            out.extend_from_slice(&utc.ok_or(BadValue::NotTemporal)?.to_le_bytes());
        }
        _ => {
            let text = value.to_string();
            return put_text(column, text.as_bytes(), Encoding::Utf8, rules, out);
        }
    }
    Ok(Put::Value)
}

/// The current time as a literal that [`Rules::default`] converts to the value `put_instant`
/// stores.
pub fn instant_literal(ty: ColumnType, utc: i64, zone: Zone) -> String {
    let (micros, fsp) = match ty {
        ColumnType::Timestamp { fsp } => (utc, fsp),
        ColumnType::DateTime { fsp } => (zone.to_local(utc), fsp),
        _ => (zone.to_local(utc), 0),
    };
    let mut text = LocalDateTime::from_micros(cut(micros, fsp)).to_string();
    if ty == ColumnType::Date {
        text.truncate(10);
    }
    text
}

/// Truncates microseconds to `fsp` digits.
fn cut(micros: i64, fsp: u8) -> i64 {
    let step = 10i64.pow(6 - u32::from(fsp.min(6)));
    micros.div_euclid(step) * step
}

/// Appends the cell of an instant, in microseconds since 1970-01-01 UTC, as local time of the
/// session; digits beyond the column's precision are truncated, as in MySQL.
pub(super) fn put_instant(
    column: &Column,
    utc: i64,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let local = rules.zone.to_local(utc);
    match column.ty {
        ColumnType::DateTime { fsp } => out.extend_from_slice(&cut(local, fsp).to_le_bytes()),
        ColumnType::Timestamp { fsp } => out.extend_from_slice(&cut(utc, fsp).to_le_bytes()),
        _ => {
            let text = LocalDateTime::from_micros(cut(local, 0)).to_string();
            return put_text(column, text.as_bytes(), Encoding::Utf8, rules, out);
        }
    }
    Ok(Put::Value)
}

/// Appends the cell of a number of days since 1970-01-01.
pub(super) fn put_day(
    column: &Column,
    days: i32,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let text = LocalDateTime::from_micros(i64::from(days) * MICROS_PER_DAY).to_string();
    let (date, _) = text.split_at(10);
    put_text(column, date.as_bytes(), Encoding::Utf8, rules, out)
}
