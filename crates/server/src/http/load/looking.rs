//! Loads that look at the stored rows of their keys: partial updates, and rows that delete in
//! tables with a PRIMARY KEY. A small one is one record of whole rows.

use std::sync::Arc;

use freshet_base::{Result, bail, err};
use freshet_ingest::decode::PartialColumns;
use freshet_ingest::{
    LargeUpdate, LoadTarget, Loaded, PartialRows, ReadRows, SpooledRows, TRIES_MAX, WaitLimit,
    merge_rows, update_columns,
};
use freshet_meta::{Claim, ClaimOutcome, LabelKind, UsedLabel};
use freshet_schema::{KeyModel, Rules, Table};
use futures::channel::oneshot;

use super::decode::Bounds;
use super::headers::LoadHeaders;
use super::piece::Decoded;
use crate::http::Http;

/// How much of a large load is looked up before it is written.
const PART_BYTES: usize = 8 << 20;

/// Whether a load looks before it writes.
pub(super) fn looks(headers: &LoadHeaders, table: &Table) -> bool {
    headers.partial.is_some() || headers.may_delete() && table.key_model == KeyModel::Primary
}

/// Writes few decoded rows of which some delete, into a table with a PRIMARY KEY.
///
/// # Errors
/// Those of [`merge_rows`].
pub(super) async fn merge(
    http: &Http,
    target: &LoadTarget,
    decoded: Decoded,
    (label, bounds): (Option<Claim>, Bounds),
) -> Result<Loaded> {
    let Decoded { rows, permit: _permit, deletes, .. } = decoded;
    let patience = WaitLimit::Until(bounds.deadline);
    merge_rows(&http.engine, target, (&rows, &deletes), label, patience).await
}

/// Writes decoded rows over stored ones. A label that somebody else has used meanwhile is in the
/// inner error.
///
/// # Errors
/// Those of [`update_columns`]; 1213 when others write the same rows again and again.
pub(super) async fn update(
    http: &Http,
    target: &LoadTarget,
    headers: &LoadHeaders,
    (decoded, columns, rules): (Decoded, &PartialColumns, &Rules),
    (mut claim, bounds): (Option<Claim>, Bounds),
) -> Result<Result<Loaded, UsedLabel>> {
    let Decoded { rows, count, permit: _permit, given, .. } = decoded;
    let given = &given[..];
    let on_new_key = headers.partial.unwrap_or_default();
    for _ in 0..TRIES_MAX {
        let bytes = &rows[..];
        let rows = PartialRows { target, bytes, count, columns, given, on_new_key, rules };
        let patience = WaitLimit::Until(bounds.deadline);
        if let Some(loaded) = update_columns(&http.engine, rows, claim.take(), patience).await? {
            return Ok(Ok(loaded));
        }
        if let Some(label) = &headers.label {
            match http.engine.claim_label(target.db(), label, LabelKind::Streaming).await? {
                ClaimOutcome::New(new) => claim = Some(new),
                ClaimOutcome::Used(used) => return Ok(Err(used)),
            }
        }
    }
    bail!(
        Deadlock,
        "others wrote the same rows of table '{}' {TRIES_MAX} times while they were updated; send \
         the load again",
        target.table().name
    )
}

/// Writes many decoded rows over stored ones, on a thread of their own. It runs to its end, also
/// when the client hangs up.
///
/// # Errors
/// Those of [`LargeUpdate::add`] and [`LargeUpdate::commit`]; the timeout of the load.
pub(super) async fn update_many(
    http: &Http,
    target: &LoadTarget,
    headers: &LoadHeaders,
    (spooled, columns, rules): (SpooledRows, Arc<PartialColumns>, Rules),
    (mut claim, bounds): (Option<Claim>, Bounds),
) -> Result<Loaded> {
    let (engine, target) = (Arc::clone(&http.engine), target.clone());
    let on_new_key = headers.partial.unwrap_or_default();
    let updating = async move {
        let (target, columns, rules) = (&target, &*columns, &rules);
        let mut update = LargeUpdate::begin(&engine, target, WaitLimit::Until(bounds.deadline))?;
        for _ in 0..TRIES_MAX {
            let mut reader = spooled.read();
            while let Some(read) = reader.next(&engine, PART_BYTES).await? {
                if bounds.deadline.left(&**engine.clock()).is_zero() {
                    bail!(QueryTimeout, "the load took longer than its timeout allows");
                }
                let ReadRows { rows, count, given } = &read;
                let (bytes, count, given) = (&rows[..], *count, &given[..]);
                update
                    .add(PartialRows { target, bytes, count, columns, given, on_new_key, rules })
                    .await?;
            }
            if let Some(loaded) = update.commit(&mut claim).await? {
                return Ok(loaded);
            }
        }
        Err(update.never_last())
    };
    let (sender, receiver) = oneshot::channel();
    let run = async move {
        let _ = sender.send(updating.await);
    };
    http.engine.pool().dedicate("partial-update", Box::pin(run));
    receiver.await.unwrap_or_else(|_| Err(err!(ShuttingDown, "Server shutdown")))
}
