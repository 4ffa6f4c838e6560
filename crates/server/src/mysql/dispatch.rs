//! Dispatch of commands: the fast path is answered here, other commands become [`Request`].

use std::time::Duration;

use freshet_base::{Error, Result};
use freshet_query::parser::CommandKind;
use freshet_wire::{Command, Execute, OkPacket, PacketWriter, StateChange, StatusFlags};

use crate::again::Again;
use crate::digests::{Asked, Outcome};
use crate::insert::{Done, InsertCache};
use crate::mysql::prepared::{Kind, Prepared, PreparedInsert, Statements, placeholders};
use crate::mysql::socket::put_error;
use crate::mysql::{login, results, text};
use crate::point::AllowedPoints;
use crate::session::{Hinted, Session};
use crate::statement::by_key::{self, KeyedChanges};
use crate::statement::{self, Request};
use crate::transaction::Control;
use crate::{insert, numbers, point, show};

/// What the connection has to do after a command was dispatched.
pub enum Next {
    /// Nothing: the command is answered or needs no answer.
    Answered,
    /// Run this on the statement threads.
    Run(Request),
    /// The session was reset; reset the connection's own state, too.
    Reset,
    /// Log in as another user.
    ChangeUser(login::NewUser),
    /// The client disconnects.
    Quit,
}

/// The parts of a connection that commands use, without its socket.
pub struct Dispatcher<'a> {
    pub session: &'a mut Box<Session>,
    /// Prepared statements.
    pub statements: &'a mut Statements,
    /// The targets of text INSERTs.
    pub inserts: &'a mut InsertCache,
    /// How UPDATE and DELETE by key are carried out.
    pub changes: &'a mut KeyedChanges,
    /// The point reads that the session may do.
    pub points: &'a mut AllowedPoints,
    pub writer: &'a mut PacketWriter,
    /// Whether a text may contain several statements.
    pub multi_statements: &'a mut bool,
}

