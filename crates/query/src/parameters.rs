//! Values of placeholders in prepared statements, as received by the protocol.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

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
