//! The tables whose rows a query locks.

use std::time::Duration;

use freshet_base::{Error, ErrorCode, Result, err};
use freshet_ingest::{self as ingest, Engine, LoadTarget, OnExisting, OwnRows, WaitLimit};
use freshet_query::Parameter;
use freshet_query::change::{Change, ChangeKind, LockWait};
use freshet_schema::KeyModel;
use freshet_storage::resolver::KeyedRows;

use crate::insert::key_rules;
use crate::session::Session;
use crate::statement::change::{candidates, resolve};
use crate::statement::changed::refused;

/// A table whose rows are locked.
pub struct LockedTable {
    pub change: Change,
    pub target: LoadTarget,
    pub wait: LockWait,
    is_shared: bool,
}

/// Those of these tables that can be locked. In a transaction what is refused only for a while, or
/// for how it skips rows, is an error: read plainly, it would go on as if it held them.
///
/// # Errors
/// Names, rights, 1235 and 1412 for FOR UPDATE in a transaction.
pub fn of(
    session: &Session,
    tables: Vec<Change>,
    in_transaction: bool,
) -> Result<Vec<LockedTable>> {
    let tables = tables.into_iter().map(|change| locked_table(session, change, in_transaction));
    tables.filter_map(Result::transpose).collect()
}

fn locked_table(
    session: &Session,
    change: Change,
    in_transaction: bool,
) -> Result<Option<LockedTable>> {
    let ChangeKind::Lock { wait, is_shared } = change.kind else { unreachable!("it locks rows") };
    let may_read = is_shared || !in_transaction;
    let target = match resolve(session, &change) {
        Ok(target) => target,
        Err(error) if in_transaction && error.code() == ErrorCode::TableChanged => {
            return Err(error);
        }
        Err(_) if may_read => return Ok(None),
        Err(error) => return Err(error),
    };
    match target.table().key_model {
        KeyModel::Primary | KeyModel::Unique => {}
        _ if may_read => return Ok(None),
        KeyModel::Duplicate if wait != LockWait::Skip => {}
        _ => return Err(refused(&change, &target)),
    }
    Ok(Some(LockedTable { change, target, wait, is_shared }))
}

impl LockedTable {
    /// What locks the keys of its rows.
    pub fn locking<'a>(
        &'a self,
        session: &Session,
        engine: &'a Engine,
        own: OwnRows,
    ) -> ingest::Change<'a> {
        let mut rules = key_rules(session, OnExisting::Overwrite);
        if self.wait == LockWait::Fail {
            rules.lock_wait = Duration::ZERO;
        }
        let patience = WaitLimit::For(session.settings.insert_timeout.time());
        let locking = engine.change(&self.target, Some(own), rules, patience).locking();
        if self.is_shared { locking.sharing() } else { locking }
    }

    /// Whether it is known how many rows are wanted, where rows are skipped: a parameter may say.
    pub fn knows_limit(&self) -> bool {
        self.wait != LockWait::Skip || self.change.limit().is_ok()
    }

    /// The error of a statement that may not wait.
    pub fn error(&self, error: Error) -> Error {
        match (self.wait, error.code()) {
            (LockWait::Fail, ErrorCode::LockWaitTimeout) => err!(
                LockNoWait,
                "Statement aborted because lock(s) could not be acquired immediately and NOWAIT \
                 is set."
            ),
            _ => error,
        }
    }
}

/// The keys of the rows of a table that the query reads.
///
/// # Errors
/// Those of planning and executing.
pub async fn found(
    session: &mut Session,
    lock: &Change,
    target: &LoadTarget,
    parameters: &[Parameter],
) -> Result<KeyedRows> {
    let found = candidates(session, lock, target, parameters).await?;
    Ok(found
        .map(|found| found.keys)
        .expect("a transaction reads its snapshot, whatever columns the table has now"))
}
