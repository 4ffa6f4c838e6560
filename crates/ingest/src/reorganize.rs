//! REORGANIZE PARTITION: rows of some partitions are written to files of new ones, which one record
//! exchanges for the old ones (RFC 0021).

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use freshet_base::{ErrorCode, Lsn, Result, TableId, bail, task};
use freshet_meta::{PartitionChange, Repartition, RowsetMeta};
use freshet_schema::{KeyModel, Partition, Router, Table, TableSchema, encode};
use freshet_storage::delta::Freshness;
use freshet_storage::flush_policy::FlushReason;
use freshet_storage::rowset::{Rowset, Slice};
use freshet_storage::segment::ScanRequest;
use freshet_storage::snapshot::TableSnapshot;

use crate::admit::WaitLimit;
use crate::append::PartBody;
use crate::engine::Engine;
use crate::large_load::LargeLoad;
use crate::partitions::no_partition;
use crate::record::BarrierBody;
use crate::state::TableState;
use crate::sweep::InFlight;

/// How often it begins again when rows were written meanwhile.
pub(crate) const TRIES_MAX: usize = 5;
/// Rows that are encoded at once.
const ROWS_MAX: usize = 8192;
/// How long it waits for memory.
const PATIENCE: Duration = Duration::from_secs(60);

/// Moves the rows of some partitions to new ones, at one place of the log.
///
/// # Errors
/// Those of metadata for the partitions, 1526 for a row that none of them takes, 1213 when rows are
/// written to the table all the time, and those of files and the log. Nothing has changed then.
pub async fn reorganize(engine: &Engine, id: TableId, change: PartitionChange) -> Result<()> {
    engine.begun().await?;
    let ddl = engine.ddl();
    let states = ddl.states_of(&[id])?;
    let state = &states[0];
    let _one = ddl.lock_definition(state).await?;
    let mut tries = 0;
    loop {
        engine.settler.events_settled(state).await;
        let (store, wanted) = (Arc::clone(&engine.store), change.clone());
        // Ids may have to be reserved.
        let plan = move || store.meta().change_partitions(id, &wanted);
        let planned = task::run(engine.store.pool(), plan).await?;
        let Some(record) = planned.record else { return Ok(()) };
        let read = read_of(engine, state).await?;
        let (seen, from) = (read.horizon, places(&read, &record.removed));
        let layout = Table { partitions: record.partitions.clone(), ..Table::clone(&read.table) };
        let (files, _in_flight) = copied(engine, read, &from, state, layout).await?;
        let body = BarrierBody::Divide(vec![Repartition { files, ..record }]);
        tries += 1;
        match ddl.barrier_behind(body, &states, &[(id, seen)]).await {
            Err(error) if error.code() == ErrorCode::Deadlock && tries < TRIES_MAX => {}
            done => return done.map(drop),
        }
    }
}

/// A snapshot of a table whose rows are to be copied.
///
/// # Errors
/// 1146, and 1213 if rows come to a table with an AGGREGATE KEY all the time.
pub(crate) async fn read_of(engine: &Engine, state: &TableState) -> Result<TableSnapshot> {
    for _ in 0..TRIES_MAX {
        let read = read_once(engine, state).await?;
        // Its rows become one in the order of the log, in which those of files stand.
        let is_ordered = read.loaded.is_empty() && read.delta_rows() == 0;
        if read.table.key_model != KeyModel::Aggregate || is_ordered {
            return Ok(read);
        }
        drop(read);
        engine.flush_for(state.id, FlushReason::Alter).await?;
    }
    bail!(
        Deadlock,
        "rows were written to table '{}' all the time while its partitions were reorganized; try \
         again when fewer are",
        state.name()
    )
}

async fn read_once(engine: &Engine, state: &TableState) -> Result<TableSnapshot> {
    let snapshot = engine.snapshot(Freshness::Committed);
    let Some(read) = snapshot.table(state.id)? else {
        bail!(NoSuchTable, "Table '{}' doesn't exist", state.name());
    };
    read.resolved().await?;
    Ok(read)
}

