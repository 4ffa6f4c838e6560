//! Flushes that have fallen behind: they go in steps, each of which is a version of its table.

use std::time::Duration;

use freshet_base::fail::Action;
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::Client;

use crate::{act, add_column, die_in_every_call, store};

const FULL: Action = Action::Io(std::io::ErrorKind::StorageFull);

/// Loads into `behind` what takes many flushes, while none succeeds.
async fn fall_behind(client: &Client) {
    client.create("behind", &[("group_commit_data_bytes", 8 << 10)]).await;
    for n in 0..60 {
        // Groups are open at some of the places where a flush could end.
        let mode = if n % 3 == 0 { Async } else { Off };
        client.load("behind", 200, mode, None).await;
        if n % 7 == 6 {
            // Rows of earlier steps are dead in later ones.
            client.remove_rows("behind", n, 40).await;
        }
    }
}

fn flushes_of_it(sim: &Sim) -> usize {
    let id = sim.engine().target("d", "behind").unwrap().id();
    let flushes = sim.engine().history().flushes();
    flushes.iter().filter(|flush| flush.table == id && flush.result.is_ok()).count()
}

#[test]
fn flushes_that_fell_behind_go_in_steps_and_end_where_no_group_is_open() {
    let mut sim = store(71);
    sim.failpoints.arm("flush-before-write", 0, FULL);
    act(&sim, |client| async move { fall_behind(&client).await });
    sim.failpoints.disarm("flush-before-write");
    let before = flushes_of_it(&sim);
    act(&sim, |client| async move {
        client.remove_rows("behind", 3, 60).await;
        client.sleep(Duration::from_secs(20)).await;
    });
    let steps = flushes_of_it(&sim) - before;
    assert!(steps > 1, "{steps} flushes take what fell behind");
    sim.check();
    sim.check_replay();
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn a_crash_between_the_steps_of_flushes_that_fell_behind_loses_nothing() {
    let calls = die_in_every_call(
        |sim| {
            sim.failpoints.arm("flush-before-write", 0, FULL);
            act(sim, |client| async move { fall_behind(&client).await });
            sim.failpoints.disarm("flush-before-write");
        },
        |client| async move {
            client.sleep(Duration::from_secs(2)).await;
            client.load("behind", 2, Async, None).await;
            client.sleep(Duration::from_secs(2)).await;
        },
    );
    assert!(calls > 20, "{calls} calls");
}

#[test]
fn what_changes_a_table_takes_all_of_its_rows_with_it() {
    for what in 0..3 {
        let mut sim = store(72 + what);
        sim.failpoints.arm("flush-before-write", 0, FULL);
        act(&sim, |client| async move { fall_behind(&client).await });
        sim.failpoints.disarm("flush-before-write");
        act(&sim, |client| async move {
            let change = async {
                match what {
                    0 => client.truncate(&["behind"]).await,
                    1 => client.alter("behind", add_column("x")).await,
                    _ => client.flush("behind").await,
                }
            };
            let load = async { client.load("behind", 9, Async, None).await };
            futures::join!(change, load);
            client.sleep(Duration::from_secs(5)).await;
        });
        sim.check();
        sim.check_replay();
        sim.crash(Death::PowerCut);
        sim.flush_and_check_leaks();
    }
}
