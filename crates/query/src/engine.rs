//! Planning and execution of queries.

mod around;
mod context;

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, ParamValues, ScalarValue};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion::sql::planner::{NullOrdering, ParserOptions, PlannerContext, SqlToRel};
use freshet_base::{Error, Result, err};
use freshet_meta::View;
use freshet_schema::Zone;

use around::Planners;
use context::{Context, ViewPlans, check_tables};

use crate::by_row::{self, VariableTypes};
use crate::checked;
use crate::collation;
use crate::error::mapped;
use crate::evaluation::{Bounds, Evaluation, Losses, Memory, Warnings};
use crate::explain::Operator;
use crate::folding::folded;
use crate::found_by_null;
use crate::functions::operators::MySqlOperators;
use crate::functions::written_dates::Beside;
use crate::grouping;
use crate::interrupt::Cancellation;
use crate::kept;
use crate::labels;
use crate::lateral;
use crate::limits;
use crate::losses::Planning;
use crate::narrow;
use crate::parser;
pub use crate::plan::Plan;
use crate::policies;
use crate::result::{self, ResultColumn};
use crate::rewrite;
use crate::rollup;
use crate::scan::BATCH_ROWS;
use crate::session::{Session, SqlMode};
use crate::syntax::Select;
use crate::tables::Tables;
use crate::threads::{PlanSize, Rows, Threads};
use crate::through::{self, Below};
use crate::unordered;
use crate::using;
use crate::views;

/// Memory reserved per sort for merging its spilled runs.
const SORT_RESERVATION_BYTES: usize = 2 << 20;

/// Resources of the query engine.
#[derive(Clone, Debug)]
pub struct QueryConfig {
    /// Memory of all queries together, in bytes; operators that need more spill to disk.
    pub memory_bytes: usize,
    /// The directory of spill files.
    pub spill_dir: PathBuf,
    /// The number of threads that execute queries, and the parallelism of one query.
    pub threads: usize,
    /// The number of threads that plan large statements.
    pub plan_threads: usize,
}

/// The context of a statement: the tables it may use and its session.
pub trait StatementContext: Tables + 'static {
    /// The session as seen by the planner.
    fn session(&self) -> Session<'_>;
}

/// A request to plan a query.
pub struct PlanRequest {
    pub query: Select,
    /// The text of each item in the outermost select list.
    pub texts: Vec<String>,
    /// The types of placeholders, `None` where not known yet.
    pub parameters: Vec<Option<DataType>>,
    pub origin: Arc<dyn StatementContext>,
    /// How lossy conversions and divisions by zero are handled.
    pub losses: Losses,
}

/// Plans and executes queries on its own threads, or on those that it shares with others.
pub struct QueryEngine {
    pub(crate) planner: Arc<Planner>,
    pub(crate) threads: Threads,
    /// Of the queries of all workload groups together.
    pub(crate) config: QueryConfig,
}

/// DataFusion's state for planning and execution.
pub(crate) struct Planner {
    pub(crate) state: SessionState,
    pub(crate) task: Arc<TaskContext>,
}

