//! Arithmetic whose result type depends on its operands: `/`, DIV, MOD, and `+`, `-`, `*` where
//! DataFusion's are not sufficient.
//!
//! As in MySQL, a DECIMAL inside an expression may have more fractional digits than are displayed:
//! its type has the actual scale, its field (`meaning`) the displayed one. It is rounded when the
//! value leaves the expression.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, Float64Array, Int64Array, PrimitiveArray,
    UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, DecimalType, Field, Float64Type, UInt64Type, i256,
};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, Volatility};

use super::meaning;
use super::types::{decimal_of_digits, integer_digits};
use super::udf::{FunctionImpl, Udf};
use crate::{convert, losses};

/// MySQL's `div_precision_increment`: fractional digits that `/` adds.
const DIVISION_DIGITS: i8 = 4;
/// Maximum displayed scale of a computed DECIMAL, as in MySQL.
pub(super) const SCALE_MAX: i8 = 30;
/// Maximum scale of a product, as in MySQL.
const PRODUCT_SCALE_MAX: i8 = 31;
/// MySQL stores the digits of a quotient in words of this many digits.
const WORD_DIGITS: i8 = 9;
/// Digits of a date and time without a fraction.
pub(super) const CLOCK_DIGITS: u8 = 14;
/// Precision of a 128-bit DECIMAL.
const NARROW_DIGITS: i16 = 38;

/// The numeric kind of an operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Number {
    Int { digits: u8, unsigned: bool },
    Decimal(Digits),
    Double,
}

/// Digits of a decimal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Digits {
    /// Before the decimal point.
    pub whole: i16,
    /// After the decimal point.
    pub scale: i8,
    /// Fractional digits that are displayed.
    pub shown: i8,
}

impl Number {
    fn of(field: &Field) -> Self {
        match (meaning::time_digits(field), CLOCK_DIGITS) {
            (Some(0), digits) => return Self::Int { digits, unsigned: false },
            (Some(scale), digits) => {
                let scale = scale.cast_signed();
                return Self::Decimal(Digits { whole: digits.into(), scale, shown: scale });
            }
            (None, _) => {}
        }
        match Self::of_type(field.data_type()) {
            Self::Decimal(digits) => {
                let shown = meaning::scale(field).map_or(digits.scale, |shown| shown.cast_signed());
                Self::Decimal(Digits { shown, ..digits })
            }
            other => other,
        }
    }

    pub fn of_type(ty: &DataType) -> Self {
        match ty {
            DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
                let whole = i16::from(*precision) - i16::from(*scale);
                Self::Decimal(Digits { whole, scale: *scale, shown: *scale })
            }
            DataType::Null | DataType::Date32 => Self::Int { digits: 19, unsigned: false },
            ty => integer_digits(ty).map_or(Self::Double, |digits| Self::Int {
                digits,
                unsigned: ty.is_unsigned_integer(),
            }),
        }
    }

    /// The number as a decimal.
    pub fn digits(self) -> Digits {
        match self {
            Self::Int { digits, .. } => Digits { whole: digits.into(), scale: 0, shown: 0 },
            Self::Decimal(digits) => digits,
            Self::Double => Digits { whole: NARROW_DIGITS, scale: 0, shown: 0 },
        }
    }
}

/// The type of a result and its displayed scale.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct NumberType {
    pub ty: DataType,
    pub shown: Option<i8>,
}

impl From<DataType> for NumberType {
    fn from(ty: DataType) -> Self {
        Self { ty, shown: None }
    }
}

pub(super) fn decimal(whole: i16, scale: i8, shown: i8) -> NumberType {
    NumberType { ty: decimal_of_digits(whole.max(0), scale), shown: Some(shown.min(scale)) }
}

/// Derives the result type from the operands and those of them that are literals.
pub(super) type Returns = fn(&[Number], &[Option<&ScalarValue>]) -> Result<NumberType>;
/// Computes the result for columns of equal length.
pub(super) type Eval = fn(&[ArrayRef], &DataType) -> Result<ArrayRef>;

