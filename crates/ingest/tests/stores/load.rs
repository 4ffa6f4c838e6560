//! The behavior of loads: what they decide, wait for and release.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::ErrorCode;
use freshet_base::clock::Deadline;
use freshet_ingest::{Destination, Engine, LoadBuffer, PreparedEnd, WaitLimit};
use freshet_meta::{ClaimOutcome, LabelKind};
use freshet_schema::GroupCommitMode::{Async, Off};
use freshet_storage::delta::Freshness;
use futures::FutureExt;
use futures::executor::block_on;

use crate::common::{PATIENCE, Store, create_table, encoded, insert, rows_of, wait_until};

/// More rows than fit into a record, whose limit is a quarter of a log file of 1 MiB.
fn many() -> Vec<(i32, i32)> {
    (0..40_000).map(|row| (row, -row)).collect()
}

fn claim(engine: &Engine, label: &str) -> ClaimOutcome {
    let db = engine.catalog().require_database("d").unwrap().id;
    block_on(engine.claim_label(db, label, LabelKind::Statement)).unwrap()
}

fn places(engine: &Engine) -> (u64, u64) {
    let id = engine.target("d", "t").unwrap().id();
    let snapshot = engine.snapshot(Freshness::Committed).table(id).unwrap().unwrap();
    (snapshot.file_rows(), snapshot.delta_rows())
}

#[test]
fn rows_go_to_the_log_while_they_fit_a_record_and_to_files_from_there_on() {
    let store = Store::small();
    let engine = store.open();
    let table = create_table(&engine, "t");
    let target = engine.target("d", "t").unwrap();
    let small = insert(&engine, "t", Async, &[(1, 10)]);
    assert_eq!((small.mode, small.status()), (Async, "PREPARE"));
    assert!(small.label().starts_with("group_commit_"));
    assert_eq!(places(&engine), (0, 1));

    // The last rows and rows added gradually are treated the same.
    let load = engine.load(&target, Destination::Group(Async), PATIENCE);
    let large = block_on(load.commit(&mut encoded(&many()))).unwrap();
    assert_eq!((large.mode, large.status()), (Off, "VISIBLE"), "it shares no group");
    assert!(large.label().starts_with("label_"));
    let mut load = engine.load(&target, Destination::Group(Async), PATIENCE);
    let mut buffer = LoadBuffer::default();
    buffer.begin();
    for rows in many().chunks(4_000) {
        let more = encoded(rows);
        buffer.resume().extend_from_slice(more.row_bytes());
        buffer.count(rows.len()).unwrap();
        block_on(load.reserve_for(&mut buffer)).unwrap();
    }
    let gathered = block_on(load.commit(&mut buffer)).unwrap();
    block_on(engine.horizon().wait(gathered.lsn));
    assert_eq!(places(&engine), (80_000, 1));
    let mut expected = [many(), many(), vec![(1, 10)]].concat();
    expected.sort_unstable();
    assert_eq!(rows_of(&engine, table, Freshness::Committed), expected);
    store.crash(engine);
    let engine = store.open();
    assert_eq!(rows_of(&engine, table, Freshness::Committed), expected);
    store.stop(engine);
}

#[test]
fn pieces_that_fit_a_record_become_one() {
    let store = Store::small();
    let engine = store.open();
    let table = create_table(&engine, "t");
    let target = engine.target("d", "t").unwrap();
    let mut load = engine.load(&target, Destination::Group(Off), PATIENCE);
    for row in 1..=3 {
        let (rows, count) = encoded(&[(row, row * 10)]).take();
        let memory = engine.memory().try_acquire(rows.len() as u64).unwrap();
        block_on(load.push(rows, count as usize, memory)).unwrap();
    }
    let next = engine.log_stats().next_lsn;
    let loaded = block_on(load.commit(&mut encoded(&[(4, 40)]))).unwrap();
    assert_eq!(loaded.lsn, next, "one record");
    block_on(engine.horizon().wait(loaded.lsn));
    let expected = [(1, 10), (2, 20), (3, 30), (4, 40)];
    assert_eq!(rows_of(&engine, table, Freshness::Committed), expected);
    store.stop(engine);
}

