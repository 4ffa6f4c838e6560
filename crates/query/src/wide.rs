//! Evaluates expressions with large results on fewer rows at a time, to limit memory.
//!
//! DataFusion evaluates an expression on a whole batch, whatever the size of its result. So
//! projections are split into pieces that fit ([`BatchTooLarge`]) and return each piece before
//! computing the next; filters and joins, whose results are small, evaluate their conditions piece
//! by piece; and the arguments of an aggregate move to a projection below it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, PhysicalGroupBy};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, RecordBatchStream,
};
use futures::{Stream, StreamExt};

use crate::convert::{is_binary, is_text};
use crate::error::BatchTooLarge;
use crate::evaluation::BATCH_BYTES_MAX;
use crate::scan::BATCH_ROWS;
use crate::yielding::yielding;

/// Bytes of a value without long text.
const VALUE_BYTES: usize = 16;

/// Splits the evaluation of expressions with large results.
#[derive(Debug)]
pub struct SplitLargeResults;

impl PhysicalOptimizerRule for SplitLargeResults {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(sliced).data()
    }

    fn name(&self) -> &'static str {
        "slice_wide"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn sliced(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let computes = projection.expr().iter().any(|item| !item.expr.is::<Column>());
        return Ok(match computes {
            true => Transformed::yes(SlicedProjectionExec::over(projection.clone())),
            false => Transformed::no(plan),
        });
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>()
        && ResultSizeEstimate::of([filter.predicate()]).is_wide()
    {
        let predicate = Arc::new(Piecewise::new(Arc::clone(filter.predicate())));
        let filter = FilterExecBuilder::from(filter).with_predicate(predicate).build()?;
        return Ok(Transformed::yes(Arc::new(filter)));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter().and_then(piecewise)
    {
        return Ok(Transformed::yes(join.builder().with_filter(Some(filter)).build_exec()?));
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter().and_then(piecewise)
    {
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter)).build()?;
        return Ok(Transformed::yes(Arc::new(join)));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
        && let Some(lifted) = lifted(aggregate)?
    {
        return Ok(Transformed::yes(lifted));
    }
    Ok(Transformed::no(plan))
}

/// A join condition that is evaluated piece by piece; `None` if it computes nothing large.
fn piecewise(filter: &JoinFilter) -> Option<JoinFilter> {
    let expr = filter.expression();
    let columns = filter.column_indices().to_vec();
    ResultSizeEstimate::of([expr]).is_wide().then(|| {
        let expr = Arc::new(Piecewise::new(Arc::clone(expr)));
        JoinFilter::new(expr, columns, Arc::clone(filter.schema()))
    })
}

/// The properties of expressions that determine the size of their results.
#[derive(Default)]
struct ResultSizeEstimate {
    expressions: usize,
    makes_text: bool,
    literal_bytes: usize,
}

impl ResultSizeEstimate {
    fn of<'e>(exprs: impl IntoIterator<Item = &'e Arc<dyn PhysicalExpr>>) -> Self {
        let mut shape = Self::default();
        for expr in exprs {
            shape.expressions += 1;
            let looked = expr.apply(|expr| {
                if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
                    let ty = call.return_type();
                    shape.makes_text |= is_text(ty) || is_binary(ty);
                } else if let Some(literal) = expr.downcast_ref::<Literal>() {
                    shape.literal_bytes += text_bytes(literal.value());
                }
                Ok(TreeNodeRecursion::Continue)
            });
            looked.expect("nothing that looks at an expression fails");
        }
        shape
    }

    fn is_wide(&self) -> bool {
        self.makes_text || self.literal_bytes > BATCH_BYTES_MAX / BATCH_ROWS
    }

    /// The number of rows whose results fit, as far as that can be estimated.
    fn rows_max(&self) -> usize {
        let bytes = self.expressions * VALUE_BYTES / 4 + self.literal_bytes;
        (BATCH_BYTES_MAX / bytes.max(1)).clamp(1, BATCH_ROWS)
    }
}

/// The bytes of a literal in each row; 0 if it is short.
fn text_bytes(value: &ScalarValue) -> usize {
    let bytes = match value {
        ScalarValue::Binary(Some(bytes)) | ScalarValue::LargeBinary(Some(bytes)) => bytes.len(),
        other => other.try_as_str().flatten().map_or(0, str::len),
    };
    if bytes <= 4 * VALUE_BYTES { 0 } else { bytes }
}

