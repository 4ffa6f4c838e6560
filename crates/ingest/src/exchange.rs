//! REPLACE PARTITION and EXCHANGE PARTITION: two tables give each other rows, at one place of the
//! log. Rows are written to files of new partitions, which one record gives to both (RFC 0038).

use std::sync::Arc;

use freshet_base::{ErrorCode, Lsn, Result, TableId, err, task};
use freshet_meta::{Exchanged, Meta, Repartition, Replacing};
use freshet_schema::{Partition, Table};

use crate::engine::Engine;
use crate::record::BarrierBody;
use crate::reorganize::{TRIES_MAX, copied, read_of};
use crate::state::TableState;
use crate::sweep::InFlight;

/// Works out what changes; ids may have to be reserved.
type Plan = Arc<dyn Fn(&Meta) -> Result<[Exchanged; 2]> + Send + Sync>;

/// Puts temporary partitions in the place of others, whose rows are gone.
///
/// # Errors
/// Those of metadata, 1213 when rows are written to the temporary partitions all the time, and
/// those of files and the log. Nothing has changed then.
pub async fn replace_partitions(engine: &Engine, id: TableId, replacing: Replacing) -> Result<()> {
    let ids = engine.catalog().with_temporary(id);
    exchange(engine, &ids, Arc::new(move |meta| meta.replacing(id, &replacing))).await
}

/// Exchanges the rows of a partition for those of another table.
///
/// # Errors
/// Those of metadata, 1737 for a row that is not of the partition, 1213 when rows are written to
/// one of the tables all the time, and those of files and the log. Nothing has changed then.
pub async fn exchange_partition(
    engine: &Engine,
    (id, name): (TableId, String),
    other: TableId,
) -> Result<()> {
    let plan: Plan = Arc::new(move |meta| meta.exchanging(id, &name, other));
    exchange(engine, &[id, other], plan).await.map_err(|error| match error.code() {
        ErrorCode::NoPartition => {
            err!(ExchangeRow, "Found a row that does not match the partition: {}", error.message())
        }
        _ => error,
    })
}

async fn exchange(engine: &Engine, ids: &[TableId], plan: Plan) -> Result<()> {
    engine.begun().await?;
    let ddl = engine.ddl();
    let mut states = ddl.states_of(ids)?;
    // In one order, so that nobody waits in a circle.
    states.sort_unstable_by_key(|state| state.id);
    let mut held = Vec::new();
    for state in &states {
        held.push(state.altering.lock().await);
    }
    let mut tries = 0;
    loop {
        for state in &states {
            engine.settler.events_settled(state).await;
        }
        let (store, plan) = (Arc::clone(&engine.store), Arc::clone(&plan));
        let planned = task::run(engine.store.pool(), move || plan(store.meta())).await?;
        let moved = Moved::write(engine, &states, planned).await?;
        let body = BarrierBody::Divide(moved.changes);
        tries += 1;
        match ddl.barrier_behind(body, &states, &moved.seen).await {
            Err(error) if error.code() == ErrorCode::Deadlock && tries < TRIES_MAX => {}
            done => return done.map(drop),
        }
    }
}

/// What an exchange does, with the files of the rows that it moves.
struct Moved {
    /// In the order of the states.
    changes: Vec<Repartition>,
    /// Where the rows that it moves were read.
    seen: Vec<(TableId, Lsn)>,
    _in_flight: Vec<InFlight>,
}

impl Moved {
    async fn write(
        engine: &Engine,
        states: &[Arc<TableState>],
        planned: [Exchanged; 2],
    ) -> Result<Self> {
        let state_of = |id| states.iter().find(|state| state.id == id).expect("it is of these");
        let [mut one, mut other] = planned;
        let ids = [(one.table, other.table), (other.table, one.table)];
        let (mut seen, mut in_flight) = (Vec::new(), Vec::new());
        for (to, from) in ids {
            let (taker, giver) = match to == one.table {
                true => (&mut one, &other),
                false => (&mut other, &one),
            };
            if giver.gives.is_empty() {
                continue;
            }
            let read = read_of(engine, state_of(from)).await?;
            seen.push((from, read.horizon));
            let layout = new_partitions(engine, taker)?;
            let (files, written) = copied(engine, read, &giver.gives, state_of(to), layout).await?;
            taker.change.files = files;
            in_flight.push(written);
        }
        level_counters(engine, [state_of(one.table), state_of(other.table)]).await?;
        let mut changes = [one, other].map(|one| (one.table, one.change));
        changes.sort_unstable_by_key(|(table, _)| *table);
        let changes = changes.into_iter().map(|(_, change)| change).collect();
        Ok(Self { changes, seen, _in_flight: in_flight })
    }
}

/// A table with the partitions alone that take rows of another one.
fn new_partitions(engine: &Engine, taker: &Exchanged) -> Result<Table> {
    let catalog = engine.meta().catalog();
    let table = catalog.require(taker.table)?;
    let is_new = |one: &&Partition| table.partitions.iter().all(|known| known.id != one.id);
    let partitions = taker.change.partitions.iter().filter(is_new).cloned().collect();
    Ok(Table { partitions, ..Table::clone(table) })
}

/// Generated ids of both tables go on above those of either.
async fn level_counters(engine: &Engine, states: [&Arc<TableState>; 2]) -> Result<()> {
    let counters = states.iter().filter_map(|state| state.counter.as_deref());
    let Some(next) = counters.map(|counter| counter.next()).max() else { return Ok(()) };
    for state in states {
        engine.ddl().move_counter(state.id, next).await?;
    }
    Ok(())
}
