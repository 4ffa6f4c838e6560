//! Time zones of a session: an offset or a name.

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};

use crate::temporal::SECOND;

/// A time zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zone {
    /// So many seconds east of UTC.
    Fixed(i32),
    /// A zone of the IANA database.
    Named(chrono_tz::Tz),
}

impl Zone {
    /// UTC.
    pub const UTC: Self = Self::Fixed(0);

    /// The zone of `+08:00`, `Europe/Berlin`, `UTC` or `SYSTEM`, which is UTC here.
    pub fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("system") || text.eq_ignore_ascii_case("utc") {
            return Some(Self::UTC);
        }
        let sign = match text.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return text.parse().ok().map(Self::Named),
        };
        let (hours, minutes) = text[1..].split_once(':')?;
        let (hours, minutes) = (hours.parse::<i32>().ok()?, minutes.parse::<i32>().ok()?);
        let valid = (0..=14).contains(&hours) && (0..60).contains(&minutes);
        valid.then_some(Self::Fixed(sign * (hours * 3600 + minutes * 60)))
    }

    /// Wall time of an instant, both in microseconds.
    pub fn local(self, utc: i64) -> i64 {
        let offset = match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => match DateTime::from_timestamp_micros(utc) {
                Some(instant) => {
                    zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc()
                }
                None => 0,
            },
        };
        utc + i64::from(offset) * SECOND
    }

    /// The instant of a wall time, both in microseconds; the first one where the clock is set
    /// back, the instant of the jump where it is set forward.
    pub fn utc(self, local: i64) -> i64 {
        match self {
            Self::Fixed(seconds) => local - i64::from(seconds) * SECOND,
            Self::Named(zone) => named_utc(zone, local),
        }
    }
}

fn named_utc(zone: chrono_tz::Tz, local: i64) -> i64 {
    let Some(wall) = DateTime::from_timestamp_micros(local).map(|at| at.naive_utc()) else {
        return local;
    };
    let resolve = |wall: &NaiveDateTime| match zone.from_local_datetime(wall) {
        MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(at, _) => {
            Some(at.timestamp_micros())
        }
        MappedLocalTime::None => None,
    };
    // A wall time that was jumped over: the hour before it exists.
    resolve(&wall).unwrap_or_else(|| {
        let before = wall - chrono::TimeDelta::hours(1);
        resolve(&before).map_or(local, |at| at + 3600 * SECOND)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporal::parse_datetime;

    #[test]
    fn zones_go_both_ways_through_summer_time() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let noon = parse_datetime("2024-07-01 12:00:00").unwrap();
        assert_eq!(berlin.local(noon), noon + 7_200 * SECOND);
        assert_eq!(berlin.utc(berlin.local(noon)), noon);
        assert_eq!(Zone::parse("+05:30"), Some(Zone::Fixed(19_800)));
        assert_eq!(Zone::parse("+99:00"), None);
        assert_eq!(Zone::parse("Mars/Olympus"), None);
    }
}
