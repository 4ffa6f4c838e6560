//! Scenarios: sequences of events from the design documents, lack of space, and damage on the disk.
#![allow(clippy::unwrap_used)]

mod bin;
mod damage;
mod ddl;
mod definitions;
mod ids;
mod keyed;
mod made;
mod merges;
mod metadata;
mod misuse;
mod partitions;
mod ranked;
mod room;
mod sequences;
mod steps;
mod terms;
mod unkeyed;

use std::future::Future;
use std::time::Duration;

use freshet_base::Lsn;
use freshet_ingest::{Destination, WaitLimit};
use freshet_meta::{ColumnPlace, SchemaChange};
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::{Client, encoded, part_of};
use freshet_sim::rows;
use freshet_testkit::Faults;
use futures::FutureExt;

/// A store with the tables `a`, `b` and the two accounts.
fn store(seed: u64) -> Sim {
    let mut sim = Sim::new(seed);
    sim.open();
    act(&sim, |client| async move {
        client.engine.ddl().create_database("d", None, None, true).await.unwrap();
        for table in ["a", "b", "bank_a", "bank_b"] {
            client.create(table, &[]).await;
        }
    });
    sim
}

/// Runs `actions` until they end or the process dies.
fn act<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    sim: &Sim,
    actions: impl FnOnce(Client) -> F,
) -> Option<T> {
    sim.run(actions(sim.client(false)))
}

/// Appends rows without waiting for the acknowledgement.
fn append(client: &Client, table: &str, count: i64) -> Lsn {
    let target = client.engine.target("d", table).unwrap();
    let ids = client.model.lock().take_ids(count);
    let mut buffer = encoded(&target, &ids);
    let load = client.engine.load(&target, Destination::Group(Off), WaitLimit::For(Duration::ZERO));
    let loaded = load.commit(&mut buffer).now_or_never().expect("there is room").unwrap();
    client.loaded(vec![part_of(&target, ids, &loaded)], &loaded, None);
    loaded.lsn
}

fn add_column(name: &str) -> SchemaChange {
    SchemaChange::AddColumn { column: rows::added_column(name), place: ColumnPlace::Last }
}

/// Runs `actions` repeatedly, with the process dying in each call of the disk in turn, until they
/// complete before it dies; the store must be intact each time. Returns the number of runs.
fn die_in_every_call<F: Future<Output = ()> + Send + 'static>(
    prepare: impl Fn(&mut Sim),
    actions: impl Fn(Client) -> F,
) -> u64 {
    for call in 1.. {
        let mut sim = store(call);
        prepare(&mut sim);
        sim.fs.set_faults(Faults { crash_in_calls: call, ..Faults::default() });
        let ended = act(&sim, &actions).is_some();
        let death = if call % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd };
        sim.crash(death);
        act(&sim, |client| async move { client.load("a", 2, Async, None).await });
        sim.crash(Death::PowerCut);
        if ended {
            return call;
        }
    }
    unreachable!("actions have an end")
}

/// Loads rows until the log has been recycled.
async fn fill_log(client: &Client, table: &str) {
    let start = client.engine.meta().log_state().recycled.lsn;
    while client.engine.meta().log_state().recycled.lsn == start {
        client.load(table, 200, Off, None).await;
        client.sleep(Duration::from_millis(5)).await;
    }
}
