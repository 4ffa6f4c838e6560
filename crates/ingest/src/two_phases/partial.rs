//! The commit of a partial update that was prepared (RFC 0050): its rows stand behind its note, and
//! are completed by what is stored when it is committed.

use std::sync::Arc;

use freshet_base::clock::Deadline;
use freshet_base::{Error, ErrorCode, Incarnation, Lsn, Result, bail, err, task};
use freshet_meta::{NotedPartial, NotedRows, PreparedNote};
use freshet_schema::Rules;

use crate::admit::WaitLimit;
use crate::append::{PreparedLoad, Signature, Signed};
use crate::decode::{Completion, PartialColumns};
use crate::engine::Engine;
use crate::large_update::LargeUpdate;
use crate::load::GATE_PAUSE;
use crate::looked::{OnNewKey, PartialRows, TRIES_MAX, Updated, update_columns_as};
use crate::note::NotedPart;
use crate::prepared::Prepared;
use crate::record::PART_HEAD_BYTES;
use crate::target::{LoadTarget, Loaded};

/// What a note says of the rows.
pub(super) fn noted(
    columns: &PartialColumns,
    (is_flexible, deletes): (bool, bool),
    on_new_key: OnNewKey,
) -> NotedPartial {
    let at = |&at: &usize| u32::try_from(at).expect("a table has few columns");
    NotedPartial {
        given: columns.given.clone(),
        required: columns.required.iter().map(at).collect(),
        is_flexible,
        refuses_new: on_new_key == OnNewKey::Refuse,
        deletes,
    }
}

/// What a note has said of the rows.
fn columns_of(partial: NotedPartial) -> (PartialColumns, OnNewKey) {
    let NotedPartial { given, required, refuses_new, .. } = partial;
    let required = required.into_iter().map(|at| at as usize).collect();
    let on_new_key = if refuses_new { OnNewKey::Refuse } else { OnNewKey::Append };
    (PartialColumns { given, required, completion: Completion::default() }, on_new_key)
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
        return Err(other_columns());
    }
    let patience = WaitLimit::For(engine.config().load_patience);
    let deadline = patience.late(&engine.admission);
    let target = entered(engine, target, deadline).await?;
    let fits = usize::try_from(noted.bytes)
        .is_ok_and(|bytes| engine.takes_record_of(PART_HEAD_BYTES.saturating_add(bytes)));
    if !fits {
        return append_many(engine, prepared, (&target, patience), (noted, partial)).await;
    }
    let soon = patience.soon(&engine.admission);
    let whole = engine.noted_rows(prepared, noted, soon).await?;
    let given_bytes = if partial.is_flexible { partial.given.len() * rows as usize } else { 0 };
    let all = whole.joined();
    let (bytes, own) = all
        .split_at_checked(all.len().saturating_sub(given_bytes))
        .filter(|(bytes, own)| !bytes.is_empty() && own.len() == given_bytes && rows > 0)
        .ok_or_else(|| err!(Corruption, "the rows of load {txn} are too few; abort it"))?;
    let own = own.iter().map(|given| *given == 1).collect::<Vec<_>>();
    let (columns, on_new_key) = columns_of(partial);
    let rows = PartialRows {
        target: &target,
        bytes,
        count: rows as usize,
        columns: &columns,
        given: &own,
        on_new_key,
        rules: &Rules::default(),
    };
    let mut signature = Signature { label: prepared.claim.take(), txn: Some(txn) };
    let mut done = Ok(Updated::Overtaken);
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
        Updated::Overtaken | Updated::TooLarge => Err(never_last()),
    }
}

fn never_last() -> Error {
    err!(
        OutOfRoom,
        "others wrote the same rows {TRIES_MAX} times while they were updated; commit the load \
         again"
    )
}

/// Completes rows that are too many for a record, some at a time, and appends one that names their
/// files (RFC 0040).
async fn append_many(
    engine: &Engine,
    prepared: &mut Prepared,
    (target, patience): (&LoadTarget, WaitLimit),
    (noted, partial): (NotedRows, NotedPartial),
) -> Result<Lsn> {
    let PreparedNote { txn, incarnation, .. } = prepared.note;
    let mut signature = Signature { label: prepared.claim.take(), txn: Some(txn) };
    let parts = (&prepared.note, noted);
    let update = (target, patience, &mut signature);
    let done = complete_parts(engine, parts, partial, update).await;
    prepared.claim = signature.label;
    match done.map_err(|error| refused_by(target, incarnation, error))? {
        Some(loaded) => Ok(loaded.lsn),
        None => Err(never_last()),
    }
}

