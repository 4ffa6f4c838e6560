//! HAVING of a select without groups: a condition over its rows that may name its aliases.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Function, GroupByExpr, Select, SelectItem, visit_expressions,
    visit_expressions_mut,
};

use crate::functions::list;

/// Makes a HAVING that has no groups part of WHERE.
pub fn without_groups(select: &mut Select) {
    let grouped =
        !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    let items = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let aggregated = items.chain(&select.having).any(has_aggregate);
    if grouped || aggregated {
        return;
    }
    let Some(mut having) = select.having.take() else { return };
    let aliases = aliases(select);
    let _ = visit_expressions_mut(&mut having, |expr| {
        if let Expr::Identifier(ident) = expr
            && let Some(aliased) = aliases.get(&ident.value.to_lowercase())
        {
            *expr = Expr::Nested(Box::new(aliased.clone()));
        }
        ControlFlow::<()>::Continue(())
    });
    select.selection = Some(match select.selection.take() {
        None => having,
        Some(selection) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(selection))),
            op: BinaryOperator::And,
            right: Box::new(Expr::Nested(Box::new(having))),
        },
    });
}

fn aliases(select: &Select) -> HashMap<String, Expr> {
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            Some((alias.value.to_lowercase(), expr.clone()))
        }
        _ => None,
    });
    named.collect()
}

/// Whether an expression has an aggregate in it.
pub fn has_aggregate(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |expr| match expr {
        Expr::Function(function) if is_aggregate(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Whether a function is an aggregate.
pub fn is_aggregate(function: &Function) -> bool {
    list::is_aggregate(&function.name.to_string().to_lowercase())
}
