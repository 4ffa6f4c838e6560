//! Tables with a sequence column (keys.md K30): versions come in no order of their sequences, some
//! of them without one, and every sixth deletes its key.

use std::time::Duration;

use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::Client;
use freshet_storage::delta::Freshness;

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

/// The rows of the table, those that delete among them.
async fn stored_rows(client: &Client) -> u64 {
    let id = client.engine.target("d", "s").unwrap().id();
    let snapshot = client.engine.snapshot(Freshness::Committed);
    client.resolved(&snapshot).await;
    snapshot.table(id).unwrap().unwrap().rows()
}

/// Loads and flushes until files are merged.
async fn merge(client: &Client) {
    for _ in 0..10 {
        client.load("s", 60, Off, None).await;
        client.flush("s").await;
    }
    client.sleep(Duration::from_secs(30)).await;
}

/// Lets all rows go that merges have named; returns how many.
async fn forget_all(client: &Client) -> u64 {
    let forgotten = || client.model.lock().counts.forgotten;
    let before = forgotten();
    loop {
        let known = forgotten();
        client.forget().await;
        if forgotten() == known {
            return known - before;
        }
    }
}

#[test]
fn an_old_row_that_deletes_is_forgotten_at_one_place_of_the_log() {
    let mut sim = store(4);
    sim.end_life(Death::ProcessEnd);
    sim.config.deleted_rows_keep = Duration::from_secs(60);
    sim.open();
    prepare(&mut sim);
    act(&sim, |client| async move {
        client.load("s", 300, Off, None).await;
        merge(&client).await;
        assert_eq!(forget_all(&client).await, 0, "no whole period has passed");
        client.sleep(Duration::from_secs(180)).await;
        merge(&client).await;
        let before = stored_rows(&client).await;
        let forgotten = forget_all(&client).await;
        let gone = before - stored_rows(&client).await;
        assert!(gone > 0 && gone <= forgotten, "{gone} of {forgotten} rows count no more");
        // Late rows come behind the record, and stay through a replay and a flush.
        client.load("s", 200, Off, None).await;
    });
    sim.check();
    for death in [Death::PowerCut, Death::ProcessEnd] {
        sim.crash(death);
        sim.check();
    }
    act(&sim, |client| async move { merge(&client).await });
    sim.check();
    // Rows that come before the record are late for ever.
    act(&sim, |client| async move {
        client.load("s", 100, Async, None).await;
        forget_all(&client).await;
        client.load("s", 100, Async, None).await;
    });
    sim.crash(Death::PowerCut);
    sim.check();
    sim.flush_and_check_leaks();
}

#[test]
fn rows_that_delete_are_kept_where_the_setting_says_so() {
    let mut sim = store(5);
    sim.end_life(Death::ProcessEnd);
    sim.config.deleted_rows_keep = Duration::ZERO;
    sim.open();
    prepare(&mut sim);
    act(&sim, |client| async move {
        client.load("s", 300, Off, None).await;
        merge(&client).await;
        merge(&client).await;
        assert_eq!(forget_all(&client).await, 0);
    });
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}
