//! Bytes that are weaker than the texts of columns: beside such MySQL reads them as text, so that
//! `CONCAT(name, CHAR(10))` is a text. What a column holds is known to the planner alone, so the
//! bytes get the columns beside them as further arguments of a function that looks at their types.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Ident, Value};

use super::values::{call, is_short, take};
use crate::functions::typed::BESIDE_TEXTS;
use crate::visit::visit_expressions;

/// Functions that put their arguments together, or look for one in another.
const JOINING: [&str; 10] = [
    "concat",
    "concat_ws",
    "elt",
    "insert",
    "instr",
    "locate",
    "lpad",
    "replace",
    "rpad",
    "substring_index",
];

/// Functions that make bytes of what is no column's text.
const WEAK: [&str; 2] = ["char", "unhex"];

/// Functions of texts that are of the columns of their arguments.
const OF_TEXTS: [&str; 8] = ["coalesce", "left", "lower", "max", "min", "right", "trim", "upper"];

/// The most columns that are looked at.
const COLUMNS_MAX: usize = 4;

/// The arguments of a function of this name, with what they are beside.
pub fn arguments(name: &str, args: &mut [FunctionArg]) {
    if !JOINING.contains(&name) {
        return;
    }
    let values = args.iter().filter_map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    });
    let texts = values.filter(|value| is_of_column(value)).take(COLUMNS_MAX);
    let texts = texts.cloned().collect::<Vec<_>>();
    for arg in args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = arg {
            beside(value, &texts);
        }
    }
}

fn beside(value: &mut Expr, texts: &[Expr]) {
    if !texts.is_empty() && is_weak(value) {
        let weak = take(value);
        *value = call(BESIDE_TEXTS, std::iter::once(weak).chain(texts.iter().cloned()).collect());
    }
}

/// The name of a function; `None` for anything else.
fn function_name(expr: &Expr) -> Option<&str> {
    let Expr::Function(function) = expr else { return None };
    Some(function.name.0.last()?.as_ident()?.value.as_str())
}

fn is_column(name: &Ident) -> bool {
    name.quote_style.is_some() || !name.value.starts_with('@')
}

/// Whether it is a column, or a short function of columns that is a text where they are.
fn is_of_column(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(name) => is_column(name),
        Expr::CompoundIdentifier(parts) => parts.first().is_some_and(is_column),
        Expr::Function(_) if is_short(expr) => is_of_texts(expr),
        _ => false,
    }
}

fn is_of_texts(call: &Expr) -> bool {
    let mut is_any_column = false;
    let known = visit_expressions(call, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
            is_any_column = true;
            ControlFlow::Continue(())
        }
        Expr::Value(_) => ControlFlow::Continue(()),
        part if function_name(part).is_some_and(|name| OF_TEXTS.contains(&name)) => {
            ControlFlow::Continue(())
        }
        _ => ControlFlow::Break(()),
    });
    known.is_continue() && is_any_column
}

/// Whether it is bytes of literals: of a hexadecimal one, of [`WEAK`], or of what joins such and no
/// column.
fn is_weak(expr: &Expr) -> bool {
    let is_made = |expr: &Expr| match expr {
        Expr::Value(value) => matches!(value.value, Value::HexStringLiteral(_)),
        _ => function_name(expr).is_some_and(|name| WEAK.contains(&name)),
    };
    if is_made(expr) {
        return true;
    }
    if !function_name(expr).is_some_and(|name| JOINING.contains(&name)) {
        return false;
    }
    let mut is_any_made = false;
    let plain = visit_expressions(expr, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => {
            ControlFlow::Break(())
        }
        part => {
            is_any_made |= is_made(part);
            ControlFlow::Continue(())
        }
    });
    plain.is_continue() && is_any_made
}
