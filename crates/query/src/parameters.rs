//! Values of placeholders in prepared statements, as received by the protocol.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use freshet_base::{Result, bail};

use crate::temporal;

/// The digits of a DECIMAL of 128 bits.
const DIGITS_MAX: u8 = 38;
/// The precision in which shorter ones are planned: a plan is kept for the types of its parameters,
/// and is not to be made anew for each number of digits.
const SHORT_DIGITS_MAX: u8 = 18;

#[derive(Clone, PartialEq, Debug)]
pub enum Parameter {
    Null,
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    Double(f64),
    /// A DECIMAL: a number of units of so many digits behind the point, 38 digits in all at most.
    Decimal(i128, u8),
    /// Text if it is valid UTF-8, otherwise bytes.
    Bytes(Vec<u8>),
    /// Days since 1970.
    Date(i32),
    /// Microseconds since 1970, local time.
    DateTime(i64),
    /// Microseconds.
    Time(i64),
}

/// A date; if it is invalid, its text.
pub fn date(year: i32, month: u32, day: u32) -> Parameter {
    match temporal::days_of(year, month, day) {
        Some(days) => Parameter::Date(days),
        None => Parameter::Bytes(format!("{year:04}-{month:02}-{day:02}").into_bytes()),
    }
}

/// A date and time from the date and the microseconds of the day; if the date is invalid, its text
/// without the time.
pub fn datetime(year: i32, month: u32, day: u32, micros: i64) -> Parameter {
    match temporal::days_of(year, month, day) {
        Some(days) => Parameter::DateTime(i64::from(days) * temporal::DAY + micros),
        None => date(year, month, day),
    }
}

/// A DECIMAL of its text, as `-1.50` or `15E-1`; what is none or has more than 38 digits, the text.
pub fn decimal(text: &[u8]) -> Parameter {
    match std::str::from_utf8(text).ok().and_then(units) {
        Some((value, scale)) => Parameter::Decimal(value, scale),
        None => Parameter::Bytes(text.to_vec()),
    }
}

/// The units of a number, and how many of its digits are behind the point.
fn units(text: &str) -> Option<(i128, u8)> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0_i128;
    for digit in whole.bytes().chain(fraction.bytes()) {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        value = value.checked_mul(10)?.checked_add(digit.into())?;
    }
    let behind = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    // Zeros in front of the point.
    if behind < 0 {
        value = value.checked_mul(10_i128.checked_pow(behind.unsigned_abs())?)?;
    }
    let scale = u8::try_from(behind.max(0)).ok().filter(|scale| *scale <= DIGITS_MAX)?;
    let fits = value < 10_i128.pow(DIGITS_MAX.into());
    fits.then_some((if negative { -value } else { value }, scale))
}

/// A DECIMAL without a fraction as an integer.
pub fn whole_decimal(value: i128, scale: u8) -> Option<i128> {
    let one = 10_i128.checked_pow(scale.into())?;
    (value % one == 0).then(|| value / one)
}

/// Makes numbers of the parameters at these places, which are of LIMIT and OFFSET: drivers send
/// what their language has, which may be a text or a DOUBLE. NULL stays.
///
/// # Errors
/// 1210 for what is no number of rows.
pub fn count_rows(parameters: &mut [Parameter], places: &[usize]) -> Result<()> {
    for &place in places {
        let Some(parameter) = parameters.get_mut(place) else { continue };
        let number = match &*parameter {
            Parameter::Null => continue,
            Parameter::Int(number) => u64::try_from(*number).ok(),
            Parameter::UInt(number) => Some(*number),
            Parameter::Double(number) => whole(*number),
            // What no BIGINT holds is its largest.
            Parameter::Decimal(value, scale) => whole_decimal(*value, *scale)
                .filter(|number| *number >= 0)
                .map(|number| u64::try_from(number).unwrap_or(u64::MAX)),
            Parameter::Bytes(text) => {
                std::str::from_utf8(text).ok().and_then(|t| t.trim().parse().ok())
            }
            Parameter::Date(_) | Parameter::DateTime(_) | Parameter::Time(_) => None,
        };
        let Some(number) = number else {
            bail!(WrongArguments, "Incorrect arguments to mysqld_stmt_execute");
        };
        *parameter = Parameter::Int(i64::try_from(number).unwrap_or(i64::MAX));
    }
    Ok(())
}

/// A number without a fraction that is not negative; what no BIGINT holds is its largest.
fn whole(number: f64) -> Option<u64> {
    (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
}

/// The types of values, for planning; NULL has none.
pub fn types(parameters: &[Parameter]) -> Vec<Option<DataType>> {
    parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Null => None,
            other => Some(scalar(other.clone()).data_type()),
        })
        .collect()
}

/// Values as literals of the planner.
pub fn values(parameters: Vec<Parameter>) -> Vec<ScalarValue> {
    parameters.into_iter().map(scalar).collect()
}