impl QueryEngine {
    /// Creates an engine with its own memory budget.
    ///
    /// # Errors
    /// When the spill directory cannot be used.
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
            .with_query_planner(Arc::new(kept::Planner))
            .with_analyzer_rules(checked::analyzer_rules())
            .with_optimizer_rules(checked::optimizer_rules())
            .with_physical_optimizer_rules(checked::physical_rules())
            .build();
        let task = state.task_ctx();
        let threads = Threads::start(config.threads, config.plan_threads)?;
        Ok(Self { planner: Arc::new(Planner { state, task }), threads, config: config.clone() })
    }

    /// # Errors
    /// Unknown names, wrong types, unsupported features.
    pub async fn plan(&self, asked: PlanRequest) -> Result<Plan> {
        let planner = Arc::clone(&self.planner);
        let size = size_of(&asked)?;
        self.threads.plan(size, async move { planner.plan(asked, size) }).await
    }

    /// Plans a query and executes it.
    ///
    /// # Errors
    /// Those of [`Self::plan`] and [`Self::execute`].
    pub async fn select(
        &self,
        asked: PlanRequest,
        values: Vec<ScalarValue>,
    ) -> Result<(Vec<ResultColumn>, Rows)> {
        let planner = Arc::clone(&self.planner);
        let size = size_of(&asked)?;
        let prepare = |stop| async move {
            let plan = planner.plan(asked, size)?;
            let columns = plan.columns.clone();
            let (evaluation, stream) = planner.stream(plan, values, stop).await?;
            Ok(((columns, evaluation), stream))
        };
        let ((columns, evaluation), rows) = self.threads.query(size, prepare).await?;
        Ok((columns, rows.of(evaluation)))
    }

    /// Executes a plan on the tables it is bound to, with `values` for its placeholders.
    ///
    /// # Errors
    /// A wrong number of values, and errors of physical planning.
    pub async fn execute(&self, plan: &Plan, values: Vec<ScalarValue>) -> Result<Rows> {
        let planner = Arc::clone(&self.planner);
        let (size, plan) = (plan.size, plan.clone());
        let prepare = |stop| async move { planner.stream(plan, values, stop).await };
        let (evaluation, rows) = self.threads.query(size, prepare).await?;
        Ok(rows.of(evaluation))
    }

    /// The operators of a plan, with `values` for its placeholders.
    ///
    /// # Errors
    /// Those of [`Self::select`].
    pub async fn explain(&self, asked: PlanRequest, values: Vec<ScalarValue>) -> Result<Operator> {
        let planner = Arc::clone(&self.planner);
        let size = size_of(&asked)?;
        let shown = async move {
            let plan = planner.plan(asked, size)?;
            let evaluation = planner.evaluation_of(&plan, Cancellation::default());
            let state = planner.state_of(&evaluation);
            let logical = valued(plan, values, &state)?;
            Ok(Operator::of(&physical(&state, &logical).await?))
        };
        self.threads.plan(size, shown).await
    }

    /// Executes a query and returns the lines of EXPLAIN ANALYZE, with the metrics of each
    /// operator.
    ///
    /// # Errors
    /// Those of [`Self::select`], and errors of execution.
    pub async fn analyze(
        &self,
        asked: PlanRequest,
        values: Vec<ScalarValue>,
    ) -> Result<Vec<String>> {
        let planner = Arc::clone(&self.planner);
        let size = size_of(&asked)?;
        let prepare = |stop| async move {
            let plan = planner.plan(asked, size)?;
            let evaluation = planner.evaluation_of(&plan, stop);
            let state = planner.state_of(&evaluation);
            let physical = physical(&state, &valued(plan, values, &state)?).await?;
            let stream = planner.begun(&physical, &evaluation)?;
            Ok(((physical, evaluation), stream))
        };
        let ((physical, evaluation), rows) = self.threads.query(size, prepare).await?;
        let mut rows = rows.of(evaluation);
        while rows.next().await?.is_some() {}
        Ok(Operator::measured(&physical).lines())
    }

    /// Runs a CPU-intensive computation other than a query on the threads for large plans, so that
    /// it does not block the caller's thread.
    ///
    /// # Errors
    /// Those of `work`.
    pub async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.threads.plan(PlanSize::Large, async move { work() }).await
    }

    /// A reservation of query memory, for results that are kept.
    pub fn memory(&self) -> Memory {
        Memory::of(&self.planner.state.runtime_env().memory_pool)
    }

    /// Bytes of memory currently reserved by queries.
    pub fn memory_bytes(&self) -> usize {
        self.planner.state.runtime_env().memory_pool.reserved()
    }
}

/// The threads on which a query is planned, by its size.
///
/// # Errors
/// 1116, 1117, 1436 and 3170 if it is too large to be planned.
pub(crate) fn size_of(asked: &PlanRequest) -> Result<PlanSize> {
    let measured = limits::measure(&asked.query.0, &asked.origin.session().limits)?;
    Ok(if measured.is_small() { PlanSize::Small } else { PlanSize::Large })
}

impl Planner {
    pub(crate) fn plan(&self, asked: PlanRequest, size: PlanSize) -> Result<Plan> {
        let PlanRequest { query, texts, parameters, origin, losses } = asked;
        let _planning = Planning::of(losses);
        let session = origin.session();
        let _beside = Beside::dates(session.mode.beside_dates);
        let (of_reader, view_plans) = (Cell::new(false), ViewPlans::default());
        let context = Context {
            planner: self,
            planners: Planners::new(&self.state),
            tables: &*origin,
            database: session.database,
            reader: None,
            within: Vec::new(),
            only: None,
            view_plans: &view_plans,
            of_reader: &of_reader,
        };
        let planner = SqlToRel::new_with_options(&context, options());
        let plan = |mut query: Select, types: &VariableTypes| {
            let rewritten = rewrite::query(&mut query.0, &texts, (&session, types))?;
            let types = || planner_context(&parameters);
            Ok((using::planned(query.0, &planner, session.mode, types)?, rewritten))
        };
        let (logical, rewritten) = by_row::typed(query, &session, plan)?;
        if !view_plans.borrow().is_empty() {
            check_tables(&logical, session.limits.tables)?;
        }
        let logical = lateral::unnested(logical).and_then(by_row::placed).map_err(mapped)?;
        let logical = labels::numbered(logical).and_then(found_by_null::zero_dates);
        let logical = logical.and_then(grouping::as_shown);
        let logical = logical.and_then(rollup::ordered).and_then(unordered::checked);
        let logical = logical.map_err(mapped)?;
        let mut columns = result::columns(logical.schema(), &rewritten.names);
        let untyped = parameters.iter().any(Option::is_none);
        let (bounds, collation) = (Bounds::of(&session), session.collation());
        let stop = Cancellation::default();
        let evaluation = self.evaluation(bounds, losses, Warnings::default(), stop);
        let logical = match untyped {
            true => logical,
            false => {
                let logical = collation::applied(logical, collation).map_err(mapped)?;
                result::put_collations(&mut columns, logical.schema());
                self.state_of(&evaluation).optimize(&logical).map_err(mapped)?
            }
        };
        // Views and policies have values of their own, so the plan is made anew each time.
        let of_session = rewritten.of_session || of_reader.get();
        let warnings = evaluation.warnings();
        Ok(Plan {
            logical,
            untyped,
            collation,
            size,
            columns,
            of_session,
            bounds,
            losses,
            warnings,
        })
    }

