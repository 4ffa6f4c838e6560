//! Planning and running queries.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, ParamValues, ScalarValue, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::planner::{NullOrdering, ParserOptions, SqlToRel};
use freshet_base::{Error, Result, err};
use sqlparser::ast::Statement;

use crate::checked;
use crate::error::{external, mapped};
use crate::evaluation::{Bounds, Evaluation, Losses, Memory, Warnings};
use crate::functions::{self, operators::MySqlOperators};
use crate::grouping;
use crate::interrupt;
use crate::limits;
use crate::losses::Planning;
use crate::result::{self, ResultColumn};
use crate::rewrite;
use crate::scan::BATCH_ROWS;
use crate::session::Session;
use crate::set_operation::SetOperations;
use crate::snapshot;
use crate::syntax::Select;
use crate::tables::Tables;
use crate::threads::{Lane, Rows, Threads};

/// Bytes that a sort keeps to merge what it has spilled.
const SORT_RESERVATION_BYTES: usize = 2 << 20;

/// What queries may take.
#[derive(Clone, Debug)]
pub struct QueryConfig {
    /// Memory of all queries together, in bytes; what needs more spills.
    pub memory_bytes: usize,
    /// Where it spills to.
    pub spill_dir: PathBuf,
    /// How many threads run queries, and work for one of them.
    pub threads: usize,
    /// How many threads plan large statements.
    pub plan_threads: usize,
}

/// Where a statement comes from: what it may name and what it is told of its session.
pub trait Origin: Tables + 'static {
    /// The session as planning sees it.
    fn session(&self) -> Session<'_>;
}

/// A query that is to be planned.
pub struct Asked {
    /// What it says.
    pub query: Select,
    /// The items of its outermost select as written.
    pub texts: Vec<String>,
    /// The types of its placeholders, `None` for those not known yet.
    pub parameters: Vec<Option<DataType>>,
    /// Where it comes from.
    pub origin: Arc<dyn Origin>,
    /// What is done about what its values lose.
    pub losses: Losses,
}

/// Plans and runs queries, on threads of its own.
pub struct QueryEngine {
    planner: Arc<Planner>,
    threads: Threads,
}

/// What DataFusion plans and runs with.
struct Planner {
    state: SessionState,
    task: Arc<TaskContext>,
}

/// A planned query: optimised, with placeholders, good for any snapshot with the same columns.
#[derive(Clone, Debug)]
pub struct Plan {
    logical: LogicalPlan,
    /// Whether it waits for values whose types were not known: it is optimised with them.
    untyped: bool,
    /// Where its execution is planned.
    lane: Lane,
    /// Its result columns.
    pub columns: Vec<ResultColumn>,
    /// Whether it holds values of the session or of the moment it was planned, so that it is
    /// good for one execution only.
    pub of_session: bool,
    /// Bounds on its results.
    bounds: Bounds,
    /// What is done about what its values lose.
    losses: Losses,
    /// What folding its constants had to say.
    warnings: Warnings,
}

impl Plan {
    /// The plan without the snapshot it was made on, to be kept: it is executed on another one.
    ///
    /// # Errors
    /// When the plan cannot be taken apart.
    pub fn unbound(self) -> Result<Self> {
        let logical = on_tables(self.logical, |provider| Ok(snapshot::unbound(provider)));
        Ok(Self { logical: logical.map_err(mapped)?, ..self })
    }

    /// The plan over the tables of another snapshot; `None` where one of them has other columns
    /// there than those it was made for, which it names by their places.
    ///
    /// # Errors
    /// When a table is not there, or not for this session.
    pub fn bound(&self, tables: &dyn Tables) -> Result<Option<Self>> {
        let fits = Cell::new(true);
        let logical = on_tables(self.logical.clone(), |provider| {
            let Some((database, name)) = snapshot::place(provider) else { return Ok(None) };
            let table = tables.table(&database, &name).map_err(external)?.0;
            fits.set(fits.get() && table.schema() == provider.schema());
            Ok(Some(table))
        });
        let logical = logical.map_err(mapped)?;
        let (columns, warnings) = (self.columns.clone(), self.warnings.clone());
        Ok(fits.get().then(|| Self { logical, columns, warnings, ..*self }))
    }
}

