//! Queries whose items assign user variables: they are computed row by row, from left to right, in
//! the order of the query, as programs for older versions of MySQL expect, which had no window
//! functions.
//!
//! A select list that has them becomes an operator of its own, over the rows in their order, of
//! which LIMIT leaves some out.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::exprlist_to_fields;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, Limit, LogicalPlan, Sort, UserDefinedLogicalNode,
    UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, OrderingRequirements, Partitioning, PhysicalExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use freshet_base::err;
use futures::{TryStreamExt, stream};

use crate::assign;
use crate::error::{external, mapped};
use crate::evaluation::BATCH_BYTES_MAX;
use crate::functions::user_variables::{is_call, set_by, variable};
use crate::operator::operator_over;
use crate::session::{Session as QuerySession, Value};
use crate::syntax::Select;

/// The memory of an array of one value, but for the value.
const VALUE_BYTES: usize = 256;

/// Memory is asked for in steps of this.
const RESERVED_AHEAD: usize = 256 << 10;

/// A select list that is computed row by row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ByRow {
    items: Vec<Expr>,
    input: LogicalPlan,
    schema: DFSchemaRef,
}

impl PartialOrd for ByRow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.items.partial_cmp(&other.items)
    }
}

impl ByRow {
    fn new(items: Vec<Expr>, input: LogicalPlan) -> Result<Self> {
        let fields = exprlist_to_fields(&items, &input)?;
        let metadata = input.schema().metadata().clone();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, metadata)?);
        Ok(Self { items, input, schema })
    }

    fn plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The expression over the input that an expression over the items stands for; `None` where it
    /// reads one that is a variable.
    fn below(&self, expr: &Expr) -> Result<Option<Expr>> {
        let mut is_plain = true;
        let below = expr.clone().transform_up(|part| match &part {
            Expr::Column(column) => {
                let item = &self.items[self.schema.index_of_column(column)?];
                is_plain &= !has_variable(item)?;
                Ok(Transformed::yes(item.clone().unalias()))
            }
            _ => Ok(Transformed::no(part)),
        })?;
        Ok(is_plain.then_some(below.data))
    }
}

fn has_variable(expr: &Expr) -> Result<bool> {
    expr.exists(|part| Ok(is_call(part)))
}

impl UserDefinedLogicalNodeCore for ByRow {
    fn name(&self) -> &'static str {
        "ByRow"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.items.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByRow")
    }

    fn with_exprs_and_inputs(
        &self,
        exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        Self::new(exprs, inputs.swap_remove(0))
    }
}

/// The plan, in which select lists that assign or read variables are computed row by row: behind
/// ORDER BY, unless that is by a variable, and behind LIMIT.
///
/// # Errors
/// 1235 for a variable in a condition, a key or an aggregate, and where which of several select
/// lists is computed first is not certain.
pub fn placed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let placed = plan.transform_up_with_subqueries(|node| {
        check(&node)?;
        computed_by_row(node)
    })?;
    Ok(placed.data)
}

