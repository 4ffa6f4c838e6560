//! Session time zones, in which TIMESTAMP values are read and shown.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{GapInfo, TZ_VARIANTS, Tz};

use crate::row::ZERO_MICROS;

const MICROS_PER_SECOND: i64 = 1_000_000;
/// MySQL takes offsets from -13:59 to +14:00.
const OFFSET_SECONDS_MIN: i32 = -(13 * 3_600 + 59 * 60);
const OFFSET_SECONDS_MAX: i32 = 14 * 3_600;

/// A fixed offset or a named zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zone {
    /// Seconds east of UTC.
    Offset(i32),
    /// A zone of the IANA database.
    Named(Tz),
}

impl Zone {
    pub const UTC: Self = Self::Offset(0);

    /// Parses `+08:00`, `-3:30`, `Z`, `UTC`, `SYSTEM` (UTC here), `CST` (Shanghai, as in Doris) or
    /// an IANA name.
    pub fn parse(text: &str) -> Option<Self> {
        if ["utc", "z", "system"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
            return Some(Self::UTC);
        }
        if text.eq_ignore_ascii_case("cst") || text.eq_ignore_ascii_case("prc") {
            return Some(Self::Named(Tz::Asia__Shanghai));
        }
        if text.starts_with(['+', '-']) {
            return parse_offset(text.as_bytes()).map(Self::Offset);
        }
        let any_case =
            || TZ_VARIANTS.into_iter().find(|zone| zone.name().eq_ignore_ascii_case(text));
        Tz::from_str(text).ok().or_else(any_case).map(Self::Named)
    }

    /// The names of all zones, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TZ_VARIANTS.iter().map(|zone| zone.name())
    }

    /// Converts local time to UTC, both in microseconds since 1970-01-01. `None` for a time in the
    /// gap when clocks are set forward; of an ambiguous time, the earlier instant.
    #[inline]
    pub fn to_utc(self, local: i64) -> Option<i64> {
        match self {
            _ if local == ZERO_MICROS => Some(local),
            Self::Offset(seconds) => Some(local - i64::from(seconds) * MICROS_PER_SECOND),
            Self::Named(zone) => named_to_utc(zone, local),
        }
    }

    /// As [`Zone::to_utc`], but a time in a gap gives the instant of the gap, as in MySQL's
    /// functions.
    pub fn to_utc_or_skip(self, local: i64) -> i64 {
        let skipped = || match self {
            Self::Named(zone) => skip_of(zone, local),
            Self::Offset(_) => None,
        };
        self.to_utc(local).or_else(skipped).unwrap_or(local)
    }

    /// Converts UTC to local time, both in microseconds since 1970-01-01.
    #[inline]
    pub fn to_local(self, utc: i64) -> i64 {
        let seconds = match self {
            _ if utc == ZERO_MICROS => 0,
            Self::Offset(seconds) => seconds,
            Self::Named(zone) => match DateTime::from_timestamp_micros(utc) {
                Some(at) => zone.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc(),
                None => 0,
            },
        };
        utc + i64::from(seconds) * MICROS_PER_SECOND
    }
}

fn named_to_utc(zone: Tz, local: i64) -> Option<i64> {
    let naive: NaiveDateTime = DateTime::from_timestamp_micros(local)?.naive_utc();
    let offset = match zone.offset_from_local_datetime(&naive) {
        LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => offset,
        LocalResult::None => return None,
    };
    Some(local - i64::from(offset.fix().local_minus_utc()) * MICROS_PER_SECOND)
}

/// The instant of the gap that contains `local`.
fn skip_of(zone: Tz, local: i64) -> Option<i64> {
    let naive = DateTime::from_timestamp_micros(local)?.naive_utc();
    Some(GapInfo::new(&naive, &zone)?.end?.timestamp_micros())
}

/// Parses `+hh:mm` or `-h:mm` to seconds.
pub(crate) fn parse_offset(text: &[u8]) -> Option<i32> {
    let (sign, rest) = text.split_first()?;
    let colon = rest.iter().position(|&byte| byte == b':')?;
    let number = |digits: &[u8]| {
        let fits = matches!(digits.len(), 1 | 2) && digits.iter().all(u8::is_ascii_digit);
        fits.then(|| digits.iter().fold(0, |value, digit| value * 10 + i32::from(digit - b'0')))
    };
    let (hours, minutes) = (number(&rest[..colon])?, number(&rest[colon + 1..])?);
    let seconds = hours * 3_600 + minutes * 60;
    let seconds = match sign {
        b'+' => seconds,
        b'-' => -seconds,
        _ => return None,
    };
    let fits = minutes < 60 && (OFFSET_SECONDS_MIN..=OFFSET_SECONDS_MAX).contains(&seconds);
    fits.then_some(seconds)
}

/// As `@@time_zone` shows it.
impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(zone) => f.write_str(zone.name()),
            Self::Offset(seconds) => {
                let sign = if *seconds < 0 { '-' } else { '+' };
                let minutes = seconds.unsigned_abs() / 60;
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600 * MICROS_PER_SECOND;

    #[test]
    fn offsets_and_names_are_read() {
        assert_eq!(Zone::parse("+08:00"), Some(Zone::Offset(8 * 3_600)));
        assert_eq!(Zone::parse("-3:30"), Some(Zone::Offset(-12_600)));
        assert_eq!(Zone::parse("europe/berlin"), Some(Zone::Named(Tz::Europe__Berlin)));
        assert_eq!(Zone::parse("UTC"), Some(Zone::UTC));
        for wrong in ["+15:00", "-14:00", "+08:60", "+8", "Mars/Olympus", "", "+"] {
            assert_eq!(Zone::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Zone::parse("-03:30").map(|zone| zone.to_string()), Some("-03:30".into()));
    }

    #[test]
    fn summer_time_skips_and_repeats() {
        let berlin = Zone::Named(Tz::Europe__Berlin);
        // 2024-03-31 02:30 does not exist; 2024-10-27 02:30 exists twice.
        let spring = 1_711_852_200 * MICROS_PER_SECOND;
        assert_eq!(berlin.to_utc(spring), None);
        // As MySQL's CONVERT_TZ('2024-03-31 02:30:00', 'Europe/Berlin', 'UTC'): 01:00:00.
        assert_eq!(berlin.to_utc_or_skip(spring), 1_711_846_800 * MICROS_PER_SECOND);
        let autumn = 1_729_996_200 * MICROS_PER_SECOND;
        assert_eq!(berlin.to_utc(autumn), Some(autumn - 2 * HOUR));
        assert_eq!(berlin.to_local(autumn - 2 * HOUR), autumn);
        assert_eq!(berlin.to_local(autumn - HOUR), autumn);
    }
}
