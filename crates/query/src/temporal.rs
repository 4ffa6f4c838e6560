//! Dates and times by MySQL's rules, without time zone: days since 1970 and microseconds.

use freshet_schema::row::{ZERO_DAY, ZERO_MICROS};

/// Microseconds per second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds per day.
pub const DAY: i64 = 86_400 * SECOND;
/// Maximum number of hours of a TIME.
const HOURS_MAX: u64 = 838;
/// The maximum TIME, 838:59:59.
pub const TIME_MAX: i64 = (838 * 3600 + 59 * 60 + 59) * SECOND;
/// The range of dates, from 0000-01-01 to 9999-12-31, in days since 1970.
pub const DATES: std::ops::RangeInclusive<i32> = -719_528..=2_932_896;

/// Whether microseconds since 1970 are within the range of dates.
pub fn is_in_calendar(micros: i64) -> bool {
    i32::try_from(micros.div_euclid(DAY)).is_ok_and(|days| DATES.contains(&days))
}

/// Whether a day is the zero date, of which most functions are NULL.
pub fn is_zero_day(days: i32) -> bool {
    days == ZERO_DAY
}

/// Whether a moment is the zero date.
pub fn is_zero(micros: i64) -> bool {
    micros == ZERO_MICROS
}

/// The fields of a calendar date and time of day, all zeros of the zero date.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parts {
    /// 0 to 9999.
    pub year: i32,
    /// 1 to 12, or 0.
    pub month: u32,
    /// 1 to 31, or 0.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59.
    pub second: u32,
    /// 0 to 999,999.
    pub micros: u32,
}

impl Parts {
    /// The fields of a time in microseconds since 1970.
    pub fn of(micros: i64) -> Self {
        let (days, rest) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
        let (year, month, day) = civil(i32::try_from(days).unwrap_or(i32::MAX));
        let second = u32::try_from(rest / SECOND).expect("a day has 86,400 seconds");
        Self {
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            micros: u32::try_from(rest % SECOND).expect("less than a second"),
        }
    }

    /// The fields of a date at midnight.
    pub fn of_day(days: i32) -> Self {
        let (year, month, day) = civil(days);
        Self { year, month, day, ..Self::default() }
    }

    /// Microseconds since 1970, if the fields are valid.
    pub fn micros(self) -> Option<i64> {
        if self.hour > 23 || self.minute > 59 || self.second > 59 {
            return None;
        }
        let days = days_of(self.year, self.month, self.day)?;
        Some(i64::from(days) * DAY + self.time_micros())
    }

    /// Microseconds since midnight.
    pub fn time_micros(self) -> i64 {
        let seconds = self.hour * 3600 + self.minute * 60 + self.second;
        i64::from(seconds) * SECOND + i64::from(self.micros)
    }
}

/// Year, month and day of days since 1970 (Howard Hinnant's `civil_from_days`); zeros of the zero
/// date.
pub fn civil(days: i32) -> (i32, u32, u32) {
    if is_zero_day(days) {
        return (0, 0, 0);
    }
    let shifted = i64::from(days) + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let small = |value: i64| u32::try_from(value).expect("months and days are small");
    (i32::try_from(year).expect("years of i32 days are small"), small(month), small(day))
}

/// Days since 1970, if the date is valid.
pub fn days_of(year: i32, month: u32, day: u32) -> Option<i32> {
    if !(0..=9999).contains(&year) || day == 0 || day > days_in_month(year, month)? {
        return None;
    }
    let shifted_year = i64::from(year) - i64::from(month <= 2);
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let month_shifted = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let of_year = (153 * month_shifted + 2) / 5 + i64::from(day) - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    i32::try_from(era * 146_097 + of_era - 719_468).ok()
}

/// The number of days in a month; `None` if the month is invalid.
pub fn days_in_month(year: i32, month: u32) -> Option<u32> {
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => Some(31),
        4 | 6 | 9 | 11 => Some(30),
        2 => Some(if is_leap(year) { 29 } else { 28 }),
        _ => None,
    }
}

pub fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Day of the week, 0 = Monday.
pub fn weekday(days: i32) -> u32 {
    u32::try_from((i64::from(days) + 3).rem_euclid(7)).expect("a remainder of seven")
}

/// Days from 1970-01-01 to the first day of a year, for any year.
pub fn first_day(year: i32) -> i64 {
    let before = i64::from(year) - 1;
    let leaps = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    i64::from(year) * 365 + leaps - 719_162 - 365
}

