//! Parsing of TIME by MySQL's rules.

use super::temporal;
use crate::row::TIME_MICROS_MAX;

/// A text of this many bytes may be a date and time, of which the time of day counts.
const DATE_TIME_BYTES_MIN: usize = 12;

/// A length of time as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    pub negative: bool,
    /// Its size in microseconds, which may be more than a TIME holds.
    micros: u64,
    /// Whether the first digit after the microseconds is 5 or more.
    round_up: bool,
    /// Whether nothing but blanks follows it.
    whole: bool,
}

impl Written {
    /// Microseconds, rounded half away from zero to `fsp` digits; `None` if a TIME does not hold
    /// it, or if other text follows.
    pub fn stored(self, fsp: u8) -> Option<i64> {
        let rounded = self.rounded(fsp);
        (self.whole && rounded <= TIME_MICROS_MAX).then(|| self.signed(rounded))
    }

    /// As [`Self::stored`], with the longest TIME in place of a longer one, whatever follows.
    pub fn clamped(self, fsp: u8) -> i64 {
        self.signed(self.rounded(fsp).min(TIME_MICROS_MAX))
    }

    fn rounded(self, fsp: u8) -> u64 {
        let step = 10u64.pow(6 - u32::from(fsp.min(6)));
        let half = if step == 1 { u64::from(self.round_up) } else { step / 2 };
        self.micros.saturating_add(half) / step * step
    }

    fn signed(self, micros: u64) -> i64 {
        let micros = micros.cast_signed();
        if self.negative { -micros } else { micros }
    }
}

/// Parses `[-][D ]h:m[:s][.f]`, `[-]D h`, `[-]hhmmss[.f]`, or the time of day of a date and time.
/// What follows is left out. `None` if the text begins with none of them.
pub fn parse(text: &[u8]) -> Option<Written> {
    let text = text.trim_ascii();
    let (negative, body) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if body.len() >= DATE_TIME_BYTES_MIN
        && let Some(moment) = temporal::parse(body)
    {
        let (micros, round_up) = (moment.micros.cast_unsigned(), moment.round_up);
        return Some(Written { negative: false, micros, round_up, whole: true });
    }
    let mut scan = Scan { rest: body };
    let seconds = scan.seconds()?;
    let (fraction, round_up) = scan.fraction();
    let micros = seconds.saturating_mul(1_000_000).saturating_add(fraction);
    Some(Written { negative, micros, round_up, whole: scan.rest.is_empty() })
}

/// `[-]hh:mm:ss[.ffffff]` of microseconds.
pub fn text(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let size = micros.unsigned_abs();
    let (seconds, fraction) = (size / 1_000_000, size % 1_000_000);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let whole = format!("{sign}{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if fraction == 0 { whole } else { format!("{whole}.{fraction:06}") }
}

/// A parser over the remaining text.
struct Scan<'a> {
    rest: &'a [u8],
}

impl Scan<'_> {
    fn number(&mut self) -> Option<u64> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let push =
            |value: u64, digit: &u8| value.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        if digits == 0 { None } else { number.iter().try_fold(0, push) }
    }

    /// The number behind `separator`, if there is one.
    fn behind(&mut self, separator: u8) -> Option<u64> {
        let [first, digit, ..] = self.rest else { return None };
        if *first != separator || !digit.is_ascii_digit() {
            return None;
        }
        self.rest = &self.rest[1..];
        self.number()
    }

    /// The whole seconds; `None` if there are none, or more than 59 minutes or seconds.
    fn seconds(&mut self) -> Option<u64> {
        let first = self.number()?;
        let blanks = self.rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let has_days = blanks > 0 && self.rest.get(blanks).is_some_and(u8::is_ascii_digit);
        let (days, hours, minutes) = if has_days {
            self.rest = &self.rest[blanks..];
            (first, self.number()?, self.behind(b':').unwrap_or(0))
        } else if let Some(minutes) = self.behind(b':') {
            (0, first, minutes)
        } else {
            let (hours, minutes, seconds) = (first / 10_000, first / 100 % 100, first % 100);
            return Self::sum(hours, minutes, seconds);
        };
        let seconds = self.behind(b':').unwrap_or(0);
        Self::sum(days.saturating_mul(24).saturating_add(hours), minutes, seconds)
    }

    fn sum(hours: u64, minutes: u64, seconds: u64) -> Option<u64> {
        (minutes <= 59 && seconds <= 59)
            .then(|| hours.saturating_mul(3_600).saturating_add(minutes * 60 + seconds))
    }

    /// `.f`: microseconds, and whether to round up.
    fn fraction(&mut self) -> (u64, bool) {
        let Some(digits) = self.rest.strip_prefix(b".") else { return (0, false) };
        let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = digits.split_at(count);
        self.rest = rest;
        let place = |at: usize| digits.get(at).map_or(0, |digit| u64::from(digit - b'0'));
        let micros = (0..6).fold(0, |value, at| value * 10 + place(at));
        (micros, place(6) >= 5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: &str, fsp: u8) -> Option<String> {
        parse(text.as_bytes())?.stored(fsp).map(super::text)
    }

    #[test]
    fn all_forms_of_a_time_are_read() {
        for (written, shown) in [
            ("10:11:12", "10:11:12"),
            ("10:11", "10:11:00"),
            (" 5:6 ", "05:06:00"),
            ("101112", "10:11:12"),
            ("12", "00:00:12"),
            ("-1 2:3:4", "-26:03:04"),
            ("1 2:3", "26:03:00"),
            ("2 3", "51:00:00"),
            ("838:59:59", "838:59:59"),
            ("-838:59:59", "-838:59:59"),
            ("10:11:12.5", "10:11:13"),
            ("-00:00:01.5", "-00:00:02"),
            ("2024-01-15 10:20:30", "10:20:30"),
            ("20240115102030", "10:20:30"),
        ] {
            assert_eq!(stored(written, 0).as_deref(), Some(shown), "{written}");
        }
        assert_eq!(stored("10:11:12.1234567", 6).as_deref(), Some("10:11:12.123457"));
        assert_eq!(stored("-00:00:00.25", 1).as_deref(), Some("-00:00:00.300000"));
    }

    #[test]
    fn what_is_no_time_is_refused_and_cut_where_that_is_asked() {
        for (written, cut) in [
            ("abc", None),
            ("", None),
            ("10:61:00", None),
            ("12abc", Some("00:00:12")),
            ("5:", Some("00:00:05")),
            ("1:2:3:4", Some("01:02:03")),
            ("839:00:00", Some("838:59:59")),
            ("838:59:59.5", Some("838:59:59")),
            ("-900:00:00", Some("-838:59:59")),
            ("99999999999999999999999999", None),
            ("2024-01-01", Some("00:20:24")),
        ] {
            assert_eq!(stored(written, 0), None, "{written}");
            let clamped = parse(written.as_bytes()).map(|value| super::text(value.clamped(0)));
            assert_eq!(clamped.as_deref(), cut, "{written}");
        }
    }
}