/// Completes the rows behind a note into files, until nobody has written one of them since; `None`
/// if that was never so.
async fn complete_parts(
    engine: &Engine,
    (note, noted): (&PreparedNote, NotedRows),
    partial: NotedPartial,
    (target, patience, signature): (&LoadTarget, WaitLimit, &mut Signature),
) -> Result<Option<Loaded>> {
    check_same(target, note.incarnation)?;
    let width = if partial.is_flexible { partial.given.len() } else { 0 };
    let (columns, on_new_key) = columns_of(partial);
    let (columns, rules) = (&columns, &Rules::default());
    let mut update = LargeUpdate::begin(engine, target, patience)?.prepared_in(note.incarnation);
    for _ in 0..TRIES_MAX {
        let (loads, note) = (Arc::clone(&engine.prepared), note.clone());
        let schema = Arc::clone(target.schema());
        let open = move || loads.open_parts((&note, noted), (&schema, width));
        let mut parts = task::run(&**engine.pool(), open).await?;
        loop {
            let next = move || parts.next().map(|part| (parts, part));
            let part;
            (parts, part) = task::run(&**engine.pool(), next).await?;
            let Some(NotedPart { rows, count, given }) = part else { break };
            let soon = patience.soon(&engine.admission);
            let _memory = engine.take_memory((rows.len() + given.len()) as u64, soon).await?;
            let (bytes, given) = (&rows[..], &given[..]);
            let rows = PartialRows { target, bytes, count, columns, given, on_new_key, rules };
            update.add(rows).await?;
        }
        if let Some(loaded) = update.commit_as(signature).await? {
            return Ok(Some(loaded));
        }
    }
    Ok(None)
}

/// Checks that the table was not truncated since its rows were prepared.
fn check_same(target: &LoadTarget, incarnation: Incarnation) -> Result<()> {
    let state = &target.state;
    if state.incarnation() != incarnation {
        bail!(SnapshotTooOld, "table '{}' was truncated since", state.name());
    }
    Ok(())
}

/// Completes rows into files, which the record names: as whole rows they do not fit one, or the log
/// was larger when they were prepared.
async fn update_by_files(
    engine: &Engine,
    rows: PartialRows<'_>,
    (signature, incarnation): (&mut Signature, Incarnation),
    patience: WaitLimit,
) -> Result<Updated> {
    let updated = complete_in_files(engine, rows, (signature, incarnation), patience).await;
    updated.map_err(|error| refused_by(rows.target, incarnation, error))
}

/// Why a table does not take files of completed rows.
fn refused_by(target: &LoadTarget, incarnation: Incarnation, error: Error) -> Error {
    let (state, version) = (&target.state, target.schema().version);
    let is_same = state.incarnation() == incarnation;
    let has_same_columns = state.lock().log().schema_version() == version;
    refused(error, &target.table().name, (is_same, has_same_columns))
}

/// Why files of completed rows are not taken, of a table that is the same or was truncated, and has
/// the same columns or others.
fn refused(error: Error, table: &str, (is_same, has_same_columns): (bool, bool)) -> Error {
    match (error.code(), is_same) {
        (ErrorCode::SnapshotTooOld, true) if !has_same_columns => other_columns(),
        // The rows stand behind the note, and go to other files by the partitions of now.
        (ErrorCode::SnapshotTooOld, true) => super::partitions_changed(table),
        _ => error,
    }
}

fn other_columns() -> Error {
    err!(
        TableChanged,
        "its table has other columns than when it was prepared, and nobody knows what its rows \
         have of them"
    )
}

async fn complete_in_files(
    engine: &Engine,
    rows: PartialRows<'_>,
    (signature, incarnation): (&mut Signature, Incarnation),
    patience: WaitLimit,
) -> Result<Updated> {
    check_same(rows.target, incarnation)?;
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

#[cfg(test)]
mod tests {
    use super::super::is_final;
    use super::*;

    #[test]
    fn a_commit_is_tried_again_only_where_it_can_succeed() {
        let told = |code, of| refused(Error::new(code, "why"), "t", of);
        let partitions = told(ErrorCode::SnapshotTooOld, (true, true));
        assert!(!is_final(&partitions) && partitions.message().contains("commit the load again"));
        let columns = told(ErrorCode::SnapshotTooOld, (true, false));
        assert!(is_final(&columns) && columns.message().contains("other columns"));
        let truncated = told(ErrorCode::SnapshotTooOld, (false, true));
        assert!(is_final(&truncated) && truncated.message() == "why");
        // What has nothing to do with either stays as it is.
        let full = told(ErrorCode::OutOfRoom, (true, false));
        assert!(!is_final(&full) && full.message() == "why");
    }
}
