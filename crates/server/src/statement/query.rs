//! SELECT: snapshot, plan, rows.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use freshet_base::{Result, TableId, bail};
use freshet_ingest::Transaction;
use freshet_meta::{Account, Catalog, Object, Privilege, authorize};
use freshet_query::actions;
use freshet_query::engine::{Plan, Tables};
use freshet_query::parser::{Parsed, Statement, parse};
use freshet_query::result::{Cells, ResultColumn, text_batch};
use freshet_query::session::{self as planning, Scope, Value, Variables};
use freshet_query::snapshot::SnapshotTables;
use freshet_query::system::SystemTables;
use freshet_query::zone::Zone;
use freshet_query::{DataType, Parameter, RecordBatch, TableProvider, parameters};
use freshet_storage::snapshot::{Snapshot, TableSnapshot};
use freshet_wire::{PacketWriter, Param, StatusFlags};
use parking_lot::Mutex;
use sqlparser::ast::{self, Expr, Query, visit_relations};

use super::{Patience, Reply, bounded};
use crate::mysql::conn::put_error;
use crate::mysql::prepared::{Kind, Prepared};
use crate::mysql::results::{self, Encoding, Gone, Output};
use crate::session::Session;
use crate::show::system::ServerView;
use crate::transaction;
use crate::variables::{self, Values};

/// Rows of a cursor that are kept at most.
const CURSOR_BYTES_MAX: usize = 256 << 20;

/// A prepared statement that is no INSERT of literals.
pub struct PreparedQuery {
    parsed: Parsed,
    plan: Option<CachedPlan>,
    /// The columns of its result, as far as they are known without values.
    pub columns: Vec<ResultColumn>,
    /// Rows that wait to be fetched.
    pub cursor: Option<CursorRows>,
}

struct CachedPlan {
    plan: Plan,
    generation: u64,
    settings: u64,
    database: Option<Arc<str>>,
    types: Vec<Option<DataType>>,
}

/// What one statement reads: variables, one snapshot, the session's own rows.
pub struct Reader {
    snapshot: Snapshot,
    own: Option<Arc<Mutex<Transaction>>>,
    variables: SessionVariables,
    account: Account,
    catalog: Arc<Catalog>,
    server: ServerView,
    zone: Zone,
    database: Option<Arc<str>>,
    user: String,
    current_user: String,
    version: String,
    connection_id: u64,
    row_count: i64,
    found_rows: u64,
    now_micros: i64,
    zone_name: String,
    mode: planning::SqlMode,
}

impl Reader {
    /// The state that a statement of the session reads, from now on.
    ///
    /// # Errors
    /// When a transaction has to be opened and cannot be.
    pub async fn new(session: &mut Session) -> Result<Self> {
        transaction::before_read(session).await?;
        Ok(Self::at_once(session))
    }

    /// The same for a query: one that names no table waits for nothing and opens nothing.
    async fn of(session: &mut Session, query: &Query) -> Result<Self> {
        if visit_relations(query, |_| ControlFlow::Break(())).is_break() {
            return Self::new(session).await;
        }
        transaction::check_alive(session)?;
        Ok(Self::at_once(session))
    }

    fn at_once(session: &Session) -> Self {
        let shared = &session.shared;
        let engine = &shared.engine;
        let pinned = session.transaction.as_ref().and_then(|open| open.snapshot.clone());
        let snapshot = pinned.unwrap_or_else(|| engine.snapshot(session.settings.freshness));
        let account = &session.client.account;
        let variables = SessionVariables {
            values: Arc::clone(&session.variables),
            globals: shared.globals.load(),
            users: Arc::clone(&session.user_variables),
            warnings: session.diagnostics.count,
            now_micros: engine.clock().wall_micros(),
        };
        let zone_name = match variables.system(Scope::Session, "time_zone") {
            Some(Value::Text(name)) => name,
            _ => "SYSTEM".to_owned(),
        };
        Self {
            own: session.transaction.as_ref().map(|open| Arc::clone(&open.rows)),
            account: account.clone(),
            catalog: engine.catalog(),
            server: ServerView::new(session),
            zone: zone(session.settings.zone()),
            database: session.database.clone(),
            user: session.user_at_host(),
            current_user: format!("{}@{}", account.name, account.host),
            version: shared.settings.version.clone(),
            connection_id: u64::from(session.process.id),
            row_count: session.row_count,
            found_rows: session.found_rows,
            now_micros: variables.now_micros,
            zone_name,
            mode: session.settings.mode,
            variables,
            snapshot,
        }
    }

