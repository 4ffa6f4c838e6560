//! The rows of a body, as the only table of a load that computes.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};

use crate::operator::leaf_operator;

/// The batch that one execution of the plan reads, in its task's context.
pub struct BodyRows(pub RecordBatch);

/// The table at planning time.
#[derive(Debug)]
pub struct BodyTable {
    pub schema: SchemaRef,
}

#[async_trait]
impl TableProvider for BodyTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = projection.cloned();
        let schema = match &projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(BodyExec { schema, projection, properties: Arc::new(properties) }))
    }
}

/// Reads the batch in the context of its task.
#[derive(Debug)]
struct BodyExec {
    schema: SchemaRef,
    projection: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for BodyExec {
    fn fmt_as(&self, _style: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyExec")
    }
}

impl ExecutionPlan for BodyExec {
    leaf_operator!("BodyExec");

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn execute(
        &self,
        _partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = context.session_config().get_extension::<BodyRows>();
        let rows =
            rows.ok_or_else(|| internal_datafusion_err!("a load is run without its rows"))?;
        let (schema, projection) = (Arc::clone(&self.schema), self.projection.clone());
        let stream = MemoryStream::try_new(vec![rows.0.clone()], schema, projection)?;
        Ok(Box::pin(stream))
    }
}
