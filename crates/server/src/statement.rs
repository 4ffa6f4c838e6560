//! Statements outside of the fast path: parsed, run on the statement threads, with their results
//! streamed back in pieces.

mod act;
pub mod admin;
pub mod alone;
mod assign;
mod assigned;
mod bin;
pub mod by_key;
mod carried;
pub mod cells;
mod change;
mod changed;
mod ddl;
mod diagnostics;
mod duplicate;
mod explain;
mod insert;
mod load;
mod lock;
mod named;
mod nested;
mod opening;
mod outfile;
mod overwrite;
mod query;
mod result_columns;
mod roles;
mod sequence;
mod set;
mod several;
mod tending;
mod transact;
mod unkeyed;
mod users;
mod values;
mod views;
mod workload;

use std::panic::AssertUnwindSafe;

use freshet_base::{Error, ErrorCode, Result, bail, err};
use freshet_query::clauses::located;
use freshet_query::evaluation::Memory;
use freshet_query::parser::{Insert, Into, Parsed, Show, Statement, TableName, TextSize, parse};
use freshet_query::result::ResultColumn;
use freshet_query::syntax::Select;
use freshet_query::{Parameter, Rows, parameters};
use freshet_wire::{Execute, OkPacket, Params, StateChange, StatusFlags};
use futures::FutureExt;

pub use crate::mysql::results::Output;
pub use duplicate::insert_or_update;

use crate::again::{Again, may_be_run_again};
use crate::digests::Asked;
use crate::mysql::prepared::{Prepared, protocol};
use crate::mysql::results::{self, Encoding, Gone};
use crate::mysql::socket::put_error;
use crate::reply::{Reply, bounded};
use crate::session::Session;
use crate::settings::StatementDeadline;
use crate::show;
use crate::watched::Watched;

/// Texts up to this size are parsed on the current thread, which takes about a millisecond.
const TEXT_BYTES_SHORT: usize = 64 << 10;
/// The memory for parsing shorter texts is not accounted for.
const TEXT_BYTES_UNCOUNTED: usize = 4 << 10;

/// What a connection passes to the statement threads.
pub enum Request {
    /// COM_QUERY.
    Query(String),
    /// COM_STMT_PREPARE.
    Prepare { sql: String, parameters: u16 },
    /// COM_STMT_EXECUTE.
    Execute {
        id: u32,
        /// Returned to the connection afterwards.
        statement: Box<Prepared>,
        parameters: Vec<Parameter>,
        /// Whether to open a cursor.
        cursor: bool,
    },
    /// COM_FIELD_LIST.
    FieldList {
        table: String,
        /// A LIKE pattern for column names.
        pattern: String,
    },
}

/// What the connection gets back.
pub struct Answered {
    pub session: Box<Session>,
    /// The last packets of the answer.
    pub bytes: Vec<u8>,
    /// The sequence id after them.
    pub sequence: u8,
    /// A new prepared statement; the connection assigns its id and answers.
    pub prepared: Option<Box<Prepared>>,
    /// The prepared statement that was executed.
    pub lent: Option<(u32, Box<Prepared>)>,
}

/// Runs the request of a connection and writes the answer.
pub async fn run(
    mut session: Box<Session>,
    mut request: Request,
    multi: bool,
    mut output: Output,
) -> Answered {
    let now = session.shared.engine.clock().now();
    session.process.begin(request.text(), now);
    let carried_out = carry_out(&mut session, &mut request, multi, &mut output);
    let done = match AssertUnwindSafe(carried_out).catch_unwind().await {
        Ok(done) => done,
        Err(panic) => {
            // It is unknown how far the open transaction got.
            session.transactions.roll_back();
            session.end_statement();
            failed(&mut session, &mut output, &freshet_query::panicked(&*panic));
            Ok(None)
        }
    };
    // The connection notices itself that the client has disconnected.
    let prepared = done.unwrap_or_else(|Gone| {
        session.process.kill(true);
        None
    });
    let lent = match request {
        Request::Execute { id, statement, .. } => Some((id, statement)),
        _ => None,
    };
    // What was committed must be durable before it is acknowledged.
    session.wait_durable().await;
    let sequence = output.writer.sequence();
    Answered { session, bytes: output.writer.take_bytes(), sequence, prepared, lent }
}

