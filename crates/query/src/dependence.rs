//! Columns that are selected beside GROUP BY, not grouped themselves, but known from the keys: as
//! another column of a row whose unique key is grouped, or equal to one.
//!
//! The planner finds those of a key by itself. If it refuses a query, such columns become keys too,
//! behind a mark, and the plan must show that each is known from the keys before the mark; then
//! they change no group.

mod loose;

use std::collections::HashSet;
use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, Expr as Planned, ExprSchemable, Join, JoinType, LogicalPlan, Operator,
};
use freshet_base::{Error, ErrorCode, Result, err};
use sqlparser::ast::{
    Expr, GroupByExpr, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor,
    Visitor, VisitorMut,
};

use crate::convert::is_text;
use crate::dependent::push::conditions_of;
use crate::dependent::references::free;
use crate::error::mapped;
use crate::joined::factors;
use crate::nesting::count_queries;
use crate::rewrite::{aggregate_call, values};
use crate::visit::{walk, walk_mut};

/// The second argument of the key behind which keys are added.
const MARK: &str = "#known";

/// The plan of a rewritten query; where it `is_loose`, ONLY_FULL_GROUP_BY is not set.
///
/// # Errors
/// Those of `plan`; 1055 for a column that the keys of its query do not determine.
pub fn planned(
    query: Box<Query>,
    is_loose: bool,
    plan: impl Fn(Box<Query>) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let kept = is_loose.then(|| query.clone());
    match (strictly(query, &plan), kept) {
        (Err(refused), Some(mut query)) if refused.code() == ErrorCode::NotGrouped => {
            // What cannot be done even so is told as it stands.
            let loosened = loose::loosened(&mut query, &plan);
            loosened.and_then(|()| plan(query)).and_then(bound).map_err(|_| refused)
        }
        (planned, _) => planned,
    }
}

fn strictly(
    query: Box<Query>,
    plan: impl Fn(Box<Query>) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    if walk(&*query, &mut Groups).is_continue() {
        return plan(query);
    }
    let mut extended = query.clone();
    let refused = match plan(query).and_then(bound) {
        Err(error) if error.code() == ErrorCode::NotGrouped => error,
        planned => return planned,
    };
    let _ = walk_mut(&mut extended, &mut Extend);
    match plan(extended).and_then(bound) {
        Ok(plan) if is_known(&plan)? => Ok(plan),
        _ => Err(refused),
    }
}

/// The plan, if its subqueries find the columns that they read: they look for them in the tables of
/// the query around them, of which only keys are left where it groups.
fn bound(plan: LogicalPlan) -> Result<LogicalPlan> {
    match free(&plan).map_err(mapped)?.first() {
        None => Ok(plan),
        Some((_, column)) => Err(err!(
            NotGrouped,
            "Expression of SELECT list is not in GROUP BY clause and contains nonaggregated \
             column '{}' which is not functionally dependent on columns in GROUP BY clause",
            column.flat_name()
        )),
    }
}

/// Whether a query or one within it has GROUP BY, with or without ROLLUP.
pub fn groups(query: &Query) -> bool {
    struct Any;
    impl Visitor for Any {
        type Break = ();

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            match &select.group_by {
                GroupByExpr::Expressions(keys, _) if keys.is_empty() => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        }
    }
    walk(query, &mut Any).is_break()
}

/// The error for a column that is not grouped, of a query without GROUP BY.
pub fn mixed(not_grouped: &Error) -> Error {
    let column =
        not_grouped.message().split("column '").nth(1).and_then(|of| of.split('\'').next());
    err!(
        MixOfGroups,
        "In aggregated query without GROUP BY, expression of SELECT list contains nonaggregated \
         column '{}'; this is incompatible with sql_mode=only_full_group_by",
        column.unwrap_or("")
    )
}

/// Finds a query with GROUP BY.
struct Groups;

