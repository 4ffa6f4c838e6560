//! Functions of times, and of dates with a time.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility};

use super::date::EPOCH_DAYS;
use super::interval;
use super::meaning::{self, Digits};
use super::row::{Kind, Out, Row, RowFunction};
use super::udf::{FunctionImpl, Udf};
use super::vector::{Vector, column};
use crate::temporal::{self, DAY, Parts, SECOND, TIME_MAX};
use crate::{convert, format, losses};
use freshet_schema::Zone;

const DT: &[Kind] = &[Kind::DateTime];
const TM: &[Kind] = &[Kind::Time];
/// End of the range in which MySQL converts between time zones: 3001-01-19 00:00:00 UTC.
const INSTANTS_END: i64 = 32_536_771_200 * SECOND;
/// No fractional digits.
const WHOLE: Digits = Digits::Fixed(0);

fn int(value: impl Into<i64>) -> Option<Out> {
    Some(Out::Int(value.into()))
}

fn time(micros: i64) -> Option<Out> {
    Some(Out::Time(longest(micros)))
}

/// Clamps to the range of TIME; a clamped value is recorded as truncated.
fn longest(micros: i64) -> i64 {
    let held = micros.clamp(-TIME_MAX, TIME_MAX);
    if held != micros {
        losses::note_truncated("time", &micros.to_string());
    }
    held
}

/// Parses text as a time; invalid or partial ones are recorded as truncated.
fn time_of_text(text: &str) -> Option<i64> {
    if losses::are_collected() && !temporal::is_whole_time(text) {
        losses::note_truncated("time", text);
    }
    temporal::parse_time(text)
}

fn maketime(row: &Row<'_>) -> Option<Out> {
    let (hour, minute, second) = (row.int(0), row.int(1), row.double(2));
    if !(0..60).contains(&minute) || !(0.0..60.0).contains(&second) {
        return None;
    }
    #[allow(clippy::cast_possible_truncation)] // less than a minute
    let rest = minute * 60 * SECOND + (second * 1e6).round() as i64;
    let magnitude = hour.unsigned_abs().min(839).cast_signed() * 3600 * SECOND + rest;
    time(if hour < 0 { -magnitude } else { magnitude })
}

/// `FROM_UNIXTIME(seconds, zone)`.
fn from_unixtime(row: &Row<'_>) -> Option<Out> {
    let seconds = row.double(0);
    if !(0.0..32_536_771_200.0).contains(&seconds) {
        return None;
    }
    #[allow(clippy::cast_possible_truncation)] // bounded above
    let micros = (seconds * 1e6).round() as i64;
    Some(Out::DateTime(Zone::parse(row.text(1))?.to_local(micros)))
}

/// CONVERT_TZ: times outside of 1970-01-01 00:00:01 to 3001-01-18 23:59:59 UTC are returned
/// unchanged, as in MySQL.
fn convert_tz(row: &Row<'_>) -> Option<Out> {
    const INSTANTS: std::ops::Range<i64> = SECOND..INSTANTS_END;
    let (from, to) = (Zone::parse(row.text(1))?, Zone::parse(row.text(2))?);
    let local = row.datetime(0);
    let utc = from.to_utc_or_skip(local);
    Some(Out::DateTime(if INSTANTS.contains(&utc) { to.to_local(utc) } else { local }))
}

/// `mysql_extract_date(unit, value)`, for units of several parts.
fn extract(row: &Row<'_>) -> Option<Out> {
    let p = Parts::of(row.datetime(1));
    if row.text(0) == "YEAR_MONTH" {
        return int(i64::from(p.year) * 100 + i64::from(p.month));
    }
    int(extracted(row.text(0), i64::from(p.day), p.time_micros())?)
}

/// EXTRACT from a time: it has no days, but a sign.
fn extract_of_time(row: &Row<'_>) -> Option<Out> {
    let time = row.time(1);
    int(extracted(row.text(0), 0, time.abs())? * time.signum())
}

