//! Text format of values, as in MySQL.

use std::fmt::Write;

use arrow::datatypes::i256;
use freshet_base::number_text::NumberText;

use crate::temporal::{Parts, SECOND};

/// A DOUBLE with the fewest digits that read back as the same value.
pub fn double(out: &mut String, value: f64) {
    out.push_str(NumberText::double(value).as_str());
}

/// A DOUBLE with exactly this number of digits after the decimal point.
pub fn fixed(out: &mut String, value: f64, digits: u8) {
    let digits = usize::from(digits);
    let start = out.len();
    write!(out, "{value}").expect("a String takes everything");
    let has = out[start..].split_once('.').map_or(0, |(_, part)| part.len());
    if has > digits {
        out.truncate(start);
        write!(out, "{value:.digits$}").expect("a String takes everything");
        return;
    }
    if has == 0 && digits > 0 {
        out.push('.');
    }
    out.extend(std::iter::repeat_n('0', digits - has));
}

/// A FLOAT with six significant digits, as in MySQL.
pub fn float(out: &mut String, value: f32) {
    out.push_str(NumberText::float(value).as_str());
}

/// A DECIMAL with all digits of its scale.
pub fn decimal(out: &mut String, unscaled: i128, scale: u32) {
    let scale = u8::try_from(scale).expect("a scale is at most 38");
    out.push_str(NumberText::decimal(unscaled, scale).as_str());
}

/// A 256-bit DECIMAL with all digits of its scale.
pub fn large(out: &mut String, unscaled: i256, scale: u32) {
    let digits = unscaled.wrapping_abs().to_string();
    let width = scale as usize + 1;
    let digits = format!("{digits:0>width$}");
    let (whole, part) = digits.split_at(digits.len() - scale as usize);
    out.push_str(if unscaled < i256::ZERO { "-" } else { "" });
    out.push_str(whole);
    if scale > 0 {
        write!(out, ".{part}").expect("a String takes everything");
    }
}

/// A DATE from days since 1970.
pub fn date(out: &mut String, days: i32) {
    let parts = Parts::of_day(days);
    write!(out, "{:04}-{:02}-{:02}", parts.year, parts.month, parts.day)
        .expect("a String takes everything");
}

/// A DATETIME from microseconds since 1970, with `fsp` fractional digits.
pub fn datetime(out: &mut String, micros: i64, fsp: u8) {
    let p = Parts::of(micros);
    write!(
        out,
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        p.year, p.month, p.day, p.hour, p.minute, p.second
    )
    .expect("a String takes everything");
    fraction(out, p.micros, fsp);
}

/// A TIME from microseconds, with `fsp` fractional digits.
pub fn time(out: &mut String, micros: i64, fsp: u8) {
    if micros < 0 {
        out.push('-');
    }
    let micros = micros.unsigned_abs();
    let second = micros / SECOND.unsigned_abs();
    write!(out, "{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
        .expect("a String takes everything");
    let rest = u32::try_from(micros % SECOND.unsigned_abs()).expect("less than a second");
    fraction(out, rest, fsp);
}

fn fraction(out: &mut String, micros: u32, fsp: u8) {
    if fsp > 0 {
        let cut = micros / 10_u32.pow(6 - u32::from(fsp.min(6)));
        write!(out, ".{cut:0width$}", width = usize::from(fsp)).expect("a String takes everything");
    }
}

/// The fractional digits to display for a value whose type does not define them.
pub fn fsp_of(micros: i64) -> u8 {
    if micros % SECOND == 0 { 0 } else { 6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(write: impl Fn(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
    }

    #[test]
    fn doubles_print_as_many_digits_as_are_wanted() {
        assert_eq!(shown(|out| fixed(out, 1.0, 1)), "1.0");
        assert_eq!(shown(|out| fixed(out, 1e22, 0)), "10000000000000000000000");
        assert_eq!(shown(|out| fixed(out, -2.345, 2)), format!("{:.2}", -2.345));
        assert_eq!(shown(|out| fixed(out, 0.5, 3)), "0.500");
    }

    #[test]
    fn times_print_their_fraction_as_wide_as_their_type() {
        assert_eq!(shown(|out| datetime(out, 1_500_000, 3)), "1970-01-01 00:00:01.500");
        assert_eq!(shown(|out| time(out, -3_600 * SECOND, 0)), "-01:00:00");
        assert_eq!(shown(|out| date(out, -1)), "1969-12-31");
    }
}
