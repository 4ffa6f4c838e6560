//! Parsing of dates and times by MySQL's rules.

use std::fmt;

use crate::row::MICROS_PER_DAY;
use crate::zone::parse_offset;
use crate::{Zone, row};

/// A date and time as written, with an optional UTC offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalDateTime {
    pub days: i32,
    /// Microseconds since midnight.
    pub micros: i64,
    /// Whether the first digit after the microseconds is 5 or more.
    pub round_up: bool,
    /// The UTC offset that followed the time, in seconds.
    pub offset: Option<i32>,
}

impl LocalDateTime {
    /// `local` is local time in microseconds since 1970-01-01 00:00:00.
    pub fn from_micros(local: i64) -> Self {
        Self {
            days: local.div_euclid(MICROS_PER_DAY) as i32,
            micros: local.rem_euclid(MICROS_PER_DAY),
            round_up: false,
            offset: None,
        }
    }

    /// Whether it is MySQL's zero date at midnight, which no zone moves.
    pub fn is_zero(self) -> bool {
        self.days == row::ZERO_DAY && self.micros == 0 && !self.round_up
    }

    /// Microseconds since 1970-01-01, rounded half up to `fsp` digits; `None` past the year 9999.
    pub fn micros_rounded(self, fsp: u8) -> Option<i64> {
        if self.is_zero() {
            return Some(row::ZERO_MICROS);
        }
        let micros = i64::from(self.days) * MICROS_PER_DAY + self.micros;
        let rounded = match fsp {
            0 => rounded_to::<1_000_000>(micros),
            1 => rounded_to::<100_000>(micros),
            2 => rounded_to::<10_000>(micros),
            3 => rounded_to::<1_000>(micros),
            4 => rounded_to::<100>(micros),
            5 => rounded_to::<10>(micros),
            _ => micros + i64::from(self.round_up),
        };
        (row::MICROS_MIN..=row::MICROS_MAX).contains(&rounded).then_some(rounded)
    }

    /// Converts a time with an offset to local time of `zone`.
    pub fn in_zone(self, zone: Zone) -> Self {
        let Some(offset) = self.offset.filter(|_| !self.is_zero()) else { return self };
        let utc =
            i64::from(self.days) * MICROS_PER_DAY + self.micros - i64::from(offset) * 1_000_000;
        Self { round_up: self.round_up, ..Self::from_micros(zone.to_local(utc)) }
    }
}

/// A number of microseconds without what is behind so many digits of its seconds.
pub fn micros_cut(micros: i64, digits: u8) -> i64 {
    match digits {
        0 => cut_to::<1_000_000>(micros),
        1 => cut_to::<100_000>(micros),
        2 => cut_to::<10_000>(micros),
        3 => cut_to::<1_000>(micros),
        4 => cut_to::<100>(micros),
        5 => cut_to::<10>(micros),
        _ => micros,
    }
}

fn cut_to<const STEP: i64>(micros: i64) -> i64 {
    micros.div_euclid(STEP) * STEP
}

/// Rounds half up to a multiple of `STEP`, which is known when this is compiled: a division by it
/// is a multiplication.
fn rounded_to<const STEP: i64>(micros: i64) -> i64 {
    cut_to::<STEP>(micros + STEP / 2)
}

/// `yyyy-mm-dd hh:mm:ss[.ffffff]`.
impl fmt::Display for LocalDateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of(self.days);
        let (second, fraction) = (self.micros / 1_000_000, self.micros % 1_000_000);
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}", second % 60)?;
        if fraction == 0 { Ok(()) } else { write!(f, ".{fraction:06}") }
    }
}

/// Days since 1970-01-01 of a Gregorian date; `None` if the date does not exist.
#[inline]
pub fn days_of(year: u32, month: u32, day: u32) -> Option<i32> {
    if year > 9_999 || !(1..=12).contains(&month) || day == 0 || day > days_in(year, month) {
        return None;
    }
    // Years that begin in March have the leap day last; the calendar repeats every 400 years.
    let year = if month <= 2 { year as i32 - 1 } else { year as i32 };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month as i32 + 9) % 12) + 2) / 5 + day as i32 - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// The year, month and day of a number of days since 1970-01-01; zeros of the zero date.
pub fn date_of(days: i32) -> (i32, u32, u32) {
    if days == row::ZERO_DAY {
        return (0, 0, 0);
    }
    let shifted = i64::from(days) + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as i32, month as u32, day as u32)
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day of a date as it is written, the zero date included.
#[inline]
fn day_written(year: u32, month: u32, day: u32) -> Option<i32> {
    match (year, month, day) {
        (0, 0, 0) => Some(row::ZERO_DAY),
        _ => days_of(year, month, day),
    }
}

