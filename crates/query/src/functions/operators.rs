//! Operators by the types of their operands.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, binary_expr, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use freshet_schema::Collation;

use super::meaning::{DIGITS_MAX, digits, hides_digits, is_json, showing};
use super::number::CLOCK_DIGITS;
use super::once::is_long;
use super::types::{
    Operand, TEMPORAL_NUMBER, TypedExpr, common, converted, exact_digits, integer_digits, is_clock,
    is_comparison, is_decimal, is_temporal, truth,
};
use super::whole::{hidden, with_short_name};
use super::written_dates::{date_literal, temporal_operand};
use super::{in_set, nested, written_dates, written_years};
use crate::coercibility::{Derived, Strength};
use crate::convert::{self, DATETIME, is_binary, is_text};
use crate::temporal;
use crate::{interrupt, labels, losses, sketches};

/// Plans binary operators with MySQL's semantics.
#[derive(Debug)]
pub struct MySqlOperators;

impl ExprPlanner for MySqlOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        interrupt::check()?;
        let fields = (expr.left.to_field(schema), expr.right.to_field(schema));
        let (Ok((_, left)), Ok((_, right))) = fields else {
            return Ok(PlannerResult::Original(expr));
        };
        sketches::check_operands(&left, &right)?;
        let expr = match (is_json(&left), is_json(&right)) {
            (true, false) => with_json(expr, true, right.data_type()),
            (false, true) => with_json(expr, false, left.data_type()),
            _ => expr,
        };
        if left.data_type().is_nested() || right.data_type().is_nested() {
            return nested::compared(expr, (left.data_type(), right.data_type()));
        }
        let RawBinaryExpr { op, left, right } = expr;
        let operands = labels::operands(&op, (left, right), schema)?;
        let (mut left, mut right) = written_years::full(&op, operands, schema);
        if is_arithmetic(&op) {
            let number = |expr| as_exact_number(expr, schema, op == BinaryOperator::Divide);
            (left, right) = (number(left)?, number(right)?);
        }
        // Conditions keep their names, because pruning does not see what is hidden by a short name;
        // the operands that pruning can use are columns.
        if !matches!(op, BinaryOperator::And | BinaryOperator::Or) {
            (left, right) = (with_short_name(left), with_short_name(right));
        }
        let fields = (left.to_field(schema)?.1, right.to_field(schema)?.1);
        let types = (fields.0.data_type(), fields.1.data_type());
        written_dates::check(&op, (&left, types.0), (&right, types.1))?;
        let hides = hides_digits(&fields.0) || hides_digits(&fields.1);
        Ok(match planned(&op, ((left, types.0), (right, types.1)), hides) {
            Ok(expr) if is_condition(&op) => PlannerResult::Planned(expr),
            Ok(expr) => PlannerResult::Planned(with_short_name(expr)),
            Err(operands) => {
                let (left, right) = *operands;
                PlannerResult::Original(RawBinaryExpr { op, left, right })
            }
        })
    }

    // Only the rewriter creates array literals, for the literals of a long list.
    fn plan_array_literal(
        &self,
        literals: Vec<Expr>,
        _schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        in_set::literals_as_one(literals).map(PlannerResult::Planned)
    }
}

/// Whether the operator is arithmetic.
fn is_arithmetic(op: &BinaryOperator) -> bool {
    use BinaryOperator::{
        Divide, DuckIntegerDivide, Minus, Modulo, Multiply, MyIntegerDivide, Plus,
    };
    matches!(op, Divide | DuckIntegerDivide | Minus | Modulo | Multiply | MyIntegerDivide | Plus)
}

/// Converts a temporal value to the exact number of its digits, if the number of fractional digits
/// is known. For division, a value with any fractional digits is converted with all six.
fn as_exact_number(expr: Expr, schema: &DFSchema, divided: bool) -> Result<Expr> {
    let (_, field) = expr.to_field(schema)?;
    let shown = match field.data_type() {
        DataType::Date32 => Some(0),
        DataType::Timestamp(_, _) | DataType::Duration(_) => {
            digits(&field, None, field.data_type())
        }
        _ => None,
    };
    Ok(match shown {
        None => expr,
        Some(0) => super::call("mysql_int", vec![expr]),
        Some(shown) => {
            let digits = if divided { DIGITS_MAX } else { shown };
            let precision = lit(i64::from(CLOCK_DIGITS + digits));
            let number = vec![expr, precision, lit(i64::from(digits))];
            let number = super::call("mysql_decimal", number);
            if divided { showing(number, Some(shown)) } else { number }
        }
    })
}