/// Runs the request; returns a statement that was prepared.
async fn carry_out(
    session: &mut Session,
    request: &mut Request,
    multi: bool,
    output: &mut Output,
) -> std::result::Result<Option<Box<Prepared>>, Gone> {
    if let Err(error) = session.shared.engine.failpoints().pass("statement") {
        failed(session, output, &Error::io("statement", error));
        return Ok(None);
    }
    match request {
        Request::Query(sql) => texts(session, std::mem::take(sql), multi, output).await?,
        Request::Prepare { sql, parameters } => {
            match query::prepare(session, std::mem::take(sql), *parameters).await {
                Ok(statement) => return Ok(Some(Box::new(statement))),
                Err(error) => failed(session, output, &error),
            }
        }
        Request::Execute { statement, parameters, cursor, .. } => {
            let parameters = std::mem::take(parameters);
            query::execute(session, statement, parameters, *cursor, output).await?;
        }
        Request::FieldList { table, pattern } => {
            if let Err(error) = show::field_list(session, table, pattern, &mut output.writer) {
                failed(session, output, &error);
            }
        }
    }
    Ok(None)
}

impl Request {
    /// The statement for the process list.
    pub fn text(&self) -> &str {
        match self {
            Self::Query(sql) | Self::Prepare { sql, .. } => sql,
            Self::Execute { statement, .. } => &statement.sql,
            Self::FieldList { .. } => "COM_FIELD_LIST",
        }
    }
}

/// Records an error and answers with it. Details of an internal error go to the log; the client
/// gets the statement's id, which the log line also has.
fn failed(session: &mut Session, output: &mut Output, error: &Error) {
    let named = (error.code() == ErrorCode::Internal).then(|| {
        let statement = session.process.statement();
        tracing::error!(statement, %error, "a statement ended by a bug of the server");
        err!(Internal, "Internal error in statement {statement}; the server's log says more of it")
    });
    let error = named.as_ref().unwrap_or(error);
    // Rows in the buffer belong to the failed statement and are discarded.
    session.buffer.rest();
    session.failed(error);
    match session.diagnostics.signalled() {
        Some((errno, state)) => output.writer.err(errno, state, error.message()),
        None => put_error(&mut output.writer, error),
    }
}

