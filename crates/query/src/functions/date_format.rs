use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, DurationMicrosecondArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::{ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility};

use super::date::{day_of_year, month_name, named, week, weekday_name};
use super::meaning::{DIGITS_MAX, with_digits};
use super::row::{Kind, Out, RowFunction};
use super::udf::{FunctionImpl, Udf};
use super::vector::column;
use crate::temporal::{self, DAY, Parts, SECOND};
use crate::{convert, losses};

/// Formats a date and time by MySQL's `format`.
pub fn formatted(micros: i64, format: &str) -> String {
    let parts = Parts::of(micros);
    let days = temporal::days(micros);
    let mut out = String::new();
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        if sign != '%' {
            out.push(sign);
            continue;
        }
        let Some(sign) = signs.next() else { break };
        if !clock(&mut out, sign, parts) && !calendar(&mut out, sign, parts, days) {
            out.push(sign);
        }
    }
    out
}

/// Whether a format has only what the zero date has, too: no names, and no counted days or weeks.
fn takes_zeros(format: &str) -> bool {
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        if sign == '%' && signs.next().is_some_and(|sign| "abjMUuVvWwXx".contains(sign)) {
            return false;
        }
    }
    true
}

fn clock(out: &mut String, sign: char, p: Parts) -> bool {
    let twelve = (p.hour + 11) % 12 + 1;
    let half = if p.hour < 12 { "AM" } else { "PM" };
    let (minute, second) = (p.minute, p.second);
    match sign {
        'f' => write!(out, "{:06}", p.micros),
        'H' => write!(out, "{:02}", p.hour),
        'h' | 'I' => write!(out, "{twelve:02}"),
        'i' => write!(out, "{minute:02}"),
        'k' => write!(out, "{}", p.hour),
        'l' => write!(out, "{twelve}"),
        'p' => write!(out, "{half}"),
        'r' => write!(out, "{twelve:02}:{minute:02}:{second:02} {half}"),
        'S' | 's' => write!(out, "{second:02}"),
        'T' => write!(out, "{:02}:{minute:02}:{second:02}", p.hour),
        _ => return false,
    }
    .expect("a String takes everything");
    true
}

fn calendar(out: &mut String, sign: char, p: Parts, days: i32) -> bool {
    let weekday = temporal::weekday(days);
    match sign {
        'a' => write!(out, "{}", &weekday_name(weekday)[..3]),
        'b' => write!(out, "{}", &month_name(p.month)[..3]),
        'c' => write!(out, "{}", p.month),
        'D' => write!(out, "{}{}", p.day, ordinal(p.day)),
        'd' => write!(out, "{:02}", p.day),
        'e' => write!(out, "{}", p.day),
        'j' => write!(out, "{:03}", day_of_year(days)),
        'M' => write!(out, "{}", month_name(p.month)),
        'm' => write!(out, "{:02}", p.month),
        'U' => write!(out, "{:02}", week(days, 0).1),
        'u' => write!(out, "{:02}", week(days, 1).1),
        'V' => write!(out, "{:02}", week(days, 2).1),
        'v' => write!(out, "{:02}", week(days, 3).1),
        'W' => write!(out, "{}", weekday_name(weekday)),
        'w' => write!(out, "{}", (weekday + 1) % 7),
        'X' => write!(out, "{:04}", week(days, 2).0),
        'x' => write!(out, "{:04}", week(days, 3).0),
        'Y' => write!(out, "{:04}", p.year),
        'y' => write!(out, "{:02}", p.year % 100),
        _ => return false,
    }
    .expect("a String takes everything");
    true
}

fn ordinal(day: u32) -> &'static str {
    match day {
        11..=13 => "th",
        _ if day % 10 == 1 => "st",
        _ if day % 10 == 2 => "nd",
        _ if day % 10 == 3 => "rd",
        _ => "th",
    }
}

/// The parts that STR_TO_DATE has parsed.
#[derive(Default)]
struct Reading {
    parts: Parts,
    date: bool,
    pm: Option<bool>,
    day_of_year: Option<u32>,
    /// The week, and whether weeks start on Monday. Its year, from `%X` or `%x`, is `week_year`.
    week: Option<(u32, bool)>,
    week_year: Option<i32>,
    weekday: Option<u32>,
}

