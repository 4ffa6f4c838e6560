//! SELECT: snapshot, plan, result.

use std::collections::VecDeque;
use std::sync::Arc;

use freshet_base::{Error, Lsn, Result, TableId, bail, err};
use freshet_ingest::LoadTarget;
use freshet_query::actions::{self, Action, Returned};
use freshet_query::change::Change;
use freshet_query::clauses::located;
use freshet_query::engine::{Plan, PlanRequest, StatementContext};
use freshet_query::evaluation::{Losses, Warnings};
use freshet_query::parser::{Parsed, Statement};
use freshet_query::result::{Cells, ResultColumn};
use freshet_query::syntax::Select;
use freshet_query::through::Through;
use freshet_query::{DataType, Parameter, Portion, RecordBatch, parameters};
use freshet_wire::Param;

use super::opening;
use crate::accounts::SessionMemory;
use crate::as_of::AsOf;
use crate::digests::Asked;
use crate::given::GivenRows;
use crate::mysql::cursor::CursorRows;
use crate::mysql::prepared::{CachedPlan, Kind, Prepared, PreparedQuery};
use crate::mysql::results::{self, Encoding, Gone, Output};
use crate::numbers;
use crate::point;
use crate::reader::Reader;
use crate::reply::{Reply, bounded};
use crate::session::Session;
use crate::settings::StatementDeadline;
use crate::watched::{cell_value, kept_collation};

/// The maximum size of a cursor's rows.
const CURSOR_BYTES_MAX: usize = 256 << 20;