#[test]
fn long_pieces_stand_in_one_record_as_they_came() {
    let store = Store::small();
    let engine = store.open();
    let table = create_table(&engine, "t");
    let target = engine.target("d", "t").unwrap();
    let ClaimOutcome::New(label) = claim(&engine, "mine") else { panic!("nobody has it") };
    let mut load = engine.load(&target, Destination::Label(label, Off), PATIENCE);
    // Each has 72 kB.
    let expected = many()[..24_000].to_vec();
    for piece in expected.chunks(8_000) {
        let (rows, count) = encoded(piece).take();
        let memory = engine.memory().try_acquire(rows.len() as u64).unwrap();
        block_on(load.push(rows, count as usize, memory)).unwrap();
    }
    let next = engine.log_stats().next_lsn;
    let loaded = block_on(load.commit(&mut encoded(&[(24_000, 40)]))).unwrap();
    assert_eq!((loaded.lsn, loaded.label().as_ref()), (next, "mine"), "one record");
    block_on(engine.horizon().wait(loaded.lsn));
    let expected = [expected, vec![(24_000, 40)]].concat();
    assert_eq!(places(&engine), (0, 24_001));
    assert_eq!(rows_of(&engine, table, Freshness::Committed), expected);
    store.crash(engine);
    let engine = store.open();
    assert_eq!(rows_of(&engine, table, Freshness::Committed), expected);
    assert!(matches!(claim(&engine, "mine"), ClaimOutcome::Used(_)), "its record has its label");
    store.stop(engine);
}

#[test]
fn a_prepared_load_has_its_pieces_in_memory_and_behind_its_note() {
    for restarts in [false, true] {
        let store = Store::small();
        let mut engine = store.open();
        let table = create_table(&engine, "t");
        let target = engine.target("d", "t").unwrap();
        let mut load = engine.load(&target, Destination::Group(Off), PATIENCE);
        let expected = many()[..24_000].to_vec();
        for piece in expected.chunks(8_000) {
            let (rows, count) = encoded(piece).take();
            let memory = engine.memory().try_acquire(rows.len() as u64).unwrap();
            block_on(load.push(rows, count as usize, memory)).unwrap();
        }
        let keep = (None, Duration::from_secs(60));
        let prepared = block_on(engine.prepare(load, &mut encoded(&[(24_000, 40)]), keep));
        let (txn, _) = prepared.unwrap();
        assert_eq!(rows_of(&engine, table, Freshness::Committed), []);
        if restarts {
            drop(target);
            store.crash(engine);
            engine = store.open();
        }
        block_on(engine.end_prepared(txn, PreparedEnd::Commit)).unwrap();
        let expected = [expected, vec![(24_000, 40)]].concat();
        assert_eq!(places(&engine), (0, 24_001), "they are in one record");
        assert_eq!(rows_of(&engine, table, Freshness::Committed), expected);
        store.stop(engine);
    }
}

#[test]
fn a_load_without_a_row_is_an_empty_record() {
    let store = Store::small();
    let engine = store.open();
    create_table(&engine, "t");
    let target = engine.target("d", "t").unwrap();
    for through_files in [false, true] {
        let mut load = engine.load(&target, Destination::Group(Async), PATIENCE);
        if through_files {
            block_on(load.to_files()).unwrap();
        }
        let loaded = block_on(load.commit(&mut LoadBuffer::default())).unwrap();
        block_on(engine.horizon().wait(loaded.lsn));
    }
    assert_eq!(places(&engine), (0, 0));
    store.crash(engine);
    let engine = store.open();
    assert_eq!(places(&engine), (0, 0));
    store.stop(engine);
}

