//! Properties of a column or result beyond its Arrow type, kept in field metadata: whether text is
//! JSON, and the number of fractional digits to display.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use freshet_schema::ColumnType;

use super::types::{converted, decimal_of_digits, exact_digits, is_decimal};
use crate::convert::{TIME, is_binary, is_text};
use crate::origin::ColumnOrigin;
use crate::temporal;

/// Metadata key for text that is JSON.
const JSON: &str = "freshet.json";
/// Metadata key for the number of fractional digits to display.
const DIGITS: &str = "freshet.digits";
/// Maximum number of fractional digits of a time.
pub const DIGITS_MAX: u8 = 6;
/// Maximum number of fractional digits of a number.
const SCALE_MAX: u8 = 30;

/// The field of a JSON result.
pub fn json(name: &str) -> Field {
    let metadata = HashMap::from([(JSON.to_owned(), String::new())]);
    Field::new(name, DataType::Utf8View, true).with_metadata(metadata)
}

/// Whether a field's text is JSON.
pub fn is_json(field: &Field) -> bool {
    field.metadata().contains_key(JSON)
        || ColumnOrigin::decode(field).is_some_and(|origin| origin.ty.is_json())
}

/// How many fractional digits the results of a function display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Digits {
    /// As many as each value has.
    Each,
    /// A constant number.
    Fixed(u8),
    /// As many as this argument.
    Of(usize),
    /// The maximum of the arguments.
    Most,
    /// The value of this argument.
    Said(usize),
}

impl Digits {
    /// The number for a call, if known.
    fn number(self, args: &ReturnFieldArgs<'_>, wanted: &DataType) -> Option<u8> {
        match self {
            Self::Each => None,
            Self::Fixed(digits) => Some(digits),
            Self::Most => {
                let joined = args.arg_fields.iter().zip(args.scalar_arguments.iter().copied());
                most_digits(joined)
            }
            Self::Of(at) => digits(args.arg_fields.get(at)?, args.scalar_arguments[at], wanted),
            Self::Said(at) => match args.scalar_arguments.get(at) {
                None => Some(0),
                Some(said) => match (*said)?.cast_to(&DataType::Int64).ok()? {
                    ScalarValue::Int64(Some(digits)) => {
                        u8::try_from(digits.max(0)).ok().filter(|digits| *digits <= SCALE_MAX)
                    }
                    _ => None,
                },
            },
        }
    }

    /// The field of a call's result.
    pub fn field(self, name: &str, ty: DataType, args: &ReturnFieldArgs<'_>) -> Field {
        let field = Field::new(name, ty, true);
        let shows = matches!(
            field.data_type(),
            DataType::Float64 | DataType::Timestamp(_, _) | DataType::Duration(_)
        );
        if !shows {
            return field;
        }
        let digits = self.number(args, field.data_type());
        with_digits(field, digits)
    }
}

/// The maximum number of fractional digits of times that are combined from these fields and their
/// literals; text counts as a time. `None` if all are NULL.
pub fn most_digits<'a>(
    joined: impl Iterator<Item = (&'a FieldRef, Option<&'a ScalarValue>)>,
) -> Option<u8> {
    joined
        .filter(|(field, _)| *field.data_type() != DataType::Null)
        .map(|(field, literal)| digits(field, literal, &TIME).unwrap_or(DIGITS_MAX))
        .max()
}

/// The displayed fractional digits in a field's metadata.
pub fn shown_digits(field: &Field) -> Option<u8> {
    field.metadata().get(DIGITS)?.parse().ok()
}

/// Sets the displayed fractional digits, if known.
pub fn with_digits(field: Field, digits: Option<u8>) -> Field {
    let Some(digits) = digits else { return field };
    let metadata = HashMap::from([(DIGITS.to_owned(), digits.to_string())]);
    field.with_metadata(metadata)
}

/// Attaches the displayed fractional digits to an expression, if known: an expression that is
/// replaced during type coercion would lose them.
pub fn showing(expr: Expr, digits: Option<u8>) -> Expr {
    let Some(digits) = digits else { return expr };
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(Showing { digits, signature }).call(vec![expr])
}

/// Removes the calls that only attach displayed digits to an expression, which would hide columns
/// from the optimizer.
pub fn bare(expr: Expr) -> Result<Expr> {
    let changed = expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(mut call) if call.func.name() == SHOWING => {
            Ok(Transformed::yes(call.args.remove(0)))
        }
        other => Ok(Transformed::no(other)),
    });
    changed.map(|changed| changed.data)
}

/// A function that only attaches displayed digits to its argument.
const SHOWING: &str = "mysql_showing";

/// The identity function, with the displayed digits in its result field.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Showing {
    digits: u8,
    signature: Signature,
}

impl ScalarUDFImpl for Showing {
    fn name(&self) -> &'static str {
        SHOWING
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields[0].as_ref().clone();
        Ok(Arc::new(with_digits(field.with_name(self.name()), Some(self.digits))))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.remove(0))
    }
}

