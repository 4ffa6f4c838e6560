//! Loads that look at the stored rows of their keys: partial updates, and rows that delete in
//! tables with a PRIMARY KEY. Such a load is read as a whole, and is one record of whole rows.

use freshet_base::{Result, bail};
use freshet_ingest::decode::PartialColumns;
use freshet_ingest::{
    LoadTarget, Loaded, PartialRows, TRIES_MAX, WaitLimit, merge_rows, update_columns,
};
use freshet_meta::{Claim, ClaimOutcome, LabelKind, UsedLabel};
use freshet_schema::{KeyModel, Rules, Table};

use super::decode::Bounds;
use super::deleting::marks;
use super::headers::LoadHeaders;
use super::piece::{Decoded, Deletes};
use crate::http::Http;

/// Whether a load looks before it writes.
pub(super) fn looks(headers: &LoadHeaders, table: &Table) -> bool {
    headers.partial.is_some() || headers.may_delete() && table.key_model == KeyModel::Primary
}

/// Writes decoded rows of which some delete, into a table with a PRIMARY KEY.
///
/// # Errors
/// Those of [`merge_rows`].
pub(super) async fn merge(
    http: &Http,
    target: &LoadTarget,
    (decoded, deletes): (Decoded, Deletes),
    (label, bounds): (Option<Claim>, Bounds),
) -> Result<Loaded> {
    let Decoded { rows, count, permit: _permit, deletes: marked, .. } = decoded;
    let deletes = marks(deletes, marked, count)?;
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