fn computed_by_row(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Projection(projection) => {
            let mut found = false;
            for item in &projection.expr {
                found |= has_variable(item)?;
            }
            if !found {
                return Ok(Transformed::no(LogicalPlan::Projection(projection)));
            }
            let input = Arc::unwrap_or_clone(projection.input);
            let mut used = BTreeSet::new();
            for item in &projection.expr {
                item.apply(|part| {
                    used.extend(variable(part).map(str::to_owned));
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            if is_interleaved(&input, &used)? {
                return Err(external(err!(
                    NotSupported,
                    "This version of Freshet doesn't yet support ':=' in a derived table to a \
                     variable that the query around it uses, too; use another one there"
                )));
            }
            Ok(Transformed::yes(ByRow::new(projection.expr, input)?.plan()))
        }
        LogicalPlan::Sort(sort) => behind_sort(sort),
        LogicalPlan::Limit(limit) => behind_limit(limit),
        other => Ok(Transformed::no(other)),
    }
}

fn behind_sort(sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let Some(by_row) = ByRow::of(&sort.input) else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    let mut keys = Vec::with_capacity(sort.expr.len());
    for by in &sort.expr {
        let Some(expr) = by_row.below(&by.expr)? else {
            return Ok(Transformed::no(LogicalPlan::Sort(sort)));
        };
        keys.push(by.with_expr(expr));
    }
    let input = Arc::new(by_row.input.clone());
    let sorted = LogicalPlan::Sort(Sort { expr: keys, input, fetch: sort.fetch });
    Ok(Transformed::yes(ByRow::new(by_row.items.clone(), sorted)?.plan()))
}

fn behind_limit(limit: Limit) -> Result<Transformed<LogicalPlan>> {
    let Some(by_row) = ByRow::of(&limit.input) else {
        return Ok(Transformed::no(LogicalPlan::Limit(limit)));
    };
    let input = Arc::new(by_row.input.clone());
    let limited = LogicalPlan::Limit(Limit { input, ..limit.clone() });
    Ok(Transformed::yes(ByRow::new(by_row.items.clone(), limited)?.plan()))
}

/// Refuses variables that a query assigns where rows are not computed one by one, and in what the
/// server may compute in any order.
fn check(node: &LogicalPlan) -> Result<()> {
    let in_items = matches!(node, LogicalPlan::Projection(_)) || ByRow::of(node).is_some();
    node.apply_expressions(|expr| {
        if !in_items && has_variable(expr)? {
            return Err(external(err!(
                NotSupported,
                "This version of Freshet doesn't yet support variables that the statement assigns \
                 by ':=' in a condition, a key or an aggregate: in what order rows and expressions \
                 are computed is not certain; assign in the select list of a derived table"
            )));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut below = 0;
    for input in node.inputs() {
        below += usize::from(is_by_row(input)?);
    }
    let mut in_subquery = false;
    node.apply_subqueries(|plan| {
        in_subquery |= is_by_row(plan)?;
        Ok(TreeNodeRecursion::Jump)
    })?;
    if below > 1 || in_subquery {
        return Err(external(err!(
            NotSupported,
            "This version of Freshet doesn't yet support ':=' in several parts of a UNION or a \
             join, or in a subquery of an expression: in what order they are computed is not \
             certain"
        )));
    }
    Ok(())
}

/// Whether a plan gives rows before it has assigned some of these variables for the last time.
fn is_interleaved(plan: &LogicalPlan, used: &BTreeSet<String>) -> Result<bool> {
    if matches!(plan, LogicalPlan::Sort(_) | LogicalPlan::Aggregate(_)) {
        return Ok(false);
    }
    if let Some(by_row) = ByRow::of(plan)
        && !matches!(by_row.input, LogicalPlan::EmptyRelation(_))
    {
        for item in &by_row.items {
            let sets = |part: &Expr| Ok(set_by(part).is_some_and(|(name, _)| used.contains(name)));
            if item.exists(sets)? {
                return Ok(true);
            }
        }
    }
    for input in plan.inputs() {
        if is_interleaved(input, used)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a plan computes something row by row.
fn is_by_row(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(ByRow::of(node).is_some()))
}

/// The type in which a variable is read beside its assignments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VariableType {
    Int,
    UInt,
    /// With so many fraction digits.
    Decimal(i8),
    Double,
    Text,
}

impl VariableType {
    /// The type of a value that is assigned; `None` of NULL.
    fn of(ty: &DataType) -> Option<Self> {
        Some(match ty {
            DataType::Null => return None,
            DataType::Boolean => Self::Int,
            DataType::UInt64 => Self::UInt,
            ty if ty.is_integer() => Self::Int,
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
                Self::Decimal(*scale)
            }
            ty if ty.is_floating() => Self::Double,
            _ => Self::Text,
        })
    }

    /// The type of values of both types.
    fn joined(self, other: Self) -> Self {
        match (self, other) {
            (Self::Text, _) | (_, Self::Text) => Self::Text,
            (Self::Double, _) | (_, Self::Double) => Self::Double,
            (Self::Decimal(one), Self::Decimal(two)) => Self::Decimal(one.max(two)),
            (Self::Decimal(scale), _) | (_, Self::Decimal(scale)) => Self::Decimal(scale),
            (one, two) if one == two => one,
            // Numbers of both have no other type.
            _ => Self::Decimal(0),
        }
    }
}

/// The types of the variables that a query assigns, by their names.
pub type VariableTypes = BTreeMap<String, VariableType>;

/// How often a query is planned to know the types of its variables: each time they are those of
/// what it assigned before.
const TRIES: usize = 4;

/// The plan of a query, in which the variables that it assigns have the types of what it assigns.
///
/// # Errors
/// Those of `plan`.
pub fn typed<T>(
    query: Select,
    session: &QuerySession<'_>,
    plan: impl Fn(Select, &VariableTypes) -> freshet_base::Result<(LogicalPlan, T)>,
) -> freshet_base::Result<(LogicalPlan, T)> {
    let mut types = VariableTypes::new();
    let assigns = assign::assigns(&query);
    for _ in 1..if assigns { TRIES } else { 1 } {
        let planned = plan(query.clone(), &types)?;
        let found = types_in(&planned.0, session).map_err(mapped)?;
        if found == types {
            return Ok(planned);
        }
        types = found;
    }
    plan(query, &types)
}

/// The types of the variables that a plan assigns, and of the values that they have before.
fn types_in(plan: &LogicalPlan, session: &QuerySession<'_>) -> Result<VariableTypes> {
    let mut types = VariableTypes::new();
    plan.apply_with_subqueries(|node| {
        let inputs = node.inputs();
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let Some((name, value)) = set_by(part) else {
                    return Ok(TreeNodeRecursion::Continue);
                };
                let ty = match inputs.first() {
                    Some(input) => value.get_type(input.schema())?,
                    None => value.get_type(&DFSchema::empty())?,
                };
                let assigned = VariableType::of(&ty);
                let known = types.get(name).copied().or_else(|| before(session, name));
                let joined = match (known, assigned) {
                    (Some(known), Some(assigned)) => Some(known.joined(assigned)),
                    (known, assigned) => known.or(assigned),
                };
                if let Some(joined) = joined {
                    types.insert(name.to_owned(), joined);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(types)
}

/// The type of the value that a variable has before its query.
fn before(session: &QuerySession<'_>, name: &str) -> Option<VariableType> {
    match session.variables.user(name) {
        Value::Null => None,
        Value::Int(_) => Some(VariableType::Int),
        Value::UInt(_) => Some(VariableType::UInt),
        Value::Double(_) => Some(VariableType::Double),
        Value::Decimal(digits) => {
            let fraction = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            Some(VariableType::Decimal(i8::try_from(fraction).unwrap_or(i8::MAX)))
        }
        Value::Text(_) => Some(VariableType::Text),
    }
}

/// Plans [`ByRow`].
pub struct PlansByRow;

#[async_trait]
impl ExtensionPlanner for PlansByRow {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<ByRow>() else { return Ok(None) };
        let schema = node.input.schema();
        let items = node
            .items
            .iter()
            .map(|item| planner.create_physical_expr(item, schema, session, context));
        let items = items.collect::<Result<Vec<_>>>()?;
        let shown = Arc::clone(node.schema.inner());
        let input = Arc::clone(&physical_inputs[0]);
        let order = input.output_ordering().cloned().map(OrderingRequirements::from);
        Ok(Some(Arc::new(ByRowExec::new(items, shown, order, input))))
    }
}

#[derive(Debug)]
struct ByRowExec {
    items: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    /// That of the rows, as they are planned.
    order: Option<OrderingRequirements>,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl ByRowExec {
    fn new(
        items: Vec<Arc<dyn PhysicalExpr>>,
        schema: SchemaRef,
        order: Option<OrderingRequirements>,
        input: Arc<dyn ExecutionPlan>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { items, schema, order, input, properties: Arc::new(properties) }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(self.items.clone(), Arc::clone(&self.schema), self.order.clone(), input)
    }
}

impl DisplayAs for ByRowExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByRowExec")
    }
}

impl ExecutionPlan for ByRowExec {
    operator_over!("ByRowExec", input);

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (items, schema) = (self.items.clone(), Arc::clone(&self.schema));
        let pool = Arc::clone(context.memory_pool());
        let rows = self.input.execute(partition, context)?;
        let rows = rows.map_ok(move |batch| {
            let memory = MemoryConsumer::new("ByRow").register(&pool);
            let (items, schema) = (items.clone(), Arc::clone(&schema));
            stream::iter(Left { items, schema, batch, at: 0, memory })
        });
        let rows = rows.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }
}

/// What is left of a batch. It is computed in pieces, each of which ends where it has got large.
struct Left {
    items: Vec<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    batch: RecordBatch,
    at: usize,
    memory: MemoryReservation,
}

impl Iterator for Left {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.at < self.batch.num_rows()).then(|| self.piece())
    }
}

impl Left {
    /// The items of some rows, one row after the other.
    fn piece(&mut self) -> Result<RecordBatch> {
        let start = self.at;
        let mut columns = vec![Vec::<ArrayRef>::new(); self.items.len()];
        let mut bytes = 0;
        while self.at < self.batch.num_rows() && bytes < BATCH_BYTES_MAX {
            let row = self.batch.slice(self.at, 1);
            self.at += 1;
            for (item, values) in self.items.iter().zip(&mut columns) {
                let value = item.evaluate(&row)?.into_array(1)?;
                bytes += VALUE_BYTES + bytes_of(&value)?;
                // Once more where they become one array.
                if 2 * bytes > self.memory.size() {
                    self.memory.try_resize(2 * bytes + RESERVED_AHEAD)?;
                }
                values.push(value);
            }
        }
        let arrays = columns.iter().map(|values| {
            let values = values.iter().map(|value| &**value).collect::<Vec<_>>();
            Ok(concat(&values)?)
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.at - start));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}

/// The bytes of an array of one value, without those of values that it shares.
fn bytes_of(value: &ArrayRef) -> Result<usize> {
    Ok(match value.data_type() {
        _ if value.is_null(0) => 0,
        DataType::Utf8View => value.as_string_view().value(0).len(),
        DataType::BinaryView => value.as_binary_view().value(0).len(),
        _ => value.to_data().get_slice_memory_size()?,
    })
}
