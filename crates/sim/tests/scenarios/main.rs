//! Scenarios: sequences that the design names, room that runs out, damage on the disk.
#![allow(clippy::unwrap_used)]

mod damage;
mod ddl;
mod made;
mod merges;
mod misuse;
mod room;
mod sequences;

use std::future::Future;
use std::time::Duration;

use freshet_base::Lsn;
use freshet_ingest::{Load, LoadBuffer};
use freshet_meta::{ColumnPlace, SchemaChange};
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::fs::Faults;
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::Client;
use freshet_sim::model::{Event, Part};
use freshet_sim::rows;

/// A store with the tables `a`, `b` and the two accounts.
fn store(seed: u64) -> Sim {
    let mut sim = Sim::new(seed);
    sim.open();
    act(&sim, |client| async move {
        client.engine.create_database("d", true).await.unwrap();
        for table in ["a", "b", "bank_a", "bank_b"] {
            client.create(table, &[]).await;
        }
    });
    sim
}

/// Runs `actions` to their end, or to the death of the process.
fn act<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    sim: &Sim,
    actions: impl FnOnce(Client) -> F,
) -> Option<T> {
    sim.run(actions(sim.client(false)))
}

/// Appends rows without waiting for their acknowledgement.
fn append(client: &Client, table: &str, count: i64) -> Lsn {
    let (state, definition) = client.engine.resolve("d", table).unwrap();
    let schema = definition.schema();
    let ids = client.model.lock().take_ids(count);
    let mut buffer = LoadBuffer::default();
    rows::encode(ids.clone(), false, schema, buffer.begin());
    let admitted = client.engine.admission().try_admit(buffer.payload_bytes()).unwrap();
    let rows = u32::try_from(count).unwrap();
    let load = Load { table: &state, schema_version: schema.version, rows, mode: Off, label: None };
    let appended = client.engine.append_rows(load, &mut buffer, admitted).unwrap();
    let part = Part {
        table: state.id,
        ids,
        negative: false,
        schema: schema.clone(),
        txn: appended.txn,
        grouped: false,
    };
    client.model.lock().appended(&client.engine, appended.lsn, Event::Load(vec![part], None));
    appended.lsn
}

fn add_column(name: &str) -> SchemaChange {
    SchemaChange::AddColumn { column: rows::added_column(name), place: ColumnPlace::Last }
}

/// Runs `actions` once for every call of the disk in which the process can die, until they
/// end before it does; the store must be whole each time.
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

/// Loads until the log was recycled.
async fn fill_log(client: &Client, table: &str) {
    let start = client.engine.meta().log_state().recycled_to;
    while client.engine.meta().log_state().recycled_to == start {
        client.load(table, 200, Off, None).await;
        client.sleep(Duration::from_millis(5)).await;
    }
}
