//! Connections that are made ready before the clock starts: login, statements, counts.

mod mysql;
mod postgres;
mod web;

use crate::table::Dialect;
use crate::target::Target;

pub use mysql::MysqlSession;
pub use postgres::PostgresSession;
pub use web::WebSession;

/// Rows of text, as they came.
pub type TextRows = Vec<Vec<String>>;

/// A connection for statements whose time does not count.
pub enum Session {
    /// MySQL's protocol.
    Mysql(MysqlSession),
    /// PostgreSQL's protocol.
    Postgres(PostgresSession),
    /// SQL over HTTP.
    Web(WebSession),
    /// Nobody: the null server keeps nothing.
    Null,
}

impl Session {
    /// Logs in; makes the database first where that is the custom.
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

    /// How many rows a table shows; `None` where nothing is kept.
    pub fn count(&mut self, table: &str) -> Result<Option<u64>, String> {
        if matches!(self, Self::Null) {
            return Ok(None);
        }
        let rows = self.query(&format!("SELECT COUNT(*) FROM {table}"))?;
        let cell = rows.first().and_then(|row| row.first()).ok_or("a count without a row")?;
        cell.parse().map(Some).map_err(|_| format!("`{cell}` is no count"))
    }
}
