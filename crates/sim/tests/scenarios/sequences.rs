//! Every sequence of events that the design mentions, and every one that once violated an
//! invariant.

use std::path::Path;
use std::time::Duration;

use freshet_ingest::{Destination, WaitLimit};
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim, data_files};
use freshet_sim::loads::{Outcome, encoded, part_of};
use freshet_sim::rows;
use freshet_storage::delta::Freshness;
use freshet_testkit::Faults;

use crate::{act, add_column, append, die_in_every_call, fill_log, store};

#[test]
fn rows_encoded_before_a_truncate_and_appended_behind_it_stay() {
    let mut sim = store(1);
    act(&sim, |client| async move {
        client.load("a", 3, Off, None).await;
        let target = client.engine.target("d", "a").unwrap();
        let ids = client.model.lock().take_ids(1);
        let mut buffer = encoded(&target, &ids);
        client.truncate(&["a"]).await;
        let (destination, patience) = (Destination::Group(Off), WaitLimit::For(Duration::ZERO));
        let load = client.engine.load(&target, destination, patience);
        let loaded = load.commit(&mut buffer).await.unwrap();
        client.loaded(vec![part_of(&target, ids, &loaded)], &loaded, None);
        client.engine.horizon().wait(loaded.lsn).await;
        client.model.lock().acknowledged(loaded.lsn);
    });
    sim.check();
    sim.crash(Death::PowerCut);
}

#[test]
fn a_load_behind_the_end_of_a_group_is_of_another_group() {
    let mut sim = store(2);
    act(&sim, |client| async move {
        client.load("a", 1, Async, None).await;
        client.flush("a").await;
        client.load("a", 1, Async, None).await;
    });
    sim.check();
    sim.crash(Death::PowerCut);
    sim.replay_again();
}

#[test]
fn a_client_that_goes_away_while_it_waits_changes_nothing() {
    let mut sim = store(3);
    act(&sim, |client| async move {
        let label = || Some("mine".to_owned());
        {
            let mut load = Box::pin(client.load("a", 1, Async, label()));
            // Polled until its record is in the log, then dropped.
            let model = client.model.clone();
            std::future::poll_fn(|context| {
                let _ = load.as_mut().poll(context);
                match model.lock().label("mine") {
                    Some(_) => std::task::Poll::Ready(()),
                    None => std::task::Poll::Pending,
                }
            })
            .await;
        }
        assert_eq!(client.load("a", 1, Async, label()).await, Outcome::LabelUsed);
    });
    sim.crash(Death::PowerCut);
    assert!(sim.model.lock().label("mine").is_some(), "'used' was answered, so it is durable");
    act(&sim, |client| async move {
        let again = client.load("a", 1, Async, Some("mine".to_owned())).await;
        assert_eq!(again, Outcome::LabelUsed);
    });
    sim.check();
}

#[test]
fn a_snapshot_is_not_torn_by_flush_truncate_or_alter_behind_it() {
    let sim = store(4);
    act(&sim, |client| async move {
        client.transfer(5).await;
        client.load("a", 10, Async, None).await;
        let snapshot = client.engine.snapshot(Freshness::Committed);
        let check = || client.model.lock().check(&snapshot);
        client.transfer(5).await;
        for table in ["a", "bank_a", "bank_b"] {
            client.flush(table).await;
            check();
        }
        client.alter("a", add_column("x")).await;
        check();
        client.truncate(&["a", "bank_a", "bank_b"]).await;
        client.sleep(Duration::from_secs(30)).await;
        check();
        client.drop_table("a").await;
        check();
    });
    sim.check();
}

#[test]
fn a_flush_covers_nothing_that_a_power_cut_can_take_back() {
    die_in_every_call(
        |_| {},
        |client| async move {
            client.load("a", 4, Off, None).await;
            append(&client, "a", 4);
            client.flush("a").await;
            append(&client, "a", 4);
            client.flush("a").await;
        },
    );
}

#[test]
fn rows_flushed_behind_a_truncate_survive_its_metadata() {
    die_in_every_call(
        |_| {},
        |client| async move {
            client.load("a", 4, Off, None).await;
            client.truncate(&["a", "b"]).await;
            client.load("a", 4, Off, None).await;
            client.flush("a").await;
            client.truncate(&["a"]).await;
            client.load("a", 4, Off, None).await;
            client.flush("a").await;
        },
    );
}

#[test]
fn what_a_first_run_made_has_a_name_after_a_power_cut() {
    // With files of a flush, and with those of a large load, which are written by another path.
    for seed in 0..8 {
        let mut sim = store(seed);
        act(&sim, move |client| async move {
            client.load("a", 30, Off, None).await;
            match seed % 2 {
                0 => drop(client.flush("a").await),
                _ => drop(client.load_large("a", 30, 2).await),
            }
            fill_log(&client, "b").await;
        });
        sim.crash(Death::PowerCut);
        act(&sim, |client| async move { client.load("a", 3, Off, None).await });
        sim.crash(Death::PowerCut);
        sim.flush_and_check_leaks();
    }
}

