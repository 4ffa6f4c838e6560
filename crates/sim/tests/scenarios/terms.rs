//! The first record of a term: it ends the groups that were left open, reserves ids, and says how
//! long labels are kept (cluster.md 44).

use std::time::Duration;

use freshet_base::fail::Action;
use freshet_base::{ByteSize, DbId, Version};
use freshet_ingest::WaitLimit;
use freshet_meta::LabelLimits;
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_sim::harness::{Death, Sim};
use freshet_sim::loads::Outcome;
use freshet_testkit::Faults;

use crate::damage::{frame_of, repair};
use crate::metadata::{all_of, lose_last, rows_of};
use crate::room::fill_until_refused;
use crate::{act, fill_log, store};

/// The kind of the records of terms.
const TERM: u8 = 7;
const FAILS: Action = Action::Io(std::io::ErrorKind::Other);
const NEVER_DUE: [(&str, u64); 1] = [("group_commit_interval_ms", 600_000)];

/// A store whose table `g` has an open group of three rows.
fn store_with_an_open_group(seed: u64) -> Sim {
    let sim = store(seed);
    act(&sim, |client| async move {
        client.create("g", &NEVER_DUE).await;
        client.load("g", 3, Async, None).await;
    });
    sim
}

fn version(sim: &Sim, table: &str) -> Version {
    let id = sim.engine().target("d", table).unwrap().id();
    sim.engine().table_state(id).unwrap().version()
}

/// Whether the log has a group of `g` that has not ended.
fn is_open(sim: &Sim) -> bool {
    let id = sim.engine().target("d", "g").unwrap().id();
    let digest = &sim.engine().digests().unwrap()[&id];
    digest.in_log.version > version(sim, "g")
}

/// The number of records of terms in the log.
fn terms(sim: &Sim) -> usize {
    all_of(sim, TERM).len()
}

/// Fills the log, which cannot be freed as long as these failpoints are armed.
fn fill_up(sim: &Sim) {
    sim.failpoints.arm("flush-before-write", 0, FAILS);
    sim.failpoints.arm("put-aside", 0, FAILS);
    act(sim, |mut client| async move {
        client.disk_fails = true;
        fill_until_refused(&client, "b").await;
    });
}

#[test]
fn two_starts_behind_an_open_group_end_it_once() {
    for death in [Death::ProcessEnd, Death::PowerCut] {
        let mut sim = store_with_an_open_group(110);
        let before = version(&sim, "g");
        assert!(is_open(&sim));
        for _ in 0..2 {
            sim.crash(death);
            assert_eq!((version(&sim, "g"), is_open(&sim)), (before.next(), false));
            sim.check_replay();
        }
        act(&sim, |client| async move { client.load("g", 2, Async, None).await });
        sim.crash(death);
        assert_eq!(version(&sim, "g"), before.next().next());
        sim.replay_again();
        sim.flush_and_check_leaks();
    }
}

#[test]
fn a_start_that_dies_before_its_record_leaves_the_group_to_the_next() {
    let mut sim = store_with_an_open_group(111);
    let before = version(&sim, "g");
    let had = terms(&sim);
    sim.failpoints.arm("term-record", 0, FAILS);
    for _ in 0..2 {
        sim.end_life(Death::PowerCut);
        sim.open_to_read();
        assert_eq!((rows_of(&sim, "g"), version(&sim, "g")), (3, before));
        sim.check_replay();
        // Nothing is appended, whoever asks.
        act(&sim, |client| async move {
            assert_eq!(client.load("g", 1, Async, None).await, Outcome::Refused);
            assert_eq!(client.load("g", 1, Off, Some("x".to_owned())).await, Outcome::Refused);
            assert_eq!(client.load_large("g", 9, 2).await, Outcome::Refused);
            assert_eq!(client.create("h", &[]).await, Outcome::Refused);
            assert_eq!(client.truncate(&["g"]).await, Outcome::Refused);
            assert_eq!(client.drop_table("a").await, Outcome::Refused);
            assert_eq!(client.flush("g").await, Outcome::Refused);
            // A transaction that only reads needs nothing that the term gives.
            let reads = client.engine.begin_transaction(None);
            assert_eq!(reads.own_rows().label(), None);
            let limit = WaitLimit::For(Duration::from_secs(1));
            assert!(client.engine.commit(reads, limit).await.unwrap().is_none());
            assert_eq!(client.engine.log_stats().next_lsn, client.engine.log_stats().term_first);
        });
        sim.check();
    }
    assert_eq!(terms(&sim), had);
    sim.failpoints.disarm("term-record");
    sim.crash(Death::PowerCut);
    assert_eq!(version(&sim, "g"), before.next());
    sim.replay_again();
    sim.flush_and_check_leaks();
}

