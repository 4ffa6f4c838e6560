//! Intervals: DATE_ADD and TIMESTAMPDIFF.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Date32Array, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility};

use super::meaning::{DIGITS_MAX, digits, with_digits};
use super::udf::{FunctionImpl, Udf};
use crate::convert::{self, DATETIME};
use crate::temporal::{self, DAY, Parts, SECOND};
use crate::{format, losses};

/// An amount of time: months, whose length varies, plus microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    months: i64,
    micros: i64,
}

/// Whether adding this unit to a DATE results in a DATE.
pub fn is_date_unit(unit: &str) -> bool {
    ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "YEAR_MONTH"].contains(&unit)
}

/// Parses `amount` of `unit` as MySQL does: a number, or for example `'1:30'` for MINUTE_SECOND.
pub fn span(amount: &str, unit: &str) -> Option<Span> {
    let months = |count: i64| Some(Span { months: count, micros: 0 });
    let micros = |count: i64| Some(Span { months: 0, micros: count });
    // Text is read as the integer it starts with; numbers were already rounded.
    let whole = || {
        if losses::are_collected() && !convert::is_integer(amount) {
            losses::note_truncated("INTEGER", amount);
        }
        Some(convert::integer_prefix(amount))
    };
    match unit {
        "YEAR" => months(whole()?.checked_mul(12)?),
        "QUARTER" => months(whole()?.checked_mul(3)?),
        "MONTH" => months(whole()?),
        "WEEK" => micros(whole()?.checked_mul(7 * DAY)?),
        "DAY" => micros(whole()?.checked_mul(DAY)?),
        "HOUR" => micros(whole()?.checked_mul(3600 * SECOND)?),
        "MINUTE" => micros(whole()?.checked_mul(60 * SECOND)?),
        "SECOND" => {
            if losses::are_collected() && !convert::is_decimal(amount) {
                losses::note_truncated("DECIMAL", amount);
            }
            let unscaled = convert::decimal_prefix(amount, 6, i128::from(i64::MAX));
            micros(i64::try_from(unscaled).ok()?)
        }
        "MICROSECOND" => micros(whole()?),
        _ => compound(amount, unit),
    }
}

/// Compound units, such as DAY_SECOND for `'1 02:03:04'`. Leading parts may be missing.
fn compound(amount: &str, unit: &str) -> Option<Span> {
    const UNITS: [(&str, Span); 7] = [
        ("YEAR", Span { months: 12, micros: 0 }),
        ("MONTH", Span { months: 1, micros: 0 }),
        ("DAY", Span { months: 0, micros: DAY }),
        ("HOUR", Span { months: 0, micros: 3600 * SECOND }),
        ("MINUTE", Span { months: 0, micros: 60 * SECOND }),
        ("SECOND", Span { months: 0, micros: SECOND }),
        ("MICROSECOND", Span { months: 0, micros: 1 }),
    ];
    let (first, last) = unit.split_once('_')?;
    let place = |name: &str| UNITS.iter().position(|(unit, _)| *unit == name);
    let units = UNITS.get(place(first)?..=place(last)?)?;
    let mut parts =
        amount.split(|c: char| !c.is_ascii_digit()).filter(|p| !p.is_empty()).collect::<Vec<_>>();
    let missing = units.len().checked_sub(parts.len())?;
    let fraction;
    if missing == 0 && last == "MICROSECOND" {
        // If all parts are present, the last one is a fraction: '1.5' is a second and a half.
        fraction = format!("{:0<6}", parts.pop()?);
        parts.push(&fraction);
    }
    let sign = if amount.trim_start().starts_with('-') { -1 } else { 1 };
    let mut span = Span { months: 0, micros: 0 };
    for (part, (_, unit)) in parts.iter().zip(&units[missing..]) {
        let count = sign * part.parse::<i64>().ok()?;
        span.months = span.months.checked_add(count.checked_mul(unit.months)?)?;
        span.micros = span.micros.checked_add(count.checked_mul(unit.micros)?)?;
    }
    Some(span)
}

/// Adds a span to a date and time; NULL outside of years 0 to 9999.
pub fn add(micros: i64, span: Span, sign: i64) -> Option<i64> {
    let moved = match span.months {
        0 => micros,
        months => add_months(micros, months.checked_mul(sign)?)?,
    };
    let moved = moved.checked_add(span.micros.checked_mul(sign)?)?;
    temporal::is_in_calendar(moved).then_some(moved)
}

/// Like [`add`], and NULL of the zero date; an overflow is recorded.
fn added(micros: i64, span: Span, sign: i64) -> Option<i64> {
    if temporal::is_zero(micros) {
        return None;
    }
    let moved = add(micros, span, sign);
    if moved.is_none() {
        losses::note_overflow("date_add_interval");
    }
    moved
}

