//! Statements of clients that take no packets, as those of HTTP do.

use freshet_base::{Error, Result, bail};
use freshet_query::parser::Statement;

use super::opening::begin;
use super::{parsed, reply};
use crate::reply::Reply;
use crate::session::Session;

/// Runs a text of one statement.
///
/// # Errors
/// Those of the statement, and 1235 for one that asks its client for a file or runs another one.
pub async fn run(session: &mut Session, sql: String) -> Result<Reply> {
    let now = session.shared.engine.clock().now();
    session.process.begin(&sql, now);
    let failpoint = session.shared.engine.failpoints().pass("statement");
    failpoint.map_err(|error| Error::io("statement", error))?;
    let (statements, _memory) = parsed(session, sql, false).await?;
    let Some(statement) = statements.first() else { bail!(EmptyQuery, "Query was empty") };
    match &statement.statement {
        Statement::LoadData(_) => {
            bail!(NotSupported, "LOAD DATA over HTTP is not supported; use _stream_load")
        }
        Statement::Execute { .. } => {
            bail!(NotSupported, "EXECUTE over HTTP is not supported; a request is one statement")
        }
        _ => {}
    }
    begin(session, statement)?;
    Box::pin(reply(session, statement, Vec::new())).await
}
