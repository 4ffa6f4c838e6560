//! Arithmetic whose result type depends on its operands: `/`, DIV, MOD, ROUND and the like.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, UInt64Array,
};
use arrow::datatypes::{DataType, Decimal128Type, i256};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::ScalarUDF;

use super::typed::integer_digits;
use super::vector::Vector;
use crate::convert::{self, round_half_up};

/// MySQL's `div_precision_increment`: digits that `/` adds behind the point.
const DIVISION_DIGITS: i8 = 4;
/// The most digits of a DECIMAL.
const PRECISION_MAX: i16 = 38;
/// The most digits behind the point of a computed DECIMAL, as in MySQL.
const SCALE_MAX: i8 = 30;

/// What numbers an operand takes part with.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Number {
    Int(u8),
    Decimal(u8, i8),
    Double,
}

impl Number {
    fn of(ty: &DataType) -> Self {
        match ty {
            DataType::Decimal128(precision, scale) => Self::Decimal(*precision, *scale),
            DataType::Null | DataType::Date32 => Self::Int(19),
            ty => integer_digits(ty).map_or(Self::Double, Self::Int),
        }
    }

    /// Precision and scale as a decimal.
    fn digits(self) -> (u8, i8) {
        match self {
            Self::Int(digits) => (digits, 0),
            Self::Decimal(precision, scale) => (precision, scale),
            Self::Double => (38, 0),
        }
    }
}

fn decimal_type(precision: i16, scale: i8) -> DataType {
    let precision = precision.clamp(i16::from(scale).max(1), PRECISION_MAX);
    DataType::Decimal128(u8::try_from(precision).expect("clamped"), scale)
}

fn divide_type(types: &[&DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    let (left, right) = (Number::of(types[0]), Number::of(types[1]));
    if left == Number::Double || right == Number::Double {
        return Ok(DataType::Float64);
    }
    let ((p1, s1), (_, s2)) = (left.digits(), right.digits());
    let scale = (s1 + DIVISION_DIGITS).min(SCALE_MAX);
    Ok(decimal_type(i16::from(p1) - i16::from(s1) + i16::from(s2) + i16::from(scale), scale))
}

/// Both columns as decimals of the scales they have.
fn decimals(args: &[ArrayRef]) -> Result<[(Decimal128Array, u32); 2]> {
    let one = |array: &ArrayRef| -> Result<(Decimal128Array, u32)> {
        let (_, scale) = Number::of(array.data_type()).digits();
        let values = convert::decimal(array, 38, scale)?;
        Ok((values.as_primitive::<Decimal128Type>().clone(), scale.unsigned_abs().into()))
    };
    Ok([one(&args[0])?, one(&args[1])?])
}

fn pairs<'a, A, B, R>(
    left: impl IntoIterator<Item = Option<A>> + 'a,
    right: impl IntoIterator<Item = Option<B>> + 'a,
    each: impl Fn(A, B) -> Option<R> + 'a,
) -> impl Iterator<Item = Option<R>> + 'a {
    left.into_iter().zip(right).map(move |(l, r)| each(l?, r?))
}

fn divide(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = *ty else {
        let (left, right) = (convert::double(&args[0])?, convert::double(&args[1])?);
        let quotients: Float64Array =
            pairs(&left, &right, |l, r| (r != 0.0).then(|| l / r)).collect();
        return Ok(Arc::new(quotients));
    };
    let [(left, s1), (right, s2)] = decimals(args)?;
    let raise = u32::from(scale.unsigned_abs()) + s2 - s1;
    let quotients: Decimal128Array = pairs(&left, &right, |l, r| quotient(l, r, raise)).collect();
    Ok(Arc::new(quotients.with_precision_and_scale(precision, scale)?))
}

/// `left * 10^raise / right` rounded half away from zero; NULL when it cannot be said.
fn quotient(left: i128, right: i128, raise: u32) -> Option<i128> {
    if right == 0 {
        return None;
    }
    if let Some(scaled) = 10_i128.checked_pow(raise).and_then(|unit| left.checked_mul(unit)) {
        return Some(round_half_up(scaled, right));
    }
    let scaled = i256::from_i128(left).checked_mul(i256::from_i128(10).checked_pow(raise)?)?;
    let divisor = i256::from_i128(right);
    let (whole, rest) = (scaled.checked_div(divisor)?, scaled.checked_rem(divisor)?);
    let up = rest.checked_abs()?.checked_mul(i256::from_i128(2))? >= divisor.checked_abs()?;
    let sign = if (left < 0) == (right < 0) { 1 } else { -1 };
    whole.to_i128()?.checked_add(if up { sign } else { 0 })
}

