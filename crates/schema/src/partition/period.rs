//! Periods of time that partitions have: `date_trunc(c, 'day')`, `INTERVAL 1 MONTH`,
//! `dynamic_partition.time_unit`.

use crate::row::{DAYS_MAX, DAYS_MIN, MICROS_PER_DAY};
use crate::value::temporal::{LocalDateTime, date_of, days_of};

const MICROS_PER_HOUR: i64 = MICROS_PER_DAY / 24;
/// 1970-01-01 was a Thursday; days of the week count from Monday, 0.
const WEEKDAY_OF_1970: i32 = 3;

/// The unit of a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeUnit {
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

/// Where weeks and months begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstDay {
    /// 0 for Monday.
    pub of_week: u32,
    /// From 1 to 28.
    pub of_month: u32,
}

impl Default for FirstDay {
    /// Monday, and the first.
    fn default() -> Self {
        Self { of_week: 0, of_month: 1 }
    }
}

impl TimeUnit {
    pub const ALL: [Self; 6] =
        [Self::Hour, Self::Day, Self::Week, Self::Month, Self::Quarter, Self::Year];

    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Quarter => "quarter",
            Self::Year => "year",
        }
    }

    /// Parses a name, case-insensitively.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(text))
    }

    /// The beginning of the period that has a moment.
    pub fn floor(self, moment: LocalDateTime, first: FirstDay) -> LocalDateTime {
        let LocalDateTime { days, micros, .. } = moment;
        let (year, month, day) = date_of(days);
        let days = match self {
            Self::Hour => return at(days, micros / MICROS_PER_HOUR * MICROS_PER_HOUR),
            Self::Day => days,
            Self::Week => days - (weekday(days) - first.of_week as i32).rem_euclid(7),
            Self::Month => {
                let before = u32::from(day < first.of_month);
                let month = month_of(year, month - 1) - i64::from(before);
                date_in(month, first.of_month).unwrap_or(days)
            }
            Self::Quarter => date_in(month_of(year, (month - 1) / 3 * 3), 1).unwrap_or(days),
            Self::Year => date_in(month_of(year, 0), 1).unwrap_or(days),
        };
        at(days, 0)
    }

    /// A moment so many periods later; `None` before the year 0 and after the year 9999.
    pub fn plus(self, moment: LocalDateTime, periods: i64) -> Option<LocalDateTime> {
        let LocalDateTime { days, micros, .. } = moment;
        let (year, month, day) = date_of(days);
        let months = |of: i64| {
            let month = month_of(year, month - 1).checked_add(periods.checked_mul(of)?)?;
            // The 31st of a month is its last day.
            (0..4).find_map(|less| date_in(month, day.checked_sub(less)?))
        };
        let later =
            |of: i64| i32::try_from(i64::from(days).checked_add(periods.checked_mul(of)?)?).ok();
        let days = match self {
            Self::Hour => {
                let all = i64::from(days) * 24 + micros / MICROS_PER_HOUR;
                let hours = all.checked_add(periods)?;
                let days = i32::try_from(hours.div_euclid(24)).ok()?;
                let micros = hours.rem_euclid(24) * MICROS_PER_HOUR + micros % MICROS_PER_HOUR;
                return is_date(days).then_some(at(days, micros));
            }
            Self::Day => later(1)?,
            Self::Week => later(7)?,
            Self::Month => return Some(at(months(1)?, micros)),
            Self::Quarter => return Some(at(months(3)?, micros)),
            Self::Year => return Some(at(months(12)?, micros)),
        };
        is_date(days).then_some(at(days, micros))
    }

    /// What the name of a partition that begins at a moment says of it: `20240131`, `202401`.
    pub fn digits(self, moment: LocalDateTime) -> String {
        let (year, month, day) = date_of(moment.days);
        match self {
            Self::Hour => {
                format!("{year:04}{month:02}{day:02}{:02}", moment.micros / MICROS_PER_HOUR)
            }
            Self::Day => format!("{year:04}{month:02}{day:02}"),
            Self::Week => {
                let first = date_in(month_of(year, 0), 1).unwrap_or(moment.days);
                let week = (moment.days - first + weekday(first)) / 7 + 1;
                format!("{year:04}_{week:02}")
            }
            Self::Month => format!("{year:04}{month:02}"),
            Self::Quarter => format!("{year:04}_{:02}", (month - 1) / 3 + 1),
            Self::Year => format!("{year:04}"),
        }
    }
}

