//! Prepared statements of a connection.

use std::collections::HashMap;
use std::sync::Arc;

use freshet_base::{Error, ErrorCode, Result, bail, err};
use freshet_ingest::decode::params::{Params, PreparedRows};
use freshet_ingest::decode::values::{Dialect, NoRows, parse_head};
use freshet_query::DataType;
use freshet_query::engine::Plan;
use freshet_query::evaluation::Memory;
use freshet_query::parser::{Parsed, Statement};
use freshet_query::result::ResultColumn;
use freshet_wire::{Execute, LongData, PacketWriter, ParamType, StatusFlags};

use crate::accounts::Kept;
use crate::insert::{self, Done, Grouping, Target};
use crate::mysql::cursor::CursorRows;
use crate::mysql::text;
use crate::session::Session;

/// Parameters of a statement at most: the reply counts them in 16 bits.
pub const PARAMETERS_MAX: usize = 0xffff;
/// What a kept statement takes besides its text, about.
const STATEMENT_BYTES: usize = 4 << 10;
/// What a parameter takes: its type, in two forms.
const PARAMETER_BYTES: usize = 8;
/// What the tree and the plan of a statement take for each byte of its text, about.
const TREE_BYTES_PER_BYTE: usize = 64;
/// A copy of a packet above this size is not kept.
const SCRATCH_BYTES_KEPT: usize = 64 << 10;
/// Statements of a connection at most.
const STATEMENTS_MAX: usize = 16_382;

/// A prepared statement.
pub struct Prepared {
    /// Its text.
    pub sql: String,
    /// The database that was current when it was prepared: names without one mean it for ever, as
    /// in MySQL.
    pub database: Option<Arc<str>>,
    /// How many `?` it has.
    pub parameters: u16,
    /// What it is.
    pub kind: Kind,
    /// Parameters that came in pieces.
    long_data: LongData,
    /// Why pieces were not taken; their command has no answer.
    refused: Option<Error>,
    /// The memory of all this but the rows of a cursor.
    kept: Kept,
    /// The part of it that the statement itself takes.
    own_bytes: u64,
    /// Types of parameters as clients bind them, for inserts.
    insert_types: Vec<u16>,
    /// The same for everything else.
    types: Vec<ParamType>,
    scratch: Vec<u8>,
}

/// What a prepared statement is.
pub enum Kind {
    /// An INSERT of parameters and literals, which the hot road takes.
    Insert(Box<PreparedInsert>),
    /// Anything else.
    Other(Box<PreparedQuery>),
}

impl Kind {
    /// Whether it may change which database is current.
    pub fn moves_session(&self) -> bool {
        let Self::Other(prepared) = self else { return false };
        matches!(prepared.parsed.statement, Statement::Use(_) | Statement::DropDatabase { .. })
    }
}

/// A prepared statement that is no INSERT of literals.
pub struct PreparedQuery {
    /// What it says.
    pub parsed: Parsed,
    /// How it was last carried out.
    pub plan: Option<CachedPlan>,
    /// The columns of its result, as far as they are known without values.
    pub columns: Vec<ResultColumn>,
    /// Rows that wait to be fetched.
    pub cursor: Option<CursorRows>,
    /// Taken for what was parsed.
    pub memory: Memory,
}

/// A plan, and what it was made for: it is good while all of that stands.
pub struct CachedPlan {
    /// Bound to no snapshot.
    pub plan: Plan,
    /// Of the catalog.
    pub generation: u64,
    /// Their version.
    pub settings: u64,
    /// The current one.
    pub database: Option<Arc<str>>,
    /// Of the values.
    pub types: Vec<Option<DataType>>,
}

/// An INSERT whose VALUES are parameters and literals.
pub struct PreparedInsert {
    database: Option<String>,
    table: String,
    columns: Option<Vec<String>>,
    label: Option<String>,
    rows: PreparedRows,
    target: Option<Target>,
}

impl PreparedInsert {
    /// Looks at a statement once; `None` when it is no such INSERT. Builds no tree. Without a
    /// database of its own it stays in the one that is current now, whatever USE says later.
    pub fn parse(sql: &[u8], dialect: Dialect, current: Option<&str>) -> Option<Self> {
        let head = parse_head(sql, dialect)?;
        let columns = head.columns.map(|names| names.into_iter().map(Into::into).collect());
        Some(Self {
            database: head.database.as_deref().or(current).map(str::to_owned),
            table: head.table.into(),
            columns,
            label: head.label.map(Into::into),
            rows: PreparedRows::new(&sql[head.values_at..], dialect),
            target: None,
        })
    }

