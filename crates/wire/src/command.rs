//! Commands of a client after its login.

use crate::cursor::{Cursor, utf8};
use crate::handshake::{Attributes, DATABASE, PLUGIN, optional};
use crate::params::skip_query_attributes;
use crate::{Capabilities, Collation, Error, Result};

pub(crate) mod code {
    pub(crate) const QUIT: u8 = 0x01;
    pub(crate) const INIT_DB: u8 = 0x02;
    pub(crate) const QUERY: u8 = 0x03;
    pub(crate) const FIELD_LIST: u8 = 0x04;
    pub(super) const REFRESH: u8 = 0x07;
    pub(super) const SHUTDOWN: u8 = 0x08;
    pub(crate) const STATISTICS: u8 = 0x09;
    pub(super) const PROCESS_INFO: u8 = 0x0a;
    pub(crate) const PROCESS_KILL: u8 = 0x0c;
    pub(crate) const PING: u8 = 0x0e;
    pub(crate) const CHANGE_USER: u8 = 0x11;
    pub(crate) const STMT_PREPARE: u8 = 0x16;
    pub(crate) const STMT_EXECUTE: u8 = 0x17;
    pub(crate) const STMT_SEND_LONG_DATA: u8 = 0x18;
    pub(crate) const STMT_CLOSE: u8 = 0x19;
    pub(crate) const STMT_RESET: u8 = 0x1a;
    pub(crate) const SET_OPTION: u8 = 0x1b;
    pub(crate) const STMT_FETCH: u8 = 0x1c;
    pub(crate) const RESET_CONNECTION: u8 = 0x1f;
}

const EXECUTE_CURSOR: u8 = 0x01;
const EXECUTE_PARAMETER_COUNT: u8 = 0x08;

/// A command that borrows from its packet. Names and statements are in the client's encoding,
/// normally UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// COM_QUIT; there is no reply.
    Quit,
    /// COM_INIT_DB: USE.
    InitDb(&'a str),
    /// COM_QUERY. Query attributes were skipped.
    Query(&'a [u8]),
    /// COM_FIELD_LIST; answered by [`PacketWriter::field_list`].
    ///
    /// [`PacketWriter::field_list`]: crate::PacketWriter::field_list
    FieldList {
        table: &'a str,
        /// A LIKE pattern for column names; empty for all.
        pattern: &'a str,
    },
    /// COM_STATISTICS; answered by [`PacketWriter::statistics`].
    ///
    /// [`PacketWriter::statistics`]: crate::PacketWriter::statistics
    Statistics,
    /// COM_PROCESS_KILL: the id of the connection.
    ProcessKill(u32),
    Ping,
    /// COM_CHANGE_USER: another login on this connection.
    ChangeUser(ChangeUser<'a>),
    /// COM_RESET_CONNECTION: resets the session.
    ResetConnection,
    /// COM_SET_OPTION: whether COM_QUERY may contain several statements; answered by an EOF packet.
    SetMultiStatements(bool),
    /// COM_STMT_PREPARE; answered by [`PacketWriter::prepared`].
    ///
    /// [`PacketWriter::prepared`]: crate::PacketWriter::prepared
    Prepare(&'a [u8]),
    /// COM_STMT_EXECUTE.
    Execute(Execute<'a>),
    /// COM_STMT_SEND_LONG_DATA: a part of a parameter; there is no reply.
    SendLongData {
        statement_id: u32,
        /// The index of the parameter.
        parameter: u16,
        data: &'a [u8],
    },
    /// COM_STMT_CLOSE; there is no reply.
    CloseStatement(u32),
    /// COM_STMT_RESET: discards long parameters and the open cursor.
    ResetStatement(u32),
    /// COM_STMT_FETCH: rows of an open cursor.
    Fetch {
        statement_id: u32,
        rows: u32,
    },
}

/// COM_CHANGE_USER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeUser<'a> {
    pub user: &'a str,
    /// The client's response to the last scramble.
    pub auth_response: &'a [u8],
    pub database: Option<&'a str>,
    /// The collation of the client's text.
    pub collation: Option<Collation>,
    /// The plugin of `auth_response`.
    pub plugin: Option<&'a str>,
    /// Connection attributes.
    pub attributes: Attributes<'a>,
}

/// COM_STMT_EXECUTE. Parse its parameters with [`Params::new`].
///
/// [`Params::new`]: crate::Params::new
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Execute<'a> {
    /// [`Execute::PREPARED_LAST`] for the last prepared statement.
    pub statement_id: u32,
    /// Whether to open a cursor for COM_STMT_FETCH.
    pub cursor: bool,
    /// Whether query attributes were negotiated: then the parameter block, unless it is empty,
    /// starts with a count and has a name after each type.
    pub(crate) named: bool,
    /// Whether the block has a count even if the statement has no parameters.
    pub(crate) counted: bool,
    pub(crate) block: &'a [u8],
}

impl Execute<'_> {
    /// The id by which MariaDB's clients refer to the last prepared statement.
    pub const PREPARED_LAST: u32 = u32::MAX;
}

impl<'a> Command<'a> {
    /// Parses a command from a packet with sequence id 0.
    pub fn parse(payload: &'a [u8], capabilities: Capabilities) -> Result<Self> {
        let mut cursor = Cursor::new(payload);
        let code = cursor.u8("empty command")?;
        Ok(match code {
            code::STMT_EXECUTE => Self::Execute(Execute::parse(cursor, capabilities)?),
            code::QUERY => {
                if capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
                    skip_query_attributes(&mut cursor)?;
                }
                Self::Query(cursor.rest())
            }
            code::QUIT => Self::Quit,
            code::INIT_DB => Self::InitDb(utf8(cursor.rest(), DATABASE)?),
            code::FIELD_LIST => Self::FieldList {
                table: utf8(cursor.nul_bytes("table name without end")?, "table name not UTF-8")?,
                pattern: utf8(cursor.nul_or_rest(), "column pattern not UTF-8")?,
            },
            // What older clients send in place of these statements.
            code::REFRESH => Self::Query(refresh(cursor)?),
            code::SHUTDOWN => Self::Query(b"SHUTDOWN"),
            code::PROCESS_INFO => Self::Query(b"SHOW PROCESSLIST"),
            code::STATISTICS => Self::Statistics,
            code::PROCESS_KILL => Self::ProcessKill(cursor.u32("connection id cut short")?),
            code::PING => Self::Ping,
            code::CHANGE_USER => Self::ChangeUser(ChangeUser::parse(cursor, capabilities)?),
            code::RESET_CONNECTION => Self::ResetConnection,
            code::SET_OPTION => Self::SetMultiStatements(multi_statements(cursor)?),
            code::STMT_PREPARE => Self::Prepare(cursor.rest()),
            code::STMT_SEND_LONG_DATA => Self::SendLongData {
                statement_id: statement_id(&mut cursor)?,
                parameter: cursor.u16("parameter number cut short")?,
                data: cursor.rest(),
            },
            code::STMT_CLOSE => Self::CloseStatement(statement_id(&mut cursor)?),
            code::STMT_RESET => Self::ResetStatement(statement_id(&mut cursor)?),
            code::STMT_FETCH => Self::Fetch {
                statement_id: statement_id(&mut cursor)?,
                rows: cursor.u32("row count cut short")?,
            },
            code => return Err(Error::UnknownCommand { code }),
        })
    }
}