impl Visitor for Groups {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        match keys(select).is_some() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// The keys of a query with GROUP BY, without ROLLUP.
fn keys(select: &Select) -> Option<&Vec<Expr>> {
    match &select.group_by {
        GroupByExpr::Expressions(keys, modifiers) if modifiers.is_empty() => {
            let plain = !keys.iter().any(|key| matches!(key, Expr::Rollup(_)));
            (plain && !keys.is_empty()).then_some(keys)
        }
        _ => None,
    }
}

/// Adds the columns beside GROUP BY to the keys.
struct Extend;

impl VisitorMut for Extend {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Query { body, order_by, .. } = query;
        match &mut **body {
            SetExpr::Select(select) => extend(select, order_by.as_ref()),
            SetExpr::SetOperation { left, right, .. } => {
                for operand in [left, right] {
                    if let SetExpr::Select(select) = &mut **operand {
                        extend(select, None);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn extend(select: &mut Select, order_by: Option<&OrderBy>) {
    let Some(keys) = keys(select) else { return };
    let mut found = Found::of(select);
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = walk(expr, &mut found);
        }
    }
    // There an alias goes before a column.
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            found.aliases.insert(alias.value.clone());
        }
    }
    let _ = walk(&select.having, &mut found);
    if let Some(OrderBy { kind: OrderByKind::Expressions(exprs), .. }) = order_by {
        let _ = walk(exprs, &mut found);
    }
    let mut added = Vec::<Expr>::new();
    for column in found.columns {
        if !keys.iter().chain(&added).any(|key| names_same(key, &column)) {
            added.push(column);
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        let mark = vec![values::int(0), values::text(MARK)];
        keys.push(values::call("mysql_part", mark));
        keys.extend(added);
    }
}

/// Whether two names are of the same column, as far as names tell.
pub fn names_same(one: &Expr, other: &Expr) -> bool {
    let parts = |expr: &Expr| match expr {
        Expr::Identifier(ident) => vec![ident.value.clone()],
        Expr::CompoundIdentifier(idents) => idents.iter().map(|id| id.value.clone()).collect(),
        _ => Vec::new(),
    };
    let (one, other) = (parts(one), parts(other));
    !one.is_empty() && (one.ends_with(&other) || other.ends_with(&one)) && !other.is_empty()
}

/// Collects the columns of a query that stand outside of aggregates.
struct Found {
    /// The names of its tables, by which its subqueries read columns.
    tables: HashSet<String>,
    aliases: HashSet<String>,
    columns: Vec<Expr>,
    aggregates: usize,
    /// The nesting of subqueries.
    queries: usize,
}

impl Found {
    fn of(select: &Select) -> Self {
        let tables = factors(&select.from).into_iter().filter_map(|factor| match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. } => Some(alias.name.value.clone()),
            TableFactor::Table { name, .. } => {
                name.0.last()?.as_ident().map(|ident| ident.value.clone())
            }
            _ => None,
        });
        let tables = tables.collect();
        let (aliases, columns) = (HashSet::new(), Vec::new());
        Self { tables, aliases, columns, aggregates: 0, queries: 0 }
    }
}

impl Visitor for Found {
    type Break = ();

