//! Loads that compute: expressions and conditions between the rows of a body and a table.
//!
//! Such a load is planned once. Its rows then come in batches, each of which runs through the plan
//! by itself ([`Mapping::apply`]): pieces of a body are computed side by side and in any order, and
//! a row that cannot be computed is found by halving its batch. So a plan of anything but
//! projections and filters is refused.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use freshet_base::{Result, bail};
use freshet_schema::TableSchema;
use futures::StreamExt;
use sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Ident, ObjectNamePart, Query, SelectItem, SetExpr,
    TableAlias, TableFactor, TableWithJoins, UnaryOperator, Visit, Visitor,
};

use crate::body::{BodyRows, BodyTable};
use crate::change::ROW;
use crate::engine::{PlanRequest, Planner, QueryEngine, physical, size_of};
use crate::error::mapped;
use crate::interrupt::Cancellation;
use crate::parser::HttpStream;
use crate::result::ResultColumn;
use crate::rewrite::aggregate_call;
use crate::syntax::{Scalar, Select, select_of, table_factor};
use crate::tables::Table;
use crate::threads::{PlanSize, Task};
use crate::visit::{visit_expressions, walk};

/// The table that stands for the rows of a body.
pub const BODY: &str = "\u{1}body";

/// The column that says whether a row deletes its key.
const DELETES: &str = "\u{1}deletes";

/// Digits of a DECIMAL.
const DIGITS_MAX: u64 = 65;

/// Why aggregates are refused.
const ONE_ROW: &str = "the expressions of a load see one row at a time: aggregates and window \
                       functions are for a query of the loaded table";

/// How a value is negated, which may be a text yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Negation {
    /// Exactly, as a number with so many fraction digits.
    Exact { scale: u8 },
    /// As a DOUBLE.
    Float,
}

/// What a stream load computes.
#[derive(Clone)]
pub struct Columns<'a> {
    /// The name of the table, by which conditions may refer to its columns.
    pub table: &'a str,
    /// The fields of the body; one of the name of a computed column is there for expressions only.
    pub fields: &'a [String],
    /// Columns and how they are computed of the fields.
    pub computed: &'a [(String, Scalar)],
    /// The columns of the result.
    pub targets: &'a [String],
    /// How the values of some of them are negated, behind the conditions.
    pub negation: &'a dyn Fn(&str) -> Option<Negation>,
    /// `where`.
    pub condition: Option<&'a Scalar>,
    /// `delete`: one more column behind [`ROW`].
    pub deletes: Option<&'a Scalar>,
}

impl Columns<'_> {
    /// The query of [`ROW`] and of the columns over the body. Conditions see computed columns, and
    /// the fields of the body under other names.
    ///
    /// # Errors
    /// `NotSupported` for a subquery.
    pub fn select(&self) -> Result<Select> {
        let all = self.computed.iter().map(|(_, value)| value);
        let conditions = self.condition.into_iter().chain(self.deletes);
        all.chain(conditions).try_for_each(|value| check(&value.0))?;
        let is_computed =
            |name: &str| self.computed.iter().any(|(column, _)| column.eq_ignore_ascii_case(name));
        let plain = self.fields.iter().filter(|name| !is_computed(name));
        let plain = plain.map(|name| item(Expr::Identifier(quoted(name)), name));
        let computed = self.computed.iter().map(|(name, value)| item(value.0.clone(), name));
        let inner = [row()].into_iter().chain(plain).chain(computed).collect();
        let inner = query(inner, body(None), None);
        let targets = self.targets.iter().map(|name| item(self.value(name), name));
        let deletes = self.deletes.map(|condition| item(is_true(condition), DELETES));
        let outer = [row()].into_iter().chain(deletes).chain(targets).collect();
        let derived = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(inner),
            alias: Some(alias(self.table)),
            sample: None,
        };
        let condition = self.condition.map(|condition| condition.0.clone());
        Ok(Select(Box::new(query(outer, derived, condition))))
    }
}

