//! The prepared statements of a connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use freshet_base::{Error, ErrorCode, Result, bail, err};
use freshet_ingest::OnExisting;
use freshet_ingest::decode::params::Params;
use freshet_ingest::decode::prepared::PreparedRows;
use freshet_ingest::decode::values::{Dialect, NoRows, parse_head};
use freshet_query::DataType;
use freshet_query::engine::Plan;
use freshet_query::evaluation::Memory;
use freshet_query::parser::Parsed;
use freshet_query::result::ResultColumn;
use freshet_wire::{Execute, LongData, PacketWriter, ParamType, StatusFlags};

use crate::accounts::SessionMemory;
use crate::as_of::AsOf;
use crate::insert::{self, Done, Grouping, Target};
use crate::mysql::cursor::CursorRows;
use crate::mysql::text;
use crate::point::KeptPoint;
use crate::session::Session;

/// The maximum number of parameters: the reply counts them in 16 bits.
pub const PARAMETERS_MAX: usize = 0xffff;
/// The approximate memory of a prepared statement besides its text.
const STATEMENT_BYTES: usize = 4 << 10;
/// The memory of a parameter: its type, in two forms.
const PARAMETER_BYTES: usize = 8;
/// The approximate memory of a statement's tree and plan per byte of text.
pub const TREE_BYTES_PER_BYTE: usize = 64;
/// Larger scratch buffers are freed after use.
const SCRATCH_BYTES_KEPT: usize = 64 << 10;
/// Prepared statements per connection, of the protocol and of PREPARE each.
pub const STATEMENTS_MAX: usize = 16_382;

pub struct Prepared {
    pub sql: String,
    /// The current database when it was prepared: unqualified names keep referring to it, as in
    /// MySQL.
    pub database: Option<Arc<str>>,
    /// The number of `?`.
    pub parameters: u16,
    pub kind: Kind,
    /// Parameters sent by COM_STMT_SEND_LONG_DATA.
    long_data: LongData,
    /// The error of a COM_STMT_SEND_LONG_DATA, which has no reply; the next execution returns it.
    refused: Option<Error>,
    /// The memory of everything except the rows of a cursor.
    kept: SessionMemory,
    /// The part of `kept` for the statement itself.
    own_bytes: u64,
    /// Parameter types as the client bound them, for inserts.
    insert_types: Vec<u16>,
    /// The same for other statements.
    types: Vec<ParamType>,
    scratch: Vec<u8>,
}

/// The kind of a prepared statement.
pub enum Kind {
    /// An INSERT of parameters and literals, for the fast path.
    Insert(Box<PreparedInsert>),
    /// Any other statement.
    Other(Box<PreparedQuery>),
}

impl Kind {
    /// Whether it may change the current database.
    pub fn moves_session(&self) -> bool {
        let Self::Other(prepared) = self else { return false };
        prepared.parsed.statement.moves_session()
    }
}

/// A prepared statement other than an INSERT of literals.
pub struct PreparedQuery {
    /// The syntax tree.
    pub parsed: Parsed,
    /// The plan of the last execution.
    pub plan: Option<CachedPlan>,
    /// How its last execution was answered, if it is a point read.
    pub point: Option<Box<KeptPoint>>,
    /// The columns of its result, as far as they are known without parameter values.
    pub columns: Vec<ResultColumn>,
    /// The open cursor.
    pub cursor: Option<CursorRows>,
    /// The memory of the syntax tree.
    pub memory: Memory,
}

/// A plan and the state it depends on; valid while all of that is unchanged.
pub struct CachedPlan {
    /// Not bound to a snapshot.
    pub plan: Plan,
    pub as_of: AsOf,
    /// The current database.
    pub database: Option<Arc<str>>,
    /// The types of the parameter values.
    pub types: Vec<Option<DataType>>,
}

/// An INSERT whose VALUES are parameters and literals.
pub struct PreparedInsert {
    database: Option<String>,
    table: String,
    columns: Option<Vec<String>>,
    label: Option<String>,
    on_existing: OnExisting,
    rows: PreparedRows,
    target: Option<Target>,
}

impl PreparedInsert {
    /// Recognises such an INSERT without building a syntax tree; `None` for other statements. If it
    /// names no database it stays in `current`, even after USE.
    pub fn parse(sql: &[u8], dialect: Dialect, current: Option<&str>) -> Option<Self> {
        let head = parse_head(sql, dialect)?;
        let columns = head.columns.map(|names| names.into_iter().map(Into::into).collect());
        Some(Self {
            database: head.database.as_deref().or(current).map(str::to_owned),
            table: head.table.into(),
            columns,
            label: head.label.map(Into::into),
            on_existing: head.on_existing,
            rows: PreparedRows::new(&sql[head.values_at..], dialect),
            target: None,
        })
    }

