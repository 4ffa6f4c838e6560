//! INSERT OVERWRITE of partitions (RFC 0049): a table of the same form is filled beside the one
//! that is overwritten, and its rows take the place of those of some partitions, in one record.

use std::sync::Arc;

use freshet_base::{Error, ErrorCode, Lsn, Result, TableId, task};
use freshet_meta::{Claim, Exchanged, PartitionChange, Repartition};
use freshet_schema::{Partition, PartitionKey, PartitionValues, Table};
use freshet_storage::delta::Freshness;

use crate::append::Signature;
use crate::engine::Engine;
use crate::record::BarrierBody;
use crate::reorganize::{TRIES_MAX, copied, read_of};
use crate::target::{LoadTarget, Loaded};
use crate::unlisted::UnpublishedTable;

/// Puts the rows of partitions of a table that is filled in the place of those of `before`, like
/// which it was made; its last row is at `lsn`. The partitions are those with these names, or those
/// of which there are rows. The filled table goes. The record uses up the label, if there is one,
/// and what it did is returned then; without a record the label is free again.
///
/// # Errors
/// 1412 when the other table was altered since, or emptied while it generates ids, 1735 for a
/// partition that is gone, 1213 when rows come all the time, and those of files and the log.
/// Nothing has changed then.
pub async fn overwrite_partitions(
    engine: &Engine,
    before: &Table,
    (filled, lsn): (UnpublishedTable, Lsn),
    names: Option<Vec<String>>,
    label: Option<Claim>,
) -> Result<Option<Loaded>> {
    engine.begun().await?;
    let mut signature = signature_of(engine, label)?;
    let signed = signature.signed_as();
    let (ddl, id) = (engine.ddl(), before.id);
    let states = ddl.states_of(&[id])?;
    let state = &states[0];
    // What is not durable is not read.
    engine.horizon().wait(lsn).await;
    let names = match names {
        Some(names) => names,
        None => found(engine, id, filled.target()).await?,
    };
    if names.is_empty() {
        return Ok(None);
    }
    let _one = ddl.lock_definition(state).await?;
    let (source, names) = (filled.target().id(), Arc::new(names));
    let mut tries = 0;
    loop {
        engine.settler.events_settled(state).await;
        let catalog = engine.meta().catalog();
        let now = catalog.require(id)?;
        // Behind a TRUNCATE the ids of the filled table may be given again.
        let is_emptied = state.counter.is_some() && now.incarnation() != before.incarnation();
        if now.schema().version != before.schema().version || is_emptied {
            return Err(state.changed());
        }
        let (store, wanted) = (Arc::clone(&engine.store), Arc::clone(&names));
        // Ids may have to be reserved.
        let plan = move || store.meta().overwriting(id, source, &wanted);
        let Exchanged { change, gives, .. } = task::run(engine.store.pool(), plan).await?;
        let read = read_of(engine, &filled.target().state).await?;
        let seen = (source, read.horizon);
        let catalog = engine.meta().catalog();
        let table = catalog.require(id)?;
        let is_new = |one: &&Partition| table.partitions.iter().all(|known| known.id != one.id);
        let partitions = change.partitions.iter().filter(is_new).cloned().collect();
        let layout = Table { partitions, ..Table::clone(table) };
        let (files, _in_flight) = copied(engine, read, &gives, state, layout).await?;
        let body = BarrierBody::Divide(vec![Repartition { files, ..change }]);
        tries += 1;
        // With the latch of the table, as what moves rows is appended: nobody else writes to the
        // filled one.
        match ddl.signed_barrier_behind(body, &states, &[seen], &mut signature).await {
            Err(error) if error.code() == ErrorCode::Deadlock && tries < TRIES_MAX => {}
            done => return done.map(|_| signed),
        }
    }
}

/// What the record of an INSERT OVERWRITE says of it.
///
/// # Errors
/// When no id can be reserved.
pub(crate) fn signature_of(engine: &Engine, label: Option<Claim>) -> Result<Signature> {
    let txn = label.as_ref().map(|_| engine.store.meta().ids().txn()).transpose()?;
    Ok(Signature { label, txn })
}

/// The partitions in which a table that is filled has rows. Those that rows have made there are
/// made in `into`, too.
async fn found(engine: &Engine, into: TableId, filled: &LoadTarget) -> Result<Vec<String>> {
    let snapshot = engine.snapshot(Freshness::Committed);
    let Some(read) = snapshot.table(filled.id()).map_err(Error::from)? else {
        return Err(filled.state.gone());
    };
    let counts = read.by_partition()?;
    let has_rows = |one: &&Partition| counts.get(&one.id).is_some_and(|(rows, _)| *rows > 0);
    let found = read.table.partitions.iter().filter(has_rows).collect::<Vec<_>>();
    let catalog = engine.meta().catalog();
    let table = catalog.require(into)?;
    let is_missing = |one: &&&Partition| table.partition_at(&one.name).is_none();
    let keys = found.iter().filter(is_missing).filter_map(|one| a_key_of(one)).collect::<Vec<_>>();
    if !keys.is_empty() {
        engine.ddl().change_partitions(into, PartitionChange::Make(keys)).await?;
    }
    Ok(found.into_iter().map(|one| one.name.clone()).collect())
}

/// Values for which AUTO PARTITION makes this partition.
fn a_key_of(partition: &Partition) -> Option<PartitionKey> {
    match partition.values.as_ref()? {
        PartitionValues::Range { lower, .. } => lower.clone(),
        PartitionValues::List(keys) => keys.first().cloned(),
        // Who has it makes none.
        PartitionValues::Others(_) => None,
    }
}
