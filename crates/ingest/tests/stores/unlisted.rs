//! Tables created with their rows: complete or absent, wherever the creation is interrupted.

use std::sync::Arc;

use freshet_base::{ErrorCode, Lsn};
use freshet_ingest::{CreateOutcome, Destination, Engine, UnpublishedTable};
use freshet_meta::{BucketsSpec, DistributionSpec, TableSpec};
use freshet_schema::{GroupCommitMode, TableForm};
use freshet_storage::delta::Freshness;
use futures::executor::block_on;

use crate::common::{Store, create_table, insert, int_column, load, rows_of, wait_until};

fn begun(engine: &Arc<Engine>, name: &str) -> UnpublishedTable {
    let spec = TableSpec {
        distribution: Some(DistributionSpec::Random),
        buckets: BucketsSpec::Count(2),
        ..TableSpec::new(name, TableForm::Olap, vec![int_column("a"), int_column("b")])
    };
    match block_on(engine.ddl().create_unlisted("d", spec, false)).unwrap() {
        CreateOutcome::Begun(table, _) => table,
        CreateOutcome::Exists => panic!("'{name}' is there"),
    }
}

/// Loads 100 rows, as one record or through files.
fn fill(engine: &Arc<Engine>, table: &UnpublishedTable, through_files: bool) -> Lsn {
    let rows = (0..100).map(|a| (a, a * 10)).collect::<Vec<_>>();
    let destination = Destination::Group(GroupCommitMode::Off);
    load(engine, table.target(), destination, &rows, through_files).lsn
}

fn names(engine: &Engine) -> Vec<String> {
    engine.catalog().database("d").unwrap().tables.keys().cloned().collect()
}

/// Simulates a crash while the table is being created.
fn crash(store: &Store, engine: Arc<Engine>, table: UnpublishedTable) -> Arc<Engine> {
    block_on(engine.halt());
    drop(table);
    store.crash(engine);
    store.open()
}

#[test]
fn a_crash_leaves_nothing_of_a_table_without_a_name() {
    for (through_files, flushed) in [(false, false), (false, true), (true, false), (true, true)] {
        let store = Store::new();
        let engine = store.open();
        let other = create_table(&engine, "t");
        insert(&engine, "t", GroupCommitMode::Async, &[(1, 10)]);
        let table = begun(&engine, "u");
        let lsn = fill(&engine, &table, through_files);
        insert(&engine, "t", GroupCommitMode::Async, &[(2, 20)]);
        block_on(engine.horizon().wait(lsn));
        if flushed {
            block_on(engine.flush_table(table.target().id())).unwrap();
        }
        assert_eq!(names(&engine), ["t"]);
        let id = table.target().id();
        let engine = crash(&store, engine, table);
        assert_eq!(names(&engine), ["t"]);
        // Once the term has begun.
        wait_until("it is dropped", || {
            engine.table_state(id).is_none() && engine.catalog().table_by_id(id).is_none()
        });
        assert_eq!(rows_of(&engine, other, Freshness::Committed), [(1, 10), (2, 20)]);
        // The name is free, and none of the old rows reappear under it, even after the next start.
        let next = create_table(&engine, "u");
        insert(&engine, "u", GroupCommitMode::Off, &[(7, 70)]);
        store.crash(engine);
        let engine = store.open();
        assert_eq!(rows_of(&engine, next, Freshness::Committed), [(7, 70)]);
        store.stop(engine);
    }
}

#[test]
fn a_table_that_has_its_name_has_its_rows_after_a_crash() {
    for through_files in [false, true] {
        let store = Store::new();
        let engine = store.open();
        create_table(&engine, "t");
        let table = begun(&engine, "u");
        let id = table.target().id();
        let lsn = fill(&engine, &table, through_files);
        block_on(table.list(lsn)).unwrap();
        assert_eq!(rows_of(&engine, id, Freshness::Committed).len(), 100);
        store.crash(engine);
        let engine = store.open();
        assert_eq!(names(&engine), ["t", "u"]);
        assert_eq!(rows_of(&engine, id, Freshness::Committed).len(), 100);
        store.stop(engine);
    }
}

#[test]
fn one_that_is_given_up_goes_and_gives_its_memory_back() {
    let store = Store::new();
    let engine = store.open();
    create_table(&engine, "t");
    let table = begun(&engine, "u");
    let id = table.target().id();
    fill(&engine, &table, false);
    drop(table);
    wait_until("it is gone", || engine.catalog().table_by_id(id).is_none());
    wait_until("its memory is back", || engine.memory().used_bytes() == 0);
    // Another table that takes the name first keeps it.
    let late = begun(&engine, "u");
    let early = begun(&engine, "u");
    let lsn = fill(&engine, &early, false);
    block_on(early.list(lsn)).unwrap();
    let lsn = fill(&engine, &late, false);
    let error = block_on(late.list(lsn)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::TableExists);
    wait_until("one is left", || engine.table_states().len() == 2);
    assert_eq!(names(&engine), ["t", "u"]);
    // Dropping a database removes tables that are being created in it.
    let table = begun(&engine, "v");
    block_on(engine.ddl().drop_database("d", false)).unwrap();
    assert_eq!(block_on(table.list(Lsn::ZERO)).unwrap_err().code(), ErrorCode::NoSuchTable);
    wait_until("nothing is left", || engine.table_states().is_empty());
    store.stop(engine);
}
