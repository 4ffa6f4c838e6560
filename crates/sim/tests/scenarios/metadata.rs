//! Metadata follows the log: scenarios with lost, late or skipped metadata records.

use std::path::{Path, PathBuf};
use std::time::Duration;

use freshet_base::Lsn;
use freshet_base::io::Fs;
use freshet_meta::{BucketsSpec, TableSpec};
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::Outcome;
use freshet_sim::rows;
use freshet_storage::delta::Freshness;
use futures::FutureExt;

use crate::damage::{files, frame_of, frames, repair};
use crate::{act, die_in_every_call, fill_log, store};

/// The kind of metadata records.
pub(crate) const METADATA: u8 = 6;

/// The records of a kind in the log with their files, in order.
pub(crate) fn all_of(sim: &Sim, kind: u8) -> Vec<(PathBuf, Lsn)> {
    let mut all = Vec::new();
    for path in files(sim, "/store/wal") {
        let bytes = sim.fs.read(&path).unwrap();
        for (at, _) in frames(sim, &path).into_iter().filter(|(at, _)| bytes[at + 4] == kind) {
            let lsn = Lsn(u64::from_le_bytes(bytes[at + 16..at + 24].try_into().unwrap()));
            all.push((path.clone(), lsn));
        }
    }
    all.sort_by_key(|(_, lsn)| *lsn);
    all
}

/// Damages the last record of a kind.
pub(crate) fn rot_last(sim: &Sim, kind: u8) -> Lsn {
    let (log, lsn) = all_of(sim, kind).pop().unwrap();
    let (begin, bytes) = frame_of(sim, &log, lsn);
    sim.fs.flip(&log, begin + bytes - 1, 0);
    lsn
}

/// Ends the process, damages its last record of a kind, and accepts the loss.
pub(crate) fn lose_last(sim: &mut Sim, kind: u8) -> Lsn {
    let saved = sim.engine().meta().saved_lsn();
    sim.end_life(Death::ProcessEnd);
    let lost = rot_last(sim, kind);
    assert!(saved < lost, "the checkpoint has it already");
    assert_eq!(repair(sim).len(), 1);
    lost
}

pub(crate) fn rows_of(sim: &Sim, table: &str) -> usize {
    let id = sim.engine().target("d", table).unwrap().id();
    let table = sim.engine().snapshot(Freshness::Committed).table(id).unwrap().unwrap();
    rows::read(&table).unwrap().len()
}

/// The number of syncs of files below `dir` among `synced`.
pub(crate) fn syncs(synced: &[PathBuf], dir: &str) -> usize {
    synced.iter().filter(|path| path.starts_with(Path::new(dir))).count()
}

#[test]
fn flushes_and_merges_may_die_in_every_call() {
    die_in_every_call(
        |sim| sim.config.wal_file_bytes = freshet_base::ByteSize::kib(128),
        |client| async move {
            for _ in 0..5 {
                client.load("a", 20, Async, None).await;
                client.load_large("a", 10, 2).await;
                client.flush("a").await;
            }
            // Merges, followed by a checkpoint.
            client.sleep(Duration::from_secs(3)).await;
        },
    );
}

#[test]
fn a_flush_costs_one_sync_of_the_log_and_none_of_metadata() {
    let sim = store(80);
    act(&sim, |client| async move {
        client.load("a", 20, Off, None).await;
        client.sleep(Duration::from_secs(3)).await;
        client.fs.take_synced();
        client.flush("a").await;
        let synced = client.fs.take_synced();
        assert_eq!(syncs(&synced, "/store/meta.redb"), 0, "{synced:?}");
        assert_eq!(syncs(&synced, "/store/wal"), 1, "{synced:?}");
        client.sleep(Duration::from_secs(3)).await;
        let synced = client.fs.take_synced();
        assert!(syncs(&synced, "/store/meta.redb") > 0, "the checkpoint follows: {synced:?}");
        client.sleep(Duration::from_secs(30)).await;
        let synced = client.fs.take_synced();
        assert_eq!(syncs(&synced, "/store/meta.redb"), 0, "nothing changes: {synced:?}");
    });
}

