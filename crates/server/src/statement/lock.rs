//! SELECT .. FOR UPDATE and FOR SHARE in a transaction (keys.md K6): the keys of the rows are
//! locked until its end, and the query reads what these rows are now.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Error, ErrorCode, Result, err};
use freshet_ingest::{OnExisting, WaitLimit};
use freshet_query::Parameter;
use freshet_query::change::{Change, ChangeKind};
use freshet_query::syntax::Select;
use freshet_schema::{ColumnsBuilder, KeyModel};

use super::change::{candidates, refused, resolve};
use super::query;
use crate::insert::key_rules;
use crate::reader::GivenRows;
use crate::reply::{Reply, bounded};
use crate::session::Session;

/// Runs the query. Outside of a transaction nothing would be locked when it ends, so nothing is.
///
/// # Errors
/// Those of planning; 1205, 1213 and 3572 for keys that others hold; `NotSupported` where rows have
/// no key that can be locked.
pub async fn select(
    session: &mut Session,
    query: &Select,
    items: &[String],
    parameters: Vec<Parameter>,
) -> Result<Reply> {
    let (engine, settings) = (Arc::clone(&session.shared.engine), &session.settings);
    let Some(own) = session.transactions.writable(&engine, settings)?.cloned() else {
        return query::select(session, query, items, parameters).await;
    };
    let lock = Change::locking(query)?;
    let target = resolve(session, &lock)?;
    if target.table().key_model != KeyModel::Primary {
        return Err(refused(&lock, &target));
    }
    let keys = candidates(session, &lock, &target, &parameters).await?;
    let mut rules = key_rules(&session.settings, OnExisting::Replace);
    let is_impatient = lock.kind == ChangeKind::Lock { is_impatient: true };
    if is_impatient {
        rules.lock_wait = Duration::ZERO;
    }
    let patience = WaitLimit::For(session.settings.insert_timeout.time());
    let mut locking = engine.change(&target, Some(own), rules, patience);
    let current = bounded(session, locking.lock(&keys)).await;
    let current = current.map_err(|error| if is_impatient { at_once(error) } else { error })?;
    session.acked = session.acked.max(locking.seen());
    let schema = Arc::clone(target.schema());
    let mut rows = ColumnsBuilder::new(&schema, current.len());
    current.iter().flatten().for_each(|row| rows.append(row, 1));
    let given = GivenRows { table: target.id(), schema, rows: rows.finish(), is_own: false };
    query::select_over(session, query, items, given, parameters).await
}

/// The error of a statement that does not wait.
fn at_once(error: Error) -> Error {
    match error.code() {
        ErrorCode::LockWaitTimeout => err!(
            LockNoWait,
            "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set."
        ),
        _ => error,
    }
}
