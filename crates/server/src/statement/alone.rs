//! Statements of clients that take no packets, as those of HTTP do.

use std::time::Duration;

use freshet_base::{Error, Result, bail};
use freshet_query::parser::Statement;

use super::opening::begin;
use super::{parsed, reply};
use crate::digests::Asked;
use crate::reply::Reply;
use crate::session::Session;

/// A statement that runs.
pub struct Begun {
    /// The text of the statement, without what stands around it.
    text: String,
    /// By the monotonic clock.
    at: Duration,
}

impl Begun {
    /// Counts the statement by its digest, when its answer is ready or has failed.
    pub fn count(&self, session: &mut Session, is_done: bool) {
        session.count_done(&Asked::unknown(self.text.as_bytes()), self.at, is_done);
    }
}

/// Runs a text of one statement. Whoever reads the reply to its end counts it.
///
/// # Errors
/// Those of the statement, and 1235 for one that asks its client for a file or runs another one.
pub async fn run(session: &mut Session, sql: String) -> Result<(Reply, Begun)> {
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
    let begun = Begun { text: statement.text.clone(), at: session.clock_now() };
    match Box::pin(reply(session, statement, Vec::new())).await {
        Ok(reply) => Ok((reply, begun)),
        Err(error) => {
            begun.count(session, false);
            Err(error)
        }
    }
}