    /// Looks names up again where they may mean something else.
    ///
    /// # Errors
    /// Unknown names, missing privileges, columns without a value.
    pub fn refresh(&mut self, session: &Session) -> Result<&mut Target> {
        let (engine, settings) = (&session.shared.engine, &session.settings);
        if !self.target.as_ref().is_some_and(|target| target.is_current(engine, settings)) {
            let (database, columns) = (self.database.as_deref(), self.columns.as_deref());
            self.target = Some(insert::resolve(session, database, &self.table, columns)?);
        }
        Ok(self.target.as_mut().expect("just resolved"))
    }
}

impl Prepared {
    /// A statement of this kind, prepared in this session.
    ///
    /// # Errors
    /// 1041 where the account keeps too much.
    pub fn new(sql: String, parameters: u16, kind: Kind, session: &Session) -> Result<Self> {
        let copies = match kind {
            Kind::Insert(_) => 2,
            Kind::Other(_) => TREE_BYTES_PER_BYTE,
        };
        let parameter_bytes = usize::from(parameters) * PARAMETER_BYTES;
        let own_bytes = (STATEMENT_BYTES + sql.len() * copies + parameter_bytes) as u64;
        let mut kept = Kept::nothing(&session.holdings);
        kept.resize(own_bytes)?;
        Ok(Self {
            sql,
            database: session.database.clone(),
            parameters,
            kind,
            long_data: LongData::default(),
            refused: None,
            kept,
            own_bytes,
            insert_types: Vec::new(),
            types: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Takes a piece of a parameter. What is wrong with it is told by the execution.
    pub fn take_long_data(&mut self, parameter: u16, piece: &[u8], bytes_max: usize) {
        if self.refused.is_some() {
            return;
        }
        let bytes = self.long_data.bytes_with(piece.len()) as u64;
        match self.kept.resize(self.own_bytes + bytes) {
            Ok(()) => self.long_data.append(parameter, piece, bytes_max),
            Err(error) => {
                self.forget_values();
                self.refused = Some(error);
            }
        }
    }

    /// Why a piece of a parameter was not taken, if one was not.
    pub fn take_refusal(&mut self) -> Option<Error> {
        self.refused.take()
    }

    /// Forgets what belongs to one execution: parameters that came in pieces, and a large copy.
    pub fn forget_values(&mut self) {
        self.refused = None;
        if self.scratch.capacity() > SCRATCH_BYTES_KEPT {
            self.scratch = Vec::new();
        }
        if self.kept.bytes() > self.own_bytes {
            self.long_data.clear();
            self.kept.resize(self.own_bytes).expect("less than before is there");
        }
    }

    /// What an execution reads its parameters by: the types that were bound, which it may
    /// change, and the values that came in pieces.
    pub fn parameter_parts(&mut self) -> (&mut Vec<ParamType>, &LongData) {
        (&mut self.types, &self.long_data)
    }

    /// Runs an INSERT; `None` when it holds what the scanner does not know, or is none.
    ///
    /// # Errors
    /// Those of the parameters, and of [`insert::load`].
    pub async fn insert(
        &mut self,
        session: &mut Session,
        execute: &Execute<'_>,
    ) -> Result<Option<Done>> {
        let Kind::Insert(prepared) = &mut self.kind else { return Ok(None) };
        session.diagnostics.clear();
        let count = usize::from(self.parameters);
        prepared.refresh(session)?.begin_statement(&session.shared.engine);
        let pieces = match self.long_data.is_empty() {
            true => Vec::new(),
            false => self.long_data.pieces(count).map_err(protocol)?,
        };
        let block = execute.plain_block(count, &mut self.scratch).map_err(protocol)?;
        let params = Params::parse(count, block, &mut self.insert_types, &pieces)?;
        let target = prepared.target.as_ref().expect("just resolved");
        let out = session.buffer.begin();
        let scanned = match prepared.rows.rows(params, &target.plan, &target.rules, out) {
            Ok(scanned) => scanned,
            Err(NoRows::NotLiteral) => return Ok(None),
            Err(NoRows::Bad(error)) => return Err(error),
        };
        insert::encoded(session, target, scanned.rows, scanned.warnings)?;
        let grouping = match &prepared.label {
            Some(label) => Grouping::labelled(session, target, label).await?,
            None => Grouping::Shared,
        };
        let rows = insert::load(session, target, grouping).await?;
        Ok(Some(Done { rows, consumed: self.sql.len() }))
    }
}

impl Prepared {
    /// Forgets rows that wait to be fetched.
    pub fn close_cursor(&mut self) {
        if let Kind::Other(query) = &mut self.kind {
            query.cursor = None;
        }
    }

    /// COM_STMT_FETCH.
    ///
    /// # Errors
    /// When no cursor is open.
    pub fn fetch(
        &mut self,
        rows: u32,
        status: StatusFlags,
        writer: &mut PacketWriter,
    ) -> Result<()> {
        match &mut self.kind {
            Kind::Other(query) if query.cursor.is_some() => {
                let cursor = query.cursor.as_mut().expect("just looked at");
                cursor.fetch(rows, status, writer)
            }
            _ => bail!(WrongArguments, "The statement has no open cursor."),
        }
    }
}

/// Prepared statements by handle.
#[derive(Default)]
pub struct Statements {
    all: HashMap<u32, Box<Prepared>>,
    last: u32,
}

impl Statements {
    /// Keeps a statement and gives its handle.
    ///
    /// # Errors
    /// 1041 where there are too many.
    pub fn add(&mut self, prepared: Prepared) -> Result<u32> {
        if self.all.len() >= STATEMENTS_MAX {
            bail!(
                OutOfRoom,
                "Can't create more than max_prepared_stmt_count statements (current value: \
                 {STATEMENTS_MAX}); close some"
            );
        }
        // Neither 0 nor the handle that means "the last one" is ever given.
        let free =
            |id: &u32| *id != 0 && *id != Execute::PREPARED_LAST && !self.all.contains_key(id);
        let id = (1..).map(|n| self.last.wrapping_add(n)).find(free).expect("few are in use");
        self.last = id;
        self.all.insert(id, Box::new(prepared));
        Ok(id)
    }

    /// The statement of a handle.
    ///
    /// # Errors
    /// 1243.
    pub fn get(&mut self, id: u32, command: &str) -> Result<&mut Box<Prepared>> {
        let id = if id == Execute::PREPARED_LAST { self.last } else { id };
        self.all.get_mut(&id).ok_or_else(|| {
            err!(UnknownStatement, "Unknown prepared statement handler ({id}) given to {command}")
        })
    }

    /// Lends a statement to its execution.
    ///
    /// # Panics
    /// When there is none.
    pub fn lend(&mut self, id: u32) -> (u32, Box<Prepared>) {
        let id = if id == Execute::PREPARED_LAST { self.last } else { id };
        (id, self.all.remove(&id).expect("a statement that runs is there"))
    }

    /// Takes a statement back.
    pub fn give_back(&mut self, id: u32, statement: Box<Prepared>) {
        self.all.insert(id, statement);
    }

    /// Forgets a statement.
    pub fn close(&mut self, id: u32) {
        self.all.remove(&id);
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.all.clear();
    }
}

/// How many `?` stand in a statement outside of text, names and comments.
///
/// # Errors
/// 1390 above 65,535.
pub fn placeholders(sql: &[u8], dialect: Dialect) -> Result<u16> {
    let count = text::placeholders(sql, dialect);
    u16::try_from(count).map_err(|_| {
        Error::new(
            ErrorCode::TooManyPlaceholders,
            format!("Prepared statement contains too many placeholders ({count}, at most 65535)"),
        )
    })
}

/// An error of the codec about arguments, as an error of the server.
pub fn protocol(error: freshet_wire::Error) -> Error {
    let code = match error.errno() {
        1210 => ErrorCode::WrongArguments,
        1153 => ErrorCode::PacketTooLarge,
        _ => ErrorCode::PacketMalformed,
    };
    Error::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_placeholders_are_refused_by_number() {
        let sql = format!("insert into t values ({}?)", "?,".repeat(PARAMETERS_MAX));
        let error = placeholders(sql.as_bytes(), Dialect::default()).unwrap_err();
        assert_eq!(error.code().errno(), 1390);
    }
}