    /// Resolves names again if the catalog or the settings have changed.
    ///
    /// # Errors
    /// Unknown names, missing privileges, columns without a value.
    pub fn refresh(&mut self, session: &Session) -> Result<&mut Target> {
        if !self.target.as_ref().is_some_and(|target| target.is_current(session)) {
            let (database, columns) = (self.database.as_deref(), self.columns.as_deref());
            let (table, on_existing) = (&self.table, self.on_existing);
            let target = insert::resolve(session, database, table, columns, on_existing)?;
            self.target = Some(target);
        }
        Ok(self.target.as_mut().expect("just resolved"))
    }
}

impl Prepared {
    /// # Errors
    /// 1041 at the account's memory limit.
    pub fn new(sql: String, parameters: u16, kind: Kind, session: &Session) -> Result<Self> {
        let copies = match kind {
            Kind::Insert(_) => 2,
            Kind::Other(_) => TREE_BYTES_PER_BYTE,
        };
        let parameter_bytes = usize::from(parameters) * PARAMETER_BYTES;
        let own_bytes = (STATEMENT_BYTES + sql.len() * copies + parameter_bytes) as u64;
        let mut kept = SessionMemory::new(&session.usage);
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

    /// COM_STMT_SEND_LONG_DATA: appends to a parameter. The next execution returns its errors.
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

    /// The error of a COM_STMT_SEND_LONG_DATA, if one failed.
    pub fn take_refusal(&mut self) -> Option<Error> {
        self.refused.take()
    }

    /// Frees the data of one execution: long parameters and a large scratch buffer.
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

    /// What decoding the parameters of an execution needs: the bound types, which it may change,
    /// and the long parameters.
    pub fn parameter_parts(&mut self) -> (&mut Vec<ParamType>, &LongData) {
        (&mut self.types, &self.long_data)
    }

    /// Runs an INSERT; `None` when it is another statement or has values that the scanner does not
    /// handle.
    ///
    /// # Errors
    /// Invalid parameters, and those of [`insert::load`].
    pub async fn insert(
        &mut self,
        session: &mut Session,
        execute: &Execute<'_>,
    ) -> Result<Option<Done>> {
        let Kind::Insert(prepared) = &mut self.kind else { return Ok(None) };
        session.diagnostics.clear();
        let count = usize::from(self.parameters);
        prepared.refresh(session)?.begin_statement(session);
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
        session.count_update()?;
        insert::encoded(session, target, scanned.encoded)?;
        let grouping = match &prepared.label {
            Some(label) => Grouping::labelled(session, target, label).await?,
            None => Grouping::Shared,
        };
        let rows = insert::load(session, target, grouping).await?;
        Ok(Some(Done::of(rows, self.sql.len())))
    }
}

impl Prepared {
    pub fn close_cursor(&mut self) {
        if let Kind::Other(query) = &mut self.kind {
            query.cursor = None;
        }
    }

    /// COM_STMT_FETCH.
    ///
    /// # Errors
    /// When the statement has no open cursor.
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

/// Prepared statements by id.
#[derive(Default)]
pub struct Statements {
    /// Mostly a few, which are found sooner than a hash is computed.
    all: BTreeMap<u32, Box<Prepared>>,
    last: u32,
}

impl Statements {
    /// Stores a statement and returns its id.
    ///
    /// # Errors
    /// 1461 when there are too many.
    pub fn add(&mut self, prepared: Prepared) -> Result<u32> {
        if self.all.len() >= STATEMENTS_MAX {
            bail!(
                TooManyStatements,
                "Can't create more than max_prepared_stmt_count statements (current value: \
                 {STATEMENTS_MAX}); close some"
            );
        }
        // Neither 0 nor the id for "the last one" is assigned.
        let free =
            |id: &u32| *id != 0 && *id != Execute::PREPARED_LAST && !self.all.contains_key(id);
        let id = (1..).map(|n| self.last.wrapping_add(n)).find(free).expect("few are in use");
        self.last = id;
        self.all.insert(id, Box::new(prepared));
        Ok(id)
    }

    /// The statement with an id.
    ///
    /// # Errors
    /// 1243 if there is none.
    pub fn get(&mut self, id: u32, command: &str) -> Result<&mut Box<Prepared>> {
        let id = if id == Execute::PREPARED_LAST { self.last } else { id };
        self.all.get_mut(&id).ok_or_else(|| {
            err!(UnknownStatement, "Unknown prepared statement handler ({id}) given to {command}")
        })
    }

    /// Removes a statement for its execution.
    ///
    /// # Panics
    /// When there is no such statement.
    pub fn lend(&mut self, id: u32) -> (u32, Box<Prepared>) {
        let id = if id == Execute::PREPARED_LAST { self.last } else { id };
        (id, self.all.remove(&id).expect("a statement that runs is there"))
    }

    /// Puts a statement back after its execution.
    pub fn give_back(&mut self, id: u32, statement: Box<Prepared>) {
        self.all.insert(id, statement);
    }

    pub fn close(&mut self, id: u32) {
        self.all.remove(&id);
    }

    pub fn clear(&mut self) {
        self.all.clear();
    }
}

/// The number of `?` in a statement outside of strings, names and comments.
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

/// Converts an error of the codec.
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