#[test]
fn a_merge_whose_record_rots_before_the_checkpoint_takes_no_rows_away() {
    let mut sim = store(81);
    act(&sim, |client| async move {
        for _ in 0..5 {
            client.load("a", 20, Off, None).await;
            client.flush("a").await;
        }
        // The merge has settled, and nobody reads the rowsets that it replaced.
        let merges = || client.engine.metrics().compactions.get();
        let before = merges();
        while merges() == before {
            client.sleep(Duration::from_millis(20)).await;
        }
    });
    let replaced = lose_last(&mut sim, METADATA);
    sim.model.lock().accepted_loss(replaced, replaced);
    sim.open();
    assert_eq!(rows_of(&sim, "a"), 100);
    sim.replay_again();
    sim.flush_and_check_leaks();
}

#[test]
fn a_flush_whose_record_is_given_up_has_its_rows_in_the_log() {
    let mut sim = store(82);
    act(&sim, |client| async move {
        client.load("a", 20, Off, None).await;
        client.load_large("a", 30, 2).await;
        client.flush("a").await;
        // The batch head of a later record says that it was durable.
        client.load("b", 1, Off, None).await;
        client.load("b", 1, Off, None).await;
    });
    let published = lose_last(&mut sim, METADATA);
    sim.model.lock().accepted_loss(published, published);
    sim.open();
    assert_eq!(rows_of(&sim, "a"), 80);
    act(&sim, |client| async move {
        client.flush("a").await;
        fill_log(&client, "b").await;
    });
    sim.crash(Death::PowerCut);
    assert_eq!(rows_of(&sim, "a"), 80);
    sim.flush_and_check_leaks();
}

#[test]
fn replay_takes_no_more_memory_than_there_was() {
    let mut sim = store(83);
    // Checkpoints fail.
    sim.failpoints.arm("checkpoint", 0, freshet_base::fail::Action::Io(std::io::ErrorKind::Other));
    act(&sim, |client| async move {
        for _ in 0..12 {
            client.load("a", 300, Off, None).await;
            client.flush("a").await;
        }
        client.load("a", 5, Off, None).await;
    });
    let before = sim.engine().memory().used_bytes();
    sim.crash(Death::PowerCut);
    let after = sim.engine().memory().used_bytes();
    assert!(after <= before + 1024, "{after} bytes instead of {before}");
    sim.failpoints.disarm("checkpoint");
    sim.flush_and_check_leaks();
}

#[test]
fn a_long_record_whose_file_cannot_be_removed_leaves_none_behind() {
    let mut sim = store(84);
    act(&sim, |mut client| async move {
        // A flush writes a rowset for each bucket.
        let wide = TableSpec { buckets: BucketsSpec::Count(128), ..rows::table_spec("w", &[]) };
        client.engine.ddl().create_table("d", wide, true).await.unwrap();
        client.load("w", 300, Off, None).await;
        client.disk_fails = true;
        client.fs.set_faulty_dir(Path::new("/store/events"));
        client.flush("w").await;
        let flushed = client.engine.horizon().get();
        let files = || client.fs.files().into_iter();
        let events = || files().filter(|(path, _)| path.starts_with("/store/events")).count();
        assert!(events() > 0, "what the flush did is longer than a record shall be");
        client.fs.fail_next(u64::MAX, 0);
        client.sleep(Duration::from_secs(3)).await;
        assert!(client.engine.meta().saved_lsn() >= flushed, "the checkpoint has it");
        assert!(events() > 0, "nothing can be removed");
        client.fs.fail_next(0, 0);
        client.load("w", 1, Off, None).await;
        client.flush("w").await;
        client.sleep(Duration::from_secs(5)).await;
        assert_eq!(events(), 0, "the next checkpoint removes them");
    });
    sim.flush_and_check_leaks();
}

