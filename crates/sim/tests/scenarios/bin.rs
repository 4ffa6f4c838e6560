//! The recycle bin: a table that is dropped into it comes back whole, or goes with its files when
//! its time is over.

use std::time::Duration;

use freshet_ingest::{Destination, WaitLimit};
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, KEEP, Sim};
use freshet_sim::loads::{Client, encoded};
use freshet_sim::rows;
use freshet_storage::delta::Freshness;
use freshet_testkit::Faults;

use crate::{act, store};

const ROWS: i64 = 30;

/// A table with rows in files and in memory.
async fn make(client: &Client, database: &str) {
    let engine = &client.engine;
    engine.ddl().create_table(database, rows::table_spec("kept", &[]), false).await.unwrap();
    let target = engine.target(database, "kept").unwrap();
    for _ in 0..2 {
        let ids = client.model.lock().take_ids(ROWS / 2);
        let mut buffer = encoded(&target, &ids);
        let patience = WaitLimit::For(Duration::from_secs(30));
        let load = engine.load(&target, Destination::Group(Off), patience);
        load.commit(&mut buffer).await.unwrap();
        engine.flush_table(target.id()).await.unwrap();
    }
}

/// The rows of the table, by its name or in the bin.
fn rows_of(sim: &Sim, in_bin: bool) -> Option<usize> {
    let snapshot = sim.engine().snapshot(Freshness::Committed);
    let table = match in_bin {
        true => snapshot.catalog.bin().next().cloned(),
        false => snapshot.catalog.table("d", "kept").cloned(),
    };
    let table = snapshot.table(table?.id).unwrap().expect("it can be read");
    Some(rows::read(&table).unwrap().len())
}

/// A store with the table, filled.
fn filled(seed: u64) -> Sim {
    let sim = store(seed);
    act(&sim, |client| async move { make(&client, "d").await }).unwrap();
    sim
}