#[test]
fn loads_that_come_before_the_record_wait_for_it() {
    let mut sim = store_with_an_open_group(112);
    let before = version(&sim, "g");
    sim.failpoints.arm("term-record", 0, FAILS);
    sim.end_life(Death::PowerCut);
    sim.open_to_read();
    let failpoints = sim.failpoints.clone();
    act(&sim, |client| async move {
        let heal = async {
            client.sleep(Duration::from_secs(1)).await;
            failpoints.disarm("term-record");
        };
        let (load, create, ()) =
            futures::join!(client.load("g", 1, Async, None), client.create("h", &[]), heal);
        assert!(matches!(load, Outcome::Acknowledged(_)), "{load:?}");
        assert_ne!(create, Outcome::Refused);
    });
    assert_eq!(version(&sim, "g"), before.next(), "the load is of another group");
    sim.check();
    sim.crash(Death::PowerCut);
    sim.replay_again();
}

#[test]
fn a_start_may_die_in_every_call_until_its_term_has_begun() {
    for call in 1.. {
        let mut sim = store_with_an_open_group(call);
        let before = version(&sim, "g");
        sim.end_life(Death::PowerCut);
        sim.fs.set_faults(Faults { crash_in_calls: call, ..Faults::default() });
        let began = sim.try_open().is_some_and(|opened| {
            opened.unwrap();
            let engine = sim.engine().clone();
            sim.run(async move { engine.begun().await }).is_some()
        });
        sim.fs.set_faults(Faults::default());
        sim.end_life(if call % 2 == 0 { Death::PowerCut } else { Death::ProcessEnd });
        sim.open();
        assert_eq!(version(&sim, "g"), before.next(), "call {call}");
        sim.check_replay();
        sim.replay_again();
        if began {
            assert!(call > 10, "{call} calls");
            return;
        }
    }
}

#[test]
fn a_group_whose_term_record_is_given_up_ends_all_the_same() {
    // What stands behind the record that is lost.
    for (seed, behind) in [None, Some(("g", Off)), Some(("g", Async))].into_iter().enumerate() {
        let mut sim = store_with_an_open_group(113 + seed as u64);
        let before = version(&sim, "g");
        sim.crash(Death::ProcessEnd);
        let id = act(&sim, move |client| async move {
            // Later heads say that the record was durable.
            client.load("b", 1, Off, None).await;
            if let Some((table, mode)) = behind {
                client.load(table, 1, mode, None).await;
            }
            client.load("b", 1, Off, None).await;
            client.engine.meta().ids().rowset().unwrap()
        });
        let live = version(&sim, "g");
        let lost = lose_last(&mut sim, TERM);
        sim.model.lock().accepted_loss(lost, lost);
        sim.open();
        let ends = u64::from(behind == Some(("g", Async)));
        assert_eq!(version(&sim, "g").get(), live.get() + ends, "{behind:?}");
        assert!(live > before);
        assert!(!is_open(&sim));
        let next = sim.engine().meta().ids().rowset().unwrap();
        assert!(Some(next) > id, "ids that the lost record reserved are left out");
        sim.check_replay();
        sim.replay_again();
        sim.flush_and_check_leaks();
    }
}

#[test]
fn a_term_record_that_rots_behind_a_later_one_gives_no_version_twice() {
    let mut sim = store_with_an_open_group(117);
    let before = version(&sim, "g");
    for _ in 0..2 {
        sim.crash(Death::ProcessEnd);
        act(&sim, |client| async move {
            client.load("b", 1, Off, None).await;
            client.load("b", 1, Off, None).await;
        });
    }
    sim.end_life(Death::ProcessEnd);
    let records = all_of(&sim, TERM);
    let (log, lost) = &records[records.len() - 2];
    let (begin, bytes) = frame_of(&sim, log, *lost);
    sim.fs.flip(log, begin + bytes - 1, 0);
    assert_eq!(repair(&mut sim).len(), 1);
    sim.model.lock().accepted_loss(*lost, *lost);
    // Until now the later record says that no group is open, and names none.
    sim.open();
    assert_eq!((version(&sim, "g"), is_open(&sim)), (before.next(), false));
    sim.check_replay();
    sim.replay_again();
    sim.flush_and_check_leaks();
}

#[test]
fn a_flushed_group_whose_term_record_is_given_up_is_not_ended_again() {
    let mut sim = store_with_an_open_group(118);
    sim.crash(Death::ProcessEnd);
    act(&sim, |client| async move {
        client.flush("g").await;
        client.load("b", 1, Off, None).await;
        client.load("b", 1, Off, None).await;
    });
    let live = version(&sim, "g");
    let lost = lose_last(&mut sim, TERM);
    sim.model.lock().accepted_loss(lost, lost);
    sim.open();
    assert_eq!((version(&sim, "g"), is_open(&sim)), (live, false));
    sim.check_replay();
    sim.replay_again();
    sim.flush_and_check_leaks();
}

