//! REORGANIZE PARTITION: rows of some partitions are written to files of new ones, which one record
//! exchanges for the old ones (RFC 0021).

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use freshet_base::{ErrorCode, Lsn, Result, TableId, bail, task};
use freshet_meta::{PartitionChange, Repartition};
use freshet_schema::{KeyModel, Partition, Router, Table, TableSchema, encode};
use freshet_storage::delta::Freshness;
use freshet_storage::segment::ScanRequest;

use crate::admit::WaitLimit;
use crate::append::{PartBody, PartLoad};
use crate::engine::Engine;
use crate::large_load::LargeLoad;
use crate::partitions::no_partition;
use crate::record::BarrierBody;
use crate::state::TableState;
use crate::sweep::InFlight;

/// How often it begins again when rows were written meanwhile.
const TRIES_MAX: usize = 5;
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
    let _one = state.altering.lock().await;
    let mut tries = 0;
    loop {
        engine.settler.events_settled(state).await;
        let (store, wanted) = (Arc::clone(&engine.store), change.clone());
        // Ids may have to be reserved.
        let plan = move || store.meta().change_partitions(id, &wanted);
        let planned = task::run(engine.store.pool(), plan).await?;
        let Some(record) = planned.record else { return Ok(()) };
        let (part, seen) = moved(engine, state, &record).await?;
        let (files, _in_flight) = files_of(part);
        let body = BarrierBody::Divide(Repartition { files, ..record });
        tries += 1;
        match ddl.barrier_behind(body, &states, Some(seen)).await {
            Err(error) if error.code() == ErrorCode::Deadlock && tries < TRIES_MAX => {}
            done => return done,
        }
    }
}

fn files_of(part: PartLoad) -> (Vec<freshet_meta::RowsetMeta>, InFlight) {
    match part.body {
        PartBody::Rowsets { metas, in_flight } => (metas, in_flight),
        PartBody::Rows { .. } => unreachable!("a large load has files"),
    }
}

/// Writes the rows of the partitions that a change removes to files of those that it makes; also
/// returns the place of the log up to which they are complete.
async fn moved(
    engine: &Engine,
    state: &Arc<TableState>,
    change: &Repartition,
) -> Result<(PartLoad, Lsn)> {
    let snapshot = engine.snapshot(Freshness::Committed);
    let Some(read) = snapshot.table(state.id)? else {
        bail!(NoSuchTable, "Table '{}' doesn't exist", state.name());
    };
    read.resolved().await?;
    if read.table.key_model == KeyModel::Aggregate {
        bail!(
            NotSupported,
            "This version of Freshet doesn't yet support 'REORGANIZE PARTITION' of a table with an \
             AGGREGATE KEY"
        );
    }
    let seen = read.horizon;
    let is_removed = |one: &Partition| change.removed.iter().any(|gone| gone.id == one.id);
    let numbered = read.table.partitions.iter().enumerate();
    let from = numbered.filter(|(_, one)| is_removed(one)).map(|(at, _)| at).collect::<Vec<_>>();
    let table = Table { partitions: change.partitions.clone(), ..Table::clone(&read.table) };
    let router = table.router().expect("it is divided");
    let schema = Arc::clone(&read.schema);
    let load = LargeLoad::begin(&engine.flusher, state, &schema)?;
    let mut rows = Rows { engine, router, schema, load: load.into_layout(Arc::new(table)) };
    let read = read.within(&from);
    let request = Arc::new(ScanRequest::all(&rows.schema));
    for slice in read.rowsets().flat_map(|rowset| rowset.slices(seen)) {
        let request = Arc::clone(&request);
        let scan = move || -> Result<Vec<_>> {
            let batches = slice.segment.scan(&request, slice.share, &slice.dead)?;
            Ok(batches.collect::<std::result::Result<Vec<_>, _>>()?)
        };
        for batch in task::run(engine.store.pool(), scan).await? {
            rows.push(&batch).await?;
        }
    }
    for batch in read.delta_batches()? {
        rows.push(&batch).await?;
    }
    Ok((rows.load.finish().await?, seen))
}

/// Rows on their way to new partitions.
struct Rows<'a> {
    engine: &'a Engine,
    router: Router,
    schema: Arc<TableSchema>,
    load: LargeLoad,
}

impl Rows<'_> {
    async fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut at = 0;
        while at < batch.num_rows() {
            let some = batch.slice(at, ROWS_MAX.min(batch.num_rows() - at));
            at += some.num_rows();
            let mut bytes = Vec::new();
            encode(&some, &self.schema, &mut bytes);
            let checked = self.router.check(&self.schema, &bytes);
            checked.map_err(|unrouted| no_partition(&unrouted))?;
            let deadline = WaitLimit::For(PATIENCE).soon(&self.engine.admission);
            let memory = self.engine.take_memory(bytes.len() as u64, deadline).await?;
            let count = u32::try_from(some.num_rows()).expect("a part of a batch is small");
            self.load.push(bytes.into(), count, memory).await?;
        }
        Ok(())
    }
}
