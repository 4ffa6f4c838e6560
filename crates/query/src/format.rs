//! Values as MySQL prints them.

use std::fmt::Write;

use arrow::datatypes::i256;

use crate::temporal::{Parts, SECOND};

/// Digits before the point, or up to the first that is not zero behind it, up to which a DOUBLE
/// is not printed with an exponent.
const PLAIN_DIGITS_MAX: i32 = 15;

/// A DOUBLE: its shortest digits that read back the same.
pub fn double(out: &mut String, value: f64) {
    scientific(out, &format!("{value:e}"));
}

/// A FLOAT: six digits, as MySQL prints it.
pub fn float(out: &mut String, value: f32) {
    let text = format!("{value:.5e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
            scientific(out, &format!("{mantissa}e{exponent}"));
        }
        None => out.push_str(&text),
    }
}

/// Rewrites Rust's `1.25e3` in MySQL's form.
fn scientific(out: &mut String, text: &str) {
    let Some((mantissa, exponent)) = text.split_once('e') else {
        // Infinities and NaN do not arise in MySQL; print them rather than lose them.
        out.push_str(text);
        return;
    };
    let exponent = exponent.parse::<i32>().expect("Rust prints a number as exponent");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");
    let point = exponent + 1;
    if digits == "0" {
        out.push_str(if sign.is_empty() { "0" } else { "-0" });
        return;
    }
    out.push_str(sign);
    if !(1 - PLAIN_DIGITS_MAX..=PLAIN_DIGITS_MAX).contains(&point) {
        write!(out, "{mantissa}e{exponent}").expect("a String takes everything");
    } else if point <= 0 {
        out.push_str("0.");
        (0..-point).for_each(|_| out.push('0'));
        out.push_str(&digits);
    } else {
        let whole = usize::try_from(point).expect("positive");
        if digits.len() <= whole {
            out.push_str(&digits);
            (digits.len()..whole).for_each(|_| out.push('0'));
        } else {
            out.push_str(&digits[..whole]);
            out.push('.');
            out.push_str(&digits[whole..]);
        }
    }
}

/// A DECIMAL with all digits of its scale.
pub fn decimal(out: &mut String, unscaled: i128, scale: u32) {
    if unscaled < 0 {
        out.push('-');
    }
    let digits = unscaled.unsigned_abs();
    if scale == 0 {
        write!(out, "{digits}").expect("a String takes everything");
        return;
    }
    let unit = 10_u128.pow(scale);
    let width = scale as usize;
    write!(out, "{}.{:0width$}", digits / unit, digits % unit).expect("a String takes everything");
}

/// The same of 256 bits.
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

/// A DATE of days since 1970.
pub fn date(out: &mut String, days: i32) {
    let parts = Parts::of_day(days);
    write!(out, "{:04}-{:02}-{:02}", parts.year, parts.month, parts.day)
        .expect("a String takes everything");
}

/// A DATETIME of microseconds since 1970, with `fsp` digits of the second.
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

/// A TIME of microseconds, with `fsp` digits of the second.
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

/// The digits of the second that a value needs when its type does not say.
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
    fn doubles_print_as_in_mysql() {
        for (value, wanted) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (1.5e300, "1.5e300"),
            (0.00001, "0.00001"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (123_456.789, "123456.789"),
        ] {
            assert_eq!(shown(|out| double(out, value)), wanted);
        }
        for (value, wanted) in
            [(0.1, "0.1"), (0.0, "0"), (16_777_216.0, "16777200"), (3e10, "30000000000")]
        {
            assert_eq!(shown(|out| float(out, value)), wanted);
        }
    }

    #[test]
    fn decimals_keep_their_scale() {
        assert_eq!(shown(|out| decimal(out, 1200, 2)), "12.00");
        assert_eq!(shown(|out| decimal(out, -5, 3)), "-0.005");
        assert_eq!(shown(|out| decimal(out, 7, 0)), "7");
    }

    #[test]
    fn times_print_their_fraction_as_wide_as_their_type() {
        assert_eq!(shown(|out| datetime(out, 1_500_000, 3)), "1970-01-01 00:00:01.500");
        assert_eq!(shown(|out| time(out, -3_600 * SECOND, 0)), "-01:00:00");
        assert_eq!(shown(|out| date(out, -1)), "1969-12-31");
    }
}
