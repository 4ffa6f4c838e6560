//! DROP PARTITION into the recycle bin, and RECOVER PARTITION (RFC 0046).
//!
//! A dropped partition leaves its table by the record of every DROP PARTITION, and its files stay.
//! So that they have all its rows, the table is flushed before; its rows come back as those of
//! REORGANIZE do, by a copy to a new partition.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{ErrorCode, Lsn, PartitionId, Result, TableId, bail, err, task};
use freshet_meta::{Meta, PartitionChange, Repartition, RowsetMeta, StoredResting};
use freshet_schema::{Partition, Table, TableForm};
use freshet_storage::recover::StoredMarks;
use freshet_storage::rowset::Rowset;

use crate::bin::is_full;
use crate::ddl::Ddl;
use crate::engine::Engine;
use crate::record::BarrierBody;
use crate::reorganize::{TRIES_MAX, copied_rowsets};
use crate::state::TableState;
use crate::store::Store;

/// How long nobody is let in while writers are waited for.
const DRAIN: Duration = Duration::from_secs(2);
/// How often it is looked whether they are gone.
const LOOK: Duration = Duration::from_millis(10);

/// Drops partitions of a table into the recycle bin. Returns warnings. They are dropped for good if
/// the bin keeps nothing, the log or the disk is full, or the table is not in the form of Doris.
///
/// # Errors
/// Those of metadata, 1213 when rows are written to the table all the time, and those of the log.
/// Nothing has changed then.
pub async fn bin_partitions(
    engine: &Engine,
    id: TableId,
    names: Vec<String>,
    if_exists: bool,
) -> Result<Vec<String>> {
    engine.begun().await?;
    let change = PartitionChange::Drop { names, if_exists, force: false };
    let catalog = engine.meta().catalog();
    let table = catalog.require(id)?;
    let keeps = table.form == TableForm::Olap && table.temporary_of.is_none();
    let keeps = keeps && !engine.store.config.recycle_bin_keep.is_zero();
    if !keeps || engine.store.disk.may_grow().is_err() {
        return engine.ddl().change_partitions(id, change).await;
    }
    match binned(engine, id, &change).await {
        Err(error) if is_full(&error) => engine.ddl().change_partitions(id, change).await,
        done => done,
    }
}

async fn binned(engine: &Engine, id: TableId, change: &PartitionChange) -> Result<Vec<String>> {
    let states = engine.ddl().states_of(&[id])?;
    let state = &states[0];
    let mut tries = 0;
    loop {
        match binned_once(engine, &states, change).await {
            Err(error) if error.code() == ErrorCode::Deadlock && tries < TRIES_MAX => tries += 1,
            Err(error) if error.code() == ErrorCode::Deadlock => break,
            done => return done,
        }
    }
    // Who writes all the time waits once.
    let _alone = state.rewriting.lock().await;
    let _closed = state.gate.close();
    let until = engine.clock().now() + DRAIN;
    while state.gate.inside() > 0 && engine.clock().now() < until {
        engine.clock().sleep(LOOK).await;
    }
    binned_once(engine, &states, change).await.map_err(|error| match error.code() {
        ErrorCode::Deadlock => err!(
            Deadlock,
            "rows were written to table '{}' all the time while a partition was dropped; try again \
             when fewer are, or DROP PARTITION .. FORCE, which keeps nothing in the recycle bin",
            state.name()
        ),
        _ => error,
    })
}

async fn binned_once(
    engine: &Engine,
    states: &[Arc<TableState>],
    change: &PartitionChange,
) -> Result<Vec<String>> {
    let (ddl, state) = (engine.ddl(), &states[0]);
    let _one = ddl.lock_definition(state).await?;
    let change = change.clone();
    let planned =
        planned(&engine.store, state.id, move |meta, id| meta.change_partitions(id, &change));
    let planned = planned.await?;
    let Some(record) = planned.record else { return Ok(planned.notes) };
    // Rows and marks of them that are in memory are none of its files.
    engine.flush_table(state.id).await?;
    ddl.settler.events_settled(state).await;
    let Some(flushed) = engine.meta().flushed(state.id) else { return Err(state.gone()) };
    let rests_micros = Some(engine.clock().wall_micros());
    let body = BarrierBody::Divide(vec![Repartition { rests_micros, ..record }]);
    ddl.barrier_behind(body, states, &[(state.id, flushed.lsn)]).await?;
    Ok(planned.notes)
}

