//! Repairs join keys without columns.
//!
//! DataFusion uses equalities between both sides of a join as its keys and simplifies them later,
//! when one side of a key may become a constant. The rule that reorders inner joins finds no table
//! for such a key and drops it, and thus a condition. So before that rule it becomes a condition
//! again.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Moves join keys without columns to the join's filter.
#[derive(Debug)]
pub struct RepairJoinKeys;

impl OptimizerRule for RepairJoinKeys {
    fn name(&self) -> &'static str {
        "keys_of_columns"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        let is_key =
            |(left, right): &(Expr, Expr)| left.any_column_refs() && right.any_column_refs();
        if join.join_type != JoinType::Inner || join.on.iter().all(is_key) {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let (keys, others) = join.on.into_iter().partition::<Vec<_>, _>(is_key);
        let equal = match join.null_equality {
            NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
            NullEquality::NullEqualsNothing => Operator::Eq,
        };
        let others = others.into_iter().map(|(left, right)| binary_expr(left, equal, right));
        join.on = keys;
        join.filter = conjunction(join.filter.into_iter().chain(others));
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    }
}
