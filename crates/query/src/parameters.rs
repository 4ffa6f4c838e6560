//! Values of placeholders in prepared statements, as received by the protocol.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use freshet_base::{Result, bail};

use crate::temporal;

#[derive(Clone, PartialEq, Debug)]
pub enum Parameter {
    Null,
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    Double(f64),
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
        for two in [Parameter::Int(2), Parameter::UInt(2), Parameter::Double(2.0), text("2")] {
            assert_eq!(counted(two).unwrap(), Parameter::Int(2));
        }
        assert_eq!(counted(Parameter::UInt(u64::MAX)).unwrap(), Parameter::Int(i64::MAX));
        assert_eq!(counted(Parameter::Null).unwrap(), Parameter::Null);
        let wrong = [text("x"), text("-1"), text(""), Parameter::Double(1.5), Parameter::Int(-1)];
        let wrong = wrong.into_iter().chain([Parameter::Double(f64::NAN), Parameter::Date(0)]);
        for wrong in wrong {
            assert_eq!(counted(wrong).unwrap_err().code().errno(), 1210);
        }
    }
}
