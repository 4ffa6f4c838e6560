//! The first rows of parts that are put together.
//!
//! Of `SELECT 'a', x .. UNION ALL SELECT 'b', y .. ORDER BY 1, 2 LIMIT 3` DataFusion sorts each
//! part by its second column, since the first is the same in all its rows, and merges them by both.
//! But all parts share what they know of the rows that are wanted still: a part whose second column
//! is small would rule out rows of another whose first is. So parts of which some rows are wanted
//! are sorted by all that they are merged by.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

/// Makes the parts of a merge know its whole order.
#[derive(Debug)]
pub struct WholeOrders;

impl PhysicalOptimizerRule for WholeOrders {
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