#[test]
fn a_load_that_is_dropped_gives_back_its_memory_and_its_label() {
    for through_files in [false, true] {
        let store = Store::small();
        let engine = store.open();
        let table = create_table(&engine, "t");
        let target = engine.target("d", "t").unwrap();
        let ClaimOutcome::New(label) = claim(&engine, "mine") else { panic!("nobody has it") };
        let mut load = engine.load(&target, Destination::Label(label, Off), PATIENCE);
        block_on(load.reserve_for(&mut encoded(&many()[..100]))).unwrap();
        let (rows, count) = encoded(&[(1, 10)]).take();
        let memory = engine.memory().try_acquire(1000).unwrap();
        block_on(load.push(rows, count as usize, memory)).unwrap();
        if through_files {
            block_on(load.to_files()).unwrap();
        }
        let ClaimOutcome::Used(used) = claim(&engine, "mine") else { panic!("it is taken") };
        assert_eq!(used.lsn, None);
        assert!(engine.memory().used_bytes() > 0);
        drop(load);
        assert_eq!(engine.memory().used_bytes(), 0);
        assert!(matches!(claim(&engine, "mine"), ClaimOutcome::New(_)), "it is free again");
        assert_eq!(rows_of(&engine, table, Freshness::Committed), []);
        store.stop(engine);
    }
}

#[test]
fn a_label_is_told_to_be_used_when_its_load_is_durable() {
    let store = Store::small();
    let engine = store.open();
    create_table(&engine, "t");
    let target = engine.target("d", "t").unwrap();
    let label = claim(&engine, "mine").or_refuse().unwrap();
    let load = engine.load(&target, Destination::Label(label, Off), PATIENCE);
    let loaded = block_on(load.commit(&mut encoded(&[(1, 10)]))).unwrap();
    assert_eq!((&*loaded.label(), loaded.status()), ("mine", "VISIBLE"));
    let ClaimOutcome::Used(used) = claim(&engine, "mine") else { panic!("it is used") };
    assert!(engine.horizon().get() >= loaded.lsn);
    assert_eq!((used.lsn, used.txn), (Some(loaded.lsn), loaded.txn));
    assert_eq!(claim(&engine, "mine").or_refuse().unwrap_err().code(), ErrorCode::LabelUsed);
    store.stop(engine);
}

/// The lifetime of a label depends only on its record, so it is the same after a replay.
#[test]
fn a_label_has_the_same_dates_after_a_crash() {
    let store = Store::small();
    let engine = store.open();
    create_table(&engine, "t");
    let target = engine.target("d", "t").unwrap();
    for n in 0..20 {
        let label = claim(&engine, &format!("label{n}")).or_refuse().unwrap();
        let load = engine.load(&target, Destination::Label(label, Off), PATIENCE);
        let loaded = block_on(load.commit(&mut encoded(&[(n, 10)]))).unwrap();
        block_on(engine.horizon().wait(loaded.lsn));
    }
    let db = engine.catalog().require_database("d").unwrap().id;
    let before = engine.finished_labels(db);
    store.crash(engine);
    let engine = store.open();
    assert_eq!((before.len(), engine.finished_labels(db)), (20, before));
    store.stop(engine);
}

#[test]
fn a_load_waits_for_memory_as_long_as_it_may_and_not_at_all_after_its_deadline() {
    let store = Store::small();
    let engine = store.open();
    create_table(&engine, "t");
    let target = engine.target("d", "t").unwrap();
    let all = engine.memory().try_acquire(engine.memory().limit_bytes()).unwrap();
    let now = engine.clock().now();
    let load = |patience| engine.load(&target, Destination::Group(Off), patience);
    for patience in [WaitLimit::For(Duration::ZERO), WaitLimit::Until(Deadline(now))] {
        let refused = block_on(load(patience).commit(&mut encoded(&[(1, 10)]))).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::OutOfRoom);
    }
    let waiting = {
        let engine: Arc<Engine> = Arc::clone(&engine);
        std::thread::spawn(move || insert(&engine, "t", Off, &[(1, 10)]).lsn)
    };
    wait_until("it waits", || engine.memory().waiting() == 1);
    drop(all);
    waiting.join().unwrap();
    let mut buffer = encoded(&[(2, 20)]);
    let at_once = load(WaitLimit::For(Duration::ZERO)).commit(&mut buffer).now_or_never();
    assert!(at_once.unwrap().is_ok(), "where there is room nothing waits");
    store.stop(engine);
}
