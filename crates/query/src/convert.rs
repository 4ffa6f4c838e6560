//! Conversion of columns by MySQL's rules: text that starts with a number converts to that number,
//! a date to the number of its digits (20240102), and conversions never fail.

mod numbers;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, Date32Array, Decimal128Array,
    Decimal256Array, Float64Array, Int64Array, StringViewArray, StringViewBuilder,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Date32Type, Decimal128Type,
    Decimal256Type, DurationMicrosecondType, Float32Type, Float64Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, UInt64Type, i256,
};
use datafusion::common::{Result, exec_err};
use freshet_schema::nested::Shown;

use crate::format;
use crate::losses;
use crate::temporal::{self, DAY, Parts, SECOND};

use numbers::whole_prefix;
pub use numbers::{
    decimal_prefix, integer_prefix, is_decimal, is_integer, is_number, number_prefix, wide_prefix,
};

/// Whether a type is one of Arrow's three text types.
pub fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether a type holds bytes without a character set.
pub fn is_binary(ty: &DataType) -> bool {
    matches!(ty, DataType::Binary | DataType::BinaryView)
}

/// The Arrow type of BITMAP and HLL, which nothing else has.
pub const SKETCH: DataType = DataType::LargeBinary;

/// Precision of a date and time as a number.
const TEMPORAL_DIGITS: u8 = 20;
/// Maximum precision of a 256-bit DECIMAL.
const WIDE_DIGITS: u8 = DECIMAL256_MAX_PRECISION;

/// The Arrow type of DATETIME: microseconds without time zone.
pub const DATETIME: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
/// The Arrow type of TIME: signed microseconds.
pub const TIME: DataType = DataType::Duration(TimeUnit::Microsecond);

/// Converts to text; times show fractional digits only if they have a fraction.
pub fn text(array: &ArrayRef) -> Result<StringViewArray> {
    text_showing(array, None)
}

/// Converts to text. `digits`, where known, is the number of fractional digits of times and
/// doubles.
pub fn text_showing(array: &ArrayRef, digits: Option<u8>) -> Result<StringViewArray> {
    let known = digits;
    let digits = |micros: i64| digits.unwrap_or_else(|| format::fsp_of(micros));
    let mut line = String::new();
    let mut build = |write: &mut dyn FnMut(&mut String, usize)| {
        let mut builder = StringViewBuilder::with_capacity(array.len());
        for row in 0..array.len() {
            if array.is_null(row) {
                builder.append_null();
            } else {
                line.clear();
                write(&mut line, row);
                builder.append_value(&line);
            }
        }
        builder.finish()
    };
    Ok(match array.data_type() {
        DataType::Utf8View => array.as_string_view().clone(),
        ty if is_binary(ty) => {
            let bytes = bytes(array, None)?;
            build(&mut |out, row| out.push_str(&String::from_utf8_lossy(bytes.value(row))))
        }
        DataType::Boolean => {
            let values = array.as_boolean();
            build(&mut |out, row| out.push(if values.value(row) { '1' } else { '0' }))
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            build(&mut |out, row| format::float(out, values.value(row)))
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            build(&mut |out, row| match known {
                Some(digits) => format::fixed(out, values.value(row), digits),
                None => format::double(out, values.value(row)),
            })
        }
        DataType::Date32 => {
            let values = array.as_primitive::<Date32Type>();
            build(&mut |out, row| format::date(out, values.value(row)))
        }
        DataType::Timestamp(_, _) => {
            let values = datetime(array)?;
            build(&mut |out, row| {
                let micros = values.value(row);
                format::datetime(out, micros, digits(micros));
            })
        }
        DataType::Duration(_) => {
            let values = cast(array, &TIME)?;
            let values = values.as_primitive::<DurationMicrosecondType>();
            build(&mut |out, row| {
                let micros = values.value(row);
                format::time(out, micros, digits(micros));
            })
        }
        ty if ty.is_nested() => {
            let (values, mut bytes) = (Shown::new(array)?, Vec::new());
            build(&mut |out, row| {
                bytes.clear();
                values.text(row, &mut bytes);
                out.push_str(&String::from_utf8_lossy(&bytes));
            })
        }
        _ => cast(array, &DataType::Utf8View)?.as_string_view().clone(),
    })
}