/// BIGINT, without a sign where an operand has none.
fn int_type(types: &[&DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    Ok(if types.contains(&&DataType::UInt64) { DataType::UInt64 } else { DataType::Int64 })
}

fn integer_divide(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let doubles = args.iter().any(|arg| Number::of(arg.data_type()) == Number::Double);
    if doubles {
        let (left, right) = (convert::double(&args[0])?, convert::double(&args[1])?);
        #[allow(clippy::cast_possible_truncation)] // saturates
        let quotients = pairs(&left, &right, |l, r| (r != 0.0).then(|| (l / r).trunc() as i128));
        return integers(quotients, ty, "DIV");
    }
    let [(left, s1), (right, s2)] = decimals(args)?;
    let (up1, up2) = (10_i128.pow(s2.saturating_sub(s1)), 10_i128.pow(s1.saturating_sub(s2)));
    let quotients =
        pairs(&left, &right, |l, r| l.checked_mul(up1)?.checked_div(r.checked_mul(up2)?));
    integers(quotients, ty, "DIV")
}

/// Values as integers of 64 bits; what does not fit is refused.
fn integers(
    values: impl Iterator<Item = Option<i128>>,
    ty: &DataType,
    sign: &str,
) -> Result<ArrayRef> {
    fn fitting<T: TryFrom<i128>>(value: Option<i128>, kind: &str, sign: &str) -> Result<Option<T>> {
        let Some(value) = value else { return Ok(None) };
        match T::try_from(value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => exec_err!("{kind} value is out of range in '{sign}': {value}"),
        }
    }
    Ok(if *ty == DataType::UInt64 {
        let values = values.map(|value| fitting(value, "BIGINT UNSIGNED", sign));
        Arc::new(values.collect::<Result<UInt64Array>>()?)
    } else {
        let values = values.map(|value| fitting(value, "BIGINT", sign));
        Arc::new(values.collect::<Result<Int64Array>>()?)
    })
}

fn modulo_type(types: &[&DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    Ok(match (Number::of(types[0]), Number::of(types[1])) {
        (Number::Double, _) | (_, Number::Double) => DataType::Float64,
        (Number::Int(_), Number::Int(_)) => int_type(&types[..1], &[])?,
        (left, right) => {
            let ((p1, s1), (p2, s2)) = (left.digits(), right.digits());
            decimal_type(i16::from(p1.max(p2)), s1.max(s2))
        }
    })
}

fn modulo(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    Ok(match *ty {
        DataType::Decimal128(precision, scale) => {
            let left = convert::decimal(&args[0], 38, scale)?;
            let right = convert::decimal(&args[1], 38, scale)?;
            let (left, right) =
                (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
            let rests: Decimal128Array = pairs(left, right, i128::checked_rem).collect();
            Arc::new(rests.with_precision_and_scale(precision, scale)?)
        }
        DataType::Int64 | DataType::UInt64 => {
            let [(left, _), (right, _)] = decimals(args)?;
            integers(pairs(&left, &right, i128::checked_rem), ty, "%")?
        }
        _ => {
            let (left, right) = (convert::double(&args[0])?, convert::double(&args[1])?);
            let rests: Float64Array =
                pairs(&left, &right, |l, r| (r != 0.0).then(|| l % r)).collect();
            Arc::new(rests)
        }
    })
}

/// `+`, `-` or `*` on integers that may not fit 64 bits.
fn checked(
    args: &[ArrayRef],
    ty: &DataType,
    sign: &str,
    each: fn(i128, i128) -> i128,
) -> Result<ArrayRef> {
    if *ty == DataType::UInt64 {
        // Operands of 64 bits at most: nothing overflows 128.
        let [(left, _), (right, _)] = decimals(args)?;
        return integers(pairs(&left, &right, |l, r| Some(each(l, r))), ty, sign);
    }
    let (left, right) = (convert::int(&args[0])?, convert::int(&args[1])?);
    let values = pairs(&left, &right, |l, r| Some(each(l.into(), r.into())));
    integers(values, ty, sign)
}

/// The digits that ROUND and TRUNCATE keep, where they are a literal.
fn kept_digits(literals: &[Option<&ScalarValue>]) -> Option<i64> {
    match literals.get(1) {
        None => Some(0),
        Some(literal) => match (*literal)?.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(digits)) => digits,
            _ => None,
        },
    }
}

fn round_type(types: &[&DataType], literals: &[Option<&ScalarValue>]) -> Result<DataType> {
    Ok(match Number::of(types[0]) {
        Number::Double => DataType::Float64,
        Number::Int(_) => int_type(types, &[])?,
        Number::Decimal(precision, scale) => {
            let wanted = kept_digits(literals).unwrap_or(scale.into()).clamp(0, scale.into());
            let wanted = i8::try_from(wanted).expect("clamped to a scale");
            // Rounding up may take one more digit before the point.
            decimal_type(i16::from(precision) - i16::from(scale) + i16::from(wanted) + 1, wanted)
        }
    })
}

fn rounding(args: &[ArrayRef], ty: &DataType, up: bool) -> Result<ArrayRef> {
    let rows = args[0].len();
    let digits = match args.get(1) {
        Some(array) => convert::int(array)?,
        None => Int64Array::from(vec![0; rows]),
    };
    Ok(match *ty {
        DataType::Decimal128(precision, scale) => {
            let (_, from) = Number::of(args[0].data_type()).digits();
            let values = convert::decimal(&args[0], 38, from)?;
            let values = values.as_primitive::<Decimal128Type>();
            let (from, to) = (i64::from(from), i64::from(scale));
            let each =
                |v, d: i64| Some(cut(cut(v, from - d.min(from), up)?, 0, up)? / unit(from - to)?);
            let rounded: Decimal128Array = pairs(values, &digits, each).collect();
            Arc::new(rounded.with_precision_and_scale(precision, scale)?)
        }
        DataType::Int64 | DataType::UInt64 => {
            let values = convert::decimal(&args[0], 38, 0)?;
            let values = values.as_primitive::<Decimal128Type>();
            integers(pairs(values, &digits, |v, d: i64| cut(v, -d, up)), ty, "ROUND")?
        }
        _ => {
            let each = |v: f64, d: i64| Some(round_double(v, d, up));
            let rounded: Float64Array = pairs(&convert::double(&args[0])?, &digits, each).collect();
            Arc::new(rounded)
        }
    })
}

fn unit(digits: i64) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(digits.max(0)).ok()?)
}

