//! Parsing of numbers at the start of text; whatever follows is ignored, as in MySQL.

use arrow::datatypes::i256;

use super::WIDE_DIGITS;

/// The number that `text` starts with, clamped to those of a DOUBLE; 0 if there is none.
pub fn number_prefix(text: &str) -> f64 {
    let text = text.trim_start();
    if let Ok(value) = text.trim_end().parse::<f64>()
        && value.is_finite()
        && !text.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        return value;
    }
    text[..number_bytes(text)].parse().map_or(0.0, |value: f64| value.clamp(f64::MIN, f64::MAX))
}

/// Whether `text`, apart from surrounding blanks, is a finite double.
pub fn is_number(text: &str) -> bool {
    let text = text.trim();
    let length = number_bytes(text);
    length == text.len() && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// The length in bytes of the number that `text` starts with.
fn number_bytes(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    at += digits(at);
    if bytes.get(at) == Some(&b'.') {
        at += 1 + digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let power = digits((at + 1 + sign).min(bytes.len()));
        if power > 0 {
            at += 1 + sign + power;
        }
    }
    at
}

/// Whether `text`, apart from surrounding blanks, is a number.
pub fn is_decimal(text: &str) -> bool {
    let text = text.trim();
    number_bytes(text) == text.len() && text.contains(|c: char| c.is_ascii_digit())
}

/// The integer that `text` starts with, clamped to 64 bits; 0 if there is none.
pub fn integer_prefix(text: &str) -> i64 {
    let value = whole_prefix(text);
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// The integer that `text` starts with, clamped to 128 bits; 0 if there is none.
pub fn whole_prefix(text: &str) -> i128 {
    let text = text.trim_start();
    let length = integer_bytes(text);
    let limit = if text.starts_with('-') { i128::MIN } else { i128::MAX };
    if length == 0 { 0 } else { text[..length].parse().unwrap_or(limit) }
}

/// The length in bytes of the integer that `text` starts with.
fn integer_bytes(text: &str) -> usize {
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text.as_bytes()[sign..].iter().take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 { 0 } else { sign + digits }
}

/// Whether `text`, apart from surrounding blanks, is an integer that fits in 64 bits, signed or
/// unsigned.
pub fn is_integer(text: &str) -> bool {
    let text = text.trim();
    let (length, value) = (integer_bytes(text), whole_prefix(text));
    let fits = i64::try_from(value).is_ok() || u64::try_from(value).is_ok();
    length > 0 && length == text.len() && fits
}

/// The number that `text` starts with, times `10^scale`: whether it is negative, its integer
/// digits, and whether to round up by the next digit.
fn scaled_digits(text: &str, scale: u32) -> (bool, Vec<u8>, bool) {
    const EXPONENT_MAX: i64 = 1000;
    let text = text.trim_start();
    let (negative, body) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let digits_in = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = body.split_at(digits_in(body));
    let (part, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits_in(rest)),
        None => ("", rest),
    };
    let exponent = rest.strip_prefix(['e', 'E']).map_or(0, |power| {
        let sign = usize::from(power.starts_with(['+', '-']));
        let end = sign + digits_in(&power[sign..]);
        let limit = if power.starts_with('-') { -EXPONENT_MAX } else { EXPONENT_MAX };
        if end > sign { power[..end].parse().unwrap_or(limit) } else { 0 }
    });
    let exponent = exponent.clamp(-EXPONENT_MAX, EXPONENT_MAX);
    let digits = [whole.as_bytes(), part.as_bytes()].concat();
    let point = i64::try_from(whole.len()).unwrap_or(i64::MAX) + exponent + i64::from(scale);
    let Ok(kept) = usize::try_from(point) else { return (negative, Vec::new(), false) };
    let up = digits.get(kept).is_some_and(|digit| *digit >= b'5');
    // Zero has no digits, however large its exponent.
    let first = digits.iter().position(|digit| *digit != b'0').unwrap_or(kept).min(kept);
    let kept = (first..kept).map(|at| digits.get(at).map_or(0, |digit| digit - b'0'));
    (negative, kept.collect(), up)
}

/// The number that `text` starts with as an unscaled decimal, clamped to `limit`.
pub fn decimal_prefix(text: &str, scale: u32, limit: i128) -> i128 {
    let (negative, digits, up) = scaled_digits(text, scale);
    let value = digits
        .into_iter()
        .fold(0_i128, |value, digit| value.saturating_mul(10).saturating_add(digit.into()));
    let value = value.saturating_add(up.into()).min(limit);
    if negative { -value } else { value }
}

/// The number that `text` starts with as an unscaled 256-bit decimal.
pub fn wide_prefix(text: &str, scale: u32) -> i256 {
    let (negative, digits, up) = scaled_digits(text, scale);
    let nine = i256::from_i128(9);
    let mut value = i256::ZERO;
    let fits = digits.len() <= WIDE_DIGITS.into();
    for digit in digits.into_iter().take(WIDE_DIGITS.into()) {
        let digit = if fits { i256::from_i128(digit.into()) } else { nine };
        value = value.wrapping_mul(i256::from_i128(10)).wrapping_add(digit);
    }
    if fits && up {
        value = value.wrapping_add(i256::ONE);
    }
    if negative { value.wrapping_neg() } else { value }
}