/// Converts to bytes; `digits` as in [`text_showing`].
pub fn bytes(array: &ArrayRef, digits: Option<u8>) -> Result<BinaryViewArray> {
    match array.data_type() {
        DataType::BinaryView => Ok(array.as_binary_view().clone()),
        ty if is_binary(ty) => Ok(cast(array, &DataType::BinaryView)?.as_binary_view().clone()),
        _ => {
            let values = text_showing(array, digits)?;
            let mut builder = BinaryViewBuilder::with_capacity(values.len());
            values.iter().for_each(|value| builder.append_option(value.map(str::as_bytes)));
            Ok(builder.finish())
        }
    }
}

/// Converts to 64-bit integers: numbers are rounded, dates become their digits.
pub fn int(array: &ArrayRef) -> Result<Int64Array> {
    Ok(match array.data_type() {
        // Text above `i64::MAX` keeps the bits of the unsigned integer.
        ty if is_text(ty) || is_binary(ty) => {
            unsigned(array)?.iter().map(|value| value.map(u64::cast_signed)).collect()
        }
        #[allow(clippy::cast_possible_truncation)] // `as` saturates, as MySQL does.
        DataType::Float32 | DataType::Float64 => {
            double(array)?.iter().map(|value| value.map(|v| v.round_ties_even() as i64)).collect()
        }
        DataType::Decimal128(_, scale) => {
            let unit = 10_i128.pow(u32::try_from(*scale).unwrap_or(0));
            let values = array.as_primitive::<Decimal128Type>();
            values.iter().map(|value| value.map(|v| held(round_half_up(v, unit)))).collect()
        }
        DataType::Decimal256(_, _) => {
            whole_of_wide(array)?.into_iter().map(|value| value.map(held)).collect()
        }
        DataType::UInt64 => array
            .as_primitive::<UInt64Type>()
            .iter()
            .map(|value| value.map(u64::cast_signed))
            .collect(),
        DataType::Date32 | DataType::Timestamp(_, _) | DataType::Duration(_) => {
            let whole = |v: i128| i64::try_from(v / 1_000_000).expect("at most 14 digits");
            temporal_digits(&to_the_second(array)?)?.iter().map(|value| value.map(whole)).collect()
        }
        _ => cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone(),
    })
}

/// Clamps to 64 bits; a clamped value is recorded as truncated.
fn held(value: i128) -> i64 {
    i64::try_from(value).unwrap_or_else(|_| {
        losses::note_truncated("DECIMAL", &value.to_string());
        if value < 0 { i64::MIN } else { i64::MAX }
    })
}

/// Rounds times to seconds; other types are unchanged.
fn to_the_second(array: &ArrayRef) -> Result<ArrayRef> {
    let rounded = |micros: i64| (micros + SECOND / 2).div_euclid(SECOND) * SECOND;
    Ok(match array.data_type() {
        DataType::Timestamp(_, _) => {
            Arc::new(datetime(array)?.unary::<_, TimestampMicrosecondType>(rounded))
        }
        DataType::Duration(_) => {
            let signed = |micros: i64| rounded(micros.abs()) * micros.signum();
            Arc::new(time(array)?.unary::<_, DurationMicrosecondType>(signed))
        }
        _ => Arc::clone(array),
    })
}

/// Rounds 256-bit decimals to integers, clamped to 128 bits.
fn whole_of_wide(array: &ArrayRef) -> Result<Vec<Option<i128>>> {
    let whole = cast(array, &DataType::Decimal256(WIDE_DIGITS, 0))?;
    let held = |v: i256| v.to_i128().unwrap_or(if v < i256::ZERO { i128::MIN } else { i128::MAX });
    Ok(whole.as_primitive::<Decimal256Type>().iter().map(|value| value.map(held)).collect())
}

