//! Statements that meet the end of a change of columns (RFC 0039) wait for it, and are run again:
//! nothing of them was written.

use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_base::{Error, ErrorCode};
use freshet_query::parser::Statement;

use crate::session::Session;

/// How long a statement waits before it is run again.
const PAUSE: Duration = Duration::from_millis(5);

/// How often a statement was run.
#[derive(Default)]
pub struct Again {
    until: Option<Deadline>,
}

impl Again {
    /// Whether a statement that ended so is to be run again; waits a moment then.
    pub async fn is_due(&mut self, session: &Session, error: &Error) -> bool {
        if error.code() != ErrorCode::TableChanged {
            return false;
        }
        let clock = session.shared.engine.clock();
        let limit = session.settings.lock_wait;
        let until = self.until.get_or_insert_with(|| Deadline::after(&**clock, limit));
        if until.left(&**clock).is_zero() || session.process.is_interrupted() {
            return false;
        }
        clock.sleep(PAUSE).await;
        true
    }
}

/// Whether a statement may meet such an end before anything of it is written.
pub fn may_be_run_again(statement: &Statement) -> bool {
    match statement {
        Statement::Query(query) => query.locks(),
        Statement::Insert(_)
        | Statement::Change(_)
        | Statement::ChangeSeveral(_)
        | Statement::AlterTable(..)
        | Statement::Truncate { .. } => true,
        _ => false,
    }
}