    /// The session as planning sees it.
    pub fn session(&self) -> planning::Session<'_> {
        planning::Session {
            database: self.database.as_deref(),
            user: &self.user,
            current_user: &self.current_user,
            version: &self.version,
            connection_id: self.connection_id,
            last_insert_id: 0,
            row_count: self.row_count,
            found_rows: self.found_rows,
            now_micros: self.now_micros,
            zone: self.zone,
            zone_name: &self.zone_name,
            mode: self.mode,
            variables: &self.variables,
        }
    }

    fn overlaid(&self, table: TableSnapshot) -> Result<TableSnapshot> {
        let Some(own) = &self.own else { return Ok(table) };
        let id: TableId = table.table.id;
        let rows = own.lock().overlay(id, &table.schema);
        Ok(table.with_overlay(rows))
    }
}

impl Tables for Reader {
    fn table(&self, database: &str, name: &str) -> Result<Arc<dyn TableProvider>> {
        authorize(&self.catalog, &self.account, Privilege::Select, Object::Table(database, name))?;
        let overlay = |table| self.overlaid(table);
        let (snapshot, zone) = (&self.snapshot, self.zone);
        let system = SystemTables { snapshot, source: &self.server, zone };
        SnapshotTables { snapshot, zone, overlay: &overlay, system: &system }.table(database, name)
    }
}

/// Variables as a statement finds them.
struct SessionVariables {
    values: Values,
    globals: Values,
    users: Arc<HashMap<String, Value>>,
    warnings: u64,
    now_micros: i64,
}

impl Variables for SessionVariables {
    fn system(&self, scope: Scope, name: &str) -> Option<Value> {
        let count = |count: u64| Some(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)));
        match name.to_ascii_lowercase().as_str() {
            "warning_count" | "error_count" => return count(self.warnings),
            "last_insert_id" | "identity" | "insert_id" => return count(0),
            "timestamp" => return Some(Value::Double(self.now_micros as f64 / 1e6)),
            _ => {}
        }
        let id = variables::find(name)?;
        let values = match (scope, id.variable().reach) {
            (Scope::Global, variables::Reach::Session) => return None,
            (Scope::Global, _) | (_, variables::Reach::Global) => &self.globals,
            _ => &self.values,
        };
        Some(id.of(values).clone())
    }

    fn user(&self, name: &str) -> Value {
        self.users.get(&name.to_lowercase()).cloned().unwrap_or(Value::Null)
    }
}

fn zone(zone: freshet_schema::Zone) -> Zone {
    match zone {
        freshet_schema::Zone::Offset(seconds) => Zone::Fixed(seconds),
        freshet_schema::Zone::Named(zone) => Zone::Named(zone),
    }
}

/// A value from the wire as the planner takes it.
pub fn parameter(param: Param<'_>) -> Parameter {
    match param {
        Param::Null => Parameter::Null,
        Param::Int(value) => Parameter::Int(value),
        Param::UInt(value) => Parameter::UInt(value),
        Param::Float(value) => Parameter::Double(value.into()),
        Param::Double(value) => Parameter::Double(value),
        Param::Bytes(bytes) => Parameter::Bytes(bytes.to_vec()),
        Param::Date(date) => parameters::date(date.year.into(), date.month.into(), date.day.into()),
        Param::DateTime(value) => {
            let date = value.date;
            let seconds = u32::from(value.hour) * 3600
                + u32::from(value.minute) * 60
                + u32::from(value.second);
            let micros = i64::from(seconds) * 1_000_000 + i64::from(value.micros);
            parameters::datetime(date.year.into(), date.month.into(), date.day.into(), micros)
        }
        Param::Time(value) => {
            let hours = i64::from(value.days) * 24 + i64::from(value.hour);
            let seconds = hours * 3600 + i64::from(value.minute) * 60 + i64::from(value.second);
            let micros = seconds * 1_000_000 + i64::from(value.micros);
            Parameter::Time(if value.negative { -micros } else { micros })
        }
    }
}

