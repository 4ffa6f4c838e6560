//! The engine on real files: acknowledged rows exist before and after a crash.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use freshet_base::io::{Mode, RealFs};
use freshet_ingest::Engine;
use freshet_meta::{ColumnPlace, ColumnSpec, DefaultSpec, SchemaChange};
use freshet_schema::{DefaultValue, GroupCommitMode};
use freshet_storage::delta::Freshness;
use freshet_testkit::ThroughFs;
use futures::executor::block_on;
use parking_lot::Mutex;

use crate::common::{self, Store, create_table, insert, rows_of};

#[test]
fn a_row_is_readable_at_its_acknowledgement_and_after_a_crash() {
    let store = Store::new();
    let engine = store.open();
    let table = create_table(&engine, "t");
    insert(&engine, "t", GroupCommitMode::Off, &[(1, 10), (2, 20)]);
    insert(&engine, "t", GroupCommitMode::Async, &[(3, 30)]);
    assert_eq!(rows_of(&engine, table, Freshness::Committed), [(1, 10), (2, 20), (3, 30)]);
    store.crash(engine);
    let engine = store.open();
    assert_eq!(rows_of(&engine, table, Freshness::Committed), [(1, 10), (2, 20), (3, 30)]);
    store.stop(engine);
}

#[test]
fn published_readers_see_ended_groups_only() {
    let store = Store::new();
    let engine = store.open();
    let table = create_table(&engine, "t");
    let open = insert(&engine, "t", GroupCommitMode::Sync, &[(1, 10)]);
    insert(&engine, "t", GroupCommitMode::Off, &[(2, 20)]);
    let joined = insert(&engine, "t", GroupCommitMode::Async, &[(3, 30)]);
    assert_eq!(open.txn, joined.txn, "loads of a window share a transaction");
    assert_eq!(rows_of(&engine, table, Freshness::Published), [(2, 20)]);
    block_on(engine.flush_table(table)).unwrap();
    assert_eq!(rows_of(&engine, table, Freshness::Published), [(1, 10), (2, 20), (3, 30)]);
    store.stop(engine);
}

#[test]
fn ended_groups_say_how_their_rows_came_into_files() {
    let store = Store::new();
    let engine = store.open();
    let table = create_table(&engine, "t");
    insert(&engine, "t", GroupCommitMode::Async, &[(1, 10)]);
    block_on(engine.ddl().truncate(&[table])).unwrap();
    insert(&engine, "t", GroupCommitMode::Async, &[(2, 20)]);
    block_on(engine.flush_table(table)).unwrap();
    insert(&engine, "t", GroupCommitMode::Async, &[(3, 30)]);
    let flushed = |engine: &freshet_ingest::Engine| {
        let groups = engine.history().groups();
        groups.iter().map(|group| group.flushed).collect::<Vec<_>>()
    };
    let [None, Some(first)] = flushed(&engine)[..] else {
        panic!("what a TRUNCATE took comes into no file: {:?}", flushed(&engine))
    };
    block_on(engine.flush_table(table)).unwrap();
    let [None, Some(same), Some(second)] = flushed(&engine)[..] else {
        panic!("every group says once how it was flushed: {:?}", flushed(&engine))
    };
    assert_eq!(first, same);
    assert!(first.began_micros <= second.began_micros);
    store.stop(engine);
}

#[test]
fn flushed_rows_stand_in_files_once_and_later_rows_in_the_delta() {
    let store = Store::new();
    let engine = store.open();
    let table = create_table(&engine, "t");
    insert(&engine, "t", GroupCommitMode::Off, &[(2, 20), (1, 10)]);
    block_on(engine.flush_table(table)).unwrap();
    insert(&engine, "t", GroupCommitMode::Off, &[(3, 30)]);
    let snapshot = engine.snapshot(Freshness::Committed).table(table).unwrap().unwrap();
    assert_eq!((snapshot.file_rows(), snapshot.delta_rows()), (2, 1));
    drop(snapshot);
    store.crash(engine);
    let engine = store.open();
    assert_eq!(rows_of(&engine, table, Freshness::Committed), [(1, 10), (2, 20), (3, 30)]);
    let snapshot = engine.snapshot(Freshness::Committed).table(table).unwrap().unwrap();
    assert_eq!((snapshot.file_rows(), snapshot.delta_rows()), (2, 1));
    store.stop(engine);
}

