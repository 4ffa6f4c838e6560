//! A table that is made with its rows: there with all of them, or not at all.

use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_ingest::{LoadBuffer, Making, Transaction, Unlisted};
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::fs::Faults;
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::Client;
use freshet_sim::rows;
use freshet_storage::delta::Freshness;

use crate::{act, store};

const ROWS: i64 = 40;

async fn begin(client: &Client) -> Unlisted {
    let spec = rows::table_spec("made", &[]);
    match client.engine.create_unlisted("d", spec, false).await.unwrap() {
        Making::Begun(table, _) => table,
        Making::Exists => panic!("nobody made it before"),
    }
}

/// Makes a table with rows from one record, or from files, while others load and flush.
async fn make(client: Client, large: bool) {
    let engine = &client.engine;
    let table = begin(&client).await;
    let schema = table.table().schema();
    let ids = client.model.lock().take_ids(ROWS);
    let mut buffer = LoadBuffer::default();
    rows::encode(ids, false, schema, buffer.begin());
    let deadline = Deadline::after(&**engine.clock(), engine.config().load_patience);
    let bytes = buffer.rows().len() as u64;
    client.load("a", 3, Async, None).await;
    let lsn = if large {
        let memory = engine.admission().memory_until(bytes, deadline).await.unwrap();
        let mut bulk = engine.bulk(table.state(), schema).unwrap();
        bulk.push(engine, buffer.rows().to_vec(), ROWS as u32, memory).await.unwrap();
        let began_in = bulk.began_in();
        let parts = vec![bulk.finish(engine).await.unwrap()];
        let room = engine.room_for(&parts, deadline).await.unwrap();
        engine.append_parts(parts, &[began_in], None, room).unwrap().lsn
    } else {
        let held = engine.admission().hold(bytes, deadline).await.unwrap();
        let mut transaction = Transaction::default();
        transaction.add(table.state(), schema, ROWS as u32, &buffer, held);
        let patience = Duration::from_secs(30);
        engine.commit(transaction, None, patience).await.unwrap().unwrap().lsn
    };
    client.load("b", 3, Off, None).await;
    engine.flush_table(table.state()).await.unwrap();
    table.list(lsn).await.unwrap();
}

fn rows_of(sim: &Sim) -> Option<usize> {
    let snapshot = sim.engine().snapshot(Freshness::Committed);
    let table = snapshot.catalog.table("d", "made")?.id;
    let table = snapshot.table(table).unwrap().expect("what has a name can be read");
    Some(rows::read(&table).unwrap().len())
}

#[test]
fn a_table_that_is_made_with_its_rows_is_whole_or_gone_whenever_the_process_dies() {
    for large in [false, true] {
        for call in 1.. {
            let mut sim = store(call);
            sim.fs.set_faults(Faults { crash_in_calls: call, ..Faults::default() });
            let ended = act(&sim, |client| make(client, large)).is_some();
            sim.crash(if call % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
            let made = rows_of(&sim);
            assert!(made.is_none_or(|rows| rows == ROWS as usize), "call {call}: {made:?} rows");
            assert!(made.is_some() || !ended, "call {call}: it was acknowledged");
            let tables = sim.engine().table_states().len();
            assert_eq!(tables, 4 + usize::from(made.is_some()), "call {call}: one without a name");
            act(&sim, |client| async move { client.load("a", 2, Async, None).await });
            sim.crash(Death::PowerCut);
            assert_eq!(rows_of(&sim), made, "call {call}: the next start finds the same");
            sim.replay_again();
            sim.settle_and_check_leaks();
            if ended {
                break;
            }
        }
    }
}
