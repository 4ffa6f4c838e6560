//! `numbers("number" = "10")`, a table function of Doris: it becomes a table of
//! `information_schema` whose name says how many rows it has.

use freshet_base::{Result, bail, err};
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectNamePart, TableAlias,
    TableFactor, Value,
};

use crate::numbers::{FUNCTION, Numbers};
use crate::result::SYSTEM;

/// Makes the function in FROM a table, if it is this one.
///
/// # Errors
/// 1210 for other properties than it takes.
pub fn named(factor: &mut TableFactor) -> Result<()> {
    let TableFactor::Table { name, alias, args, .. } = factor else { return Ok(()) };
    let is_function = matches!(&name.0[..], [part] if part
        .as_ident()
        .is_some_and(|name| name.value.eq_ignore_ascii_case(FUNCTION)));
    let Some(given) = args.take_if(|_| is_function) else { return Ok(()) };
    let (mut count, mut constant) = (None, None);
    for arg in given.args {
        let (key, value) = property(FUNCTION, arg)?;
        let slot = match key.to_ascii_lowercase().as_str() {
            "number" => &mut count,
            "const_value" => &mut constant,
            _ => bail!(
                WrongArguments,
                "'{key}' is no property of {FUNCTION}(...): there are number and const_value"
            ),
        };
        match value.parse::<i64>() {
            Ok(number) => *slot = Some(number),
            Err(_) => bail!(WrongArguments, "{FUNCTION}(...): {key} is no number: '{value}'"),
        }
    }
    let Some(count) = count.filter(|count| *count >= 0) else {
        bail!(WrongArguments, "{FUNCTION}(...) needs \"number\" = \"..\", 0 or more");
    };
    alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new(FUNCTION),
        columns: Vec::new(),
        at: None,
    });
    let parts = [SYSTEM.to_owned(), Numbers { count, constant }.name()];
    let parts = parts.map(|part| ObjectNamePart::Identifier(Ident::with_quote('`', part)));
    name.0 = parts.into();
    Ok(())
}

/// `"key" = "value"` of a table function.
pub fn property(function: &str, arg: FunctionArg) -> Result<(String, String)> {
    let wrong =
        || err!(WrongArguments, "{function}(...) takes properties, each as \"name\" = \"value\"");
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else { return Err(wrong()) };
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expr else { return Err(wrong()) };
    let text = |expr: Expr| match expr {
        Expr::Value(value) => match value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => Some(text),
            Value::Number(digits, _) => Some(digits),
            Value::Boolean(on) => Some(on.to_string()),
            _ => None,
        },
        Expr::Identifier(name) => Some(name.value),
        _ => None,
    };
    match (text(*left), text(*right)) {
        (Some(name), Some(value)) => Ok((name, value)),
        _ => Err(wrong()),
    }
}
