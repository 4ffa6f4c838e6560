//! Exhausted resources, failing metadata and clock jumps: nothing gets stuck, and nothing
//! acknowledged is affected.

use std::time::Duration;

use freshet_base::ByteSize;
use freshet_base::fail::Action;
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::{Client, Outcome};
use freshet_storage::delta::Freshness;

use crate::{act, die_in_every_call, fill_log, store};

const FULL: Action = Action::Io(std::io::ErrorKind::StorageFull);

/// Loads single rows until one is refused, which the limits of log and memory ensure.
pub(crate) async fn fill_until_refused(client: &Client, table: &str) {
    for _ in 0..5000 {
        if client.load(table, 1, Off, None).await == Outcome::Refused {
            return;
        }
    }
    panic!("the log is bounded");
}

/// A store with little write memory, and this much snapshot memory.
fn narrow_store(seed: u64, snapshot_memory_bytes: ByteSize) -> Sim {
    let mut sim = store(seed);
    sim.config.snapshot_memory_bytes = snapshot_memory_bytes;
    sim.config.write_memory_bytes = ByteSize::kib(64);
    sim.config.flush_bytes = ByteSize::kib(8);
    sim.crash(Death::PowerCut);
    sim
}

/// Loads far more than fits in the write memory, while a snapshot is open.
async fn load_beside_a_snapshot(client: &Client) -> freshet_storage::snapshot::Snapshot {
    let engine = &client.engine;
    client.load("a", 50, Off, None).await;
    let snapshot = engine.snapshot(Freshness::Committed);
    for n in 0..400 {
        let outcome = client.load("a", 60, Off, None).await;
        assert!(matches!(outcome, Outcome::Acknowledged(_)), "load {n} waits for a reader");
    }
    client.flush("a").await;
    assert_eq!(engine.memory().used_bytes(), 0, "all of it is in files");
    snapshot
}

#[test]
fn writers_never_wait_for_an_open_snapshot() {
    let mut sim = narrow_store(57, ByteSize::mib(1));
    act(&sim, |client| async move {
        let snapshot = load_beside_a_snapshot(&client).await;
        let id = client.engine.target("d", "a").unwrap().id();
        assert_eq!(snapshot.table(id).unwrap().unwrap().rows(), 50);
        client.model.lock().check(&snapshot);
        let kept = || client.engine.views().pins().memory().used_bytes();
        let before = kept();
        assert!(before > 0);
        drop(load_beside_a_snapshot(&client).await);
        assert_eq!(kept(), before, "rows that came later are not kept for it");
    });
    sim.flush_and_check_leaks();
}

#[test]
fn a_snapshot_that_keeps_too_much_is_closed_and_the_next_one_reads() {
    let mut sim = narrow_store(58, ByteSize(1));
    act(&sim, |client| async move {
        let snapshot = load_beside_a_snapshot(&client).await;
        let id = client.engine.target("d", "a").unwrap().id();
        let error = freshet_base::Error::from(snapshot.table(id).err().expect("it is closed"));
        assert_eq!(error.code(), freshet_base::ErrorCode::SnapshotTooOld, "{error}");
        assert_eq!(client.engine.views().pins().memory().used_bytes(), 0);
        let next = client.engine.snapshot(Freshness::Committed);
        assert_eq!(next.table(id).unwrap().unwrap().rows(), 50 + 400 * 60);
    });
    sim.flush_and_check_leaks();
}

fn is_acknowledged(outcome: Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Acknowledged(_)))
}

