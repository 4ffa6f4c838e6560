//! Limits the iterations of recursive CTEs to `cte_max_recursion_depth`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use freshet_base::err;

use crate::error::external;
use crate::evaluation::Evaluation;
use crate::operator::operator_over;

/// Wraps the recursive term of CTEs in a counter of iterations.
#[derive(Debug)]
pub struct LimitRecursion;

impl PhysicalOptimizerRule for LimitRecursion {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rounds_max = Evaluation::of(config).bounds().recursion_max;
        plan.transform_up(|plan| {
            let Some(recursive) = plan.downcast_ref::<RecursiveQueryExec>() else {
                return Ok(Transformed::no(plan));
            };
            let counted = Arc::new(CountedExec {
                term: Arc::clone(recursive.recursive_term()),
                rounds: Arc::default(),
                rounds_max,
            });
            let limited = RecursiveQueryExec::try_new(
                recursive.name().to_owned(),
                recursive.schema(),
                Arc::clone(recursive.static_term()),
                counted,
                recursive.is_distinct(),
            )?;
            Ok(Transformed::yes(Arc::new(limited) as _))
        })?
        .data
        .transform_up(listed_in_order)
        .data()
    }

    fn name(&self) -> &'static str {
        "limit_recursion"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// GROUP_CONCAT lists the rows of a recursive CTE in the order of its rounds, as in MySQL. So they
/// are not spread over threads before.
fn listed_in_order(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(Transformed::no(plan));
    };
    let mut calls = aggregate.aggr_expr().iter();
    if !calls.any(|call| call.fun().name() == "mysql_group_concat") {
        return Ok(Transformed::no(plan));
    }
    match not_spread(aggregate.input())? {
        Some(input) => over(plan, input).map(Transformed::yes),
        None => Ok(Transformed::no(plan)),
    }
}

/// The plan without the step that spreads the rows of a recursive CTE; `None` if it has none.
fn not_spread(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(spread) = plan.downcast_ref::<RepartitionExec>()
        && matches!(spread.partitioning(), Partitioning::RoundRobinBatch(_))
        && is_recursive(spread.input())
    {
        return Ok(Some(Arc::clone(spread.input())));
    }
    let [input] = plan.children()[..] else { return Ok(None) };
    match not_spread(input)? {
        Some(input) => over(Arc::clone(plan), input).map(Some),
        None => Ok(None),
    }
}

/// The plan over another input.
fn over(
    plan: Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.replace_children(vec![input], options)
}

fn is_recursive(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<RecursiveQueryExec>().is_some()
        || matches!(plan.children()[..], [input] if is_recursive(input))
}

/// The recursive term of a CTE with a counter.
#[derive(Debug)]
struct CountedExec {
    term: Arc<dyn ExecutionPlan>,
    rounds: Arc<AtomicU64>,
    rounds_max: u64,
}

impl CountedExec {
    /// Each iteration executes a copy of the plan, so the counter is shared.
    fn over(&self, term: Arc<dyn ExecutionPlan>) -> Self {
        Self { term, rounds: Arc::clone(&self.rounds), rounds_max: self.rounds_max }
    }
}

impl DisplayAs for CountedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CountedExec: at most {} rounds", self.rounds_max)
    }
}

impl ExecutionPlan for CountedExec {
    operator_over!("CountedExec", term);

    fn properties(&self) -> &Arc<PlanProperties> {
        self.term.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed) + 1;
        if round > self.rounds_max {
            return Err(external(err!(
                RecursionDepth,
                "Recursive query aborted after {round} iterations. Try increasing \
                 @@cte_max_recursion_depth to a larger value."
            )));
        }
        self.term.execute(partition, context)
    }
}
