//! Tables with keys (keys.md): a row comes, dies or moves while the look-up, the mark or the file
//! of somebody else is on its way. What each statement has seen is what the log says before its
//! record, and the rows that live are those of the log.

use std::time::Duration;

use freshet_base::ErrorCode;
use freshet_ingest::{Destination, KeyRules, LoadTarget, OnExisting, WaitLimit};
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::{Client, encoded};
use freshet_sim::rows::KEYS;
use freshet_storage::delta::Freshness;
use freshet_storage::resolver::KeyedRows;
use futures::future::{join, join3};

use crate::{act, append, die_in_every_call, store};

/// Two tables with a PRIMARY KEY and a unique value, and one with a UNIQUE KEY.
const TABLES: [&str; 3] = ["pa", "pb", "k"];

fn prepare(sim: &mut Sim) {
    act(sim, |client| async move {
        for table in TABLES {
            client.create(table, &[]).await;
        }
    });
}

async fn pause(client: &Client) {
    client.sleep(Duration::from_millis(200)).await;
}

/// K2: a look-up that takes the view before the flush and asks the key table behind it finds the
/// row in neither, and a second one is inserted.
#[test]
fn a_key_is_found_while_a_flush_takes_it_out_of_memory() {
    let calls = die_in_every_call(prepare, |client| async move {
        client.load("pa", KEYS, Off, None).await;
        let looks = async {
            for _ in 0..5 {
                client.insert_new("pa", 3).await;
                client.change_one("pa").await;
            }
        };
        join(client.flush("pa"), looks).await;
    });
    assert!(calls > 10, "{calls} calls");
}

/// K4: a row is refused or left out because of one that a power cut takes back, and neither exists.
#[test]
fn who_meets_a_row_is_told_so_once_that_is_durable() {
    let mut sim = store(101);
    prepare(&mut sim);
    act(&sim, |client| async move {
        let horizon = client.engine.horizon();
        for on_existing in [OnExisting::Refuse, OnExisting::Skip] {
            let met = append(&client, "pa", KEYS);
            assert!(horizon.get() < met, "nothing has synced the row that is met");
            let target = client.engine.target("d", "pa").unwrap();
            let ids = client.model.lock().take_ids(3);
            let patience = WaitLimit::For(Duration::from_secs(3));
            let load = client.engine.load(&target, Destination::Group(Off), patience);
            let load = load.with_keys(KeyRules { on_existing, ..KeyRules::default() });
            match load.commit(&mut encoded(&target, &ids)).await {
                Ok(loaded) => {
                    assert_eq!((on_existing, loaded.keys.skipped), (OnExisting::Skip, 3));
                    assert!(loaded.lsn >= met, "the reply waits for the row that was met");
                }
                Err(error) => {
                    assert_eq!(on_existing, OnExisting::Refuse);
                    assert_eq!(error.code(), ErrorCode::DuplicateKey);
                    assert!(horizon.get() >= met, "1062 was answered for a row that may be lost");
                }
            }
        }
    });
    sim.check();
    sim.crash(Death::PowerCut);
}

/// K9, K28: the mark goes to a file that a merge has replaced, or a merge writes a row that dies
/// meanwhile.
#[test]
fn a_row_that_a_merge_moves_dies_where_it_is() {
    let calls = die_in_every_call(prepare, |client| async move {
        for _ in 0..4 {
            client.load("pa", 40, Off, None).await;
            client.load("k", 40, Off, None).await;
            client.flush("pa").await;
            client.flush("k").await;
        }
        for _ in 0..6 {
            join(client.change("pa", 15), client.change("k", 15)).await;
            client.load("k", 10, Off, None).await;
            pause(&client).await;
        }
    });
    assert!(calls > 20, "{calls} calls");
}

