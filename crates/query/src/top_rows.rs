//! Sorts the inputs of a merge with a limit by all its keys.
//!
//! For `SELECT 'a', x .. UNION ALL SELECT 'b', y .. ORDER BY 1, 2 LIMIT 3` DataFusion sorts each
//! branch by its second column only, since the first is constant in it, and merges them by both.
//! But all branches share one dynamic filter: a branch with small values in the second column would
//! exclude rows of another one with a smaller first column. So branches with a limit are sorted by
//! all keys of the merge.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

/// Replaces the sort order of a merge's inputs by the full order.
#[derive(Debug)]
pub struct FullMergeOrder;

impl PhysicalOptimizerRule for FullMergeOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() else {
                return Ok(Transformed::no(plan));
            };
            let Some(parts) = merge.input().downcast_ref::<SortExec>() else {
                return Ok(Transformed::no(plan));
            };
            if parts.fetch().is_none() || parts.expr() == merge.expr() {
                return Ok(Transformed::no(plan));
            }
            let whole = SortExec::new(merge.expr().clone(), Arc::clone(parts.input()))
                .with_fetch(parts.fetch())
                .with_preserve_partitioning(parts.preserve_partitioning());
            let merge = SortPreservingMergeExec::new(merge.expr().clone(), Arc::new(whole))
                .with_fetch(merge.fetch());
            Ok(Transformed::yes(Arc::new(merge)))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "whole_orders"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
