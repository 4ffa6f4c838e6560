//! The commit of a partial update that was prepared (RFC 0050): its rows stand behind its note, and
//! are completed by what is stored when it is committed.

use freshet_base::clock::Deadline;
use freshet_base::{ErrorCode, Incarnation, Lsn, Result, bail, err};
use freshet_meta::{NotedPartial, NotedRows, PreparedNote};
use freshet_schema::Rules;

use crate::admit::WaitLimit;
use crate::append::{PreparedLoad, Signature, Signed};
use crate::decode::{Completion, PartialColumns};
use crate::engine::Engine;
use crate::large_update::LargeUpdate;
use crate::load::GATE_PAUSE;
use crate::looked::{OnNewKey, PartialRows, TRIES_MAX, Updated, update_columns_as};
use crate::prepared::Prepared;
use crate::record::PART_HEAD_BYTES;
use crate::target::LoadTarget;

/// What a note says of the rows.
pub(super) fn noted(rows: &PartialRows<'_>) -> NotedPartial {
    let at = |&at: &usize| u32::try_from(at).expect("a table has few columns");
    NotedPartial {
        given: rows.columns.given.clone(),
        required: rows.columns.required.iter().map(at).collect(),
        is_flexible: !rows.given.is_empty(),
        refuses_new: rows.on_new_key == OnNewKey::Refuse,
    }
}

/// Completes the rows behind a note, and appends them as one record; by files where that is too
/// large for them.
pub(super) async fn append_partial(
    engine: &Engine,
    prepared: &mut Prepared,
    target: LoadTarget,
    (noted, partial): (NotedRows, NotedPartial),
) -> Result<Lsn> {
    let PreparedNote { txn, schema_version, incarnation, rows, .. } = prepared.note;
    if target.schema().version != schema_version {
        bail!(
            TableChanged,
            "its table has other columns than when it was prepared, and nobody knows what its \
             rows have of them"
        );
    }
    let patience = WaitLimit::For(engine.config().load_patience);
    let deadline = patience.late(&engine.admission);
    let target = entered(engine, target, deadline).await?;
    let soon = patience.soon(&engine.admission);
    let whole = engine.noted_rows(prepared, noted, soon).await?;
    let NotedPartial { given, required, is_flexible, refuses_new } = partial;
    let given_bytes = if is_flexible { given.len() * rows as usize } else { 0 };
    let (bytes, own) = whole
        .rows()
        .split_at_checked(whole.rows().len().saturating_sub(given_bytes))
        .filter(|(bytes, own)| !bytes.is_empty() && own.len() == given_bytes && rows > 0)
        .ok_or_else(|| err!(Corruption, "the rows of load {txn} are too few; abort it"))?;
    let own = own.iter().map(|given| *given == 1).collect::<Vec<_>>();
    let required = required.into_iter().map(|at| at as usize).collect();
    let columns = PartialColumns { given, required, completion: Completion::default() };
    let rows = PartialRows {
        target: &target,
        bytes,
        count: rows as usize,
        columns: &columns,
        given: &own,
        on_new_key: if refuses_new { OnNewKey::Refuse } else { OnNewKey::Append },
        rules: &Rules::default(),
    };
    let mut signature = Signature { label: prepared.claim.take(), txn: Some(txn) };
    let mut done = match engine.takes_record_of(PART_HEAD_BYTES + bytes.len()) {
        true => Ok(Updated::Overtaken),
        false => Ok(Updated::TooLarge),
    };
    for _ in 0..TRIES_MAX {
        if !matches!(done, Ok(Updated::Overtaken)) {
            break;
        }
        let load = PreparedLoad { signature: &mut signature, incarnation };
        done = update_columns_as(engine, rows, Signed::Prepared(load), patience).await;
    }
    if matches!(done, Ok(Updated::TooLarge)) {
        done = update_by_files(engine, rows, (&mut signature, incarnation), patience).await;
    }
    prepared.claim = signature.label;
    match done? {
        Updated::Done(loaded) => Ok(loaded.lsn),
        Updated::Overtaken | Updated::TooLarge => bail!(
            OutOfRoom,
            "others wrote the same rows {TRIES_MAX} times while they were updated; commit the \
             load again"
        ),
    }
}

/// Completes rows into files, which the record names: as whole rows they do not fit one, or the log
/// was larger when they were prepared.
async fn update_by_files(
    engine: &Engine,
    rows: PartialRows<'_>,
    (signature, incarnation): (&mut Signature, Incarnation),
    patience: WaitLimit,
) -> Result<Updated> {
    let state = &rows.target.state;
    match complete_in_files(engine, rows, (signature, incarnation), patience).await {
        // The rows stand behind the note, and go to other files by the partitions of now.
        Err(error)
            if error.code() == ErrorCode::SnapshotTooOld && state.incarnation() == incarnation =>
        {
            Err(super::partitions_changed(&rows.target.table().name))
        }
        updated => updated,
    }
}

async fn complete_in_files(
    engine: &Engine,
    rows: PartialRows<'_>,
    (signature, incarnation): (&mut Signature, Incarnation),
    patience: WaitLimit,
) -> Result<Updated> {
    let state = &rows.target.state;
    if state.incarnation() != incarnation {
        bail!(SnapshotTooOld, "table '{}' was truncated since", state.name());
    }
    let mut update = LargeUpdate::begin(engine, rows.target, patience)?.prepared_in(incarnation);
    for _ in 0..TRIES_MAX {
        update.add(rows).await?;
        if let Some(loaded) = update.commit_as(signature).await? {
            return Ok(Updated::Done(loaded));
        }
    }
    Ok(Updated::Overtaken)
}

/// Waits until the end of a change of columns lets writers in.
async fn entered(engine: &Engine, target: LoadTarget, deadline: Deadline) -> Result<LoadTarget> {
    loop {
        match target.entered() {
            Ok(entered) => return Ok(entered),
            // It was overwritten, or its columns were changed.
            Err(error) if target.state.gate.is_replaced() => return Err(error),
            Err(_) if deadline.left(&**engine.clock()).is_zero() => {
                bail!(
                    OutOfRoom,
                    "the end of a change of columns lets nobody write; commit the load again"
                )
            }
            Err(_) => engine.clock().sleep(GATE_PAUSE).await,
        }
    }
}
