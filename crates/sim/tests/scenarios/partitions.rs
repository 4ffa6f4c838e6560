//! Partitions that go while their rows are in memory, in files and on their way (keys.md K37,
//! RFC 0019).

use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::{Client, Outcome};

use crate::{act, die_in_every_call, fill_log, store};

/// Without a key, with the one of Doris, and with that of MySQL.
const TABLES: [&str; 3] = ["divided", "kd", "pd"];
/// The index of a partition that some rows of each load are in.
const HIGH: usize = 2;

fn prepare(sim: &mut Sim) {
    act(sim, |client| async move {
        for table in TABLES {
            client.create(table, &[]).await;
            client.load(table, 40, Off, None).await;
        }
    });
}

async fn empty(client: &Client, table: &str, at: usize) {
    let outcome = client.cut(table, at, true).await;
    assert!(matches!(outcome, Outcome::Acknowledged(_)), "{table}: {outcome:?}");
}

/// A row of p in memory, DROP of p, ADD of p with the same range: it does not come back.
#[test]
fn rows_of_a_partition_that_is_gone_do_not_come_back_with_its_range() {
    let calls = die_in_every_call(prepare, |client| async move {
        for table in ["divided", "kd"] {
            client.load(table, 30, Async, None).await;
            client.cut(table, HIGH, false).await;
            client.add_partition(table, HIGH).await;
            client.load(table, 30, Off, None).await;
            client.flush(table).await;
        }
        client.load("pd", 3, Off, None).await;
        client.cut("pd", HIGH, true).await;
        client.change("pd", 5).await;
        client.flush("pd").await;
    });
    assert!(calls > 10, "{calls}");
}

#[test]
fn a_large_load_of_a_partition_that_goes_meanwhile_is_refused() {
    for table in TABLES {
        for gap in 0..5 {
            let mut sim = store(gap);
            prepare(&mut sim);
            act(&sim, move |client| async move {
                let load = client.load_large_beside(table, 60, 3, |at| {
                    let client = client.clone();
                    Box::pin(async move {
                        if at == gap as i64 {
                            empty(&client, table, HIGH).await;
                        }
                    })
                });
                let outcome = load.await;
                // Its files are written behind the last piece.
                if gap == 4 {
                    assert_eq!(outcome, Outcome::Refused, "{table} in {gap}");
                }
                client.load_large(table, 30, 2).await;
                client.flush(table).await;
            });
            sim.check();
            sim.crash(Death::PowerCut);
            sim.replay_again();
            sim.flush_and_check_leaks();
        }
    }
}

