//! The session as seen by the planner.

use crate::limits::Limits;
use freshet_schema::{Collation, Zone};

#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Null,
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    Double(f64),
    /// A DECIMAL, by its digits: all that it has behind the point are part of it.
    Decimal(String),
    Text(String),
}

/// The scope of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// `@@x`: the session's value if there is one, otherwise the global one.
    Any,
    /// `@@session.x`.
    Session,
    /// `@@global.x`.
    Global,
}

/// Looks up variables.
pub trait Variables: Send + Sync {
    /// A system variable; `None` if the name is unknown.
    fn system(&self, scope: Scope, name: &str) -> Option<Value>;

    /// A user variable; NULL if it was not set.
    fn user(&self, name: &str) -> Value;

    /// The collation of a user variable whose value brought one; `None` for that of literals.
    fn user_collation(&self, _name: &str) -> Option<Collation> {
        None
    }
}

/// The flags of `sql_mode` that affect parsing and planning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SqlMode {
    /// `||` concatenates.
    pub pipes_as_concat: bool,
    /// `"x"` is an identifier.
    pub ansi_quotes: bool,
    /// A backslash in text is not an escape character.
    pub no_backslash_escapes: bool,
    /// ONLY_FULL_GROUP_BY is not set: a column beside GROUP BY has the value of some row.
    pub loose_group_by: bool,
    pub beside_dates: BesideDates,
}

/// Which texts may be written beside a date that they are compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BesideDates {
    /// All: what is no date is equal to none.
    #[default]
    Texts,
    /// Dates; all else is refused (1525).
    Dates {
        /// NO_ZERO_IN_DATE is not set: `2024-01-00` is one.
        zero_parts: bool,
        /// ALLOW_INVALID_DATES: `2024-02-31` is one.
        invalid: bool,
    },
}

#[derive(Clone, Copy)]
pub struct Session<'a> {
    /// The selected database.
    pub database: Option<&'a str>,
    /// `user@host` of the client.
    pub user: &'a str,
    /// `user@host` of the account.
    pub current_user: &'a str,
    /// The result of CURRENT_ROLE().
    pub current_role: &'a str,
    /// The result of VERSION().
    pub version: &'a str,
    /// The result of CONNECTION_ID().
    pub connection_id: u64,
    /// The result of LAST_INSERT_ID().
    pub last_insert_id: u64,
    /// The result of ROW_COUNT().
    pub row_count: i64,
    /// The result of FOUND_ROWS().
    pub found_rows: u64,
    /// The time of the statement in microseconds since 1970 UTC: that of NOW().
    pub now_micros: i64,
    /// The same by the clock, which SET timestamp does not move.
    pub clock_micros: i64,
    /// `time_zone`.
    pub zone: Zone,
    /// `time_zone` as text, for time zone functions.
    pub zone_name: &'a str,
    /// `sql_mode`.
    pub mode: SqlMode,
    /// Limits on the size of statements.
    pub limits: Limits,
    pub variables: &'a dyn Variables,
}

impl Session<'_> {
    /// `collation_connection`, which literals have.
    pub fn collation(&self) -> Collation {
        match self.variables.system(Scope::Any, "collation_connection") {
            Some(Value::Text(name)) => Collation::standing_for(&name),
            _ => None,
        }
        .unwrap_or(Collation::Utf8mb4Bin)
    }

    /// A system variable that is a non-negative integer.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.variables.system(Scope::Any, name)? {
            Value::Int(value) => u64::try_from(value).ok(),
            Value::UInt(value) => Some(value),
            _ => None,
        }
    }
}
