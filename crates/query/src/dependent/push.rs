//! A plan computed for each value of its outer columns.
//!
//! The domain, the distinct values of the outer columns that a plan reads, is moved down through
//! the plan to where none of them is read any more, and stands beside it there (Neumann and Kemper,
//! Unnesting Arbitrary Queries, BTW 2015).

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, NullEquality, Result, ScalarValue};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::Sort as SortKey;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, ExprSchemable, Join, JoinType, Limit, LogicalPlan,
    LogicalPlanBuilder, Projection, Sort, Union, Window, WindowFrame, WindowFrameBound,
    WindowFrameUnits, cast, lit, when,
};
use freshet_base::err;

use super::references::{free, has_subquery};
use crate::error::external;
use crate::kept::Kept;

/// The number of a row among those of one value of the domain.
const ROW: &str = "#row";
/// A sort key that is not a plain column, followed by a number.
const SORTED: &str = "#sorted";
/// Set in rows of the input of an aggregate, and not in what stands for no row at all.
const INSIDE: &str = "#inside";

/// The distinct values of outer columns.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Has the columns `own`.
    pub plan: LogicalPlan,
    pub columns: Vec<Bound>,
    /// Tells domains of a statement apart.
    pub number: usize,
}

/// A column of a domain.
#[derive(Clone, Debug)]
pub struct Bound {
    /// As the plan reads it.
    pub outer: Column,
    /// As the domain names it.
    pub own: Column,
    pub field: FieldRef,
}

impl Bound {
    /// The name of the column in the other side of a join.
    fn other(&self) -> Column {
        Column::from_name(format!("{}o", self.own.name))
    }
}

/// The conditions that both sides, given by the names of their columns, have the same values.
pub fn same(
    columns: &[Bound],
    left: impl Fn(&Bound) -> Column,
    right: impl Fn(&Bound) -> Column,
) -> Result<Vec<Expr>> {
    let mut conditions = Vec::with_capacity(columns.len());
    for column in columns {
        let (left, right) = (Expr::Column(left(column)), Expr::Column(right(column)));
        match column.field.is_nullable() {
            true => conditions.extend(same_or_null(left, right, column.field.data_type())?),
            false => conditions.push(left.eq(right)),
        }
    }
    Ok(conditions)
}

/// The conditions that two expressions of this type have the same value or are both NULL. They are
/// never NULL: for keys that may be, DataFusion loses which of the keys of a join are compared so.
fn same_or_null(left: Expr, right: Expr, ty: &DataType) -> Result<[Expr; 2]> {
    let filled = |side: &Expr| {
        let value = lit(ScalarValue::new_default(ty)?);
        when(side.clone().is_null(), value).otherwise(side.clone())
    };
    let values = filled(&left)?.eq(filled(&right)?);
    Ok([left.is_null().eq(right.is_null()), values])
}