/// Parses a date, or a date and a time. The zero date has no time but midnight.
pub fn parse(text: &[u8]) -> Option<LocalDateTime> {
    if let Some(days) = parse_plain_date(text) {
        return Some(LocalDateTime { days, micros: 0, round_up: false, offset: None });
    }
    if let Some(moment) = parse_plain_moment(text) {
        return Some(moment);
    }
    let mut scan = Scan { rest: text.trim_ascii() };
    let digits = scan.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (days, has_time) = match digits {
        5.. => scan.packed_date(digits)?,
        _ => (scan.date()?, scan.time_follows()?),
    };
    let (micros, round_up) = if has_time { scan.time()? } else { (0, false) };
    let offset = scan.offset()?;
    let value = LocalDateTime { days, micros, round_up, offset };
    (days != row::ZERO_DAY || value.is_zero()).then_some(value)
}

/// Parses a number as MySQL does, digits right-aligned: `128` is 2000-01-28, and fourteen digits
/// are a date and a time. A date has no fraction of a second. `None` when it is neither.
pub fn of_number(number: &[u8]) -> Option<LocalDateTime> {
    const DATE_NUMBER_MAX: u64 = 99_991_231;
    let point = number.iter().position(|byte| *byte == b'.').unwrap_or(number.len());
    let (whole, fraction) = number.split_at(point);
    let whole = std::str::from_utf8(whole).ok()?.parse::<u64>().ok()?;
    let moment = match whole {
        0 => return Some(LocalDateTime::from_micros(row::ZERO_MICROS)),
        101..=691_231 => (whole + 20_000_000) * 1_000_000,
        700_101..=991_231 => (whole + 19_000_000) * 1_000_000,
        10_000_101..=99_991_231 => whole * 1_000_000,
        101_000_000..=691_231_235_959 => whole + 20_000_000_000_000,
        700_101_000_000..=991_231_235_959 => whole + 19_000_000_000_000,
        10_000_101_000_000..=99_991_231_235_959 => whole,
        _ => return None,
    };
    let mut digits = format!("{moment:014}").into_bytes();
    if whole > DATE_NUMBER_MAX {
        digits.extend_from_slice(fraction);
    }
    parse(&digits)
}

/// The common form `yyyy-mm-dd`, without a loop.
#[inline]
pub(super) fn parse_plain_date(text: &[u8]) -> Option<i32> {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else { return None };
    let digits = [y1, y2, y3, y4, m1, m2, d1, d2].map(|byte| byte.wrapping_sub(b'0'));
    if digits.iter().any(|&digit| digit > 9) {
        return None;
    }
    let [y1, y2, y3, y4, m1, m2, d1, d2] = digits.map(u32::from);
    day_written(y1 * 1_000 + y2 * 100 + y3 * 10 + y4, m1 * 10 + m2, d1 * 10 + d2)
}

/// The common form `yyyy-mm-dd hh:mm:ss`, without a loop. The zero date is left to [`Scan`].
#[inline]
pub(super) fn parse_plain_moment(text: &[u8]) -> Option<LocalDateTime> {
    let text: &[u8; 19] = text.try_into().ok()?;
    let [date @ .., b' ' | b'T', h1, h2, b':', m1, m2, b':', s1, s2] = text else { return None };
    let days = parse_plain_date(date).filter(|days| *days != row::ZERO_DAY)?;
    let digits = [h1, h2, m1, m2, s1, s2].map(|byte| byte.wrapping_sub(b'0'));
    if digits.iter().any(|&digit| digit > 9) {
        return None;
    }
    let [h1, h2, m1, m2, s1, s2] = digits.map(u32::from);
    let (hour, minute, second) = (h1 * 10 + h2, m1 * 10 + m2, s1 * 10 + s2);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let micros = i64::from(hour * 3_600 + minute * 60 + second) * 1_000_000;
    Some(LocalDateTime { days, micros, round_up: false, offset: None })
}

/// A parser over the remaining text.
struct Scan<'a> {
    rest: &'a [u8],
}