fn add_months(micros: i64, months: i64) -> Option<i64> {
    let parts = Parts::of(micros);
    let total = (i64::from(parts.year) * 12 + i64::from(parts.month) - 1).checked_add(months)?;
    let year = i32::try_from(total.div_euclid(12)).ok()?;
    let month = u32::try_from(total.rem_euclid(12)).ok()? + 1;
    let day = parts.day.min(temporal::days_in_month(year, month)?);
    Parts { year, month, day, ..parts }.micros()
}

/// The number of whole units between two instants.
pub fn difference(unit: &str, from: i64, to: i64) -> Option<i64> {
    let months = || {
        let (a, b) = (Parts::of(from.min(to)), Parts::of(from.max(to)));
        let mut months = i64::from(b.year - a.year) * 12 + i64::from(b.month) - i64::from(a.month);
        if (b.day, b.time_micros()) < (a.day, a.time_micros()) {
            months -= 1;
        }
        if from <= to { months } else { -months }
    };
    Some(match unit {
        "YEAR" => months() / 12,
        "QUARTER" => months() / 3,
        "MONTH" => months(),
        "WEEK" => (to - from) / (7 * DAY),
        "DAY" => (to - from) / DAY,
        "HOUR" => (to - from) / (3600 * SECOND),
        "MINUTE" => (to - from) / (60 * SECOND),
        "SECOND" => (to - from) / SECOND,
        "MICROSECOND" => to - from,
        _ => return None,
    })
}

fn literal_text(literal: Option<&ScalarValue>) -> Option<&str> {
    literal.and_then(|value| value.try_as_str().flatten())
}

/// `mysql_date_add(value, amount, unit, sign)`: a DATE stays a DATE for units of days and longer; a
/// value that is not of a temporal type results in text.
#[derive(Debug)]
struct DateAdd;

impl FunctionImpl for DateAdd {
    fn field(&self, name: &str, args: &ReturnFieldArgs<'_>) -> Result<Field> {
        let unit = literal_text(args.scalar_arguments[2]).unwrap_or("DAY");
        let ty = match args.arg_fields[0].data_type() {
            DataType::Duration(_) => convert::TIME,
            DataType::Date32 if is_date_unit(unit) => DataType::Date32,
            DataType::Date32 | DataType::Timestamp(_, _) => DATETIME,
            _ => DataType::Utf8View,
        };
        let field = Field::new(name, ty, true);
        if !matches!(field.data_type(), DataType::Timestamp(_, _) | DataType::Duration(_)) {
            return Ok(field);
        }
        let amount = &args.arg_fields[1];
        let of_unit = match unit {
            unit if unit.ends_with("MICROSECOND") => DIGITS_MAX,
            "SECOND" => digits(amount, None, &DATETIME).unwrap_or(DIGITS_MAX),
            _ => 0,
        };
        let of_value = digits(&args.arg_fields[0], args.scalar_arguments[0], field.data_type());
        Ok(with_digits(field, of_value.map(|of_value| of_value.max(of_unit))))
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        eval_add(&arrays, args.return_field.data_type())
    }
}

/// Adds a span to a date in text form; the result has a time only if the text or the unit has one.
fn add_to_text(text: &str, span: Span, sign: i64, unit: &str) -> Option<String> {
    let Some(micros) = temporal::parse_datetime(text) else {
        losses::note_no_date(text);
        return None;
    };
    let moved = added(micros, span, sign)?;
    let text = text.trim();
    let date = is_date_unit(unit) && text.len() <= 10 && !text.contains([':', ' ', 'T']);
    let mut out = String::new();
    match date {
        true => format::date(&mut out, temporal::days(moved)),
        false => format::datetime(&mut out, moved, format::fsp_of(moved)),
    }
    Some(out)
}

/// Normalises the amount: for units of one part it is a number, even if given as a date, and
/// rounded except for seconds. Text is unchanged.
fn amount(amounts: &ArrayRef, units: &StringViewArray) -> Result<ArrayRef> {
    let ty = amounts.data_type();
    let one_part = !units.is_empty() && !units.value(0).contains('_');
    if !one_part || convert::is_text(ty) || convert::is_binary(ty) {
        return Ok(Arc::clone(amounts));
    }
    let number = match ty {
        DataType::Date32 => Arc::new(convert::int(amounts)?),
        DataType::Timestamp(_, _) | DataType::Duration(_) => convert::decimal(amounts, 20, 6)?,
        _ => Arc::clone(amounts),
    };
    Ok(if units.value(0) == "SECOND" { number } else { Arc::new(convert::int(&number)?) })
}

