//! Dates and times in the binary and text encodings.

use crate::cursor::Cursor;
use crate::{Error, Result};

/// A calendar date; all zeros is MySQL's zero date. Not validated: a client may send month 13.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// 0 to 9999.
    pub year: u16,
    /// 1 to 12, 0 in a zero date.
    pub month: u8,
    /// 1 to 31, 0 in a zero date.
    pub day: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DateTime {
    pub date: Date,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999.
    pub micros: u32,
}

/// A signed duration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Time {
    pub negative: bool,
    pub days: u32,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999.
    pub micros: u32,
}

impl Date {
    pub(crate) fn put_binary(self, out: &mut Vec<u8>) {
        if self == Self::default() {
            out.push(0);
            return;
        }
        let [low, high] = self.year.to_le_bytes();
        out.extend_from_slice(&[4, low, high, self.month, self.day]);
    }

    /// Appends `2026-11-21`.
    pub fn put_text(self, out: &mut Vec<u8>) {
        put_padded(out, u32::from(self.year), 4);
        out.push(b'-');
        put_padded(out, u32::from(self.month), 2);
        out.push(b'-');
        put_padded(out, u32::from(self.day), 2);
    }

    fn read(cursor: &mut Cursor<'_>, what: &'static str) -> Result<Self> {
        let [low, high, month, day] = cursor.array(what)?;
        Ok(Self { year: u16::from_le_bytes([low, high]), month, day })
    }
}

impl DateTime {
    /// Appends the shortest of the forms of 0, 4, 7 and 11 bytes.
    pub(crate) fn put_binary(self, out: &mut Vec<u8>) {
        if self == Self::default() {
            out.push(0);
            return;
        }
        let at = out.len();
        out.push(4);
        out.extend_from_slice(&self.date.year.to_le_bytes());
        out.extend_from_slice(&[self.date.month, self.date.day]);
        if (self.hour, self.minute, self.second, self.micros) != (0, 0, 0, 0) {
            out.extend_from_slice(&[self.hour, self.minute, self.second]);
            out[at] = 7;
        }
        if self.micros != 0 {
            out.extend_from_slice(&self.micros.to_le_bytes());
            out[at] = 11;
        }
    }

    /// Appends `2026-11-21 08:00:00` and `decimals` fraction digits.
    pub fn put_text(self, out: &mut Vec<u8>, decimals: u8) {
        self.date.put_text(out);
        out.push(b' ');
        put_clock(out, u32::from(self.hour), self.minute, self.second);
        put_fraction(out, self.micros, decimals);
    }

    /// Parses any of the forms of 0, 4, 7 and 11 bytes. Also returns the length, which
    /// distinguishes a date from a date and time.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<(Self, u8)> {
        const WHAT: &str = "date or datetime cut short";
        let length = cursor.u8(WHAT)?;
        let mut value = Self::default();
        if !matches!(length, 0 | 4 | 7 | 11) {
            return Err(Error::Malformed { what: "date or datetime of a length not 0, 4, 7, 11" });
        }
        if length >= 4 {
            value.date = Date::read(cursor, WHAT)?;
        }
        if length >= 7 {
            [value.hour, value.minute, value.second] = cursor.array(WHAT)?;
        }
        if length == 11 {
            value.micros = cursor.u32(WHAT)?;
        }
        Ok((value, length))
    }
}

impl Time {
    /// Appends the shortest of the forms of 0, 8 and 12 bytes.
    pub(crate) fn put_binary(self, out: &mut Vec<u8>) {
        if (Self { negative: false, ..self }) == Self::default() {
            out.push(0);
            return;
        }
        out.push(if self.micros == 0 { 8 } else { 12 });
        out.push(u8::from(self.negative));
        out.extend_from_slice(&self.days.to_le_bytes());
        out.extend_from_slice(&[self.hour, self.minute, self.second]);
        if self.micros != 0 {
            out.extend_from_slice(&self.micros.to_le_bytes());
        }
    }

