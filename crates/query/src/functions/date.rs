use datafusion::logical_expr::ScalarUDF;

use super::row::{Kind, Out, Row, RowFunction};
use crate::temporal;

/// Days from year 0 to 1970, as counted by TO_DAYS.
pub const EPOCH_DAYS: i64 = 719_528;
const DAYS_MAX: i64 = 3_652_424;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The English name of a month, 1 = January.
pub fn month_name(month: u32) -> &'static str {
    MONTHS[month as usize - 1]
}

/// The English name of a day of the week, 0 = Monday.
pub fn weekday_name(weekday: u32) -> &'static str {
    WEEKDAYS[weekday as usize]
}

/// The month or weekday whose name `text` starts with, and the name's length.
pub fn named(text: &str, months: bool, short: bool) -> Option<(u32, usize)> {
    let names: &[&str] = if months { &MONTHS } else { &WEEKDAYS };
    names.iter().enumerate().find_map(|(at, name)| {
        let name = if short { &name[..3] } else { name };
        let start = text.get(..name.len())?;
        start.eq_ignore_ascii_case(name).then(|| (u32::try_from(at).expect("few"), name.len()))
    })
}

/// The day of the year, from 1.
pub fn day_of_year(days: i32) -> u32 {
    let (year, _, _) = temporal::civil(days);
    let since = i64::from(days) - temporal::first_day(year);
    u32::try_from(since).expect("a day is not before the first of its year") + 1
}

/// The year and week by one of the eight modes of WEEK().
pub fn week(days: i32, mode: i64) -> (i32, i64) {
    let monday_first = mode & 1 != 0;
    let mut of_year = mode & 2 != 0;
    // Bit 2 means that week 1 starts at the first weekday of the year; without bit 0 (Monday first)
    // its meaning is inverted.
    let starts_week = (mode & 4 != 0) == monday_first;
    let (mut year, month, day) = temporal::civil(days);
    let days_in = |year: i32| if temporal::is_leap(year) { 366_i64 } else { 365 };
    let days = i64::from(days);
    let mut first = temporal::first_day(year);
    let monday_based = (first + 3).rem_euclid(7);
    let mut weekday = if monday_first { monday_based } else { (monday_based + 1) % 7 };
    let late = |weekday: i64| if starts_week { weekday != 0 } else { weekday >= 4 };
    if month == 1 && i64::from(day) <= 7 - weekday {
        if !of_year && late(weekday) {
            return (year, 0);
        }
        if late(weekday) {
            of_year = true;
            year -= 1;
            first -= days_in(year);
            weekday = (weekday + 53 * 7 - days_in(year)) % 7;
        }
    }
    let since = if late(weekday) { days - (first + 7 - weekday) } else { days - (first - weekday) };
    if of_year && since >= 52 * 7 {
        let next = (weekday + days_in(year)) % 7;
        if !late(next) {
            return (year + 1, 1);
        }
    }
    (year, since / 7 + 1)
}

fn int(value: impl Into<i64>) -> Option<Out> {
    Some(Out::Int(value.into()))
}

fn date(days: i64) -> Option<Out> {
    i32::try_from(days).ok().map(Out::Date)
}

fn last_day(row: &Row<'_>) -> Option<Out> {
    let (year, month, _) = temporal::civil(row.date(0));
    temporal::days_of(year, month, temporal::days_in_month(year, month)?).map(Out::Date)
}

/// `MAKEDATE(year, day_of_year)`.
fn makedate(row: &Row<'_>) -> Option<Out> {
    let (year, day) = (row.int(0), row.int(1));
    let year = match year {
        0..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    };
    if day < 1 {
        return None;
    }
    let first = temporal::days_of(i32::try_from(year).ok()?, 1, 1)?;
    let days = i64::from(first).checked_add(day - 1)?;
    (days <= DAYS_MAX - EPOCH_DAYS).then_some(days).and_then(date)
}

