//! Joins that let other work go on.
//!
//! A join may make a million batches of one that it read, and DataFusion counts only batches that
//! are read: whoever gathers what such a join makes would hold its thread to the end, where
//! neither KILL nor a limit of time could reach it, nor any other statement the thread.

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

/// Puts a place to yield behind each join.
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
