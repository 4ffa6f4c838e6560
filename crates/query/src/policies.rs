//! The rows of a table that row policies let somebody see (RFC 0028).
//!
//! They are a table of their own for the planner, and the policy is evaluated inside of its scan: a
//! condition of the statement is never evaluated over a hidden row, of which its errors, warnings
//! or time could tell. It does say which files and places need not be read.

use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Column, Constraints, ExprSchema, Result, internal_datafusion_err};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableType,
};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use freshet_base::bail;
use freshet_schema::ColumnType;
use futures::StreamExt;

use crate::aggregated;
use crate::error::mapped;
use crate::evaluation::Evaluation;
use crate::operator::operator_over;
use crate::origin::ColumnOrigin;
use crate::parser::{Statement, parse};
use crate::provider::{StoredTable, columns_read};
use crate::session::{Scope, SqlMode, Value, Variables};
use crate::snapshot::on_tables;
use crate::syntax::Select;

/// The query of the rows that satisfy a condition; its table has any name.
///
/// # Errors
/// When the text is no condition.
pub fn query(condition: &str) -> freshet_base::Result<Select> {
    let sql = format!("SELECT 1 FROM t WHERE {condition}");
    match parse(&sql, SqlMode::default())?.pop().map(|parsed| parsed.statement) {
        Some(Statement::Query(select)) => Ok(select),
        _ => bail!(Internal, "the text of a row policy is no condition: {condition}"),
    }
}

/// Variables as a policy sees them: a session could set them.
pub struct Unset;

impl Variables for Unset {
    fn system(&self, _scope: Scope, _name: &str) -> Option<Value> {
        None
    }

    fn user(&self, _name: &str) -> Value {
        Value::Null
    }
}

/// What the condition of a policy filters: the rows of a table, whoever may read which columns.
///
/// # Errors
/// When the table is not stored.
pub fn whole(table: &Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
    aggregated::as_seen(Arc::new(stored(table)?.unguarded()))
}

fn stored(table: &Arc<dyn TableProvider>) -> Result<&StoredTable> {
    table
        .downcast_ref::<StoredTable>()
        .ok_or_else(|| internal_datafusion_err!("only stored tables have row policies"))
}

/// The filter of the plan of [`query`].
///
/// # Errors
/// For a condition on a TIMESTAMP, which depends on the time zone of a session.
pub fn filter_of(plan: LogicalPlan) -> freshet_base::Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = plan else {
        bail!(Internal, "the plan of a row policy is another one: {}", plan.display());
    };
    let filter = Arc::unwrap_or_clone(projection.input);
    let LogicalPlan::Filter(inner) = &filter else {
        bail!(
            NotSupported,
            "The condition of a row policy is of single rows: neither aggregates nor window \
             functions"
        );
    };
    for column in inner.predicate.column_refs() {
        let field = inner.input.schema().field_from_column(column).map_err(mapped)?;
        let is_instant = |origin: ColumnOrigin| matches!(origin.ty, ColumnType::Timestamp { .. });
        if ColumnOrigin::decode(field).is_some_and(is_instant) {
            bail!(
                NotSupported,
                "The condition of a row policy reads column '{}', a TIMESTAMP, whose value depends \
                 on the time_zone of whoever reads it; use a DATETIME",
                column.name
            );
        }
    }
    Ok(filter)
}

/// The rows of a table that a plan of [`filter_of`] leaves.
#[derive(Debug)]
pub struct VisibleRows {
    /// The table as the statement may read it.
    table: Arc<dyn TableProvider>,
    plan: LogicalPlan,
    /// Whether rows are those that are stored.
    is_plain: bool,
    schema: SchemaRef,
}

impl VisibleRows {
    pub fn new(
        table: &Arc<dyn TableProvider>,
        whole: &Arc<dyn TableProvider>,
        plan: LogicalPlan,
    ) -> Self {
        let is_plain = whole.is::<StoredTable>();
        Self { table: Arc::clone(table), plan, is_plain, schema: whole.schema() }
    }