/// Runs the statements of a text in order, up to the first that fails.
async fn texts(
    session: &mut Session,
    sql: String,
    multi: bool,
    output: &mut Output,
) -> std::result::Result<(), Gone> {
    let (statements, _memory) = match parsed(session, sql, multi).await {
        Ok(parsed) => parsed,
        Err(error) => {
            session.diagnostics.clear();
            failed(session, output, &error);
            return Ok(());
        }
    };
    let mut left = statements.len();
    for (at, statement) in statements.into_iter().enumerate() {
        left -= 1;
        let more = left > 0;
        // The first is counted with its command.
        if at > 0
            && let Err(error) = session.count_query()
        {
            failed(session, output, &error);
            return Ok(());
        }
        let done = match &statement.statement {
            Statement::Execute { name, using } => {
                named::execute(session, name, using, more, output).await?
            }
            _ => one(session, &statement, Vec::new(), Encoding::Text, more, output).await?,
        };
        match done {
            Ok(()) => {}
            Err(error) => {
                failed(session, output, &error);
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A parsed text.
pub struct ParsedText {
    pub sql: String,
    pub statements: Vec<Parsed>,
    /// The memory of the syntax trees.
    pub memory: Memory,
}

/// Parses a text; a long one on another thread, to keep this one free.
///
/// # Errors
/// Those of the parser; 1038 and 3170 for a text that needs too much memory; 1317 and 3024.
pub async fn parse_text(session: &mut Session, sql: String) -> Result<ParsedText> {
    let mode = session.settings.mode;
    let memory = session.shared.query.memory();
    if sql.len() > TEXT_BYTES_UNCOUNTED {
        let size = TextSize::of(&sql, mode);
        let tokens_max = crate::reader::tokens_max(&session.shared.globals.load());
        if size.tokens > tokens_max {
            bail!(
                TooLarge,
                "The statement has more than {tokens_max} words and signs \
                 (max_statement_tokens); send it in parts"
            );
        }
        memory.grow(size.memory_bytes())?;
    }
    if sql.len() <= TEXT_BYTES_SHORT {
        let statements = parse(&sql, mode)?;
        return Ok(ParsedText { sql, statements, memory });
    }
    session.statement_deadline =
        StatementDeadline::of_query(&session.settings, &**session.shared.engine.clock());
    let parsed = session.shared.query.compute(move || {
        let statements = parse(&sql, mode)?;
        Ok(ParsedText { sql, statements, memory })
    });
    bounded(session, parsed).await
}

async fn parsed(session: &mut Session, sql: String, multi: bool) -> Result<(Vec<Parsed>, Memory)> {
    let ParsedText { statements, memory, .. } = parse_text(session, sql).await?;
    if let (false, [_, second, ..]) = (multi, &statements[..]) {
        let near = second.text.chars().take(80).collect::<String>();
        bail!(
            Syntax,
            "You have an error in your SQL syntax; the client did not ask for several statements \
             in one, near '{near}' at line 1"
        );
    }
    if let Some(with) = statements.iter().find(|statement| statement.parameters > 0) {
        let near = with.text.chars().take(80).collect::<String>();
        bail!(
            Syntax,
            "You have an error in your SQL syntax; only a prepared statement has parameters (?), \
             near '{near}' at line 1"
        );
    }
    Ok((statements, memory))
}

/// Runs one statement and writes its answer.
async fn one(
    session: &mut Session,
    statement: &Parsed,
    parameters: Vec<Parameter>,
    encoding: Encoding,
    more: bool,
    output: &mut Output,
) -> std::result::Result<Result<()>, Gone> {
    let begun = session.clock_now();
    if let Err(error) = opening::begin(session, statement) {
        return Ok(Err(error));
    }
    let began = opening::began(session, &statement.statement);
    let replied = match &statement.statement {
        Statement::LoadData(load) => Box::pin(load::load_data(session, load, output)).await?,
        _ => Box::pin(replied(session, statement, parameters)).await,
    };
    let answered = match replied {
        Ok(reply) => answer(session, reply, encoding, more, output).await,
        Err(error) => Ok(Err(located(error, &statement.statement))),
    };
    if matches!(answered, Ok(Ok(()))) {
        opening::observe(session, began);
    }
    let text = statement.text.as_bytes();
    let asked = match encoding {
        Encoding::Text => Asked::unknown(text),
        // One that is prepared comes again.
        Encoding::Binary => Asked::of(text, text),
    };
    opening::count_digest(session, &asked, begun, &answered);
    session.end_statement();
    answered
}

/// Writes the result of a statement.
async fn answer(
    session: &mut Session,
    reply: Reply,
    encoding: Encoding,
    more: bool,
    output: &mut Output,
) -> std::result::Result<Result<()>, Gone> {
    output.covers(session.acked);
    let bytes_max = session.settings.packet_bytes_max;
    match reply {
        Reply::Done { affected } => {
            let flag = StatusFlags::NONE.set(StatusFlags::MORE_RESULTS_EXISTS, more);
            session.row_count = i64::try_from(affected).unwrap_or(i64::MAX);
            let moved_to = session.moved_to.take();
            output.writer.ok(&OkPacket {
                affected_rows: affected,
                last_insert_id: std::mem::take(&mut session.insert_id),
                status: session.status() | flag,
                warnings: session.diagnostics.count_u16(),
                info: session.info.text(),
                changes: moved_to.as_deref().map(StateChange::Schema).as_slice(),
            });
            Ok(Ok(()))
        }
        Reply::Table(columns, batch) => {
            results::begin(&mut output.writer, &columns, session);
            let written = results::stream(output, &batch, &columns, encoding, bytes_max).await;
            finish(session, written, batch.num_rows() as u64, more, output)
        }
        Reply::Stream(columns, rows, watched) => {
            stream(session, (columns, rows, watched), encoding, more, output).await
        }
    }
}

/// Writes a result that is computed while it is read.
async fn stream(
    session: &mut Session,
    (columns, mut rows, mut watched): (Vec<ResultColumn>, Rows, Option<Watched>),
    encoding: Encoding,
    more: bool,
    output: &mut Output,
) -> std::result::Result<Result<()>, Gone> {
    let bytes_max = session.settings.packet_bytes_max;
    results::begin(&mut output.writer, &columns, session);
    let mut count = 0;
    let written = loop {
        let next = async {
            let batch = rows.next().await?;
            match (batch, &mut watched) {
                (Some(batch), Some(watched)) => watched.pass(batch, &columns).map(Some),
                (batch, _) => Ok(batch),
            }
        };
        let batch = match bounded(session, next).await {
            Ok(Some(batch)) => batch,
            Ok(None) => break Ok(Ok(())),
            Err(error) => break Err(error),
        };
        count += batch.num_rows() as u64;
        match results::stream(output, &batch, &columns, encoding, bytes_max).await {
            Ok(Ok(())) => {}
            ended => break ended,
        }
    };
    let noted = session.evaluated(rows.warnings());
    let written = match (written, watched) {
        (Ok(Ok(())), Some(watched)) => watched.finish(session).map(Ok),
        (written, _) => written,
    };
    let written = written.and_then(|written| noted.map(|()| written));
    finish(session, written, rows.found().unwrap_or(count), more, output)
}

fn finish(
    session: &mut Session,
    written: Result<std::result::Result<(), Gone>>,
    rows: u64,
    more: bool,
    output: &mut Output,
) -> std::result::Result<Result<()>, Gone> {
    match written {
        Ok(Ok(())) => {}
        Ok(Err(gone)) => return Err(gone),
        Err(error) => return Ok(Err(error)),
    }
    session.found_rows = rows;
    session.row_count = -1;
    results::end(&mut output.writer, session, more);
    Ok(Ok(()))
}

/// Runs a statement; again, where it meets the end of a change of columns.
async fn replied(
    session: &mut Session,
    parsed: &Parsed,
    mut parameters: Vec<Parameter>,
) -> Result<Reply> {
    parameters::count_rows(&mut parameters, &parsed.limits)?;
    if !may_be_run_again(&parsed.statement) {
        return reply(session, parsed, parameters).await;
    }
    let (kept, mut again) = (parameters.clone(), Again::default());
    loop {
        match reply(session, parsed, parameters).await {
            Err(error) if again.is_due(session, &error).await => parameters = kept.clone(),
            replied => return replied,
        }
    }
}

/// Runs a statement.
async fn insert_rows(
    session: &mut Session,
    rows: &Insert,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    match rows.overwrites {
        true => overwrite::overwrite(session, rows, parameters).await,
        false => insert::insert(session, rows, parameters).await,
    }
}

async fn reply(
    session: &mut Session,
    parsed: &Parsed,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let items = &parsed.items;
    match &parsed.statement {
        Statement::Query(query) => select(session, query, parsed, parameters).await,
        Statement::SelectInto { query, into: Into::Variables(variables) } => {
            query::select_into(session, parsed, query, variables, parameters).await
        }
        Statement::SelectInto { query, into: Into::File(file) } => {
            outfile::select(session, query, file, parameters).await
        }
        explained @ Statement::Explain { .. } => {
            explain::explain(session, explained, &parsed.text, parameters).await
        }
        Statement::Assigning(query) => assign::select(session, query, items, parameters).await,
        Statement::SideEffects(query) => act::select(session, query, items, parameters).await,
        Statement::Do(query) => act::discard(session, query, items, parameters).await,
        Statement::Insert(values) => insert_rows(session, values, parameters).await,
        Statement::Change(changed) => change::change(session, changed, parameters).await,
        Statement::ChangeSeveral(changes) => several::change(session, changes, parameters).await,
        Statement::Set(assignments) => set::set(session, assignments, &parameters).await,
        Statement::Show(shown) => shown_now(session, shown).await,
        Statement::Describe(table, of) => show::describe(session, table, of.as_deref()).await,
        Statement::Use(name) => session.move_to_database(name).map(|()| Reply::done()),
        Statement::Begin { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint(_)
        | Statement::RollbackTo(_)
        | Statement::ReleaseSavepoint(_) => transact::run(session, &parsed.statement).await,
        Statement::Kill { .. }
        | Statement::CancelLoad(_)
        | Statement::CleanLabels { .. }
        | Statement::SetConfig(_)
        | Statement::Nothing(_)
        | Statement::ReloadTls => admin::run(session, &parsed.statement).await,
        Statement::LockTables(tables) => lock_tables(session, tables).await,
        Statement::Tend(tending, tables) => tending::tend(session, *tending, tables).await,
        Statement::Signal(signal) => diagnostics::signal(session, signal).await,
        Statement::GetDiagnostics(wanted) => diagnostics::get(session, wanted).await,
        Statement::Prepare { name, from } => named::prepare(session, name, from).await,
        Statement::Deallocate(name) => named::deallocate(session, name),
        Statement::CreateUser { .. }
        | Statement::AlterUser { .. }
        | Statement::DropUser { .. }
        | Statement::RenameUsers(_)
        | Statement::Grant(_)
        | Statement::Revoke(_) => {
            commit_first(session).await?;
            users::change(session, &parsed.statement).await
        }
        Statement::Role(changed) => roles::run(session, changed).await,
        Statement::Workload(changed) => workload::run(session, changed).await,
        Statement::CreateView(_) | Statement::DropViews { .. } => {
            commit_first(session).await?;
            views::change(session, &parsed.statement).await
        }
        _ => {
            if ddl::commits(session, &parsed.statement)? {
                commit_first(session).await?;
            }
            ddl::define(session, &parsed.statement).await
        }
    }
}

async fn lock_tables(session: &mut Session, tables: &[TableName]) -> Result<Reply> {
    commit_first(session).await?;
    // LOCK TABLES releases what was locked, even if it fails.
    session.transactions.locks_tables = false;
    admin::lock_tables(session, tables)?;
    session.transactions.locks_tables = true;
    Ok(Reply::done())
}

/// SHOW, of all that the session was told is done.
async fn shown_now(session: &mut Session, shown: &Show) -> Result<Reply> {
    session.wait_durable().await;
    show::show(session, shown).await
}

async fn select(
    session: &mut Session,
    query: &Select,
    parsed: &Parsed,
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    match query.locks() {
        true => lock::select(session, query, &parsed.items, parameters).await,
        false => query::select_text(session, query, parsed, parameters).await,
    }
}

/// DDL implicitly commits the open transaction.
pub async fn commit_first(session: &mut Session) -> Result<()> {
    session.transactions.check_unlabelled()?;
    session.commit().await?;
    session.info.clear();
    // The DDL must come after the commit in the log.
    session.wait_durable().await;
    Ok(())
}

/// Copies the parameters of an execution out of its packet.
///
/// # Errors
/// When the packet is malformed.
pub fn parameters_of(execute: &Execute<'_>, statement: &mut Prepared) -> Result<Vec<Parameter>> {
    let count = usize::from(statement.parameters);
    let (types, long_data) = statement.parameter_parts();
    let params = Params::new(execute, count, types, long_data).map_err(protocol)?;
    params.map(|param| param.map(query::parameter).map_err(protocol)).collect()
}

/// Runs work to its end even if the client disconnects meanwhile.
pub async fn shield<T: Send + 'static>(
    session: &Session,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match session.shared.statements.spawn(work).await {
        Ok(done) => done,
        Err(error) => Err(err!(Unknown, "the statement ended by an internal error: {error}")),
    }
}