/// Whether the operator's result is a boolean.
fn is_condition(op: &BinaryOperator) -> bool {
    use BinaryOperator::{And, Or, Xor};
    is_comparison(op) || matches!(op, And | Or | Xor)
}

/// Operands of which one is JSON: it is compared to text as JSON, and to numbers as a number.
fn with_json(expr: RawBinaryExpr, on_left: bool, other: &DataType) -> RawBinaryExpr {
    let RawBinaryExpr { op, mut left, mut right } = expr;
    let (json, plain) = if on_left { (&mut left, &mut right) } else { (&mut right, &mut left) };
    let equality =
        matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq | BinaryOperator::Spaceship);
    let order = matches!(
        op,
        BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq
    );
    let wrap = |name: &str, expr: &mut Expr| {
        *expr = super::call(name, vec![std::mem::replace(expr, lit(0))]);
    };
    let number = other.is_numeric() || *other == DataType::Boolean;
    match (is_text(other), number) {
        (true, _) if equality => wrap("json_quote", plain),
        (true, _) if order => wrap("json_unquote", json),
        (_, true) => wrap("mysql_json_number", json),
        _ => {}
    }
    RawBinaryExpr { op, left, right }
}

/// Maximum scale of a product computed by DataFusion.
const PRODUCT_SCALE_MAX: i8 = 30;

/// Plans `left op right`, or returns the operands if DataFusion's operator is correct.
fn planned(
    op: &BinaryOperator,
    (left, right): (Operand<'_>, Operand<'_>),
    hides: bool,
) -> Result<Expr, Box<(Expr, Expr)>> {
    Ok(match op {
        BinaryOperator::Eq => compare(left, Operator::Eq, right),
        BinaryOperator::NotEq => compare(left, Operator::NotEq, right),
        BinaryOperator::Lt => compare(left, Operator::Lt, right),
        BinaryOperator::LtEq => compare(left, Operator::LtEq, right),
        BinaryOperator::Gt => compare(left, Operator::Gt, right),
        BinaryOperator::GtEq => compare(left, Operator::GtEq, right),
        BinaryOperator::Spaceship => compare(left, Operator::IsNotDistinctFrom, right),
        BinaryOperator::And => truth(left.0, left.1).and(truth(right.0, right.1)),
        BinaryOperator::Or => truth(left.0, left.1).or(truth(right.0, right.1)),
        BinaryOperator::Xor => truth(left.0, left.1).not_eq(truth(right.0, right.1)),
        BinaryOperator::Plus => arithmetic(left, Operator::Plus, right, hides),
        BinaryOperator::Minus => arithmetic(left, Operator::Minus, right, hides),
        BinaryOperator::Multiply => arithmetic(left, Operator::Multiply, right, hides),
        BinaryOperator::Divide => quotient("mysql_divide", left, right),
        BinaryOperator::MyIntegerDivide | BinaryOperator::DuckIntegerDivide => {
            quotient("mysql_div", left, right)
        }
        BinaryOperator::Modulo => quotient("mod", left, right),
        BinaryOperator::BitwiseAnd => bits("mysql_bit_and", left, right),
        BinaryOperator::BitwiseOr => bits("mysql_bit_or", left, right),
        BinaryOperator::BitwiseXor => bits("mysql_bit_xor", left, right),
        BinaryOperator::PGBitwiseShiftLeft => bits("mysql_shift_left", left, right),
        BinaryOperator::PGBitwiseShiftRight => bits("mysql_shift_right", left, right),
        BinaryOperator::StringConcat => super::call("concat", vec![left.0, right.0]),
        BinaryOperator::Arrow => super::call("json_extract", vec![left.0, right.0]),
        BinaryOperator::LongArrow => {
            super::call("json_unquote", vec![super::call("json_extract", vec![left.0, right.0])])
        }
        _ => return Err(Box::new((left.0, right.0))),
    })
}

fn quotient(name: &str, left: Operand<'_>, right: Operand<'_>) -> Expr {
    super::call(name, vec![of_bits(left).0, of_bits(right).0])
}

fn bits(name: &str, left: Operand<'_>, right: Operand<'_>) -> Expr {
    super::call(name, vec![left.0, right.0])
}

