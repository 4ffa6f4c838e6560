//! What a column or a result is beyond its Arrow type: JSON among texts, and how many digits
//! behind the point it shows.

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

use super::typed::{converted, decimal_of_digits, exact_digits, is_decimal};
use crate::convert::{TIME, is_binary, is_text};
use crate::result::Origin;
use crate::temporal;

/// Where the metadata of a field says that its texts are JSON.
const JSON: &str = "freshet.json";
/// Where it says how many digits behind the point its values show.
const DIGITS: &str = "freshet.digits";
/// The most digits of a second.
pub const DIGITS_MAX: u8 = 6;
/// The most digits behind the point of a number.
const SCALE_MAX: u8 = 30;

/// The field of a result that is JSON.
pub fn json(name: &str) -> Field {
    let metadata = HashMap::from([(JSON.to_owned(), String::new())]);
    Field::new(name, DataType::Utf8View, true).with_metadata(metadata)
}

/// Whether a field's texts are JSON.
pub fn is_json(field: &Field) -> bool {
    field.metadata().contains_key(JSON)
        || Origin::decode(field).is_some_and(|origin| origin.ty == ColumnType::Json)
}

/// How many digits behind the point the values of a result show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Digits {
    /// Each those that it has.
    Each,
    /// So many.
    Fixed(u8),
    /// As many as this argument has.
    Of(usize),
    /// As many as one of the arguments has at most.
    Most,
    /// As many as this argument says.
    Said(usize),
}

impl Digits {
    /// The number for a call, where there is one.
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

/// How many digits of the second show values that are joined of these, each a field and its
/// literal, of which a text is a time; `None` where there is none but NULL.
pub fn most_digits<'a>(
    joined: impl Iterator<Item = (&'a FieldRef, Option<&'a ScalarValue>)>,
) -> Option<u8> {
    joined
        .filter(|(field, _)| *field.data_type() != DataType::Null)
        .map(|(field, literal)| digits(field, literal, &TIME).unwrap_or(DIGITS_MAX))
        .max()
}

/// How many digits a field says that its values show.
pub fn shown_digits(field: &Field) -> Option<u8> {
    field.metadata().get(DIGITS)?.parse().ok()
}

/// The field, its values showing so many digits behind the point where that is known.
pub fn with_digits(field: Field, digits: Option<u8>) -> Field {
    let Some(digits) = digits else { return field };
    let metadata = HashMap::from([(DIGITS.to_owned(), digits.to_string())]);
    field.with_metadata(metadata)
}

/// The same values, showing so many digits of the second, where that is known: an expression that
/// others stand for once types are known would forget it.
pub fn showing(expr: Expr, digits: Option<u8>) -> Expr {
    let Some(digits) = digits else { return expr };
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(Showing { digits, signature }).call(vec![expr])
}

/// The same expression without what only says how values show, which would hide columns from
/// what looks for them.
pub fn bare(expr: Expr) -> Result<Expr> {
    let changed = expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(mut call) if call.func.name() == SHOWING => {
            Ok(Transformed::yes(call.args.remove(0)))
        }
        other => Ok(Transformed::no(other)),
    });
    changed.map(|changed| changed.data)
}

/// The name of the function that says how values show.
const SHOWING: &str = "mysql_showing";

/// A function whose result is its argument.
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

/// How many digits behind the point of an exact number are shown: those it has, or fewer.
pub fn scale(field: &Field) -> Option<u8> {
    let (_, has) = exact_digits(field.data_type())?;
    let has = has.unsigned_abs();
    Some(shown_digits(field).map_or(has, |shown| shown.min(has)))
}

/// Whether the values of a field are exact and have more digits behind the point than they show.
pub fn hides_digits(field: &Field) -> bool {
    let has = exact_digits(field.data_type()).map(|(_, scale)| scale.unsigned_abs());
    has.is_some() && has > scale(field)
}

/// The field, its exact values showing so many digits behind the point of those that they have.
pub fn with_scale(field: Field, shown: u8) -> Field {
    let hides = |(_, has): (u8, i8)| has.unsigned_abs() > shown;
    let hidden =
        is_decimal(field.data_type()) && exact_digits(field.data_type()).is_some_and(hides);
    with_digits(field, hidden.then_some(shown))
}

/// The type that holds what the values of a field show.
pub fn shown_type(field: &Field) -> DataType {
    match (exact_digits(field.data_type()), scale(field)) {
        (Some((precision, has)), Some(shown)) if hides_digits(field) => {
            decimal_of_digits(i16::from(precision) - i16::from(has), shown.cast_signed())
        }
        _ => field.data_type().clone(),
    }
}

/// An expression of a field, its values rounded to the digits that they show.
pub fn as_shown(expr: Expr, field: &Field) -> Expr {
    converted(expr, field.data_type(), &shown_type(field))
}

/// The field of exact values that are joined of these, showing as many digits as any of them.
pub fn joined_scale<'a>(field: Field, joined: impl Iterator<Item = &'a FieldRef> + Clone) -> Field {
    if !joined.clone().any(|joined| hides_digits(joined)) {
        return field;
    }
    match joined.filter_map(|joined| scale(joined)).max() {
        Some(shown) => with_scale(field, shown),
        None => field,
    }
}

/// How many digits of the second values show, where they are times and all show as many.
pub fn time_digits(field: &Field) -> Option<u8> {
    let time = matches!(field.data_type(), DataType::Timestamp(_, _) | DataType::Duration(_));
    if time { digits(field, None, field.data_type()) } else { None }
}

/// How many digits behind the point values show as texts, where all show as many.
pub fn text_digits(field: &Field) -> Option<u8> {
    if field.data_type().is_floating() { shown_digits(field) } else { time_digits(field) }
}

/// How many digits of the second the values of an argument have where a value of this type is made
/// of them: of a text, or of a number whose point is anywhere, nobody knows, so all. `None` where
/// each value says it.
pub fn digits(field: &Field, literal: Option<&ScalarValue>, wanted: &DataType) -> Option<u8> {
    if let Some(said) = shown_digits(field).filter(|_| !is_decimal(field.data_type())) {
        return Some(said);
    }
    match field.data_type() {
        DataType::Timestamp(_, _) | DataType::Duration(_) => match Origin::decode(field)?.ty {
            ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => Some(fsp),
            _ => None,
        },
        ty if is_decimal(ty) => scale(field).map(|scale| scale.min(DIGITS_MAX)),
        ty if ty.is_integer() || *ty == DataType::Date32 => Some(0),
        ty if is_text(ty) => Some(match literal.map(ScalarValue::try_as_str) {
            Some(Some(Some(text))) => digits_of_text(text, wanted),
            _ => DIGITS_MAX,
        }),
        // A literal of digits to the base 2 or 16.
        DataType::Binary => Some(0),
        ty if ty.is_floating() || is_binary(ty) => Some(DIGITS_MAX),
        _ => None,
    }
}

/// How many digits of the second a text has that is made a value of this type. One that is none
/// may have any.
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