/// All digits of a moment up to the second, as names of AUTO partitions have them.
pub fn all_digits(moment: LocalDateTime) -> String {
    let text = moment.to_string();
    text.chars().filter(char::is_ascii_digit).take(14).collect()
}

const fn at(days: i32, micros: i64) -> LocalDateTime {
    LocalDateTime { days, micros, round_up: false, offset: None }
}

fn weekday(days: i32) -> i32 {
    (days + WEEKDAY_OF_1970).rem_euclid(7)
}

/// Months since the year 0; `month` counts from 0.
fn month_of(year: i32, month: u32) -> i64 {
    i64::from(year) * 12 + i64::from(month)
}

fn date_in(month: i64, day: u32) -> Option<i32> {
    let year = u32::try_from(month.div_euclid(12)).ok()?;
    days_of(year, month.rem_euclid(12) as u32 + 1, day)
}

fn is_date(days: i32) -> bool {
    (DAYS_MIN..=DAYS_MAX).contains(&days)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::temporal::parse;

    fn moment(text: &str) -> LocalDateTime {
        parse(text.as_bytes()).expect("a date")
    }

    #[test]
    fn periods_begin_where_calendars_say() {
        let floor =
            |unit: TimeUnit, text| unit.floor(moment(text), FirstDay::default()).to_string();
        assert_eq!(floor(TimeUnit::Hour, "2024-02-29 13:45:10.5"), "2024-02-29 13:00:00");
        assert_eq!(floor(TimeUnit::Day, "1969-12-31 23:59:59"), "1969-12-31 00:00:00");
        // 2024-02-29 was a Thursday.
        assert_eq!(floor(TimeUnit::Week, "2024-02-29 1:0:0"), "2024-02-26 00:00:00");
        assert_eq!(floor(TimeUnit::Month, "2024-02-29"), "2024-02-01 00:00:00");
        assert_eq!(floor(TimeUnit::Quarter, "2024-12-31"), "2024-10-01 00:00:00");
        assert_eq!(floor(TimeUnit::Year, "0001-12-31"), "0001-01-01 00:00:00");
        let first = FirstDay { of_week: 6, of_month: 15 };
        let floor = |unit: TimeUnit, text| unit.floor(moment(text), first).to_string();
        assert_eq!(floor(TimeUnit::Week, "2024-02-29"), "2024-02-25 00:00:00");
        assert_eq!(floor(TimeUnit::Month, "2024-01-14"), "2023-12-15 00:00:00");
        assert_eq!(floor(TimeUnit::Month, "2024-01-15"), "2024-01-15 00:00:00");
    }

    #[test]
    fn periods_are_added_within_the_calendar() {
        let plus = |unit: TimeUnit, text, n| unit.plus(moment(text), n).map(|at| at.to_string());
        assert_eq!(plus(TimeUnit::Month, "2024-01-31", 1).unwrap(), "2024-02-29 00:00:00");
        assert_eq!(plus(TimeUnit::Year, "2024-02-29", 1).unwrap(), "2025-02-28 00:00:00");
        assert_eq!(plus(TimeUnit::Hour, "2024-01-31 23:00:00", 2).unwrap(), "2024-02-01 01:00:00");
        assert_eq!(plus(TimeUnit::Week, "2024-01-01", -1).unwrap(), "2023-12-25 00:00:00");
        assert_eq!(plus(TimeUnit::Quarter, "2024-01-01", -1).unwrap(), "2023-10-01 00:00:00");
        for unit in TimeUnit::ALL {
            assert_eq!(plus(unit, "9999-12-31 23:00:00", 1), None, "{unit:?}");
            assert_eq!(plus(unit, "2024-12-31", i64::MAX), None, "{unit:?}");
        }
    }

    #[test]
    fn names_say_the_period() {
        let digits = |unit: TimeUnit, text| unit.digits(moment(text));
        assert_eq!(digits(TimeUnit::Hour, "2024-02-29 03:00:00"), "2024022903");
        assert_eq!(digits(TimeUnit::Day, "2024-02-29"), "20240229");
        assert_eq!(digits(TimeUnit::Week, "2024-01-01"), "2024_01");
        assert_eq!(digits(TimeUnit::Week, "2024-12-30"), "2024_53");
        assert_eq!(digits(TimeUnit::Month, "2024-02-01"), "202402");
        assert_eq!(digits(TimeUnit::Quarter, "2024-04-01"), "2024_02");
        assert_eq!(digits(TimeUnit::Year, "2024-01-01"), "2024");
        assert_eq!(all_digits(moment("2024-02-29 03:04:05.6")), "20240229030405");
    }
}