/// `left op right`: text is compared to numbers as a double and to dates as a date.
pub fn compare(left: Operand<'_>, op: Operator, right: Operand<'_>) -> Expr {
    let (left, right) = comparable(left, right);
    match op {
        // If one side is always NULL, `<=>` says whether the other is; unlike IS NULL it does not
        // find the zero date.
        Operator::IsNotDistinctFrom if left.1 == DataType::Null => !right.0.is_not_null(),
        Operator::IsNotDistinctFrom if right.1 == DataType::Null => !left.0.is_not_null(),
        Operator::IsNotDistinctFrom if is_of_rows(&left.0) && is_of_rows(&right.0) => {
            same_or_both_null(left, right)
        }
        _ => binary_expr(left.0, op, right.0),
    }
}

/// Whether an expression depends on the row and is deterministic.
fn is_of_rows(expr: &Expr) -> bool {
    expr.any_column_refs() && !expr.is_volatile()
}

/// `left <=> right` as equalities of expressions that are never NULL. A join has one NULL semantics
/// for all its keys, and loses it when joins are merged; equalities keep their meaning wherever the
/// optimizer moves them. Long operands are not written twice, so that joins do not see them.
fn same_or_both_null(left: TypedExpr, right: TypedExpr) -> Expr {
    if is_long(&left.0) || is_long(&right.0) {
        return hidden(binary_expr(left.0, Operator::IsNotDistinctFrom, right.0));
    }
    let defaults = (ScalarValue::new_default(&left.1), ScalarValue::new_default(&right.1));
    let (Ok(left_default), Ok(right_default)) = defaults else {
        return binary_expr(left.0, Operator::IsNotDistinctFrom, right.0);
    };
    let value = |(expr, _): &TypedExpr, default: ScalarValue| {
        super::call("df_coalesce", vec![expr.clone(), lit(default)])
    };
    let equal = value(&left, left_default).eq(value(&right, right_default));
    left.0.is_null().eq(right.0.is_null()).and(equal)
}

/// Converts both operands of a comparison to the type in which MySQL compares them.
pub fn comparable(left: Operand<'_>, right: Operand<'_>) -> (TypedExpr, TypedExpr) {
    let (left_type, right_type) = (left.1, right.1);
    let number = |ty: &DataType| ty.is_numeric() || *ty == DataType::Boolean;
    // A boolean becomes an integer, unless compared to integers, which it is compatible with.
    let truth = |ty: &DataType, other: &DataType| {
        let integer = other.is_integer() || matches!(other, DataType::Boolean | DataType::Null);
        *ty == DataType::Boolean && !integer
    };
    match (left_type, right_type) {
        (DataType::Null, _) | (_, DataType::Null) => (owned(left), owned(right)),
        (a, b) if truth(a, b) => {
            comparable((cast(left.0, DataType::Int64), &DataType::Int64), right)
        }
        (a, b) if truth(b, a) => {
            comparable(left, (cast(right.0, DataType::Int64), &DataType::Int64))
        }
        (a, b) if a == b || (is_text(a) && is_text(b)) => (owned(left), owned(right)),
        (a, b) if is_temporal(a) && is_temporal(b) => (to(left, &DATETIME), to(right, &DATETIME)),
        (a, b) if is_temporal(a) && b.is_numeric() => date_and_number(left, right),
        (a, b) if is_temporal(b) && a.is_numeric() => {
            let (right, left) = date_and_number(right, left);
            (left, right)
        }
        (a, b) if is_temporal(a) && *b != DataType::Boolean => {
            let right = temporal_operand(right, a);
            (to(left, &right.1), right)
        }
        (a, b) if is_temporal(b) && *a != DataType::Boolean => {
            let left = temporal_operand(left, b);
            let right = to(right, &left.1);
            (left, right)
        }
        (DataType::Duration(_), _) | (_, DataType::Duration(_)) => {
            (to(left, &convert::TIME), to(right, &convert::TIME))
        }
        (a, b) if is_text(a) && is_binary(b) && text_of_bytes(&right.0).is_some() => {
            (owned(left), text_of_bytes(&right.0).expect("looked at before"))
        }
        (a, b) if is_binary(a) && is_text(b) && text_of_bytes(&left.0).is_some() => {
            (text_of_bytes(&left.0).expect("looked at before"), owned(right))
        }
        (a, b) if is_binary(a) != is_binary(b) && (is_text(a) || is_text(b)) => {
            (as_type(left, &DataType::BinaryView), as_type(right, &DataType::BinaryView))
        }
        (a, b) if is_text(a) != is_text(b) => {
            let (left, right) = (as_number(left, b), as_number(right, a));
            comparable((left.0, &left.1), (right.0, &right.1))
        }
        // Doubles can have values that no decimal can represent.
        (a, b) if number(a) && number(b) && a.is_floating() != b.is_floating() => {
            (to(left, &DataType::Float64), to(right, &DataType::Float64))
        }
        (a, b) if is_binary(a) && b.is_numeric() => {
            let (left, right) = (as_bits_or_number(left), owned(right));
            comparable((left.0, &left.1), (right.0, &right.1))
        }
        (a, b) if is_binary(b) && a.is_numeric() => {
            let (left, right) = (owned(left), as_bits_or_number(right));
            comparable((left.0, &left.1), (right.0, &right.1))
        }
        (DataType::Boolean, b) if b.is_integer() => (as_type(left, b), owned(right)),
        (a, DataType::Boolean) if a.is_integer() => (owned(left), as_type(right, a)),
        _ => exact_operands(left, right),
    }
}

