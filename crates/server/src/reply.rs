//! What a statement answers, and how long it may take for it.

use freshet_base::{Result, err};
use freshet_query::result::ResultColumn;
use freshet_query::{RecordBatch, Rows};

use crate::session::Session;
use crate::settings::Patience;

/// What a statement answers.
pub enum Reply {
    /// Success without rows; the session has the words.
    Done {
        /// Rows inserted.
        affected: u64,
    },
    /// Rows that are there already.
    Table(Vec<ResultColumn>, RecordBatch),
    /// Rows that are made while they are read.
    Stream(Vec<ResultColumn>, Rows),
}

impl Reply {
    /// Success without rows and words.
    pub fn done() -> Self {
        Self::Done { affected: 0 }
    }
}

/// Waits for a part of the session's statement, which may be interrupted, and not for longer than
/// the statement may run.
///
/// # Errors
/// 1317 and 3024, and those of the work.
pub async fn bounded<T>(session: &Session, work: impl Future<Output = Result<T>>) -> Result<T> {
    let interrupted = session.process.interrupted();
    let Patience { limit, deadline } = session.patience;
    let clock = session.shared.engine.clock();
    tokio::select! {
        biased;
        done = work => done,
        () = interrupted => Err(err!(Interrupted, "Query execution was interrupted")),
        () = clock.sleep(deadline.left(&**clock)) => Err(err!(
            QueryTimeout,
            "Query execution was interrupted, maximum statement execution time exceeded \
             ({limit})"
        )),
    }
}
