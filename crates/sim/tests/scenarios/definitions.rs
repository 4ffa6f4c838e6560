//! Statements that define tables are records of the log: what they cost, and what is made up for
//! where such a record was given up with a hole.

use std::time::Duration;

use freshet_base::Lsn;
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::{Client, Outcome};

use crate::damage::repair;
use crate::metadata::{METADATA, lose_last, rot_last, rows_of, syncs};
use crate::{act, add_column, die_in_every_call, fill_log, store};

/// The kind of barriers.
const BARRIER: u8 = 3;

/// The end of the log.
fn last_lsn(client: &Client) -> Lsn {
    Lsn(client.engine.log_stats().next_lsn.get() - 1)
}

/// Loads, recycles the log, and starts again twice.
fn go_on(sim: &mut Sim) {
    act(sim, |client| async move {
        client.load("a", 3, Async, None).await;
        fill_log(&client, "bank_a").await;
    });
    sim.crash(Death::PowerCut);
    sim.replay_again();
    sim.flush_and_check_leaks();
}

#[test]
fn ddl_costs_one_sync_of_the_log_and_none_of_metadata() {
    let sim = store(90);
    act(&sim, |client| async move {
        client.load("a", 20, Off, None).await;
        client.flush("a").await;
        for step in 0..7 {
            // Time for the checkpoint of the step before.
            client.sleep(Duration::from_secs(3)).await;
            client.fs.take_synced();
            let outcome = match step {
                0 => client.create("e", &[]).await,
                1 => client.alter("a", add_column("x")).await,
                2 => client.set("a", "group_commit_interval_ms", 77).await,
                3 => client.truncate(&["a", "b"]).await,
                4 => client.rename("e", "f").await,
                5 => client.drop_table("f").await,
                _ => client.drop_database().await,
            };
            assert!(matches!(outcome, Outcome::Acknowledged(_)), "step {step}");
            let synced = client.fs.take_synced();
            let counts = (syncs(&synced, "/store/wal"), syncs(&synced, "/store/meta.redb"));
            assert_eq!(counts, (1, 0), "step {step}: {synced:?}");
        }
    });
}

#[test]
fn definitions_may_die_in_every_call() {
    die_in_every_call(
        |_| {},
        |client| async move {
            client.create("e", &[]).await;
            client.load("e", 3, Off, None).await;
            client.rename("e", "f").await;
            client.alter("f", add_column("x")).await;
            client.load("f", 3, Async, None).await;
            client.set("f", "group_commit_interval_ms", 77).await;
            client.drop_table("b").await;
            client.rename("f", "b").await;
            client.load("b", 3, Off, None).await;
            client.sleep(Duration::from_secs(2)).await;
            client.create("f", &[]).await;
        },
    );
}

#[test]
fn a_statement_whose_client_went_away_settles_before_the_next() {
    for seed in 0..20 {
        let mut sim = store(seed);
        act(&sim, |client| async move {
            let gone = async {
                client.sleep(Duration::from_micros(seed * 100)).await;
            };
            // Dropped somewhere between its append and its answer.
            let spec = freshet_sim::rows::table_spec("e", &[]);
            let create = client.engine.ddl().create_table("d", spec, false);
            futures::future::select(Box::pin(create), Box::pin(gone)).await;
            let again = client.create("e", &[]).await;
            assert!(matches!(again, Outcome::Acknowledged(_)), "IF NOT EXISTS: {again:?}");
            client.load("e", 3, Off, None).await;
        });
        assert_eq!(rows_of(&sim, "e"), 3);
        sim.crash(Death::PowerCut);
        sim.flush_and_check_leaks();
    }
}

#[test]
fn rows_of_a_table_whose_create_was_given_up_are_passed_over() {
    let mut sim = store(91);
    let last = act(&sim, |client| async move {
        // Nothing is committed at once any more, which would be a checkpoint.
        client.sleep(Duration::from_secs(3)).await;
        client.create("e", &[]).await;
        client.load("e", 3, Off, None).await;
        client.load_large("e", 20, 2).await;
        let last = last_lsn(&client);
        client.load("a", 2, Off, None).await;
        last
    });
    let lost = lose_last(&mut sim, METADATA);
    sim.model.lock().accepted_loss(lost, last.unwrap());
    sim.open();
    assert!(sim.engine().target("d", "e").is_err());
    assert_eq!(rows_of(&sim, "a"), 2);
    act(&sim, |client| async move {
        client.create("e", &[]).await;
        client.load("e", 5, Off, None).await;
    });
    sim.crash(Death::PowerCut);
    assert_eq!(rows_of(&sim, "e"), 5);
    go_on(&mut sim);
}

#[test]
fn rows_behind_an_alter_that_was_given_up_go_with_it_and_no_others() {
    for flushed in [false, true] {
        let mut sim = store(92);
        let last = act(&sim, move |client| async move {
            client.sleep(Duration::from_secs(3)).await;
            client.load("a", 3, Off, None).await;
            client.alter("a", add_column("x")).await;
            client.load("a", 4, Off, None).await;
            client.load_large("a", 20, 2).await;
            let last = last_lsn(&client);
            client.load("b", 2, Off, None).await;
            if flushed {
                client.flush("a").await;
            }
            client.load("b", 2, Off, None).await;
            last
        });
        let lost = lose_last(&mut sim, BARRIER);
        sim.model.lock().accepted_loss(lost, last.unwrap());
        sim.open();
        assert_eq!(rows_of(&sim, "a"), 3);
        act(&sim, |client| async move {
            // Other columns under another version.
            client.alter("a", add_column("y")).await;
            client.load("a", 5, Off, None).await;
        });
        sim.crash(Death::PowerCut);
        assert_eq!((rows_of(&sim, "a"), rows_of(&sim, "b")), (8, 4));
        go_on(&mut sim);
    }
}

#[test]
fn a_table_whose_drop_was_given_up_makes_way_for_the_next_of_its_name() {
    let mut sim = store(93);
    act(&sim, |client| async move {
        client.load("b", 3, Off, None).await;
        client.drop_table("b").await;
        client.create("b", &[]).await;
        client.load("b", 4, Off, None).await;
    });
    let lost = lose_last(&mut sim, BARRIER);
    sim.model.lock().accepted_loss(lost, lost);
    sim.open();
    assert_eq!((rows_of(&sim, "b"), rows_of(&sim, "b_1")), (4, 3));
    go_on(&mut sim);
    assert_eq!((rows_of(&sim, "b"), rows_of(&sim, "b_1")), (4, 3));
}

#[test]
fn files_go_into_tablets_of_a_truncate_only_when_a_checkpoint_knows_them() {
    for (large, restarted) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut sim = store(94);
        act(&sim, move |client| async move {
            client.load("a", 3, Off, None).await;
            client.truncate(&["a"]).await;
        });
        if restarted {
            sim.crash(Death::ProcessEnd);
        }
        act(&sim, move |client| async move {
            if large {
                client.load_large("a", 20, 2).await;
            } else {
                client.load("a", 40, Off, None).await;
                client.flush("a").await;
            }
            client.load("a", 2, Off, None).await;
        });
        let truncate = sim.model.lock().truncated_at().unwrap();
        assert!(sim.engine().meta().saved_lsn() >= truncate);
        sim.end_life(Death::ProcessEnd);
        assert_eq!(rot_last(&sim, BARRIER), truncate);
        assert_eq!(repair(&mut sim).len(), 1);
        // Nothing is lost.
        sim.open();
        assert_eq!(rows_of(&sim, "a"), 42);
        go_on(&mut sim);
    }
}
