//! Makes scans and joins yield their thread.
//!
//! A join may produce a million batches from one input batch, and DataFusion's cooperative
//! scheduling only counts input batches. An operator that collects the output of such a join would
//! occupy its thread to the end, so that neither KILL nor a timeout could stop it and no other
//! statement could use the thread. Where workload groups share the threads, a task also yields when
//! its turn is over.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};

use crate::operator::operator_over;
use crate::threads;

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
                true => Transformed::yes(Arc::new(YieldExec { join: plan })),
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

/// Hands on the rows of a join.
#[derive(Debug)]
struct YieldExec {
    join: Arc<dyn ExecutionPlan>,
}

impl YieldExec {
    fn over(&self, join: Arc<dyn ExecutionPlan>) -> Self {
        Self { join }
    }
}

impl DisplayAs for YieldExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YieldExec")
    }
}

impl ExecutionPlan for YieldExec {
    operator_over!("YieldExec", join);

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.join.execute(partition, context)?;
        Ok(yielding(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// A stream that yields after some batches, and when the turn of its task is over.
pub fn yielding(
    stream: impl RecordBatchStream + Unpin + Send + 'static,
) -> SendableRecordBatchStream {
    Box::pin(Yielding(cooperative(stream)))
}

struct Yielding<S>(S);

impl<S: Stream + Unpin> Stream for Yielding<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if threads::is_over() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.0.poll_next_unpin(context)
    }
}

impl<S: RecordBatchStream + Unpin> RecordBatchStream for Yielding<S> {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}