/// An arithmetic function.
#[derive(Debug)]
pub(super) struct Arithmetic {
    returns: Returns,
    eval: Eval,
}

impl Arithmetic {
    pub fn udf(
        name: &'static str,
        arity: (usize, usize),
        returns: Returns,
        eval: Eval,
    ) -> ScalarUDF {
        Udf::scalar(name, arity, Volatility::Immutable, Self { returns, eval })
    }
}

impl FunctionImpl for Arithmetic {
    fn field(&self, name: &str, args: &ReturnFieldArgs<'_>) -> Result<Field> {
        let operands = args.arg_fields.iter().map(|field| Number::of(field)).collect::<Vec<_>>();
        let typed = (self.returns)(&operands, args.scalar_arguments)?;
        let field = Field::new(name, typed.ty, true);
        Ok(match typed.shown {
            Some(shown) => meaning::with_scale(field, shown.unsigned_abs()),
            None => field,
        })
    }

    fn eval(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let arrays = args.args.iter().zip(&args.arg_fields);
        let arrays = arrays.map(|(arg, field)| exact(arg.to_array(rows)?, field));
        (self.eval)(&arrays.collect::<Result<Vec<_>>>()?, args.return_field.data_type())
    }
}

/// Converts times to the exact number of their digits, if the number of fractional digits is known.
fn exact(array: ArrayRef, field: &Field) -> Result<ArrayRef> {
    match meaning::time_digits(field) {
        None => Ok(array),
        Some(0) => Ok(Arc::new(convert::int(&array)?)),
        Some(digits) => convert::decimal(&array, CLOCK_DIGITS + digits, digits.cast_signed()),
    }
}

/// Whether the computation needs 256 bits.
pub(super) fn is_wide(args: &[ArrayRef], ty: &DataType) -> bool {
    let wide = |ty: &DataType| matches!(ty, DataType::Decimal256(_, _));
    wide(ty) || args.iter().any(|arg| wide(arg.data_type()))
}

/// Converts to decimals without changing the scale; returns the scale as well.
pub(super) fn decimals<T: DecimalType>(array: &ArrayRef) -> Result<(PrimitiveArray<T>, u32)> {
    let scale = Number::of_type(array.data_type()).digits().scale;
    let wanted = T::TYPE_CONSTRUCTOR(T::MAX_PRECISION, scale);
    let array = match array.data_type() {
        DataType::Boolean | DataType::Date32 => Arc::new(convert::int(array)?) as ArrayRef,
        _ => Arc::clone(array),
    };
    let values = cast(&array, &wanted)?;
    Ok((values.as_primitive::<T>().clone(), scale.unsigned_abs().into()))
}

/// Converts to integers.
pub(super) fn whole_numbers(array: &ArrayRef) -> Result<Vec<Option<i128>>> {
    Ok(match array.data_type() {
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>();
            values.iter().map(|value| value.map(i128::from)).collect()
        }
        _ => convert::int(array)?.iter().map(|value| value.map(i128::from)).collect(),
    })
}

/// Converts both columns to decimals of their own scale.
fn both<T: DecimalType>(args: &[ArrayRef]) -> Result<[(PrimitiveArray<T>, u32); 2]> {
    Ok([decimals::<T>(&args[0])?, decimals::<T>(&args[1])?])
}

/// Converts both columns to decimals of a common scale.
fn aligned<T: DecimalType>(args: &[ArrayRef], scale: u32) -> Result<[PrimitiveArray<T>; 2]> {
    let at_scale = |array: &ArrayRef| -> Result<PrimitiveArray<T>> {
        let (values, from) = decimals::<T>(array)?;
        let unit = ten::<T::Native>(scale.saturating_sub(from))?;
        Ok(values.try_unary(|value| value.mul_checked(unit))?)
    };
    Ok([at_scale(&args[0])?, at_scale(&args[1])?])
}

