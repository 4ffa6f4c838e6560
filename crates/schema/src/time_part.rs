//! Parts of moments, by whose numbers the clauses of PolarDB-X and `PARTITION BY HASH(YEAR(c))`
//! divide rows (RFC 0062). Files on disk are divided by these numbers, so they must never change.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Date32Type, TimestampMicrosecondType};

use crate::ColumnType;
use crate::row::{DAYS_MIN, MICROS_PER_DAY};
use crate::value::temporal::{date_of, days_of};

/// What counts of a DATE, DATETIME or TIMESTAMP, which is in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimePart {
    Year,
    Quarter,
    Month,
    /// The months since the year 0.
    YearMonth,
    /// The weeks since then, which begin on Mondays.
    YearWeek,
    /// The days since then.
    YearDay,
    /// The day of the year.
    MonthDay,
    /// The day of the month.
    Day,
    /// The days since Monday.
    Weekday,
    /// The seconds since the year 0.
    Second,
}

impl TimePart {
    pub const ALL: [Self; 10] = [
        Self::Year,
        Self::Quarter,
        Self::Month,
        Self::YearMonth,
        Self::YearWeek,
        Self::YearDay,
        Self::MonthDay,
        Self::Day,
        Self::Weekday,
        Self::Second,
    ];

    /// The functions of MySQL and PolarDB-X that ask for it.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Year => &["YEAR"],
            Self::Quarter => &["QUARTER"],
            Self::Month => &["MONTH", "MM"],
            Self::YearMonth => &["YYYYMM", "YYYYMM_OPT", "YYYYMM_NOLOOP"],
            Self::YearWeek => &["YYYYWEEK", "YYYYWEEK_OPT", "YYYYWEEK_NOLOOP", "YEARWEEK"],
            Self::YearDay => &["YYYYDD", "YYYYDD_OPT", "YYYYDD_NOLOOP", "TO_DAYS"],
            Self::MonthDay => &["MMDD", "DAYOFYEAR"],
            Self::Day => &["DD", "DAY", "DAYOFMONTH"],
            Self::Weekday => &["WEEK", "WEEKDAY", "DAYOFWEEK"],
            Self::Second => &["TO_SECONDS", "UNIX_TIMESTAMP"],
        }
    }

    /// The part that a function asks for, whose name is in any case of letters.
    pub fn parse(function: &str) -> Option<Self> {
        let has_name =
            |part: &Self| part.names().iter().any(|name| name.eq_ignore_ascii_case(function));
        Self::ALL.into_iter().find(has_name)
    }

    /// Whether values of a type have it.
    pub const fn is_of(ty: ColumnType) -> bool {
        use ColumnType as T;
        matches!(ty, T::Date | T::DateTime { .. } | T::Timestamp { .. })
    }

    /// Its number on a day, given in days since 1970-01-01, `micros` after midnight.
    pub fn number(self, days: i32, micros: i64) -> u64 {
        // 0000-01-01 was a Saturday.
        const WEEKDAY_OF_FIRST: i64 = 5;
        let (year, month, day) = date_of(days);
        let since = i64::from(days) - i64::from(DAYS_MIN);
        let (year, month) = (i64::from(year), i64::from(month));
        let number = match self {
            Self::Year => year,
            // 0 in the zero date.
            Self::Quarter => (month + 2) / 3,
            Self::Month => month,
            Self::YearMonth => year * 12 + month - 1,
            Self::YearWeek => (since + WEEKDAY_OF_FIRST).div_euclid(7),
            Self::YearDay => since,
            Self::MonthDay => {
                let first = days_of(year as u32, 1, 1).unwrap_or(days);
                i64::from(days - first) + 1
            }
            Self::Day => i64::from(day),
            Self::Weekday => (since + WEEKDAY_OF_FIRST).rem_euclid(7),
            Self::Second => since * 86_400 + micros / 1_000_000,
        };
        number.max(0).cast_unsigned()
    }

    /// That of each value of an array of days or moments; 0 of NULL, as in MySQL.
    pub(crate) fn numbers(self, array: &dyn Array) -> Vec<u64> {
        let number = |row: usize, days: i32, micros: i64| match array.is_null(row) {
            true => 0,
            false => self.number(days, micros),
        };
        match array.data_type() {
            DataType::Date32 => {
                let days = array.as_primitive::<Date32Type>().values();
                (0..array.len()).map(|row| number(row, days[row], 0)).collect()
            }
            DataType::Timestamp(..) => {
                let moments = array.as_primitive::<TimestampMicrosecondType>().values();
                let of = |row: usize| {
                    let micros = moments[row];
                    let days = micros.div_euclid(MICROS_PER_DAY) as i32;
                    number(row, days, micros.rem_euclid(MICROS_PER_DAY))
                };
                (0..array.len()).map(of).collect()
            }
            other => unreachable!("{other} has no part of time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Date32Array, TimestampMicrosecondArray};

    use super::*;
    use crate::value::temporal::parse;

    fn number(function: &str, moment: &str) -> u64 {
        let moment = parse(moment.as_bytes()).expect("a moment");
        TimePart::parse(function).expect("a function").number(moment.days, moment.micros)
    }

    #[test]
    fn numbers_are_those_on_disk() {
        assert_eq!(number("year", "2024-02-29"), 2024);
        assert_eq!(number("QUARTER", "2024-12-31"), 4);
        assert_eq!([number("MM", "2024-02-29"), number("MONTH", "2024-02-29")], [2, 2]);
        assert_eq!(number("YYYYMM", "2024-02-29"), 2024 * 12 + 1);
        assert_eq!(number("YYYYMM_OPT", "0000-01-01"), 0);
        assert_eq!(number("TO_DAYS", "2024-02-29"), 739_310);
        assert_eq!([number("MMDD", "2024-02-29"), number("MMDD", "2023-12-31")], [60, 365]);
        assert_eq!(number("DD", "2024-02-29"), 29);
        assert_eq!(number("TO_SECONDS", "1970-01-01 00:00:01.9"), 719_528 * 86_400 + 1);
        assert_eq!(number("UNIX_TIMESTAMP", "0000-01-01"), 0);
    }

    #[test]
    fn weeks_begin_on_mondays() {
        // 2024-02-29 was a Thursday.
        let days = ["2024-02-25", "2024-02-26", "2024-02-29", "2024-03-03", "2024-03-04"];
        assert_eq!(days.map(|day| number("WEEK", day)), [6, 0, 3, 6, 0]);
        let weeks = days.map(|day| number("YYYYWEEK", day));
        let first = weeks[0];
        assert_eq!(weeks.map(|week| week - first), [0, 1, 1, 1, 2]);
        assert_eq!([number("WEEK", "0000-01-01"), number("YYYYWEEK", "0000-01-01")], [5, 0]);
    }

    #[test]
    fn dates_and_moments_of_a_day_have_one_number_and_null_is_0() {
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![Some(-1), Some(0), None]));
        let moments = vec![Some(-1), Some(MICROS_PER_DAY - 1), None];
        let moments: ArrayRef = Arc::new(TimestampMicrosecondArray::from(moments));
        for part in TimePart::ALL.into_iter().filter(|part| *part != TimePart::Second) {
            let numbers = part.numbers(&dates);
            assert_eq!(numbers, part.numbers(&moments), "{part:?}");
            assert_eq!(numbers[2], 0);
        }
        assert_eq!(TimePart::Year.numbers(&dates), [1969, 1970, 0]);
        assert_eq!(TimePart::parse("HASH"), None);
    }
}