/// SELECT of a text.
///
/// # Errors
/// Those of planning.
pub async fn select(
    session: &mut Session,
    query: &Query,
    items: &[String],
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let (columns, rows) = run(session, query, items, parameters).await?;
    Ok(Reply::Stream(columns, rows))
}

/// Plans and begins a query.
///
/// # Errors
/// Those of planning; 1317 and 3024.
pub async fn run(
    session: &mut Session,
    query: &Query,
    items: &[String],
    parameters: Vec<Parameter>,
) -> Result<(Vec<ResultColumn>, freshet_query::Rows)> {
    let reader = Reader::of(session, query).await?;
    let engine = Arc::clone(&session.shared.query);
    let types = parameters::types(&parameters);
    let plan = engine.plan(Box::new(query.clone()), items, &reader.session(), &reader, &types)?;
    let values = parameters::values(parameters);
    let rows = bounded(session, engine.execute(&plan, values)).await?;
    Ok((plan.columns, rows))
}

/// EXPLAIN.
///
/// # Errors
/// Those of planning.
pub async fn explain(
    session: &mut Session,
    statement: &Statement,
    analyze: bool,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    use freshet_query::parser::InsertSource;
    let query = match statement {
        Statement::Query(query) => query,
        Statement::Insert(insert) => match &insert.source {
            InsertSource::Query(query) => query,
            InsertSource::Values(rows) => {
                let line = format!("Insert {} rows of values into the log", rows.len());
                return Ok(lines(vec![line]));
            }
        },
        _ => bail!(NotSupported, "EXPLAIN explains SELECT and INSERT"),
    };
    let reader = Reader::new(session).await?;
    let engine = Arc::clone(&session.shared.query);
    let types = parameters::types(&parameters);
    let plan = engine.plan(query.clone(), &[], &reader.session(), &reader, &types)?;
    match analyze {
        true => engine.analyze(&plan).await.map(lines),
        false => engine.explain(&plan).await.map(lines),
    }
}

fn lines(lines: Vec<String>) -> Reply {
    const NAME: &str = "Explain String(Freshet)";
    let rows = lines.into_iter().map(|line| vec![Some(line)]).collect::<Vec<_>>();
    Reply::Table(vec![ResultColumn::text(NAME)], text_batch(&[NAME], &rows))
}

/// The values of expressions that stand outside of a query.
///
/// # Errors
/// Those of planning and executing.
pub async fn evaluate(
    session: &mut Session,
    exprs: Vec<Expr>,
    parameters: Vec<Parameter>,
) -> Result<(Vec<ResultColumn>, RecordBatch)> {
    let query = parameters::select_of(exprs);
    let (columns, rows) = run(session, &query, &[], parameters).await?;
    let batches = bounded(session, rows.collect()).await?;
    match batches.into_iter().find(|batch| batch.num_rows() > 0) {
        Some(batch) => Ok((columns, batch)),
        None => bail!(Unknown, "an expression gave no value"),
    }
}

/// The value of one expression, as variables hold it.
///
/// # Errors
/// As [`evaluate`].
pub async fn value(
    session: &mut Session,
    expr: &Expr,
    parameters: Vec<Parameter>,
) -> Result<Value> {
    if let Some(value) = literal(expr) {
        return Ok(value);
    }
    let (columns, batch) = evaluate(session, vec![expr.clone()], parameters).await?;
    let cells = Cells::of(&batch, &columns)?;
    Ok(cell_value(&cells[0], 0))
}

/// The value of a literal, for which nothing has to be planned.
fn literal(expr: &Expr) -> Option<Value> {
    let Expr::Value(value) = expr else { return None };
    Some(match &value.value {
        ast::Value::Null => Value::Null,
        ast::Value::Boolean(on) => Value::Int((*on).into()),
        ast::Value::Number(digits, _) => Value::Int(digits.parse().ok()?),
        ast::Value::SingleQuotedString(text) => Value::Text(text.clone()),
        _ => return None,
    })
}