/// Converts to unsigned 64-bit integers: negative integers keep their bits, negative decimals
/// become zero.
pub fn unsigned(array: &ArrayRef) -> Result<UInt64Array> {
    let held = |value: i128| match i64::try_from(value) {
        Ok(value) => value.cast_unsigned(),
        Err(_) if value < 0 => i64::MIN.cast_unsigned(),
        Err(_) => u64::try_from(value).unwrap_or(u64::MAX),
    };
    Ok(match array.data_type() {
        DataType::UInt64 => array.as_primitive::<UInt64Type>().clone(),
        ty if is_text(ty) || is_binary(ty) => {
            let texts = text(array)?;
            note_parts(ty, &texts, "INTEGER", is_integer);
            texts.iter().map(|value| value.map(|v| held(whole_prefix(v)))).collect()
        }
        #[allow(clippy::cast_possible_truncation)] // `as` saturates, as MySQL does.
        DataType::Float32 | DataType::Float64 => {
            let rounded = |v: f64| held(v.round_ties_even() as i128);
            double(array)?.iter().map(|value| value.map(rounded)).collect()
        }
        DataType::Decimal128(_, scale) => {
            let unit = 10_i128.pow(u32::try_from(*scale).unwrap_or(0));
            let values = array.as_primitive::<Decimal128Type>();
            let held = |v: i128| without_sign(round_half_up(v, unit));
            values.iter().map(|value| value.map(held)).collect()
        }
        DataType::Decimal256(_, _) => {
            let held = without_sign;
            whole_of_wide(array)?.into_iter().map(|value| value.map(held)).collect()
        }
        _ => int(array)?.iter().map(|value| value.map(i64::cast_unsigned)).collect(),
    })
}

/// Clamps to unsigned 64 bits; a clamped value is recorded as truncated.
fn without_sign(value: i128) -> u64 {
    u64::try_from(value).unwrap_or_else(|_| {
        losses::note_truncated("DECIMAL", &value.to_string());
        if value < 0 { 0 } else { u64::MAX }
    })
}

/// `value / unit`, rounded half away from zero.
pub fn round_half_up(value: i128, unit: i128) -> i128 {
    let (quotient, remainder) = (value / unit, value % unit);
    if remainder.unsigned_abs() * 2 >= unit.unsigned_abs() {
        quotient + value.signum() * unit.signum()
    } else {
        quotient
    }
}

/// `value / 10^digits`, rounded half away from zero.
pub fn round_half_up_wide(value: i256, digits: u32) -> i256 {
    let unit = i256::from_i128(10).wrapping_pow(digits);
    let half = unit.wrapping_div(i256::from_i128(2));
    let magnitude = value.wrapping_abs().wrapping_add(half).wrapping_div(unit);
    if value < i256::ZERO { magnitude.wrapping_neg() } else { magnitude }
}

/// Converts to doubles.
pub fn double(array: &ArrayRef) -> Result<Float64Array> {
    Ok(match array.data_type() {
        ty if is_text(ty) || is_binary(ty) => {
            let texts = text(array)?;
            note_parts(ty, &texts, "DOUBLE", is_number);
            texts.iter().map(|value| value.map(number_prefix)).collect()
        }
        DataType::Date32 | DataType::Timestamp(_, _) | DataType::Duration(_) => {
            let digits = Arc::new(temporal_digits(array)?) as ArrayRef;
            double(&digits)?
        }
        DataType::Decimal128(_, scale) => {
            let scale = u32::try_from(*scale).unwrap_or(0);
            let values = array.as_primitive::<Decimal128Type>();
            values.iter().map(|value| value.map(|v| nearest(v, scale))).collect()
        }
        DataType::Decimal256(_, scale) => {
            let scale = u32::try_from(*scale).unwrap_or(0);
            let values = array.as_primitive::<Decimal256Type>();
            values.iter().map(|value| value.map(|v| read(v, scale))).collect()
        }
        _ => cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone(),
    })
}

/// The double nearest to a decimal. A division rounds only once if both operands are exact doubles.
#[allow(clippy::cast_precision_loss)] // lossless below 2^53
fn nearest(unscaled: i128, scale: u32) -> f64 {
    const EXACT: u128 = 1 << f64::MANTISSA_DIGITS;
    const EXACT_POWER: u32 = 15;
    if unscaled.unsigned_abs() < EXACT && scale <= EXACT_POWER {
        return unscaled as f64 / 10_i64.pow(scale) as f64;
    }
    read(unscaled, scale)
}

