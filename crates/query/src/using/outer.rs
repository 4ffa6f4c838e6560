//! Aggregates in subqueries that are of the query around them, as in
//! `SELECT g, (SELECT MAX(t.x)) FROM t GROUP BY g`: all columns in them are of that query. And
//! subqueries that read columns of the groups around them: of a ROLLUP, or such as are no keys.
//!
//! The planner computes an aggregate where it stands, finds only keys in groups, and loses the
//! order of a ROLLUP. So the groups become a derived table, with a column for each key and each
//! aggregate, and the rest reads these.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr as Planned, GroupingSet, LogicalPlan};
use freshet_base::Result;
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select,
    SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, Visitor, VisitorMut,
};

use super::ColumnsOf;
use super::levels::{Level, Place};
use super::scopes::Scopes;
use crate::dependence::names_same;
use crate::dependent::references::free;
use crate::dependent::references::subquery_of;
use crate::error::mapped;
use crate::rewrite::{aggregate_call, is_grouping, key_at, values};
use crate::syntax::select_of;
use crate::visit::{walk, walk_mut};

/// The names of derived tables of groups begin so, and go on with a number; users cannot have them.
const GROUPS: &str = "#groups";

/// Whether a rewritten query has subqueries with aggregates, or beside GROUP BY.
pub fn may_be_in(query: &Query) -> bool {
    walk(query, &mut Finding::default()).is_break()
}

#[derive(Default)]
struct Finding {
    /// The nesting of subqueries in expressions.
    subqueries: usize,
    has_subquery: bool,
    has_groups: bool,
}

impl Finding {
    fn flow(&self, is_found: bool) -> ControlFlow<()> {
        match is_found || self.has_subquery && self.has_groups {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. })
}

impl Visitor for Finding {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.has_groups |= is_grouped(select);
        self.flow(false)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.has_subquery |= is_subquery(expr);
        self.subqueries += usize::from(is_subquery(expr));
        self.flow(self.subqueries > 0 && aggregate_call(expr))
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.subqueries -= usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }
}

fn is_grouped(select: &Select) -> bool {
    matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if !keys.is_empty())
}

fn is_rolled_up(select: &Select) -> bool {
    matches!(&select.group_by, GroupByExpr::Expressions(keys, _)
        if matches!(keys[..], [Expr::Rollup(_)]))
}

/// Whether a plan has an aggregate of nothing but outer columns, or ROLLUP and subqueries that read
/// outer columns.
///
/// # Errors
/// Those of the walk.
pub fn is_in(plan: &LogicalPlan) -> Result<bool> {
    let (mut is_raised, mut has_rollup, mut reads) = (false, false, false);
    let looked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            has_rollup |=
                matches!(aggregate.group_expr[..], [Planned::GroupingSet(GroupingSet::Rollup(_))]);
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Planned::AggregateFunction(_) = part {
                    is_raised |= part.contains_outer() && !part.any_column_refs();
                } else if let Some(subquery) = subquery_of(part) {
                    reads |= !free(&subquery.subquery)?.is_empty();
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    looked.map_err(mapped)?;
    Ok(is_raised || has_rollup && reads)
}

/// Makes the groups of such queries derived tables; where `all_read`, those of all queries whose
/// subqueries read their columns. Returns whether there were any.
pub fn raised(query: &mut Query, all_read: bool, columns_of: ColumnsOf<'_>) -> bool {
    let scopes = Scopes::new(columns_of);
    let mut raising = Raising { scopes, all_read, changed: false, tables: 0 };
    let _ = walk_mut(query, &mut raising);
    raising.changed
}

struct Raising<'a> {
    scopes: Scopes<'a>,
    all_read: bool,
    changed: bool,
    /// The derived tables so far: a subquery may read those of the queries around it.
    tables: usize,
}

impl VisitorMut for Raising<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.open(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Query { body, order_by, .. } = query;
        self.body(body, order_by);
        self.scopes.close(query);
        ControlFlow::Continue(())
    }
}

