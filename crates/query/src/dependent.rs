//! Correlated subqueries as joins, where DataFusion has no rule for them.
//!
//! A subquery becomes a plan that is computed for each distinct combination of the outer values
//! that it reads (`push`), and is joined with the rows that have these values. So it stays
//! relational, however the subquery compares, counts, orders or limits. What DataFusion's own rules
//! handle well, conditions on rows and equalities below an aggregate, is left to them.

pub mod push;
pub mod references;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::functions_aggregate::count::count;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, Subquery,
    lit,
};
use datafusion::optimizer::AnalyzerRule;

use self::push::{Bound, Domain, conditions_of, refused, same};
use self::references::{free, has_subquery, is_simple, is_union_within, lateral, subquery_of};
use crate::functions;
use crate::functions::one_row::{MAYBE_NONE, ONE_ROW};
use crate::interrupt;
use crate::kept::Kept;

/// Maximum number of nodes of the plan of the outer rows of a subquery.
const NODES_MAX: usize = 2_000;

/// The analyzer rule that turns correlated subqueries into joins.
#[derive(Debug)]
pub struct DependentJoins;

impl AnalyzerRule for DependentJoins {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut joins = Joins::default();
        let plan = plan.transform_up_with_subqueries(|node| joins.node(node))?;
        Ok(plan.data)
    }

    fn name(&self) -> &'static str {
        "dependent_joins"
    }
}

/// The rows of a subquery for each value of its domain.
struct Side {
    /// Has the columns of the domain and those that `read` reads.
    plan: LogicalPlan,
    domain: Domain,
    /// The value of the subquery.
    read: Expr,
    /// Whether each value of the domain has a row.
    is_total: bool,
}

#[derive(Default)]
struct Joins {
    /// The number of subqueries up to now.
    count: usize,
    changed: bool,
}

impl Joins {
    fn node(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let node = if self.changed { node.recompute_schema()? } else { node };
        let before = self.count;
        let node = match node {
            LogicalPlan::Join(join) => self.join(join)?,
            LogicalPlan::Filter(filter) if has_subquery(&filter.predicate) => {
                self.filter(filter)?
            }
            LogicalPlan::Projection(items) if items.expr.iter().any(has_subquery) => {
                self.projection(items)?
            }
            node => node,
        };
        let is_changed = self.count > before;
        self.changed |= is_changed;
        Ok(Transformed::new(node, self.changed, TreeNodeRecursion::Continue))
    }

    fn filter(&mut self, filter: Filter) -> Result<LogicalPlan> {
        let node = LogicalPlan::Filter(filter.clone());
        let columns = filter.input.schema().columns();
        let base = self.base(&node, Arc::unwrap_or_clone(filter.input))?;
        let mut input = base.clone();
        let predicate = self.attached(&node, &base, &mut input, filter.predicate)?;
        let rows = LogicalPlanBuilder::from(input).filter(predicate)?;
        if rows.schema().columns() == columns {
            return rows.build();
        }
        rows.project(columns.into_iter().map(Expr::Column))?.build()
    }

    fn projection(&mut self, items: Projection) -> Result<LogicalPlan> {
        let node = LogicalPlan::Projection(items.clone());
        let base = self.base(&node, Arc::unwrap_or_clone(items.input))?;
        let mut input = base.clone();
        let names = NamePreserver::new_for_projection();
        let items = items.expr.into_iter().map(|item| {
            let name = names.save(&item);
            Ok(name.restore(self.attached(&node, &base, &mut input, item)?))
        });
        let items = items.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(input).project(items)?.build()
    }

    /// The input of a node, as it can stand twice if subqueries of the node are joined with it.
    fn base(&mut self, node: &LogicalPlan, input: LogicalPlan) -> Result<LogicalPlan> {
        let mut joins = false;
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                joins |= !is_left(node, part)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if joins { self.kept(input) } else { Ok(input) }
    }

    /// Rows that may not be the same when they are computed again are computed once.
    fn kept(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        match varies(&plan)? {
            false => Ok(plan),
            true => {
                self.count += 1;
                Ok(Kept::plan(format!("rows{}", self.count), plan))
            }
        }
    }

    /// Joins `input`, which is `base` with more columns, with the subqueries of an expression of
    /// `node` that are not left to DataFusion; the expression that reads their values.
    fn attached(
        &mut self,
        node: &LogicalPlan,
        base: &LogicalPlan,
        input: &mut LogicalPlan,
        expr: Expr,
    ) -> Result<Expr> {
        let changed = expr.transform_up(|part| {
            if subquery_of(&part).is_none() {
                return Ok(Transformed::no(part));
            }
            if is_left(node, &part)? {
                return self.left(part).map(Transformed::yes);
            }
            let plan = rows_of(&part, input.schema())?;
            let from = match free(&plan)?.iter().all(|(_, column)| {
                base.schema().has_column(column) || !input.schema().has_column(column)
            }) {
                true => base,
                false => {
                    *input = self.kept(std::mem::take(input))?;
                    &*input
                }
            };
            let domain = self.domain(&plan, &[from])?;
            let side = self.side(&part, &plan, domain)?;
            let kind = if side.is_total { JoinType::Inner } else { JoinType::Left };
            let on = same(&side.domain.columns, |key| key.outer.clone(), |key| key.own.clone())?;
            *input = joined(std::mem::take(input), side.plan, kind, on)?;
            Ok(Transformed::yes(side.read))
        });
        changed.map(|changed| changed.data)
    }

