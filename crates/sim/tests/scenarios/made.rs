//! CREATE TABLE AS SELECT: the table exists with all its rows or not at all.

use std::time::Duration;

use freshet_ingest::{CreateOutcome, Destination, UnpublishedTable, WaitLimit};
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::{Client, encoded};
use freshet_sim::rows;
use freshet_storage::delta::Freshness;
use freshet_testkit::Faults;

use crate::{act, store};

const ROWS: i64 = 40;

async fn begin(client: &Client) -> UnpublishedTable {
    let spec = rows::table_spec("made", &[]);
    match client.engine.ddl().create_unlisted("d", spec, false).await.unwrap() {
        CreateOutcome::Begun(table, _) => table,
        CreateOutcome::Exists => panic!("nobody made it before"),
    }
}

/// Creates a table with rows from one record or from files, while others load and flush.
async fn make(client: Client, large: bool) {
    let engine = &client.engine;
    let table = begin(&client).await;
    let target = table.target();
    let ids = client.model.lock().take_ids(ROWS);
    let mut buffer = encoded(target, &ids);
    client.load("a", 3, Async, None).await;
    let patience = WaitLimit::For(Duration::from_secs(30));
    let mut load = engine.load(target, Destination::Group(Off), patience);
    if large {
        load.to_files().await.unwrap();
    }
    let lsn = load.commit(&mut buffer).await.unwrap().lsn;
    client.load("b", 3, Off, None).await;
    engine.flush_table(target.id()).await.unwrap();
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
            // What is left of it is dropped once the term has begun.
            sim.pass(Duration::from_secs(1));
            let made = rows_of(&sim);
            assert!(made.is_none_or(|rows| rows == ROWS as usize), "call {call}: {made:?} rows");
            assert!(made.is_some() || !ended, "call {call}: it was acknowledged");
            let tables = sim.engine().table_states().len();
            assert_eq!(tables, 4 + usize::from(made.is_some()), "call {call}: one without a name");
            act(&sim, |client| async move { client.load("a", 2, Async, None).await });
            sim.crash(Death::PowerCut);
            assert_eq!(rows_of(&sim), made, "call {call}: the next start finds the same");
            sim.replay_again();
            sim.flush_and_check_leaks();
            if ended {
                break;
            }
        }
    }
}