/// EXTRACT from text: it is read as a time unless it contains a date.
fn extract_of_text(row: &Row<'_>) -> Option<Out> {
    let text = row.text(1);
    match temporal::parse_with_time(text) {
        Some(micros) => {
            let p = Parts::of(micros);
            int(extracted(row.text(0), i64::from(p.day), p.time_micros())?)
        }
        None => {
            let time = time_of_text(text)?;
            int(extracted(row.text(0), 0, time.abs())? * time.signum())
        }
    }
}

fn extracted(unit: &str, day: i64, time: i64) -> Option<i64> {
    let (seconds, micros) = (time / SECOND, time % SECOND);
    let clock = seconds / 3600 * 10_000 + seconds / 60 % 60 * 100 + seconds % 60;
    Some(match unit {
        "DAY_HOUR" => day * 100 + clock / 10_000,
        "DAY_MINUTE" => day * 10_000 + clock / 100,
        "DAY_SECOND" => day * 1_000_000 + clock,
        "HOUR_MINUTE" => clock / 100,
        "HOUR_SECOND" => clock,
        "MINUTE_SECOND" => clock % 10_000,
        "DAY_MICROSECOND" => (day * 1_000_000 + clock) * SECOND + micros,
        "HOUR_MICROSECOND" => clock * SECOND + micros,
        "MINUTE_MICROSECOND" => clock % 10_000 * SECOND + micros,
        "SECOND_MICROSECOND" => clock % 100 * SECOND + micros,
        _ => return None,
    })
}

/// Rounds microseconds to this number of fractional digits.
fn rounded(micros: i64, digits: i64) -> i64 {
    let unit = 10_i64.pow(6 - u32::try_from(digits.clamp(0, 6)).expect("clamped"));
    (micros + unit / 2).div_euclid(unit) * unit
}

/// ADDTIME of text; the result is a time or a date and time like the argument.
fn add_to_text(row: &Row<'_>) -> Option<Out> {
    let text = row.text(0);
    let mut out = String::new();
    if let Some(moment) = temporal::parse_with_time(text) {
        let moved = moment.checked_add(row.time(1))?;
        if !temporal::is_in_calendar(moved) {
            return None;
        }
        format::datetime(&mut out, moved, format::fsp_of(moved));
    } else {
        let moved = longest(time_of_text(text)? + row.time(1));
        format::time(&mut out, moved, format::fsp_of(moved));
    }
    Some(Out::Text(out))
}

/// TIMEDIFF of texts: both are times or both have a date, otherwise NULL.
fn difference_of_texts(row: &Row<'_>) -> Option<Out> {
    let (left, right) = (row.text(0), row.text(1));
    match (temporal::parse_with_time(left), temporal::parse_with_time(right)) {
        (Some(left), Some(right)) => time(left - right),
        (None, None) => time(time_of_text(left)? - time_of_text(right)?),
        _ => None,
    }
}

/// Text as a time; NULL if it contains a date.
fn time_alone(row: &Row<'_>) -> Option<Out> {
    let text = row.text(0);
    if temporal::parse_with_time(text).is_some() {
        return None;
    }
    time(time_of_text(text)?)
}

fn format_of(row: &Row<'_>) -> Option<Out> {
    let format = match (row.text(0), row.text(1).to_uppercase().as_str()) {
        ("DATE", "USA") => "%m.%d.%Y",
        ("DATE", "JIS" | "ISO") => "%Y-%m-%d",
        ("DATE", "EUR") => "%d.%m.%Y",
        ("DATE", "INTERNAL") => "%Y%m%d",
        ("DATETIME" | "TIMESTAMP", "USA" | "EUR") => "%Y-%m-%d %H.%i.%s",
        ("DATETIME" | "TIMESTAMP", "JIS" | "ISO") => "%Y-%m-%d %H:%i:%s",
        ("DATETIME" | "TIMESTAMP", "INTERNAL") => "%Y%m%d%H%i%s",
        ("TIME", "USA") => "%h:%i:%s %p",
        ("TIME", "JIS" | "ISO") => "%H:%i:%s",
        ("TIME", "EUR") => "%H.%i.%s",
        ("TIME", "INTERNAL") => "%H%i%s",
        _ => return None,
    };
    Some(Out::Text(format.to_owned()))
}