/// Format specifiers for parts of a date.
const DATES: &str = "dejMmcbUuVvWwaXxYy";

/// Parses `text` by MySQL's `format`, as microseconds since 1970 or since midnight.
pub fn parsed(text: &str, format: &str) -> Option<i64> {
    // What reads no part of a date is the date of zeros.
    if !format.contains('%') {
        return None;
    }
    let mut reading = Reading::default();
    let mut rest = text.trim_start();
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        // Parts missing at the end of the text are zero: the time may be omitted.
        rest = rest.trim_start();
        if rest.is_empty() {
            reading.date |= sign == '%' && signs.next().is_some_and(|sign| DATES.contains(sign));
            continue;
        }
        if sign == '%' {
            rest = reading.take(signs.next()?, rest)?;
        } else if !sign.is_whitespace() {
            rest = rest.strip_prefix(sign)?;
        }
    }
    let value = reading.value()?;
    if !rest.trim_start().is_empty() {
        losses::note_truncated("datetime", text);
    }
    Some(value)
}

/// Parses up to `width` digits at the start of `text`.
fn digits(text: &str, width: usize) -> Option<(u32, &str)> {
    let text = text.trim_start();
    let len = text.bytes().take(width).take_while(u8::is_ascii_digit).count();
    Some((text.get(..len)?.parse().ok()?, &text[len..]))
}

impl Reading {
    /// Parses the part of specifier `sign`, and returns the remaining text.
    fn take<'a>(&mut self, sign: char, text: &'a str) -> Option<&'a str> {
        let p = &mut self.parts;
        let set = |target: &mut u32, width| {
            let (value, rest) = digits(text, width)?;
            *target = value;
            Some(rest)
        };
        match sign {
            'd' | 'e' => {
                self.date = true;
                set(&mut p.day, 2)
            }
            'm' | 'c' => {
                self.date = true;
                set(&mut p.month, 2)
            }
            'H' | 'k' | 'h' | 'I' | 'l' => set(&mut p.hour, 2),
            'i' => set(&mut p.minute, 2),
            'S' | 's' => set(&mut p.second, 2),
            'f' => {
                let len = text.bytes().take(6).take_while(u8::is_ascii_digit).count();
                p.micros = format!("{:0<6}", &text[..len]).parse().ok()?;
                Some(&text[len..])
            }
            'T' => self.clock("%H:%i:%S", text),
            'r' => self.clock("%I:%i:%S %p", text),
            'p' => {
                let text = text.trim_start();
                let half = text.get(..2)?;
                self.pm = Some(half.eq_ignore_ascii_case("pm"));
                (self.pm == Some(true) || half.eq_ignore_ascii_case("am")).then(|| &text[2..])
            }
            _ => self.take_calendar(sign, text),
        }
    }

    fn clock<'a>(&mut self, format: &str, mut text: &'a str) -> Option<&'a str> {
        let mut signs = format.chars();
        while let Some(sign) = signs.next() {
            text = match sign {
                '%' => self.take(signs.next()?, text)?,
                ' ' => text.trim_start(),
                sign => text.strip_prefix(sign)?,
            };
        }
        Some(text)
    }

    fn take_calendar<'a>(&mut self, sign: char, text: &'a str) -> Option<&'a str> {
        self.date = true;
        let text = text.trim_start();
        let year = |value: u32| i32::try_from(value).ok();
        match sign {
            'Y' | 'X' | 'x' => {
                let (value, rest) = digits(text, 4)?;
                let short = sign == 'Y' && text.len() - rest.len() <= 2;
                let value = if short { temporal::century(value) } else { value };
                let target =
                    if sign == 'Y' { &mut self.parts.year } else { self.week_year.insert(0) };
                *target = year(value)?;
                Some(rest)
            }
            'y' => {
                let (value, rest) = digits(text, 2)?;
                self.parts.year = year(temporal::century(value))?;
                Some(rest)
            }
            'M' | 'b' => {
                let (month, len) = named(text, true, sign == 'b')?;
                self.parts.month = month + 1;
                Some(&text[len..])
            }
            'W' | 'a' => {
                let (weekday, len) = named(text, false, sign == 'a')?;
                self.weekday = Some(weekday);
                Some(&text[len..])
            }
            'w' => {
                let (value, rest) = digits(text, 1)?;
                self.weekday = Some((value + 6) % 7);
                Some(rest)
            }
            'j' => {
                let (value, rest) = digits(text, 3)?;
                self.day_of_year = Some(value);
                Some(rest)
            }
            'U' | 'V' | 'u' | 'v' => {
                let (value, rest) = digits(text, 2)?;
                self.week = Some((value, matches!(sign, 'u' | 'v')));
                Some(rest)
            }
            '%' => text.strip_prefix('%'),
            _ => None,
        }
    }

    fn value(mut self) -> Option<i64> {
        match self.pm {
            Some(_) if !(1..=12).contains(&self.parts.hour) => return None,
            Some(pm) => self.parts.hour = self.parts.hour % 12 + if pm { 12 } else { 0 },
            None => {}
        }
        if !self.date {
            let p = self.parts;
            return (p.hour < 24 && p.minute < 60 && p.second < 60).then(|| p.time_micros());
        }
        if let Some(days) = self.days() {
            return Some(i64::from(days) * DAY + self.parts.time_micros());
        }
        self.parts.micros()
    }

    /// The date, if it was given as day of the year or by week and weekday.
    fn days(&self) -> Option<i32> {
        if let Some(day) = self.day_of_year {
            let first = temporal::days_of(self.parts.year, 1, 1)?;
            return (1..=366).contains(&day).then(|| first + day.cast_signed() - 1);
        }
        let ((number, monday), weekday) = (self.week?, self.weekday?);
        let year = self.week_year.unwrap_or(self.parts.year);
        let first = temporal::days_of(year, 1, 1)?;
        let first_weekday = temporal::weekday(first).cast_signed();
        let start = if monday {
            // Week 1 is the first with at least four days in the year.
            first - first_weekday + if first_weekday > 3 { 7 } else { 0 }
        } else {
            // Week 1 starts at the first Sunday.
            first + (6 - first_weekday).rem_euclid(7)
        };
        let offset = if monday { weekday } else { (weekday + 1) % 7 };
        Some(start + (number.cast_signed() - 1) * 7 + offset.cast_signed())
    }
}