fn statement_id(cursor: &mut Cursor<'_>) -> Result<u32> {
    cursor.u32("statement id cut short")
}

/// The statement that COM_REFRESH stands for, by its flags: of tables, or of anything else.
fn refresh(mut cursor: Cursor<'_>) -> Result<&'static [u8]> {
    const TABLES: u8 = 0x04;
    let flags = cursor.u8("flags cut short")?;
    Ok(if flags & TABLES != 0 { b"FLUSH TABLES" } else { b"FLUSH STATUS" })
}

fn multi_statements(mut cursor: Cursor<'_>) -> Result<bool> {
    match cursor.u16("option cut short")? {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(Error::Malformed { what: "unknown option in COM_SET_OPTION" }),
    }
}

impl<'a> Execute<'a> {
    fn parse(mut cursor: Cursor<'a>, capabilities: Capabilities) -> Result<Self> {
        let statement_id = statement_id(&mut cursor)?;
        let flags = cursor.u8("execute flags cut short")?;
        cursor.u32("iteration count cut short")?;
        Ok(Self {
            statement_id,
            cursor: flags & EXECUTE_CURSOR != 0,
            named: capabilities.contains(Capabilities::QUERY_ATTRIBUTES),
            counted: flags & EXECUTE_PARAMETER_COUNT != 0,
            block: cursor.rest(),
        })
    }
}

impl<'a> ChangeUser<'a> {
    fn parse(mut cursor: Cursor<'a>, capabilities: Capabilities) -> Result<Self> {
        let user = utf8(cursor.nul_bytes("user name without end")?, "user name not UTF-8")?;
        let auth_response = if capabilities.contains(Capabilities::SECURE_CONNECTION) {
            const AUTH: &str = "authentication response cut short";
            let count = cursor.u8(AUTH)?;
            cursor.bytes(usize::from(count), AUTH)?
        } else {
            cursor.nul_or_rest()
        };
        let database = optional(true, &mut cursor, DATABASE)?;
        let collation = match cursor.is_empty() {
            true => None,
            false => Some(Collation(cursor.u16("collation cut short")?)),
        };
        let has = |flag| capabilities.contains(flag);
        Ok(Self {
            user,
            auth_response,
            database,
            collation,
            plugin: optional(has(Capabilities::PLUGIN_AUTH), &mut cursor, PLUGIN)?,
            attributes: Attributes::parse(has(Capabilities::CONNECT_ATTRS), &mut cursor)?,
        })
    }
}

#[cfg(test)]
mod tests;