/// `UNIX_TIMESTAMP(value, zone, digits)`: has fractional digits if its argument has. `digits` is
/// given for text literals only: text that becomes a literal by constant folding must keep the type
/// that was derived before.
#[derive(Debug)]
struct UnixTimestamp;

impl FunctionImpl for UnixTimestamp {
    fn field(&self, name: &str, args: &ReturnFieldArgs<'_>) -> Result<Field> {
        let said = match args.scalar_arguments[2] {
            Some(ScalarValue::Int64(Some(digits))) => u8::try_from(*digits).ok(),
            _ => None,
        };
        let computed = || meaning::digits(&args.arg_fields[0], None, &convert::DATETIME);
        let ty = match said.or_else(computed) {
            None | Some(0) => DataType::Int64,
            Some(digits) => DataType::Decimal128(11 + digits, digits.cast_signed()),
        };
        Ok(Field::new(name, ty, true))
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let values = convert::datetime(&column(&args.args[0], rows)?)?;
        let zones = convert::text(&column(&args.args[1], rows)?)?;
        let utc = values.iter().zip(&zones).map(|(value, zone)| {
            let utc = Zone::parse(zone?)?.to_utc_or_skip(value?);
            Some(if (0..INSTANTS_END).contains(&utc) { utc } else { 0 })
        });
        Ok(match *args.return_field.data_type() {
            DataType::Decimal128(precision, scale) => {
                let unit = 10_i64.pow(6 - u32::from(scale.unsigned_abs()));
                let values: Decimal128Array =
                    utc.map(|utc| Some(i128::from(utc?.div_euclid(unit)))).collect();
                Arc::new(values.with_precision_and_scale(precision, scale)?)
            }
            _ => Arc::new(utc.map(|utc| Some(utc?.div_euclid(SECOND))).collect::<Int64Array>()),
        })
    }
}

fn of_times() -> Vec<RowFunction> {
    let of = RowFunction::new;
    vec![
        of("mysql_time", TM, (1, 1), Kind::Time, |row| time(row.time(0))).showing(Digits::Of(0)),
        of("mysql_time_digits", &[Kind::Time, Kind::Int], (2, 2), Kind::Time, |row| {
            time(rounded(row.time(0), row.int(1)))
        })
        .showing(Digits::Said(1)),
        of("mysql_time_micros", TM, (1, 1), Kind::Int, |row| int(row.time(0).abs())),
        of("microsecond", TM, (1, 1), Kind::Int, |row| int(row.time(0).abs() % SECOND)),
        of("time_to_sec", TM, (1, 1), Kind::Int, |row| int(row.time(0) / SECOND)),
        of("sec_to_time", &[Kind::Double], (1, 1), Kind::Time, |row| {
            #[allow(clippy::cast_possible_truncation)] // saturates
            time((row.double(0) * 1e6).round() as i64)
        })
        .showing(Digits::Of(0)),
        of("maketime", &[Kind::Int, Kind::Int, Kind::Double], (3, 3), Kind::Time, maketime)
            .showing(Digits::Of(2)),
        of("mysql_negate_time", TM, (1, 1), Kind::Time, |row| time(-row.time(0)))
            .showing(Digits::Of(0)),
        of("mysql_addtime_time", TM, (2, 2), Kind::Time, |row| time(row.time(0) + row.time(1)))
            .showing(Digits::Most),
        of("mysql_timediff_time", TM, (2, 2), Kind::Time, |row| time(row.time(0) - row.time(1)))
            .showing(Digits::Most),
        of("mysql_addtime_text", &[Kind::Text, Kind::Time], (2, 2), Kind::Text, add_to_text),
        of("mysql_time_alone", &[Kind::Text], (1, 1), Kind::Time, time_alone)
            .showing(Digits::Of(0)),
        of("mysql_timediff_text", &[Kind::Text], (2, 2), Kind::Time, difference_of_texts)
            .showing(Digits::Most),
    ]
}