/// The record of the change is recycled while rows from before it are still in memory.
#[test]
fn a_side_file_has_no_row_of_a_partition_that_is_gone() {
    for seed in 0..4 {
        let mut sim = store(seed);
        prepare(&mut sim);
        act(&sim, |client| async move {
            for table in TABLES {
                client.load(table, 30, Async, None).await;
                client.load_large(table, 30, 2).await;
                empty(&client, table, HIGH).await;
                client.load(table, 10, Async, None).await;
            }
            fill_log(&client, "a").await;
        });
        sim.check();
        sim.crash(if seed % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
        sim.check();
        act(&sim, |client| async move {
            for table in TABLES {
                client.load(table, 10, Off, None).await;
                client.flush(table).await;
            }
        });
        sim.check();
        sim.flush_and_check_leaks();
    }
}

/// A flush freezes, the partition is emptied, the flush writes.
#[test]
fn a_partition_may_go_while_a_flush_waits_and_while_it_writes() {
    for table in TABLES {
        for seed in 0..8 {
            let mut sim = store(seed);
            prepare(&mut sim);
            let delay = std::time::Duration::from_millis(if seed % 2 == 0 { 0 } else { 20 });
            sim.executor.set_job_delay_max(delay);
            act(&sim, move |client| async move {
                for _ in 0..3 {
                    client.load(table, 60, Off, None).await;
                    client.load_large(table, 40, 2).await;
                }
                client.load(table, 20, Async, None).await;
                let flush = async {
                    client.sleep(std::time::Duration::from_millis(seed)).await;
                    client.flush(table).await
                };
                let emptied = async {
                    empty(&client, table, HIGH).await;
                    client.load(table, 1, Off, None).await;
                    empty(&client, table, 0).await;
                };
                futures::join!(emptied, flush);
                client.load(table, 20, Off, None).await;
                client.flush(table).await;
            });
            sim.check();
            sim.crash(if seed % 4 < 2 { Death::PowerCut } else { Death::ProcessEnd });
            sim.flush_and_check_leaks();
        }
    }
}

/// The exchange with a temporary partition is one record of two tables.
#[test]
fn a_temporary_partition_takes_its_place_at_once() {
    let calls = die_in_every_call(prepare, |client| async move {
        for table in ["divided", "kd"] {
            client.load(table, 20, Async, None).await;
            client.replace(table, HIGH).await;
            client.load(table, 20, Off, None).await;
            client.flush(table).await;
            client.replace(table, 0).await;
        }
    });
    assert!(calls > 10, "{calls}");
}

/// TRUNCATE TABLE numbers all tablets, which a change of partitions beside it must not alter.
#[test]
fn truncates_and_changes_of_partitions_come_one_after_the_other() {
    for seed in 0..6 {
        let mut sim = store(seed);
        prepare(&mut sim);
        act(&sim, |client| async move {
            for round in 0..6 {
                client.load("divided", 20, Off, None).await;
                let at = round % 3;
                let dropped = async {
                    client.cut("divided", at, round % 2 == 0).await;
                    client.add_partition("divided", at).await
                };
                let truncate = client.truncate(&["divided", "kd"]);
                futures::join!(dropped, truncate, client.flush("divided"));
                client.load("divided", 20, Off, None).await;
                client.flush("divided").await;
            }
        });
        sim.check();
        sim.crash(Death::PowerCut);
        sim.flush_and_check_leaks();
    }
}

/// AUTO PARTITION: without a key, with the one of Doris, and with that of MySQL.
const AUTO: [&str; 3] = ["auto", "kauto", "pauto"];

fn prepare_auto(sim: &mut Sim) {
    act(sim, |client| async move {
        for table in AUTO {
            client.create(table, &[]).await;
            client.load(table, 2, Off, None).await;
        }
    });
}

/// The record of the partition stands before that of the rows.
#[test]
fn partitions_are_made_before_the_rows_that_need_them() {
    let calls = die_in_every_call(prepare_auto, |client| async move {
        client.load("auto", 2, Async, None).await;
        client.load_large("auto", 2, 1).await;
        client.flush("auto").await;
        client.load("kauto", 2, Off, None).await;
        client.change("pauto", 3).await;
        client.flush("pauto").await;
    });
    assert!(calls > 10, "{calls}");
}

#[test]
fn loads_that_need_the_same_partition_at_once_get_one() {
    for seed in 0..6 {
        let mut sim = store(seed);
        prepare_auto(&mut sim);
        act(&sim, |client| async move {
            for table in AUTO {
                let loads = (0..4).map(|_| client.load(table, 4, Async, None));
                let large = client.load_large(table, 6, 2);
                let loads = futures::future::join_all(loads);
                let (loads, large, ()) = futures::join!(loads, large, async {
                    client.flush(table).await;
                });
                for outcome in loads.into_iter().chain([large]) {
                    assert!(matches!(outcome, Outcome::Acknowledged(_)), "{table}: {outcome:?}");
                }
            }
        });
        sim.check();
        sim.crash(if seed % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
        sim.replay_again();
        act(&sim, |client| async move {
            for table in AUTO {
                client.load(table, 3, Off, None).await;
                client.flush(table).await;
            }
        });
        sim.check();
        sim.flush_and_check_leaks();
    }
}

/// Rows move to new partitions by one record, which takes the files along.
#[test]
fn rows_move_to_new_partitions_or_stay() {
    let calls = die_in_every_call(prepare, |client| async move {
        client.load("pd", 20, Off, None).await;
        client.flush("pd").await;
        client.change("pd", 10).await;
        client.reorganize("pd", 1..3).await;
        client.change("pd", 10).await;
        client.reorganize("pd", 0..3).await;
        client.flush("pd").await;
        client.cut("pd", HIGH, true).await;
    });
    assert!(calls > 10, "{calls}");
}

#[test]
fn rows_move_beside_loads_flushes_and_a_log_that_fills_up() {
    for seed in 0..8 {
        let mut sim = store(seed);
        prepare(&mut sim);
        act(&sim, |client| async move {
            client.load("pd", 40, Off, None).await;
            client.load_large("pd", 40, 2).await;
            for round in 0..3 {
                let moved = async {
                    let outcome = client.reorganize("pd", 0..HIGH + 1).await;
                    if round % 2 == 1 {
                        client.flush("pd").await;
                    }
                    outcome
                };
                let loads = async {
                    client.sleep(std::time::Duration::from_millis(seed)).await;
                    client.change("pd", 10).await;
                };
                futures::join!(moved, loads, client.flush("pd"));
                let outcome = client.reorganize("pd", 1..3).await;
                assert!(matches!(outcome, Outcome::Acknowledged(_)), "{outcome:?}");
                client.change("pd", 10).await;
            }
            if seed % 2 == 0 {
                fill_log(&client, "a").await;
            }
        });
        sim.check();
        sim.crash(if seed % 4 < 2 { Death::PowerCut } else { Death::ProcessEnd });
        sim.replay_again();
        act(&sim, |client| async move {
            client.change("pd", 10).await;
            client.reorganize("pd", 0..2).await;
            client.flush("pd").await;
        });
        sim.check();
        sim.flush_and_check_leaks();
    }
}