pub(super) fn ten<N: ArrowNativeTypeOp>(power: u32) -> Result<N, ArrowError> {
    N::usize_as(10).pow_checked(power)
}

pub(super) fn typed<T: DecimalType>(values: PrimitiveArray<T>, ty: &DataType) -> Result<ArrayRef> {
    let (DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale)) = *ty
    else {
        return exec_err!("decimals are no {ty}");
    };
    Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
}

/// Combines two columns value by value.
fn zipped<T: DecimalType>(
    left: &PrimitiveArray<T>,
    right: &PrimitiveArray<T>,
    each: impl Fn(T::Native, T::Native) -> Result<Option<T::Native>, ArrowError>,
) -> Result<PrimitiveArray<T>> {
    let pairs = left.iter().zip(right).map(|(left, right)| match (left, right) {
        (Some(left), Some(right)) => each(left, right),
        _ => Ok(None),
    });
    Ok(pairs.collect::<Result<_, _>>()?)
}

pub(super) fn pairs<'a, A, B, R>(
    left: impl IntoIterator<Item = Option<A>> + 'a,
    right: impl IntoIterator<Item = Option<B>> + 'a,
    each: impl Fn(A, B) -> Option<R> + 'a,
) -> impl Iterator<Item = Option<R>> + 'a {
    left.into_iter().zip(right).map(move |(l, r)| each(l?, r?))
}

/// The type of a quotient: its displayed scale is that of the dividend plus four; its scale inside
/// an expression is rounded up to MySQL's words.
fn divide_type(operands: &[Number], _: &[Option<&ScalarValue>]) -> Result<NumberType> {
    let [left, right] = [operands[0], operands[1]];
    if left == Number::Double || right == Number::Double {
        return Ok(DataType::Float64.into());
    }
    let (left, right) = (left.digits(), right.digits());
    let filled = |scale: i8| (scale + WORD_DIGITS - 1) / WORD_DIGITS * WORD_DIGITS;
    let (words, filling) = (
        filled(left.scale) + filled(right.scale),
        filled(left.scale) - left.scale + filled(right.scale) - right.scale,
    );
    let shown = (left.shown + DIVISION_DIGITS).min(SCALE_MAX);
    let kept = filled(words + (DIVISION_DIGITS - filling).max(0));
    let whole = left.whole + i16::from(right.scale);
    Ok(decimal(whole, kept.max(shown), shown))
}

fn divide(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    match ty {
        DataType::Float64 => doubles(args, "/", |left, right| (right != 0.0).then(|| left / right)),
        _ if is_wide(args, ty) => held(quotients::<Decimal256Type>(args, ty, wide_quotient)?, ty),
        _ => typed(quotients::<Decimal128Type>(args, ty, quotient)?, ty),
    }
}

/// Converts a 256-bit result to the derived type.
fn held(values: PrimitiveArray<Decimal256Type>, ty: &DataType) -> Result<ArrayRef> {
    if let DataType::Decimal256(_, _) = ty {
        return typed(values, ty);
    }
    let narrow = |value: i256| {
        let overflow = || ArrowError::ArithmeticOverflow(format!("{value} as a {ty}"));
        value.to_i128().ok_or_else(overflow)
    };
    typed(values.try_unary::<_, Decimal128Type, ArrowError>(narrow)?, ty)
}

/// Computes on doubles; results that are infinite or NaN are an error.
fn doubles(
    args: &[ArrayRef],
    sign: &str,
    each: impl Fn(f64, f64) -> Option<f64>,
) -> Result<ArrayRef> {
    let (left, right) = (convert::double(&args[0])?, convert::double(&args[1])?);
    let values: Float64Array = pairs(&left, &right, each).collect();
    match values.iter().flatten().all(f64::is_finite) {
        // Adding zero turns -0 into 0.
        true => Ok(Arc::new(values.unary::<_, Float64Type>(|value| value + 0.0))),
        false => exec_err!("DOUBLE value is out of range in '{sign}'"),
    }
}

