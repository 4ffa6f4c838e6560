//! ORDER BY of SELECT DISTINCT.

use std::ops::ControlFlow;

use crate::visit::visit_expressions_mut;
use sqlparser::ast::{
    Distinct, Expr, ObjectNamePart, OrderBy, OrderByKind, Query, SelectItem, SetExpr,
};

use super::values::{int, lower};

/// Of a SELECT DISTINCT, an expression in ORDER BY that is selected too becomes the position of
/// that item: rows that have become one have no other values to compute it from.
pub fn ordered(query: &mut Query) {
    let SetExpr::Select(select) = &*query.body else { return };
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    // Behind a wildcard it is not known which position an item has.
    let items = select.projection.iter().map_while(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(plain(expr)),
        _ => None,
    });
    let items = items.collect::<Vec<_>>();
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else {
        return;
    };
    for key in keys {
        if matches!(key.expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)) {
            continue;
        }
        let wanted = plain(&key.expr);
        if let Some(at) = items.iter().position(|item| *item == wanted) {
            key.expr = int(at as i64 + 1);
        }
    }
}

/// An expression with its names in lower case, and without parentheses around it.
fn plain(expr: &Expr) -> Expr {
    let mut expr = expr;
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    let mut expr = expr.clone();
    let _ = visit_expressions_mut(&mut expr, |expr| {
        match expr {
            Expr::Identifier(name) => lower(name),
            Expr::CompoundIdentifier(names) => {
                // Aliases of tables keep their case.
                names.last_mut().into_iter().for_each(lower);
            }
            Expr::Function(function) => {
                for part in &mut function.name.0 {
                    if let ObjectNamePart::Identifier(name) = part {
                        lower(name);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    expr
}