impl Columns<'_> {
    fn value(&self, target: &str) -> Expr {
        let value = Expr::Identifier(quoted(target));
        let exact = |scale: u8| Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(value.clone()),
            data_type: DataType::Decimal(ExactNumberInfo::PrecisionAndScale(
                DIGITS_MAX,
                scale.into(),
            )),
            array: false,
            format: None,
        };
        let positive = match (self.negation)(target) {
            None => return value,
            Some(Negation::Exact { scale }) => exact(scale),
            Some(Negation::Float) => value,
        };
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(positive) }
    }
}

impl HttpStream {
    /// Whether it selects `*`.
    pub fn takes_all(&self) -> bool {
        let is_all = |item: &SelectItem| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        };
        self.items.iter().any(is_all)
    }

    /// The names of columns in its expressions.
    pub fn names(&self) -> Vec<String> {
        let (mut names, mut known) = (Vec::new(), HashSet::new());
        let mut look = |expr: &Expr| {
            let name = match expr {
                Expr::Identifier(name) => Some(name),
                Expr::CompoundIdentifier(parts) => parts.last(),
                _ => None,
            };
            let is_variable =
                |name: &&Ident| name.value.starts_with('@') && name.quote_style.is_none();
            if let Some(name) = name.filter(|name| !is_variable(name))
                && known.insert(name.value.to_ascii_lowercase())
            {
                names.push(name.value.clone());
            }
            ControlFlow::<()>::Continue(())
        };
        let _ = visit_expressions(&self.items, &mut look);
        let _ = visit_expressions(&self.condition, &mut look);
        names
    }

    /// The query of [`ROW`] and of the items over a body with these fields.
    ///
    /// # Errors
    /// `NotSupported` for a subquery.
    pub fn select(&self, fields: &[String]) -> Result<Select> {
        let mut items = vec![row()];
        for asked in &self.items {
            match asked {
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                    let named = |name: &String| item(Expr::Identifier(quoted(name)), name);
                    items.extend(fields.iter().map(named));
                }
                other => {
                    check(other)?;
                    items.push(other.clone());
                }
            }
        }
        self.condition.as_ref().map_or(Ok(()), check)?;
        let query = query(items, body(Some(&self.from)), self.condition.clone());
        Ok(Select(Box::new(query)))
    }
}

/// The query of [`ROW`] and of an expression, over the rows of a body.
pub(crate) fn of_row(expr: Scalar) -> Select {
    Select(Box::new(query(vec![row(), item(expr.0, "value")], body(None), None)))
}

/// Whether a condition is false: never NULL.
pub(crate) fn is_false(condition: Scalar) -> Scalar {
    Scalar(Expr::IsFalse(Box::new(Expr::Nested(Box::new(condition.0)))))
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('`', name)
}

fn row() -> SelectItem {
    SelectItem::UnnamedExpr(Expr::Identifier(quoted(ROW)))
}

/// Whether a condition holds: never NULL.
fn is_true(condition: &Scalar) -> Expr {
    Expr::IsTrue(Box::new(Expr::Nested(Box::new(condition.0.clone()))))
}

fn item(expr: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: quoted(name) }
}

fn alias(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: quoted(name), columns: Vec::new(), at: None }
}

fn body(name: Option<&str>) -> TableFactor {
    let body = vec![ObjectNamePart::Identifier(quoted(BODY))];
    table_factor(body, name.map(alias))
}

fn query(items: Vec<SelectItem>, from: TableFactor, condition: Option<Expr>) -> Query {
    let mut query = select_of(Vec::new());
    if let SetExpr::Select(select) = &mut *query.body {
        select.projection = items;
        select.from = vec![TableWithJoins { relation: from, joins: Vec::new() }];
        select.selection = condition;
    }
    query
}