/// What metadata says of a change; ids may have to be reserved.
async fn planned<T: Send + 'static>(
    store: &Arc<Store>,
    id: TableId,
    plan: impl FnOnce(&Meta, TableId) -> Result<T> + Send + 'static,
) -> Result<T> {
    let own = Arc::clone(store);
    task::run(store.pool(), move || plan(own.meta(), id)).await
}

/// Brings a partition back from the recycle bin, under `new_name` or its own: the one with this id,
/// or the one of this name that was dropped last.
///
/// # Errors
/// Those of [`Meta::recovering`], of files and of the log. It stays in the recycle bin then.
pub async fn recover_partition(
    engine: &Engine,
    id: TableId,
    (name, partition): (String, Option<PartitionId>),
    new_name: Option<String>,
) -> Result<()> {
    engine.begun().await?;
    let ddl = engine.ddl();
    let states = ddl.states_of(&[id])?;
    let state = &states[0];
    let _one = ddl.lock_definition(state).await?;
    let plan = move |meta: &Meta, id| meta.recovering(id, (&name, partition), new_name.as_deref());
    let (stored, record) = planned(&engine.store, id, plan).await?;
    let catalog = engine.meta().catalog();
    let table = catalog.require(id)?;
    let own = (Arc::clone(&engine.store), Arc::clone(table));
    let rowsets = task::run(engine.store.pool(), move || marked(&own.0, &own.1, &stored)).await?;
    let is_new = |one: &&Partition| table.partitions.iter().all(|known| known.id != one.id);
    let partitions = record.partitions.iter().filter(is_new).cloned().collect();
    let layout = Table { partitions, ..Table::clone(table) };
    let (files, _in_flight) = copied_rowsets(engine, &rowsets, state, layout).await?;
    let body = BarrierBody::Divide(vec![Repartition { files, ..record }]);
    // Nothing of it was read from the table; but who has looked for a key, and found none in the
    // partition that was gone, looks once more.
    let lsn = ddl.barrier_behind(body, &states, &[(id, Lsn(u64::MAX))]).await?;
    retire(&engine.store, lsn, &rowsets);
    Ok(())
}

/// The rowsets of a partition in the recycle bin, with their marks.
fn marked(store: &Store, table: &Table, stored: &StoredResting) -> Result<Vec<Arc<Rowset>>> {
    let files = &store.files;
    let marks = StoredMarks::read(&*files.fs, &files.dir, table.id, &stored.resting.marks)?;
    let rowsets = opened(store, table, stored)?;
    let marked = rowsets.iter().map(|rowset| Ok(Arc::new(marks.of(rowset, Lsn(u64::MAX))?)));
    marked.collect()
}

/// The rowsets of a partition in the recycle bin. Nothing is read yet.
fn opened(store: &Store, table: &Table, stored: &StoredResting) -> Result<Vec<Arc<Rowset>>> {
    let open = |meta: &RowsetMeta| {
        let Some(schema) = table.history.at(meta.schema_version) else {
            bail!(
                Corruption,
                "files of '{}' in the recycle bin name schema version {}",
                stored.resting.partition.name,
                meta.schema_version
            );
        };
        Ok(Arc::new(store.files.rowset(table.id, meta.clone(), schema)))
    };
    stored.rowsets.iter().map(open).collect()
}

/// Lets files go that the recycle bin no longer names since the record at `lsn`.
fn retire(store: &Store, lsn: Lsn, rowsets: &[Arc<Rowset>]) {
    rowsets.iter().for_each(|rowset| store.tables.retired.add(lsn, rowset));
}

impl Ddl {
    /// Drops partitions of a table in the recycle bin for good. Returns whether one was there.
    ///
    /// # Errors
    /// Those of the log.
    pub async fn forget_partitions(&self, id: TableId, those: Vec<PartitionId>) -> Result<bool> {
        self.term.begun().await?;
        let states = self.states_of(&[id])?;
        let _one = self.lock_definition(&states[0]).await?;
        let (catalog, fold) = (self.store.meta().catalog(), self.store.meta().fold());
        let table = catalog.require(id)?;
        let stored = fold.resting_of(id).into_iter();
        let stored = stored.filter(|one| those.contains(&one.resting.partition.id));
        let files = stored.map(|one| opened(&self.store, table, &one));
        let files = files.collect::<Result<Vec<_>>>()?.concat();
        let Some(record) = self.store.meta().forgetting(id, &those) else { return Ok(false) };
        let lsn = self.barrier_behind(BarrierBody::Divide(vec![record]), &states, &[]).await?;
        retire(&self.store, lsn, &files);
        Ok(true)
    }
}
