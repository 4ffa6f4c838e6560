//! Types by MySQL's rules: how many digits they have, which type several have in common, and how a
//! value of one becomes a value of another.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::convert::{self, is_binary, is_text};

/// An expression and its type.
pub type Operand<'a> = (Expr, &'a DataType);

/// An expression and the type that it was given.
pub type TypedExpr = (Expr, DataType);

/// The type of a date and time as a number with all its digits.
pub const TEMPORAL_NUMBER: DataType = DataType::Decimal128(20, 6);

/// The maximum number of digits of an integer type.
pub fn integer_digits(ty: &DataType) -> Option<u8> {
    match ty {
        DataType::Boolean => Some(1),
        DataType::Int8 | DataType::UInt8 => Some(3),
        DataType::Int16 | DataType::UInt16 => Some(5),
        DataType::Int32 | DataType::UInt32 => Some(10),
        DataType::Int64 => Some(19),
        DataType::UInt64 => Some(20),
        _ => None,
    }
}

/// The common type of two branches of CASE or UNION, as in MySQL.
pub fn common(left: &DataType, right: &DataType) -> DataType {
    use DataType::{Boolean, Date32, Decimal128, Float32, Float64, Int64, Null, UInt64};
    match (left, right) {
        (a, b) if a == b => a.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (a, b) if is_binary(a) || is_binary(b) => DataType::BinaryView,
        (a, b) if is_text(a) || is_text(b) => DataType::Utf8View,
        (Date32, DataType::Timestamp(_, _)) | (DataType::Timestamp(_, _), Date32) => {
            convert::DATETIME
        }
        (DataType::Timestamp(_, _), DataType::Timestamp(_, _)) => convert::DATETIME,
        (Float32 | Float64, other) | (other, Float32 | Float64)
            if other.is_numeric() || *other == Boolean =>
        {
            Float64
        }
        (a, b) if is_decimal(a) || is_decimal(b) => match (exact_digits(a), exact_digits(b)) {
            (Some(a), Some(b)) => wider(a, b),
            _ => DataType::Utf8View,
        },
        (UInt64, other) | (other, UInt64) if integer_digits(other).is_some() => {
            if other.is_unsigned_integer() { UInt64 } else { Decimal128(20, 0) }
        }
        (a, b) if integer_digits(a).is_some() && integer_digits(b).is_some() => Int64,
        _ => DataType::Utf8View,
    }
}

/// Whether an operator compares values.
pub fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq, Spaceship};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship)
}

/// Whether a type has a date, with or without a time of day.
pub fn is_temporal(ty: &DataType) -> bool {
    matches!(ty, DataType::Date32 | DataType::Timestamp(_, _))
}

/// Whether a type has a time of day, with or without a date.
pub fn is_clock(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(_, _) | DataType::Duration(_))
}

pub fn is_decimal(ty: &DataType) -> bool {
    matches!(ty, DataType::Decimal128(_, _) | DataType::Decimal256(_, _))
}

/// Precision and scale of an exact numeric type.
pub fn exact_digits(ty: &DataType) -> Option<(u8, i8)> {
    match ty {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            Some((*precision, *scale))
        }
        ty => integer_digits(ty).map(|digits| (digits, 0)),
    }
}

/// The smallest decimal type with `whole` digits before the decimal point and `scale` after it.
pub fn decimal_of_digits(whole: i16, scale: i8) -> DataType {
    let precision = (whole + i16::from(scale)).clamp(1, DECIMAL256_MAX_PRECISION.into());
    let precision = u8::try_from(precision).expect("clamped");
    match precision {
        1..=DECIMAL128_MAX_PRECISION => DataType::Decimal128(precision, scale),
        _ => DataType::Decimal256(precision, scale),
    }
}

fn wider((p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> DataType {
    let whole = (i16::from(p1) - i16::from(s1)).max(i16::from(p2) - i16::from(s2));
    // Digits before the decimal point have priority.
    let room = (i16::from(DECIMAL256_MAX_PRECISION) - whole).max(0);
    decimal_of_digits(whole, s1.max(s2).min(i8::try_from(room).unwrap_or(i8::MAX)))
}

/// The common type of all, see [`common`].
pub fn common_of<'a>(types: impl IntoIterator<Item = &'a DataType>) -> DataType {
    types.into_iter().fold(DataType::Null, |all, ty| common(&all, ty))
}

/// Converts `expr` of type `from` to type `to` by MySQL's rules.
pub fn converted(expr: Expr, from: &DataType, to: &DataType) -> Expr {
    if from == to {
        return expr;
    }
    let number = |ty: &DataType| ty.is_numeric() || *ty == DataType::Boolean;
    if *from == DataType::Boolean && is_decimal(to) {
        return cast(cast(expr, DataType::Int8), to.clone());
    }
    // Arrow's casts truncate digits that MySQL rounds.
    let rounds = is_decimal(from) && to.is_integer();
    let plain = *from == DataType::Null
        || (is_text(from) && is_text(to))
        || (number(from) && number(to) && !from.is_floating() && !rounds)
        || (number(from) && to.is_floating() && !rounds_twice(from))
        || (matches!(from, DataType::Date32) && *to == convert::DATETIME);
    if plain {
        return cast(expr, to.clone());
    }
    match to {
        DataType::Float32 => cast(converted(expr, from, &DataType::Float64), DataType::Float32),
        ty if is_text(ty) => super::call("mysql_text", vec![expr]),
        ty if is_binary(ty) => super::call("mysql_binary", vec![expr]),
        DataType::Date32 => super::call("mysql_date", vec![expr]),
        DataType::Timestamp(_, _) => super::call("mysql_datetime", vec![expr]),
        DataType::Duration(_) => super::call("mysql_time", vec![expr]),
        DataType::Float64 => super::call("mysql_double", vec![expr]),
        DataType::Int64 => super::call("mysql_int", vec![expr]),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            super::call(
                "mysql_decimal",
                vec![expr, lit(i64::from(*precision)), lit(i64::from(*scale))],
            )
        }
        other => cast(expr, other.clone()),
    }
}

/// Whether Arrow's cast to a double rounds twice: a decimal with more digits than a double is
/// rounded before the division by its scale.
fn rounds_twice(from: &DataType) -> bool {
    is_decimal(from)
        && exact_digits(from).is_some_and(|(digits, _)| u32::from(digits) > f64::DIGITS)
}

/// Converts to a boolean: everything but zero is true.
pub fn truth(expr: Expr, ty: &DataType) -> Expr {
    match ty {
        DataType::Boolean => expr,
        DataType::Null => lit(ScalarValue::Boolean(None)),
        ty if ty.is_integer() => {
            expr.not_eq(lit(ScalarValue::new_zero(ty).unwrap_or(ScalarValue::Int64(Some(0)))))
        }
        other => converted(expr, other, &DataType::Float64).not_eq(lit(0.0)),
    }
}
