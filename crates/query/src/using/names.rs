//! Names of shared columns in the expressions of a SELECT.

use std::collections::HashSet;
use std::ops::ControlFlow;

use freshet_base::Result;
use sqlparser::ast::{
    Expr, GroupByExpr, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor,
    TableWithJoins, VisitMut, VisitorMut,
};

use super::scopes::Scopes;
use super::{Shared, Visible, shared};
use crate::joined;
use crate::visit::{visit_expressions, walk_mut};

/// Replaces `*` and the names of shared columns in a SELECT and its ORDER BY.
///
/// # Errors
/// Never so far.
pub fn resolve(
    select: &mut Select,
    order_by: Option<&mut OrderBy>,
    visible: &[Visible],
    scopes: &Scopes<'_>,
) -> Result<()> {
    let mut shared = shared(visible);
    spread(select, visible);
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            replace(expr, &shared, scopes);
        }
    }
    replace(&mut select.selection, &shared, scopes);
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.iter_mut().for_each(|key| replace(key, &shared, scopes));
    }
    replace(&mut select.named_window, &shared, scopes);
    // What is selected comes before what is read.
    for item in &select.projection {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => _ = shared.remove(&alias.value),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                if let Some(name) = parts.last()
                    && let Some(column) = shared.get_mut(&name.value)
                {
                    *column = Expr::CompoundIdentifier(parts.clone());
                }
            }
            _ => {}
        }
    }
    replace(&mut select.having, &shared, scopes);
    if let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by {
        keys.iter_mut().for_each(|key| replace(&mut key.expr, &shared, scopes));
    }
    Ok(())
}

/// Puts columns in place of `*`.
fn spread(select: &mut Select, visible: &[Visible]) {
    let items = std::mem::take(&mut select.projection).into_iter();
    select.projection = items
        .flat_map(|item| match item {
            SelectItem::Wildcard(_) => {
                visible.iter().map(|column| SelectItem::UnnamedExpr(column.expr())).collect()
            }
            other => vec![other],
        })
        .collect();
}

/// Replaces names of shared columns, also where a subquery reads them.
pub fn replace<T: VisitMut>(part: &mut T, shared: &Shared, scopes: &Scopes<'_>) {
    let _ = walk_mut(part, &mut Replacing { shared, scopes, hidden: Vec::new() });
}

struct Replacing<'a> {
    shared: &'a Shared,
    scopes: &'a Scopes<'a>,
    /// The names that subqueries around the place have themselves.
    hidden: Vec<HashSet<String>>,
}

impl VisitorMut for Replacing<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.hidden.push(self.own_names(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.hidden.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = &*expr
            && let Some(column) = self.shared.get(&name.value)
            && !self.hidden.iter().any(|names| names.contains(&name.value))
        {
            *expr = column.clone();
        }
        ControlFlow::Continue(())
    }
}

impl Replacing<'_> {
    /// Which of the names a subquery gives a meaning of its own.
    fn own_names(&self, query: &Query) -> HashSet<String> {
        let mut used = HashSet::new();
        let _ = visit_expressions(query, |expr| {
            if let Expr::Identifier(name) = expr
                && self.shared.contains_key(&name.value)
            {
                used.insert(name.value.clone());
            }
            ControlFlow::<()>::Continue(())
        });
        if used.is_empty() {
            return used;
        }
        let mut own = HashSet::new();
        self.names_of(&query.body, &mut own);
        used.retain(|name| own.contains(name));
        used
    }

    fn names_of(&self, body: &SetExpr, names: &mut HashSet<String>) {
        match body {
            SetExpr::Select(select) => {
                names.extend(select.projection.iter().filter_map(|item| match item {
                    SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
                    _ => None,
                }));
                self.names_in(&select.from, names);
            }
            SetExpr::Query(query) => self.names_of(&query.body, names),
            SetExpr::SetOperation { left, right, .. } => {
                self.names_of(left, names);
                self.names_of(right, names);
            }
            _ => {}
        }
    }

    fn names_in(&self, from: &[TableWithJoins], names: &mut HashSet<String>) {
        for factor in joined::factors(from) {
            match self.scopes.columns(factor) {
                Ok(columns) => names.extend(columns),
                // What it reads is not known here: its own names come first.
                Err(_) if !matches!(factor, TableFactor::Table { .. }) => {
                    names.extend(self.shared.keys().cloned());
                }
                Err(_) => {}
            }
        }
    }
}