/// Where partitions stand in a table.
fn places(read: &TableSnapshot, those: &[Partition]) -> Vec<usize> {
    let is_one = |one: &Partition| those.iter().any(|other| other.id == one.id);
    let numbered = read.table.partitions.iter().enumerate();
    numbered.filter(|(_, one)| is_one(one)).map(|(at, _)| at).collect()
}

/// Writes the rows of some partitions of a table to files of `layout`, which is what another one,
/// or itself, is going to be.
///
/// # Errors
/// 1526 for a row that no partition takes, and those of files.
pub(crate) async fn copied(
    engine: &Engine,
    read: TableSnapshot,
    from: &[usize],
    to: &Arc<TableState>,
    layout: Table,
) -> Result<(Vec<RowsetMeta>, InFlight)> {
    let seen = read.horizon;
    let request = Arc::new(ScanRequest::all(&read.schema));
    let mut rows = Rows::begin(engine, to, layout)?;
    let read = if read.table.partition_by.is_some() { read.within(from) } else { read };
    for slice in read.rowsets().flat_map(|rowset| rowset.slices(seen)) {
        rows.push_slice(slice, &request).await?;
    }
    for batch in read.delta_batches()? {
        rows.push(&batch).await?;
    }
    rows.finish().await
}

/// Writes the rows of some rowsets, which are of an earlier form of a table, to files of `layout`.
///
/// # Errors
/// 1526 for a row that no partition takes, and those of files.
pub(crate) async fn copied_rowsets(
    engine: &Engine,
    rowsets: &[Arc<Rowset>],
    to: &Arc<TableState>,
    layout: Table,
) -> Result<(Vec<RowsetMeta>, InFlight)> {
    let request = Arc::new(ScanRequest::all(layout.schema()));
    let mut rows = Rows::begin(engine, to, layout)?;
    for slice in rowsets.iter().flat_map(|rowset| rowset.slices(Lsn(u64::MAX))) {
        rows.push_slice(slice, &request).await?;
    }
    rows.finish().await
}

/// Rows on their way to new partitions.
struct Rows<'a> {
    engine: &'a Engine,
    /// `None` without PARTITION BY.
    router: Option<Router>,
    schema: Arc<TableSchema>,
    load: LargeLoad,
}

impl<'a> Rows<'a> {
    fn begin(engine: &'a Engine, to: &Arc<TableState>, layout: Table) -> Result<Self> {
        let (router, schema) = (layout.router(), Arc::clone(layout.schema()));
        let load = LargeLoad::begin(&engine.flusher, to, &schema)?;
        Ok(Self { engine, router, schema, load: load.into_layout(Arc::new(layout)) })
    }

    async fn push_slice(&mut self, slice: Slice, request: &Arc<ScanRequest>) -> Result<()> {
        let request = Arc::clone(request);
        let scan = move || -> Result<Vec<_>> {
            let batches = slice.segment.scan(&request, slice.share, &slice.dead)?;
            Ok(batches.collect::<std::result::Result<Vec<_>, _>>()?)
        };
        for batch in task::run(self.engine.store.pool(), scan).await? {
            self.push(&batch).await?;
        }
        Ok(())
    }

    async fn finish(self) -> Result<(Vec<RowsetMeta>, InFlight)> {
        match self.load.finish().await?.body {
            PartBody::Rowsets { metas, in_flight } => Ok((metas, in_flight)),
            PartBody::Rows { .. } => unreachable!("a large load has files"),
        }
    }

    async fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut at = 0;
        while at < batch.num_rows() {
            let some = batch.slice(at, ROWS_MAX.min(batch.num_rows() - at));
            at += some.num_rows();
            let mut bytes = Vec::new();
            encode(&some, &self.schema, &mut bytes);
            if let Some(router) = &self.router {
                let checked = router.check(&self.schema, &bytes);
                checked.map_err(|unrouted| no_partition(&unrouted))?;
            }
            let deadline = WaitLimit::For(PATIENCE).soon(&self.engine.admission);
            let memory = self.engine.take_memory(bytes.len() as u64, deadline).await?;
            let count = u32::try_from(some.num_rows()).expect("a part of a batch is small");
            self.load.push(bytes.into(), count, memory).await?;
        }
        Ok(())
    }
}