/// A quotient truncated to an integer; NULL if the divisor is zero.
type Quotient<N> = fn(N, N, ScaleUp) -> Result<Option<N>, ArrowError>;

/// The powers of ten by which both operands of a division are multiplied first.
#[derive(Clone, Copy)]
struct ScaleUp {
    left: u32,
    right: u32,
}

fn quotients<T: DecimalType>(
    args: &[ArrayRef],
    ty: &DataType,
    quotient: Quotient<T::Native>,
) -> Result<PrimitiveArray<T>> {
    let [(left, s1), (right, s2)] = both::<T>(args)?;
    let scale = u32::from(Number::of_type(ty).digits().scale.unsigned_abs());
    let raise =
        ScaleUp { left: (scale + s2).saturating_sub(s1), right: s1.saturating_sub(scale + s2) };
    zipped(&left, &right, |left, right| quotient(left, right, raise))
}

/// `left / right` after scaling both, truncated; NULL if `right` is zero.
fn quotient(left: i128, right: i128, raise: ScaleUp) -> Result<Option<i128>, ArrowError> {
    if right == 0 {
        return Ok(None);
    }
    let raised = |value: i128, by: u32| 10_i128.checked_pow(by)?.checked_mul(value);
    if let (Some(left), Some(right)) = (raised(left, raise.left), raised(right, raise.right)) {
        return Ok(Some(left / right));
    }
    let wide = wide_quotient(i256::from_i128(left), i256::from_i128(right), raise)?;
    match wide.map(i256::to_i128) {
        Some(None) => Err(ArrowError::ArithmeticOverflow(format!("{left} / {right}"))),
        Some(fits) => Ok(fits),
        None => Ok(None),
    }
}

fn wide_quotient(left: i256, right: i256, raise: ScaleUp) -> Result<Option<i256>, ArrowError> {
    if right == i256::ZERO {
        return Ok(None);
    }
    let (left, right) =
        (left.mul_checked(ten(raise.left)?)?, right.mul_checked(ten(raise.right)?)?);
    left.div_checked(right).map(Some)
}

/// BIGINT, unsigned if any operand is.
pub(super) fn int_type(operands: &[Number], _: &[Option<&ScalarValue>]) -> Result<NumberType> {
    let unsigned = |number: &Number| matches!(number, Number::Int { unsigned: true, .. });
    let unsigned = operands.iter().any(unsigned);
    Ok(if unsigned { DataType::UInt64 } else { DataType::Int64 }.into())
}

/// DIV: doubles are converted to the decimal that they display as.
fn integer_divide(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let doubles = args.iter().any(|arg| Number::of_type(arg.data_type()) == Number::Double);
    if doubles || is_wide(args, ty) {
        let exact = |array: &ArrayRef| match Number::of_type(array.data_type()) {
            Number::Double => convert::wide_decimal(array, SCALE_MAX),
            _ => Ok(Arc::clone(array)),
        };
        let args = [exact(&args[0])?, exact(&args[1])?];
        let wanted = DataType::Decimal256(76, 0);
        let values = quotients::<Decimal256Type>(&args, &wanted, wide_quotient)?;
        let values = values.iter().map(|value| value.map(|v| v.to_i128().unwrap_or(i128::MAX)));
        return integers(values, ty, "DIV");
    }
    let [(left, s1), (right, s2)] = both::<Decimal128Type>(args)?;
    let (up1, up2) = (10_i128.pow(s2.saturating_sub(s1)), 10_i128.pow(s1.saturating_sub(s2)));
    let quotients =
        pairs(&left, &right, |l, r| l.checked_mul(up1)?.checked_div(r.checked_mul(up2)?));
    integers(quotients, ty, "DIV")
}

