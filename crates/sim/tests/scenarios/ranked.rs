//! Tables with a sequence column (keys.md K30): versions come in no order of their sequences, some
//! of them without one, and every sixth deletes its key.

use std::time::Duration;

use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};

use crate::{act, die_in_every_call, store};

fn prepare(sim: &mut Sim) {
    act(sim, |client| async move { client.create("s", &[]).await });
}

#[test]
fn late_rows_stay_dead_whenever_the_process_dies() {
    let calls = die_in_every_call(prepare, |client| async move {
        client.load("s", 300, Off, None).await;
        client.flush("s").await;
        client.load("s", 100, Async, None).await;
        client.load_large("s", 200, 2).await;
        client.load("s", 50, Off, None).await;
        client.flush("s").await;
        client.load("s", 100, Off, None).await;
    });
    assert!(calls > 20, "{calls} calls");
}

#[test]
fn a_deleted_key_stays_away_from_late_rows_through_merges() {
    let mut sim = store(3);
    prepare(&mut sim);
    act(&sim, |client| async move {
        for _ in 0..30 {
            client.load("s", 120, Off, None).await;
            client.load_large("s", 40, 2).await;
            client.flush("s").await;
            client.sleep(Duration::from_secs(1)).await;
        }
    });
    sim.pass(Duration::from_secs(60));
    sim.check();
    for death in [Death::PowerCut, Death::ProcessEnd] {
        act(&sim, |client| async move { client.load("s", 300, Async, None).await });
        sim.crash(death);
    }
    act(&sim, |client| async move { client.truncate(&["s"]).await });
    act(&sim, |client| async move { client.load("s", 300, Off, None).await });
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}
