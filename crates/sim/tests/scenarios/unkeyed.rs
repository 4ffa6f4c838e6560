//! Rows that are removed by their values, in memory, in files and on their way (RFC 0022).

use std::time::Duration;

use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::{Client, Outcome};

use crate::{act, add_column, die_in_every_call, fill_log, store};

/// Without partitions, and with some.
const TABLES: [&str; 2] = ["b", "divided"];
/// Statements that begin at a multiple of three are transactions.
const ALONE: u64 = 1;
const IN_TRANSACTION: u64 = 3;

fn prepare(sim: &mut Sim) {
    act(sim, |client| async move {
        client.create("divided", &[]).await;
        for table in TABLES {
            client.load(table, 40, Off, None).await;
            client.flush(table).await;
            client.load(table, 20, Async, None).await;
        }
    });
}

async fn remove(client: &Client, table: &str, from: u64, rows: usize) {
    let outcome = client.remove_rows(table, from, rows).await;
    assert!(matches!(outcome, Outcome::Acknowledged(_)), "{table}: {outcome:?}");
}

/// Rows in files and in memory are removed, flushed, loaded again under other values.
#[test]
fn what_is_removed_stays_removed_wherever_the_process_dies() {
    let calls = die_in_every_call(prepare, |client| async move {
        for table in TABLES {
            client.remove_rows(table, ALONE, 9).await;
            client.load(table, 5, Async, None).await;
            client.remove_rows(table, IN_TRANSACTION, 9).await;
            client.flush(table).await;
            client.load_large(table, 20, 2).await;
            client.remove_rows(table, ALONE + 40, 30).await;
        }
    });
    assert!(calls > 10, "{calls}");
}

/// The record of the statement is recycled while the table is small: the side file has it.
#[test]
fn a_side_file_has_what_was_removed() {
    for seed in 0..4 {
        let mut sim = store(seed);
        prepare(&mut sim);
        act(&sim, |client| async move {
            for table in TABLES {
                remove(&client, table, ALONE, 50).await;
                client.load_large(table, 30, 2).await;
                remove(&client, table, IN_TRANSACTION, 50).await;
            }
            fill_log(&client, "a").await;
        });
        sim.check();
        sim.crash(if seed % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
        sim.check();
        act(&sim, |client| async move {
            for table in TABLES {
                remove(&client, table, ALONE, 20).await;
                client.flush(table).await;
            }
        });
        sim.check();
        sim.flush_and_check_leaks();
    }
}

/// A flush freezes, rows that it writes are removed, the flush shows its files.
#[test]
fn rows_may_be_removed_while_a_flush_writes_them() {
    for table in TABLES {
        for seed in 0..8 {
            let mut sim = store(seed);
            prepare(&mut sim);
            let delay = Duration::from_millis(if seed % 2 == 0 { 0 } else { 20 });
            sim.executor.set_job_delay_max(delay);
            act(&sim, move |client| async move {
                client.load(table, 60, Off, None).await;
                client.load_large(table, 40, 2).await;
                let flush = async {
                    client.sleep(Duration::from_millis(seed)).await;
                    client.flush(table).await
                };
                let removed = async {
                    for from in 0..6 {
                        remove(&client, table, 7 * from + seed, 12).await;
                    }
                };
                futures::join!(removed, flush);
                client.flush(table).await;
            });
            sim.check();
            sim.crash(if seed % 4 < 2 { Death::PowerCut } else { Death::ProcessEnd });
            sim.replay_again();
            sim.flush_and_check_leaks();
        }
    }
}

/// An UPDATE looks; a TRUNCATE, an ALTER or another UPDATE stands before its record.
#[test]
fn who_was_overtaken_changes_nothing() {
    for seed in 0..12 {
        let mut sim = store(seed);
        prepare(&mut sim);
        act(&sim, move |client| async move {
            let first = client.remove_rows("b", seed, 20);
            let second = async {
                client.sleep(Duration::from_micros(seed * 40)).await;
                match seed % 3 {
                    0 => _ = client.truncate(&["b"]).await,
                    1 => _ = client.alter("b", add_column("more")).await,
                    _ => _ = client.remove_rows("b", seed + 1, 20).await,
                }
            };
            futures::join!(first, second);
            client.load("b", 5, Off, None).await;
        });
        sim.check();
        sim.crash(Death::PowerCut);
        sim.check();
        sim.flush_and_check_leaks();
    }
}
