//! Storing numbers in columns of every type.

use std::io::Write;

use super::bad::BadValue;
use super::number::{self, Number, ShortNumber};
use super::text::{self, Encoding};
use super::{Rules, labels, put_date_time, put_text, temporal, year};
use crate::row::{POWERS_OF_TEN, Put};
use crate::{Column, ColumnType, DECIMAL_PRECISION_I64_MAX};

/// All integers up to here are exact as doubles.
const DOUBLE_EXACT_MAX: i64 = 1 << 53;
/// The powers of ten up to 10^18, all exact as doubles.
const DOUBLE_POWERS: [f64; 19] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18,
];
/// The range of doubles that are formatted without an exponent.
const DOUBLES_SHOWN_PLAIN: std::ops::Range<f64> = 1e-15..1e15;
/// The column length at which every double fits with all its digits.
const DOUBLE_TEXT_BYTES_MAX: u32 = 25;
/// The longest formatted number: a double, or 39 digits with sign and point.
const TEXT_BYTES_MAX: usize = 400;

/// Appends the cell of an integer.
#[inline]
pub fn put_i64(
    column: &Column,
    value: i64,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    macro_rules! narrow {
        ($int:ty) => {
            match <$int>::try_from(value) {
                Ok(value) => out.extend_from_slice(&value.to_le_bytes()),
                Err(_) => return Err(BadValue::OutOfRange { below: value < 0 }),
            }
        };
    }
    match column.ty {
        ColumnType::Int { unsigned: false } => narrow!(i32),
        ColumnType::BigInt { unsigned: false } => out.extend_from_slice(&value.to_le_bytes()),
        ColumnType::Boolean | ColumnType::TinyInt { unsigned: false } => narrow!(i8),
        ColumnType::SmallInt { unsigned: false } => narrow!(i16),
        ColumnType::TinyInt { unsigned: true } => narrow!(u8),
        ColumnType::SmallInt { unsigned: true } => narrow!(u16),
        ColumnType::Int { unsigned: true } => narrow!(u32),
        ColumnType::BigInt { unsigned: true } => narrow!(u64),
        ColumnType::Year => out.extend_from_slice(&year::of_number(value)?.to_le_bytes()),
        ColumnType::Double | ColumnType::Float if column.non_negative && value < 0 => {
            return Err(BadValue::OutOfRange { below: true });
        }
        ColumnType::Double => out.extend_from_slice(&(value as f64).to_le_bytes()),
        ColumnType::Float => out.extend_from_slice(&(value as f32).to_le_bytes()),
        ColumnType::Decimal { .. } => {
            return put_short(
                column,
                ShortNumber { unscaled: value, fraction_digits: 0 },
                &[],
                rules,
                out,
            );
        }
        _ => return put_i128(column, i128::from(value), rules, out),
    }
    Ok(Put::Value)
}

/// Appends the cell of an integer of up to 128 bits.
pub fn put_i128(
    column: &Column,
    value: i128,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let out_of_range = BadValue::OutOfRange { below: value < 0 };
    match column.ty {
        ColumnType::LargeInt => out.extend_from_slice(&value.to_le_bytes()),
        ColumnType::BigInt { unsigned: true } => {
            let value = u64::try_from(value).map_err(|_| out_of_range)?;
            out.extend_from_slice(&value.to_le_bytes());
        }
        ColumnType::MediumInt { unsigned } => {
            let range = if unsigned { 0..1 << 24 } else { -(1 << 23)..1 << 23 };
            if !range.contains(&value) {
                return Err(out_of_range);
            }
            out.extend_from_slice(&(value as i32).to_le_bytes());
        }
        ColumnType::Decimal { .. } => return put_exact(column, Number::from(value), out),
        ColumnType::Double | ColumnType::Float if column.non_negative && value < 0 => {
            return Err(out_of_range);
        }
        ColumnType::Double => out.extend_from_slice(&(value as f64).to_le_bytes()),
        ColumnType::Float => out.extend_from_slice(&(value as f32).to_le_bytes()),
        ty if ty.is_labelled() => return labels::put_number(column, value, out),
        ColumnType::Bit { len } => {
            // Of a negative number all bits count.
            let bits = u64::try_from(value).map_err(|_| too_many_bits(u64::MAX, len))?;
            if bits >> (len - 1) > 1 {
                return Err(too_many_bits(bits, len));
            }
            out.extend_from_slice(&bits.to_le_bytes());
        }
        ty if ty.is_integer() => {
            let value = i64::try_from(value).map_err(|_| out_of_range)?;
            return put_i64(column, value, rules, out);
        }
        _ => return put_shown(column, format_args!("{value}"), rules, out),
    }
    Ok(Put::Value)
}