impl Domain {
    /// The rows of the plan for each value of the domain: its columns, then those of the plan.
    ///
    /// # Errors
    /// `NotSupported` for outer columns within ROLLUP and within recursion.
    pub fn push(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        if self.columns.is_empty() {
            return Ok(plan.clone());
        }
        if !self.reaches(plan)? {
            return self.beside(plan);
        }
        match plan {
            LogicalPlan::Filter(filter) => {
                let input = LogicalPlanBuilder::from(self.push(&filter.input)?);
                input.filter(self.inner(filter.predicate.clone())?)?.build()
            }
            LogicalPlan::Projection(Projection { expr, input, .. }) => {
                let items = self.keys().into_iter().chain(self.named(plan, expr)?);
                LogicalPlanBuilder::from(self.push(input)?).project(items)?.build()
            }
            LogicalPlan::SubqueryAlias(named) => self.like(self.push(&named.input)?, plan.schema()),
            LogicalPlan::Subquery(table) => self.push(&table.subquery),
            // Its order is lost, and only counts for LIMIT.
            LogicalPlan::Sort(Sort { input, fetch: None, .. }) => self.push(input),
            LogicalPlan::Limit(limit) => self.limit(limit, plan.schema()),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let input = Arc::new(self.push(input)?);
                Ok(LogicalPlan::Distinct(Distinct::All(input)))
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, plan),
            LogicalPlan::Window(window) => self.window(window, plan),
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.iter().map(|input| self.push(input).map(Arc::new));
                let union = Union::try_new(inputs.collect::<Result<_>>()?)?;
                self.like(LogicalPlan::Union(union), plan.schema())
            }
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Unnest(unnest) => LogicalPlanBuilder::from(self.push(&unnest.input)?)
                .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
                .build(),
            plan => match Kept::of(plan) {
                Some(kept) => kept.changed(self.number, |input| self.push(input)),
                None => Err(refused("a column of an outer query here")),
            },
        }
    }

    /// Whether the plan reads a column of the domain.
    fn reaches(&self, plan: &LogicalPlan) -> Result<bool> {
        Ok(free(plan)?.iter().any(|(_, column)| self.own(column).is_some()))
    }

    fn own(&self, outer: &Column) -> Option<&Column> {
        self.columns.iter().find(|column| column.outer == *outer).map(|column| &column.own)
    }

    /// All values of the domain beside each row of a plan that reads none of them.
    fn beside(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::EmptyRelation(one) if one.produce_one_row => Ok(self.plan.clone()),
            _ => LogicalPlanBuilder::from(self.plan.clone()).cross_join(plan.clone())?.build(),
        }
    }

    pub fn keys(&self) -> Vec<Expr> {
        self.columns.iter().map(|column| Expr::Column(column.own.clone())).collect()
    }

    /// The expression over columns of the domain.
    fn inner(&self, expr: Expr) -> Result<Expr> {
        let changed = expr.transform_up(|part| match &part {
            Expr::OuterReferenceColumn(_, column) => Ok(match self.own(column) {
                Some(own) => Transformed::yes(Expr::Column(own.clone())),
                None => Transformed::no(part),
            }),
            _ => Ok(Transformed::no(part)),
        });
        changed.map(|changed| changed.data)
    }

    /// Expressions of a node over columns of the domain, with the names that they had.
    fn named(&self, node: &LogicalPlan, exprs: &[Expr]) -> Result<Vec<Expr>> {
        let names = NamePreserver::new(node);
        let named = exprs.iter().map(|expr| {
            let name = names.save(expr);
            Ok(name.restore(self.inner(expr.clone())?))
        });
        named.collect()
    }

    /// The plan with the columns behind those of the domain named as wanted.
    fn like(&self, plan: LogicalPlan, wanted: &DFSchema) -> Result<LogicalPlan> {
        let (columns, wanted) = (plan.schema().columns(), wanted.columns());
        let rest = &columns[self.columns.len()..];
        if *rest == wanted[..] {
            return Ok(plan);
        }
        let named = rest.iter().zip(wanted).map(|(column, wanted)| {
            Expr::Column(column.clone()).alias_qualified(wanted.relation, wanted.name)
        });
        let items = self.keys().into_iter().chain(named).collect::<Vec<_>>();
        LogicalPlanBuilder::from(plan).project(items)?.build()
    }

    /// The plan as the other side of a join.
    fn renamed(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let keys = self
            .columns
            .iter()
            .map(|column| Expr::Column(column.own.clone()).alias(column.other().name));
        let rest = plan.schema().columns().into_iter().skip(self.columns.len());
        let items = keys.chain(rest.map(Expr::Column)).collect::<Vec<_>>();
        LogicalPlanBuilder::from(plan).project(items)?.build()
    }

    /// Counts the rows of each value by itself.
    fn limit(&self, limit: &Limit, wanted: &DFSchema) -> Result<LogicalPlan> {
        let row = cast(Expr::Column(Column::from_name(ROW)), DataType::Int64);
        let behind = match &limit.skip {
            Some(skip) => row - self.inner((**skip).clone())?,
            None => row,
        };
        let mut condition = behind.clone().gt(lit(0_i64));
        if let Some(fetch) = &limit.fetch {
            condition = condition.and(behind.lt_eq(self.inner((**fetch).clone())?));
        }
        let rows = LogicalPlanBuilder::from(self.numbered(&limit.input)?).filter(condition)?;
        let columns = wanted.columns().into_iter().map(Expr::Column);
        rows.project(self.keys().into_iter().chain(columns))?.build()
    }

    /// The rows of a plan as by [`Self::push`], and [`ROW`] at the end.
    fn numbered(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let row = || Expr::Column(Column::from_name(ROW));
        match plan {
            LogicalPlan::Sort(Sort { expr, input, .. }) => {
                let own = plan.schema().columns().into_iter().map(Expr::Column);
                let own = self.keys().into_iter().chain(own).collect::<Vec<_>>();
                let mut items = own.clone();
                let mut keys = Vec::with_capacity(expr.len());
                for (at, by) in expr.iter().enumerate() {
                    let name = format!("{SORTED}{at}");
                    items.push(self.inner(by.expr.clone())?.alias(&name));
                    keys.push(by.with_expr(Expr::Column(Column::from_name(name))));
                }
                let input = LogicalPlanBuilder::from(self.push(input)?).project(items)?.build()?;
                LogicalPlanBuilder::from(self.counted(input, keys)?)
                    .project(own.into_iter().chain([row()]))?
                    .build()
            }
            LogicalPlan::Projection(Projection { expr, input, .. }) if is_sorted(input) => {
                let items = self.keys().into_iter().chain(self.named(plan, expr)?);
                let items = items.chain([row()]).collect::<Vec<_>>();
                LogicalPlanBuilder::from(self.numbered(input)?).project(items)?.build()
            }
            LogicalPlan::SubqueryAlias(named) if is_sorted(&named.input) => {
                let input = self.numbered(&named.input)?;
                let columns = input.schema().columns();
                let own = columns[self.columns.len()..].iter().zip(plan.schema().columns());
                let own = own.map(|(column, wanted)| {
                    Expr::Column(column.clone()).alias_qualified(wanted.relation, wanted.name)
                });
                let items = self.keys().into_iter().chain(own).chain([row()]);
                let items = items.collect::<Vec<_>>();
                LogicalPlanBuilder::from(input).project(items)?.build()
            }
            other => self.counted(self.push(other)?, Vec::new()),
        }
    }

    fn counted(&self, plan: LogicalPlan, order: Vec<SortKey>) -> Result<LogicalPlan> {
        let rows = WindowFrame::new_bounds(
            WindowFrameUnits::Rows,
            WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
            WindowFrameBound::CurrentRow,
        );
        let number = row_number().partition_by(self.keys()).order_by(order).window_frame(rows);
        let number = number.build()?.alias(ROW);
        Ok(LogicalPlan::Window(Window::try_new(vec![number], Arc::new(plan))?))
    }

    fn aggregate(&self, aggregate: &Aggregate, node: &LogicalPlan) -> Result<LogicalPlan> {
        if aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return Err(refused("a column of an outer query under ROLLUP"));
        }
        let groups = self.keys().into_iter().chain(self.named(node, &aggregate.group_expr)?);
        let groups = groups.collect();
        let calls = self.named(node, &aggregate.aggr_expr)?;
        if !aggregate.group_expr.is_empty() {
            let input = Arc::new(self.push(&aggregate.input)?);
            return Aggregate::try_new(input, groups, calls).map(LogicalPlan::Aggregate);
        }
        // Without rows there is one result too.
        let input = Arc::new(self.padded(&aggregate.input)?);
        let names = NamePreserver::new_for_projection();
        let calls = calls.into_iter().map(|call| {
            let name = names.save(&call);
            Ok(name.restore(call.transform_up(of_rows_inside)?.data))
        });
        let calls = calls.collect::<Result<_>>()?;
        Aggregate::try_new(input, groups, calls).map(LogicalPlan::Aggregate)
    }

    /// The rows of the input of an aggregate as by [`Self::push`], and [`INSIDE`]; a value of the
    /// domain without rows has one in which the rest is NULL.
    fn padded(&self, input: &LogicalPlan) -> Result<LogicalPlan> {
        let inside = |plan: LogicalPlan| {
            let own = plan.schema().columns().into_iter().map(Expr::Column);
            let items = own.chain([lit(true).alias(INSIDE)]).collect::<Vec<_>>();
            LogicalPlanBuilder::from(plan).project(items)?.build()
        };
        let all = LogicalPlanBuilder::from(self.plan.clone());
        let (rows, conditions) = match input {
            LogicalPlan::Filter(filter)
                if !self.reaches(&filter.input)? && !has_subquery(&filter.predicate) =>
            {
                let condition = self.inner(filter.predicate.clone())?;
                (inside((*filter.input).clone())?, vec![condition])
            }
            other if !self.reaches(other)? => (inside(other.clone())?, vec![lit(true)]),
            other => {
                let rows = self.renamed(inside(self.push(other)?)?)?;
                (rows, same(&self.columns, |column| column.own.clone(), Bound::other)?)
            }
        };
        all.join_on(rows, JoinType::Left, conditions)?.build()
    }

    fn window(&self, window: &Window, node: &LogicalPlan) -> Result<LogicalPlan> {
        let calls = self.named(node, &window.window_expr)?;
        let names = NamePreserver::new_for_projection();
        let calls = calls.into_iter().map(|call| {
            let name = names.save(&call);
            let changed = call.transform_up(|part| {
                Ok(match part {
                    Expr::WindowFunction(mut window) => {
                        window.params.partition_by.splice(0..0, self.keys());
                        Transformed::yes(Expr::WindowFunction(window))
                    }
                    other => Transformed::no(other),
                })
            })?;
            Ok(name.restore(changed.data))
        });
        let calls = calls.collect::<Result<_>>()?;
        let input = Arc::new(self.push(&window.input)?);
        Window::try_new(calls, input).map(LogicalPlan::Window)
    }

    fn join(&self, join: &Join) -> Result<LogicalPlan> {
        use JoinType::{Full, Inner, Right, RightAnti, RightMark, RightSemi};
        let (on_left, on_right) = (self.reaches(&join.left)?, self.reaches(&join.right)?);
        // The side whose rows without a partner are kept has the values of the domain.
        let (on_left, on_right) = match join.join_type {
            Inner => (on_left || !on_right, on_right),
            Right | RightSemi | RightAnti | RightMark => (on_left, true),
            Full => (true, true),
            _ => (true, on_right),
        };
        let from_right = matches!(join.join_type, Right | RightSemi | RightAnti | RightMark);
        let from_right = from_right || !on_left;
        let side = |plan: &LogicalPlan, has: bool, is_other: bool| match (has, is_other) {
            (false, _) => Ok(plan.clone()),
            (true, false) => self.push(plan),
            (true, true) => self.renamed(self.push(plan)?),
        };
        let left = side(&join.left, on_left, from_right)?;
        let right = side(&join.right, on_right, !from_right)?;
        let mut conditions = Vec::new();
        if on_left && on_right {
            conditions = same(&self.columns, |column| column.own.clone(), Bound::other)?;
        }
        for condition in conditions_of(join)? {
            conditions.push(self.inner(condition)?);
        }
        let conditions = if conditions.is_empty() { vec![lit(true)] } else { conditions };
        let joined = LogicalPlanBuilder::from(left).join_on(right, join.join_type, conditions)?;
        let keys = self.columns.iter().map(|column| {
            let own = Expr::Column(column.own.clone());
            match join.join_type {
                Full => {
                    let other = Expr::Column(column.other());
                    let either = when(own.clone().is_null(), other).otherwise(own)?;
                    Ok(either.alias(&column.own.name))
                }
                _ => Ok(own),
            }
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let own = join.schema.columns().into_iter().map(Expr::Column);
        joined.project(keys.into_iter().chain(own))?.build()
    }
}

/// The conditions of a join, its keys among them.
pub fn conditions_of(join: &Join) -> Result<Vec<Expr>> {
    let mut conditions = Vec::new();
    for (left, right) in join.on.iter().cloned() {
        match join.null_equality {
            NullEquality::NullEqualsNothing => conditions.push(left.eq(right)),
            NullEquality::NullEqualsNull => {
                let ty = left.get_type(join.left.schema())?;
                conditions.extend(same_or_null(left, right, &ty)?);
            }
        }
    }
    conditions.extend(join.filter.clone());
    Ok(conditions)
}

/// Whether LIMIT takes the first rows of an order.
fn is_sorted(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(projection) => is_sorted(&projection.input),
        LogicalPlan::SubqueryAlias(named) => is_sorted(&named.input),
        _ => false,
    }
}

/// An aggregate over the rows with [`INSIDE`].
fn of_rows_inside(part: Expr) -> Result<Transformed<Expr>> {
    let Expr::AggregateFunction(mut call) = part else { return Ok(Transformed::no(part)) };
    let inside = Expr::Column(Column::from_name(INSIDE)).is_not_null();
    call.params.filter = Some(Box::new(match call.params.filter.take() {
        None => inside,
        Some(filter) => inside.and(*filter),
    }));
    Ok(Transformed::yes(Expr::AggregateFunction(call)))
}

/// What is not turned into joins.
pub fn refused(what: &str) -> datafusion::common::DataFusionError {
    external(err!(NotSupported, "This version of Freshet doesn't yet support '{what}'"))
}