/// The double nearest to a decimal, parsed from its text.
fn read(unscaled: impl std::fmt::Display, scale: u32) -> f64 {
    format!("{unscaled}e-{scale}").parse().expect("digits and an exponent are a number")
}

/// 20240102 for a date, 20240102030405.6 for a date and time: decimals of scale six.
fn temporal_digits(array: &ArrayRef) -> Result<Decimal128Array> {
    const UNIT: i128 = 1_000_000;
    let day =
        |parts: Parts| i128::from(parts.year) * 10_000 + i128::from(parts.month * 100 + parts.day);
    let values: Decimal128Array = match array.data_type() {
        DataType::Date32 => {
            let values = array.as_primitive::<Date32Type>();
            values.iter().map(|value| value.map(|v| day(Parts::of_day(v)) * UNIT)).collect()
        }
        DataType::Duration(_) => {
            let values = cast(array, &TIME)?;
            let values = values.as_primitive::<DurationMicrosecondType>();
            values.iter().map(|value| value.map(time_digits)).collect()
        }
        _ => {
            let digits = |micros| {
                let parts = Parts::of(micros);
                let clock = parts.hour * 10_000 + parts.minute * 100 + parts.second;
                (day(parts) * UNIT + i128::from(clock)) * UNIT + i128::from(parts.micros)
            };
            datetime(array)?.iter().map(|value| value.map(digits)).collect()
        }
    };
    Ok(values.with_precision_and_scale(TEMPORAL_DIGITS, 6)?)
}

fn time_digits(micros: i64) -> i128 {
    let seconds = micros.abs() / SECOND;
    let clock = seconds / 3600 * 10_000 + seconds / 60 % 60 * 100 + seconds % 60;
    let value = i128::from(clock) * 1_000_000 + i128::from(micros.abs() % SECOND);
    if micros < 0 { -value } else { value }
}

/// Converts to DATETIME; invalid values become NULL.
pub fn datetime(array: &ArrayRef) -> Result<TimestampMicrosecondArray> {
    Ok(match array.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            array.as_primitive::<TimestampMicrosecondType>().clone()
        }
        ty if is_text(ty) || is_binary(ty) => {
            let texts = text(array)?;
            note_texts_without_date(&texts);
            texts.iter().map(|value| value.and_then(temporal::parse_datetime)).collect()
        }
        DataType::Date32 => array
            .as_primitive::<Date32Type>()
            .iter()
            .map(|value| value.map(|days| i64::from(days) * DAY))
            .collect(),
        DataType::Timestamp(_, _) | DataType::Null => {
            cast(array, &DATETIME)?.as_primitive::<TimestampMicrosecondType>().clone()
        }
        ty if ty.is_integer() || *ty == DataType::Boolean => {
            let dates = int(array)?.iter().map(|v| v.and_then(temporal::from_number)).collect();
            note_lost(array, &dates, losses::note_no_date)?;
            dates
        }
        ty if ty.is_numeric() => {
            let dates = of_numbers(array, temporal::datetime_of)?.collect();
            note_lost(array, &dates, losses::note_no_date)?;
            dates
        }
        other => return exec_err!("Incorrect datetime value of type {other}"),
    })
}

/// Records the texts that are not a date and time, or only start with one.
fn note_texts_without_date(texts: &StringViewArray) {
    if !losses::are_collected() {
        return;
    }
    for text in texts.iter().flatten() {
        match temporal::parse_datetime(text) {
            None => losses::note_no_date(text),
            Some(_) if !temporal::is_whole_datetime(text) => {
                losses::note_truncated("datetime", text);
            }
            Some(_) => {}
        }
    }
}

/// Records the values that were converted to NULL.
fn note_lost(array: &ArrayRef, made: &dyn Array, note: impl Fn(&str)) -> Result<()> {
    if losses::are_collected() {
        let texts = text(array)?;
        let lost = (0..texts.len()).filter(|row| texts.is_valid(*row) && made.is_null(*row));
        lost.for_each(|row| note(texts.value(row)));
    }
    Ok(())
}