    /// Appends `-838:59:59` and `decimals` fraction digits.
    pub fn put_text(self, out: &mut Vec<u8>, decimals: u8) {
        if self.negative {
            out.push(b'-');
        }
        let hours = self.days.saturating_mul(24).saturating_add(u32::from(self.hour));
        put_clock(out, hours, self.minute, self.second);
        put_fraction(out, self.micros, decimals);
    }

    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        const WHAT: &str = "time cut short";
        let length = cursor.u8(WHAT)?;
        let mut value = Self::default();
        if !matches!(length, 0 | 8 | 12) {
            return Err(Error::Malformed { what: "time of a length not 0, 8, 12" });
        }
        if length >= 8 {
            value.negative = cursor.u8(WHAT)? != 0;
            value.days = cursor.u32(WHAT)?;
            [value.hour, value.minute, value.second] = cursor.array(WHAT)?;
        }
        if length == 12 {
            value.micros = cursor.u32(WHAT)?;
        }
        Ok(value)
    }
}

fn put_clock(out: &mut Vec<u8>, hours: u32, minute: u8, second: u8) {
    put_padded(out, hours, 2);
    out.push(b':');
    put_padded(out, u32::from(minute), 2);
    out.push(b':');
    put_padded(out, u32::from(second), 2);
}

/// Appends the first `decimals` (0 to 6) of the six digits of a fraction.
fn put_fraction(out: &mut Vec<u8>, micros: u32, decimals: u8) {
    if decimals == 0 {
        return;
    }
    out.push(b'.');
    let at = out.len();
    put_padded(out, micros, 6);
    out.truncate(at + usize::from(decimals.min(6)));
}

/// Appends the digits of `value` with leading zeros up to `width`.
fn put_padded(out: &mut Vec<u8>, value: u32, width: usize) {
    let mut buffer = [b'0'; 20];
    let at = freshet_base::number_text::put_digits(&mut buffer, u64::from(value));
    out.extend_from_slice(&buffer[at.min(20 - width)..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: DateTime = DateTime {
        date: Date { year: 2026, month: 11, day: 21 },
        hour: 12,
        minute: 3,
        second: 4,
        micros: 50,
    };

    fn text(put: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        put(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_forms() {
        assert_eq!(text(|out| NOON.date.put_text(out)), "2026-11-21");
        assert_eq!(text(|out| Date::default().put_text(out)), "0000-00-00");
        assert_eq!(text(|out| NOON.put_text(out, 0)), "2026-11-21 12:03:04");
        assert_eq!(text(|out| NOON.put_text(out, 6)), "2026-11-21 12:03:04.000050");
        assert_eq!(text(|out| NOON.put_text(out, 3)), "2026-11-21 12:03:04.000");
        let time = Time { negative: true, days: 34, hour: 22, minute: 59, second: 59, micros: 0 };
        assert_eq!(text(|out| time.put_text(out, 0)), "-838:59:59");
    }

    #[test]
    fn binary_forms_are_the_shortest_and_read_back() {
        let midnight = DateTime { date: NOON.date, ..DateTime::default() };
        let whole = DateTime { micros: 0, ..NOON };
        for (value, length) in [(DateTime::default(), 0), (midnight, 4), (whole, 7), (NOON, 11)] {
            let mut out = Vec::new();
            value.put_binary(&mut out);
            assert_eq!(out.len(), length + 1);
            assert_eq!(DateTime::read(&mut Cursor::new(&out)), Ok((value, length as u8)));
        }
        let long = Time { negative: true, days: 3, hour: 1, minute: 2, second: 3, micros: 4 };
        let whole = Time { micros: 0, ..long };
        for (value, length) in [(Time::default(), 0), (whole, 8), (long, 12)] {
            let mut out = Vec::new();
            value.put_binary(&mut out);
            assert_eq!(out.len(), length + 1);
            assert_eq!(Time::read(&mut Cursor::new(&out)), Ok(value));
        }
    }

    #[test]
    fn other_lengths_are_malformed() {
        assert!(DateTime::read(&mut Cursor::new(&[5, 0, 0, 0, 0, 0])).is_err());
        assert!(DateTime::read(&mut Cursor::new(&[7, 0, 0, 0, 0, 0])).is_err());
        assert!(Time::read(&mut Cursor::new(&[1, 0])).is_err());
    }
}