/// `value` with its last `places` digits made zero.
fn cut(value: i128, places: i64, up: bool) -> Option<i128> {
    if places <= 0 {
        return Some(value);
    }
    let Some(unit) = unit(places) else { return Some(0) };
    let whole = if up { round_half_up(value, unit) } else { value / unit };
    whole.checked_mul(unit)
}

fn round_double(value: f64, digits: i64, up: bool) -> f64 {
    let digits = i32::try_from(digits.clamp(-400, 400)).expect("clamped");
    let power = 10_f64.powi(digits.abs());
    let scaled = if digits >= 0 { value * power } else { value / power };
    if !scaled.is_finite() {
        return value;
    }
    let cut = if up { scaled.round_ties_even() } else { scaled.trunc() };
    // Adding zero takes the sign from a negative one.
    (if digits >= 0 { cut / power } else { cut * power }) + 0.0
}

fn same_type(types: &[&DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    Ok(match Number::of(types[0]) {
        Number::Double => DataType::Float64,
        Number::Int(_) => int_type(types, &[])?,
        Number::Decimal(precision, scale) => DataType::Decimal128(precision, scale),
    })
}

fn abs(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    Ok(match *ty {
        DataType::Decimal128(precision, scale) => {
            let values = args[0].as_primitive::<Decimal128Type>();
            let values: Decimal128Array = values.unary(i128::abs);
            Arc::new(values.with_precision_and_scale(precision, scale)?)
        }
        DataType::UInt64 => Arc::clone(&args[0]),
        DataType::Int64 => {
            let values: Int64Array = convert::int(&args[0])?.unary(i64::saturating_abs);
            Arc::new(values)
        }
        _ => {
            Arc::new(convert::double(&args[0])?.unary::<_, arrow::datatypes::Float64Type>(f64::abs))
        }
    })
}

fn whole_type(types: &[&DataType], _: &[Option<&ScalarValue>]) -> Result<DataType> {
    Ok(match Number::of(types[0]) {
        Number::Double => DataType::Float64,
        Number::Int(_) => int_type(types, &[])?,
        Number::Decimal(precision, scale) => {
            let whole = i16::from(precision) - i16::from(scale) + 1;
            if whole <= 18 { DataType::Int64 } else { decimal_type(whole, 0) }
        }
    })
}

fn whole(
    args: &[ArrayRef],
    ty: &DataType,
    double: fn(f64) -> f64,
    decimal: fn(i128, i128) -> i128,
) -> Result<ArrayRef> {
    match Number::of(args[0].data_type()) {
        Number::Double => {
            let values = convert::double(&args[0])?;
            Ok(Arc::new(values.unary::<_, arrow::datatypes::Float64Type>(double)))
        }
        Number::Int(_) if *ty == DataType::UInt64 => Ok(Arc::clone(&args[0])),
        Number::Int(_) => Ok(Arc::new(convert::int(&args[0])?)),
        Number::Decimal(_, scale) => {
            let unit = 10_i128.pow(u32::from(scale.unsigned_abs()));
            let values = args[0].as_primitive::<Decimal128Type>();
            let values: Decimal128Array = values.unary(|value| decimal(value, unit));
            let values = values.with_precision_and_scale(38, 0)?;
            Ok(arrow::compute::cast(&values, ty)?)
        }
    }
}

/// `mysql_decimal(value, precision, scale)`.
fn decimal_of(types: &[&DataType], literals: &[Option<&ScalarValue>]) -> Result<DataType> {
    let literal = |at: usize| match literals.get(at).copied().flatten() {
        Some(ScalarValue::Int64(Some(value))) => i16::try_from(*value).ok(),
        _ => None,
    };
    match (literal(1), literal(2)) {
        (Some(precision), Some(scale)) if (0..=precision.min(30)).contains(&scale) => {
            Ok(decimal_type(precision, i8::try_from(scale).expect("at most 30")))
        }
        _ => exec_err!("a DECIMAL of {} arguments has no precision and scale", types.len()),
    }
}

fn to_decimal(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = *ty else {
        return exec_err!("CAST AS DECIMAL returns {ty}");
    };
    convert::decimal(&args[0], precision, scale)
}

/// The functions of this file.
pub fn all() -> Vec<ScalarUDF> {
    let ceil = |args: &[ArrayRef], ty: &DataType| {
        whole(args, ty, |value| value.ceil() + 0.0, |value, unit| -(-value).div_euclid(unit))
    };
    let floor = |args: &[ArrayRef], ty: &DataType| whole(args, ty, f64::floor, i128::div_euclid);
    vec![
        Vector::udf("mysql_divide", (2, 2), divide_type, divide),
        Vector::udf("mysql_div", (2, 2), int_type, integer_divide),
        Vector::udf("mod", (2, 2), modulo_type, modulo),
        Vector::udf("mysql_add", (2, 2), int_type, |a, ty| checked(a, ty, "+", |l, r| l + r)),
        Vector::udf("mysql_subtract", (2, 2), int_type, |a, ty| checked(a, ty, "-", |l, r| l - r)),
        Vector::udf("mysql_multiply", (2, 2), int_type, |a, ty| {
            checked(a, ty, "*", i128::saturating_mul)
        }),
        Vector::udf("round", (1, 2), round_type, |args, ty| rounding(args, ty, true)),
        Vector::udf("truncate", (2, 2), round_type, |args, ty| rounding(args, ty, false)),
        Vector::udf("abs", (1, 1), same_type, abs),
        Vector::udf("ceil", (1, 1), whole_type, ceil),
        Vector::udf("floor", (1, 1), whole_type, floor),
        Vector::udf("mysql_decimal", (3, 3), decimal_of, to_decimal),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_round_half_away_from_zero() {
        assert_eq!(quotient(2, 3, 4), Some(6667));
        assert_eq!(quotient(-1, 2, 0), Some(-1));
        assert_eq!(quotient(1, 0, 4), None);
        assert_eq!(quotient(10_i128.pow(37), 10_i128.pow(36), 10), Some(100_000_000_000));
    }

    #[test]
    fn division_adds_four_digits() {
        let int = DataType::Int64;
        let decimal = DataType::Decimal128(15, 2);
        let ty = |left, right| divide_type(&[left, right], &[None, None]).unwrap();
        assert_eq!(ty(&int, &int), DataType::Decimal128(23, 4));
        assert_eq!(ty(&decimal, &int), DataType::Decimal128(19, 6));
        assert_eq!(ty(&int, &DataType::Utf8View), DataType::Float64);
    }

    #[test]
    fn rounding_keeps_or_cuts_digits() {
        let values: ArrayRef = Arc::new(
            Decimal128Array::from(vec![Some(125), Some(-125), None])
                .with_precision_and_scale(5, 2)
                .unwrap(),
        );
        let digits: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 1]));
        let ty = round_type(
            &[values.data_type(), &DataType::Int64],
            &[None, Some(&ScalarValue::Int64(Some(1)))],
        )
        .unwrap();
        assert_eq!(ty, DataType::Decimal128(5, 1));
        let rounded = rounding(&[values, digits], &ty, true).unwrap();
        let rounded = rounded.as_primitive::<Decimal128Type>();
        assert_eq!((rounded.value(0), rounded.value(1), rounded.is_null(2)), (13, -13, true));
        assert!((round_double(1234.567, -2, true) - 1200.0).abs() < 1e-9);
    }
}