/// Converts a parameter of the protocol to one of the planner.
pub fn parameter(param: Param<'_>) -> Parameter {
    match param {
        Param::Null => Parameter::Null,
        Param::Int(value) => Parameter::Int(value),
        Param::UInt(value) => Parameter::UInt(value),
        Param::Float(value) => Parameter::Double(value.into()),
        Param::Double(value) => Parameter::Double(value),
        Param::Decimal(digits) => parameters::decimal(digits),
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

/// Runs a SELECT given as text.
///
/// # Errors
/// Those of planning.
pub async fn select(
    session: &mut Session,
    query: &Select,
    items: &[String],
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let part = portion(session, query);
    select_part(session, query, items, parameters, part).await
}

/// As [`select`], of which these rows are returned.
async fn select_part(
    session: &mut Session,
    query: &Select,
    items: &[String],
    parameters: Vec<Parameter>,
    part: Portion,
) -> Result<Reply> {
    let origin = Reader::entering(session, query).await?;
    select_from(session, (query, items), origin, parameters, part).await
}

/// As [`select`], of what `origin` reads.
///
/// # Errors
/// Those of planning.
pub async fn select_from(
    session: &mut Session,
    (query, items): (&Select, &[String]),
    origin: Arc<Reader>,
    parameters: Vec<Parameter>,
    part: Portion,
) -> Result<Reply> {
    let asked = asked(origin, query.clone(), &parameters);
    let losses = session.settings.losses_queries;
    let asked = PlanRequest { texts: items.to_vec(), losses, ..asked };
    let (columns, rows) = begun(session, asked, parameters).await?;
    Ok(Reply::Stream(columns, rows.part(part), None))
}

/// The rows that are returned: as many as `sql_select_limit` says, if the query has no LIMIT.
pub fn portion(session: &Session, query: &Select) -> Portion {
    match query.is_limited() {
        true => Portion::ALL,
        false => Portion::first(session.settings.select_limit),
    }
}

/// As [`select`], and keeps what is needed to answer the next text of this shape by a key alone.
///
/// # Errors
/// As [`select`].
pub async fn select_text(
    session: &mut Session,
    query: &Select,
    parsed: &Parsed,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    if let Some((all, part)) = query.counted() {
        return select_part(session, &all, &parsed.items, parameters, part).await;
    }
    let reply = select(session, query, &parsed.items, parameters).await?;
    if let Reply::Stream(columns, ..) = &reply {
        point::learn(session, &parsed.text, columns);
        numbers::learn(session, &parsed.text, columns);
    }
    Ok(reply)
}

/// SELECT .. INTO of user variables.
///
/// # Errors
/// Those of the query; 1222 for another number of columns, 1172 for more than one row.
pub async fn select_into(
    session: &mut Session,
    parsed: &Parsed,
    query: &Select,
    variables: &[String],
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let origin = Reader::entering(session, query).await?;
    let asked = asked(origin, query.clone(), &parameters);
    let losses = session.settings.losses_queries;
    let asked = PlanRequest { texts: parsed.items.clone(), losses, ..asked };
    let (columns, mut rows) = begun(session, asked, parameters).await?;
    if columns.len() != variables.len() {
        bail!(
            SetColumns,
            "The used SELECT statements have a different number of columns: {} for {} variables",
            columns.len(),
            variables.len()
        );
    }
    let mut found = None;
    while let Some(batch) = bounded(session, rows.next()).await? {
        if batch.num_rows() > 1 || (batch.num_rows() > 0 && found.is_some()) {
            bail!(TooManyRows, "Result consisted of more than one row");
        }
        if batch.num_rows() > 0 {
            found = Some(batch);
        }
    }
    session.evaluated(rows.warnings())?;
    let Some(batch) = found else {
        let message = "No data - zero rows fetched, selected, or processed";
        session.diagnostics.push("Warning", 1329, message.to_owned());
        return Ok(Reply::done());
    };
    let cells = Cells::of(&batch, &columns)?;
    for ((name, column), cells) in variables.iter().zip(&columns).zip(&cells) {
        let collation = kept_collation(session, column);
        session.set_user_variable(name, (cell_value(cells, 0), collation))?;
    }
    Ok(Reply::Done { affected: 1 })
}

/// Plans a query whose rows are stored and starts it.
///
/// # Errors
/// Those of planning; 1317 and 3024.
pub async fn run(
    session: &mut Session,
    query: &Select,
    parameters: Vec<Parameter>,
    losses: Losses,
) -> Result<(Vec<ResultColumn>, freshet_query::Rows)> {
    let origin = Reader::entering(session, query).await?;
    let asked = PlanRequest { losses, ..asked(origin, query.clone(), &parameters) };
    begun(session, asked, parameters).await
}

fn view_altered(view: &Through) -> Error {
    let (database, view) = &view.views[0];
    err!(
        ViewInvalid,
        "View '{database}.{}' was altered while the statement, or its transaction, ran: COMMIT or \
         ROLLBACK first",
        view.name
    )
}

/// As [`run`], for the rows of a table that a statement changes, with the LSN up to which it reads
/// all; `None` if what it would read has other columns than the target, behind an ALTER TABLE that
/// is just being settled, or is another table by now.
///
/// # Errors
/// As [`run`].
pub async fn find(
    session: &mut Session,
    query: &Select,
    parameters: Vec<Parameter>,
    (target, change, reads): (&LoadTarget, &Change, bool),
) -> Result<Option<(Vec<ResultColumn>, freshet_query::Rows, Lsn)>> {
    let losses = session.settings.losses(target.table().form);
    session.enter_group(true).await?;
    let origin = match (change.view.as_deref(), reads) {
        (Some(view), _) => Reader::through(session, view).await?,
        (None, true) => Reader::new(session).await?,
        (None, false) => Reader::finding(session, target.named()).await?,
    };
    if session.transactions.open().is_none() && !origin.has_columns_of(target)? {
        return Ok(None);
    }
    // Rows are found by name, and changed in the table that had the name when it was resolved.
    if origin.names_other(change, target) {
        if session.transactions.open().is_some() {
            bail!(
                Deadlock,
                "table '{}' was renamed, or another one got its name, since the transaction began \
                 to read; try restarting transaction",
                change.target.table
            );
        }
        return Ok(None);
    }
    // Another view of the same name would be of other rows.
    if let Some(view) = change.view.as_deref().filter(|view| !origin.has_views(view)) {
        // A transaction goes on reading the one that it began with.
        if session.transactions.open().is_some() {
            return Err(view_altered(view));
        }
        return Ok(None);
    }
    let as_of = origin.as_of();
    let asked = PlanRequest { losses, ..asked(origin, query.clone(), &parameters) };
    let (columns, rows) = begun(session, asked, parameters).await?;
    Ok(Some((columns, rows, as_of)))
}

/// Starts a query of rows by a constraint of their table, which depends on no session.
///
/// # Errors
/// As [`run`].
pub async fn check(
    session: &mut Session,
    query: &Select,
    table: TableId,
) -> Result<freshet_query::Rows> {
    let origin = Reader::checking(session, table).await?;
    begun(session, asked(origin, query.clone(), &[]), Vec::new()).await.map(|(_, rows)| rows)
}

/// Plans a query of a table with the condition of a row policy; it takes no right to read it.
///
/// # Errors
/// As [`run`].
pub async fn try_filter(
    session: &mut Session,
    statement: &Statement,
    table: TableId,
    condition: &str,
) -> Result<()> {
    let Statement::Query(query) = statement else { bail!(Internal, "it tries out a query") };
    let origin = Reader::trying(session, table, condition).await?;
    let planned = session.shared.query.explain(asked(origin, query.clone(), &[]), Vec::new());
    bounded(session, planned).await?;
    // A transaction opened by planning has an older snapshot.
    session.transactions.roll_back();
    Ok(())
}

/// A query whose items have no texts, and which loses what it loses.
pub(super) fn asked(origin: Arc<Reader>, query: Select, parameters: &[Parameter]) -> PlanRequest {
    let (texts, parameters) = (Vec::new(), parameters::types(parameters));
    PlanRequest { query, texts, parameters, origin, losses: Losses::default() }
}

pub(super) async fn begun(
    session: &Session,
    asked: PlanRequest,
    parameters: Vec<Parameter>,
) -> Result<(Vec<ResultColumn>, freshet_query::Rows)> {
    let values = parameters::values(parameters);
    bounded(session, session.query().select(asked, values)).await
}

/// What a query over given rows returns.
pub struct Over {
    pub columns: Vec<ResultColumn>,
    pub batches: Vec<RecordBatch>,
    pub warnings: Warnings,
}

/// Runs a query with given rows in place of those of a table.
///
/// # Errors
/// Those of planning and executing; 1317 and 3024; 1356 where the view through which the rows were
/// found is another one now.
pub async fn over(
    session: &mut Session,
    query: &Select,
    given: GivenRows,
    parameters: Vec<Parameter>,
    losses: Losses,
) -> Result<Over> {
    let view = given.view.clone();
    let origin = Reader::over(session, given).await?;
    if let Some(view) = view.filter(|view| !origin.has_views(view)) {
        return Err(view_altered(&view));
    }
    let asked = PlanRequest { losses, ..asked(origin, query.clone(), &parameters) };
    let (columns, mut rows) = begun(session, asked, parameters).await?;
    let batches = bounded(session, rows.collect()).await?;
    Ok(Over { columns, batches, warnings: rows.warnings() })
}

/// The number of rows of a table.
///
/// # Errors
/// When it cannot be read.
pub async fn live_rows(session: &mut Session, table: TableId) -> Result<u64> {
    let reader = Reader::new(session).await?;
    bounded(session, reader.live_rows(table)).await
}

/// COM_STMT_PREPARE of anything but an INSERT of literals.
///
/// # Errors
/// 1064, unknown names, 1295 for several statements.
pub async fn prepare(session: &mut Session, sql: String, parameters: u16) -> Result<Prepared> {
    let super::ParsedText { sql, mut statements, memory } = super::parse_text(session, sql).await?;
    if statements.len() != 1 || !statements[0].statement.can_be_prepared() {
        bail!(
            CannotPrepare,
            "This command is not supported in the prepared statement protocol yet"
        );
    }
    let parsed = statements.remove(0);
    if !parsed.statement.may_change_password() {
        session.require_password()?;
    }
    let columns = Vec::new();
    let mut prepared =
        PreparedQuery { parsed, plan: None, point: None, columns, cursor: None, memory };
    session.statement_deadline =
        StatementDeadline::of_query(&session.settings, &**session.shared.engine.clock());
    prepared.columns = columns_of(session, &mut prepared).await?;
    Prepared::new(sql, parameters, Kind::Other(Box::new(prepared)), session)
}

/// The columns of a statement's result, planned without parameter values.
async fn columns_of(
    session: &mut Session,
    prepared: &mut PreparedQuery,
) -> Result<Vec<ResultColumn>> {
    if let Statement::SideEffects(query) = &prepared.parsed.statement {
        return columns_of_acting(session, query, &prepared.parsed).await;
    }
    let Statement::Query(_) = &prepared.parsed.statement else { return Ok(Vec::new()) };
    let types = vec![None; prepared.parsed.parameters];
    let reader = Reader::new(session).await?;
    match plan(session, &reader, prepared, types).await {
        Ok(plan) => Ok(plan.columns),
        // Types that depend on the values are known at execution.
        Err(error) if prepared.parsed.parameters > 0 && error.code().errno() == 1105 => {
            Ok(Vec::new())
        }
        Err(error) => Err(located(error, &prepared.parsed.statement)),
    }
}

/// The columns of a SELECT with side effects, planned with numbers in place of its calls.
async fn columns_of_acting(
    session: &mut Session,
    query: &Select,
    parsed: &Parsed,
) -> Result<Vec<ResultColumn>> {
    let zero = |call: actions::Call| match call.action {
        Action::LoadFile => Returned::Bytes(Vec::new()),
        _ => Returned::Number(0),
    };
    let zeros = actions::calls(query)?.into_iter().map(zero).collect();
    let query = actions::with_values(query.clone(), zeros);
    let asked = PlanRequest {
        query,
        texts: parsed.items.clone(),
        parameters: vec![None; parsed.parameters],
        origin: Reader::new(session).await?,
        losses: Losses::default(),
    };
    let plan = bounded(session, session.shared.query.plan(asked)).await?;
    Ok(plan.columns)
}

/// The plan of a prepared query for the reader's snapshot: the cached one if it is valid, else a
/// new one.
async fn plan(
    session: &Session,
    reader: &Arc<Reader>,
    prepared: &mut PreparedQuery,
    types: Vec<Option<DataType>>,
) -> Result<Plan> {
    let as_of = AsOf::now(session);
    let at_hand = prepared.plan.as_ref().filter(|cached| {
        cached.as_of.is_now(session) && cached.database == session.database && cached.types == types
    });
    // The cached plan is for the current catalog, and the snapshot may be older, or the other way
    // round.
    if let Some(cached) = at_hand
        && let Some(plan) = cached.plan.bound(&**reader)?
    {
        return Ok(plan);
    }
    let Statement::Query(query) = &prepared.parsed.statement else {
        unreachable!("only queries are planned ahead")
    };
    let asked = PlanRequest {
        query: query.clone(),
        texts: prepared.parsed.items.clone(),
        parameters: types.clone(),
        origin: Arc::clone(reader) as Arc<dyn StatementContext>,
        losses: session.settings.losses_queries,
    };
    let plan = bounded(session, session.shared.query.plan(asked)).await?;
    point::learn(session, &prepared.parsed.text, &plan.columns);
    prepared.plan = match plan.of_session {
        true => None,
        false => {
            // A statement may stay prepared for days, so its plan must not keep a snapshot alive.
            let (plan, database) = (plan.clone().unbound()?, session.database.clone());
            Some(CachedPlan { plan, as_of, database, types })
        }
    };
    Ok(plan)
}

/// COM_STMT_EXECUTE of a statement outside of the fast path.
pub async fn execute(
    session: &mut Session,
    statement: &mut Prepared,
    parameters: Vec<Parameter>,
    cursor: bool,
    output: &mut Output,
) -> std::result::Result<(), Gone> {
    let moves = statement.kind.moves_session();
    let current = session.database.clone();
    if !moves {
        session.database = statement.database.clone();
    }
    let done = execute_in(session, statement, parameters, cursor, output).await;
    if !moves {
        session.database = current;
    }
    if let Err(error) = done? {
        super::failed(session, output, &error);
    }
    Ok(())
}

/// As [`execute`], in the database that the statement was prepared in.
async fn execute_in(
    session: &mut Session,
    statement: &mut Prepared,
    parameters: Vec<Parameter>,
    cursor: bool,
    output: &mut Output,
) -> std::result::Result<Result<()>, Gone> {
    match &mut statement.kind {
        Kind::Other(prepared) => {
            prepared.cursor = None;
            match &prepared.parsed.statement {
                query @ Statement::Query(select) if !select.locks() => {
                    opening::count(session, query);
                    let (began, begun) = (opening::began(session, query), session.clock_now());
                    let done = execute_query(session, prepared, parameters, cursor, output).await;
                    let sql = prepared.parsed.text.as_bytes();
                    opening::count_digest(session, &Asked::of(sql, sql), begun, &done);
                    session.end_statement();
                    opening::observe(session, began);
                    done
                }
                _ => {
                    let parsed = prepared.parsed.clone();
                    super::one(session, &parsed, parameters, Encoding::Binary, false, output).await
                }
            }
        }
        // Its VALUES contain an expression, so it is planned at each execution.
        Kind::Insert(_) => match super::parse_text(session, statement.sql.clone()).await {
            Ok(text) => {
                let first = &text.statements[0];
                super::one(session, first, parameters, Encoding::Binary, false, output).await
            }
            Err(error) => Ok(Err(error)),
        },
    }
}

async fn execute_query(
    session: &mut Session,
    prepared: &mut PreparedQuery,
    parameters: Vec<Parameter>,
    cursor: bool,
    output: &mut Output,
) -> std::result::Result<Result<()>, Gone> {
    session.diagnostics.clear();
    if let Err(error) = session.require_password() {
        return Ok(Err(error));
    }
    opening::begin_hint(session, &prepared.parsed);
    let begun = begin(session, prepared, parameters).await;
    let (columns, rows) = match begun {
        Ok(begun) => begun,
        Err(error) => return Ok(Err(error)),
    };
    if !cursor {
        let reply = Reply::Stream(columns, rows, None);
        return super::answer(session, reply, Encoding::Binary, false, output).await;
    }
    let (batches, memory) = match kept(session, rows).await {
        Ok(kept) => kept,
        Err(error) => return Ok(Err(error)),
    };
    let definitions = results::definitions(&columns, session);
    output.writer.cursor(&definitions, session.status(), session.diagnostics.count_u16());
    prepared.cursor = Some(CursorRows::new(columns, batches, memory));
    Ok(Ok(()))
}

/// Collects all rows of a result for a cursor.
async fn kept(
    session: &mut Session,
    mut rows: freshet_query::Rows,
) -> Result<(VecDeque<RecordBatch>, SessionMemory)> {
    let (mut batches, mut bytes) = (VecDeque::new(), 0);
    let mut memory = SessionMemory::new(&session.usage);
    while let Some(batch) = bounded(session, rows.next()).await? {
        bytes += batch.get_array_memory_size();
        if bytes > CURSOR_BYTES_MAX {
            bail!(
                QueryMemory,
                "the result has more than the {CURSOR_BYTES_MAX} bytes that a cursor holds at \
                 most; read it without a cursor"
            );
        }
        memory.resize(bytes as u64)?;
        batches.push_back(batch);
    }
    session.evaluated(rows.warnings())?;
    Ok((batches, memory))
}

async fn begin(
    session: &mut Session,
    prepared: &mut PreparedQuery,
    mut parameters: Vec<Parameter>,
) -> Result<(Vec<ResultColumn>, freshet_query::Rows)> {
    parameters::count_rows(&mut parameters, &prepared.parsed.limits)?;
    session.statement_deadline =
        StatementDeadline::of_query(&session.settings, &**session.shared.engine.clock());
    let Statement::Query(query) = &prepared.parsed.statement else {
        unreachable!("only queries are executed here")
    };
    session.enter_for(query).await?;
    let portion = portion(session, query);
    let reader = Reader::new(session).await?;
    let plan = plan(session, &reader, prepared, parameters::types(&parameters)).await?;
    let rows = session.query().execute(&plan, parameters::values(parameters));
    let rows = bounded(session, rows).await?;
    Ok((plan.columns, rows.part(portion)))
}