/// Converts numbers to times by `time`, whose arguments are the integer part and millionths.
fn of_numbers(
    array: &ArrayRef,
    time: fn(i64, i64) -> Option<i64>,
) -> Result<impl Iterator<Item = Option<i64>>> {
    let digits = losses::without_collecting(|| decimal(array, DECIMAL128_MAX_PRECISION, 6))?;
    let values = digits.as_primitive::<Decimal128Type>().clone();
    let time = move |v: i128| {
        let micros = i64::try_from(v % 1_000_000).expect("less than a second");
        time(i64::try_from(v / 1_000_000).ok()?, micros)
    };
    Ok((0..values.len())
        .map(move |row| values.is_valid(row).then(|| values.value(row)).and_then(time)))
}

/// Converts numbers to the text of a time, or of a date and time if they are too large for a time.
pub fn time_text(array: &ArrayRef) -> Result<StringViewArray> {
    #[allow(clippy::cast_precision_loss)] // it is small
    const FIRST_WITH_DATE: f64 = temporal::FIRST_WITH_DATE as f64;
    // Only numbers too large for a time are read as dates.
    let (times, moments) = (time(array)?, losses::without_collecting(|| datetime(array))?);
    let whole = double(array)?;
    let text = |row: usize| {
        let mut out = String::new();
        match whole.is_valid(row) && whole.value(row) >= FIRST_WITH_DATE {
            true if moments.is_valid(row) => {
                let micros = moments.value(row);
                format::datetime(&mut out, micros, format::fsp_of(micros));
            }
            false if times.is_valid(row) => {
                let micros = times.value(row);
                format::time(&mut out, micros, format::fsp_of(micros));
            }
            _ => return None,
        }
        Some(out)
    };
    Ok((0..array.len()).map(text).collect())
}

/// Converts to DATE; invalid values become NULL.
pub fn date(array: &ArrayRef) -> Result<Date32Array> {
    match array.data_type() {
        DataType::Date32 => Ok(array.as_primitive::<Date32Type>().clone()),
        _ => Ok(datetime(array)?.iter().map(|value| value.map(temporal::days)).collect()),
    }
}

/// Converts to TIME; invalid values become NULL.
pub fn time(array: &ArrayRef) -> Result<arrow::array::DurationMicrosecondArray> {
    Ok(match array.data_type() {
        DataType::Duration(_) => {
            cast(array, &TIME)?.as_primitive::<DurationMicrosecondType>().clone()
        }
        DataType::Date32 | DataType::Timestamp(_, _) => {
            datetime(array)?.iter().map(|value| value.map(|v| v.rem_euclid(DAY))).collect()
        }
        ty if ty.is_integer() || *ty == DataType::Boolean => {
            let time = |v: i64| temporal::time_of(v, 0);
            let times = int(array)?.iter().map(|value| value.and_then(time)).collect();
            note_lost(array, &times, |text| losses::note_truncated("time", text))?;
            times
        }
        ty if ty.is_numeric() => {
            let times = of_numbers(array, temporal::time_of)?.collect();
            note_lost(array, &times, |text| losses::note_truncated("time", text))?;
            times
        }
        _ => {
            let texts = text(array)?;
            losses::note_texts(&texts, "time", temporal::is_whole_time);
            texts.iter().map(|value| value.and_then(temporal::parse_time)).collect()
        }
    })
}

/// The text of doubles; a FLOAT keeps more digits than MySQL displays.
fn digits_of_double(array: &ArrayRef) -> Result<ArrayRef> {
    let doubles: ArrayRef = Arc::new(double(array)?);
    Ok(Arc::new(text(&doubles)?))
}

/// Records the texts that are numbers only in part. Binary literals are numbers and not recorded.
fn note_parts(from: &DataType, texts: &StringViewArray, ty: &str, is_whole: fn(&str) -> bool) {
    if *from != DataType::Binary {
        losses::note_texts(texts, ty, is_whole);
    }
}