/// The text of a literal after `_binary`, or after BINARY, for which the rewriter writes two calls.
/// Text is ordered by its bytes, so a text column can be compared to it without conversion.
fn text_of_bytes(expr: &Expr) -> Option<TypedExpr> {
    let (inner, strength) = match inside_binary(expr)? {
        inner @ Expr::Literal(..) => (inner, Strength::Coercible),
        cast => (inside_binary(cast)?, Strength::Implicit),
    };
    let Expr::Literal(value, _) = inner else { return None };
    value.try_as_str().flatten().map(|_| (by_bytes(value, strength), value.data_type()))
}

fn inside_binary(expr: &Expr) -> Option<&Expr> {
    let Expr::ScalarFunction(call) = expr else { return None };
    call.args.first().filter(|_| call.func.name() == "mysql_binary")
}

/// A literal by whose bytes texts are compared.
fn by_bytes(value: &ScalarValue, strength: Strength) -> Expr {
    let derived = Derived { collation: Collation::Binary, strength };
    Expr::Literal(value.clone(), Some(derived.metadata()))
}

fn owned(operand: Operand<'_>) -> TypedExpr {
    (operand.0, operand.1.clone())
}

/// Converts an operand by MySQL's rules.
fn to(operand: Operand<'_>, ty: &DataType) -> TypedExpr {
    (converted(operand.0, operand.1, ty), ty.clone())
}

fn as_type(operand: Operand<'_>, ty: &DataType) -> TypedExpr {
    (cast(operand.0, ty.clone()), ty.clone())
}

fn as_bits_or_number(operand: Operand<'_>) -> TypedExpr {
    let (expr, ty) = of_bits(operand);
    let wanted = if is_binary(ty) { &DataType::Float64 } else { ty };
    (number(expr, ty), wanted.clone())
}

/// Exact numbers that need more than 128 bits are compared in 256.
fn exact_operands(left: Operand<'_>, right: Operand<'_>) -> (TypedExpr, TypedExpr) {
    let (left_type, right_type) = (left.1, right.1);
    let (left, right) = (small_decimal(left, right_type), small_decimal(right, left_type));
    match common(&left.1, &right.1) {
        wide @ DataType::Decimal256(_, _) => {
            (to((left.0, &left.1), &wide), to((right.0, &right.1), &wide))
        }
        _ => (left, right),
    }
}

/// A date and a number: an integer literal that is a valid date is compared as a date; anything
/// else as numbers.
fn date_and_number(date: Operand<'_>, number: Operand<'_>) -> (TypedExpr, TypedExpr) {
    if let Expr::Literal(value, _) = &number.0
        && number.1.is_integer()
        && let Ok(ScalarValue::Int64(Some(written))) = value.cast_to(&DataType::Int64)
        && let Some(micros) = temporal::from_number(written)
    {
        let number = date_literal(Some(micros), date.1);
        return (to(date, &number.1), number);
    }
    if number.1.is_floating() {
        return (to(date, &DataType::Float64), to(number, &DataType::Float64));
    }
    let (date, ty) = match date.1 {
        DataType::Date32 => to(date, &DataType::Int64),
        _ => to(date, &TEMPORAL_NUMBER),
    };
    exact_operands((date, &ty), number)
}