/// STR_TO_DATE returns a date, a time or both, with or without a fraction, depending on its format.
#[derive(Debug)]
struct StrToDate;

impl FunctionImpl for StrToDate {
    fn field(&self, name: &str, args: &ReturnFieldArgs<'_>) -> Result<Field> {
        let literal = args.scalar_arguments[1].and_then(|value| value.try_as_str().flatten());
        let Some(format) = literal else {
            return Ok(with_digits(Field::new(name, convert::DATETIME, true), Some(DIGITS_MAX)));
        };
        let signs = format.split('%').skip(1).filter_map(|part| part.chars().next());
        let has = |wanted: &str| signs.clone().any(|sign| wanted.contains(sign));
        let ty = match (has(DATES), has("fHhIiklprSsT")) {
            (true, false) => return Ok(Field::new(name, DataType::Date32, true)),
            (false, true) => convert::TIME,
            _ => convert::DATETIME,
        };
        let digits = if has("f") { DIGITS_MAX } else { 0 };
        Ok(with_digits(Field::new(name, ty, true), Some(digits)))
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let arrays = args.args.iter().map(|arg| column(arg, rows)).collect::<Result<Vec<_>>>()?;
        eval_parse(&arrays, args.return_field.data_type())
    }
}

fn eval_parse(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let (texts, formats) = (convert::text(&args[0])?, convert::text(&args[1])?);
    let values = texts.iter().zip(formats.iter()).map(|(text, format)| {
        let (text, format) = (text?, format?);
        let read = parsed(text, format).filter(|micros| temporal::is_in_calendar(*micros));
        if read.is_none() {
            losses::note_argument("datetime", text, "str_to_date");
        }
        read
    });
    Ok(match ty {
        DataType::Date32 => {
            Arc::new(values.map(|v| v.map(temporal::days)).collect::<Date32Array>())
        }
        DataType::Duration(_) => Arc::new(values.collect::<DurationMicrosecondArray>()),
        _ => Arc::new(values.collect::<TimestampMicrosecondArray>()),
    })
}