/// The texts of values to convert to decimals; partial numbers are recorded.
fn noted_decimals(array: &ArrayRef) -> Result<StringViewArray> {
    let texts = text(array)?;
    note_parts(array.data_type(), &texts, "DECIMAL", is_decimal);
    Ok(texts)
}

/// Converts to decimals of this precision and scale, rounded half away from zero and clamped to the
/// largest value.
pub fn decimal(array: &ArrayRef, precision: u8, scale: i8) -> Result<ArrayRef> {
    let target = DataType::Decimal128(precision, scale);
    if array.data_type() == &target {
        return Ok(Arc::clone(array));
    }
    let source = match array.data_type() {
        DataType::Decimal256(_, _) | DataType::Decimal128(_, _) => Arc::clone(array),
        DataType::Float32 | DataType::Float64 => digits_of_double(array)?,
        ty if is_text(ty) || is_binary(ty) => Arc::new(noted_decimals(array)?) as ArrayRef,
        DataType::Date32 | DataType::Timestamp(_, _) | DataType::Duration(_) => {
            Arc::new(temporal_digits(array)?) as ArrayRef
        }
        _ => Arc::clone(array),
    };
    let limit = 10_i128.pow(u32::from(precision)) - 1;
    let unit = u32::try_from(scale).unwrap_or(0);
    let values: Decimal128Array = match source.data_type() {
        DataType::Decimal128(_, from) => {
            let from = u32::try_from(*from).unwrap_or(0);
            let values = source.as_primitive::<Decimal128Type>();
            values.iter().map(|v| v.map(|v| rescaled(v, from, unit, limit))).collect()
        }
        DataType::Decimal256(from, _) => {
            let values = cast(&source, &DataType::Decimal256(*from, scale))?;
            let values = values.as_primitive::<Decimal256Type>();
            let held = |v: i256| match v.to_i128() {
                Some(v) => v.clamp(-limit, limit),
                None if v < i256::ZERO => -limit,
                None => limit,
            };
            values.iter().map(|v| v.map(held)).collect()
        }
        DataType::Utf8View => source
            .as_string_view()
            .iter()
            .map(|v| v.map(|v| decimal_prefix(v, unit, limit)))
            .collect(),
        DataType::UInt64 => source
            .as_primitive::<UInt64Type>()
            .iter()
            .map(|v| v.map(|v| rescaled(i128::from(v), 0, unit, limit)))
            .collect(),
        _ => int(&source)?
            .iter()
            .map(|v| v.map(|v| rescaled(i128::from(v), 0, unit, limit)))
            .collect(),
    };
    Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
}

fn rescaled(value: i128, from: u32, to: u32, limit: i128) -> i128 {
    let scaled = if to >= from {
        value.checked_mul(10_i128.pow(to - from))
    } else {
        Some(round_half_up(value, 10_i128.pow(from - to)))
    };
    scaled.unwrap_or(value.signum() * limit).clamp(-limit, limit)
}

/// Converts to 256-bit decimals of this scale, rounded half away from zero.
pub fn wide_decimal(array: &ArrayRef, scale: i8) -> Result<ArrayRef> {
    let wanted = DataType::Decimal256(WIDE_DIGITS, scale);
    let source = match array.data_type() {
        DataType::Float32 | DataType::Float64 => digits_of_double(array)?,
        ty if is_text(ty) || is_binary(ty) => Arc::new(noted_decimals(array)?) as ArrayRef,
        DataType::Date32 | DataType::Timestamp(_, _) | DataType::Duration(_) => {
            Arc::new(temporal_digits(array)?) as ArrayRef
        }
        DataType::Boolean => Arc::new(int(array)?) as ArrayRef,
        _ => Arc::clone(array),
    };
    if !is_text(source.data_type()) {
        return Ok(cast(&source, &wanted)?);
    }
    let scale = u32::try_from(scale).unwrap_or(0);
    let values = source.as_string_view().iter();
    let values: Decimal256Array = values.map(|v| v.map(|v| wide_prefix(v, scale))).collect();
    Ok(Arc::new(values.with_data_type(wanted)))
}

#[cfg(test)]
mod tests;
