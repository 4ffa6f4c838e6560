//! Sorts rows again where a pass of DataFusion forgot that they are in order.
//!
//! For `SELECT a.c FROM (SELECT 1 AS c) a LEFT JOIN t ON 1 JOIN u ON t.x = u.y ORDER BY 1` no sort
//! is planned, since all rows have one value in the column. A later pass lets the join give out
//! that column alone, and what the join then says of its rows does not tell any more that it is
//! constant: DataFusion's last check refuses the plan (datafusion-physical-optimizer 55).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// Sorts the inputs of operators that want an order, where they are not known to have it.
#[derive(Debug)]
pub struct SortAgain;

impl PhysicalOptimizerRule for SortAgain {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let (wanted, mut is_sorted) = (plan.required_input_ordering(), false);
            if wanted.iter().all(Option::is_none) {
                return Ok(Transformed::no(plan));
            }
            let mut inputs = Vec::with_capacity(wanted.len());
            for (input, wanted) in plan.children().into_iter().zip(wanted) {
                let mut input = Arc::clone(input);
                if let Some(wanted) = wanted.map(|wanted| wanted.into_single()) {
                    let known = input.equivalence_properties();
                    if !known.ordering_satisfy_requirement(wanted.clone())? {
                        let sort = SortExec::new(LexOrdering::from(wanted), input);
                        input = Arc::new(sort.with_preserve_partitioning(true));
                        is_sorted = true;
                    }
                }
                inputs.push(input);
            }
            if !is_sorted {
                return Ok(Transformed::no(plan));
            }
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            plan.replace_children(inputs, options).map(Transformed::yes)
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "sort_again"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