/// Refuses subqueries, which would be computed for each batch anew, and aggregates.
fn check(part: &impl Visit) -> Result<()> {
    struct Unfit;
    impl Visitor for Unfit {
        type Break = &'static str;

        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<Self::Break> {
            ControlFlow::Break("the expressions of a load take no subqueries")
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
            match aggregate_call(expr) {
                true => ControlFlow::Break(ONE_ROW),
                false => ControlFlow::Continue(()),
            }
        }
    }
    match walk(part, &mut Unfit) {
        ControlFlow::Break(why) => bail!(NotSupported, "{why}"),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The table of a body with these fields, [`ROW`] first, the others in lower case.
pub fn table(fields: &TableSchema) -> Table {
    Table::new(Arc::new(BodyTable { schema: Arc::clone(fields.arrow()) }))
}

/// What values depend on beside the rows.
#[derive(Clone, Copy)]
pub(crate) struct Depends {
    /// The time and settings of the statement.
    pub on_session: bool,
    pub on_chance: bool,
}

/// The plan of a load that computes.
pub struct Mapping {
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    /// The columns of its result, [`ROW`] first.
    pub columns: Vec<ResultColumn>,
}

impl Mapping {
    /// Passes the rows that become of these to `each`, some at a time.
    ///
    /// # Errors
    /// Those of the expressions for any of the rows, perhaps behind some that were passed on; those
    /// of `each`.
    pub async fn apply(
        &self,
        rows: RecordBatch,
        mut each: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let schema = rows.schema();
        assert!(schema.field(0).name() == ROW, "rows are numbered in their first column");
        let config = self.task.session_config().clone().with_extension(Arc::new(BodyRows(rows)));
        let (id, runtime) = (self.task.session_id(), self.task.runtime_env());
        let task = TaskContext::new(
            None,
            id,
            config,
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            runtime,
        );
        let mut stream = execute_stream(Arc::clone(&self.plan), Arc::new(task)).map_err(mapped)?;
        while let Some(batch) = stream.next().await {
            each(&batch.map_err(mapped)?)?;
        }
        Ok(())
    }
}

impl QueryEngine {
    /// Plans a load that computes.
    ///
    /// # Errors
    /// Those of [`Self::plan`]; `NotSupported` for what sees more than a row at a time.
    pub async fn mapping(&self, asked: PlanRequest) -> Result<Mapping> {
        let planner = Arc::clone(&self.planner);
        let size = size_of(&asked)?;
        let mapping = async move { Ok(planner.mapping(asked, size).await?.0) };
        self.threads.plan(size, mapping).await
    }

    /// Plans a small one on this thread; `None` if its values depend on more than its rows.
    ///
    /// # Errors
    /// Those of [`Self::mapping`].
    pub(crate) fn mapping_of_rows(
        &self,
        asked: PlanRequest,
        size: PlanSize,
    ) -> Result<(Mapping, Depends)> {
        let planned = tokio::task::unconstrained(self.planner.mapping(asked, size));
        futures::executor::block_on(planned)
    }

    /// Runs a computation beside those of queries, on their threads.
    pub fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Task<T> {
        self.threads.spawn(work)
    }
}

impl Planner {
    /// The plan, and what its values depend on.
    async fn mapping(&self, asked: PlanRequest, size: PlanSize) -> Result<(Mapping, Depends)> {
        let plan = self.plan(asked, size)?;
        check_plan(&plan.logical)?;
        let (on_session, on_chance) = (plan.of_session, is_volatile(&plan.logical)?);
        let depends = Depends { on_session, on_chance };
        let evaluation = self.evaluation_of(&plan, Cancellation::default());
        let mut state = self.state_of(&evaluation);
        // Rows stay in order: the last one of a key replaces those before.
        state.config_mut().options_mut().execution.target_partitions = 1;
        let physical = physical(&state, &plan.logical).await?;
        evaluation.run();
        let task = Arc::clone(&self.task);
        Ok((Mapping { plan: physical, task, columns: plan.columns }, depends))
    }
}

fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    let look = |node: &LogicalPlan| {
        found |= node.expressions().iter().any(datafusion::logical_expr::Expr::is_volatile);
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply(look).map_err(mapped)?;
    Ok(found)
}

/// Refuses a plan that sees more than a row at a time.
///
/// # Errors
/// `NotSupported`.
fn check_plan(plan: &LogicalPlan) -> Result<()> {
    let mut is_plain = true;
    let look = |node: &LogicalPlan| {
        is_plain &= matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::TableScan(_)
                | LogicalPlan::EmptyRelation(_)
        );
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply(look).map_err(mapped)?;
    if !is_plain {
        bail!(NotSupported, "{ONE_ROW}");
    }
    Ok(())
}