fn is_bits(column: &Column) -> bool {
    matches!(column.ty, ColumnType::Bit { .. })
}

fn too_many_bits(bits: u64, limit: u8) -> BadValue {
    BadValue::too_long((u64::BITS - bits.leading_zeros()) as usize, limit.into())
}

/// Appends the cell of a short number; `written` is its source text.
#[inline]
pub fn put_short(
    column: &Column,
    number: ShortNumber,
    written: &[u8],
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let ShortNumber { unscaled, fraction_digits } = number;
    if column.non_negative && unscaled < 0 {
        return Err(BadValue::OutOfRange { below: true });
    }
    match column.ty {
        ColumnType::Decimal { precision, scale }
            if precision <= DECIMAL_PRECISION_I64_MAX && fraction_digits <= scale =>
        {
            let power = POWERS_OF_TEN[(scale - fraction_digits) as usize] as i64;
            let limit = POWERS_OF_TEN[precision as usize] as i64;
            match unscaled.checked_mul(power) {
                Some(value) if -limit < value && value < limit => {
                    out.extend_from_slice(&value.to_le_bytes());
                    Ok(Put::Value)
                }
                _ => Err(BadValue::OutOfRange { below: unscaled < 0 }),
            }
        }
        ColumnType::Decimal { .. } => put_exact(column, Number::from(number), out),
        ty if ty.is_integer() => {
            if fraction_digits == 0 {
                return put_i64(column, unscaled, rules, out);
            }
            // Rounding a short number yields a short number.
            let rounded = Number::from(number).unscaled(0).unwrap_or_default();
            if unscaled < 0 && rounded == 0 && ty.is_unsigned() {
                return Err(BadValue::OutOfRange { below: true });
            }
            put_i64(column, rounded as i64, rules, out)
        }
        ColumnType::Double if unscaled.abs() <= DOUBLE_EXACT_MAX => {
            // Both operands are exact, so the quotient is rounded once and correctly.
            let value = unscaled as f64 / DOUBLE_POWERS[fraction_digits as usize];
            // An integer cannot hold the sign of `-0.0`; MySQL shows 0 for it, too.
            out.extend_from_slice(&value.to_le_bytes());
            Ok(Put::Value)
        }
        ColumnType::Float if unscaled == 0 => {
            out.extend_from_slice(&0f32.to_le_bytes());
            Ok(Put::Value)
        }
        _ => put_number(column, written, rules, out),
    }
}

/// Appends the cell of a number as written: digits, sign, point and exponent.
pub fn put_number(
    column: &Column,
    text: &[u8],
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    if column.ty.is_integer()
        && has_exponent(text)
        && let Some(value) = parse_f64(text).filter(|value| value.is_finite())
    {
        // A DOUBLE, which is rounded before its sign is checked.
        return put_f64(column, value, rules, out);
    }
    let (number, taken) = number::take(text).ok_or(BadValue::NotNumber)?;
    if number.negative && number.digits > 0 && column.ty.is_unsigned() && !is_bits(column) {
        return Err(BadValue::OutOfRange { below: true });
    }
    put_taken(column, text, (number, taken), rules, out)
}

/// As [`put_number`] for a number in a quoted string, which is rounded before its sign is checked.
pub(super) fn put_quoted(
    column: &Column,
    text: &[u8],
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    put_taken(column, text, number::take(text).ok_or(BadValue::NotNumber)?, rules, out)
}

fn put_taken(
    column: &Column,
    text: &[u8],
    (number, taken): (Number, usize),
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    if taken < text.len() {
        return Err(BadValue::Trailing);
    }
    match column.ty {
        ty if ty.is_temporal() => put_moment(column, &plain(text), rules, out),
        ColumnType::Float | ColumnType::Double => put_float_text(column, text, out),
        ty if ty.is_integer() => {
            let value = number.unscaled(0);
            let out_of_range = BadValue::OutOfRange { below: number.negative };
            put_i128(column, value.ok_or(out_of_range)?, rules, out)
        }
        ColumnType::Decimal { .. } => put_exact(column, number, out),
        ty if ty.is_labelled() => {
            let value = number.unscaled(0).ok_or(BadValue::NotLabel)?;
            labels::put_number(column, value, out)
        }
        _ if has_exponent(text) => {
            let value = parse_f64(text).filter(|value| value.is_finite());
            let out_of_range = BadValue::OutOfRange { below: number.negative };
            put_double_text(column, value.ok_or(out_of_range)?, rules, out)
        }
        _ => put_text(column, &plain(text), Encoding::Utf8, rules, out),
    }
}

