//! What operators mean between operands of these types.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, binary_expr, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::meaning::is_json;
use super::typed::{common, converted, integer_digits, truth};
use super::whole::named_shortly;
use crate::convert::{self, DATETIME, is_binary, is_text};
use crate::interrupt;
use crate::temporal::{self, DAY};

/// Plans binary operators as MySQL means them.
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
        let expr = match (is_json(&left), is_json(&right)) {
            (true, false) => with_json(expr, true, right.data_type()),
            (false, true) => with_json(expr, false, left.data_type()),
            _ => expr,
        };
        let types = (expr.left.get_type(schema)?, expr.right.get_type(schema)?);
        let (left_type, right_type) = types;
        let RawBinaryExpr { op, left, right } = expr;
        let operands = ((left, &left_type), (right, &right_type));
        Ok(match planned(&op, operands) {
            // Conditions keep their names: what is hidden in them prunes no files.
            Ok(expr) if is_condition(&op) => PlannerResult::Planned(expr),
            Ok(expr) => PlannerResult::Planned(named_shortly(expr)),
            Err(operands) => {
                let (left, right) = *operands;
                PlannerResult::Original(RawBinaryExpr { op, left, right })
            }
        })
    }
}

/// Whether the operator gives a truth.
fn is_condition(op: &BinaryOperator) -> bool {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or, Spaceship, Xor};
    matches!(op, And | Eq | Gt | GtEq | Lt | LtEq | NotEq | Or | Spaceship | Xor)
}

/// Operands of which one is JSON: with text it is compared as JSON, and with numbers as one.
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

type Operand<'a> = (Expr, &'a DataType);