/// K25: a row that dies above the flush is left out of its files, and a reader between the two
/// finds it neither there nor in memory. K18, K20: what a snapshot has is told by its horizon,
/// whatever files take the place of its own.
#[test]
fn a_snapshot_has_the_rows_that_die_behind_it() {
    let mut sim = store(81);
    prepare(&mut sim);
    act(&sim, |client| async move {
        client.load("pa", KEYS, Off, None).await;
        client.load("k", KEYS, Off, None).await;
        let snapshot = client.engine.snapshot(Freshness::Committed);
        client.resolved(&snapshot).await;
        let check = || client.model.lock().check(&snapshot);
        for _ in 0..5 {
            join3(client.flush("pa"), client.change("pa", 30), client.flush("k")).await;
            check();
            client.load("k", 30, Off, None).await;
            check();
            client.sleep(Duration::from_secs(1)).await;
            check();
        }
        client.truncate(&["pa", "k"]).await;
        check();
    });
    sim.check();
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

/// K26: marks are stored up to the flushed LSN alone. Those of records that a power cut takes back
/// would be on rows that live, once their LSNs are given again.
#[test]
fn marks_of_records_that_were_lost_are_lost_with_them() {
    let calls = die_in_every_call(prepare, |client| async move {
        client.load("k", KEYS, Off, None).await;
        client.flush("k").await;
        client.load("k", 20, Off, None).await;
        let writes = async {
            for _ in 0..5 {
                client.load("k", 5, Off, None).await;
            }
        };
        join(client.flush("k"), writes).await;
        client.load("k", 20, Off, None).await;
    });
    assert!(calls > 10, "{calls} calls");
}

/// K21: with an open group before it a record of its own would be seen without that, and so would
/// the row that the group has replaced.
#[test]
fn published_readers_see_no_version_twice() {
    let mut sim = store(90);
    prepare(&mut sim);
    act(&sim, |client| async move {
        client.load("k", KEYS, Off, None).await;
        for _ in 0..5 {
            client.load("k", 40, Async, None).await;
            client.load("k", 40, Off, None).await;
            client.change("k", 20).await;
        }
    });
    sim.check();
    sim.crash(Death::ProcessEnd);
    sim.check();
}

/// K12: keys of a large load that others bring while it looks up, flush while it looks, or that
/// stand in two of its own files.
#[test]
fn a_large_load_meets_whatever_comes_while_it_looks_up() {
    for table in ["k", "pa"] {
        let calls = die_in_every_call(prepare, move |client| async move {
            client.load(table, 60, Off, None).await;
            let load = client.load_large_beside(table, 50, 4, |piece| {
                let client = client.clone();
                Box::pin(async move {
                    client.load(table, 20, Off, None).await;
                    if piece % 2 == 0 {
                        client.flush(table).await;
                    }
                    client.change(table, 10).await;
                })
            });
            load.await;
        });
        assert!(calls > 20, "{calls} calls");
    }
}

/// K8, K31: what was computed of a row that a TRUNCATE has removed brings it back behind it.
#[test]
fn nothing_that_a_truncate_has_removed_comes_back_changed() {
    for seed in 91..99 {
        let mut sim = store(seed);
        prepare(&mut sim);
        act(&sim, |client| async move {
            for _ in 0..4 {
                for table in TABLES {
                    client.load(table, 40, Off, None).await;
                }
                let changes = join3(
                    client.change("pa", 30),
                    client.change("k", 30),
                    client.move_rows(["pa", "pb"], 20),
                );
                join(client.truncate(&TABLES), changes).await;
            }
        });
        sim.check();
        sim.crash(if seed % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
    }
}

/// K1, K5, K6: two transactions that lock rows of two tables in opposite orders.
#[test]
fn transactions_that_move_rows_against_each_other_lose_none() {
    let mut sim = store(99);
    prepare(&mut sim);
    act(&sim, |client| async move {
        for _ in 0..20 {
            client.load("pa", 20, Off, None).await;
            let (there, back) =
                (client.move_rows(["pa", "pb"], 30), client.move_rows(["pb", "pa"], 30));
            join3(there, back, client.change_one("pa")).await;
        }
    });
    sim.check();
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

/// The keys of some rows of a table.
fn keys_of(client: &Client, target: &LoadTarget) -> KeyedRows {
    let ids = client.model.lock().take_ids(3);
    let rows = encoded(target, &ids);
    KeyedRows::of_encoded(rows.row_bytes(), (3, 0), target.table(), target.schema())
}

/// RFC 0057: who shares rows waits for no other reader, and a writer waits for all of them.
#[test]
fn who_shares_rows_keeps_writers_waiting_and_no_reader() {
    let mut sim = store(100);
    prepare(&mut sim);
    act(&sim, |client| async move {
        client.load("pa", KEYS, Off, None).await;
        let engine = &client.engine;
        let target = engine.target("d", "pa").unwrap();
        let keys = keys_of(&client, &target);
        let wait = Duration::from_millis(300);
        let rules = KeyRules { on_existing: OnExisting::Replace, lock_wait: wait, connection: 0 };
        let patience = WaitLimit::For(Duration::from_secs(3));
        let [one, two, writer] = [(); 3].map(|()| engine.begin_transaction(None));
        for reader in [&one, &two] {
            let own = reader.own_rows().clone();
            let mut reads = engine.change(&target, Some(own), rules, patience).sharing();
            assert_eq!(reads.lock(&keys).await.unwrap().len(), 3);
        }
        let own = writer.own_rows().clone();
        let mut writes = engine.change(&target, Some(own), rules, patience);
        for reader in [one, two] {
            let error = writes.lock(&keys).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::LockWaitTimeout);
            drop(reader);
        }
        assert_eq!(writes.lock(&keys).await.unwrap().len(), 3);
        let late = engine.begin_transaction(None);
        let own = late.own_rows().clone();
        let mut reads = engine.change(&target, Some(own), rules, patience).sharing();
        let error = reads.lock(&keys).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::LockWaitTimeout);
        drop((writes, reads, writer, late));
        assert_eq!(engine.locked_keys(), 0);
    });
    sim.check();
}