impl Dispatcher<'_> {
    /// Answers a command, or returns what is left to do.
    pub async fn answer(&mut self, command: Command<'_>) -> Next {
        if self.session.is_restricted()
            && let Err(error) = self.check_options(&command)
        {
            self.failed(&error);
            return Next::Answered;
        }
        if let Some(kind) = kind_of(&command) {
            self.count(kind);
        }
        match command {
            Command::Execute(execute) => return self.execute(&execute).await,
            Command::Query(sql) => return self.query(sql).await,
            Command::Prepare(sql) => return self.prepare(sql),
            Command::Quit => return Next::Quit,
            Command::ChangeUser(user) => return Next::ChangeUser(login::NewUser::of(&user)),
            Command::FieldList { table, pattern } => {
                let (table, pattern) = (table.to_owned(), pattern.to_owned());
                return Next::Run(Request::FieldList { table, pattern });
            }
            Command::CloseStatement(id) => self.statements.close(id),
            Command::SendLongData { statement_id, parameter, data } => {
                let bytes_max = self.session.settings.packet_bytes_max;
                if let Ok(statement) =
                    self.statements.get(statement_id, "mysqld_stmt_send_long_data")
                {
                    statement.take_long_data(parameter, data, bytes_max);
                }
            }
            Command::Ping => self.ok(),
            Command::InitDb(name) => {
                let used = self.session.move_to_database(name);
                self.done(used);
            }
            Command::ResetStatement(id) => {
                let reset = self.statements.get(id, "mysqld_stmt_reset").map(|statement| {
                    statement.forget_values();
                    statement.close_cursor();
                });
                self.done(reset);
            }
            Command::ResetConnection => {
                self.session.transactions.roll_back();
                self.statements.clear();
                self.session.reset();
                self.ok();
                return Next::Reset;
            }
            Command::SetMultiStatements(on) => {
                *self.multi_statements = on;
                self.writer.eof(self.session.status(), 0);
            }
            Command::Statistics => {
                let line = show::statistics(&self.session.shared);
                self.writer.statistics(&line);
            }
            Command::ProcessKill(id) => {
                let killed = statement::admin::kill(self.session, u64::from(id), true);
                self.done(killed);
            }
            Command::Fetch { statement_id, rows } => self.fetch(statement_id, rows),
        }
        Next::Answered
    }

    /// Refuses what the options of the account do not allow; commands without an answer pass.
    fn check_options(&mut self, command: &Command<'_>) -> Result<()> {
        match command {
            // What it may do is known when it is parsed.
            Command::Query(_) | Command::Prepare(_) | Command::Execute(_) => {}
            Command::InitDb(_)
            | Command::FieldList { .. }
            | Command::ProcessKill(_)
            | Command::Fetch { .. } => self.session.require_password()?,
            Command::Quit
            | Command::Ping
            | Command::ChangeUser(_)
            | Command::CloseStatement(_)
            | Command::SendLongData { .. }
            | Command::ResetStatement(_)
            | Command::ResetConnection
            | Command::SetMultiStatements(_)
            | Command::Statistics => return Ok(()),
        }
        self.session.count_query()
    }

    fn count(&self, kind: CommandKind) {
        self.session.shared.counters.command(kind);
    }

    async fn execute(&mut self, execute: &Execute<'_>) -> Next {
        let statement = match self.statements.get(execute.statement_id, "mysqld_stmt_execute") {
            Ok(statement) => statement,
            Err(error) => {
                put_error(self.writer, &error);
                return Next::Answered;
            }
        };
        if let Some(error) = statement.take_refusal() {
            self.failed(&error);
            return Next::Answered;
        }
        let is_free = !self.session.must_change_password;
        let began = self.session.clock_now();
        let done = match is_free {
            true => inserted(statement, self.session, execute).await,
            false => Ok(None),
        };
        let parameters = match &done {
            Ok(None) => Some(statement::parameters_of(execute, statement)),
            Ok(Some(_)) | Err(_) => None,
        };
        statement.forget_values();
        match (done, parameters) {
            (_, Some(Ok(parameters))) => {
                let id = execute.statement_id;
                let Prepared { sql, database, kind, .. } = &mut **statement;
                let database = database.as_deref();
                let session = &mut *self.session;
                if let Kind::Other(query) = kind
                    && is_free
                    && !execute.cursor
                {
                    let (kept, named) = (&mut query.point, (database, sql.as_str()));
                    let kept = (kept, &mut *self.points);
                    let writer = &mut *self.writer;
                    if point::answer_prepared(session, named, kept, &parameters, writer).await {
                        statement.close_cursor();
                        return Next::Answered;
                    }
                    let asked = (sql.as_bytes(), parameters.as_slice());
                    let done = by_key::change(session, self.changes, database, asked).await;
                    if let Some(done) = done {
                        statement.close_cursor();
                        self.changed(done);
                        return Next::Answered;
                    }
                }
                let (id, statement) = self.statements.lend(id);
                let cursor = execute.cursor;
                Next::Run(Request::Execute { id, statement, parameters, cursor })
            }
            (_, Some(Err(error))) | (Err(error), _) => {
                self.failed(&error);
                self.count_execution(execute.statement_id, began, false);
                Next::Answered
            }
            (Ok(done), None) => {
                self.session.shared.metrics().inserts.inc();
                self.count(CommandKind::Insert);
                self.audit(execute.statement_id);
                self.count_execution(execute.statement_id, began, true);
                self.loaded(done.map_or(0, |done| done.rows), StatusFlags::NONE);
                Next::Answered
            }
        }
    }

    /// Counts the execution of a prepared statement by its digest.
    fn count_execution(&mut self, id: u32, began: Duration, is_done: bool) {
        let Ok(statement) = self.statements.get(id, "mysqld_stmt_execute") else { return };
        let sql = statement.sql.as_bytes();
        self.session.count_done(&Asked::of(sql, sql), began, is_done);
    }

    /// Logs a prepared insert if the session audits them.
    fn audit(&mut self, id: u32) {
        if !self.session.settings.audits_prepared {
            return;
        }
        let Ok(statement) = self.statements.get(id, "mysqld_stmt_execute") else { return };
        let (user, peer) = (&self.session.client.user, &self.session.process.peer);
        let (rows, reply) = (self.session.row_count, self.session.info.text());
        tracing::info!(target: "audit", %user, %peer, rows, reply, sql = statement.sql);
    }

    async fn query(&mut self, sql: &[u8]) -> Next {
        if self.session.must_change_password {
            return self.planned(sql);
        }
        if let Some(control) = Control::of(sql) {
            self.session.diagnostics.clear();
            let statements = &self.session.shared.metrics().statements;
            statements.with_label_values(&["transaction"]).inc();
            self.count(match control {
                Control::Begin => CommandKind::Begin,
                Control::Commit => CommandKind::Commit,
                Control::Rollback => CommandKind::Rollback,
            });
            let began = self.session.clock_now();
            let done = self.session.control(control).await;
            let outcome = if done.is_ok() { Outcome::Changed(0) } else { Outcome::Failed };
            let (asked, ended) = (Asked::of(sql, sql), self.session.clock_now());
            self.session.count_digest(&asked, (began, ended), outcome);
            match done {
                Ok(()) => self.loaded(0, StatusFlags::NONE),
                Err(error) => self.failed(&error),
            }
            return Next::Answered;
        }
        let is_answered = numbers::answer(self.session, sql, self.writer)
            || point::answer_text(self.session, self.points, sql, self.writer).await;
        if is_answered {
            return Next::Answered;
        }
        let database = self.session.database.clone();
        let asked = (sql, &[][..]);
        let done = by_key::change(self.session, self.changes, database.as_deref(), asked).await;
        if let Some(done) = done {
            self.changed(done);
            return Next::Answered;
        }
        let (mut rest, multi) = (sql, *self.multi_statements);
        let mut again = Again::default();
        loop {
            let began = self.session.clock_now();
            let done = match insert::text(self.session, self.inserts, rest, multi).await {
                Ok(Some(done)) => done,
                Ok(None) => return self.planned(rest),
                Err(error) if again.is_due(self.session, &error).await => continue,
                Err(error) => {
                    self.session.count_done(&Asked::unknown(rest), began, false);
                    self.failed(&error);
                    return Next::Answered;
                }
            };
            let sql = &rest[..done.consumed];
            let asked = Asked { sql, shape: done.shape.of(sql), rows: done.form };
            self.session.count_done(&asked, began, true);
            self.session.shared.metrics().inserts.inc();
            self.count(CommandKind::Insert);
            rest = rest[done.consumed..].trim_ascii();
            let more = multi && !rest.is_empty();
            self.loaded(done.rows, StatusFlags::NONE.set(StatusFlags::MORE_RESULTS_EXISTS, more));
            if !more {
                return Next::Answered;
            }
            if let Err(error) = self.session.count_query() {
                self.failed(&error);
                return Next::Answered;
            }
        }
    }

    /// Leaves a text to the statement threads, without what ends it.
    fn planned(&mut self, sql: &[u8]) -> Next {
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b';';
        let sql = match sql.iter().rposition(|byte| !is_end(byte)) {
            Some(last) => &sql[..=last],
            None => sql,
        };
        match text::utf8(sql, self.session.settings.dialect) {
            Ok(sql) => Next::Run(Request::Query(sql.into_owned())),
            Err(error) => {
                self.failed(&error);
                Next::Answered
            }
        }
    }

    /// Prepares an INSERT of parameters here; other statements are planned on the statement
    /// threads.
    fn prepare(&mut self, sql: &[u8]) -> Next {
        let (dialect, database) = (self.session.settings.dialect, self.session.database.as_deref());
        let known = placeholders(sql, dialect)
            .and_then(|parameters| Ok((parameters, text::utf8(sql, dialect)?.into_owned())));
        let (parameters, text) = match known {
            Ok(known) => known,
            Err(error) => {
                self.failed(&error);
                return Next::Answered;
            }
        };
        // What a hint sets or tells at each execution is done by the statement threads.
        let plain = Hinted::of(sql).is_none_or(|hint| !hint.changes_session() && !hint.has_notes())
            && !self.session.must_change_password;
        let insert = plain.then(|| PreparedInsert::parse(sql, dialect, database)).flatten();
        let Some(mut insert) = insert else {
            return Next::Run(Request::Prepare { sql: text, parameters });
        };
        let added = insert.refresh(self.session).map(drop).and_then(|()| {
            let kind = Kind::Insert(Box::new(insert));
            self.statements.add(Prepared::new(text, parameters, kind, self.session)?)
        });
        match added {
            Ok(id) => results::prepared(self.writer, id, parameters, &[], self.session),
            Err(error) => self.failed(&error),
        }
        Next::Answered
    }

    fn fetch(&mut self, id: u32, rows: u32) {
        let status = self.session.status();
        match self
            .statements
            .get(id, "mysqld_stmt_fetch")
            .and_then(|statement| statement.fetch(rows, status, self.writer))
        {
            Ok(()) => {}
            Err(error) => put_error(self.writer, &error),
        }
    }

    fn changed(&mut self, done: Result<u64>) {
        match done {
            Ok(affected) => self.loaded(affected, StatusFlags::NONE),
            Err(error) => self.failed(&error),
        }
    }

    fn loaded(&mut self, rows: u64, more: StatusFlags) {
        self.writer.ok(&OkPacket {
            affected_rows: rows,
            last_insert_id: std::mem::take(&mut self.session.insert_id),
            status: self.session.status() | more,
            warnings: self.session.diagnostics.count_u16(),
            info: self.session.info.text(),
            ..OkPacket::default()
        });
    }

    fn ok(&mut self) {
        let moved_to = self.session.moved_to.take();
        self.writer.ok(&OkPacket {
            status: self.session.status(),
            changes: moved_to.as_deref().map(StateChange::Schema).as_slice(),
            ..OkPacket::default()
        });
    }

    fn done(&mut self, done: Result<()>) {
        match done {
            Ok(()) => self.ok(),
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &Error) {
        self.session.failed(error);
        put_error(self.writer, error);
    }
}