    count_queries!(&Query);

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.aggregates += usize::from(aggregate_call(expr));
        let is_column = self.aggregates == 0
            && match expr {
                Expr::Identifier(ident) => {
                    self.queries == 0 && !self.aliases.contains(&ident.value)
                }
                Expr::CompoundIdentifier(idents) => match &idents[..] {
                    [.., table, _] => self.queries == 0 || self.tables.contains(&table.value),
                    _ => false,
                },
                _ => false,
            };
        if is_column && !self.columns.contains(expr) {
            self.columns.push(expr.clone());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.aggregates -= usize::from(aggregate_call(expr));
        ControlFlow::Continue(())
    }
}

/// Whether all added keys are known from the others.
fn is_known(plan: &LogicalPlan) -> Result<bool> {
    let mut known = true;
    let looked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            known &= are_known(aggregate)?;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    looked.map_err(mapped)?;
    Ok(known)
}

fn are_known(aggregate: &Aggregate) -> datafusion::common::Result<bool> {
    let is_mark = |key: &Planned| {
        matches!(key.clone().unalias(), Planned::ScalarFunction(call)
            if call.func.name() == "mysql_part" && is_marked(&call.args))
    };
    let Some(mark) = aggregate.group_expr.iter().position(is_mark) else { return Ok(true) };
    let schema = aggregate.input.schema();
    let at = |key: &Planned| match key {
        Planned::Column(column) => schema.maybe_index_of_column(column),
        _ => None,
    };
    let (keys, added) = aggregate.group_expr.split_at(mark);
    let mut known = keys.iter().filter_map(at).collect::<HashSet<_>>();
    close(&mut known, &facts(&aggregate.input)?);
    Ok(added[1..].iter().all(|key| match key {
        Planned::OuterReferenceColumn(..) => true,
        key => at(key).is_some_and(|at| known.contains(&at)),
    }))
}

fn is_marked(args: &[Planned]) -> bool {
    matches!(args, [_, Planned::Literal(text, _)] if text.try_as_str() == Some(Some(MARK)))
}

/// Adds what is known from what is known.
fn close(known: &mut HashSet<usize>, facts: &[Fact]) {
    loop {
        let before = known.len();
        for fact in facts {
            if fact.from.iter().all(|column| known.contains(column)) {
                known.extend(&fact.to);
            }
        }
        if known.len() == before {
            return;
        }
    }
}

/// Rows that agree in columns `from` agree in columns `to`; columns by their position.
#[derive(Clone)]
struct Fact {
    from: Vec<usize>,
    to: Vec<usize>,
}

impl Fact {
    fn behind(mut self, columns: usize) -> Self {
        self.from.iter_mut().chain(&mut self.to).for_each(|column| *column += columns);
        self
    }
}

fn facts(plan: &LogicalPlan) -> datafusion::common::Result<Vec<Fact>> {
    let schema = plan.schema();
    let mut facts = match plan {
        LogicalPlan::Filter(filter) => {
            let mut facts = facts(&filter.input)?;
            for condition in split_conjunction(&filter.predicate) {
                facts.extend(equal(condition, schema));
            }
            facts
        }
        LogicalPlan::SubqueryAlias(named) => facts(&named.input)?,
        LogicalPlan::Join(join) => of_join(join)?,
        LogicalPlan::Projection(items) => {
            let input = items.input.schema();
            let place = |wanted: usize| {
                items.expr.iter().position(|item| match item.clone().unalias() {
                    Planned::Column(column) => input.maybe_index_of_column(&column) == Some(wanted),
                    _ => false,
                })
            };
            let below = facts(&items.input)?.into_iter();
            let shown = below.filter_map(|fact| {
                let from = fact.from.into_iter().map(place).collect::<Option<Vec<_>>>()?;
                let to = fact.to.into_iter().filter_map(place).collect();
                Some(Fact { from, to })
            });
            shown.collect()
        }
        _ => Vec::new(),
    };
    let keys = schema.functional_dependencies().iter().filter(|key| !key.nullable);
    facts.extend(
        keys.map(|key| Fact { from: key.source_indices.clone(), to: key.target_indices.clone() }),
    );
    Ok(facts)
}

fn of_join(join: &Join) -> datafusion::common::Result<Vec<Fact>> {
    let (left, right) = (facts(&join.left)?, facts(&join.right)?);
    let behind = join.left.schema().fields().len();
    let right = right.into_iter().map(|fact| fact.behind(behind));
    let conditions = conditions_of(join)?;
    let equal = conditions.iter().map(|condition| equal(condition, &join.schema));
    let equal = equal.collect::<Vec<_>>();
    // In rows without a partner all columns of that side are NULL, so that what holds in it of more
    // than constants holds still.
    let may_miss = |fact: &Fact| !fact.from.is_empty();
    Ok(match join.join_type {
        JoinType::Inner => left.into_iter().chain(right).chain(equal.concat()).collect(),
        JoinType::Left | JoinType::Right => {
            let keeps_left = join.join_type == JoinType::Left;
            let is_kept = |column: &usize| (*column < behind) == keeps_left;
            let (kept, missing): (Vec<_>, Vec<_>) = match keeps_left {
                true => (left, right.filter(may_miss).collect()),
                false => (right.collect(), left.into_iter().filter(may_miss).collect()),
            };
            let mut facts = kept;
            facts.extend(missing);
            // Equal columns of the kept side say whether there is a partner, if nothing else does.
            if equal.iter().all(|facts| !facts.is_empty()) {
                let columns = equal.concat().into_iter().flat_map(|fact| fact.to);
                let (from, to) = columns.partition::<Vec<_>, _>(is_kept);
                if !from.is_empty() {
                    facts.push(Fact { from, to });
                }
            }
            facts
        }
        _ => Vec::new(),
    })
}

/// What follows from a condition that is an equality.
fn equal(condition: &Planned, schema: &DFSchema) -> Vec<Fact> {
    let condition = match condition {
        Planned::ScalarFunction(call) if call.func.name() == "mysql_truth" => &call.args[0],
        condition => condition,
    };
    let Planned::BinaryExpr(binary) = condition else { return Vec::new() };
    if binary.op != Operator::Eq || !are_alike(&binary.left, &binary.right, schema) {
        return Vec::new();
    }
    let column = |side: &Planned| match side {
        Planned::Column(column) => schema.maybe_index_of_column(column),
        _ => None,
    };
    let is_constant = |side: &Planned| {
        matches!(
            side,
            Planned::Literal(..) | Planned::Placeholder(_) | Planned::OuterReferenceColumn(..)
        )
    };
    match (column(&binary.left), column(&binary.right)) {
        (Some(left), Some(right)) => vec![
            Fact { from: vec![left], to: vec![right] },
            Fact { from: vec![right], to: vec![left] },
        ],
        (Some(known), None) if is_constant(&binary.right) => {
            vec![Fact { from: Vec::new(), to: vec![known] }]
        }
        (None, Some(known)) if is_constant(&binary.left) => {
            vec![Fact { from: Vec::new(), to: vec![known] }]
        }
        _ => Vec::new(),
    }
}

/// Whether equal values of these expressions are in one group, and not as `'1'` and `'01'`, which
/// are the number 1.
fn are_alike(left: &Planned, right: &Planned, schema: &DFSchema) -> bool {
    let (Ok(left), Ok(right)) = (left.get_type(schema), right.get_type(schema)) else {
        return false;
    };
    let is_exact = |ty: &DataType| ty.is_integer() || ty.is_decimal();
    left == right || (is_exact(&left) && is_exact(&right)) || (is_text(&left) && is_text(&right))
}