impl Scan<'_> {
    /// Takes up to `digits_max` digits: the value and the number of digits.
    fn number(&mut self, digits_max: usize) -> Option<(u32, usize)> {
        let digits =
            self.rest.iter().take(digits_max).take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let value = number.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
        (digits > 0).then_some((value, digits))
    }

    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        match self.rest.split_first() {
            Some((&byte, rest)) if wanted(byte) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// `y-m-d` with any punctuation between.
    fn date(&mut self) -> Option<i32> {
        let (year, digits) = self.number(4)?;
        let year = if digits <= 2 { full_year(year) } else { year };
        self.separator()?;
        let (month, _) = self.number(2)?;
        self.separator()?;
        let (day, _) = self.number(2)?;
        day_written(year, month, day)
    }

    fn separator(&mut self) -> Option<()> {
        self.take(|byte| byte.is_ascii_punctuation()).then_some(())
    }

    /// `yyyymmdd` or `yymmdd`; true if time digits follow directly.
    fn packed_date(&mut self, digits: usize) -> Option<(i32, bool)> {
        let year = match digits {
            8 | 14 => self.number(4)?.0,
            6 | 12 => full_year(self.number(2)?.0),
            _ => return None,
        };
        let days = day_written(year, self.number(2)?.0, self.number(2)?.0)?;
        Some((days, digits > 8 || self.time_follows()?))
    }

    /// Takes the blank or T in front of a time; whether a time follows.
    fn time_follows(&mut self) -> Option<bool> {
        if self.rest.is_empty() || self.rest == b"Z" {
            return Some(false);
        }
        if self.take(|byte| byte == b'T' || byte == b't') {
            return Some(true);
        }
        let blanks = self.rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.rest = &self.rest[blanks..];
        (blanks > 0).then_some(true)
    }

    /// `h[:m[:s[.f]]]` or `hhmmss[.f]`.
    fn time(&mut self) -> Option<(i64, bool)> {
        let (hour, _) = self.number(2)?;
        let packed = self.rest.first().is_some_and(u8::is_ascii_digit);
        let mut next = || {
            if packed || self.take(|byte| byte == b':') { self.number(2) } else { Some((0, 0)) }
        };
        let (minute, _) = next()?;
        let (second, second_digits) = next()?;
        let (fraction, round_up) = if second_digits > 0 { self.fraction()? } else { (0, false) };
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let seconds = i64::from(hour * 3_600 + minute * 60 + second);
        Some((seconds * 1_000_000 + fraction, round_up))
    }

    /// `.f`: microseconds, and whether to round up.
    fn fraction(&mut self) -> Option<(i64, bool)> {
        if !self.take(|byte| byte == b'.' || byte == b',') {
            return Some((0, false));
        }
        let (value, digits) = self.number(6).unwrap_or((0, 0));
        let micros = i64::from(value) * 10i64.pow(6 - digits as u32);
        let round_up = self.rest.first().is_some_and(|byte| (b'5'..=b'9').contains(byte));
        let more = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.rest = &self.rest[more..];
        Some((micros, round_up))
    }

    /// The end of the text, `Z`, or `+hh:mm`.
    fn offset(&mut self) -> Option<Option<i32>> {
        match self.rest {
            [] => Some(None),
            b"Z" | b"z" => Some(Some(0)),
            rest => parse_offset(rest).map(Some),
        }
    }
}