fn scalar(parameter: Parameter) -> ScalarValue {
    match parameter {
        Parameter::Null => ScalarValue::Null,
        Parameter::Int(value) => ScalarValue::Int64(Some(value)),
        Parameter::UInt(value) => ScalarValue::UInt64(Some(value)),
        Parameter::Double(value) => ScalarValue::Float64(Some(value)),
        Parameter::Decimal(value, scale) => {
            let is_short = value.unsigned_abs() < 10_u128.pow(SHORT_DIGITS_MAX.into())
                && scale <= SHORT_DIGITS_MAX;
            let precision = if is_short { SHORT_DIGITS_MAX } else { DIGITS_MAX };
            ScalarValue::Decimal128(Some(value), precision, scale.cast_signed())
        }
        Parameter::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) => ScalarValue::Utf8View(Some(text)),
            Err(error) => ScalarValue::BinaryView(Some(error.into_bytes())),
        },
        Parameter::Date(days) => ScalarValue::Date32(Some(days)),
        Parameter::DateTime(micros) => ScalarValue::TimestampMicrosecond(Some(micros), None),
        Parameter::Time(micros) => ScalarValue::DurationMicrosecond(Some(micros)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_of_rows() {
        let counted = |parameter: Parameter| {
            let mut all = [Parameter::Double(1.5), parameter];
            count_rows(&mut all, &[1]).map(|()| {
                assert_eq!(all[0], Parameter::Double(1.5));
                all[1].clone()
            })
        };
        let text = |text: &str| Parameter::Bytes(text.as_bytes().to_vec());
        let decimals = [Parameter::Decimal(2, 0), Parameter::Decimal(2000, 3)];
        let twos = [Parameter::Int(2), Parameter::UInt(2), Parameter::Double(2.0), text("2")];
        for two in twos.into_iter().chain(decimals) {
            assert_eq!(counted(two).unwrap(), Parameter::Int(2));
        }
        assert_eq!(counted(Parameter::UInt(u64::MAX)).unwrap(), Parameter::Int(i64::MAX));
        assert_eq!(counted(decimal(b"1e30")).unwrap(), Parameter::Int(i64::MAX));
        assert_eq!(counted(Parameter::Null).unwrap(), Parameter::Null);
        let wrong = [text("x"), text("-1"), text(""), Parameter::Double(1.5), Parameter::Int(-1)];
        let wrong = wrong.into_iter().chain([
            Parameter::Double(f64::NAN),
            Parameter::Date(0),
            Parameter::Decimal(15, 1),
            Parameter::Decimal(-1, 0),
        ]);
        for wrong in wrong {
            assert_eq!(counted(wrong).unwrap_err().code().errno(), 1210);
        }
    }

    #[test]
    fn decimals_are_numbers_of_at_most_38_digits() {
        let largest = "9".repeat(38);
        for (text, value, scale) in [
            ("0", 0, 0),
            ("-0.00", 0, 2),
            ("1.25", 125, 2),
            ("-1.250", -1250, 3),
            ("+.5", 5, 1),
            ("5.", 5, 0),
            ("000000000000000000000000000000000000000000007", 7, 0),
            ("1.5E+3", 1500, 0),
            ("15e-1", 15, 1),
            ("-1e-38", -1, 38),
            (largest.as_str(), 10_i128.pow(38) - 1, 0),
        ] {
            assert_eq!(decimal(text.as_bytes()), Parameter::Decimal(value, scale), "{text}");
        }
        let long = "9".repeat(39);
        let wrong =
            ["", "-", ".", "x", "1x", "1.2.3", "--1", " 1", "1e", "1e39", "1e-39", "1e99999"];
        for text in wrong.into_iter().chain([long.as_str(), "1e-2147483648", "\u{661}"]) {
            assert_eq!(decimal(text.as_bytes()), Parameter::Bytes(text.as_bytes().to_vec()));
        }
        assert_eq!(decimal(b"\xff"), Parameter::Bytes(vec![0xff]));
    }

    #[test]
    fn decimals_of_like_digits_have_one_type() {
        let of = |text: &str| types(&[decimal(text.as_bytes())]);
        assert_eq!(of("1.25"), [Some(DataType::Decimal128(18, 2))]);
        assert_eq!(of("-9999999999999999.99"), of("0.00"));
        assert_eq!(of("10000000000000000.00"), [Some(DataType::Decimal128(38, 2))]);
        assert_eq!(of("0.0000000000000000001"), [Some(DataType::Decimal128(38, 19))]);
        assert_eq!(of(&"9".repeat(39)), [Some(DataType::Utf8View)]);
    }

    #[test]
    fn whole_decimals_are_integers() {
        assert_eq!(whole_decimal(-500, 2), Some(-5));
        assert_eq!(whole_decimal(0, 38), Some(0));
        assert_eq!(whole_decimal(7, 0), Some(7));
        assert_eq!(whole_decimal(501, 2), None);
        assert_eq!(whole_decimal(1, 38), None);
    }
}
