//! How large conditions become on their way down a plan.
//!
//! Below a projection a condition has the expressions of columns in place of their names. Where
//! each of nested views or derived tables computes `a + a`, it doubles at each of them. So a
//! condition stays above a projection below which it would be much larger.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Projection};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::named_twice::{guarded, unguarded};

/// The parts by which conditions may grow below one projection, and those of a column in terms of
/// what all projections below are computed from.
const GROWTH_MAX: usize = 1000;

/// Whether the condition of a filter over a projection becomes much larger below that.
///
/// # Errors
/// None that are known: expressions are only counted.
pub fn grows(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let LogicalPlan::Filter(Filter { predicate, input, .. }) = plan else { return Ok(false) };
    let LogicalPlan::Projection(projection) = &**input else { return Ok(false) };
    let mut growth = 0_usize;
    predicate.apply(|node| {
        if let Expr::Column(column) = node
            && let Some(at) = projection.schema.maybe_index_of_column(column)
        {
            growth = growth.saturating_add(parts(projection, at)? - 1);
        }
        Ok(match growth > GROWTH_MAX {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(growth > GROWTH_MAX)
}

/// The parts of a column of a projection.
fn parts(projection: &Projection, at: usize) -> Result<usize, DataFusionError> {
    let mut expr = &projection.expr[at];
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    let mut count = 0;
    expr.apply(|_| {
        count += 1;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(count)
}

/// A physical pass that moves conditions down, which is left out where they would grow too much,
/// and which does not mistake columns of one name.
#[derive(Debug)]
pub struct Bounded(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for Bounded {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match widest(&*plan)? > GROWTH_MAX {
            true => Ok(plan),
            false => unguarded(self.0.optimize(guarded(plan)?, config)?),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// The parts of the largest column of a plan, in terms of what all projections below are computed
/// from; at least one.
fn widest(plan: &dyn ExecutionPlan) -> Result<usize> {
    let mut below = 1;
    for child in plan.children() {
        below = below.max(widest(&**child)?);
    }
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(below) };
    let mut widest = 1;
    for column in projection.expr() {
        widest = widest.max(parts_over(&column.expr, below)?);
    }
    Ok(widest)
}

/// The parts of an expression whose columns have so many.
fn parts_over(expr: &Arc<dyn PhysicalExpr>, column: usize) -> Result<usize> {
    let mut count = 0_usize;
    expr.apply(|node| {
        let own = if node.downcast_ref::<Column>().is_some() { column } else { 1 };
        count = count.saturating_add(own);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};

    use super::*;

    /// A filter over a projection whose column doubles that of its input so often.
    fn filter(doublings: usize) -> LogicalPlan {
        let values = LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap();
        let sum = (0..doublings).fold(col("column1"), |sum, _| sum.clone() + sum);
        let projected = values.project(vec![sum.alias("a")]).unwrap();
        projected.filter(col("a").gt(lit(0_i64))).unwrap().build().unwrap()
    }

    #[test]
    fn a_filter_goes_below_what_is_small() {
        assert!(!grows(&filter(0)).unwrap());
        assert!(!grows(&filter(8)).unwrap());
        assert!(grows(&filter(10)).unwrap());
    }
}