impl QueryEngine {
    /// An engine with a budget of its own.
    ///
    /// # Errors
    /// When the directory to spill to cannot be used.
    pub fn new(config: &QueryConfig) -> Result<Self> {
        let spill = DiskManagerMode::Directories(vec![config.spill_dir.clone()]);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(config.memory_bytes)))
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(spill))
            .build_arc()
            .map_err(mapped)?;
        let state = SessionStateBuilder::new()
            .with_config(session_config(config))
            .with_runtime_env(runtime)
            .with_default_features()
            .with_expr_planners(planners())
            .with_analyzer_rules(checked::analyzer_rules())
            .with_optimizer_rules(checked::optimizer_rules())
            .with_physical_optimizer_rules(checked::physical_rules())
            .build();
        let task = state.task_ctx();
        let threads = Threads::start(config.threads, config.plan_threads)?;
        Ok(Self { planner: Arc::new(Planner { state, task }), threads })
    }

    /// Plans a query.
    ///
    /// # Errors
    /// Unknown names, wrong types, what is not supported.
    pub async fn plan(&self, asked: Asked) -> Result<Plan> {
        let planner = Arc::clone(&self.planner);
        let lane = lane(&asked)?;
        self.threads.plan(lane, async move { planner.plan(asked, lane) }).await
    }

    /// Plans a query and runs it.
    ///
    /// # Errors
    /// As [`Self::plan`] and [`Self::execute`].
    pub async fn select(
        &self,
        asked: Asked,
        values: Vec<ScalarValue>,
    ) -> Result<(Vec<ResultColumn>, Rows)> {
        let planner = Arc::clone(&self.planner);
        let lane = lane(&asked)?;
        let prepare = async move {
            let plan = planner.plan(asked, lane)?;
            let columns = plan.columns.clone();
            let (evaluation, stream) = planner.stream(plan, values).await?;
            Ok(((columns, evaluation), stream))
        };
        let ((columns, evaluation), rows) = self.threads.query(lane, prepare).await?;
        Ok((columns, rows.of(evaluation)))
    }

    /// Runs a plan on the tables that it is bound to, with values in place of its placeholders.
    ///
    /// # Errors
    /// Wrong number of values; what goes wrong while planning the execution.
    pub async fn execute(&self, plan: &Plan, values: Vec<ScalarValue>) -> Result<Rows> {
        let planner = Arc::clone(&self.planner);
        let (lane, plan) = (plan.lane, plan.clone());
        let prepare = async move { planner.stream(plan, values).await };
        let (evaluation, rows) = self.threads.query(lane, prepare).await?;
        Ok(rows.of(evaluation))
    }

    /// The plan as EXPLAIN shows it, line by line.
    ///
    /// # Errors
    /// As [`Self::select`].
    pub async fn explain(&self, asked: Asked) -> Result<Vec<String>> {
        let planner = Arc::clone(&self.planner);
        let lane = lane(&asked)?;
        let shown = async move {
            let plan = planner.plan(asked, lane)?;
            let state = planner.state_of(&planner.evaluation_of(&plan));
            let physical = physical(&state, &plan.logical).await?;
            Ok(displayable(physical.as_ref()).indent(false).to_string())
        };
        self.threads.plan(lane, shown).await.map(lines)
    }

    /// Runs a query, and tells what each of its steps did, as EXPLAIN ANALYZE shows it.
    ///
    /// # Errors
    /// As [`Self::select`], and what goes wrong while executing.
    pub async fn analyze(&self, asked: Asked) -> Result<Vec<String>> {
        let planner = Arc::clone(&self.planner);
        let lane = lane(&asked)?;
        let prepare = async move {
            let plan = planner.plan(asked, lane)?;
            let evaluation = planner.evaluation_of(&plan);
            let physical = physical(&planner.state_of(&evaluation), &plan.logical).await?;
            let stream = planner.begun(&physical, &evaluation)?;
            Ok(((physical, evaluation), stream))
        };
        let ((physical, evaluation), rows) = self.threads.query(lane, prepare).await?;
        let mut rows = rows.of(evaluation);
        while rows.next().await?.is_some() {}
        let shown = DisplayableExecutionPlan::with_metrics(physical.as_ref()).indent(false);
        Ok(lines(shown.to_string()))
    }

    /// Computes what is neither a plan nor a query apart from whoever waits for it.
    ///
    /// # Errors
    /// Those of the work.
    pub async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.threads.plan(Lane::Large, async move { work() }).await
    }

    /// Memory for what becomes of results, of the budget of queries.
    pub fn memory(&self) -> Memory {
        Memory::of(&self.planner.state.runtime_env().memory_pool)
    }

    /// Bytes of memory that queries hold now.
    pub fn memory_bytes(&self) -> usize {
        self.planner.state.runtime_env().memory_pool.reserved()
    }
}

