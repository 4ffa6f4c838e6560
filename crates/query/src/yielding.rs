//! Makes joins yield their thread.
//!
//! A join may produce a million batches from one input batch, and DataFusion's cooperative
//! scheduling only counts input batches. An operator that collects the output of such a join would
//! occupy its thread to the end, so that neither KILL nor a timeout could stop it and no other
//! statement could use the thread.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};

/// Inserts a yield point after each join.
#[derive(Debug)]
pub struct YieldBehindJoins;

impl PhysicalOptimizerRule for YieldBehindJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            Ok(match is_join(&*plan) {
                true => Transformed::yes(Arc::new(CooperativeExec::new(plan))),
                false => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "yield_behind_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_join(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<CrossJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<SortMergeJoinExec>()
}