/// Parses a date and time as MySQL does: `2024-1-2 3:4:5.6`, `20240102030405`, with any punctuation
/// between the numbers and a `T` or blank before the time. Trailing characters are ignored.
pub fn parse_datetime(text: &str) -> Option<i64> {
    Fields::of(text)?.micros()
}

/// Whether text is a date and time without ignored characters.
pub fn is_whole_datetime(text: &str) -> bool {
    Fields::of(text).is_some_and(|fields| fields.whole)
}

/// Whether text would be a date and time if its month or day might be 0, or its day one that the
/// month does not have.
pub fn odd_date(text: &str) -> Option<OddDate> {
    let [year, month, day, hour, minute, second, _] = Fields::of(text)?.numbers;
    if month > 12 || day > 31 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let year = i32::try_from(year).ok()?;
    match days_in_month(year, month) {
        None => Some(OddDate::ZeroParts),
        Some(_) if day == 0 => Some(OddDate::ZeroParts),
        Some(days) => (day > days).then_some(OddDate::Invalid),
    }
}

/// The midnight of the first day behind a text that is an odd date, in microseconds.
pub fn next_day(text: &str) -> Option<i64> {
    odd_date(text)?;
    let [year, month, day, ..] = Fields::of(text)?.numbers;
    let (month, day) = match (month, day) {
        (0, _) => (1, 1),
        (_, 0) => (month, 1),
        _ => (month + 1, 1),
    };
    parse_datetime(&format!("{year:04}-{month:02}-{day:02}"))
}

/// What is a date only in some modes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OddDate {
    /// Its month or day is 0.
    ZeroParts,
    /// Its month has fewer days.
    Invalid,
}

/// The numbers in a text, in the order of a date and time.
struct Fields {
    numbers: [u32; Self::MOST],
    /// The number of numbers found.
    found: usize,
    year_digits: usize,
    /// Whether there is a blank between date and time.
    spaced: bool,
    /// Whether there are delimiters.
    delimited: bool,
    /// Whether the digits after the microseconds round up.
    up: bool,
    /// Whether only further fractional digits follow.
    whole: bool,
}

impl Fields {
    const MOST: usize = 7;
    const FRACTION_DIGITS: usize = 6;
    const LARGEST: u32 = 999_999;

    fn of(text: &str) -> Option<Self> {
        let bytes = text.trim().as_bytes();
        let is_digit = |byte: &&u8| byte.is_ascii_digit();
        let leading = bytes.iter().take_while(|b| b.is_ascii_digit() || **b == b'T').count();
        // Without delimiters the length determines the width of the year; the other fields have two
        // digits.
        let packed = leading == bytes.len() || bytes[leading] == b'.';
        let packed_year = if matches!(leading, 4 | 8 | 14..) { 4 } else { 2 };
        let (mut fields, mut at) = (Self::none(packed_year), 0);
        while fields.found < Self::MOST && bytes.get(at).is_some_and(u8::is_ascii_digit) {
            let width_max = match fields.found {
                6 => Self::FRACTION_DIGITS,
                0 if packed => packed_year,
                _ if packed => 2,
                _ => bytes.len(),
            };
            let digits = bytes[at..].iter().take(width_max).take_while(is_digit).count();
            fields.push(&bytes[at..at + digits], packed)?;
            at += digits;
            let Some(next) = bytes.get(at) else { break };
            match fields.found {
                3 if *next == b'T' => at += 1,
                6 if *next == b'.' => at += 1,
                6 if next.is_ascii_digit() => break,
                6 => {}
                7 => fields.up = matches!(next, b'5'..=b'9') && digits == Self::FRACTION_DIGITS,
                _ => at += fields.between(&bytes[at..])?,
            }
        }
        fields.whole = bytes[at..].iter().all(u8::is_ascii_digit);
        (fields.found >= 3).then_some(fields)
    }

    fn none(year_digits: usize) -> Self {
        let numbers = [0; Self::MOST];
        let (spaced, delimited, up, whole) = (false, false, false, false);
        Self { numbers, found: 0, year_digits, spaced, delimited, up, whole }
    }

    fn push(&mut self, digits: &[u8], packed: bool) -> Option<()> {
        if self.found == 0 && !packed {
            self.year_digits = digits.len();
        }
        self.numbers[self.found] = match self.found {
            6 => fraction(digits),
            _ => number(digits).filter(|number| *number <= Self::LARGEST)?,
        };
        self.found += 1;
        Some(())
    }

