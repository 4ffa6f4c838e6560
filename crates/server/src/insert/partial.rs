//! INSERT that changes some columns of stored rows.

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_ingest::decode::PartialColumns;
use freshet_ingest::{
    Destination, PartialRows, TRIES_MAX, WaitLimit, update_columns, update_own_columns,
};

use super::{Grouping, Target, note_alone, report};
use crate::reply::bounded;
use crate::session::Session;
use crate::settings::StatementDeadline;

/// Writes the rows in the session's buffer over stored ones, of which they change some columns.
pub(super) async fn update(
    session: &mut Session,
    target: &Target,
    columns: &PartialColumns,
    grouping: Grouping,
) -> Result<u64> {
    let engine = Arc::clone(&session.shared.engine);
    let own = session.transactions.writable(&engine, &session.settings)?.cloned();
    note_alone(session, target, grouping.why_alone(own.is_some(), target));
    let mut label = match grouping.destination(own.as_ref(), &session.settings, target)? {
        Destination::Label(claim, _) => Some(claim),
        Destination::Group(_) | Destination::Transaction(_) => None,
    };
    // A label is used up by an attempt.
    let tries = if label.is_some() { 1 } else { TRIES_MAX };
    let patience = WaitLimit::For(session.settings.insert_timeout.time());
    // A statement that is not planned has not begun one.
    session.statement_deadline = StatementDeadline::of_insert(&session.settings, &**engine.clock());
    let mut buffer = std::mem::take(&mut session.buffer);
    let given = &columns.of_each(&buffer.take_marks())[..];
    let (count, on_new_key) = (buffer.rows() as usize, session.settings.on_new_key);
    let (target_of, bytes, rules) = (&target.into, buffer.row_bytes(), &target.rules);
    let rows = PartialRows { target: target_of, bytes, count, columns, given, on_new_key, rules };
    let mut loaded = Ok(None);
    for _ in 0..tries {
        loaded = match &own {
            None => {
                let updating = update_columns(&engine, rows, label.take(), patience);
                bounded(session, updating).await
            }
            Some(own) => {
                let updating = update_own_columns(&engine, rows, own, patience);
                bounded(session, updating).await.map(Some)
            }
        };
        if !matches!(loaded, Ok(None)) {
            break;
        }
    }
    let ids = buffer.ids();
    session.buffer = buffer;
    match loaded? {
        Some(loaded) => Ok(report(session, target, loaded, (count as u64, ids)).await),
        None => bail!(
            Deadlock,
            "others wrote the same rows of table '{}' while they were updated; try restarting \
             transaction",
            target.into.table().name
        ),
    }
}
