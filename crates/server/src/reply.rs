//! The result of a statement, and the limit on its run time.

use freshet_base::{Error, Result, err};
use freshet_query::result::ResultColumn;
use freshet_query::{RecordBatch, Rows};

use crate::session::Session;
use crate::settings::{StatementDeadline, TimeLimit};
use crate::watched::Watched;

/// The result of a statement.
pub enum Reply {
    /// Success without rows; the text of the OK packet is in the session.
    Done {
        /// Rows inserted.
        affected: u64,
    },
    /// A complete result set.
    Table(Vec<ResultColumn>, RecordBatch),
    /// A result set that is computed while it is read, and the variables that its rows assign.
    Stream(Vec<ResultColumn>, Rows, Option<Watched>),
}

impl Reply {
    /// Success without rows and without text.
    pub fn done() -> Self {
        Self::Done { affected: 0 }
    }
}

/// Checks that the session's statement may go on, between parts that compute.
///
/// # Errors
/// 1317 when interrupted, 3024 on timeout.
pub fn check_running(session: &Session) -> Result<()> {
    let StatementDeadline { limit, deadline } = session.statement_deadline;
    if session.process.is_interrupted() {
        return Err(interruption());
    }
    match deadline.left(&**session.shared.engine.clock()).is_zero() {
        true => Err(timeout(limit)),
        false => Ok(()),
    }
}

fn interruption() -> Error {
    err!(Interrupted, "Query execution was interrupted")
}

fn timeout(limit: TimeLimit) -> Error {
    err!(
        QueryTimeout,
        "Query execution was interrupted, maximum statement execution time exceeded ({limit})"
    )
}

/// Runs a part of the session's statement until it ends, is interrupted, or exceeds the statement's
/// time limit.
///
/// # Errors
/// 1317 when interrupted, 3024 on timeout, and those of `work`.
pub async fn bounded<T>(session: &Session, work: impl Future<Output = Result<T>>) -> Result<T> {
    let interrupted = session.process.interrupted();
    let StatementDeadline { limit, deadline } = session.statement_deadline;
    let clock = session.shared.engine.clock();
    tokio::select! {
        biased;
        done = work => done,
        () = interrupted => Err(interruption()),
        () = clock.sleep(deadline.left(&**clock)) => Err(timeout(limit)),
    }
}