/// The number of months in a period `YYYYMM`, for `PERIOD_ADD` and `PERIOD_DIFF`.
fn period_months(period: i64) -> i64 {
    let (year, month) = (period / 100, period % 100);
    let year = match year {
        0..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    };
    year * 12 + month - 1
}

const DAYS: &[Kind] = &[Kind::Date];
const I: &[Kind] = &[Kind::Int];

fn of_dates() -> Vec<RowFunction> {
    let day_mode: &[Kind] = &[Kind::Date, Kind::Int];
    vec![
        RowFunction::new("mysql_date", DAYS, (1, 1), Kind::Date, |row| date(row.date(0).into()))
            .sees_zero_dates(),
        RowFunction::new("dayofweek", DAYS, (1, 1), Kind::Int, |row| {
            int((temporal::weekday(row.date(0)) + 1) % 7 + 1)
        }),
        RowFunction::new("weekday", DAYS, (1, 1), Kind::Int, |row| {
            int(temporal::weekday(row.date(0)))
        }),
        RowFunction::new("dayofyear", DAYS, (1, 1), Kind::Int, |row| int(day_of_year(row.date(0)))),
        RowFunction::new("week", day_mode, (1, 2), Kind::Int, |row| {
            int(week(row.date(0), row.int_or(1, 0)).1)
        }),
        RowFunction::new("weekofyear", DAYS, (1, 1), Kind::Int, |row| int(week(row.date(0), 3).1)),
        RowFunction::new("yearweek", day_mode, (1, 2), Kind::Int, |row| {
            let (year, week) = week(row.date(0), row.int_or(1, 0) | 2);
            int(i64::from(year) * 100 + week)
        }),
        RowFunction::new("dayname", DAYS, (1, 1), Kind::Text, |row| {
            Some(Out::Text(weekday_name(temporal::weekday(row.date(0))).into()))
        }),
        RowFunction::new("monthname", DAYS, (1, 1), Kind::Text, |row| {
            Some(Out::Text(month_name(temporal::civil(row.date(0)).1).into()))
        }),
        RowFunction::new("last_day", DAYS, (1, 1), Kind::Date, last_day),
        RowFunction::new("to_days", DAYS, (1, 1), Kind::Int, |row| {
            int(i64::from(row.date(0)) + EPOCH_DAYS)
        }),
        RowFunction::new("from_days", I, (1, 1), Kind::Date, |row| {
            let days = row.int(0);
            (366..=DAYS_MAX).contains(&days).then(|| days - EPOCH_DAYS).and_then(date)
        }),
        RowFunction::new("datediff", DAYS, (2, 2), Kind::Int, |row| {
            int(i64::from(row.date(0)) - i64::from(row.date(1)))
        }),
        RowFunction::new("makedate", I, (2, 2), Kind::Date, makedate),
        RowFunction::new("period_add", I, (2, 2), Kind::Int, |row| {
            let months = period_months(row.int(0)).checked_add(row.int(1))?;
            int(months.div_euclid(12).checked_mul(100)?.checked_add(months.rem_euclid(12) + 1)?)
        }),
        RowFunction::new("period_diff", I, (2, 2), Kind::Int, |row| {
            int(period_months(row.int(0)) - period_months(row.int(1)))
        }),
    ]
}

pub fn all() -> Vec<ScalarUDF> {
    of_dates().into_iter().map(RowFunction::udf).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_follow_mysqls_modes() {
        let day = |text| temporal::parse_datetime(text).map(temporal::days).unwrap();
        for (text, mode, wanted) in [
            ("2008-02-20", 0, (2008, 7)),
            ("2008-02-20", 1, (2008, 8)),
            ("2008-12-31", 1, (2008, 53)),
            ("2000-01-01", 0, (2000, 0)),
            ("2000-01-01", 2, (1999, 52)),
            ("1987-01-01", 2, (1986, 52)),
            ("2024-12-30", 3, (2025, 1)),
        ] {
            assert_eq!(week(day(text), mode), wanted, "{text} mode {mode}");
        }
        assert_eq!(day_of_year(day("2024-12-31")), 366);
    }
}
