//! Joins with a JSON_TABLE that refers to the tables before it: instead of a join, the rows of
//! these tables are unnested.
//!
//! The planner makes of it a join with a subquery that has outer references. DataFusion turns such
//! subqueries into joins where the references stand in conditions; here they are what is unnested,
//! and the subquery has no table of its own. So its projections are put on top of the other side.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, NullHandling, Result, ScalarValue, TableReference};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder};

use crate::dependent::push::conditions_of;
use crate::dependent::references::free;

/// Replaces the inner joins of a plan with JSON_TABLE, and the left ones ON TRUE. The others, and
/// JSON_TABLE of a column of a query further out, become joins like other correlated subqueries.
pub fn unnested(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up_with_subqueries(|node| {
        let node = match node {
            LogicalPlan::Join(join) => match Side::of(&join)? {
                Some(side) => {
                    changed = true;
                    side.on_top_of(&join)?
                }
                None if changed => LogicalPlan::Join(join).recompute_schema()?,
                None => return Ok(Transformed::no(LogicalPlan::Join(join))),
            },
            node if changed => node.recompute_schema()?,
            node => return Ok(Transformed::no(node)),
        };
        Ok(Transformed::yes(node))
    })?;
    Ok(plan.data)
}

/// The subquery of a JSON_TABLE.
struct Side {
    subquery: Arc<LogicalPlan>,
    alias: Option<TableReference>,
}

impl Side {
    fn of(join: &Join) -> Result<Option<Self>> {
        let (plan, alias) = match &*join.right {
            LogicalPlan::SubqueryAlias(named) => (&*named.input, Some(named.alias.clone())),
            plan => (plan, None),
        };
        let LogicalPlan::Subquery(subquery) = plan else { return Ok(None) };
        let subquery = Arc::clone(&subquery.subquery);
        let left = join.left.schema();
        let fits = match join.join_type {
            JoinType::Inner => true,
            JoinType::Left => condition_of(join)?.is_none(),
            _ => false,
        };
        let is_own = free(&subquery)?.iter().all(|(_, column)| left.has_column(column));
        Ok((fits && is_own && is_json_table(&subquery)).then_some(Self { subquery, alias }))
    }

    /// The join with this on its right side, without a join.
    fn on_top_of(self, join: &Join) -> Result<LogicalPlan> {
        let left = join.left.schema().columns();
        let keeps_all = join.join_type == JoinType::Left;
        let plan = put(&self.subquery, &join.left, &left, keeps_all)?;
        let made = self.subquery.schema().columns().into_iter().map(|column| {
            let name = column.name.clone();
            Expr::Column(column).alias_qualified(self.alias.clone(), name)
        });
        let all = left.into_iter().map(Expr::Column).chain(made).collect::<Vec<_>>();
        let plan = LogicalPlanBuilder::from(plan).project(all)?;
        match condition_of(join)? {
            Some(condition) => plan.filter(condition)?.build(),
            None => plan.build(),
        }
    }
}

/// The condition of a join, if it is not TRUE.
fn condition_of(join: &Join) -> Result<Option<Expr>> {
    let conditions = conditions_of(join)?.into_iter();
    Ok(conjunction(conditions.filter(|condition| !is_true(condition))))
}

fn is_true(condition: &Expr) -> bool {
    match condition {
        Expr::Literal(ScalarValue::Boolean(Some(value)), _) => *value,
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => *value != 0,
        Expr::ScalarFunction(call) if call.func.name() == "mysql_truth" => {
            call.args.iter().all(is_true)
        }
        _ => false,
    }
}

/// Whether it is a chain of projections and unnestings of nothing.
fn is_json_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_json_table(&projection.input),
        LogicalPlan::Unnest(unnest) => is_json_table(&unnest.input),
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}

/// The nodes of the subquery on top of `below`, whose columns `kept` go through all of them.
fn put(
    plan: &LogicalPlan,
    below: &Arc<LogicalPlan>,
    kept: &[Column],
    keeps_all: bool,
) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let input = put(&projection.input, below, kept, keeps_all)?;
            let made = projection.expr.iter().cloned().map(inner);
            let kept = kept.iter().cloned().map(|column| Ok(Expr::Column(column)));
            let all = kept.chain(made).collect::<Result<Vec<_>>>()?;
            LogicalPlanBuilder::from(input).project(all)?.build()
        }
        LogicalPlan::Unnest(unnest) => {
            let input = put(&unnest.input, below, kept, keeps_all)?;
            let nulls = match keeps_all {
                true => NullHandling::PreserveAndExpandEmpty,
                false => NullHandling::Drop,
            };
            let options = unnest.options.clone().with_null_handling(nulls);
            LogicalPlanBuilder::from(input)
                .unnest_columns_with_options(unnest.exec_columns.clone(), options)?
                .build()
        }
        _ => Ok(LogicalPlan::clone(below)),
    }
}

/// An expression whose outer references have become columns.
fn inner(expr: Expr) -> Result<Expr> {
    // The name is that of the expression with its references, which the nodes above it know.
    let name = expr.schema_name().to_string();
    let changed = expr.transform_up(|part| match part {
        Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
        part => Ok(Transformed::no(part)),
    })?;
    Ok(if changed.transformed { changed.data.alias(name) } else { changed.data })
}