#[test]
fn many_starts_on_a_full_log_leave_room_for_the_next() {
    let mut sim = store_with_an_open_group(119);
    let before = version(&sim, "g");
    fill_up(&sim);
    sim.failpoints.disarm("put-aside");
    let recycled = sim.engine().recycled().0;
    let kept = sim.config.wal_file_bytes.bytes() / 4;
    let (mut freed, mut least) = (recycled, kept);
    for _ in 0..60 {
        sim.end_life(Death::PowerCut);
        sim.open_to_read();
        let engine = sim.engine().clone();
        // It dies at once, before a turn can free the log.
        assert!(sim.executor.run_until(|| engine.has_begun()));
        least = least.min(engine.log_stats().kept_bytes_left);
        freed = engine.recycled().0;
    }
    assert!(freed > recycled, "a start frees the log");
    assert!(least >= kept / 2 - 2 * 4096, "{least} of {kept} are left");
    sim.failpoints.disarm("flush-before-write");
    sim.crash(Death::PowerCut);
    assert_eq!(version(&sim, "g"), before.next());
    let taken = act(&sim, |client| async move {
        client.sleep(Duration::from_secs(20)).await;
        client.load("a", 3, Off, None).await
    });
    assert!(matches!(taken, Some(Outcome::Acknowledged(_))), "{taken:?}");
    sim.replay_again();
    sim.flush_and_check_leaks();
}

#[test]
fn starts_that_can_free_nothing_serve_reads_and_begin_when_they_can() {
    let mut sim = store_with_an_open_group(120);
    let before = version(&sim, "g");
    fill_up(&sim);
    let starts = (0..40).find(|_| {
        sim.crash(Death::PowerCut);
        !sim.engine().has_begun()
    });
    let starts = starts.expect("each start takes of what is kept back");
    assert!(starts > 4, "as long as there is room, a DROP is possible: {starts}");
    assert_eq!(rows_of(&sim, "g"), 3);
    sim.check();
    sim.failpoints.disarm("put-aside");
    sim.failpoints.disarm("flush-before-write");
    let taken = act(&sim, |client| async move {
        client.sleep(Duration::from_secs(20)).await;
        client.load("g", 3, Off, None).await
    });
    assert!(matches!(taken, Some(Outcome::Acknowledged(_))), "{taken:?}");
    assert_eq!(version(&sim, "g"), before.next().next());
    sim.crash(Death::PowerCut);
    sim.flush_and_check_leaks();
}

#[test]
fn labels_are_kept_as_the_record_before_them_says_whoever_replays() {
    const HOUR: Duration = Duration::from_secs(3600);
    let limits =
        |hours: u32| LabelLimits { keep_streaming: hours * HOUR, ..LabelLimits::default() };
    let mut sim = store(121);
    let expiries = |sim: &Sim| {
        let labels = sim.engine().finished_labels(DbId(1));
        labels.iter().map(|label| (label.label.clone(), label.expires_micros)).collect::<Vec<_>>()
    };
    for (round, hours) in [48, 1, 24, 2].into_iter().enumerate() {
        sim.end_life(Death::PowerCut);
        sim.config.labels = limits(hours);
        sim.open();
        act(&sim, move |client| async move {
            let now = client.engine.meta().labels().clock().now_micros();
            client.load("a", 1, Off, Some(format!("of-{round}"))).await;
            let labels = client.engine.finished_labels(DbId(1));
            let own = labels.iter().find(|label| label.label == format!("of-{round}")).unwrap();
            let kept = (own.expires_micros - now) / 1_000_000;
            assert!((0..60).contains(&(kept - i64::from(hours) * 3600)), "{kept}");
            // Some labels are in metadata, and the others are replayed.
            if round == 1 {
                fill_log(&client, "b").await;
            }
        });
        let before = expiries(&sim);
        assert_eq!(before.len(), round + 1);
        sim.end_life(Death::ProcessEnd);
        sim.config.labels = limits(1000);
        sim.open();
        assert_eq!(expiries(&sim), before, "a replay goes by the log");
    }
    sim.replay_again();
}

#[test]
fn one_start_ends_more_groups_than_a_record_names() {
    const TABLES: usize = 520;
    let mut sim = Sim::new(122);
    sim.config.wal_file_bytes = ByteSize::mib(4);
    sim.config.wal_bytes_max = ByteSize::mib(64);
    sim.config.write_memory_bytes = ByteSize::mib(64);
    sim.open();
    let name = |n: usize| format!("t{n}");
    act(&sim, move |client| async move {
        client.engine.ddl().create_database("d", None, None, true).await.unwrap();
        for n in 0..TABLES {
            client.create(&name(n), &NEVER_DUE).await;
            client.load(&name(n), 1, Async, None).await;
        }
    });
    let versions = |sim: &Sim| (0..TABLES).map(|n| version(sim, &name(n))).collect::<Vec<_>>();
    let before = versions(&sim);
    let had = terms(&sim);
    sim.crash(Death::PowerCut);
    assert_eq!(terms(&sim), had + 2);
    let ended = before.iter().map(|version| version.next()).collect::<Vec<_>>();
    assert_eq!(versions(&sim), ended);
    sim.check_replay();
    sim.crash(Death::PowerCut);
    assert_eq!(versions(&sim), ended, "they end once");
}