    /// The plan of a view's query, with the columns of the view, and those of its table that a
    /// statement wants which writes through it.
    fn view(
        &self,
        (database, view): (&str, &View),
        below: Option<&Below<'_>>,
        around: &Context<'_>,
    ) -> Result<LogicalPlan> {
        let mut parsed = parser::parse(&view.query, views::mode_of(view))?.remove(0);
        let parser::Statement::Query(query) = &mut parsed.statement else {
            return Err(err!(Unknown, "the text of view '{}' is no query", view.name));
        };
        let definer = (!view.invoker).then_some(&view.definer);
        let current = format!("{}@{}", view.definer.name, view.definer.host);
        let mut session = around.tables.session();
        session.database = view.database.as_deref();
        session.mode = views::mode_of(view);
        session.current_user = if view.invoker { session.current_user } else { &current };
        limits::measure(&query.0, &session.limits)?;
        let reader = definer.or(around.reader);
        let context = Context {
            planner: self,
            planners: Planners::new(&self.state),
            tables: around.tables,
            database: session.database,
            reader,
            within: around.within.iter().copied().chain([(database, view)]).collect(),
            only: None,
            view_plans: around.view_plans,
            of_reader: around.of_reader,
        };
        if let Some(below) = below {
            let place = below.path.first().copied().unwrap_or_default();
            let is_view = context.reads_view(&query.0, place)?;
            through::show(&mut query.0, below, is_view)?;
        }
        let rewritten =
            rewrite::query(&mut query.0, &parsed.items, (&session, &VariableTypes::new()))?;
        let planner = SqlToRel::new_with_options(&context, options());
        let plan = using::planned(query.0.clone(), &planner, session.mode, PlannerContext::new)?;
        let plan = collation::applied(plan, session.collation()).map_err(mapped)?;
        let columns = result::columns(plan.schema(), &rewritten.names);
        let own = columns.len() - below.map_or(0, |below| below.names.len());
        let mut named = views::columns(view, &plan, &columns[..own])?;
        // Beside `*` they have other names within.
        let below = below.iter().flat_map(|below| &below.names);
        named.extend(below.zip(own..).map(|(name, at)| {
            let (qualifier, field) = plan.schema().qualified_field(at);
            Expr::Column(Column::from((qualifier, field))).alias(through::name_below(name))
        }));
        LogicalPlanBuilder::from(plan).project(named).and_then(|plan| plan.build()).map_err(mapped)
    }