/// The expression of `left op right`, or the operands back when DataFusion's is right.
fn planned(
    op: &BinaryOperator,
    (left, right): (Operand<'_>, Operand<'_>),
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
        BinaryOperator::Plus => arithmetic(left, Operator::Plus, right),
        BinaryOperator::Minus => arithmetic(left, Operator::Minus, right),
        BinaryOperator::Multiply => arithmetic(left, Operator::Multiply, right),
        BinaryOperator::Divide => super::call("mysql_divide", vec![left.0, right.0]),
        BinaryOperator::MyIntegerDivide | BinaryOperator::DuckIntegerDivide => {
            super::call("mysql_div", vec![left.0, right.0])
        }
        BinaryOperator::Modulo => super::call("mod", vec![left.0, right.0]),
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

fn bits(name: &str, left: Operand<'_>, right: Operand<'_>) -> Expr {
    super::call(name, vec![left.0, right.0])
}

fn is_temporal(ty: &DataType) -> bool {
    matches!(ty, DataType::Date32 | DataType::Timestamp(_, _))
}

/// An expression and its type.
type Typed = (Expr, DataType);

/// `left op right`, where text meets numbers as a double and dates as a date.
pub fn compare(left: Operand<'_>, op: Operator, right: Operand<'_>) -> Expr {
    let (left, right) = comparable(left, right);
    match op {
        Operator::IsNotDistinctFrom if is_of_rows(&left.0) && is_of_rows(&right.0) => {
            same_or_both_null(left, right)
        }
        _ => binary_expr(left.0, op, right.0),
    }
}

/// Whether a value is another one in each row, and always the same in one.
fn is_of_rows(expr: &Expr) -> bool {
    expr.any_column_refs() && !expr.is_volatile()
}

/// `left <=> right` as equalities of what is never NULL. A plan knows one meaning of NULL for all
/// keys of a join, and does not keep it when joins are put together; equalities mean the same
/// wherever a plan moves them.
fn same_or_both_null(left: Typed, right: Typed) -> Expr {
    let defaults = (ScalarValue::new_default(&left.1), ScalarValue::new_default(&right.1));
    let (Ok(left_default), Ok(right_default)) = defaults else {
        return binary_expr(left.0, Operator::IsNotDistinctFrom, right.0);
    };
    let value = |(expr, _): &Typed, default: ScalarValue| {
        super::call("df_coalesce", vec![expr.clone(), lit(default)])
    };
    let equal = value(&left, left_default).eq(value(&right, right_default));
    left.0.is_null().eq(right.0.is_null()).and(equal)
}

/// Both operands of a comparison, converted to what MySQL compares them as.
fn comparable(left: Operand<'_>, right: Operand<'_>) -> (Typed, Typed) {
    let (left_type, right_type) = (left.1, right.1);
    let number = |ty: &DataType| ty.is_numeric() || *ty == DataType::Boolean;
    match (left_type, right_type) {
        (DataType::Null, _) | (_, DataType::Null) => (owned(left), owned(right)),
        (a, b) if a == b || (is_text(a) && is_text(b)) => (owned(left), owned(right)),
        (a, b) if is_temporal(a) && is_temporal(b) => (to(left, &DATETIME), to(right, &DATETIME)),
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
        (a, b) if is_binary(a) != is_binary(b) && (is_text(a) || is_text(b)) => {
            (as_type(left, &DataType::BinaryView), as_type(right, &DataType::BinaryView))
        }
        (a, b) if is_text(a) != is_text(b) => (as_number(left, b), as_number(right, a)),
        // A double has values that no decimal holds.
        (a, b) if number(a) && number(b) && a.is_floating() != b.is_floating() => {
            (to(left, &DataType::Float64), to(right, &DataType::Float64))
        }
        (a, b) if is_binary(a) && b.is_numeric() => (as_bits_or_number(left), owned(right)),
        (a, b) if is_binary(b) && a.is_numeric() => (owned(left), as_bits_or_number(right)),
        (DataType::Boolean, b) if b.is_numeric() => (as_type(left, b), owned(right)),
        (a, DataType::Boolean) if a.is_numeric() => (owned(left), as_type(right, a)),
        _ => exact_operands(left, right),
    }
}

fn owned(operand: Operand<'_>) -> Typed {
    (operand.0, operand.1.clone())
}

/// An operand converted as MySQL converts.
fn to(operand: Operand<'_>, ty: &DataType) -> Typed {
    (converted(operand.0, operand.1, ty), ty.clone())
}

fn as_type(operand: Operand<'_>, ty: &DataType) -> Typed {
    (cast(operand.0, ty.clone()), ty.clone())
}

fn as_bits_or_number(operand: Operand<'_>) -> Typed {
    let (expr, ty) = of_bits(operand);
    let wanted = if is_binary(ty) { &DataType::Float64 } else { ty };
    (number(expr, ty), wanted.clone())
}

/// Exact numbers: more digits than 128 bits hold are compared in 256.
fn exact_operands(left: Operand<'_>, right: Operand<'_>) -> (Typed, Typed) {
    let (left_type, right_type) = (left.1, right.1);
    let (left, right) = (small_decimal(left, right_type), small_decimal(right, left_type));
    match common(&left.1, &right.1) {
        wide @ DataType::Decimal256(_, _) => {
            (to((left.0, &left.1), &wide), to((right.0, &right.1), &wide))
        }
        _ => (left, right),
    }
}

/// `value IN (items)`, each item compared as MySQL compares it with the value; those that are
/// compared alike are one list.
pub fn among(value: Operand<'_>, items: Vec<Operand<'_>>) -> Expr {
    let mut lists: Vec<(Expr, Vec<Expr>)> = Vec::new();
    for item in items {
        let ((value, _), (item, _)) = comparable(value.clone(), item);
        match lists.iter_mut().find(|(compared, _)| *compared == value) {
            Some((_, list)) => list.push(item),
            None => lists.push((value, vec![item])),
        }
    }
    let tests = lists.into_iter().map(|(value, list)| value.in_list(list, false));
    tests.reduce(Expr::or).unwrap_or_else(|| lit(false))
}

/// An operand of a comparison with a date: a literal is read at once, so that the column stays
/// bare and files can be skipped by it.
fn temporal_operand(operand: Operand<'_>, with: &DataType) -> Typed {
    let literal = match &operand.0 {
        Expr::Literal(value, _) => match value.try_as_str() {
            Some(Some(text)) => Some(temporal::parse_datetime(text)),
            _ => match value.cast_to(&DataType::Int64) {
                Ok(ScalarValue::Int64(Some(number))) => Some(temporal::from_number(number)),
                _ => None,
            },
        },
        _ => None,
    };
    match literal {
        Some(Some(micros)) if *with == DataType::Date32 && micros % DAY == 0 => {
            (lit(ScalarValue::Date32(Some(temporal::days(micros)))), DataType::Date32)
        }
        Some(micros) => (lit(ScalarValue::TimestampMicrosecond(micros, None)), DATETIME),
        None => (converted(operand.0, operand.1, &DATETIME), DATETIME),
    }
}

/// An operand of a comparison of text with a number.
fn as_number(operand: Operand<'_>, other: &DataType) -> Typed {
    if let (Expr::Literal(value, _), true) = (&operand.0, is_text(operand.1))
        && let Some(Some(text)) = value.try_as_str()
    {
        // An integer in quotes is compared exactly, and its column stays bare.
        if other.is_integer()
            && let Ok(number) = text.trim().parse::<i64>()
        {
            return (lit(number), DataType::Int64);
        }
        return (lit(convert::number_prefix(text)), DataType::Float64);
    }
    match operand.1 {
        DataType::Boolean => to(operand, &DataType::Int64),
        ty if is_text(ty) => to(operand, &DataType::Float64),
        _ => owned(operand),
    }
}

/// An integer literal beside a decimal takes no more digits than it has, so that products of
/// decimals keep their digits.
fn small_decimal(operand: Operand<'_>, other: &DataType) -> Typed {
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

/// A literal of digits to the base 2 or 16 is the number that it is, where one is wanted.
fn of_bits(operand: Operand<'_>) -> Operand<'_> {
    match operand {
        (expr @ Expr::Literal(..), ty) if is_binary(ty) => {
            (super::call("mysql_bits", vec![expr]), &DataType::UInt64)
        }
        other => other,
    }
}

/// `+`, `-` and `*`.
fn arithmetic(left: Operand<'_>, op: Operator, right: Operand<'_>) -> Expr {
    if matches!(left.1, DataType::Interval(_)) || matches!(right.1, DataType::Interval(_)) {
        return binary_expr(left.0, op, right.0);
    }
    let (left, right) = (of_bits(left), of_bits(right));
    let (left_type, right_type) = (left.1, right.1);
    let integers = integer_digits(left_type).is_some() && integer_digits(right_type).is_some();
    if integers {
        let name = match op {
            Operator::Plus => "mysql_add",
            Operator::Minus => "mysql_subtract",
            _ => "mysql_multiply",
        };
        return match *left_type == DataType::UInt64 || *right_type == DataType::UInt64 {
            true => super::call(name, vec![left.0, right.0]),
            false => checked(name, left, op, right),
        };
    }
    let (left, _) = small_decimal((number(left.0, left_type), left_type), right_type);
    let (right, _) = small_decimal((number(right.0, right_type), right_type), left_type);
    binary_expr(left, op, right)
}

/// Integers of 32 bits and less cannot overflow in 64; wider ones are checked.
fn checked(name: &str, left: Operand<'_>, op: Operator, right: Operand<'_>) -> Expr {
    let needs = match op {
        Operator::Multiply => digits(&left) + digits(&right),
        _ => digits(&left).max(digits(&right)) + 1,
    };
    let wide = |operand: Operand<'_>| match operand.1 {
        DataType::Int64 => operand.0,
        _ => cast(operand.0, DataType::Int64),
    };
    let (left, right) = (wide(left), wide(right));
    if needs > 19 { super::call(name, vec![left, right]) } else { binary_expr(left, op, right) }
}

/// How many digits an integer operand has at most.
fn digits(operand: &Operand<'_>) -> u8 {
    match &operand.0 {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(v))) if v.unsigned_abs() < 1_000_000_000 => 9,
            _ => 19,
        },
        _ => integer_digits(operand.1).unwrap_or(19),
    }
}

/// An operand of arithmetic: text is the double at its start, a date its digits.
fn number(expr: Expr, ty: &DataType) -> Expr {
    match ty {
        DataType::Boolean | DataType::Date32 => converted(expr, ty, &DataType::Int64),
        DataType::Timestamp(_, _) | DataType::Duration(_) => {
            converted(expr, ty, &DataType::Float64)
        }
        ty if is_text(ty) || is_binary(ty) => converted(expr, ty, &DataType::Float64),
        _ => expr,
    }
}

/// `-operand`, once types are known and nothing more is converted.
pub fn negated(operand: Expr, ty: &DataType) -> Expr {
    match ty {
        // What has no sign gets one.
        ty if integer_digits(ty).is_some() => {
            let operand = (cast(operand, DataType::Int64), &DataType::Int64);
            arithmetic((lit(0_i64), &DataType::Int64), Operator::Minus, operand)
        }
        DataType::Decimal128(_, _) => {
            arithmetic((lit(0_i64), &DataType::Int64), Operator::Minus, (operand, ty))
        }
        DataType::Decimal256(_, _) => cast(lit(0_i64), ty.clone()) - operand,
        _ => lit(0.0) - converted(operand, ty, &DataType::Float64),
    }
}