/// The full year of a two-digit year, by MySQL's rule.
fn full_year(year: u32) -> u32 {
    if year < 70 { 2_000 + year } else { 1_900 + year }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> Option<i64> {
        parse(text.as_bytes()).and_then(|value| value.micros_rounded(6))
    }

    #[test]
    fn the_calendar_counts_every_day_once() {
        let mut expected = row::DAYS_MIN;
        for year in 0..=9_999 {
            for month in 1..=12 {
                for day in 1..=days_in(year, month) {
                    assert_eq!(days_of(year, month, day), Some(expected));
                    if day == 1 {
                        assert_eq!(date_of(expected), (year as i32, month, day));
                    }
                    expected += 1;
                }
            }
        }
        assert_eq!(expected - 1, row::DAYS_MAX);
        assert_eq!(days_of(1970, 1, 1), Some(0));
    }

    #[test]
    fn forms_of_one_instant_read_alike() {
        let noon = micros("2024-02-29 12:00:00.500000");
        assert_eq!(noon, Some((19_782 * 86_400 + 43_200) * 1_000_000 + 500_000));
        for form in [
            "2024-02-29T12:00:00.5",
            "20240229120000.5",
            "20240229T120000.5",
            "240229120000.5",
            "24-2-29 12:0:0.5",
            "2024/02/29 12:00:00.5",
            "2024.02.29  12:00:00.5000004",
            " 2024-02-29 12:00:00.5 ",
        ] {
            assert_eq!(micros(form), noon, "{form}");
        }
    }

    #[test]
    fn the_common_form_is_read_as_all_others_are() {
        let own = |text: &str| Scan { rest: text.as_bytes() }.date();
        for text in [
            "2024-02-29 23:59:59",
            "0000-01-01T00:00:00",
            "2024-02-29 24:00:00",
            "2024-02-29 23:60:00",
            "2024-02-29 23:00:60",
            "2023-02-29 23:00:00",
            "2024-02-29 23:0a:00",
            "2024-02-29x23:00:00",
            "0000-00-00 00:00:00",
            "0000-00-00 00:00:01",
        ] {
            // One more blank, and the text is read the long way.
            let long = parse(format!("{text} ").as_bytes());
            assert_eq!(parse(text.as_bytes()), long, "{text}");
            assert!(long.is_none_or(|moment| Some(moment.days) == own(text)), "{text}");
        }
    }

    #[test]
    fn numbers_are_read_from_their_end() {
        let read = |number: &str| of_number(number.as_bytes()).map(|value| value.to_string());
        for (number, moment) in [
            ("0", "0000-00-00 00:00:00"),
            ("128", "2000-01-28 00:00:00"),
            ("123.456", "2000-01-23 00:00:00"),
            ("99991231.5", "9999-12-31 00:00:00"),
            ("691231", "2069-12-31 00:00:00"),
            ("700101", "1970-01-01 00:00:00"),
            ("20240229", "2024-02-29 00:00:00"),
            ("101000000", "2000-01-01 00:00:00"),
            ("991231235959", "1999-12-31 23:59:59"),
            ("20240115102030.5", "2024-01-15 10:20:30.500000"),
        ] {
            assert_eq!(read(number).as_deref(), Some(moment), "{number}");
        }
        for number in ["1", "100", "132", "691232", "1000000", "-128", "1e300", "20240230"] {
            assert_eq!(read(number), None, "{number}");
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "abc",
            "2023-02-29",
            "2024-13-01",
            "2024-00-10",
            "0000-00-01",
            "0000-00-00 00:00:01",
            "00-00-00",
            "2024-01-01x",
            "2024-01-01 25:00:00",
            "2024-01-01 10:61",
            "20240231",
            "1234567",
            "2024-01",
            "2024-01-01 10:00:00+25:00",
            "10000-01-01",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_date_of_zeros_is_before_all_others_in_every_zone() {
        for text in ["0000-00-00", "0000-00-00 00:00:00.000", "00000000", "0000-00-00T00:00:00Z"] {
            let value = parse(text.as_bytes()).expect(text);
            assert!(value.is_zero(), "{text}");
            assert_eq!(value.micros_rounded(0), Some(row::ZERO_MICROS));
            assert_eq!(value.in_zone(Zone::Offset(7_200)).days, row::ZERO_DAY);
            assert_eq!(value.to_string(), "0000-00-00 00:00:00");
        }
        for zone in ["+02:00", "Asia/Shanghai"] {
            let zone = Zone::parse(zone).unwrap();
            assert_eq!(zone.to_local(row::ZERO_MICROS), row::ZERO_MICROS);
            assert_eq!(zone.to_utc(row::ZERO_MICROS), Some(row::ZERO_MICROS));
        }
        assert_eq!(date_of(row::ZERO_DAY), (0, 0, 0));
        assert_eq!(micros("0000-01-01"), Some(row::ZERO_MICROS + MICROS_PER_DAY));
    }

    #[test]
    fn fractions_round_half_up_and_carry() {
        let at = |text: &str, fsp| parse(text.as_bytes()).unwrap().micros_rounded(fsp);
        assert_eq!(at("1970-01-01 00:00:00.4999999", 0), Some(0));
        assert_eq!(at("1970-01-01 00:00:00.5", 0), Some(1_000_000));
        assert_eq!(at("1969-12-31 23:59:59.9996", 3), Some(0));
        assert_eq!(at("1970-01-01 00:00:00.0000005", 6), Some(1));
        assert_eq!(at("9999-12-31 23:59:59.9", 0), None);
    }

    #[test]
    fn fractions_are_cut_towards_the_past() {
        let cut = |digits| [1_999_999, -1].map(|micros| micros_cut(micros, digits));
        assert_eq!(cut(0), [1_000_000, -1_000_000]);
        assert_eq!(cut(4), [1_999_900, -100]);
        assert_eq!((cut(6), cut(9)), ([1_999_999, -1], [1_999_999, -1]));
    }

    #[test]
    fn written_offsets_move_to_the_zone() {
        let value = parse(b"2024-01-01 00:30:00+02:00").unwrap().in_zone(Zone::Offset(3_600));
        assert_eq!(value.offset, None);
        assert_eq!(date_of(value.days), (2023, 12, 31));
        assert_eq!(value.micros, (23 * 60 + 30) * 60 * 1_000_000);
        assert_eq!(parse(b"2024-01-01T00:00:00Z").unwrap().offset, Some(0));
    }
}