fn of_datetimes() -> Vec<RowFunction> {
    let of = RowFunction::new;
    let zoned: &[Kind] = &[Kind::DateTime, Kind::Text];
    let moment = |row: &Row<'_>| Some(Out::DateTime(row.datetime(0)));
    vec![
        of("mysql_datetime", DT, (1, 1), Kind::DateTime, moment)
            .showing(Digits::Of(0))
            .sees_zero_dates(),
        of("mysql_datetime_digits", &[Kind::DateTime, Kind::Int], (2, 2), Kind::DateTime, |row| {
            Some(Out::DateTime(rounded(row.datetime(0), row.int(1))))
        })
        .showing(Digits::Said(1))
        .sees_zero_dates(),
        of("mysql_midnight", DT, (1, 1), Kind::DateTime, |row| {
            Some(Out::DateTime(row.datetime(0).div_euclid(DAY) * DAY))
        })
        .showing(WHOLE)
        .sees_zero_dates(),
        of("to_seconds", DT, (1, 1), Kind::Int, |row| {
            int(row.datetime(0).div_euclid(SECOND) + EPOCH_DAYS * 86_400)
        }),
        of("mysql_timediff", DT, (2, 2), Kind::Time, |row| time(row.datetime(0) - row.datetime(1)))
            .showing(Digits::Most),
        of("mysql_addtime", &[Kind::DateTime, Kind::Time], (2, 2), Kind::DateTime, |row| {
            row.datetime(0).checked_add(row.time(1)).map(Out::DateTime)
        })
        .showing(Digits::Most),
        of("convert_tz", zoned, (3, 3), Kind::DateTime, convert_tz).showing(Digits::Of(0)),
        of("from_unixtime", &[Kind::Double, Kind::Text], (2, 2), Kind::DateTime, from_unixtime)
            .showing(Digits::Of(0)),
        of("mysql_extract_date", &[Kind::Text, Kind::DateTime], (2, 2), Kind::Int, extract)
            .sees_zero_dates(),
        of("mysql_extract_time", &[Kind::Text, Kind::Time], (2, 2), Kind::Int, extract_of_time),
        of("mysql_extract_text", &[Kind::Text], (2, 2), Kind::Int, extract_of_text),
        of("timestampdiff", &[Kind::Text, Kind::DateTime], (3, 3), Kind::Int, |row| {
            interval::difference(row.text(0), row.datetime(1), row.datetime(2)).map(Out::Int)
        }),
        of("get_format", &[Kind::Text], (2, 2), Kind::Text, format_of),
    ]
}

pub fn all() -> Vec<ScalarUDF> {
    let rows = of_times().into_iter().chain(of_datetimes()).map(RowFunction::udf);
    let text = Vector::udf(
        "mysql_time_text",
        (1, 1),
        |_, _| Ok(DataType::Utf8View),
        |args, _| Ok(Arc::new(convert::time_text(&args[0])?)),
    );
    let unix = Udf::scalar("unix_timestamp", (3, 3), Volatility::Immutable, UnixTimestamp);
    rows.chain([text, unix]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_the_second_are_rounded_away() {
        let at = |text: &str| temporal::parse_datetime(text).unwrap();
        for (digits, wanted) in [(0, "03:04:06"), (2, "03:04:05.68"), (6, "03:04:05.678912")] {
            let value = at("2024-01-02 03:04:05.678912");
            assert_eq!(rounded(value, digits), at(&format!("2024-01-02 {wanted}")));
        }
    }
}