impl Raising<'_> {
    fn body(&mut self, body: &mut SetExpr, order_by: &mut Option<OrderBy>) {
        match body {
            SetExpr::Select(select) => {
                let is_raised = self.select(select, order_by);
                self.changed |= is_raised;
                self.tables += usize::from(is_raised);
            }
            // The order of an operand is that of nobody.
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left, &mut None);
                self.body(right, &mut None);
            }
            _ => {}
        }
    }

    fn select(&self, select: &mut Select, order_by: &mut Option<OrderBy>) -> bool {
        let is_wild = |item: &SelectItem| {
            !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
        };
        if select.projection.iter().any(is_wild) {
            return false;
        }
        let own = Level::of(&select.from, &self.scopes);
        let finds_reads = is_rolled_up(select) || self.all_read && is_grouped(select);
        let mut search = Search { place: Place::new(&own, &self.scopes), finds_reads };
        let is_found = walk(&select.projection, &mut search).is_break()
            || walk(&select.having, &mut search).is_break()
            || walk(order_by, &mut search).is_break();
        if is_found {
            let groups = Groups::of(select, Place::new(&own, &self.scopes), self.tables);
            groups.set_apart(select, order_by);
        }
        is_found
    }
}

/// Finds what the planner does not find in the groups.
struct Search<'a> {
    place: Place<'a>,
    finds_reads: bool,
}

impl Visitor for Search<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.place.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.place.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.place.enter_select(select);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &Select) -> ControlFlow<()> {
        self.place.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let reads = self.finds_reads && self.place.is_within_subquery() && self.place.is_own(expr);
        match reads || self.place.is_raised(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// The groups of a query, and its expressions as they are replaced.
struct Groups<'a> {
    place: Place<'a>,
    /// The name of the derived table.
    name: String,
    /// Keys that stand for an alias or a place are those expressions.
    keys: Vec<Expr>,
    /// Keys by the alias that they were.
    named: HashMap<String, usize>,
    is_rolled_up: bool,
    calls: Vec<Expr>,
    /// Columns that are no keys.
    columns: Vec<Expr>,
}

impl<'a> Groups<'a> {
    fn of(select: &Select, place: Place<'a>, number: usize) -> Self {
        let written = match &select.group_by {
            GroupByExpr::Expressions(keys, _) => match &keys[..] {
                [Expr::Rollup(sets)] => sets.iter().flatten().cloned().collect(),
                keys => keys.to_vec(),
            },
            GroupByExpr::All(_) => Vec::new(),
        };
        let mut named = HashMap::new();
        let mut keys = Vec::with_capacity(written.len());
        for (at, key) in written.into_iter().enumerate() {
            keys.push(match &key {
                Expr::Identifier(name) if place.own.has(&key) != Some(true) => {
                    named.insert(name.value.clone(), at);
                    aliased(select, &name.value).cloned().unwrap_or(key)
                }
                _ => key_at(key, &select.projection),
            });
        }
        let is_rolled_up = is_rolled_up(select);
        let (name, calls, columns) = (format!("{GROUPS}{number}"), Vec::new(), Vec::new());
        Self { place, name, keys, named, is_rolled_up, calls, columns }
    }