/// A projection that returns as many rows at a time as fit.
#[derive(Debug)]
struct SlicedProjectionExec {
    projection: ProjectionExec,
    rows_max: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl SlicedProjectionExec {
    fn over(projection: ProjectionExec) -> Arc<dyn ExecutionPlan> {
        let rows_max =
            ResultSizeEstimate::of(projection.expr().iter().map(|item| &item.expr)).rows_max();
        Arc::new(Self { projection, rows_max, metrics: ExecutionPlanMetricsSet::new() })
    }
}

impl DisplayAs for SlicedProjectionExec {
    fn fmt_as(&self, how: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.projection.fmt_as(how, f)
    }
}

impl ExecutionPlan for SlicedProjectionExec {
    fn name(&self) -> &'static str {
        "ProjectionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.projection.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.projection.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.projection.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = Arc::new(self.projection.clone()).replace_children(children, options)?;
        let projection = replaced.downcast_ref::<ProjectionExec>();
        Ok(Self::over(projection.expect("a projection stays one").clone()))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(
            datafusion::physical_plan::execution_plan::ChildrenPropertiesMode::Recompute,
        );
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let exprs = self.projection.expr().iter().map(|item| Arc::clone(&item.expr));
        Ok(yielding(Slices {
            input: self.projection.input().execute(partition, context)?,
            exprs: exprs.collect(),
            schema: self.projection.schema(),
            rows_max: self.rows_max,
            rows_now: self.rows_max,
            left: None,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Computes the pieces of one partition.
struct Slices {
    input: SendableRecordBatchStream,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    rows_max: usize,
    /// The number of rows of the last piece.
    rows_now: usize,
    /// Remaining rows of the current batch.
    left: Option<RecordBatch>,
    metrics: BaselineMetrics,
}

impl Slices {
    /// Computes the next piece of a batch and keeps the remaining rows.
    fn piece(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let mut rows = batch.num_rows().min(self.rows_now);
        loop {
            let made = self.evaluated(&batch.slice(0, rows));
            if rows > 1 && made.as_ref().is_err_and(BatchTooLarge::is) {
                rows /= 2;
                self.rows_now = rows;
                continue;
            }
            if rows < batch.num_rows() {
                self.left = Some(batch.slice(rows, batch.num_rows() - rows));
            }
            return made;
        }
    }

    fn evaluated(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let count = rows.num_rows();
        let columns = self.exprs.iter().map(|expr| match expr.evaluate(rows)? {
            ColumnarValue::Scalar(value)
                if count > 1 && text_bytes(&value).saturating_mul(count) > BATCH_BYTES_MAX =>
            {
                Err(BatchTooLarge::error(BATCH_BYTES_MAX))
            }
            value => value.into_array(count),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

impl Stream for Slices {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = match self.left.take() {
            Some(batch) => batch,
            None => {
                // The rows of the next batch may be smaller.
                self.rows_now = self.rows_max.min(self.rows_now.saturating_mul(4));
                match ready!(self.input.poll_next_unpin(cx)) {
                    Some(Ok(batch)) => batch,
                    ended => return Poll::Ready(ended),
                }
            }
        };
        let metrics = self.metrics.clone();
        let timer = metrics.elapsed_compute().timer();
        let piece = self.piece(batch);
        timer.done();
        metrics.record_poll(Poll::Ready(Some(piece)))
    }
}

impl RecordBatchStream for Slices {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// An expression with a small result, evaluated on as few rows at a time as necessary.
#[derive(Debug)]
struct Piecewise {
    inner: Arc<dyn PhysicalExpr>,
    rows_max: usize,
}

impl Piecewise {
    fn new(inner: Arc<dyn PhysicalExpr>) -> Self {
        let rows_max = ResultSizeEstimate::of([&inner]).rows_max();
        Self { inner, rows_max }
    }

    fn pieces(&self, batch: &RecordBatch, into: &mut Vec<ArrayRef>) -> Result<()> {
        let rows = batch.num_rows();
        let made = match rows > self.rows_max {
            true => Err(BatchTooLarge::error(BATCH_BYTES_MAX)),
            false => self.inner.evaluate(batch).and_then(|value| value.into_array(rows)),
        };
        match made {
            Err(error) if rows > 1 && BatchTooLarge::is(&error) => {
                let half = rows / 2;
                self.pieces(&batch.slice(0, half), into)?;
                self.pieces(&batch.slice(half, rows - half), into)
            }
            made => {
                into.push(made?);
                Ok(())
            }
        }
    }
}

impl PartialEq for Piecewise {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Piecewise {}

impl Hash for Piecewise {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for Piecewise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for Piecewise {
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let mut pieces = Vec::new();
        self.pieces(batch, &mut pieces)?;
        Ok(ColumnarValue::Array(match pieces.len() {
            1 => pieces.remove(0),
            _ => concat(&pieces.iter().map(AsRef::as_ref).collect::<Vec<_>>())?,
        }))
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self::new(children.remove(0))))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

/// Expressions that move to a projection below.
#[derive(Default)]
struct LoweredExpressions {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
}

impl LoweredExpressions {
    fn name(at: usize) -> String {
        format!("below#{at}")
    }

    fn column(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        if expr.is::<Literal>() {
            return Arc::clone(expr);
        }
        let at = self.exprs.iter().position(|known| known == expr).unwrap_or_else(|| {
            self.exprs.push(Arc::clone(expr));
            self.exprs.len() - 1
        });
        Arc::new(Column::new(&Self::name(at), at))
    }

    fn over(self, input: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let items = self.exprs.into_iter().enumerate();
        let items = items.map(|(at, expr)| ProjectionExpr::new(expr, Self::name(at)));
        let projection = ProjectionExec::try_new(items, Arc::clone(input))?;
        Ok(SlicedProjectionExec::over(projection))
    }
}

/// The aggregate on top of a projection that evaluates its large arguments; `None` if there are
/// none.
fn lifted(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let groups = aggregate.group_expr();
    let functions = aggregate.aggr_expr();
    let arguments = functions.iter().flat_map(|function| function.all_expressions().args);
    let arguments = arguments.collect::<Vec<_>>();
    let evaluated = groups.expr().iter().map(|(expr, _)| expr).chain(&arguments);
    let raw = aggregate.mode().input_mode() == AggregateInputMode::Raw;
    if !raw || !ResultSizeEstimate::of(evaluated).makes_text {
        return Ok(None);
    }
    let mut below = LoweredExpressions::default();
    let keys = groups.expr().iter().map(|(expr, name)| (below.column(expr), name.clone()));
    let keys = keys.collect();
    let each = |function: &Arc<AggregateFunctionExpr>| {
        let arguments = function.expressions().iter().map(|arg| below.column(arg)).collect();
        let orders = function.order_bys().iter().map(|order: &PhysicalSortExpr| PhysicalSortExpr {
            expr: below.column(&order.expr),
            options: order.options,
        });
        (arguments, orders.collect::<Vec<_>>())
    };
    let rewritten = functions.iter().map(each).collect::<Vec<(Vec<_>, Vec<_>)>>();
    let filters = aggregate.filter_expr().iter();
    let filters = filters.map(|filter| filter.as_ref().map(|expr| below.column(expr))).collect();
    let input = below.over(aggregate.input())?;
    let schema = input.schema();
    let functions = functions.iter().zip(rewritten).map(|(function, (arguments, orders))| {
        let builder = AggregateExprBuilder::new(Arc::new(function.fun().clone()), arguments);
        let built = builder
            .schema(Arc::clone(&schema))
            .alias(function.name())
            .order_by(orders)
            .with_distinct(function.is_distinct())
            .with_ignore_nulls(function.ignore_nulls())
            .with_reversed(function.is_reversed())
            .build()?;
        Ok(Arc::new(built))
    });
    let functions = functions.collect::<Result<Vec<_>>>()?;
    let groups = PhysicalGroupBy::new(
        keys,
        groups.null_expr().to_vec(),
        groups.groups().to_vec(),
        groups.has_grouping_set(),
    );
    let mode = *aggregate.mode();
    let made = AggregateExec::try_new(mode, groups, functions, filters, input, schema)?;
    Ok(Some(Arc::new(made.with_limit_options(aggregate.limit_options()))))
}