    /// A subquery that is left to DataFusion, told which outer columns it has now that those in it
    /// are joins, and that it is NULL if it has no row.
    fn left(&mut self, mut part: Expr) -> Result<Expr> {
        let told = |subquery: &mut Subquery| {
            subquery.outer_ref_columns = subquery.subquery.all_out_ref_exprs();
        };
        match &mut part {
            Expr::ScalarSubquery(subquery) => {
                let rows = &subquery.subquery;
                let field = rows.schema().field(0);
                if !field.is_nullable() && Count::of(rows)? != Count::One {
                    let (relation, field) = rows.schema().qualified_field(0);
                    let value = Expr::Column(Column::new(relation.cloned(), field.name()));
                    let value = functions::call(MAYBE_NONE, vec![value]).alias(field.name());
                    let rows = LogicalPlanBuilder::from(Arc::clone(rows)).project([value])?;
                    subquery.subquery = Arc::new(rows.build()?);
                    self.count += 1;
                }
                told(subquery);
            }
            Expr::Exists(exists) => told(&mut exists.subquery),
            Expr::InSubquery(membership) => told(&mut membership.subquery),
            _ => {}
        }
        Ok(part)
    }

    /// The distinct values, in these plans, of the columns of theirs that a subquery reads.
    fn domain(&mut self, subquery: &LogicalPlan, from: &[&LogicalPlan]) -> Result<Domain> {
        interrupt::check()?;
        self.count += 1;
        let plan = LogicalPlanBuilder::empty(true).build()?;
        let mut domain = Domain { plan, columns: Vec::new(), number: self.count };
        for plan in from {
            let schema = plan.schema();
            let found = free(subquery)?.into_iter().filter(|(_, outer)| schema.has_column(outer));
            let first = domain.columns.len();
            for (at, (field, outer)) in found.enumerate() {
                let own = Column::from_name(format!("#outer{}_{}", self.count, first + at));
                domain.columns.push(Bound { outer, own, field });
            }
            let items = domain.columns[first..]
                .iter()
                .map(|column| Expr::Column(column.outer.clone()).alias(&column.own.name));
            let items = items.collect::<Vec<_>>();
            if items.is_empty() {
                continue;
            }
            check_size(plan)?;
            let rows = LogicalPlanBuilder::from((*plan).clone()).project(items)?;
            let values = rows.distinct()?.build()?;
            domain.plan = match first {
                0 => values,
                _ => LogicalPlanBuilder::from(domain.plan).cross_join(values)?.build()?,
            };
        }
        Ok(domain)
    }