/// TIME_FORMAT: hours may exceed 23.
fn time_formatted(micros: i64, format: &str) -> String {
    let hours = micros.abs() / (3600 * SECOND);
    let sign = if micros < 0 { "-" } else { "" };
    let format = format
        .replace("%H", &format!("{sign}{hours:02}"))
        .replace("%k", &format!("{sign}{hours}"))
        .replace("%T", &format!("{sign}{hours:02}:%i:%S"));
    formatted(micros.abs() % DAY, &format)
}

pub fn all() -> Vec<ScalarUDF> {
    let date_format =
        RowFunction::new("date_format", &[Kind::DateTime, Kind::Text], (2, 2), Kind::Text, |row| {
            let (micros, format) = (row.datetime(0), row.text(1));
            let has = !format.is_empty() && (!temporal::is_zero(micros) || takes_zeros(format));
            has.then(|| Out::Text(formatted(micros, format)))
        })
        .sees_zero_dates();
    let time_format =
        RowFunction::new("time_format", &[Kind::Time, Kind::Text], (2, 2), Kind::Text, |row| {
            let format = row.text(1);
            (!format.is_empty()).then(|| Out::Text(time_formatted(row.time(0), format)))
        });
    vec![
        date_format.udf(),
        time_format.udf(),
        Udf::scalar("str_to_date", (2, 2), Volatility::Immutable, StrToDate),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporal::parse_datetime;

    #[test]
    fn the_date_of_zeros_has_numbers_but_no_names() {
        let zero = parse_datetime("0000-00-00").unwrap();
        assert_eq!(formatted(zero, "%Y-%m-%d %T %D %c %e %y"), "0000-00-00 00:00:00 0th 0 0 00");
        assert!(takes_zeros("%Y-%m-%d %%j M") && !takes_zeros("%Y %M") && !takes_zeros("%j"));
    }

    #[test]
    fn dates_are_written_in_mysqls_formats() {
        let at = parse_datetime("2009-10-04 22:23:00").unwrap();
        for (format, wanted) in [
            ("%W %M %Y", "Sunday October 2009"),
            ("%H:%i:%s", "22:23:00"),
            ("%D %y %a %d %m %b %j", "4th 09 Sun 04 10 Oct 277"),
            ("%r %k %l %%", "10:23:00 PM 22 10 %"),
            ("%X %V %x %v", "2009 40 2009 40"),
        ] {
            assert_eq!(formatted(at, format), wanted, "{format}");
        }
        assert_eq!(time_formatted(100 * 3600 * SECOND, "%H:%i"), "100:00");
    }

    #[test]
    fn texts_are_read_in_mysqls_formats() {
        for (text, format, wanted) in [
            ("01,5,2013", "%d,%m,%Y", "2013-05-01"),
            ("May 1, 2013", "%M %d,%Y", "2013-05-01"),
            ("2013-05-01 9:30:17 pm", "%Y-%m-%d %h:%i:%s %p", "2013-05-01 21:30:17"),
            ("200442 Monday", "%X%V %W", "2004-10-18"),
            ("2024 060", "%Y %j", "2024-02-29"),
        ] {
            assert_eq!(parsed(text, format), parse_datetime(wanted), "{text}");
        }
        let midnight = parse_datetime("2024-01-15 00:00:00");
        assert_eq!(parsed("2024-01-15", "%Y-%m-%d %H:%i:%s"), midnight, "a text that ends early");
        assert_eq!(parsed("2024-01", "%Y-%m-%d"), None, "there is no day 0");
        assert_eq!(parsed("", "%Y-%m-%d"), None, "there is no day 0");
        assert_eq!(parsed("abc", "%Y"), None);
        assert_eq!(parsed("9:30", "%H:%i"), Some((9 * 3600 + 30 * 60) * SECOND));
    }
}
