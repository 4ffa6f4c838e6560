//! Parsing of numbers, exact up to 128 bits.

use crate::row::POWERS_OF_TEN;

/// The most digits that always fit an `i64`.
const SHORT_DIGITS_MAX: usize = 18;
/// Exponents are clamped here; beyond it every number is zero or out of range of every type.
const EXPONENT_MAX: i32 = 100_000;

/// A number of up to 18 digits without exponent: `unscaled / 10^fraction_digits`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortNumber {
    pub unscaled: i64,
    /// At most 18.
    pub fraction_digits: u8,
}

/// Parses a short number at the front of `text`: the number and its length in bytes. `None` when
/// there is no number, or it has more digits or an exponent.
#[inline]
pub fn take_short(text: &[u8]) -> Option<(ShortNumber, usize)> {
    let negative = text.first() == Some(&b'-');
    let start = usize::from(negative || text.first() == Some(&b'+'));
    let mut at = start;
    let mut unscaled = 0i64;
    while let Some(digit) = digit_at(text, at) {
        unscaled = unscaled.wrapping_mul(10).wrapping_add(i64::from(digit));
        at += 1;
    }
    let mut digits = at - start;
    let mut fraction_digits = 0;
    if text.get(at) == Some(&b'.') {
        at += 1;
        let point = at;
        while let Some(digit) = digit_at(text, at) {
            unscaled = unscaled.wrapping_mul(10).wrapping_add(i64::from(digit));
            at += 1;
        }
        fraction_digits = at - point;
        digits += fraction_digits;
    }
    // `unscaled` has overflowed if there are more digits than fit; such numbers use the slow path.
    if digits == 0 || digits > SHORT_DIGITS_MAX || matches!(text.get(at), Some(b'e' | b'E')) {
        return None;
    }
    let unscaled = if negative { -unscaled } else { unscaled };
    Some((ShortNumber { unscaled, fraction_digits: fraction_digits as u8 }, at))
}

#[inline]
fn digit_at(text: &[u8], at: usize) -> Option<u8> {
    let digit = text.get(at)?.wrapping_sub(b'0');
    (digit < 10).then_some(digit)
}

/// `digits * 10^exponent`, truncated to the digits that fit 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number {
    pub negative: bool,
    /// The significant digits, as many as fit.
    pub digits: u128,
    pub exponent: i32,
    /// The first digit that did not fit, for rounding.
    pub next_digit: u8,
}

impl From<ShortNumber> for Number {
    fn from(short: ShortNumber) -> Self {
        Self {
            negative: short.unscaled < 0,
            digits: u128::from(short.unscaled.unsigned_abs()),
            exponent: -i32::from(short.fraction_digits),
            next_digit: 0,
        }
    }
}

impl From<i128> for Number {
    fn from(value: i128) -> Self {
        let digits = value.unsigned_abs();
        Self { negative: value < 0, digits, exponent: 0, next_digit: 0 }
    }
}

impl Number {
    /// The number times `10^scale`, rounded half away from zero; `None` when it does not fit 128
    /// bits.
    pub fn unscaled(self, scale: u8) -> Option<i128> {
        let shift = self.exponent + i32::from(scale);
        let magnitude = match shift {
            0 => self.digits.checked_add(u128::from(self.next_digit >= 5))?,
            1.. if self.digits == 0 => 0,
            1.. => self.digits.checked_mul(*POWERS_OF_TEN.get(shift as usize)?)?,
            _ => match POWERS_OF_TEN.get(shift.unsigned_abs() as usize) {
                Some(&power) => self.digits / power + u128::from(self.digits % power >= power / 2),
                None => 0,
            },
        };
        // The minimum of i128 has no positive counterpart.
        match (self.negative, i128::try_from(magnitude)) {
            (false, Ok(value)) => Some(value),
            (true, Ok(value)) => Some(-value),
            (true, Err(_)) if magnitude == 1 << 127 => Some(i128::MIN),
            _ => None,
        }
    }
}