    /// The values of a subquery, whose rows are those of `plan`.
    fn side(&self, part: &Expr, plan: &LogicalPlan, domain: Domain) -> Result<Side> {
        let pushed = domain.push(plan)?;
        if !matches!(part, Expr::ScalarSubquery(_)) {
            let found = Column::from_name(format!("#found{}", self.count));
            let items = domain.keys().into_iter().chain([lit(true).alias(&found.name)]);
            let rows = LogicalPlanBuilder::from(pushed).project(items.collect::<Vec<_>>())?;
            let found = Expr::Column(found);
            let read = match part {
                Expr::Exists(exists) if exists.negated => found.is_null(),
                Expr::InSubquery(membership) if membership.negated => found.is_null(),
                _ => found.is_not_null(),
            };
            return Ok(Side { plan: rows.distinct()?.build()?, domain, read, is_total: false });
        }
        let name = format!("#value{}", self.count);
        let read = Expr::Column(Column::from_name(&name));
        let field = plan.schema().field(0);
        let value = pushed.schema().columns().pop().expect("a subquery has a column");
        let value = Expr::Column(value);
        let as_read = |value: Expr| {
            let metadata = FieldMetadata::new_from_field(field);
            value.alias_with_metadata(&name, Some(metadata))
        };
        let rows = Count::of(plan)?;
        if rows != Count::Many {
            let items = domain.keys().into_iter().chain([as_read(value)]).collect::<Vec<_>>();
            let plan = LogicalPlanBuilder::from(pushed).project(items)?.build()?;
            return Ok(Side { plan, domain, read, is_total: rows == Count::One });
        }
        let (first, number) = (format!("{name}f"), format!("{name}n"));
        let calls = vec![
            first_value_udaf().call(vec![value]).alias(&first),
            count(lit(1_i64)).alias(&number),
        ];
        let number = Expr::Column(Column::from_name(number));
        let groups = Aggregate::try_new(Arc::new(pushed), domain.keys(), calls)?;
        let first = as_read(Expr::Column(Column::from_name(first)));
        let items = domain.keys().into_iter().chain([first, number.clone()]).collect::<Vec<_>>();
        let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(groups)).project(items)?;
        let read = functions::call(ONE_ROW, vec![read, number]);
        let is_total = domain.columns.is_empty();
        Ok(Side { plan: plan.build()?, domain, read, is_total })
    }

    /// A join, its right side a LATERAL derived table, or conditions with subqueries.
    fn join(&mut self, join: Join) -> Result<LogicalPlan> {
        let join = match lateral(&join.right) {
            Some(subquery) if !free(&subquery.subquery)?.is_empty() => {
                let subquery = Arc::clone(&subquery.subquery);
                return self.lateral(&join, &subquery);
            }
            _ => join,
        };
        if !join.filter.iter().any(has_subquery) {
            return Ok(LogicalPlan::Join(join));
        }
        match join.join_type {
            JoinType::Inner => {
                let filter = join.filter.clone().unwrap_or_else(|| lit(true));
                let rows = LogicalPlan::Join(Join { filter: None, ..join });
                let filter = Filter::try_new(filter, Arc::new(rows))?;
                self.filter(filter)
            }
            JoinType::Left | JoinType::Right => self.outer_join(&join),
            _ => Ok(LogicalPlan::Join(join)),
        }
    }

    fn lateral(&mut self, join: &Join, subquery: &LogicalPlan) -> Result<LogicalPlan> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return Err(refused("RIGHT JOIN with a LATERAL table that reads the left one"));
        }
        let left = self.kept((*join.left).clone())?;
        let domain = self.domain(subquery, &[&left])?;
        let pushed = domain.push(subquery)?;
        let columns = pushed.schema().columns();
        let own = columns[domain.columns.len()..].iter().zip(join.right.schema().columns());
        let own = own.map(|(column, wanted)| {
            Expr::Column(column.clone()).alias_qualified(wanted.relation, wanted.name)
        });
        let items = domain.keys().into_iter().chain(own).collect::<Vec<_>>();
        let side = LogicalPlanBuilder::from(pushed).project(items)?.build()?;
        let mut on = same(&domain.columns, |key| key.outer.clone(), |key| key.own.clone())?;
        on.extend(conditions_of(join)?);
        let rows = joined(left, side, join.join_type, on)?;
        let rows = match rows {
            LogicalPlan::Join(join) => self.join(join)?,
            other => other,
        };
        let own = join.schema.columns().into_iter().map(Expr::Column);
        LogicalPlanBuilder::from(rows).project(own)?.build()
    }

    /// An outer join whose condition has subqueries: the side that may be missing is joined with
    /// their values for each row of the side that is kept.
    fn outer_join(&mut self, join: &Join) -> Result<LogicalPlan> {
        let keeps_left = join.join_type == JoinType::Left;
        let (kept, missing) = match keeps_left {
            true => (&join.left, &join.right),
            false => (&join.right, &join.left),
        };
        let (kept, missing) = (self.kept((**kept).clone())?, self.kept((**missing).clone())?);
        let mut other = missing.clone();
        let mut conditions = Vec::new();
        for condition in conditions_of(join)? {
            let changed = condition.transform_up(|part| {
                if subquery_of(&part).is_none() {
                    return Ok(Transformed::no(part));
                }
                let plan = rows_of(&part, &join.schema)?;
                let domain = self.domain(&plan, &[&kept, &missing])?;
                let side = total(self.side(&part, &plan, domain)?)?;
                let (of_kept, of_missing) = side
                    .domain
                    .columns
                    .into_iter()
                    .partition::<Vec<_>, _>(|column| kept.schema().has_column(&column.outer));
                let on = same(&of_missing, |key| key.outer.clone(), |key| key.own.clone())?;
                other = joined(std::mem::take(&mut other), side.plan, JoinType::Inner, on)?;
                let of_kept = same(&of_kept, |key| key.outer.clone(), |key| key.own.clone())?;
                conditions.extend(of_kept);
                Ok(Transformed::yes(side.read))
            })?;
            conditions.push(changed.data);
        }
        let rows = match keeps_left {
            true => joined(kept, other, JoinType::Left, conditions)?,
            false => joined(other, kept, JoinType::Right, conditions)?,
        };
        let own = join.schema.columns().into_iter().map(Expr::Column);
        LogicalPlanBuilder::from(rows).project(own)?.build()
    }
}

