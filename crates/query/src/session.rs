//! What planning needs to know of the session that a statement came from.

use crate::limits::Limits;
use freshet_schema::Zone;

/// The value of a variable.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// NULL.
    Null,
    /// An integer.
    Int(i64),
    /// An integer without sign.
    UInt(u64),
    /// A double.
    Double(f64),
    /// Text.
    Text(String),
}

/// Which of a variable's values is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// `@@x`: the session's where there is one, else the global one.
    Any,
    /// `@@session.x`.
    Session,
    /// `@@global.x`.
    Global,
}

/// Where variables are looked up.
pub trait Variables: Send + Sync {
    /// A system variable; `None` when there is none of this name.
    fn system(&self, scope: Scope, name: &str) -> Option<Value>;

    /// A user variable; NULL when it was never set.
    fn user(&self, name: &str) -> Value;
}

/// The bits of `sql_mode` that change what a statement means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SqlMode {
    /// `||` concatenates.
    pub pipes_as_concat: bool,
    /// `"x"` is a name.
    pub ansi_quotes: bool,
    /// A backslash in text is a backslash.
    pub no_backslash_escapes: bool,
}

/// The session as planning sees it.
#[derive(Clone, Copy)]
pub struct Session<'a> {
    /// The selected database.
    pub database: Option<&'a str>,
    /// `user@host` as the client gave it.
    pub user: &'a str,
    /// `user@host` of the account.
    pub current_user: &'a str,
    /// What VERSION() says.
    pub version: &'a str,
    /// What CONNECTION_ID() says.
    pub connection_id: u64,
    /// What LAST_INSERT_ID() says.
    pub last_insert_id: u64,
    /// What ROW_COUNT() says.
    pub row_count: i64,
    /// What FOUND_ROWS() says.
    pub found_rows: u64,
    /// The start of the statement, microseconds since 1970 UTC.
    pub now_micros: i64,
    /// `time_zone`.
    pub zone: Zone,
    /// `time_zone` as functions of zones read it.
    pub zone_name: &'a str,
    /// `sql_mode`.
    pub mode: SqlMode,
    /// How large statements may be.
    pub limits: Limits,
    /// Variables.
    pub variables: &'a dyn Variables,
}

impl Session<'_> {
    /// A system variable that is a number, zero or more.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.variables.system(Scope::Any, name)? {
            Value::Int(value) => u64::try_from(value).ok(),
            Value::UInt(value) => Some(value),
            _ => None,
        }
    }
}