#[test]
fn truncated_rows_never_come_back_and_later_ones_stay() {
    let store = Store::new();
    let engine = store.open();
    let table = create_table(&engine, "t");
    insert(&engine, "t", GroupCommitMode::Off, &[(1, 10)]);
    block_on(engine.flush_table(table)).unwrap();
    insert(&engine, "t", GroupCommitMode::Async, &[(2, 20)]);
    let before = engine.snapshot(Freshness::Committed);
    block_on(engine.ddl().truncate(&[table])).unwrap();
    assert_eq!(rows_of(&engine, table, Freshness::Committed), []);
    assert_eq!(
        before.table(table).unwrap().unwrap().rows(),
        2,
        "an open snapshot keeps what it pinned"
    );
    insert(&engine, "t", GroupCommitMode::Off, &[(3, 30)]);
    drop(before);
    store.crash(engine);
    let engine = store.open();
    assert_eq!(rows_of(&engine, table, Freshness::Committed), [(3, 30)]);
    block_on(engine.flush_table(table)).unwrap();
    assert_eq!(rows_of(&engine, table, Freshness::Committed), [(3, 30)]);
    store.stop(engine);
}

#[test]
fn tables_that_are_truncated_together_are_empty_together_wherever_the_crash_comes() {
    // The crash comes before or after a checkpoint of the only record.
    for settled in [false, true] {
        let store = Store::new();
        let engine = store.open();
        let names = ["a", "b", "c"];
        let tables = names.map(|name| create_table(&engine, name));
        for (name, table) in names.into_iter().zip(tables) {
            insert(&engine, name, GroupCommitMode::Off, &[(1, 10)]);
            block_on(engine.flush_table(table)).unwrap();
            insert(&engine, name, GroupCommitMode::Async, &[(2, 20)]);
        }
        block_on(engine.ddl().truncate(&tables)).unwrap();
        for (name, table) in names.into_iter().zip(tables) {
            assert_eq!(rows_of(&engine, table, Freshness::Committed), [], "{name} before");
            insert(&engine, name, GroupCommitMode::Off, &[(3, 30)]);
        }
        if settled {
            // It is committed at once, and brings along what has settled.
            block_on(engine.ddl().create_database("e", None, None, false)).unwrap();
        }
        store.crash(engine);
        for start in ["first", "second"] {
            let engine = store.open();
            for (name, table) in names.into_iter().zip(tables) {
                let rows = rows_of(&engine, table, Freshness::Committed);
                assert_eq!(rows, [(3, 30)], "{name}, settled: {settled}, {start} start");
            }
            store.stop(engine);
        }
    }
}

#[test]
fn a_dropped_table_is_gone_and_its_name_is_free() {
    let store = Store::new();
    let engine = store.open();
    let old = create_table(&engine, "t");
    insert(&engine, "t", GroupCommitMode::Off, &[(1, 10)]);
    assert!(block_on(engine.ddl().drop_table("d", "t", false)).unwrap());
    assert!(engine.snapshot(Freshness::Committed).table(old).unwrap().is_none());
    let error = block_on(engine.ddl().drop_table("d", "t", false)).unwrap_err();
    assert_eq!(error.code().errno(), 1051);
    let new = create_table(&engine, "t");
    insert(&engine, "t", GroupCommitMode::Off, &[(2, 20)]);
    store.crash(engine);
    let engine = store.open();
    assert!(engine.table_state(old).is_none());
    assert_eq!(rows_of(&engine, new, Freshness::Committed), [(2, 20)]);
    store.stop(engine);
}

#[test]
fn an_added_column_reads_its_default_in_rows_of_before() {
    let store = Store::new();
    let engine = store.open();
    let table = create_table(&engine, "t");
    insert(&engine, "t", GroupCommitMode::Async, &[(1, 10)]);
    let default = DefaultSpec::Value(DefaultValue::Literal("7".to_owned()));
    let column = ColumnSpec { default, ..common::int_column("c") };
    let add = SchemaChange::AddColumn { column, place: ColumnPlace::Last };
    block_on(engine.ddl().alter_columns(table, vec![add])).unwrap();
    let check = |engine: &std::sync::Arc<freshet_ingest::Engine>| {
        let snapshot = engine.snapshot(Freshness::Committed).table(table).unwrap().unwrap();
        assert_eq!(snapshot.schema.columns.len(), 3);
        for batch in common::batches(&snapshot) {
            assert_eq!(batch.column(2).as_primitive::<Int32Type>().values(), &[7]);
        }
        assert_eq!(snapshot.rows(), 1);
    };
    check(&engine);
    store.crash(engine);
    let engine = store.open();
    check(&engine);
    block_on(engine.flush_table(table)).unwrap();
    check(&engine);
    store.stop(engine);
}

