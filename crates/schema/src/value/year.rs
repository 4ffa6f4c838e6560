//! Storing YEAR.

use super::bad::BadValue;

/// The year of a number: 0, 1901 to 2155, or of two digits, where 70 is 1970 and 69 is 2069.
pub(super) fn of_number(value: i64) -> Result<u16, BadValue> {
    let year = match value {
        1..=69 => value + 2000,
        70..=99 => value + 1900,
        0 | 1901..=2155 => value,
        _ => return Err(BadValue::OutOfRange { below: value < 1901 }),
    };
    Ok(year as u16)
}

/// Whether a text is a zero of less than four digits, which is the year 2000; `0000` and the number
/// 0 are the year 0.
pub(super) fn is_zero_of_text(text: &[u8]) -> bool {
    let digits = text.trim_ascii();
    (1..4).contains(&digits.len()) && digits.iter().all(|&byte| byte == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_two_digits_are_years_of_two_centuries() {
        for (number, year) in
            [(0, 0), (1, 2001), (69, 2069), (70, 1970), (99, 1999), (1901, 1901), (2155, 2155)]
        {
            assert_eq!(of_number(number), Ok(year), "{number}");
        }
        for number in [-1, 100, 1900, 2156, i64::MAX, i64::MIN] {
            assert!(of_number(number).is_err(), "{number}");
        }
    }

    #[test]
    fn a_short_zero_of_a_text_is_the_year_2000() {
        assert!(["0", "00", "000", " 0 "].iter().all(|text| is_zero_of_text(text.as_bytes())));
        assert!(["", "0000", "1", "00x"].iter().all(|text| !is_zero_of_text(text.as_bytes())));
    }
}
