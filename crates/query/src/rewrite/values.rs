//! Builds syntax trees.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, UnaryOperator, Value, ValueWithSpan,
};
use sqlparser::tokenizer::Span;

use crate::session;
use crate::visit::visit_expressions;

pub fn literal(value: Value) -> Expr {
    Expr::Value(ValueWithSpan { value, span: Span::empty() })
}

pub fn text(value: impl Into<String>) -> Expr {
    literal(Value::SingleQuotedString(value.into()))
}

pub fn int(value: impl std::fmt::Display) -> Expr {
    literal(Value::Number(value.to_string(), false))
}

/// A number with an exponent, which is a DOUBLE.
pub fn double(digits: &str) -> Expr {
    call("mysql_double", vec![text(digits)])
}

pub fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

pub fn null() -> Expr {
    literal(Value::Null)
}

/// The value of a variable as a literal.
pub fn of_variable(value: session::Value) -> Expr {
    match value {
        session::Value::Null => null(),
        session::Value::Int(value) => int(value),
        session::Value::UInt(value) => int(value),
        session::Value::Double(value) => double(&format!("{value:e}")),
        // Digits without a point would be an integer.
        session::Value::Decimal(digits) if !digits.contains('.') => int(format!("{digits}.")),
        session::Value::Decimal(digits) => int(digits),
        session::Value::Text(value) => text(value),
    }
}

/// Expressions up to this number of nodes are copied instead of shared.
const SHORT_NODES_MAX: usize = 8;

/// The number of nodes of an expression, counted up to `most`.
pub fn nodes(expr: &Expr, most: usize) -> usize {
    let mut count = 0;
    let _ = visit_expressions(expr, |_| {
        count += 1;
        if count < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    count
}

/// Whether an expression is small enough to be copied: only then can ranges of columns be used for
/// pruning.
pub fn is_short(expr: &Expr) -> bool {
    nodes(expr, SHORT_NODES_MAX + 1) <= SHORT_NODES_MAX
}

/// The text of a quoted literal.
pub fn as_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text) | Value::DoubleQuotedString(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

pub fn arguments(args: Vec<Expr>) -> FunctionArguments {
    FunctionArguments::List(FunctionArgumentList {
        duplicate_treatment: None,
        args: args.into_iter().map(argument).collect(),
        clauses: Vec::new(),
    })
}

pub fn argument(expr: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
}

pub fn function(name: &str, args: Vec<Expr>) -> Function {
    Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: arguments(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Function(function(name, args))
}

/// Converts to a boolean where necessary.
pub fn truth(expr: Expr) -> Expr {
    if is_truth(&expr) { expr } else { call("mysql_truth", vec![expr]) }
}

/// The negation of an expression of any type.
pub fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(truth(expr)) }
}

/// Whether an expression is known to be boolean.
pub fn is_truth(expr: &Expr) -> bool {
    use BinaryOperator as Op;
    match expr {
        Expr::Nested(inner) => is_truth(inner),
        Expr::BinaryOp { op, .. } => matches!(
            op,
            Op::Eq
                | Op::NotEq
                | Op::Lt
                | Op::LtEq
                | Op::Gt
                | Op::GtEq
                | Op::And
                | Op::Or
                | Op::Xor
                | Op::Spaceship
        ),
        Expr::UnaryOp { op, .. } => *op == UnaryOperator::Not,
        Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Between { .. }
        | Expr::Like { .. }
        | Expr::Exists { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. } => true,
        Expr::Function(function) => {
            let name = function.name.to_string();
            const TRUTHS: [&str; 5] =
                ["regexp_like", "mysql_like", "mysql_truth", "mysql_in", "isnull"];
            TRUTHS.contains(&name.as_str())
        }
        _ => false,
    }
}

/// Converts a boolean to 1 or 0, so that it combines with other integers.
pub fn number(expr: Expr) -> Expr {
    if is_truth(&expr) { call("mysql_signed", vec![expr]) } else { expr }
}

/// `CASE WHEN condition THEN result ... ELSE otherwise END`, with MySQL's types.
pub fn case(whens: Vec<CaseWhen>, otherwise: Option<Expr>) -> Expr {
    let mut args = Vec::with_capacity(whens.len() * 2 + 1);
    for when in whens {
        args.push(truth(when.condition));
        args.push(number(when.result));
    }
    args.push(otherwise.map_or_else(null, number));
    call("mysql_case", args)
}

pub fn lower(ident: &mut Ident) {
    ident.value = ident.value.to_lowercase();
    ident.quote_style = Some('`');
}

/// Moves an expression out, leaving NULL.
pub fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, null())
}