#[test]
fn two_flushes_at_once_publish_in_order() {
    for seed in 0..10 {
        let mut sim = store(seed);
        sim.executor.set_job_delay_max(Duration::from_millis(50));
        act(&sim, |client| async move {
            client.load("a", 4, Off, None).await;
            let first = client.flush("a");
            let second = async {
                client.load("a", 4, Off, None).await;
                client.flush("a").await
            };
            futures::join!(first, second);
        });
        sim.check();
        sim.crash(Death::PowerCut);
    }
}

#[test]
fn a_failed_flush_is_tried_again_and_doubles_nothing() {
    let mut sim = store(6);
    sim.fs.set_faulty_dir(&data_files());
    sim.run({
        let client = sim.client(true);
        async move {
            client.load("a", 4, Off, None).await;
            for failing in 1..6 {
                client.fs.fail_next(failing, 0);
                client.flush("a").await;
                client.fs.fail_next(0, 0);
                client.load("a", 4, Off, None).await;
                assert_ne!(client.flush("a").await, Outcome::Refused);
            }
        }
    });
    sim.check();
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn a_torn_batch_and_what_stood_behind_it_never_come_back() {
    for seed in 0..40 {
        let mut sim = store(seed);
        for _ in 0..4 {
            sim.die_within_calls(4);
            act(&sim, |client| async move {
                for _ in 0..4 {
                    // The same length in every run.
                    append(&client, "a", 1);
                    client.sleep(Duration::from_millis(1)).await;
                }
            });
            sim.crash(Death::PowerCut);
        }
    }
}

#[test]
fn a_label_that_metadata_has_before_its_rows_is_no_duplicate() {
    let mut sim = store(8);
    act(&sim, |client| async move {
        client.load("a", 2, Async, Some("early".to_owned())).await;
        fill_log(&client, "b").await;
    });
    sim.crash(Death::PowerCut);
    act(&sim, |client| async move {
        let again = client.load("a", 2, Async, Some("early".to_owned())).await;
        assert_eq!(again, Outcome::LabelUsed);
    });
    sim.replay_again();
    sim.flush_and_check_leaks();
}

#[test]
fn what_barriers_did_outlives_the_recycling_of_their_log_files() {
    let mut sim = store(9);
    act(&sim, |client| async move {
        client.load("a", 3, Async, None).await;
        client.alter("a", add_column("x")).await;
        client.truncate(&["a"]).await;
        client.load("a", 3, Async, None).await;
        client.create("gone", &[]).await;
        client.load("gone", 3, Async, None).await;
        client.drop_table("gone").await;
        fill_log(&client, "b").await;
    });
    sim.check();
    sim.crash(Death::PowerCut);
    sim.replay_again();
    sim.flush_and_check_leaks();
}

#[test]
fn recovery_may_die_in_every_call_and_be_repeated() {
    for call in 1..80 {
        let mut sim = store(call);
        act(&sim, |client| async move {
            client.load("a", 4, Async, None).await;
            client.alter("a", add_column("x")).await;
            client.truncate(&["b"]).await;
            client.transfer(3).await;
            append(&client, "a", 2);
        });
        sim.end_life(Death::PowerCut);
        sim.fs.set_faults(Faults { crash_in_calls: call, ..Faults::default() });
        sim.open();
        sim.replay_again();
    }
}

#[test]
fn ddl_may_die_in_every_call() {
    die_in_every_call(
        |_| {},
        |client| async move {
            client.load("a", 2, Async, None).await;
            client.alter("a", add_column("x")).await;
            client.load("a", 2, Async, None).await;
            client.drop_table("b").await;
            client.create("b", &[]).await;
            client.load("b", 2, Off, None).await;
        },
    );
}

#[test]
fn a_failed_write_of_the_log_ends_the_process_and_the_restart_is_clean() {
    for failing in 1..4 {
        let mut sim = store(failing);
        sim.fs.set_faulty_dir(Path::new("/store/wal"));
        act(&sim, |client| async move {
            client.load("a", 3, Off, None).await;
        });
        sim.fs.fail_next(failing, 0);
        let ended = act(&sim, |client| async move { client.load("a", 3, Off, None).await });
        assert_eq!(ended, None, "nothing is acknowledged by a log that failed");
        assert!(sim.fatal().is_some(), "the process ends with a message");
        sim.crash(Death::ProcessEnd);
        sim.crash(Death::PowerCut);
    }
}

#[test]
fn a_full_disk_refuses_loads_clearly_and_room_lets_them_in_again() {
    let mut sim = store(11);
    sim.fs.set_capacity_bytes(sim.fs.used_bytes() + 10_000);
    let refused = act(&sim, |client| async move {
        for _ in 0..2000 {
            if client.load("a", 300, Off, None).await == Outcome::Refused {
                return true;
            }
        }
        false
    });
    assert_eq!(refused, Some(true), "the log and memory are bounded");
    sim.check();
    sim.fs.set_capacity_bytes(1 << 40);
    let taken = act(&sim, |client| async move {
        client.sleep(Duration::from_secs(20)).await;
        client.load("a", 3, Off, None).await
    });
    assert!(matches!(taken, Some(Outcome::Acknowledged(_))), "{taken:?}");
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn a_label_has_room_wherever_its_rows_end() {
    let sim = store(12);
    act(&sim, |client| async move {
        for rows in 1..400 {
            let label = format!("{rows:0>128}");
            client.load("a", rows, Off, Some(label)).await;
        }
    });
    sim.check();
}

#[test]
fn a_large_load_between_a_truncate_and_its_metadata_stays() {
    for seed in 0..20 {
        let mut sim = store(seed);
        sim.executor.set_job_delay_max(Duration::from_millis(30));
        act(&sim, |client| async move {
            client.load("a", 3, Off, None).await;
            let large = async {
                client.sleep(Duration::from_millis(seed)).await;
                client.load_large("a", 50, 2).await
            };
            futures::join!(client.truncate(&["a"]), large);
            client.flush("a").await;
        });
        sim.check();
        sim.crash(Death::PowerCut);
        sim.flush_and_check_leaks();
    }
}

#[test]
fn rows_that_a_truncate_cut_give_back_their_memory() {
    let sim = store(13);
    act(&sim, |client| async move {
        for _ in 0..10 {
            client.load("a", 100, Async, None).await;
        }
        client.truncate(&["a"]).await;
        client.sleep(Duration::from_secs(1)).await;
        let id = client.engine.target("d", "a").unwrap().id();
        let state = client.engine.table_state(id).unwrap();
        assert_eq!(state.delta.stats().bytes, 0);
        assert_eq!(client.engine.memory().used_bytes(), 0);
    });
}

#[test]
fn a_replayed_alter_shows_its_columns() {
    let mut sim = store(14);
    // The record of the ALTER is durable, and the process ends before it has settled.
    sim.failpoints.arm(
        "barrier-durable",
        0,
        freshet_base::fail::Action::Io(std::io::ErrorKind::Other),
    );
    let answer = sim.run({
        let client = sim.client(true);
        async move { client.alter("a", add_column("x")).await }
    });
    assert_eq!(answer, Some(Outcome::Refused));
    sim.failpoints.disarm("barrier-durable");
    sim.crash(Death::ProcessEnd);
    let columns = sim.engine().target("d", "a").unwrap().schema().columns.len();
    assert_eq!(columns, 4);
}

#[test]
fn the_same_loads_under_other_settings_give_the_same_rows() {
    let rows = |seed: u64, change: fn(&mut Sim)| {
        let mut sim = Sim::new(seed);
        change(&mut sim);
        sim.open();
        act(&sim, |client| async move {
            client.engine.ddl().create_database("d", None, None, true).await.unwrap();
            client.create("a", &[("group_commit_interval_ms", 20)]).await;
        });
        for round in 0..4_i64 {
            act(&sim, move |client| async move {
                for n in 0..20 {
                    let mode = if n % 2 == 0 { Async } else { Off };
                    let label = Some(format!("{round}-{n}"));
                    let outcome = client.load("a", 1 + n * 7 % 90, mode, label).await;
                    assert!(matches!(outcome, Outcome::Acknowledged(_)), "{outcome:?}");
                }
                client.load_large("a", 200, 2).await;
            });
            let cut = if seed.is_multiple_of(2) { Death::PowerCut } else { Death::ProcessEnd };
            if seed > 0 {
                sim.crash(cut);
            }
        }
        sim.check();
        let id = sim.engine().target("d", "a").unwrap().id();
        rows::read(&sim.engine().snapshot(Freshness::Committed).table(id).unwrap().unwrap())
            .unwrap()
    };
    let plain = rows(0, |_| {});
    assert_eq!(plain, rows(1, |sim| sim.config.compaction = false));
    assert_eq!(plain, rows(2, |sim| sim.config.flush_bytes = freshet_base::ByteSize(1)));
    assert_eq!(plain, rows(3, |sim| sim.config.flush_bytes = freshet_base::ByteSize::mib(64)));
    assert_eq!(
        plain,
        rows(4, |sim| sim.config.write_memory_bytes = freshet_base::ByteSize::kib(64))
    );
    assert_eq!(plain, rows(5, |sim| sim.config.wal_file_bytes = freshet_base::ByteSize::kib(128)));
    assert_eq!(plain, rows(6, |sim| sim.executor.set_job_delay_max(Duration::from_millis(40))));
}
