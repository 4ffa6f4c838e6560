//! Functions that round numbers: ROUND, TRUNCATE, FLOOR and others.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, Float64Array, Int64Array, PrimitiveArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType, i256};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::ScalarUDF;

use super::number::{
    Arithmetic, Number, NumberType, SCALE_MAX, decimal, decimals, int_type, integers, is_wide,
    pairs, ten, typed,
};
use crate::convert::{self, round_half_up};
use crate::losses;

/// The number of digits in ROUND and TRUNCATE, if it is a literal.
fn kept_digits(literals: &[Option<&ScalarValue>]) -> Option<i64> {
    match literals.get(1) {
        None => Some(0),
        Some(literal) => match (*literal)?.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(digits)) => digits,
            _ => None,
        },
    }
}

fn round_type(operands: &[Number], literals: &[Option<&ScalarValue>]) -> Result<NumberType> {
    Ok(match operands[0] {
        Number::Double => DataType::Float64.into(),
        Number::Int { .. } => int_type(&operands[..1], &[])?,
        Number::Decimal(digits) => {
            let wanted = kept_digits(literals).unwrap_or(digits.shown.into());
            let wanted = wanted.clamp(0, SCALE_MAX.into());
            let wanted = i8::try_from(wanted).expect("clamped to a scale");
            // Rounding up may add a digit before the decimal point.
            decimal(digits.whole + 1, wanted, wanted)
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
        DataType::Decimal256(_, _) => rounded::<Decimal256Type>(&args[0], &digits, ty, up)?,
        DataType::Decimal128(_, _) => match args[0].data_type() {
            DataType::Decimal256(_, _) => {
                let scale = Number::of_type(ty).digits().scale;
                let wide = DataType::Decimal256(76, scale);
                let values = rounded::<Decimal256Type>(&args[0], &digits, &wide, up)?;
                cast(&values, ty)?
            }
            _ => rounded::<Decimal128Type>(&args[0], &digits, ty, up)?,
        },
        DataType::Int64 | DataType::UInt64 => {
            let (values, _) = decimals::<Decimal128Type>(&args[0])?;
            integers(
                pairs(&values, &digits, |v, d: i64| cut(v, d.saturating_neg(), up)),
                ty,
                "ROUND",
            )?
        }
        _ => {
            let each = |v: f64, d: i64| Some(round_double(v, d, up));
            let rounded: Float64Array = pairs(&convert::double(&args[0])?, &digits, each).collect();
            Arc::new(rounded)
        }
    })
}

/// More than the precision of any decimal.
const DIGITS_MAX: i64 = 80;

/// Rounds (`up`) or truncates decimals to this number of fractional digits, with the scale of `ty`.
fn rounded<T: DecimalType>(
    array: &ArrayRef,
    digits: &Int64Array,
    ty: &DataType,
    up: bool,
) -> Result<ArrayRef> {
    let (values, from) = decimals::<T>(array)?;
    let to = i64::from(Number::of_type(ty).digits().scale);
    let from = i64::from(from);
    let power =
        |digits: i64| ten::<T::Native>(u32::try_from(digits.clamp(0, DIGITS_MAX)).unwrap_or(0));
    let each = |value: T::Native, digits: i64| -> Result<T::Native, ArrowError> {
        // At most the digits of the value and of the result are kept.
        let kept = digits.max(-DIGITS_MAX).min(from).min(to);
        let Ok(unit) = power(from - kept) else { return Ok(T::Native::ZERO) };
        let cut = if up { half_up(value, unit)? } else { value.div_checked(unit)? };
        cut.mul_checked(power(to - kept)?)
    };
    let rounded = values.iter().zip(digits).map(|(value, digits)| match (value, digits) {
        (Some(value), Some(digits)) => each(value, digits).map(Some),
        _ => Ok(None),
    });
    typed(rounded.collect::<Result<PrimitiveArray<T>, _>>()?, ty)
}

/// `value / unit`, rounded half away from zero.
fn half_up<N: ArrowNativeTypeOp>(value: N, unit: N) -> Result<N, ArrowError> {
    let (whole, rest) = (value.div_checked(unit)?, value.mod_checked(unit)?);
    let negative = rest.is_lt(N::ZERO);
    let rest = if negative { rest.neg_checked()? } else { rest };
    // Twice the remainder may overflow, so it is compared to the rest of the unit.
    match (rest.is_ge(unit.sub_checked(rest)?), negative) {
        (false, _) => Ok(whole),
        (true, false) => whole.add_checked(N::ONE),
        (true, true) => whole.sub_checked(N::ONE),
    }
}

fn unit(digits: i64) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(digits.max(0)).ok()?)
}