fn cell_value(cells: &Cells, row: usize) -> Value {
    if cells.is_null(row) {
        return Value::Null;
    }
    match cells {
        Cells::Bool(values) => Value::Int(values.value(row).into()),
        Cells::Int(values) => Value::Int(values.value(row)),
        Cells::UInt(values) => Value::UInt(values.value(row)),
        Cells::Float(values) => Value::Double(values.value(row).into()),
        Cells::Double(values, _) => Value::Double(values.value(row)),
        _ => {
            let mut text = Vec::new();
            cells.text(row, &mut text);
            Value::Text(String::from_utf8_lossy(&text).into_owned())
        }
    }
}

/// COM_STMT_PREPARE of anything but an INSERT of literals.
///
/// # Errors
/// 1064, unknown names, 1295 for several statements at once.
pub async fn prepare(session: &mut Session, sql: String, parameters: u16) -> Result<Prepared> {
    let mut statements = parse(&sql, session.settings.mode)?;
    if statements.len() != 1 {
        bail!(
            CannotPrepare,
            "This command is not supported in the prepared statement protocol yet"
        );
    }
    let parsed = statements.remove(0);
    let mut prepared = PreparedQuery { parsed, plan: None, columns: Vec::new(), cursor: None };
    prepared.columns = columns_of(session, &mut prepared).await?;
    Ok(Prepared::new(sql, parameters, Kind::Other(Box::new(prepared))))
}