/// Converts numbers that an interval is added to to the dates that they denote: 127 is 2000-01-27.
fn dates_of_numbers(values: &ArrayRef) -> Result<ArrayRef> {
    let ty = values.data_type();
    if !ty.is_numeric() && *ty != DataType::Boolean {
        return Ok(Arc::clone(values));
    }
    let dated = convert::datetime(values)?;
    let numbers = losses::without_collecting(|| convert::int(values))?;
    let shown = dated.iter().zip(&numbers).map(|(micros, number)| {
        let mut out = String::new();
        match (micros?, number? <= temporal::DATE_NUMBER_MAX) {
            (micros, true) => format::date(&mut out, temporal::days(micros)),
            (micros, false) => format::datetime(&mut out, micros, format::fsp_of(micros)),
        }
        Some(out)
    });
    Ok(Arc::new(shown.collect::<StringViewArray>()))
}

fn eval_add(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let units = convert::text(&args[2])?;
    let amounts = convert::text(&amount(&args[1], &units)?)?;
    let signs = convert::int(&args[3])?;
    let span_at = |row: usize| {
        if amounts.is_null(row) {
            return None;
        }
        let span = span(amounts.value(row), units.value(row));
        if span.is_none() {
            losses::note_overflow("date_add_interval");
        }
        span
    };
    if matches!(ty, DataType::Duration(_)) {
        let times = convert::time(&args[0])?;
        let moved = times.iter().enumerate().map(|(row, time)| {
            time?.checked_add(span_at(row)?.micros.checked_mul(signs.value(row))?)
        });
        return Ok(Arc::new(moved.collect::<arrow::array::DurationMicrosecondArray>()));
    }
    if convert::is_text(ty) {
        let texts = convert::text(&dates_of_numbers(&args[0])?)?;
        let moved = texts.iter().enumerate().map(|(row, text)| {
            add_to_text(text?, span_at(row)?, signs.value(row), units.value(row))
        });
        return Ok(Arc::new(moved.collect::<StringViewArray>()));
    }
    let values = convert::datetime(&args[0])?;
    let moved = values
        .iter()
        .enumerate()
        .map(|(row, value)| added(value?, span_at(row)?, signs.value(row)));
    Ok(match ty {
        DataType::Date32 => Arc::new(moved.map(|v| v.map(temporal::days)).collect::<Date32Array>()),
        DataType::Timestamp(_, _) => Arc::new(moved.collect::<TimestampMicrosecondArray>()),
        other => return exec_err!("DATE_ADD returns {other}"),
    })
}

pub fn all() -> Vec<ScalarUDF> {
    vec![Udf::scalar("mysql_date_add", (4, 4), Volatility::Immutable, DateAdd)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporal::parse_datetime;

    fn moved(value: &str, amount: &str, unit: &str, sign: i64) -> Option<i64> {
        add(parse_datetime(value)?, span(amount, unit)?, sign)
    }

    #[test]
    fn months_keep_to_the_last_day() {
        assert_eq!(moved("2024-01-31", "1", "MONTH", 1), parse_datetime("2024-02-29"));
        assert_eq!(moved("2024-02-29", "1", "YEAR", -1), parse_datetime("2023-02-28"));
        assert_eq!(moved("9999-12-31", "1", "DAY", 1), None);
    }

    #[test]
    fn compound_units_are_read_from_the_right() {
        let minute_second = span("1:30", "MINUTE_SECOND").unwrap();
        assert_eq!(minute_second, Span { months: 0, micros: 90 * SECOND });
        let day_second = span("1 02:03:04", "DAY_SECOND").unwrap();
        assert_eq!(day_second.micros, DAY + (2 * 3600 + 3 * 60 + 4) * SECOND);
        assert_eq!(span("-1-2", "YEAR_MONTH").unwrap().months, -14);
        assert_eq!(span("1.5", "SECOND").unwrap().micros, 1_500_000);
        assert_eq!(span("1.5", "HOUR").unwrap().micros, 3600 * SECOND);
        assert_eq!(span("1e3", "DAY").unwrap().micros, DAY);
        assert_eq!(span("1.5", "SECOND_MICROSECOND").unwrap().micros, 1_500_000);
        assert_eq!(span("-1:1.000002", "MINUTE_MICROSECOND").unwrap().micros, -61_000_002);
        assert_eq!(span("5", "SECOND_MICROSECOND").unwrap().micros, 5);
        assert_eq!(span("1:2:3", "MINUTE_SECOND"), None, "more parts than the unit has");
        assert_eq!(span("9223372036854775807-1", "YEAR_MONTH"), None);
    }

    #[test]
    fn differences_count_whole_units() {
        let at = |text| parse_datetime(text).unwrap();
        let (a, b) = (at("2024-01-31"), at("2024-03-01"));
        assert_eq!(difference("MONTH", a, b), Some(1));
        assert_eq!(difference("MONTH", b, a), Some(-1));
        assert_eq!(difference("DAY", a, b), Some(30));
        assert_eq!(difference("FORTNIGHT", a, b), None);
    }
}
