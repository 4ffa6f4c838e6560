//! Numbers as text, formatted as MySQL does, without allocating.

use std::fmt::Write;

/// The longest text: a DECIMAL of scale 255 with sign, zero and point.
const TEXT_BYTES_MAX: usize = 264;

/// The longest digits: of an i128, or of a double with sign, point and exponent.
const DIGITS_BYTES_MAX: usize = 40;

/// Decimal exponents, as of `0.d1d2... x 10^exponent`, that MySQL prints without an `e`.
const PLAIN_EXPONENTS: std::ops::RangeInclusive<i32> = -14..=15;

pub type NumberText = StackText<TEXT_BYTES_MAX>;

/// Text of up to `N` bytes on the stack.
#[derive(Debug)]
pub struct StackText<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> StackText<N> {
    fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("numbers are ASCII")
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn zeros(&mut self, count: usize) {
        self.bytes[self.len..self.len + count].fill(b'0');
        self.len += count;
    }
}

impl NumberText {
    /// A DOUBLE: the shortest digits that read back as the same value.
    pub fn double(value: f64) -> Self {
        Self::scientific(value, format_args!("{value:e}"))
    }

    /// A FLOAT: six significant digits, as MySQL prints it.
    pub fn float(value: f32) -> Self {
        Self::scientific(f64::from(value), format_args!("{value:.5e}"))
    }

    /// Reformats digits given as `-d.ddde-n`.
    fn scientific(value: f64, formatted: std::fmt::Arguments<'_>) -> Self {
        let mut text = Self::new();
        if !value.is_finite() {
            let name: &[u8] = match (value.is_nan(), value > 0.0) {
                (true, _) => b"NaN",
                (false, true) => b"Infinity",
                (false, false) => b"-Infinity",
            };
            text.extend(name);
            return text;
        }
        let mut source = StackText::<DIGITS_BYTES_MAX>::new();
        source.write_fmt(formatted).expect("a formatted float is short");
        let source = source.as_bytes();
        let split = source.iter().position(|b| *b == b'e').expect("formatted with an exponent");
        let exponent = parse_exponent(&source[split + 1..]) + 1;
        let mut digits = [0; DIGITS_BYTES_MAX];
        let mut count = 0;
        for digit in source[..split].iter().filter(|b| b.is_ascii_digit()) {
            digits[count] = *digit;
            count += 1;
        }
        while count > 1 && digits[count - 1] == b'0' {
            count -= 1;
        }
        if source.first() == Some(&b'-') {
            text.push(b'-');
        }
        text.lay_out(&digits[..count], exponent);
        text
    }

    /// Writes `0.digits x 10^exponent`.
    fn lay_out(&mut self, digits: &[u8], exponent: i32) {
        let count = digits.len() as i32;
        if digits == b"0" {
            self.push(b'0');
        } else if !PLAIN_EXPONENTS.contains(&exponent) {
            self.push(digits[0]);
            if count > 1 {
                self.push(b'.');
                self.extend(&digits[1..]);
            }
            write!(self, "e{}", exponent - 1).expect("an exponent is short");
        } else if exponent <= 0 {
            self.extend(b"0.");
            self.zeros(exponent.unsigned_abs() as usize);
            self.extend(digits);
        } else if exponent >= count {
            self.extend(digits);
            self.zeros((exponent - count) as usize);
        } else {
            let (whole, fraction) = digits.split_at(exponent as usize);
            self.extend(whole);
            self.push(b'.');
            self.extend(fraction);
        }
    }

    /// A DECIMAL or LARGEINT: `unscaled / 10^scale`, with all `scale` fraction digits.
    pub fn decimal(unscaled: i128, scale: u8) -> Self {
        let mut digits = StackText::<DIGITS_BYTES_MAX>::new();
        match u64::try_from(unscaled.unsigned_abs()) {
            Ok(small) => {
                let mut buffer = [0; 20];
                let at = put_digits(&mut buffer, small);
                digits.extend(&buffer[at..]);
            }
            Err(_) => write!(digits, "{}", unscaled.unsigned_abs()).expect("39 digits at most"),
        }
        let digits = digits.as_bytes();
        let scale = usize::from(scale);
        let mut text = Self::new();
        if unscaled < 0 {
            text.push(b'-');
        }
        if digits.len() > scale {
            text.extend(&digits[..digits.len() - scale]);
        } else {
            text.push(b'0');
        }
        if scale > 0 {
            text.push(b'.');
            text.zeros(scale.saturating_sub(digits.len()));
            text.extend(&digits[digits.len().saturating_sub(scale)..]);
        }
        text
    }
}

impl<const N: usize> Write for StackText<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.len + text.len() > N {
            return Err(std::fmt::Error);
        }
        self.extend(text.as_bytes());
        Ok(())
    }
}

fn parse_exponent(text: &[u8]) -> i32 {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    sign * digits.iter().fold(0, |value, digit| value * 10 + i32::from(digit - b'0'))
}

/// Writes the decimal digits of `value` to the end of `buffer`; returns the index of the first.
#[inline]
pub fn put_digits(buffer: &mut [u8; 20], mut value: u64) -> usize {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn double(value: f64) -> String {
        String::from_utf8(NumberText::double(value).as_bytes().to_vec()).unwrap()
    }

    fn decimal(unscaled: i128, scale: u8) -> String {
        String::from_utf8(NumberText::decimal(unscaled, scale).as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn doubles_as_mysql_prints_them() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (100.0, "100"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (1.2345678901234568e17, "1.2345678901234568e17"),
            (0.000_012_5, "0.0000125"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (1e-20, "1e-20"),
            (f64::MAX, "1.7976931348623157e308"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn floats_have_six_digits() {
        for (value, text) in [
            (0.1f32, "0.1"),
            (0.0, "0"),
            (2.345_678_9, "2.34568"),
            (16_777_216.0, "16777200"),
            (1e10, "10000000000"),
        ] {
            assert_eq!(NumberText::float(value).as_bytes(), text.as_bytes());
        }
    }

    #[test]
    fn decimals_keep_their_scale() {
        for (unscaled, scale, text) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (5, 2, "0.05"),
            (-5, 2, "-0.05"),
            (12345, 2, "123.45"),
            (-100, 2, "-1.00"),
            (i128::MIN, 0, "-170141183460469231731687303715884105728"),
        ] {
            assert_eq!(decimal(unscaled, scale), text);
        }
    }

    proptest! {
        #[test]
        fn doubles_read_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(double(value).parse::<f64>().unwrap(), value);
        }

        #[test]
        fn digits_are_those_of_display(value in any::<u64>(), shift in 0..64u32) {
            let mut buffer = [0; 20];
            let at = put_digits(&mut buffer, value >> shift);
            let expected = (value >> shift).to_string();
            prop_assert_eq!(&buffer[at..], expected.as_bytes());
        }

        #[test]
        fn decimals_of_any_scale_fit(unscaled in any::<i128>(), scale in any::<u8>()) {
            let text = decimal(unscaled, scale);
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            let value = digits.trim_start_matches('0').parse::<u128>().unwrap_or(0);
            prop_assert_eq!(value, unscaled.unsigned_abs());
        }
    }
}