    fn set_apart(mut self, select: &mut Select, order_by: &mut Option<OrderBy>) {
        let mut aliases = Vec::new();
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(alias) = last_name(expr)
            {
                *item = SelectItem::ExprWithAlias { expr: values::take(expr), alias };
            }
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                aliases.push(alias.value.clone());
            }
        }
        let _ = walk_mut(&mut select.projection, &mut self);
        let _ = walk_mut(&mut select.having, &mut self);
        let _ = walk_mut(&mut select.named_window, &mut self);
        match order_by {
            Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) => {
                for key in keys {
                    let is_alias = matches!(&key.expr, Expr::Identifier(name)
                        if aliases.contains(&name.value));
                    if !is_alias {
                        let _ = walk_mut(&mut key.expr, &mut self);
                    }
                }
            }
            None if self.is_rolled_up && select.distinct.is_none() => {
                *order_by = Some(self.in_order());
            }
            _ => {}
        }
        let groups = self.table(select);
        select.from = vec![TableWithJoins { relation: groups, joins: Vec::new() }];
        select.selection = select.having.take();
        select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    }

    /// The order of the groups of a ROLLUP: each sum behind what it sums up.
    fn in_order(&mut self) -> OrderBy {
        let mut order = Vec::with_capacity(2 * self.keys.len());
        for at in 0..self.keys.len() {
            let flag = values::call("grouping", vec![self.keys[at].clone()]);
            order.push(self.call(&flag));
            order.push(self.column("key", at));
        }
        let options = OrderByOptions { asc: None, nulls_first: None };
        let by = |expr| OrderByExpr { expr, options, with_fill: None };
        let order = order.into_iter().map(by).collect();
        OrderBy { kind: OrderByKind::Expressions(order), interpolate: None }
    }

    /// The derived table of the groups of a query.
    fn table(self, select: &mut Select) -> TableFactor {
        let mut groups = select_of(Vec::new());
        if let SetExpr::Select(inner) = &mut *groups.body {
            inner.from = std::mem::take(&mut select.from);
            inner.selection = select.selection.take();
            let keys = match self.is_rolled_up {
                true => vec![Expr::Rollup(self.keys.iter().map(|key| vec![key.clone()]).collect())],
                false => self.keys.clone(),
            };
            inner.group_by = GroupByExpr::Expressions(keys, Vec::new());
            let parts = [("key", self.keys), ("call", self.calls), ("column", self.columns)];
            let items = parts.into_iter().flat_map(|(kind, exprs)| {
                let named = move |(at, expr)| {
                    let alias = Ident::with_quote('`', format!("#{kind}{at}"));
                    SelectItem::ExprWithAlias { expr, alias }
                };
                exprs.into_iter().enumerate().map(named)
            });
            inner.projection = items.collect();
        }
        let name = Ident::with_quote('`', &self.name);
        TableFactor::Derived {
            lateral: false,
            subquery: Box::new(groups),
            alias: Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None }),
            sample: None,
        }
    }

    fn call(&mut self, expr: &Expr) -> Expr {
        let at = place_in(&mut self.calls, expr);
        self.column("call", at)
    }

    /// A column of the derived table.
    fn column(&self, kind: &str, at: usize) -> Expr {
        let name = |text: &str| Ident::with_quote('`', text);
        Expr::CompoundIdentifier(vec![name(&self.name), name(&format!("#{kind}{at}"))])
    }

    /// What an expression of the query is in the derived table.
    fn replaced(&mut self, expr: &Expr) -> Option<Expr> {
        let is_outside = !self.place.is_within_subquery();
        if let Some(at) = self.keys.iter().position(|key| key == expr)
            && is_outside
        {
            return Some(self.column("key", at));
        }
        if is_outside && (aggregate_call(expr) || is_grouping(expr)) || self.place.is_raised(expr) {
            return Some(self.call(expr));
        }
        if let Expr::Identifier(name) = expr
            && let Some(at) = self.named.get(&name.value)
            && is_outside
        {
            return Some(self.column("key", *at));
        }
        if !self.place.is_own(expr) {
            return None;
        }
        let key = self.keys.iter().position(|key| names_same(key, expr));
        Some(match key {
            Some(at) => self.column("key", at),
            None => {
                let at = place_in(&mut self.columns, expr);
                self.column("column", at)
            }
        })
    }
}

impl VisitorMut for Groups<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.place.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.place.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.place.enter_select(select);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<()> {
        self.place.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(replaced) = self.replaced(expr) {
            *expr = replaced;
        }
        ControlFlow::Continue(())
    }
}

/// Where an expression is in a list, to which it is added if it is not.
fn place_in(list: &mut Vec<Expr>, expr: &Expr) -> usize {
    let found = list.iter().position(|known| known == expr);
    found.unwrap_or_else(|| {
        list.push(expr.clone());
        list.len() - 1
    })
}

fn aliased<'a>(select: &'a Select, name: &str) -> Option<&'a Expr> {
    select.projection.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if alias.value == name => Some(expr),
        _ => None,
    })
}

fn last_name(expr: &Expr) -> Option<Ident> {
    let name = match expr {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(parts) => parts.last()?,
        _ => return None,
    };
    Some(Ident::with_quote('`', &name.value))
}