/// An operand of a comparison of text to a number.
fn as_number(operand: Operand<'_>, other: &DataType) -> TypedExpr {
    if let (Expr::Literal(value, _), true) = (&operand.0, is_text(operand.1))
        && let Some(Some(text)) = value.try_as_str()
    {
        // An integer in quotes is compared exactly, and the column needs no conversion.
        if other.is_integer()
            && let Ok(number) = text.trim().parse::<i64>()
        {
            return (lit(number), DataType::Int64);
        }
        if losses::may_fold(|| convert::is_number(text)) {
            return (lit(convert::number_prefix(text)), DataType::Float64);
        }
    }
    match operand.1 {
        DataType::Boolean => to(operand, &DataType::Int64),
        ty if is_text(ty) => to(operand, &DataType::Float64),
        _ => owned(operand),
    }
}

/// An integer literal combined with a decimal gets the precision of its digits, so that products of
/// decimals keep their precision.
fn small_decimal(operand: Operand<'_>, other: &DataType) -> TypedExpr {
    if let (Expr::Literal(value, _), DataType::Decimal128(_, _)) = (&operand.0, other)
        && operand.1.is_integer()
        && let Ok(ScalarValue::Int64(Some(number))) = value.cast_to(&DataType::Int64)
    {
        let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
        let precision = u8::try_from(digits).expect("an i64 has at most 19 digits");
        let value = ScalarValue::Decimal128(Some(number.into()), precision, 0);
        return (lit(value), DataType::Decimal128(precision, 0));
    }
    owned(operand)
}

/// Converts a hexadecimal or bit literal to a number.
fn of_bits(operand: Operand<'_>) -> Operand<'_> {
    match operand {
        // Computed or bound bytes are strings: they have another type.
        (expr @ Expr::Literal(..), DataType::Binary) => {
            (super::call("mysql_bits", vec![expr]), &DataType::UInt64)
        }
        other => other,
    }
}

/// Whether exact numbers need our arithmetic: DataFusion's does not know hidden digits and is
/// limited to a precision of 38.
fn needs_own_arithmetic(left: &TypedExpr, op: Operator, right: &TypedExpr, hides: bool) -> bool {
    let (Some((p1, s1)), Some((p2, s2))) = (exact_digits(&left.1), exact_digits(&right.1)) else {
        return false;
    };
    let wide = |operand: &TypedExpr| matches!(operand.1, DataType::Decimal256(_, _));
    if hides || wide(left) || wide(right) {
        return true;
    }
    let (p1, s1, p2, s2) = (i16::from(p1), i16::from(s1), i16::from(p2), i16::from(s2));
    match op {
        Operator::Multiply if is_zero_or_one(&left.0) || is_zero_or_one(&right.0) => true,
        // If a product's precision exceeds 128 bits, DataFusion fails only if a value overflows.
        // That is accepted for columns, whose values seldom have their declared precision, but not
        // for columns of full precision or for constants, whose digits are known.
        Operator::Multiply => {
            let full = i16::from(DECIMAL128_MAX_PRECISION);
            let literal = |operand: &TypedExpr| matches!(operand.0, Expr::Literal(..));
            let constants = literal(left)
                || literal(right)
                || (!left.0.any_column_refs() && !right.0.any_column_refs());
            s1 + s2 > i16::from(PRODUCT_SCALE_MAX)
                || p1 == full
                || p2 == full
                || (constants && p1 + p2 > full)
        }
        _ => {
            let needs = (p1 - s1).max(p2 - s2) + s1.max(s2) + 1;
            needs > i16::from(DECIMAL128_MAX_PRECISION)
        }
    }
}

/// Whether DataFusion would simplify a product with this literal, and lose the scale of the result.
fn is_zero_or_one(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Decimal128(value, _, scale), _) => {
            let one = 10_i128.checked_pow(u32::from(scale.unsigned_abs()));
            value.is_none() || *value == Some(0) || *value == one
        }
        _ => false,
    }
}

