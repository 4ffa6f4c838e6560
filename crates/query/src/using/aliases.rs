//! Names that are both an alias of the SELECT list and a column of the tables.
//!
//! Alone in ORDER BY such a name is the alias; within an expression there it is the column. In
//! GROUP BY it is the column. The planner takes the alias within expressions too, and does not
//! know the columns when an alias of an aggregate is refused as a key. So here these names become
//! those of columns, with the names of their tables. As the planner cannot have both in one place,
//! the alias gets another name, which only the outermost query can do: its columns are shown by the
//! names of its text.

use std::collections::HashMap;
use std::ops::ControlFlow;

use freshet_base::{Error, Result, bail};
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Visitor,
    VisitorMut,
};

use super::scopes::Scopes;
use super::{ColumnsOf, name_of};
use crate::joined::factors;
use crate::nesting::count_queries;
use crate::result::copy_name;
use crate::rewrite::has_aggregate_call;
use crate::visit::{walk, walk_mut};

/// Gives the columns of a rewritten query the names of their tables where an alias is called alike.
///
/// # Errors
/// 1056 for the alias of an aggregate as a key; those of planning.
pub fn told_apart(query: &mut Query, columns_of: ColumnsOf<'_>) -> Result<()> {
    if walk(query, &mut Finding).is_continue() {
        return Ok(());
    }
    match walk_mut(query, &mut Telling { scopes: Scopes::new(columns_of) }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Finds a query with such a name.
struct Finding;

impl Visitor for Finding {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = &*query.body else { return ControlFlow::Continue(()) };
        let aliases = aliases(select);
        match keys(query.order_by.as_ref()).any(|key| reads(key, &aliases)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        match aggregates(select, &aliases(select)).is_empty() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}

/// The aliases of what is not the column of that name.
fn aliases(select: &Select) -> HashMap<&str, &Expr> {
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let is_itself = match expr {
                Expr::Identifier(name) => name.value == alias.value,
                Expr::CompoundIdentifier(parts) => {
                    parts.last().is_some_and(|name| name.value == alias.value)
                }
                _ => false,
            };
            (!is_itself).then_some((alias.value.as_str(), expr))
        }
        _ => None,
    });
    named.collect()
}

fn keys(order_by: Option<&OrderBy>) -> impl Iterator<Item = &Expr> {
    let keys = match order_by.map(|order_by| &order_by.kind) {
        Some(OrderByKind::Expressions(keys)) => &keys[..],
        _ => &[],
    };
    keys.iter().map(|key| &key.expr)
}

/// Whether an alias is called within this expression.
fn reads(key: &Expr, aliases: &HashMap<&str, &Expr>) -> bool {
    let is_alone = matches!(key, Expr::Identifier(_));
    !is_alone && !aliases.is_empty() && walk(key, &mut Calls { aliases, queries: 0 }).is_break()
}

struct Calls<'a> {
    aliases: &'a HashMap<&'a str, &'a Expr>,
    /// The nesting of subqueries.
    queries: usize,
}

impl Visitor for Calls<'_> {
    type Break = ();

    count_queries!(&Query);

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name)
                if self.queries == 0 && self.aliases.contains_key(name.value.as_str()) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The names of keys that are aliases of aggregates.
fn aggregates(select: &Select, aliases: &HashMap<&str, &Expr>) -> Vec<String> {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return Vec::new() };
    let sets = keys.iter().flat_map(|key| match key {
        Expr::Rollup(sets) => sets.iter().flatten().collect(),
        key => vec![key],
    });
    let names = sets.filter_map(|key| match key {
        Expr::Identifier(name) => Some(&name.value),
        _ => None,
    });
    let is_aggregate =
        |name: &&String| aliases.get(name.as_str()).is_some_and(|expr| has_aggregate_call(expr));
    names.filter(is_aggregate).cloned().collect()
}

struct Telling<'a> {
    scopes: Scopes<'a>,
}

impl VisitorMut for Telling<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.scopes.open(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if self.scopes.is_outermost() {
            self.order(query);
        }
        self.scopes.close(query);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match self.group(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Telling<'_> {
    /// Makes keys that are called as aggregates are the columns of that name.
    fn group(&self, select: &mut Select) -> Result<()> {
        let keyed = aggregates(select, &aliases(select));
        if keyed.is_empty() {
            return Ok(());
        }
        let columns = self.columns(select, &keyed);
        if let Some(name) = keyed.iter().find(|name| !columns.contains_key(name.as_str())) {
            bail!(WrongGroupField, "Can't group on '{name}'");
        }
        let _ = walk_mut(&mut select.group_by, &mut Named { columns: &columns, queries: 0 });
        Ok(())
    }

    /// Makes names within expressions of ORDER BY those of columns.
    fn order(&self, query: &mut Query) {
        let Query { body, order_by, .. } = query;
        let SetExpr::Select(select) = &mut **body else { return };
        let aliases = aliases(select);
        if !keys(order_by.as_ref()).any(|key| reads(key, &aliases)) {
            return;
        }
        let names = aliases.into_keys().map(str::to_owned).collect::<Vec<_>>();
        let columns = self.columns(select, &names);
        let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = order_by else { return };
        let mut named = Named { columns: &columns, queries: 0 };
        for key in keys {
            match &mut key.expr {
                Expr::Identifier(name) if columns.contains_key(&name.value) => {
                    name.value = copy_name(&name.value, 0);
                }
                Expr::Identifier(_) => {}
                expr => _ = walk_mut(expr, &mut named),
            }
        }
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item
                && columns.contains_key(&alias.value)
            {
                alias.value = copy_name(&alias.value, 0);
            }
        }
    }

    /// The columns of these names, each of one table.
    fn columns(&self, select: &Select, names: &[String]) -> HashMap<String, Expr> {
        let mut found = HashMap::<String, Vec<Expr>>::new();
        for factor in factors(&select.from) {
            let Some(table) = name_of(factor) else { continue };
            // Where they are not known, as of LATERAL tables, names are left to the planner.
            let Ok(columns) = self.scopes.columns(factor) else { continue };
            for column in columns {
                if names.contains(&column) {
                    let name = Ident::with_quote('`', &column);
                    let parts = table.iter().cloned().chain([name]).collect();
                    found.entry(column).or_default().push(Expr::CompoundIdentifier(parts));
                }
            }
        }
        let only = |(name, mut columns): (String, Vec<Expr>)| match columns.len() {
            1 => columns.pop().map(|column| (name, column)),
            _ => None,
        };
        found.into_iter().filter_map(only).collect()
    }
}

struct Named<'a> {
    columns: &'a HashMap<String, Expr>,
    /// The nesting of subqueries.
    queries: usize,
}

impl VisitorMut for Named<'_> {
    type Break = ();

    count_queries!(&mut Query);

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.queries == 0
            && let Expr::Identifier(name) = &*expr
            && let Some(column) = self.columns.get(&name.value)
        {
            *expr = column.clone();
        }
        ControlFlow::Continue(())
    }
}
