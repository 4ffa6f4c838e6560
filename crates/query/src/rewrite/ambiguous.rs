//! Names in ORDER BY, GROUP BY and HAVING that mean two columns of the SELECT list.

use freshet_base::{Result, bail};
use sqlparser::ast::{Expr, GroupByExpr, OrderByKind, Query, Select, SelectItem, SetExpr};

use super::having::find_own;

/// Checks the names of a query as it was written.
///
/// # Errors
/// 1052 for a name by which the SELECT list calls two columns.
pub fn check(query: &Query) -> Result<()> {
    let SetExpr::Select(select) = &*query.body else { return Ok(()) };
    if !select.projection.iter().any(|item| matches!(item, SelectItem::ExprWithAlias { .. })) {
        return Ok(());
    }
    if let Some(order_by) = &query.order_by
        && let OrderByKind::Expressions(keys) = &order_by.kind
    {
        keys.iter().try_for_each(|key| check_name(select, &key.expr, "order clause"))?;
    }
    if let GroupByExpr::Expressions(keys, _) = &select.group_by {
        keys.iter().try_for_each(|key| check_name(select, key, "group statement"))?;
    }
    let Some(having) = &select.having else { return Ok(()) };
    let found = find_own(having, |expr, aggregated| match aggregated {
        false => check_name(select, expr, "having clause").err(),
        true => None,
    });
    found.map_or(Ok(()), Err)
}

fn check_name(select: &Select, expr: &Expr, clause: &str) -> Result<()> {
    match expr {
        Expr::Identifier(name) if is_twice(select, &name.value) => {
            bail!(AmbiguousColumn, "Column '{}' in {clause} is ambiguous", name.value)
        }
        _ => Ok(()),
    }
}

/// Whether two columns have this name. One that is computed is meant before all others.
fn is_twice(select: &Select, name: &str) -> bool {
    let mut first = None::<&Expr>;
    let (mut differ, mut aliased) = (false, false);
    for item in &select.projection {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            _ => continue,
        };
        let Some(called) = alias.or_else(|| column_of(expr)) else { continue };
        if !called.value.eq_ignore_ascii_case(name) {
            continue;
        }
        if column_of(expr).is_none() {
            return false;
        }
        aliased |= alias.is_some();
        differ |= first.is_some_and(|first| !are_one(first, expr));
        first = first.or(Some(expr));
    }
    // Of columns without an alias the planner knows whether they are one.
    differ && aliased
}

fn column_of(expr: &Expr) -> Option<&sqlparser::ast::Ident> {
    match expr {
        Expr::Identifier(name) if !name.value.starts_with('@') => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    }
}

/// Whether two columns are one, as far as their names tell.
fn are_one(one: &Expr, other: &Expr) -> bool {
    let table = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(parts) => {
            parts.iter().rev().nth(1).map(|table| table.value.clone())
        }
        _ => None,
    };
    let is_same_name = match (column_of(one), column_of(other)) {
        (Some(one), Some(other)) => one.value.eq_ignore_ascii_case(&other.value),
        _ => false,
    };
    let is_same_table = match (table(one), table(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    is_same_name && is_same_table
}