/// `+`, `-` and `*` of numbers that may have hidden digits.
fn arithmetic(left: Operand<'_>, op: Operator, right: Operand<'_>, hides: bool) -> Expr {
    if matches!(left.1, DataType::Interval(_)) || matches!(right.1, DataType::Interval(_)) {
        return binary_expr(left.0, op, right.0);
    }
    let (left, right) = (of_bits(left), of_bits(right));
    let (left_type, right_type) = (left.1, right.1);
    let integers = integer_digits(left_type).is_some() && integer_digits(right_type).is_some();
    let name = match op {
        Operator::Plus => "mysql_add",
        Operator::Minus => "mysql_subtract",
        _ => "mysql_multiply",
    };
    if integers {
        return match left_type.is_unsigned_integer() || right_type.is_unsigned_integer() {
            true => unsigned(name, left, op, right),
            false => checked(name, left, op, right),
        };
    }
    let left = small_decimal((number(left.0, left_type), left_type), right_type);
    let right = small_decimal((number(right.0, right_type), right_type), &left.1);
    let doubles = left.1.is_floating() || right.1.is_floating();
    match doubles || needs_own_arithmetic(&left, op, &right, hides) {
        true => super::call(name, vec![left.0, right.0]),
        false => binary_expr(left.0, op, right.0),
    }
}

/// Arithmetic on integers of up to 32 bits cannot overflow 64; with wider ones it is checked.
fn checked(name: &str, left: Operand<'_>, op: Operator, right: Operand<'_>) -> Expr {
    let needs = match op {
        Operator::Multiply => most_digits(&left) + most_digits(&right),
        _ => most_digits(&left).max(most_digits(&right)) + 1,
    };
    let wide = |operand: Operand<'_>| match operand.1 {
        DataType::Int64 => operand.0,
        _ => cast(operand.0, DataType::Int64),
    };
    let (left, right) = (wide(left), wide(right));
    if needs > 19 { super::call(name, vec![left, right]) } else { binary_expr(left, op, right) }
}

/// Arithmetic with an unsigned integer has an unsigned result; a negative result is an error.
fn unsigned(name: &str, left: Operand<'_>, op: Operator, right: Operand<'_>) -> Expr {
    let needs = match op {
        Operator::Multiply => most_digits(&left) + most_digits(&right),
        _ => most_digits(&left).max(most_digits(&right)) + 1,
    };
    let fits = needs <= 19 && op != Operator::Minus;
    if !(fits && is_never_negative(&left) && is_never_negative(&right)) {
        return super::call(name, vec![left.0, right.0]);
    }
    binary_expr(cast(left.0, DataType::UInt64), op, cast(right.0, DataType::UInt64))
}

fn is_never_negative(operand: &Operand<'_>) -> bool {
    match &operand.0 {
        Expr::Literal(value, _) => {
            matches!(value.cast_to(&DataType::Int64), Ok(ScalarValue::Int64(Some(0..))))
        }
        _ => operand.1.is_unsigned_integer(),
    }
}

/// Maximum number of digits of an integer operand.
fn most_digits(operand: &Operand<'_>) -> u8 {
    match &operand.0 {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(v))) if v.unsigned_abs() < 1_000_000_000 => 9,
            _ => 19,
        },
        _ => integer_digits(operand.1).unwrap_or(19),
    }
}

/// An operand of arithmetic: text is converted to a double by its prefix, a date to its digits.
fn number(expr: Expr, ty: &DataType) -> Expr {
    match ty {
        DataType::Boolean | DataType::Date32 => converted(expr, ty, &DataType::Int64),
        _ if is_clock(ty) || is_text(ty) || is_binary(ty) => {
            converted(expr, ty, &DataType::Float64)
        }
        _ => expr,
    }
}

/// `-operand`, after type coercion.
pub fn negated(operand: Expr, ty: &DataType) -> Expr {
    match ty {
        // An unsigned operand becomes signed.
        ty if ty.is_unsigned_integer() => super::call("mysql_opposite", vec![operand]),
        ty if integer_digits(ty).is_some() => {
            let operand = (cast(operand, DataType::Int64), &DataType::Int64);
            arithmetic((lit(0_i64), &DataType::Int64), Operator::Minus, operand, false)
        }
        ty if is_decimal(ty) => {
            arithmetic((lit(0_i64), &DataType::Int64), Operator::Minus, (operand, ty), false)
        }
        DataType::Date32 => lit(0_i64) - converted(operand, ty, &DataType::Int64),
        DataType::Timestamp(_, _) | DataType::Duration(_) => {
            lit(0_i64) - converted(operand, ty, &TEMPORAL_NUMBER)
        }
        _ => lit(0.0) - converted(operand, ty, &DataType::Float64),
    }
}