    /// The plan of the rows of a table that satisfy the condition of a policy. Of the session it
    /// has only who reads: what everybody can set must not change which rows these are.
    fn row_filter(
        &self,
        condition: &str,
        whole: &Arc<dyn TableProvider>,
        (database, around): (&str, &Context<'_>),
    ) -> Result<LogicalPlan> {
        let mut query = policies::query(condition)?;
        let reader = around.reader.map(|reader| format!("{}@{}", reader.name, reader.host));
        let mut session = around.tables.session();
        (session.database, session.mode) = (Some(database), SqlMode::default());
        (session.zone, session.zone_name) = (Zone::UTC, "UTC");
        session.now_micros = session.clock_micros;
        session.variables = &policies::Unset;
        session.current_user = reader.as_deref().unwrap_or(session.current_user);
        limits::measure(&query.0, &session.limits)?;
        rewrite::query(&mut query.0, &[], (&session, &VariableTypes::new()))?;
        let context = Context {
            planner: self,
            planners: Planners::new(&self.state),
            tables: around.tables,
            database: session.database,
            reader: None,
            within: Vec::new(),
            only: Some(whole),
            view_plans: around.view_plans,
            of_reader: around.of_reader,
        };
        let planner = SqlToRel::new_with_options(&context, options());
        let plan = using::planned(query.0, &planner, session.mode, PlannerContext::new)?;
        collation::applied(policies::filter_of(plan)?, session.collation()).map_err(mapped)
    }

    /// Starts the execution of a plan with `values` for its placeholders.
    async fn stream(
        &self,
        plan: Plan,
        values: Vec<ScalarValue>,
        stop: Cancellation,
    ) -> Result<(Evaluation, SendableRecordBatchStream)> {
        let evaluation = self.evaluation_of(&plan, stop);
        let state = self.state_of(&evaluation);
        let physical = physical(&state, &valued(plan, values, &state)?).await?;
        let stream = self.begun(&physical, &evaluation)?;
        Ok((evaluation, stream))
    }

    fn begun(
        &self,
        physical: &Arc<dyn ExecutionPlan>,
        evaluation: &Evaluation,
    ) -> Result<SendableRecordBatchStream> {
        evaluation.run();
        narrow::execute(physical, &self.state, &self.task).map_err(mapped)
    }

    /// A session state for one statement, in which functions find `evaluation`.
    pub(crate) fn state_of(&self, evaluation: &Evaluation) -> SessionState {
        let mut state = self.state.clone();
        evaluation.put_into(state.config_mut().options_mut());
        let config = Arc::clone(state.config_options());
        state.execution_props_mut().mark_start_execution(config);
        state
    }

    pub(crate) fn evaluation_of(&self, plan: &Plan, stop: Cancellation) -> Evaluation {
        self.evaluation(plan.bounds, plan.losses, plan.warnings.clone(), stop)
    }

    fn evaluation(
        &self,
        bounds: Bounds,
        losses: Losses,
        warnings: Warnings,
        stop: Cancellation,
    ) -> Evaluation {
        let pool = Arc::clone(&self.state.runtime_env().memory_pool);
        Evaluation::new(pool, bounds, losses, warnings, stop)
    }
}

/// A plan with values for its placeholders.
fn valued(plan: Plan, values: Vec<ScalarValue>, state: &SessionState) -> Result<LogicalPlan> {
    if values.is_empty() {
        return Ok(plan.logical);
    }
    let _planning = Planning::of(plan.losses);
    let values = ParamValues::from(values);
    let logical = plan.logical.replace_params_with_values(&values);
    let logical = match plan.untyped {
        true => logical
            .and_then(|logical| collation::applied(logical, plan.collation))
            .and_then(|logical| state.optimize(&logical)),
        false => logical.and_then(folded),
    };
    logical.map_err(mapped)
}

pub(crate) async fn physical(
    state: &SessionState,
    logical: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>> {
    state.query_planner().create_physical_plan(logical, state).await.map_err(mapped)
}

/// So many rows of one side of a join are looked up in indexes of the other.
const LOOKED_UP_MAX: usize = 1000;

pub(crate) fn session_config(config: &QueryConfig) -> SessionConfig {
    let mut session = SessionConfig::new()
        .with_target_partitions(config.threads.max(1))
        .with_batch_size(BATCH_ROWS)
        .with_sort_spill_reservation_bytes(SORT_RESERVATION_BYTES)
        .with_information_schema(false);
    session.options_mut().optimizer.hash_join_inlist_pushdown_max_distinct_values = LOOKED_UP_MAX;
    let execution = &mut session.options_mut().execution;
    execution.parquet.pushdown_filters = false;
    // In a UNION's plan a column has the metadata that all branches agree on, in its execution that
    // of any branch. Names and types agree in both, which is all that grouping needs.
    execution.skip_physical_aggregate_schema_check = true;
    session
}

fn planners() -> Vec<Arc<dyn ExprPlanner>> {
    let mut all: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(MySqlOperators)];
    all.extend(SessionStateBuilder::new_with_default_features().build().expr_planners().to_vec());
    all
}

/// MySQL's conventions: identifiers as they are (the rewriter has already lowercased columns),
/// numbers with a decimal point are decimals, NULL sorts first.
fn options() -> ParserOptions {
    ParserOptions::new()
        .with_parse_float_as_decimal(true)
        .with_enable_ident_normalization(false)
        .with_default_null_ordering(NullOrdering::NullsMin)
}

fn planner_context(parameters: &[Option<DataType>]) -> PlannerContext {
    let types = parameters
        .iter()
        .map(|ty| ty.clone().map(|ty| Arc::new(Field::new("?", ty, true)) as FieldRef))
        .collect::<Vec<_>>();
    PlannerContext::new().with_prepare_param_data_types(types)
}

/// The error for a table name without database when no database is selected.
pub fn no_database() -> Error {
    err!(NoDatabase, "No database selected")
}