    /// The number of characters before the next number: punctuation, and blanks after the day.
    /// `None` if a blank is in another place.
    fn between(&mut self, rest: &[u8]) -> Option<usize> {
        let between = |b: &&u8| b.is_ascii_punctuation() || b.is_ascii_whitespace();
        let count = rest.iter().take_while(between).count();
        let spaced = rest[..count].iter().any(u8::is_ascii_whitespace);
        self.delimited |= count > 0;
        self.spaced |= spaced;
        (!spaced || self.found == 3).then_some(count)
    }

    fn micros(&self) -> Option<i64> {
        let [year, month, day, hour, minute, second, micros] = self.numbers;
        if self.year_digits == 4 && self.numbers == [0; Self::MOST] && !self.up {
            return Some(ZERO_MICROS);
        }
        let year = if self.year_digits == 2 { century(year) } else { year };
        let year = i32::try_from(year).ok()?;
        let parts = Parts { year, month, day, hour, minute, second, micros };
        Some(parts.micros()? + i64::from(self.up))
    }
}

/// Extends a year of two digits.
pub fn century(year: u32) -> u32 {
    match year {
        0..70 => 2000 + year,
        70..100 => 1900 + year,
        year => year,
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The first six digits of a fraction.
fn fraction(digits: &[u8]) -> u32 {
    (0..6).fold(0, |sum, place| {
        sum * 10 + digits.get(place).map_or(0, |digit| u32::from(digit - b'0'))
    })
}

/// Whether microseconds since 1970 are in years 0 to 9999, MySQL's range, or the zero date.
pub fn is_time(micros: i64) -> bool {
    const FIRST: i64 = -719_528 * DAY;
    const END: i64 = 2_932_897 * DAY;
    is_zero(micros) || (FIRST..END).contains(&micros)
}

/// The date of a date and time, in days since 1970.
pub fn days(micros: i64) -> i32 {
    i32::try_from(micros.div_euclid(DAY)).unwrap_or(i32::MAX)
}

/// Parses a TIME: `[-][D ]h:m:s[.f]`, `h:m`, `hhmmss`, or the time of day of a date and time.
pub fn parse_time(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, body) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if let Some(micros) = parse_with_time(body) {
        return Some(micros.rem_euclid(DAY));
    }
    let body = without_tail(body)?;
    let (days, clock) = match body.split_once(' ') {
        Some((days, clock)) => (days.trim().parse::<u64>().ok()?, clock.trim()),
        None => (0, body),
    };
    let (whole, part) = clock.split_once('.').unwrap_or((clock, ""));
    let pieces = whole.split(':').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>().ok()?;
    if pieces[0] > u32::MAX.into() {
        return None;
    }
    let (hours, minutes, seconds) = match pieces[..] {
        [packed] if days == 0 => (packed / 10_000, packed / 100 % 100, packed % 100),
        [hours] => (hours, 0, 0),
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    if minutes > 59 || seconds > 59 {
        return None;
    }
    // Clamps to the maximum of TIME.
    let hours = days.saturating_mul(24).saturating_add(hours).min(HOURS_MAX + 1).cast_signed();
    let seconds = hours * 3600 + (minutes * 60 + seconds).cast_signed();
    let micros = (seconds * SECOND + i64::from(fraction(part.as_bytes()))).min(TIME_MAX);
    Some(if negative { -micros } else { micros })
}

/// Whether text is a TIME without ignored characters.
pub fn is_whole_time(text: &str) -> bool {
    let text = text.trim();
    let body = text.strip_prefix('-').unwrap_or(text);
    if parse_with_time(body).is_some() {
        return is_whole_datetime(body);
    }
    let is_longest = |micros: i64| micros.abs() == TIME_MAX;
    let reads = |body: &str| body.starts_with("838:59:59") || body.starts_with("8385959");
    let is_sign = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | ' ');
    body.chars().all(is_sign)
        && parse_time(text).is_some_and(|micros| !is_longest(micros) || reads(body))
}

/// Parses a date and time where a TIME is expected; shorter text can only be a TIME.
pub fn parse_with_time(text: &str) -> Option<i64> {
    const BYTES_MIN: usize = 12;
    let text = text.trim();
    let fields = Fields::of(text).filter(|_| text.len() >= BYTES_MIN)?;
    if fields.delimited && !fields.spaced { None } else { fields.micros() }
}

/// Removes trailing characters that MySQL ignores, as in `12abc`. A number with an exponent is not
/// a time.
fn without_tail(body: &str) -> Option<&str> {
    let mut dots = 0;
    let end = body.find(|c: char| {
        dots += usize::from(c == '.');
        !(c.is_ascii_digit() || c == ':' || (c == '.' && dots == 1) || c == ' ')
    });
    let (time, tail) = body.split_at(end.unwrap_or(body.len()));
    let exponent = tail.strip_prefix(['e', 'E']).map(|power| {
        power.strip_prefix(['+', '-']).unwrap_or(power).starts_with(|c: char| c.is_ascii_digit())
    });
    (!time.is_empty() && exponent != Some(true)).then(|| time.trim_end())
}

/// Numbers from here on are dates and times where a TIME is expected.
pub const FIRST_WITH_DATE: i64 = 10_000_000_000;

/// Converts a number such as 102030 to a TIME and adds microseconds; a number too large for a TIME
/// is a date and time, of which the time of day is taken.
pub fn time_of(value: i64, micros: i64) -> Option<i64> {
    const LONGEST: i64 = 8_385_959;
    if value >= FIRST_WITH_DATE {
        return Some(from_number(value)?.rem_euclid(DAY) + micros);
    }
    if !(-LONGEST..=LONGEST).contains(&value) {
        return None;
    }
    let digits = value.abs();
    let (hours, minutes, seconds) = (digits / 10_000, digits / 100 % 100, digits % 100);
    if minutes > 59 || seconds > 59 {
        return None;
    }
    let whole = (hours * 3600 + minutes * 60 + seconds) * SECOND;
    Some(if value < 0 { -whole } else { whole } + micros)
}

/// The largest number that is a date without a time.
pub const DATE_NUMBER_MAX: i64 = 99_991_231;

/// Converts a number such as 20240102 or 20240102030405 to a date and time and adds microseconds,
/// except to a date alone.
pub fn datetime_of(value: i64, micros: i64) -> Option<i64> {
    Some(from_number(value)? + if value > DATE_NUMBER_MAX { micros } else { 0 })
}

/// Converts a number such as 20240102 or 20240102030405 to a date and time.
pub fn from_number(value: i64) -> Option<i64> {
    const LARGEST: i64 = 99_999_999_999_999;
    let text = match value {
        ..=100 => return None,
        _ if value > LARGEST => return None,
        101..=999_999 => format!("{value:06}"),
        1_000_000..=99_999_999 => format!("{value:08}"),
        100_000_000..=999_999_999_999 => format!("{value:012}"),
        _ => format!("{value:014}"),
    };
    parse_datetime(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        parse_datetime(text).map(|micros| {
            let p = Parts::of(micros);
            format!(
                "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}",
                p.year, p.month, p.day, p.hour, p.minute, p.second, p.micros
            )
        })
    }

    #[test]
    fn dates_are_read_in_all_of_mysqls_forms() {
        for (text, wanted) in [
            ("2024-01-02", "2024-01-02 00:00:00.000000"),
            ("2024-1-2 3:4:5.6", "2024-01-02 03:04:05.600000"),
            ("2024/01/02T03:04", "2024-01-02 03:04:00.000000"),
            ("20240102030405.123456", "2024-01-02 03:04:05.123456"),
            ("240102", "2024-01-02 00:00:00.000000"),
            ("99-12-31", "1999-12-31 00:00:00.000000"),
            ("1.5.1.5", "2001-05-01 05:00:00.000000"),
            ("1-5-1 5", "0001-05-01 05:00:00.000000"),
            ("20240115.5", "2024-01-15 05:00:00.000000"),
            ("20240115T102030", "2024-01-15 10:20:30.000000"),
            ("202401151020301", "2024-01-15 10:20:30.000000"),
            ("2024-01-15 10:20:30,2024-01-15", "2024-01-15 10:20:30.000000"),
            ("2024-01-15abc", "2024-01-15 00:00:00.000000"),
            ("2023-12-31 23:59:59.9999995", "2024-01-01 00:00:00.000000"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(wanted), "{text}");
        }
        for text in ["", "x", "2024-02-30", "2024-13-01", "2024-01-02 25:00:00", "2024-01"] {
            assert_eq!(shown(text), None, "{text}");
        }
        let zeros = Some("0000-00-00 00:00:00.000000");
        for text in ["0000-00-00", "0000-00-00 00:00:00.0", "00000000", "0-0-0"] {
            assert_eq!(shown(text).as_deref(), zeros.filter(|_| text != "0-0-0"), "{text}");
        }
        for text in ["0000-00-01", "0000-01-00", "0000-00-00 00:00:01"] {
            assert_eq!(shown(text), None, "{text}");
        }
        for text in ["015 02 03 1", "1e3", "1 2 3", "12345678 1 1"] {
            assert_eq!(shown(text), None, "{text}");
        }
        assert_eq!(from_number(128), parse_datetime("2000-01-28"));
        assert_eq!(from_number(100_000_000_000_000), None);
        assert_eq!(datetime_of(20_240_115, 500_000), parse_datetime("2024-01-15"));
        let moment = parse_datetime("2024-01-15 10:20:30.5");
        assert_eq!(datetime_of(20_240_115_102_030, 500_000), moment);
    }

    #[test]
    fn times_are_read_with_sign_days_and_fraction() {
        assert_eq!(parse_time("10:11:12"), Some((10 * 3600 + 11 * 60 + 12) * SECOND));
        assert_eq!(parse_time("-01:00"), Some(-3600 * SECOND));
        assert_eq!(parse_time("1 02:00:00.5"), Some(26 * 3600 * SECOND + 500_000));
        assert_eq!(parse_time("101112"), parse_time("10:11:12"));
        assert_eq!(parse_time("10:61:00"), None);
        assert_eq!(parse_time("12abc"), Some(12 * SECOND));
        assert_eq!(parse_time("10:20x"), parse_time("10:20"));
        assert_eq!(parse_time("1.5e3"), None);
        assert_eq!(parse_time("1.5each"), Some(1_500_000));
        assert_eq!(parse_time("abc"), None);
        assert_eq!(parse_time("-9223372036854775807"), None);
        assert_eq!(parse_time("2024-01-15"), parse_time("00:20:24"));
        assert_eq!(parse_time("2024-01-15 10:20:30"), parse_time("10:20:30"));
        assert_eq!(parse_time("20240115102030"), parse_time("10:20:30"));
    }

    #[test]
    fn what_is_left_out_of_a_text_is_known() {
        for text in ["2024-01-02", " 2024-1-2 3:4:5.6 ", "20240102", "2024-01-02 03:04:05.1234567"]
        {
            assert!(is_whole_datetime(text), "{text}");
        }
        for text in ["2024-01-02x", "2024-01-02 03:04:05 +", "x", "2024-01-02 03:04:05.1x"] {
            assert!(!is_whole_datetime(text), "{text}");
        }
        for text in ["10:11:12", "-1 02:00:00.5", "101112", "838:59:59", "2024-01-15 10:20:30"] {
            assert!(is_whole_time(text), "{text}");
        }
        for text in ["12abc", "abc", "", "900:00:00", "10:61:00", "2024-01-15 10:20:30x"] {
            assert!(!is_whole_time(text), "{text}");
        }
    }

    #[test]
    fn numbers_are_times_by_their_digits() {
        assert_eq!(time_of(102_030, 500_000), parse_time("10:20:30.5"));
        assert_eq!(time_of(-102_030, -500_000), parse_time("-10:20:30.5"));
        assert_eq!(time_of(20_240_115_102_030, 0), parse_time("10:20:30"));
        for value in [8_386_000, 106_000, 2_147_483_647, i64::MAX, i64::MIN] {
            assert_eq!(time_of(value, 0), None, "{value}");
        }
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for day in (-719_528..2_932_896).step_by(97) {
            let (year, month, of_month) = civil(day);
            assert_eq!(days_of(year, month, of_month), Some(day));
            assert_eq!(days_of(year, 1, 1).map(i64::from), Some(first_day(year)));
        }
        assert_eq!(weekday(0), 3, "1970-01-01 was a Thursday");
        let day = |year, month, day| i64::from(days_of(year, month, day).unwrap()) * DAY;
        assert!(is_time(day(0, 1, 1)) && is_time(day(9999, 12, 31) + DAY - 1));
        assert!(is_time(day(0, 1, 1) - DAY) && !is_time(day(0, 1, 1) - DAY - 1));
        assert!(!is_time(day(0, 1, 1) - 1) && !is_time(day(9999, 12, 31) + DAY));
    }
}
