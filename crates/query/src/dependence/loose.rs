//! Columns beside GROUP BY without the `sql_mode` ONLY_FULL_GROUP_BY: each has the value of some
//! row of the group, as ANY_VALUE gives it.

use std::ops::ControlFlow;

use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::LogicalPlan;
use freshet_base::Result;
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
    Visitor, VisitorMut, With,
};

use super::names_same;
use crate::nesting::count_queries;
use crate::rewrite::{aggregate_call, is_grouping, values};
use crate::syntax::select_of;
use crate::visit::{walk, walk_mut};

/// The function that ANY_VALUE was rewritten to.
const ANY: &str = "first_value";

/// The query with all columns that are not grouped within ANY_VALUE.
///
/// # Errors
/// Those of `plan`, of a query whose `*` has to be written out.
pub fn loosened(
    query: &mut Query,
    plan: &impl Fn(Box<Query>) -> Result<LogicalPlan>,
) -> Result<()> {
    match walk_mut(query, &mut Loosen { plan }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Loosen<'a, P> {
    plan: &'a P,
}

impl<P: Fn(Box<Query>) -> Result<LogicalPlan>> VisitorMut for Loosen<'_, P> {
    type Break = freshet_base::Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let Query { body, order_by, with, .. } = query;
        let with = with.as_ref();
        let done = match &mut **body {
            SetExpr::Select(select) => self.select(select, order_by.as_mut(), with),
            SetExpr::SetOperation { left, right, .. } => {
                [left, right].into_iter().try_for_each(|operand| match &mut **operand {
                    SetExpr::Select(select) => self.select(select, None, with),
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        };
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl<P: Fn(Box<Query>) -> Result<LogicalPlan>> Loosen<'_, P> {
    fn select(
        &self,
        select: &mut Select,
        order_by: Option<&mut OrderBy>,
        with: Option<&With>,
    ) -> Result<()> {
        let GroupByExpr::Expressions(keys, modifiers) = &select.group_by else { return Ok(()) };
        if !modifiers.is_empty() || keys.is_empty() && !aggregates(select) {
            return Ok(());
        }
        let keys = match &keys[..] {
            [Expr::Rollup(sets)] => sets.concat(),
            keys => keys.to_vec(),
        };
        self.write_out(select, with)?;
        let named = |alias: Option<&Ident>, at: usize| {
            keys.iter().any(|key| match key {
                Expr::Identifier(key) => alias.is_some_and(|alias| alias.value == key.value),
                Expr::Value(value) => {
                    matches!(&value.value, Value::Number(number, _)
                        if number.parse() == Ok(at + 1))
                }
                _ => false,
            })
        };
        let mut aliases = Vec::new();
        let mut wrap = Wrap { keys: &keys, aliases: Vec::new(), within: 0, queries: 0 };
        for (at, item) in select.projection.iter_mut().enumerate() {
            let alias = match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
                _ => None,
            };
            aliases.extend(alias.iter().map(|alias| alias.value.clone()));
            if named(alias.as_ref(), at) {
                continue;
            }
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(alias) = name_of(expr)
            {
                let expr = values::take(expr);
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                let _ = walk_mut(expr, &mut wrap);
            }
        }
        // There an alias goes before a column.
        wrap.aliases = aliases;
        let _ = walk_mut(&mut select.having, &mut wrap);
        // There the planner takes the name of an item for the item.
        let names = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
            _ => None,
        });
        wrap.aliases = names.collect();
        if let Some(OrderBy { kind: OrderByKind::Expressions(exprs), .. }) = order_by {
            let _ = walk_mut(exprs, &mut wrap);
        }
        Ok(())
    }

    /// Writes out `*` and `t.*`, of tables and of those that `with` names.
    fn write_out(&self, select: &mut Select, with: Option<&With>) -> Result<()> {
        let mut items = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            if !matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)) {
                items.push(item);
                continue;
            }
            let mut all = select_of(Vec::new());
            all.with = with.cloned();
            if let SetExpr::Select(plain) = &mut *all.body {
                plain.from.clone_from(&select.from);
                plain.projection = vec![item];
            }
            let plan = (self.plan)(Box::new(all))?;
            let columns = plan.schema().columns().into_iter().map(expr_of);
            items.extend(columns.map(SelectItem::UnnamedExpr));
        }
        select.projection = items;
        Ok(())
    }
}

/// A column of a plan, as a query names it.
fn expr_of(column: Column) -> Expr {
    let ident = |name: &str| Ident::with_quote('`', name);
    let mut parts = match &column.relation {
        None => Vec::new(),
        Some(TableReference::Bare { table }) => vec![ident(table)],
        Some(TableReference::Partial { schema, table }) => vec![ident(schema), ident(table)],
        Some(TableReference::Full { catalog, schema, table }) => {
            vec![ident(catalog), ident(schema), ident(table)]
        }
    };
    parts.push(ident(&column.name));
    match parts.len() {
        1 => Expr::Identifier(parts.remove(0)),
        _ => Expr::CompoundIdentifier(parts),
    }
}

fn name_of(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Identifier(name) => Some(name.clone()),
        Expr::CompoundIdentifier(names) => names.last().cloned(),
        _ => None,
    }
}

/// Whether a query without keys is about one group: an aggregate stands in it, outside of its
/// subqueries.
fn aggregates(select: &Select) -> bool {
    let mut found = Aggregates::default();
    walk(&select.projection, &mut found).is_break() || walk(&select.having, &mut found).is_break()
}

#[derive(Default)]
struct Aggregates {
    /// The nesting of subqueries.
    queries: usize,
}

impl Visitor for Aggregates {
    type Break = ();

    count_queries!(&Query);

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match self.queries == 0 && aggregate_call(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

struct Wrap<'a> {
    keys: &'a [Expr],
    aliases: Vec<String>,
    /// The nesting of aggregates and keys.
    within: usize,
    /// The nesting of subqueries.
    queries: usize,
}

impl Wrap<'_> {
    fn is_apart(&self, expr: &Expr) -> bool {
        aggregate_call(expr) || is_grouping(expr) || self.keys.contains(expr)
    }
}

impl VisitorMut for Wrap<'_> {
    type Break = ();

    count_queries!(&mut Query);

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_column = match expr {
            Expr::Identifier(name) => !self.aliases.contains(&name.value),
            Expr::CompoundIdentifier(_) => true,
            _ => false,
        };
        let is_free = is_column && self.within == 0 && self.queries == 0;
        if is_free && !self.keys.iter().any(|key| names_same(key, expr)) {
            *expr = values::call(ANY, vec![expr.clone()]);
        }
        self.within += usize::from(self.is_apart(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.within -= usize::from(self.is_apart(expr));
        ControlFlow::Continue(())
    }
}
