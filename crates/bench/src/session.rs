//! Connections for setup outside of the measurement: login, statements, counts.

mod mysql;
mod postgres;
mod web;

use crate::table::Dialect;
use crate::target::Target;

pub use mysql::MysqlSession;
pub use postgres::PostgresSession;
pub use web::WebSession;

pub type TextRows = Vec<Vec<String>>;

/// A connection for statements that are not measured.
pub enum Session {
    Mysql(MysqlSession),
    Postgres(PostgresSession),
    /// SQL over HTTP.
    Web(WebSession),
    /// The null server, which stores nothing.
    Null,
}

impl Session {
    /// Logs in; creates the database if the dialect supports that.
    pub fn open(target: &Target) -> Result<Self, String> {
        match target.dialect {
            Dialect::Freshet | Dialect::Mysql => MysqlSession::open(target).map(Self::Mysql),
            Dialect::Postgres | Dialect::QuestDb => {
                PostgresSession::open(target).map(Self::Postgres)
            }
            Dialect::ClickHouse => WebSession::open(target).map(Self::Web),
            Dialect::Null => Ok(Self::Null),
        }
    }

    /// Runs a statement and returns its rows.
    pub fn query(&mut self, sql: &str) -> Result<TextRows, String> {
        let rows = match self {
            Self::Mysql(session) => session.query(sql),
            Self::Postgres(session) => session.query(sql),
            Self::Web(session) => session.query(sql),
            Self::Null => Ok(Vec::new()),
        };
        rows.map_err(|error| {
            let start: String = sql.chars().take(120).collect();
            format!("`{start}`: {error}")
        })
    }

    /// The number of visible rows of a table; `None` if the target stores nothing.
    pub fn count(&mut self, table: &str) -> Result<Option<u64>, String> {
        if matches!(self, Self::Null) {
            return Ok(None);
        }
        let rows = self.query(&format!("SELECT COUNT(*) FROM {table}"))?;
        let cell = rows.first().and_then(|row| row.first()).ok_or("a count without a row")?;
        cell.parse().map(Some).map_err(|_| format!("`{cell}` is no count"))
    }
}