#[test]
fn however_full_the_log_every_group_can_end() {
    const TABLES: usize = 28;
    let mut sim = store(50);
    act(&sim, |client| async move {
        for n in 0..TABLES {
            client.create(&format!("t{n}"), &[("group_commit_interval_ms", 600_000)]).await;
        }
    });
    // For a while nothing can be flushed.
    sim.failpoints.arm("flush-before-write", 0, Action::Io(std::io::ErrorKind::Other));
    sim.fs.set_faulty_dir(std::path::Path::new("/store/side"));
    sim.fs.fail_next(u64::MAX, 0);
    let filled = act(&sim, |mut client| async move {
        client.disk_fails = true;
        // Beyond what a recycling of the log would free, so that recycling does not end these
        // groups.
        let files_max = client.engine.log_stats().files_max;
        while client.engine.log_stats().live_files.len() < files_max {
            client.load("b", 1, Off, None).await;
        }
        for n in 0..TABLES {
            client.load(&format!("t{n}"), 1, Async, None).await;
            client.sleep(Duration::from_millis(3)).await;
        }
        fill_until_refused(&client, "b").await;
        assert!(client.engine.open_groups() > 0, "groups are open in a full log");
        // The groups end one by one, each in its own batch.
        client.sleep(Duration::from_secs(900)).await;
    });
    filled.expect("a disk that is full ends no process");
    assert_eq!(sim.engine().open_groups(), 0, "groups end in the full log");
    sim.check();
    sim.failpoints.disarm("flush-before-write");
    sim.fs.fail_next(0, 0);
    let taken = act(&sim, |client| async move {
        client.sleep(Duration::from_secs(30)).await;
        client.load("a", 1, Async, None).await
    });
    assert!(is_acknowledged(taken), "the log gets room again: {taken:?}");
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn a_flush_in_a_full_log_waits_for_the_turn_that_frees_it() {
    const TABLES: usize = 20;
    let mut sim = store(61);
    // No turn comes to its commit, and what one leaves to the side file stays in the log.
    sim.fs.set_faulty_dir(std::path::Path::new("/store/side"));
    sim.fs.fail_next(u64::MAX, 0);
    let refused = act(&sim, |mut client| async move {
        client.disk_fails = true;
        for n in 0..TABLES {
            client.create(&format!("t{n}"), &[("group_commit_interval_ms", 600_000)]).await;
            client.load(&format!("t{n}"), 1, Async, None).await;
        }
        fill_until_refused(&client, "b").await;
        let mut refused = Vec::new();
        for n in 0..TABLES {
            if client.flush(&format!("t{n}")).await == Outcome::Refused {
                refused.push(n);
            }
        }
        refused
    });
    let refused = refused.expect("a full log ends no process");
    assert!(refused.len() > 1, "flushes have used up their part of what is kept: {refused:?}");
    let fs = sim.fs.clone();
    act(&sim, |client| async move {
        let heal = async {
            client.sleep(Duration::from_secs(2)).await;
            fs.fail_next(0, 0);
        };
        let flush = |n: &usize| {
            let (client, table) = (client.clone(), format!("t{n}"));
            async move { client.flush(&table).await }
        };
        let flushes = futures::future::join_all(refused.iter().map(flush));
        let (flushed, ()) = futures::join!(flushes, heal);
        assert!(!flushed.contains(&Outcome::Refused), "{flushed:?}");
    });
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn a_table_that_cannot_be_flushed_is_refused_alone() {
    let mut sim = store(51);
    let id = sim.engine().target("d", "a").unwrap().id();
    sim.fs.set_faulty_dir(&std::path::Path::new("/store/data").join(id.to_string()));
    sim.fs.fail_next(u64::MAX, 0);
    let taken = act(&sim, |client| async move {
        while client.load("a", 20, Off, None).await != Outcome::Refused {
            client.sleep(Duration::from_millis(50)).await;
        }
        // Three times the capacity of the log.
        for _ in 0..1500 {
            let outcome = client.load("b", 1, Off, None).await;
            assert_ne!(outcome, Outcome::Refused, "another table is not concerned");
        }
        assert_eq!(client.load("a", 1, Off, None).await, Outcome::Refused);
        assert_eq!(client.load_large("a", 1, 1).await, Outcome::Refused);
    });
    taken.expect("nobody dies");
    sim.check();
    sim.crash(Death::PowerCut);
    // In the next life the disk works.
    let taken = act(&sim, |client| async move { client.load("a", 1, Off, None).await });
    assert!(is_acknowledged(taken), "{taken:?}");
    sim.flush_and_check_leaks();
}

#[test]
fn a_table_whose_flush_succeeds_again_takes_loads_again() {
    let sim = store(52);
    sim.failpoints.arm("flush-before-write", 0, FULL);
    act(&sim, |client| async move {
        while client.load("a", 20, Off, None).await != Outcome::Refused {
            client.sleep(Duration::from_millis(50)).await;
        }
    });
    sim.failpoints.disarm("flush-before-write");
    let taken = act(&sim, |client| async move {
        client.sleep(Duration::from_secs(20)).await;
        client.load("a", 1, Off, None).await
    });
    assert!(is_acknowledged(taken), "{taken:?}");
}

#[test]
fn a_side_file_stays_below_its_part_of_the_log() {
    let mut sim = store(53);
    sim.end_life(Death::ProcessEnd);
    sim.config.wal_bytes_max = ByteSize::mib(1);
    sim.open();
    act(&sim, |client| async move {
        for n in 0..60 {
            client.create(&format!("t{n}"), &[]).await;
            client.load(&format!("t{n}"), 100, Off, None).await;
        }
        fill_log(&client, "b").await;
    });
    let side = sim.fs.files().into_iter().find(|(path, _)| path.starts_with("/store/side"));
    let (_, len) = side.expect("small tables go to a side file");
    assert!(len < (1 << 20) / 8 + 4096, "the side file has {len} bytes");
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn the_sweep_takes_nothing_that_a_slow_disk_still_writes() {
    let mut sim = store(56);
    sim.end_life(Death::ProcessEnd);
    sim.config.orphan_grace = Duration::from_millis(1);
    sim.executor.set_job_delay_max(Duration::from_secs(4));
    sim.open();
    act(&sim, |client| async move {
        for _ in 0..5 {
            client.load("a", 50, Off, None).await;
            client.load_large("b", 50, 2).await;
            client.flush("a").await;
            client.flush("b").await;
        }
    });
    sim.check();
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn a_clock_that_jumps_changes_nothing() {
    const DAY_MICROS: i64 = 86_400_000_000;
    let mut sim = store(57);
    for (round, days) in [1, -400, 4000, -1].into_iter().enumerate() {
        sim.executor.jump_wall(days * DAY_MICROS);
        act(&sim, move |client| async move {
            let label = || Some(format!("round-{round}"));
            let outcome = client.load("a", 3, Async, label()).await;
            assert!(matches!(outcome, Outcome::Acknowledged(_)), "{outcome:?}");
            client.load("b", 3, Async, None).await;
            client.flush("a").await;
            assert_eq!(client.load("a", 3, Async, label()).await, Outcome::LabelUsed);
        });
        sim.check();
        sim.crash(if round % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
    }
    sim.flush_and_check_leaks();
}

#[test]
fn a_label_claimed_before_a_jump_of_the_clock_is_used_after_it() {
    const DAY_MICROS: i64 = 86_400_000_000;
    let mut sim = store(60);
    let label = |n: usize| Some(format!("before-{n}"));
    for (round, days) in [1, 4000, -9000, 30].into_iter().enumerate() {
        act(&sim, move |client| async move {
            assert!(is_acknowledged(Some(client.load("a", 3, Async, label(round)).await)));
            if round % 2 == 0 {
                // Some labels are in metadata, some only in the log.
                fill_log(&client, "b").await;
            }
        });
        sim.executor.jump_wall(days * DAY_MICROS);
        for restarted in [false, true] {
            act(&sim, move |client| async move {
                for n in 0..=round {
                    let again = client.load("a", 3, Async, label(n)).await;
                    assert_eq!(again, Outcome::LabelUsed, "{n}, {restarted}");
                }
            });
            sim.crash(if round % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
        }
    }
    sim.flush_and_check_leaks();
}

#[test]
fn a_spilled_transaction_may_die_in_every_call() {
    let calls = die_in_every_call(
        |_| {},
        |client| async move {
            client.transfer(3).await;
            // More than a record may contain: it goes through files.
            client.transfer(3000).await;
            client.transfer(3).await;
            client.flush("bank_a").await;
        },
    );
    assert!(calls > 10, "{calls} calls");
}

#[test]
fn a_spilled_transaction_whose_table_is_truncated_fails_whole() {
    for seed in 0..10 {
        let mut sim = store(seed);
        sim.executor.set_job_delay_max(Duration::from_millis(30));
        act(&sim, |client| async move {
            let truncate = async {
                client.sleep(Duration::from_millis(3 * seed)).await;
                client.truncate(&["bank_a", "bank_b"]).await
            };
            futures::join!(client.transfer(3000), truncate);
        });
        sim.check();
        sim.crash(Death::PowerCut);
        sim.flush_and_check_leaks();
    }
}

#[test]
fn recycling_may_die_in_every_call() {
    let calls = die_in_every_call(
        |sim| {
            act(sim, |client| async move {
                client.load("a", 2, Async, None).await;
                for _ in 0..40 {
                    client.load("b", 300, Off, None).await;
                }
            });
        },
        |client| async move {
            client.load("a", 2, Off, Some("kept".to_owned())).await;
            fill_log(&client, "b").await;
        },
    );
    assert!(calls > 20, "{calls} calls");
}

#[test]
fn a_start_on_a_full_disk_needs_no_flush_that_memory_could_do_without() {
    for death in [Death::ProcessEnd, Death::PowerCut] {
        let mut sim = store(59);
        sim.end_life(Death::ProcessEnd);
        sim.config.write_memory_bytes = ByteSize::kib(128);
        sim.config.flush_bytes = ByteSize::mib(64);
        sim.config.load_patience = Duration::from_millis(300);
        sim.open();
        // The log gets all its files, and nothing prevents their reuse.
        sim.failpoints.arm("flush-before-write", 0, FULL);
        sim.fs.set_faulty_dir(std::path::Path::new("/store/side"));
        sim.fs.fail_next(u64::MAX, 0);
        act(&sim, |mut client| async move {
            client.disk_fails = true;
            fill_until_refused(&client, "b").await;
        });
        sim.failpoints.disarm("flush-before-write");
        sim.fs.fail_next(0, 0);
        act(&sim, |client| async move { client.sleep(Duration::from_secs(30)).await });
        // The disk is full, and full again after the ballast and the space freed by merges are used
        // up.
        for _ in 0..50 {
            sim.fs.set_capacity_bytes(sim.fs.used_bytes());
            let taken = act(&sim, |client| async move { client.load("a", 100, Off, None).await });
            if taken == Some(Outcome::Refused) {
                break;
            }
        }
        let memory = sim.engine().memory();
        let (used, limit) = (memory.used_bytes(), memory.limit_bytes());
        assert!(used * 10 > limit * 7, "{used} of {limit} in use");
        sim.end_life(death);
        sim.fs.set_capacity_bytes(sim.fs.used_bytes());
        sim.open();
        sim.fs.set_capacity_bytes(1 << 40);
        let taken = act(&sim, |client| async move {
            client.sleep(Duration::from_secs(20)).await;
            client.load("a", 3, Off, None).await
        });
        assert!(is_acknowledged(taken), "{taken:?}");
        sim.crash(Death::PowerCut);
        sim.flush_and_check_leaks();
    }
}

#[test]
fn a_start_on_a_full_disk_serves_what_there_is() {
    let mut sim = store(58);
    act(&sim, |client| async move { client.load("a", 30, Off, None).await });
    sim.end_life(Death::PowerCut);
    // A log enlarged in the settings needs files for which the disk has no room.
    sim.config.wal_bytes_max = ByteSize::mib(8);
    let used = sim.fs.used_bytes();
    sim.fs.set_capacity_bytes(used + 20_000);
    sim.open();
    act(&sim, |client| async move {
        for _ in 0..200 {
            client.load("b", 100, Off, None).await;
        }
    });
    sim.check();
    let snapshot = sim.engine().snapshot(Freshness::Committed);
    let states = sim.engine().table_states();
    let shown = states.iter().filter(|state| snapshot.table(state.id).unwrap().is_some());
    assert_eq!(shown.count(), 4);
    drop(snapshot);
    sim.fs.set_capacity_bytes(1 << 40);
    let taken = act(&sim, |client| async move {
        client.sleep(Duration::from_secs(20)).await;
        client.load("a", 3, Off, None).await
    });
    assert!(is_acknowledged(taken), "{taken:?}");
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}