/// Rounds (`up`) or truncates the last `places` digits of `value` to zero.
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
    // Adding zero turns -0 into 0.
    (if digits >= 0 { cut / power } else { cut * power }) + 0.0
}

fn same_type(operands: &[Number], _: &[Option<&ScalarValue>]) -> Result<NumberType> {
    Ok(match operands[0] {
        Number::Double => DataType::Float64.into(),
        Number::Int { .. } => int_type(operands, &[])?,
        Number::Decimal(digits) => decimal(digits.whole, digits.scale, digits.shown),
    })
}

fn abs(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    fn of<T: DecimalType>(array: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
        let each = |value: T::Native| match value.is_lt(T::Native::ZERO) {
            true => value.neg_checked(),
            false => Ok(value),
        };
        typed(decimals::<T>(array)?.0.try_unary::<_, T, ArrowError>(each)?, ty)
    }
    Ok(match *ty {
        DataType::Decimal256(_, _) => of::<Decimal256Type>(&args[0], ty)?,
        DataType::Decimal128(_, _) => of::<Decimal128Type>(&args[0], ty)?,
        DataType::UInt64 => cast(&args[0], ty)?,
        DataType::Int64 => {
            let values = convert::int(&args[0])?;
            let values = values.iter().map(|value| value.map(|v| i128::from(v).abs()));
            integers(values, ty, "abs")?
        }
        _ => {
            Arc::new(convert::double(&args[0])?.unary::<_, arrow::datatypes::Float64Type>(f64::abs))
        }
    })
}

fn whole_type(operands: &[Number], _: &[Option<&ScalarValue>]) -> Result<NumberType> {
    Ok(match operands[0] {
        Number::Double => DataType::Float64.into(),
        Number::Int { .. } => int_type(operands, &[])?,
        Number::Decimal(digits) if digits.whole < 18 => DataType::Int64.into(),
        Number::Decimal(digits) => decimal(digits.whole + 1, 0, 0),
    })
}

fn whole(args: &[ArrayRef], ty: &DataType, double: fn(f64) -> f64, up: bool) -> Result<ArrayRef> {
    match Number::of_type(args[0].data_type()) {
        Number::Double => {
            let values = convert::double(&args[0])?;
            Ok(Arc::new(values.unary::<_, arrow::datatypes::Float64Type>(double)))
        }
        Number::Int { unsigned: true, .. } => Ok(cast(&args[0], ty)?),
        Number::Int { .. } => Ok(Arc::new(convert::int(&args[0])?)),
        Number::Decimal(_) if is_wide(args, ty) => wholes::<Decimal256Type>(&args[0], ty, up),
        Number::Decimal(_) => wholes::<Decimal128Type>(&args[0], ty, up),
    }
}

fn wholes<T: DecimalType>(array: &ArrayRef, ty: &DataType, up: bool) -> Result<ArrayRef> {
    let (values, scale) = decimals::<T>(array)?;
    let unit = ten::<T::Native>(scale)?;
    let each = |value: T::Native| -> Result<T::Native, ArrowError> {
        let (whole, rest) = (value.div_checked(unit)?, value.mod_checked(unit)?);
        match (rest.is_zero(), rest.is_lt(T::Native::ZERO), up) {
            (false, false, true) => whole.add_checked(T::Native::ONE),
            (false, true, false) => whole.sub_checked(T::Native::ONE),
            _ => Ok(whole),
        }
    };
    let values = values.try_unary::<_, T, _>(each)?;
    Ok(cast(&values.with_precision_and_scale(T::MAX_PRECISION, 0)?, ty)?)
}

