//! Rows that stand at two places of a plan and are computed once, because they may differ each
//! time: those that a LIMIT or RAND() chooses, and sums of floating point numbers.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DFSchemaRef, DataFusionError, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream,
};
use datafusion::physical_planner::{
    DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner as PlansExpressions,
};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use crate::by_row::PlansByRow;
use crate::evaluation::{self, Evaluation};
use crate::operator::operator_over;

/// The rows of its input, the same wherever a node of this name stands in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    name: String,
    input: LogicalPlan,
}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.name.partial_cmp(&other.name)
    }
}

impl Kept {
    /// A node for these rows, of a name that no other rows of the statement have.
    pub fn plan(name: String, input: LogicalPlan) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(Self { name, input }) })
    }

    /// The node, if a plan is one.
    pub fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The node with what a change makes of its rows.
    ///
    /// # Errors
    /// Those of the change.
    pub fn changed(
        &self,
        by: usize,
        change: impl FnOnce(&LogicalPlan) -> Result<LogicalPlan>,
    ) -> Result<LogicalPlan> {
        Ok(Self::plan(format!("{}.{by}", self.name), change(&self.input)?))
    }
}

impl UserDefinedLogicalNodeCore for Kept {
    fn name(&self) -> &'static str {
        "Kept"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept: {}", self.name)
    }

    fn with_exprs_and_inputs(
        &self,
        _exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        Ok(Self { name: self.name.clone(), input: inputs.swap_remove(0) })
    }
}

/// DataFusion's planner, and those of [`Kept`] and of select lists that assign variables.
#[derive(Debug)]
pub struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
            Arc::new(PlansKept),
            Arc::new(PlansByRow),
        ]);
        planner.create_physical_plan(logical_plan, session).await
    }
}

struct PlansKept;

#[async_trait]
impl ExtensionPlanner for PlansKept {
    async fn plan_extension(
        &self,
        _planner: &dyn PlansExpressions,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _planning_ctx: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<Kept>() else { return Ok(None) };
        let evaluation = Evaluation::of(session.config_options());
        let input = Arc::clone(&physical_inputs[0]);
        Ok(Some(Arc::new(KeptExec::new(node.name.clone(), input, evaluation))))
    }
}

#[derive(Debug)]
struct KeptExec {
    name: String,
    input: Arc<dyn ExecutionPlan>,
    evaluation: Evaluation,
    properties: Arc<PlanProperties>,
}

impl KeptExec {
    fn new(name: String, input: Arc<dyn ExecutionPlan>, evaluation: Evaluation) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { name, input, evaluation, properties: Arc::new(properties) }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(self.name.clone(), input, self.evaluation.clone())
    }
}

impl DisplayAs for KeptExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeptExec: {}", self.name)
    }
}

impl ExecutionPlan for KeptExec {
    operator_over!("KeptExec", input);

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn execute(
        &self,
        _partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = Arc::clone(&self.input);
        let compute = || {
            let computed = async move { computed(input, context).await.map_err(Arc::new) };
            computed.boxed().shared()
        };
        let rows = self.evaluation.kept(&self.name, compute);
        let rows = async move { rows.await.map_err(DataFusionError::Shared) };
        let batches = stream::once(rows).map_ok(|rows| {
            let count = rows.batches.len();
            stream::iter((0..count).map(move |at| Ok(rows.batches[at].clone())))
        });
        let batches = batches.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

async fn computed(
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> Result<Arc<evaluation::Kept>> {
    let memory = MemoryConsumer::new("rows of subqueries").register(context.memory_pool());
    let mut stream = execute_stream(input, context)?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        memory.try_grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    Ok(Arc::new(evaluation::Kept { batches, memory }))
}