    /// The plan of these columns, where it scans what may satisfy `filters` too.
    fn projected(&self, columns: &[usize], filters: &[Expr]) -> Result<LogicalPlan> {
        let narrowed = |provider: &dyn TableProvider| {
            let Some(stored) = provider.downcast_ref::<StoredTable>() else { return Ok(None) };
            let table = stored.unguarded();
            let narrowed = Narrowed { table, filters: filters.to_vec() };
            Ok(Some(Arc::new(narrowed) as Arc<dyn TableProvider>))
        };
        let plan = match filters {
            [] => self.plan.clone(),
            _ => on_tables(self.plan.clone(), narrowed)?,
        };
        let column = |at: &usize| Expr::Column(Column::from(plan.schema().qualified_field(*at)));
        let exprs = columns.iter().map(column).collect::<Vec<_>>();
        LogicalPlanBuilder::from(plan).project(exprs)?.build()
    }
}

#[async_trait]
impl TableProvider for VisibleRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.table.constraints().filter(|_| self.is_plain)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let said = match self.is_plain {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(vec![said; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = columns_read(&self.schema, projection);
        stored(&self.table)?.check_rights(&projection)?;
        let evaluation = Evaluation::of(state.config_options()).apart();
        // A plan has a column; of none only the number of rows is asked.
        let columns = if projection.is_empty() { vec![0] } else { projection.clone() };
        let plan = self.projected(&columns, filters)?;
        let input = state_of(state, &evaluation)?.create_physical_plan(&plan).await?;
        let schema = Arc::new(self.schema.project(&projection)?);
        let table = stored(&self.table)?.qualified_name().into();
        Ok(Arc::new(VisibleRowsExec::new(input, table, schema, evaluation)))
    }
}

/// The state of a statement, in which functions find `evaluation`.
fn state_of(state: &dyn Session, evaluation: &Evaluation) -> Result<SessionState> {
    let state = state.as_any().downcast_ref::<SessionState>();
    let mut state =
        state.cloned().ok_or_else(|| internal_datafusion_err!("a statement has a state"))?;
    state.config_mut().options_mut().extensions.insert(evaluation.clone());
    let config = Arc::clone(state.config_options());
    state.execution_props_mut().mark_start_execution(config);
    Ok(state)
}

/// A table of which only what may satisfy some conditions needs to be scanned.
#[derive(Debug)]
struct Narrowed {
    table: StoredTable,
    filters: Vec<Expr>,
}

#[async_trait]
impl TableProvider for Narrowed {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        self.table.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filters = [filters, &self.filters].concat();
        self.table.scan(state, projection, &filters, None).await
    }
}

/// Hands on the rows of its input. DataFusion moves conditions and limits past operators that it
/// knows, and not past this one.
#[derive(Debug)]
pub struct VisibleRowsExec {
    input: Arc<dyn ExecutionPlan>,
    /// The name of the table with that of its database.
    table: Arc<str>,
    /// The first columns of the input.
    schema: SchemaRef,
    evaluation: Evaluation,
    properties: Arc<PlanProperties>,
}

impl VisibleRowsExec {
    fn new(
        input: Arc<dyn ExecutionPlan>,
        table: Arc<str>,
        schema: SchemaRef,
        evaluation: Evaluation,
    ) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { input, table, schema, evaluation, properties: Arc::new(properties) }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        let (table, schema) = (Arc::clone(&self.table), Arc::clone(&self.schema));
        Self::new(input, table, schema, self.evaluation.clone())
    }

    /// The table whose rows it shows, with its database, as `d.t`.
    pub fn table(&self) -> &str {
        &self.table
    }
}

impl DisplayAs for VisibleRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VisibleRowsExec: what row policies show of {}", self.table)
    }
}

impl ExecutionPlan for VisibleRowsExec {
    operator_over!("VisibleRowsExec", input);

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.evaluation.run();
        let schema = Arc::clone(&self.schema);
        let shown = move |batch: Result<RecordBatch>| {
            let batch = batch?;
            let columns = batch.columns()[..schema.fields().len()].to_vec();
            let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &rows)?)
        };
        let rows = self.input.execute(partition, context)?.map(shown);
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }
}