/// What a command is counted as, besides the statement that it has.
fn kind_of(command: &Command<'_>) -> Option<CommandKind> {
    Some(match command {
        Command::Query(_) | Command::Quit => return None,
        Command::Execute(_) => CommandKind::StmtExecute,
        Command::Prepare(_) => CommandKind::StmtPrepare,
        Command::CloseStatement(_) => CommandKind::StmtClose,
        Command::ResetStatement(_) => CommandKind::StmtReset,
        Command::SendLongData { .. } => CommandKind::StmtSendLongData,
        Command::Fetch { .. } => CommandKind::StmtFetch,
        Command::InitDb(_) => CommandKind::ChangeDb,
        Command::FieldList { .. } => CommandKind::ShowFields,
        Command::SetMultiStatements(_) => CommandKind::SetOption,
        Command::ProcessKill(_) => CommandKind::Kill,
        Command::Ping | Command::ChangeUser(_) | Command::ResetConnection | Command::Statistics => {
            CommandKind::AdminCommands
        }
    })
}

/// Runs a prepared INSERT of parameters; again, where it meets the end of a change of columns.
async fn inserted(
    statement: &mut Prepared,
    session: &mut Session,
    execute: &Execute<'_>,
) -> Result<Option<Done>> {
    let mut again = Again::default();
    loop {
        match statement.insert(session, execute).await {
            Err(error) if again.is_due(session, &error).await => {}
            done => return done,
        }
    }
}