/// Where a query is planned.
///
/// # Errors
/// 1116, 1117, 1436 and 3170 where it is too large to be planned at all.
fn lane(asked: &Asked) -> Result<Lane> {
    let size = limits::measure(&asked.query.0, &asked.origin.session().limits)?;
    Ok(if size.is_small() { Lane::Small } else { Lane::Large })
}

fn lines(shown: String) -> Vec<String> {
    shown.lines().map(str::to_owned).collect()
}

impl Planner {
    fn plan(&self, asked: Asked, lane: Lane) -> Result<Plan> {
        let Asked { mut query, texts, parameters, origin, losses } = asked;
        let _planning = Planning::of(losses);
        let session = origin.session();
        let rewritten = rewrite::query(&mut query.0, &texts, &session)?;
        let relations = [Arc::new(SetOperations) as Arc<dyn RelationPlanner>];
        let (tables, database) = (&*origin, session.database);
        let context = Context { state: &self.state, relations, tables, database };
        let planner = SqlToRel::new_with_options(&context, options());
        let mut types = planner_context(&parameters);
        let logical = planner
            .sql_statement_to_plan_with_context(Statement::Query(query.0), &mut types)
            .map_err(mapped)?;
        let logical = grouping::as_shown(logical).map_err(mapped)?;
        let columns = result::columns(logical.schema(), &rewritten.names);
        let untyped = parameters.iter().any(Option::is_none);
        let bounds = Bounds::of(&session);
        let evaluation = self.evaluation(bounds, losses, Warnings::default());
        let logical = match untyped {
            true => logical,
            false => self.state_of(&evaluation).optimize(&logical).map_err(mapped)?,
        };
        let (of_session, warnings) = (rewritten.of_session, evaluation.warnings());
        Ok(Plan { logical, untyped, lane, columns, of_session, bounds, losses, warnings })
    }

    /// The rows of a plan with values in place of its placeholders.
    async fn stream(
        &self,
        plan: Plan,
        values: Vec<ScalarValue>,
    ) -> Result<(Evaluation, SendableRecordBatchStream)> {
        let evaluation = self.evaluation_of(&plan);
        let state = self.state_of(&evaluation);
        let mut logical = plan.logical;
        if !values.is_empty() {
            let _planning = Planning::of(plan.losses);
            let values = ParamValues::from(values);
            logical = logical.replace_params_with_values(&values).map_err(mapped)?;
            logical = match plan.untyped {
                true => state.optimize(&logical).map_err(mapped)?,
                false => folded(logical).map_err(mapped)?,
            };
        }
        let physical = physical(&state, &logical).await?;
        let stream = self.begun(&physical, &evaluation)?;
        Ok((evaluation, stream))
    }

    fn begun(
        &self,
        physical: &Arc<dyn ExecutionPlan>,
        evaluation: &Evaluation,
    ) -> Result<SendableRecordBatchStream> {
        evaluation.run();
        execute_stream(Arc::clone(physical), Arc::clone(&self.task)).map_err(mapped)
    }

    /// What one statement is planned with, so that its functions find `evaluation`.
    fn state_of(&self, evaluation: &Evaluation) -> SessionState {
        let mut state = self.state.clone();
        state.config_mut().options_mut().extensions.insert(evaluation.clone());
        let config = Arc::clone(state.config_options());
        state.execution_props_mut().mark_start_execution(config);
        state
    }

    fn evaluation_of(&self, plan: &Plan) -> Evaluation {
        self.evaluation(plan.bounds, plan.losses, plan.warnings.clone())
    }