/// Whether a number is written as a DOUBLE.
fn has_exponent(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'e' | b'E'))
}

/// A number without exponent in MySQL's form: no plus sign, no leading zeros, a digit before the
/// point.
fn plain(text: &[u8]) -> Vec<u8> {
    let negative = text.first() == Some(&b'-');
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    let zeros = digits.iter().take_while(|&&byte| byte == b'0').count();
    let digits = &digits[zeros..];
    let digits = digits.strip_suffix(b".").unwrap_or(digits);
    let mut plain = Vec::with_capacity(text.len() + 1);
    if negative {
        plain.push(b'-');
    }
    if !digits.first().is_some_and(u8::is_ascii_digit) {
        plain.push(b'0');
    }
    plain.extend_from_slice(digits);
    plain
}

fn parse_f64(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn put_float_text(column: &Column, text: &[u8], out: &mut Vec<u8>) -> Result<Put, BadValue> {
    let value = parse_f64(text).ok_or(BadValue::NotNumber)?;
    let out_of_range = BadValue::OutOfRange { below: value < 0.0 };
    if column.non_negative && value < 0.0 {
        return Err(out_of_range);
    }
    if column.ty == ColumnType::Double {
        if !value.is_finite() {
            return Err(out_of_range);
        }
        out.extend_from_slice(&value.to_le_bytes());
        return Ok(Put::Value);
    }
    // Parse again at the column's width: rounding twice could be off by one step.
    let text = std::str::from_utf8(text).map_err(|_| BadValue::NotNumber)?;
    let value: f32 = text.parse().map_err(|_| BadValue::NotNumber)?;
    if !value.is_finite() {
        return Err(out_of_range);
    }
    out.extend_from_slice(&value.to_le_bytes());
    Ok(Put::Value)
}

/// Appends the cell of an exact number in a DECIMAL column.
fn put_exact(column: &Column, number: Number, out: &mut Vec<u8>) -> Result<Put, BadValue> {
    let ColumnType::Decimal { precision, scale } = column.ty else {
        return Err(BadValue::NotStorable);
    };
    if column.non_negative && number.negative && number.digits > 0 {
        return Err(BadValue::OutOfRange { below: true });
    }
    let limit = POWERS_OF_TEN[precision as usize];
    match number.unscaled(scale) {
        Some(value) if value.unsigned_abs() < limit => {
            if precision <= DECIMAL_PRECISION_I64_MAX {
                out.extend_from_slice(&(value as i64).to_le_bytes());
            } else {
                out.extend_from_slice(&value.to_le_bytes());
            }
            Ok(Put::Value)
        }
        _ => Err(BadValue::OutOfRange { below: number.negative }),
    }
}

/// Appends the cell of the exact number `unscaled / 10^scale`, which has the text `shown`.
pub fn put_decimal(
    column: &Column,
    (unscaled, scale): (i128, i8),
    shown: &[u8],
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    match column.ty {
        ColumnType::Decimal { .. } => {
            let exponent = -i32::from(scale);
            put_exact(column, Number { exponent, ..Number::from(unscaled) }, out)
        }
        _ => put_number(column, shown, rules, out),
    }
}

/// Appends the cell of a floating point number.
pub fn put_f64(
    column: &Column,
    value: f64,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    if !value.is_finite() {
        return Err(BadValue::NotNumber);
    }
    let out_of_range = BadValue::OutOfRange { below: value < 0.0 };
    if column.non_negative && value < 0.0 {
        return Err(out_of_range);
    }
    match column.ty {
        ColumnType::Double => out.extend_from_slice(&value.to_le_bytes()),
        ColumnType::Float => {
            let narrow = value as f32;
            if !narrow.is_finite() {
                return Err(out_of_range);
            }
            out.extend_from_slice(&narrow.to_le_bytes());
        }
        ty if ty.is_labelled() => return labels::put_number(column, value as i128, out),
        ty if ty.is_integer() => {
            // MySQL rounds approximate numbers half to even, exact ones half away from zero.
            let rounded = value.round_ties_even();
            // i128::MAX is not a double; the next larger double is 2^127.
            if rounded.abs() >= 2f64.powi(127) {
                return Err(out_of_range);
            }
            return put_i128(column, rounded as i128, rules, out);
        }
        ColumnType::Decimal { scale, .. } => {
            if let Some(unscaled) = short_decimal(value, scale) {
                let number = ShortNumber { unscaled, fraction_digits: scale };
                return put_short(column, number, &[], rules, out);
            }
            return put_shown(column, format_args!("{value}"), rules, out);
        }
        _ => return put_double_text(column, value, rules, out),
    }
    Ok(Put::Value)
}

/// Appends a double as text in MySQL's form: with an exponent if it is large, and with as many
/// digits as fit the column.
fn put_double_text(
    column: &Column,
    value: f64,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let plain = value == 0.0 || DOUBLES_SHOWN_PLAIN.contains(&value.abs());
    if let ColumnType::Char { len }
    | ColumnType::VarChar { len }
    | ColumnType::Binary { len }
    | ColumnType::VarBinary { len } = column.ty
        && len < DOUBLE_TEXT_BYTES_MAX
        && let Some(shorter) = shortened(value, plain, len as usize)
    {
        return text::put_text(column, shorter.as_bytes(), Encoding::Utf8, rules, out);
    }
    match plain {
        true => put_shown(column, format_args!("{value}"), rules, out),
        false => put_shown(column, format_args!("{value:e}"), rules, out),
    }
}

/// A double rounded to fit `limit` characters; `None` if it fits unrounded, or if not even its
/// integer digits fit.
fn shortened(value: f64, plain: bool, limit: usize) -> Option<String> {
    let scientific = format!("{value:e}");
    let full = if plain { value.to_string().len() } else { scientific.len() };
    if full <= limit {
        return None;
    }
    let room = limit.checked_sub(usize::from(value < 0.0))?;
    let (_, exponent) = scientific.split_once('e')?;
    let whole = exponent.parse::<i32>().ok()? + 1;
    // At most "0.0" in front of the first significant digit.
    if plain && whole >= -1 && usize::try_from(whole).unwrap_or(0) <= room {
        let before_point = usize::try_from(whole).unwrap_or(0).max(1);
        let decimals = room.saturating_sub(before_point + 1);
        let shown = format!("{value:.decimals$}");
        return Some(without_zeros(&shown).to_owned());
    }
    let digits = room.checked_sub(exponent.len() + 1).filter(|digits| *digits > 0)?;
    let decimals = digits.saturating_sub(2);
    let shown = format!("{value:.decimals$e}");
    let (mantissa, exponent) = shown.split_once('e')?;
    Some(format!("{}e{exponent}", without_zeros(mantissa)))
}

/// Digits without trailing zeros in the fraction.
fn without_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

/// `value * 10^scale` as an integer, if the rounding cannot depend on digits beyond a double's
/// precision.
fn short_decimal(value: f64, scale: u8) -> Option<i64> {
    let scaled = value * DOUBLE_POWERS.get(scale as usize)?;
    let rounded = scaled.round();
    let clear = rounded.abs() < DOUBLE_EXACT_MAX as f64 && (scaled - rounded).abs() < 0.4;
    clear.then_some(rounded as i64)
}

/// Appends the cell of a number read as a date and time (`20240131`).
fn put_moment(
    column: &Column,
    number: &[u8],
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let value = temporal::of_number(number).ok_or(BadValue::NotTemporal)?;
    put_date_time(column, value, rules, out)
}

/// Formats a number on the stack and appends it as text.
fn put_shown(
    column: &Column,
    shown: std::fmt::Arguments<'_>,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let mut text = [0; TEXT_BYTES_MAX];
    let mut rest = &mut text[..];
    let written = rest.write_fmt(shown);
    let length = TEXT_BYTES_MAX - rest.len();
    written.map_err(|_| BadValue::NotStorable)?;
    match column.ty.is_temporal() {
        true => put_moment(column, &text[..length], rules, out),
        false => text::put_text(column, &text[..length], Encoding::Utf8, rules, out),
    }
}