#[test]
fn a_dropped_table_is_whole_in_the_list_or_in_the_bin_whenever_the_process_dies() {
    for call in 1.. {
        let mut sim = filled(call);
        sim.fs.set_faults(Faults { crash_in_calls: call, ..Faults::default() });
        let ended = act(&sim, |client| async move {
            client.engine.ddl().bin_table("d", "kept", false).await.unwrap();
            client.load("b", 3, Off, None).await;
        });
        sim.crash(if call % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
        let (listed, in_bin) = (rows_of(&sim, false), rows_of(&sim, true));
        let rows = Some(ROWS as usize);
        assert!((listed, in_bin) == (rows, None) || (listed, in_bin) == (None, rows), "{call}");
        assert!(in_bin.is_some() || ended.is_none(), "call {call}: it was acknowledged");
        if in_bin.is_some() {
            act(&sim, |client| async move {
                client.engine.ddl().recover_table(("d", "kept"), None, None).await.unwrap();
            });
            sim.crash(Death::PowerCut);
        }
        assert_eq!(rows_of(&sim, false), rows, "call {call}: it is back");
        sim.replay_again();
        sim.flush_and_check_leaks();
        if ended.is_some() {
            break;
        }
    }
}

#[test]
fn nothing_is_loaded_behind_the_drop() {
    let sim = filled(1);
    let target = sim.engine().target("d", "kept").unwrap();
    let is_loaded = |sim: &Sim| {
        let target = target.clone();
        act(sim, |client| async move {
            let ids = client.model.lock().take_ids(3);
            let patience = WaitLimit::For(Duration::from_secs(30));
            let load = client.engine.load(&target, Destination::Group(Async), patience);
            load.commit(&mut encoded(&target, &ids)).await.is_ok()
        })
    };
    assert_eq!(is_loaded(&sim), Some(true));
    act(&sim, |client| async move {
        client.engine.ddl().bin_table("d", "kept", false).await.unwrap();
    });
    assert_eq!(is_loaded(&sim), Some(false), "a load that began before");
    let rows = rows_of(&sim, true);
    assert_eq!(rows, Some(ROWS as usize + 3));
    act(&sim, |client| async move {
        client.engine.ddl().recover_table(("d", "kept"), None, Some("other")).await.unwrap();
    });
    assert_eq!(is_loaded(&sim), Some(true));
}

#[test]
fn a_table_leaves_the_bin_with_its_files_when_its_time_is_over() {
    for crashes in [false, true] {
        let mut sim = filled(1);
        let tables = sim.engine().table_states().len();
        act(&sim, |client| async move {
            client.engine.ddl().bin_table("d", "kept", false).await.unwrap();
        });
        sim.pass(KEEP / 2);
        assert_eq!(rows_of(&sim, true), Some(ROWS as usize));
        if crashes {
            sim.crash(Death::PowerCut);
        }
        sim.pass(KEEP);
        assert_eq!(rows_of(&sim, true), None);
        assert_eq!(sim.engine().table_states().len(), tables - 1);
        sim.replay_again();
        sim.flush_and_check_leaks();
    }
}

#[test]
fn the_bin_goes_with_its_database() {
    let mut sim = filled(1);
    act(&sim, |client| async move {
        client.engine.ddl().bin_table("d", "kept", false).await.unwrap();
        client.drop_database().await;
    });
    sim.crash(Death::PowerCut);
    assert_eq!(rows_of(&sim, true), None);
    sim.replay_again();
    sim.flush_and_check_leaks();
}

/// A store with a database of its own, which has the table.
fn beside(seed: u64) -> Sim {
    let sim = store(seed);
    act(&sim, |client| async move {
        client.engine.ddl().create_database("e", None, None, false).await.unwrap();
        make(&client, "e").await;
    })
    .unwrap();
    sim
}

/// The rows of the table in the database of its own, and whether that is in the bin.
fn rows_beside(sim: &Sim) -> Option<(usize, bool)> {
    let snapshot = sim.engine().snapshot(Freshness::Committed);
    let table = snapshot.catalog.tables().find(|table| table.name == "kept")?;
    let in_bin = snapshot.catalog.dropped_databases().any(|one| one.id == table.db);
    assert_eq!(in_bin, snapshot.catalog.table("e", "kept").is_none());
    let table = snapshot.table(table.id).unwrap().expect("it can be read");
    Some((rows::read(&table).unwrap().len(), in_bin))
}

#[test]
fn a_dropped_database_is_whole_in_the_list_or_in_the_bin_whenever_the_process_dies() {
    for call in 1.. {
        let mut sim = beside(call);
        sim.fs.set_faults(Faults { crash_in_calls: call, ..Faults::default() });
        let ended = act(&sim, |client| async move {
            client.engine.ddl().bin_database("e", false).await.unwrap();
            client.load("b", 3, Off, None).await;
        });
        sim.crash(if call % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
        let (rows, in_bin) = rows_beside(&sim).expect("it is somewhere");
        assert_eq!(rows, ROWS as usize, "call {call}");
        assert!(in_bin || ended.is_none(), "call {call}: it was acknowledged");
        if in_bin {
            act(&sim, |client| async move {
                client.engine.ddl().recover_database("e", None, None).await.unwrap();
            });
            sim.crash(Death::PowerCut);
        }
        assert_eq!(rows_beside(&sim), Some((ROWS as usize, false)), "call {call}: it is back");
        sim.replay_again();
        sim.flush_and_check_leaks();
        if ended.is_some() {
            break;
        }
    }
}

#[test]
fn a_database_leaves_the_bin_with_its_files_when_its_time_is_over() {
    for crashes in [false, true] {
        let mut sim = beside(1);
        let target = sim.engine().target("e", "kept").unwrap();
        act(&sim, |client| async move {
            client.engine.ddl().bin_database("e", false).await.unwrap();
            let ids = client.model.lock().take_ids(3);
            let patience = WaitLimit::For(Duration::from_secs(30));
            let load = client.engine.load(&target, Destination::Group(Async), patience);
            let refused = load.commit(&mut encoded(&target, &ids)).await;
            assert!(refused.is_err(), "a load that began before");
        });
        sim.pass(KEEP / 2);
        assert_eq!(rows_beside(&sim), Some((ROWS as usize, true)));
        if crashes {
            sim.crash(Death::PowerCut);
        }
        sim.pass(KEEP);
        assert_eq!(rows_beside(&sim), None);
        sim.replay_again();
        sim.flush_and_check_leaks();
    }
}