#[test]
fn a_transaction_is_all_or_nothing_over_two_tables() {
    let store = Store::new();
    let engine = store.open();
    let (a, b) = (create_table(&engine, "a"), create_table(&engine, "b"));
    let transaction = engine.begin_transaction(None);
    common::add(&engine, &transaction, "a", &[(1, 10)]);
    common::add(&engine, &transaction, "b", &[(2, 20), (3, 30)]);
    assert_eq!(rows_of(&engine, a, Freshness::Committed), []);
    let own = transaction.own_rows().overlay(b, engine.target("d", "b").unwrap().schema()).unwrap();
    assert_eq!(own.num_rows(), 2);
    let committed = block_on(engine.commit(transaction, common::PATIENCE)).unwrap().unwrap();
    block_on(engine.horizon().wait(committed.lsn));
    store.crash(engine);
    let engine = store.open();
    assert_eq!(rows_of(&engine, a, Freshness::Committed), [(1, 10)]);
    assert_eq!(rows_of(&engine, b, Freshness::Committed), [(2, 20), (3, 30)]);
    store.stop(engine);
}

#[test]
fn the_log_is_used_again_and_small_tables_survive_it() {
    let store = Store::small();
    let engine = store.open();
    let (large, small) = (create_table(&engine, "large"), create_table(&engine, "small"));
    insert(&engine, "small", GroupCommitMode::Async, &[(1, 10)]);
    let rows = (0..2_000).map(|k| (k, k)).collect::<Vec<_>>();
    for _ in 0..400 {
        insert(&engine, "large", GroupCommitMode::Async, &rows);
    }
    common::wait_until("the log was recycled", || engine.meta().log_state().recycled.lsn.get() > 0);
    assert_eq!(rows_of(&engine, small, Freshness::Committed), [(1, 10)]);
    insert(&engine, "small", GroupCommitMode::Async, &[(2, 20)]);
    store.crash(engine);
    let engine = store.open();
    assert_eq!(rows_of(&engine, small, Freshness::Committed), [(1, 10), (2, 20)]);
    let snapshot = engine.snapshot(Freshness::Committed).table(large).unwrap().unwrap();
    assert_eq!(snapshot.rows(), 400 * 2_000);
    store.stop(engine);
}

#[test]
fn a_second_server_is_refused() {
    let store = Store::new();
    let engine = store.open();
    let error = store.try_open().err().expect("the store is taken");
    assert!(error.message().contains("another server has the store"), "{error}");
    store.stop(engine);
}

#[test]
fn loads_do_not_wait_while_the_rows_of_their_table_go_to_the_side_file() {
    const SOON: Duration = Duration::from_secs(20);
    let store = Store::small();
    let ((entered, enters), (allow, allowed)) = (mpsc::channel(), mpsc::channel::<()>());
    let mut world = store.world();
    let allowed = Mutex::new(allowed);
    // Creates no side file before the test allows it.
    world.fs = Arc::new(ThroughFs::new(Arc::new(RealFs), move |inner, path, mode| {
        if mode == Mode::CreateNew && path.parent().is_some_and(|dir| dir.ends_with("side")) {
            let _ = entered.send(());
            // The sender is gone once the test has allowed it.
            let _ = allowed.lock().recv();
        }
        inner.open(path, mode)
    }));
    let engine = block_on(Engine::open(store.config(), world)).unwrap();
    create_table(&engine, "large");
    let small = create_table(&engine, "small");
    insert(&engine, "small", GroupCommitMode::Off, &[(1, 10)]);
    let rows = (0..2_000).map(|k| (k, k)).collect::<Vec<_>>();
    // A turn frees a quarter of the log, in whole files.
    while engine.log_stats().live_bytes < 3 << 20 {
        insert(&engine, "large", GroupCommitMode::Off, &rows);
    }
    enters.recv_timeout(SOON).expect("a turn writes the side file");
    let (done, loaded) = mpsc::channel();
    let writer = Arc::clone(&engine);
    let thread = std::thread::spawn(move || {
        insert(&writer, "small", GroupCommitMode::Off, &[(2, 20)]);
        drop(writer);
        let _ = done.send(());
    });
    let loaded = loaded.recv_timeout(SOON);
    // Before the check, so that its failure hangs nothing.
    drop(allow);
    loaded.expect("a load waits for rows that go to the side file");
    thread.join().unwrap();
    common::wait_until("the log is recycled", || engine.meta().log_state().recycled.lsn.get() > 0);
    store.crash(engine);
    let engine = store.open();
    assert_eq!(rows_of(&engine, small, Freshness::Committed), [(1, 10), (2, 20)]);
    store.stop(engine);
}