/// `mysql_decimal(value, precision, scale)`.
fn decimal_of(_: &[Number], literals: &[Option<&ScalarValue>]) -> Result<NumberType> {
    let literal = |at: usize| match literals.get(at).copied().flatten() {
        Some(ScalarValue::Int64(Some(value))) => i16::try_from(*value).ok(),
        _ => None,
    };
    match (literal(1), literal(2)) {
        (Some(precision), Some(scale)) if (0..=precision).contains(&scale) => {
            let digits = i8::try_from(scale).expect("a scale is small");
            Ok(decimal(precision - scale, digits, digits))
        }
        _ => exec_err!("a DECIMAL has a precision and a scale"),
    }
}

fn to_decimal(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    match *ty {
        DataType::Decimal128(precision, scale) => {
            let values = convert::decimal(&args[0], precision, scale)?;
            note_out_of_range(&args[0], &values, precision)?;
            Ok(values)
        }
        DataType::Decimal256(_, scale) => {
            let values = convert::wide_decimal(&args[0], scale)?;
            typed(values.as_primitive::<Decimal256Type>().clone(), ty)
        }
        ref other => exec_err!("CAST AS DECIMAL returns {other}"),
    }
}

/// Records values that were clamped to the largest of their type.
fn note_out_of_range(from: &ArrayRef, values: &ArrayRef, precision: u8) -> Result<()> {
    if !losses::are_collected() {
        return Ok(());
    }
    let wanted = values.as_primitive::<Decimal128Type>();
    let limit = ten::<i128>(precision.into())? - 1;
    let is_limit = |row: usize| wanted.is_valid(row) && wanted.value(row).abs() == limit;
    if !(0..wanted.len()).any(is_limit) {
        return Ok(());
    }
    // With all digits, the clamped values can be identified.
    let scale = wanted.scale();
    let whole = losses::without_collecting(|| convert::wide_decimal(from, scale))?;
    let whole = whole.as_primitive::<Decimal256Type>();
    let cut = |row: usize| whole.value(row).wrapping_abs() > i256::from_i128(limit);
    for row in (0..wanted.len()).filter(|row| is_limit(*row) && cut(*row)) {
        losses::note_out_of_range(&wanted.value_as_string(row));
    }
    Ok(())
}

pub fn all() -> Vec<ScalarUDF> {
    let ceil = |args: &[ArrayRef], ty: &DataType| whole(args, ty, |value| value.ceil() + 0.0, true);
    let floor = |args: &[ArrayRef], ty: &DataType| whole(args, ty, f64::floor, false);
    vec![
        Arithmetic::udf("round", (1, 2), round_type, |args, ty| rounding(args, ty, true)),
        Arithmetic::udf("truncate", (2, 2), round_type, |args, ty| rounding(args, ty, false)),
        Arithmetic::udf("abs", (1, 1), same_type, abs),
        Arithmetic::udf("ceil", (1, 1), whole_type, ceil),
        Arithmetic::udf("floor", (1, 1), whole_type, floor),
        Arithmetic::udf("mysql_decimal", (3, 3), decimal_of, to_decimal),
    ]
}

#[cfg(test)]
mod tests {
    use arrow::array::Decimal128Array;

    use super::*;

    #[test]
    fn rounding_keeps_or_cuts_digits() {
        let values: ArrayRef = Arc::new(
            Decimal128Array::from(vec![Some(125), Some(-125), None])
                .with_precision_and_scale(5, 2)
                .unwrap(),
        );
        let rounded_to = |digits: i64| {
            let all: ArrayRef = Arc::new(Int64Array::from(vec![digits; 3]));
            let literal = ScalarValue::Int64(Some(digits));
            let operand = Number::of_type(values.data_type());
            let ty = round_type(&[operand, operand], &[None, Some(&literal)]).unwrap().ty;
            let rounded = rounding(&[Arc::clone(&values), all], &ty, true).unwrap();
            let rounded = rounded.as_primitive::<Decimal128Type>();
            (ty, rounded.value(0), rounded.value(1), rounded.is_null(2))
        };
        assert_eq!(rounded_to(1), (DataType::Decimal128(5, 1), 13, -13, true));
        assert_eq!(rounded_to(4), (DataType::Decimal128(8, 4), 12_500, -12_500, true));
        assert_eq!(rounded_to(-3), (DataType::Decimal128(4, 0), 0, 0, true));
        assert!((round_double(1234.567, -2, true) - 1200.0).abs() < 1e-9);
    }
}