/// Converts to 64-bit integers; an overflow is an error.
pub(super) fn integers(
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

fn modulo_type(operands: &[Number], _: &[Option<&ScalarValue>]) -> Result<NumberType> {
    Ok(match (operands[0], operands[1]) {
        (Number::Double, _) | (_, Number::Double) => DataType::Float64.into(),
        (Number::Int { .. }, Number::Int { .. }) => int_type(&operands[..1], &[])?,
        (left, right) => {
            let (left, right) = (left.digits(), right.digits());
            let scale = left.scale.max(right.scale);
            decimal(left.whole.max(right.whole), scale, left.shown.max(right.shown))
        }
    })
}

fn modulo(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    Ok(match ty {
        DataType::Decimal256(_, _) => remainders::<Decimal256Type>(args, ty)?,
        DataType::Decimal128(_, _) => remainders::<Decimal128Type>(args, ty)?,
        DataType::Int64 | DataType::UInt64 => {
            let (left, right) = (whole_numbers(&args[0])?, whole_numbers(&args[1])?);
            integers(pairs(left, right, i128::checked_rem), ty, "%")?
        }
        _ => doubles(args, "%", |left, right| (right != 0.0).then(|| left % right))?,
    })
}

fn remainders<T: DecimalType>(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let scale = Number::of_type(ty).digits().scale.unsigned_abs();
    let [left, right] = aligned::<T>(args, scale.into())?;
    let remainders = zipped(&left, &right, |left, right| match right.is_zero() {
        true => Ok(None),
        false => left.mod_checked(right).map(Some),
    });
    typed(remainders?, ty)
}

/// The result type if an operand is a double or all are integers.
fn plain_type(
    operands: &[Number],
    literals: &[Option<&ScalarValue>],
) -> Result<Option<NumberType>> {
    if operands.contains(&Number::Double) {
        return Ok(Some(DataType::Float64.into()));
    }
    let integers = operands.iter().all(|number| matches!(number, Number::Int { .. }));
    integers.then(|| int_type(operands, literals)).transpose()
}

/// The result type of `+` and `-`.
fn sum_type(operands: &[Number], literals: &[Option<&ScalarValue>]) -> Result<NumberType> {
    if let Some(ty) = plain_type(operands, literals)? {
        return Ok(ty);
    }
    let (left, right) = (operands[0].digits(), operands[1].digits());
    let (scale, shown) = (left.scale.max(right.scale), left.shown.max(right.shown));
    Ok(decimal(left.whole.max(right.whole) + 1, scale, shown))
}

/// The result type of `*`.
fn product_type(operands: &[Number], literals: &[Option<&ScalarValue>]) -> Result<NumberType> {
    if let Some(ty) = plain_type(operands, literals)? {
        return Ok(ty);
    }
    let (left, right) = (operands[0].digits(), operands[1].digits());
    let shown = (left.shown + right.shown).min(SCALE_MAX);
    let scale = (left.scale + right.scale).min(PRODUCT_SCALE_MAX);
    Ok(decimal(left.whole + right.whole, scale, shown))
}

/// `+` or `-` for each kind of number.
struct AddOrSubtract {
    sign: &'static str,
    narrow: fn(i128, i128) -> Result<i128, ArrowError>,
    wide: fn(i256, i256) -> Result<i256, ArrowError>,
    double: fn(f64, f64) -> f64,
}

const PLUS: AddOrSubtract = AddOrSubtract {
    sign: "+",
    narrow: i128::add_checked,
    wide: i256::add_checked,
    double: |left, right| left + right,
};
const MINUS: AddOrSubtract = AddOrSubtract {
    sign: "-",
    narrow: i128::sub_checked,
    wide: i256::sub_checked,
    double: |left, right| left - right,
};

/// `+` or `-` on doubles, integers with possible overflow, or decimals.
fn added(args: &[ArrayRef], ty: &DataType, adds: &AddOrSubtract) -> Result<ArrayRef> {
    let AddOrSubtract { sign, narrow, wide, double } = adds;
    let scale = Number::of_type(ty).digits().scale.unsigned_abs().into();
    match ty {
        DataType::Float64 => doubles(args, sign, |left, right| Some(double(left, right))),
        DataType::Decimal256(_, _) => {
            let [left, right] = aligned::<Decimal256Type>(args, scale)?;
            typed(zipped(&left, &right, |l, r| wide(l, r).map(Some))?, ty)
        }
        DataType::Decimal128(_, _) => {
            let [left, right] = aligned::<Decimal128Type>(args, scale)?;
            typed(zipped(&left, &right, |l, r| narrow(l, r).map(Some))?, ty)
        }
        // Operands have at most 64 bits, so 128 cannot overflow.
        _ => {
            let (left, right) = (whole_numbers(&args[0])?, whole_numbers(&args[1])?);
            integers(pairs(left, right, |l, r| narrow(l, r).ok()), ty, sign)
        }
    }
}

fn product(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    match ty {
        DataType::Decimal256(_, _) => products::<Decimal256Type>(args, ty),
        DataType::Decimal128(_, _) => products::<Decimal128Type>(args, ty),
        DataType::Float64 => doubles(args, "*", |left, right| Some(left * right)),
        _ => {
            let (left, right) = (whole_numbers(&args[0])?, whole_numbers(&args[1])?);
            integers(pairs(left, right, |l, r| Some(l.saturating_mul(r))), ty, "*")
        }
    }
}

fn products<T: DecimalType>(args: &[ArrayRef], ty: &DataType) -> Result<ArrayRef> {
    let [(left, s1), (right, s2)] = both::<T>(args)?;
    let scale = u32::from(Number::of_type(ty).digits().scale.unsigned_abs());
    let cut = ten::<T::Native>((s1 + s2).saturating_sub(scale))?;
    typed(zipped(&left, &right, |l, r| l.mul_checked(r)?.div_checked(cut).map(Some))?, ty)
}

/// Divides, and records divisions by zero after the losses of the operands.
fn divided(args: &[ArrayRef], ty: &DataType, divide: Eval) -> Result<ArrayRef> {
    let values = divide(args, ty)?;
    // Each makes a NULL.
    if values.null_count() > 0 && losses::are_collected() {
        note_divisions(args)?;
    }
    Ok(values)
}

fn note_divisions(args: &[ArrayRef]) -> Result<()> {
    let divisors = losses::without_collecting(|| convert::double(&args[1]))?;
    let zero = |row: usize| divisors.is_valid(row) && divisors.value(row) == 0.0;
    let nulls = args[0].logical_nulls();
    let is_divided = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let divisions = (0..divisors.len()).filter(|row| is_divided(*row) && zero(*row));
    divisions.for_each(|_| losses::note_division());
    Ok(())
}

pub fn all() -> Vec<ScalarUDF> {
    vec![
        Arithmetic::udf("mysql_divide", (2, 2), divide_type, |args, ty| divided(args, ty, divide)),
        Arithmetic::udf("mysql_div", (2, 2), int_type, |args, ty| {
            divided(args, ty, integer_divide)
        }),
        Arithmetic::udf("mod", (2, 2), modulo_type, |args, ty| divided(args, ty, modulo)),
        Arithmetic::udf("mysql_add", (2, 2), sum_type, |args, ty| added(args, ty, &PLUS)),
        Arithmetic::udf("mysql_subtract", (2, 2), sum_type, |args, ty| added(args, ty, &MINUS)),
        Arithmetic::udf("mysql_multiply", (2, 2), product_type, product),
        Arithmetic::udf(
            "mysql_opposite",
            (1, 1),
            |_, _| Ok(DataType::Int64.into()),
            |args, ty| {
                let values = whole_numbers(&args[0])?.into_iter();
                integers(values.map(|value| value.map(|value| -value)), ty, "-")
            },
        ),
    ]
}

#[cfg(test)]
mod tests;