    fn evaluation(&self, bounds: Bounds, losses: Losses, warnings: Warnings) -> Evaluation {
        let pool = Arc::clone(&self.state.runtime_env().memory_pool);
        Evaluation::new(pool, bounds, losses, warnings)
    }
}

async fn physical(state: &SessionState, logical: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    state.query_planner().create_physical_plan(logical, state).await.map_err(mapped)
}

fn session_config(config: &QueryConfig) -> SessionConfig {
    let mut session = SessionConfig::new()
        .with_target_partitions(config.threads.max(1))
        .with_batch_size(BATCH_ROWS)
        .with_sort_spill_reservation_bytes(SORT_RESERVATION_BYTES)
        .with_information_schema(false);
    let execution = &mut session.options_mut().execution;
    execution.parquet.pushdown_filters = false;
    // A plan says of a UNION's columns what all its parts say of them, and its execution what any
    // part says: the two agree in names and types, which is what groups of them need.
    execution.skip_physical_aggregate_schema_check = true;
    session
}

fn planners() -> Vec<Arc<dyn ExprPlanner>> {
    let mut all: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(MySqlOperators)];
    all.extend(SessionStateBuilder::new_with_default_features().build().expr_planners().to_vec());
    all
}

/// MySQL: names as they are (the rewriter has made columns lower case), decimals for digits
/// with a point, NULL before everything.
fn options() -> ParserOptions {
    ParserOptions::new()
        .with_parse_float_as_decimal(true)
        .with_enable_ident_normalization(false)
        .with_default_null_ordering(NullOrdering::NullsMin)
}

fn planner_context(parameters: &[Option<DataType>]) -> datafusion::sql::planner::PlannerContext {
    let types = parameters
        .iter()
        .map(|ty| ty.clone().map(|ty| Arc::new(Field::new("?", ty, true)) as FieldRef))
        .collect::<Vec<_>>();
    datafusion::sql::planner::PlannerContext::new().with_prepare_param_data_types(types)
}

/// The same plan with casts of values done, so that LIMIT finds a number and files a bound.
fn folded(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    let fold = |expr: Expr| match &expr {
        Expr::Cast(Cast { expr: inner, field }) => match &**inner {
            Expr::Literal(value, metadata) => {
                let value = value.cast_to(field.data_type())?;
                Ok(Transformed::yes(Expr::Literal(value, metadata.clone())))
            }
            _ => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    };
    plan.transform_up_with_subqueries(|node| node.map_expressions(|expr| expr.transform_up(fold)))
        .map(|transformed| transformed.data)
}

/// The same plan with other tables, where `change` gives one for the one there is.
fn on_tables(
    plan: LogicalPlan,
    change: impl Fn(&dyn TableProvider) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError>,
) -> Result<LogicalPlan, DataFusionError> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
        let provider = source_as_provider(&scan.source)?;
        let Some(other) = change(provider.as_ref())? else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        scan.source = provider_as_source(other);
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })
    .map(|transformed| transformed.data)
}

struct Context<'a> {
    state: &'a SessionState,
    relations: [Arc<dyn RelationPlanner>; 1],
    tables: &'a dyn Origin,
    database: Option<&'a str>,
}

impl ContextProvider for Context<'_> {
    fn get_table_source(
        &self,
        name: TableReference,
    ) -> Result<Arc<dyn TableSource>, DataFusionError> {
        interrupt::check()?;
        let database = match (name.schema(), self.database) {
            (Some(database), _) | (None, Some(database)) => database,
            (None, None) => return Err(external(no_database())),
        };
        let provider = self.tables.table(database, name.table()).map_err(external)?;
        Ok(provider_as_source(provider.0))
    }

    fn create_cte_work_table(
        &self,
        name: &str,
        schema: SchemaRef,
    ) -> Result<Arc<dyn TableSource>, DataFusionError> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        functions::scalars().get(name).cloned()
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        functions::aggregate(name).or_else(|| self.state.aggregate_functions().get(name).cloned())
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        functions::scalars().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// The error of a name without database where none is selected.
pub fn no_database() -> Error {
    err!(NoDatabase, "No database selected")
}