#[test]
fn a_start_behind_a_stop_has_nothing_to_settle() {
    let mut sim = store(85);
    act(&sim, |client| async move {
        client.load("a", 20, Off, None).await;
        client.flush("a").await;
        client.load("a", 5, Async, None).await;
    });
    sim.stop();
    sim.open();
    assert_eq!(sim.engine().meta().saved_lsn(), sim.log_end());
    assert_eq!(rows_of(&sim, "a"), 25);
    sim.flush_and_check_leaks();
}

#[test]
fn a_stop_waits_for_flushes_and_merges() {
    for seed in 0..20 {
        let mut sim = store(seed);
        sim.executor.set_job_delay_max(Duration::from_millis(30));
        act(&sim, |client| async move {
            for _ in 0..4 {
                client.load("a", 20, Async, None).await;
                client.flush("a").await;
            }
            client.load("a", 20, Async, None).await;
            client.load("b", 20, Async, None).await;
        });
        for table in ["a", "b"] {
            let client = sim.client(false);
            sim.executor.start(async move {
                client.flush(table).await;
            });
        }
        sim.pass(Duration::from_millis(4 * seed));
        // It compares the end of the log with its horizon.
        sim.stop();
        sim.open();
        assert_eq!((rows_of(&sim, "a"), rows_of(&sim, "b")), (100, 20));
        sim.flush_and_check_leaks();
    }
}

#[test]
fn a_flush_that_was_given_up_after_its_record_hides_no_rows_from_the_next() {
    let sim = store(91);
    let left = act(&sim, |client| async move {
        client.load("a", 20, Off, None).await;
        client.sleep(Duration::from_millis(100)).await;
        let engine = client.engine.clone();
        let id = engine.target("d", "a").unwrap().id();
        let mut given_up = Box::pin(engine.flush_table(id));
        // The delta is frozen and files are being written; these rows come after.
        assert!((&mut given_up).now_or_never().is_none());
        client.load("a", 20, Off, None).await;
        client.sleep(Duration::from_millis(50)).await;
        let before = engine.log_stats().next_lsn;
        while engine.log_stats().next_lsn == before {
            assert!((&mut given_up).now_or_never().is_none());
            if engine.log_stats().next_lsn == before {
                client.sleep(Duration::from_millis(1)).await;
            }
        }
        // Its record is in the log when the caller drops the future.
        drop(given_up);
        engine.flush_table(id).await.unwrap();
        engine.table_state(id).unwrap().delta.stats().rows
    });
    assert_eq!(left, Some(0), "the next flush brings all that came before it into files");
}

#[test]
fn a_flush_beside_a_drop_ends_no_earlier_than_the_drop_is_durable() {
    for step in 1.. {
        let mut sim = store(95);
        let overtaken = act(&sim, move |client| async move {
            client.load("a", 20, Off, None).await;
            // The idle record of the log comes before the flush.
            client.sleep(Duration::from_millis(100)).await;
            let engine = client.engine.clone();
            let id = engine.target("d", "a").unwrap().id();
            let next = || engine.log_stats().next_lsn;
            let before = next();
            let mut flush = Box::pin(engine.flush_table(id));
            for _ in 0..step {
                let ended = (&mut flush).now_or_never().is_some();
                if ended || next() > before {
                    return false;
                }
                // What the flush waits for ends, and is not looked at yet.
                client.sleep(Duration::from_micros(100)).await;
            }
            assert_eq!(next(), before, "nobody else writes to the log");
            let mut drop = Box::pin(client.drop_table("a"));
            assert!((&mut drop).now_or_never().is_none());
            assert_eq!(next(), before.next(), "the DROP is in the log");
            assert!(engine.horizon().get() < before, "and not durable");
            // Nobody else has run since.
            let flushed = (&mut flush).now_or_never();
            assert!(flushed.is_none(), "step {step}: a turn would free the log: {flushed:?}");
            let (flushed, dropped) = futures::join!(flush, drop);
            flushed.unwrap();
            assert!(matches!(dropped, Outcome::Acknowledged(_)), "{dropped:?}");
            true
        });
        if overtaken == Some(false) {
            assert!(step > 1, "the DROP came while files were written");
            break;
        }
        sim.check();
        sim.crash(Death::PowerCut);
        sim.flush_and_check_leaks();
    }
}