/// Parses a number of any length at the front of `text`: the number and its length in bytes.
pub fn take(text: &[u8]) -> Option<(Number, usize)> {
    let negative = text.first() == Some(&b'-');
    let mut at = usize::from(negative || text.first() == Some(&b'+'));
    let mut number = Number { negative, digits: 0, exponent: 0, next_digit: 0 };
    let (mut cut, mut any, mut point) = (false, false, false);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'0'..=b'9' => {
                any = true;
                let digit = byte - b'0';
                let longer = number.digits.checked_mul(10);
                match longer.and_then(|longer| longer.checked_add(u128::from(digit))) {
                    Some(digits) if !cut => {
                        number.digits = digits;
                        number.exponent = (number.exponent - i32::from(point)).max(-EXPONENT_MAX);
                    }
                    _ => {
                        if !cut {
                            number.next_digit = digit;
                            cut = true;
                        }
                        number.exponent = (number.exponent + i32::from(!point)).min(EXPONENT_MAX);
                    }
                }
            }
            b'.' if !point => point = true,
            _ => break,
        }
        at += 1;
    }
    if !any {
        return None;
    }
    if let Some((exponent, taken)) = take_exponent(&text[at..]) {
        number.exponent = number.exponent.saturating_add(exponent);
        at += taken;
    }
    Some((number, at))
}

/// Parses `e[+-]digits`: the exponent and its length in bytes; `None` when no digits follow.
fn take_exponent(text: &[u8]) -> Option<(i32, usize)> {
    let &[b'e' | b'E', ref rest @ ..] = text else { return None };
    let negative = rest.first() == Some(&b'-');
    let sign = usize::from(negative || rest.first() == Some(&b'+'));
    let digits = rest[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = rest[sign..sign + digits]
        .iter()
        .fold(0, |value, digit| (value * 10 + i32::from(digit - b'0')).min(EXPONENT_MAX));
    (digits > 0).then_some((if negative { -value } else { value }, 1 + sign + digits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_numbers_stop_where_the_number_stops() {
        let short = |unscaled, fraction_digits| ShortNumber { unscaled, fraction_digits };
        assert_eq!(take_short(b"-12.50,"), Some((short(-1250, 2), 6)));
        assert_eq!(take_short(b"+7"), Some((short(7, 0), 2)));
        assert_eq!(take_short(b".5x"), Some((short(5, 1), 2)));
        assert_eq!(take_short(b"5."), Some((short(5, 0), 2)));
        for other in ["", "-", ".", "x1", "1e5", "1234567890123456789"] {
            assert_eq!(take_short(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn halves_go_away_from_zero() {
        let at = |text: &str, scale| take(text.as_bytes()).unwrap().0.unscaled(scale);
        assert_eq!(at("2.5", 0), Some(3));
        assert_eq!(at("-2.5", 0), Some(-3));
        assert_eq!(at("2.4999", 0), Some(2));
        assert_eq!(at("1e-400", 2), Some(0));
        assert_eq!(at("1.5e2", 1), Some(1_500));
        assert_eq!(at("1e39", 0), None);
        assert_eq!(at("0e99999999999", 0), Some(0));
        assert_eq!(
            at(&format!("0.{}5", "4".repeat(38)), 38),
            Some(44_444_444_444_444_444_444_444_444_444_444_444_445)
        );
        assert_eq!(at("-170141183460469231731687303715884105728", 0), Some(i128::MIN));
        assert_eq!(at("170141183460469231731687303715884105728", 0), None);
        assert_eq!(Number::from(i128::MIN).unscaled(0), Some(i128::MIN));
    }

    proptest! {
        #[test]
        fn the_short_way_agrees_with_the_long_way(
            text in "-?[0-9]{1,9}(\\.[0-9]{0,9})?",
            scale in 0u8..12,
        ) {
            let (short, taken) = take_short(text.as_bytes()).unwrap();
            let (long, long_taken) = take(text.as_bytes()).unwrap();
            prop_assert_eq!(taken, long_taken);
            prop_assert_eq!(Number::from(short).unscaled(scale), long.unscaled(scale));
        }
    }
}