/// The columns of a statement's result, planned with values yet to come.
async fn columns_of(
    session: &mut Session,
    prepared: &mut PreparedQuery,
) -> Result<Vec<ResultColumn>> {
    if let Statement::Act(query) = &prepared.parsed.statement {
        return columns_of_acting(session, query, &prepared.parsed).await;
    }
    let Statement::Query(_) = &prepared.parsed.statement else { return Ok(Vec::new()) };
    let types = vec![None; prepared.parsed.parameters];
    let reader = Reader::new(session).await?;
    match plan(session, &reader, prepared, types) {
        Ok(plan) => Ok(plan.columns),
        // Types that follow from values alone are known when the values are.
        Err(error) if prepared.parsed.parameters > 0 && error.code().errno() == 1105 => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// The columns of what acts, as numbers in the place of its calls tell.
async fn columns_of_acting(
    session: &mut Session,
    query: &Query,
    parsed: &Parsed,
) -> Result<Vec<ResultColumn>> {
    let zeros = vec![Some(0); actions::calls(query)?.len()];
    let query = Box::new(actions::with_values(query.clone(), &zeros));
    let reader = Reader::new(session).await?;
    let types = vec![None; parsed.parameters];
    let engine = &session.shared.query;
    Ok(engine.plan(query, &parsed.items, &reader.session(), &reader, &types)?.columns)
}

/// The plan of a prepared query, over what the reader reads: the one at hand where it is good
/// there, else a new one.
fn plan(
    session: &Session,
    reader: &Reader,
    prepared: &mut PreparedQuery,
    types: Vec<Option<DataType>>,
) -> Result<Plan> {
    let generation = session.shared.engine.catalog_generation();
    let settings = session.settings.version;
    let at_hand = prepared.plan.as_ref().filter(|cached| {
        cached.generation == generation
            && cached.settings == settings
            && cached.database == session.database
            && cached.types == types
    });
    // The catalog is today's and the snapshot may be of yesterday, or the other way round.
    if let Some(cached) = at_hand
        && let Some(plan) = cached.plan.bound(reader)?
    {
        return Ok(plan);
    }
    let Statement::Query(query) = &prepared.parsed.statement else {
        unreachable!("only queries are planned ahead")
    };
    let engine = &session.shared.query;
    let items = &prepared.parsed.items;
    let plan = engine.plan(query.clone(), items, &reader.session(), reader, &types)?;
    prepared.plan = match plan.of_session {
        true => None,
        false => {
            // A statement may stay prepared for days, and keeps nothing alive.
            let (plan, database) = (plan.clone().unbound()?, session.database.clone());
            Some(CachedPlan { plan, generation, settings, database, types })
        }
    };
    Ok(plan)
}

/// COM_STMT_EXECUTE of anything the short road does not take.
pub async fn execute(
    session: &mut Session,
    statement: &mut Prepared,
    parameters: Vec<Parameter>,
    cursor: bool,
    output: &mut Output,
) -> std::result::Result<(), Gone> {
    let done = match &mut statement.kind {
        Kind::Other(prepared) => {
            prepared.cursor = None;
            match &prepared.parsed.statement {
                query @ Statement::Query(_) => {
                    super::count(session, query);
                    let began = super::began(session, query);
                    let done = execute_query(session, prepared, parameters, cursor, output).await;
                    super::observe(session, began);
                    done
                }
                _ => {
                    let parsed = prepared.parsed.clone();
                    super::one(session, &parsed, parameters, Encoding::Binary, false, output).await
                }
            }
        }
        // Its VALUES hold an expression: the planner's, each time.
        Kind::Insert(_) => match parse(&statement.sql, session.settings.mode) {
            Ok(parsed) => {
                let first = &parsed[0];
                super::one(session, first, parameters, Encoding::Binary, false, output).await
            }
            Err(error) => Ok(Err(error)),
        },
    };
    if let Err(error) = done? {
        session.failed(&error);
        put_error(&mut output.writer, &error);
    }
    Ok(())
}

async fn execute_query(
    session: &mut Session,
    prepared: &mut PreparedQuery,
    parameters: Vec<Parameter>,
    cursor: bool,
    output: &mut Output,
) -> std::result::Result<Result<()>, Gone> {
    session.diagnostics.clear();
    let begun = begin(session, prepared, parameters).await;
    let (columns, rows) = match begun {
        Ok(begun) => begun,
        Err(error) => return Ok(Err(error)),
    };
    if !cursor {
        let reply = Reply::Stream(columns, rows);
        return super::answer(session, reply, Encoding::Binary, false, output).await;
    }
    let batches = match kept(session, rows).await {
        Ok(batches) => batches,
        Err(error) => return Ok(Err(error)),
    };
    let definitions = results::definitions(&columns, session);
    output.writer.cursor(&definitions, session.status(), session.diagnostics.count_u16());
    prepared.cursor = Some(CursorRows { columns, batches, row: 0 });
    Ok(Ok(()))
}

/// All rows of a result, for a cursor.
async fn kept(session: &Session, mut rows: freshet_query::Rows) -> Result<VecDeque<RecordBatch>> {
    let (mut batches, mut bytes) = (VecDeque::new(), 0);
    while let Some(batch) = bounded(session, rows.next()).await? {
        bytes += batch.get_array_memory_size();
        if bytes > CURSOR_BYTES_MAX {
            bail!(
                QueryMemory,
                "the result has more than the {CURSOR_BYTES_MAX} bytes that a cursor holds at \
                 most; read it without a cursor"
            );
        }
        batches.push_back(batch);
    }
    Ok(batches)
}

async fn begin(
    session: &mut Session,
    prepared: &mut PreparedQuery,
    parameters: Vec<Parameter>,
) -> Result<(Vec<ResultColumn>, freshet_query::Rows)> {
    session.patience = Patience::of_query(&session.settings, &**session.shared.engine.clock());
    let reader = Reader::new(session).await?;
    let plan = plan(session, &reader, prepared, parameters::types(&parameters))?;
    let engine = Arc::clone(&session.shared.query);
    let values = parameters::values(parameters);
    let rows = bounded(session, engine.execute(&plan, values)).await?;
    Ok((plan.columns, rows))
}

/// Rows of a cursor that were not fetched yet.
pub struct CursorRows {
    columns: Vec<ResultColumn>,
    batches: VecDeque<RecordBatch>,
    row: usize,
}

impl CursorRows {
    /// Writes the next rows, at most `count`.
    ///
    /// # Errors
    /// A type that no expression of MySQL has.
    pub fn fetch(
        &mut self,
        count: u32,
        status: StatusFlags,
        writer: &mut PacketWriter,
    ) -> Result<()> {
        let mut left = count as usize;
        while left > 0 {
            let Some(batch) = self.batches.front() else { break };
            let taken = left.min(batch.num_rows() - self.row);
            let slice = batch.slice(self.row, taken);
            results::rows(writer, &slice, &self.columns, Encoding::Binary)?;
            left -= taken;
            self.row += taken;
            if self.row == batch.num_rows() {
                self.batches.pop_front();
                self.row = 0;
            }
        }
        let last = self.batches.is_empty();
        let status = status | StatusFlags::CURSOR_EXISTS;
        writer.result_end(status.set(StatusFlags::LAST_ROW_SENT, last), 0);
        Ok(())
    }
}