/// The rows of a subquery: for IN those that have the value.
fn rows_of(part: &Expr, schema: &DFSchema) -> Result<LogicalPlan> {
    match part {
        Expr::InSubquery(InSubquery { expr, subquery, .. }) => {
            let rows = &subquery.subquery;
            let value = Column::from(rows.schema().qualified_field(0));
            let wanted = expr.as_ref().clone().transform_up(|part| {
                Ok(match part {
                    Expr::Column(column) => {
                        let field = Arc::clone(schema.field_from_column(&column)?);
                        Transformed::yes(Expr::OuterReferenceColumn(field, column))
                    }
                    other => Transformed::no(other),
                })
            })?;
            LogicalPlanBuilder::from(rows.as_ref().clone())
                .filter(wanted.data.eq(Expr::Column(value)))?
                .build()
        }
        Expr::Exists(exists) => Ok(as_found(&exists.subquery.subquery).clone()),
        Expr::ScalarSubquery(subquery) => Ok(subquery.subquery.as_ref().clone()),
        other => Err(refused(&other.to_string())),
    }
}

/// Whether rows are found depends neither on their order nor on how many there may be.
fn as_found(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Sort(sort) => as_found(&sort.input),
        LogicalPlan::Limit(limit) if limit.skip.is_none() => match limit.fetch.as_deref() {
            Some(Expr::Literal(ScalarValue::Int64(Some(1..)), _)) => as_found(&limit.input),
            _ => plan,
        },
        plan => plan,
    }
}

/// A side in which each value of the domain has a row.
fn total(side: Side) -> Result<Side> {
    if side.is_total {
        return Ok(side);
    }
    let Side { plan, domain, read, .. } = side;
    let other = |column: &Bound| Column::from_name(format!("{}t", column.own.name));
    let keys = domain
        .columns
        .iter()
        .map(|column| Expr::Column(column.own.clone()).alias(other(column).name));
    let own = plan.schema().columns().into_iter().skip(domain.columns.len()).map(Expr::Column);
    let items = keys.chain(own).collect::<Vec<_>>();
    let plan = LogicalPlanBuilder::from(plan).project(items)?.build()?;
    let on = same(&domain.columns, |column| column.own.clone(), other)?;
    let plan = joined(domain.plan.clone(), plan, JoinType::Left, on)?;
    Ok(Side { plan, domain, read, is_total: true })
}

fn joined(
    left: LogicalPlan,
    right: LogicalPlan,
    kind: JoinType,
    on: Vec<Expr>,
) -> Result<LogicalPlan> {
    let on = if on.is_empty() { vec![lit(true)] } else { on };
    LogicalPlanBuilder::from(left).join_on(right, kind, on)?.build()
}

/// How many rows a plan has for each value of the domain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    One,
    AtMostOne,
    Many,
}

impl Count {
    fn of(plan: &LogicalPlan) -> Result<Self> {
        Ok(match plan {
            LogicalPlan::Projection(projection) => Self::of(&projection.input)?,
            LogicalPlan::SubqueryAlias(named) => Self::of(&named.input)?,
            LogicalPlan::Sort(sort) => Self::of(&sort.input)?,
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => Self::One,
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => Self::One,
            LogicalPlan::Filter(filter) => match Self::of(&filter.input)? {
                Self::One | Self::AtMostOne => Self::AtMostOne,
                Self::Many => Self::Many,
            },
            LogicalPlan::Limit(limit) => match limit.fetch.as_deref() {
                Some(Expr::Literal(ScalarValue::Int64(Some(0 | 1)), _)) => Self::AtMostOne,
                _ => Self::Many,
            },
            _ => Self::Many,
        })
    }
}

/// Whether a part of an expression of a node is no subquery, or one that is left to DataFusion.
fn is_left(node: &LogicalPlan, part: &Expr) -> Result<bool> {
    match subquery_of(part) {
        None => Ok(true),
        Some(subquery) => match free(&subquery.subquery)?.is_empty() {
            true => Ok(!is_union_within(node, part)?),
            false => is_simple(node, part),
        },
    }
}

/// Whether rows may be other ones when they are computed again: which LIMIT takes, in which order
/// numbers are added, and RAND() depend on chance.
fn varies(plan: &LogicalPlan) -> Result<bool> {
    let mut varies = false;
    plan.apply_with_subqueries(|node| {
        varies |= matches!(
            node,
            LogicalPlan::Limit(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::RecursiveQuery(_)
        );
        node.apply_expressions(|expr| {
            varies |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match varies {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(varies && Kept::of(plan).is_none())
}

fn check_size(plan: &LogicalPlan) -> Result<()> {
    let mut nodes = 0;
    plan.apply_with_subqueries(|_| {
        nodes += 1;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if nodes > NODES_MAX {
        return Err(refused("correlated subqueries that are nested this deep"));
    }
    Ok(())
}
