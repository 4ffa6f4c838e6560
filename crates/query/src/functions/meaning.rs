//! What a column or a result is beyond its Arrow type: JSON among texts, and how many digits
//! behind the point it shows.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ReturnFieldArgs;
use freshet_schema::ColumnType;

use crate::convert::is_text;
use crate::result::Origin;

/// Where the metadata of a field says that its texts are JSON.
const JSON: &str = "freshet.json";
/// Where it says how many digits behind the point its values show.
const DIGITS: &str = "freshet.digits";
/// The most digits of a second.
const DIGITS_MAX: u8 = 6;
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
    /// As many as this argument says.
    Said(usize),
}

impl Digits {
    /// The number for a call, where there is one.
    fn number(self, args: &ReturnFieldArgs<'_>) -> Option<u8> {
        match self {
            Self::Each => None,
            Self::Fixed(digits) => Some(digits),
            Self::Of(at) => digits(args.arg_fields.get(at)?, args.scalar_arguments[at]),
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
        if shows { with_digits(field, self.number(args)) } else { field }
    }
}

/// How many digits a field says that its values show.
pub fn shown_digits(field: &Field) -> Option<u8> {
    field.metadata().get(DIGITS)?.parse().ok()
}

/// The field, its values showing so many digits behind the point where that is known.
fn with_digits(field: Field, digits: Option<u8>) -> Field {
    let Some(digits) = digits else { return field };
    let metadata = HashMap::from([(DIGITS.to_owned(), digits.to_string())]);
    field.with_metadata(metadata)
}

/// How many digits of the second the values of an argument have; `None` where each may have
/// others.
pub fn digits(field: &Field, literal: Option<&ScalarValue>) -> Option<u8> {
    if let Some(said) = shown_digits(field) {
        return Some(said);
    }
    match field.data_type() {
        DataType::Timestamp(_, _) | DataType::Duration(_) => match Origin::decode(field)?.ty {
            ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => Some(fsp),
            _ => None,
        },
        DataType::Decimal128(_, scale) => Some(scale.unsigned_abs().min(DIGITS_MAX)),
        ty if ty.is_integer() || *ty == DataType::Date32 => Some(0),
        ty if is_text(ty) => {
            let text = literal?.try_as_str()??;
            let part = text.rsplit_once('.').map_or("", |(_, part)| part);
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            u8::try_from(digits).ok().map(|digits| digits.min(DIGITS_MAX))
        }
        _ => None,
    }
}