/// The displayed scale of an exact number: its scale, or less.
pub fn scale(field: &Field) -> Option<u8> {
    let (_, has) = exact_digits(field.data_type())?;
    let has = has.unsigned_abs();
    Some(shown_digits(field).map_or(has, |shown| shown.min(has)))
}

/// Whether a field's values are exact and have more fractional digits than are displayed.
pub fn hides_digits(field: &Field) -> bool {
    let has = exact_digits(field.data_type()).map(|(_, scale)| scale.unsigned_abs());
    has.is_some() && has > scale(field)
}

/// Sets the displayed scale of an exact number, if it is less than its scale.
pub fn with_scale(field: Field, shown: u8) -> Field {
    let hides = |(_, has): (u8, i8)| has.unsigned_abs() > shown;
    let hidden =
        is_decimal(field.data_type()) && exact_digits(field.data_type()).is_some_and(hides);
    with_digits(field, hidden.then_some(shown))
}

/// The type with the displayed scale.
pub fn shown_type(field: &Field) -> DataType {
    match (exact_digits(field.data_type()), scale(field)) {
        (Some((precision, has)), Some(shown)) if hides_digits(field) => {
            decimal_of_digits(i16::from(precision) - i16::from(has), shown.cast_signed())
        }
        _ => field.data_type().clone(),
    }
}

/// Rounds the values of an expression to their displayed scale.
pub fn as_shown(expr: Expr, field: &Field) -> Expr {
    converted(expr, field.data_type(), &shown_type(field))
}

/// Sets the displayed scale of a value that is combined from these fields: their maximum.
pub fn joined_scale<'a>(field: Field, joined: impl Iterator<Item = &'a FieldRef> + Clone) -> Field {
    if !joined.clone().any(|joined| hides_digits(joined)) {
        return field;
    }
    match joined.filter_map(|joined| scale(joined)).max() {
        Some(shown) => with_scale(field, shown),
        None => field,
    }
}

/// The fractional digits of a time, if all values display the same number.
pub fn time_digits(field: &Field) -> Option<u8> {
    let time = matches!(field.data_type(), DataType::Timestamp(_, _) | DataType::Duration(_));
    if time { digits(field, None, field.data_type()) } else { None }
}

/// The fractional digits of a value in text form, if all values display the same number.
pub fn text_digits(field: &Field) -> Option<u8> {
    if field.data_type().is_floating() { shown_digits(field) } else { time_digits(field) }
}

/// The fractional digits of an argument that is converted to `wanted`. Unknown ones, of text
/// columns and floating-point numbers, count as the maximum. `None` if each value displays its own.
pub fn digits(field: &Field, literal: Option<&ScalarValue>, wanted: &DataType) -> Option<u8> {
    if let Some(said) = shown_digits(field).filter(|_| !is_decimal(field.data_type())) {
        return Some(said);
    }
    match field.data_type() {
        DataType::Timestamp(_, _) | DataType::Duration(_) => {
            match ColumnOrigin::decode(field)?.ty {
                ColumnType::DateTime { fsp }
                | ColumnType::Timestamp { fsp }
                | ColumnType::Time { fsp } => Some(fsp),
                _ => None,
            }
        }
        ty if is_decimal(ty) => scale(field).map(|scale| scale.min(DIGITS_MAX)),
        ty if ty.is_integer() || *ty == DataType::Date32 => Some(0),
        ty if is_text(ty) => Some(match literal.map(ScalarValue::try_as_str) {
            Some(Some(Some(text))) => digits_of_text(text, wanted),
            _ => DIGITS_MAX,
        }),
        // A hexadecimal or bit literal.
        DataType::Binary => Some(0),
        ty if ty.is_floating() || is_binary(ty) => Some(DIGITS_MAX),
        _ => None,
    }
}

/// The fractional digits of text that is converted to this type; the maximum if it is invalid.
pub fn digits_of_text(text: &str, wanted: &DataType) -> u8 {
    let is_one = match wanted {
        DataType::Duration(_) => temporal::parse_time(text).is_some(),
        _ => temporal::parse_datetime(text).is_some(),
    };
    if !is_one {
        return DIGITS_MAX;
    }
    let part = text.rsplit_once('.').map_or("", |(_, part)| part);
    let digits = part.bytes().take_while(u8::is_ascii_digit).count();
    u8::try_from(digits).map_or(DIGITS_MAX, |digits| digits.min(DIGITS_MAX))
}

/// The type of a text argument before its conversion to text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    Text,
    Json,
    Bool,
    Number,
    Bytes,
}

impl Source {
    pub fn of(field: &Field) -> Self {
        match field.data_type() {
            _ if is_json(field) => Self::Json,
            DataType::Boolean => Self::Bool,
            ty if ty.is_numeric() => Self::Number,
            ty if is_binary(ty) => Self::Bytes,
            _ => Self::Text,
        }
    }
}
