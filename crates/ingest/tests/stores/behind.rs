//! Writers that outrun the look-ups of keys (keys.md K19).

use std::sync::Arc;
use std::time::Duration;

use freshet_base::ErrorCode;
use freshet_ingest::{Destination, Engine, LoadTarget, WaitLimit};
use freshet_meta::{BucketsSpec, DistributionSpec, KeyModelSpec, KeySpec, TableSpec};
use freshet_schema::GroupCommitMode::Off;
use freshet_schema::TableForm;
use freshet_storage::delta::Freshness;
use freshet_storage::resolver::Resolver;
use futures::executor::block_on;

use crate::common::{Store, create_table, encoded, int_column, load, rows_of};

const ROWS_MAX: u64 = 100;
/// Rows of a load.
const ROWS: i32 = 30;

fn open(store: &Store) -> Arc<Engine> {
    let mut config = store.config();
    config.unresolved_rows_max = ROWS_MAX;
    block_on(Engine::open(config, store.world())).unwrap()
}

/// `d.k (a INT, b INT) UNIQUE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 2`.
fn keyed(engine: &Arc<Engine>) -> (LoadTarget, Arc<Resolver>) {
    create_table(engine, "other");
    let spec = TableSpec {
        key: Some(KeySpec { model: KeyModelSpec::Unique, columns: vec!["a".to_owned()] }),
        distribution: Some(DistributionSpec::Hash(vec!["a".to_owned()])),
        buckets: BucketsSpec::Count(2),
        ..TableSpec::new("k", TableForm::Olap, vec![int_column("a"), int_column("b")])
    };
    block_on(engine.ddl().create_table("d", spec, false)).unwrap();
    let target = engine.target("d", "k").unwrap();
    let view = engine.views().load();
    let resolver = view.tables[&target.id()].resolver.clone();
    (target, resolver.expect("a table with keys has a resolver"))
}

fn rows(version: i32) -> Vec<(i32, i32)> {
    (0..ROWS).map(|key| (key, version)).collect()
}

#[test]
fn who_writes_without_a_look_stays_near_those_who_look_up() {
    let store = Store::new();
    let engine = open(&store);
    let (target, resolver) = keyed(&engine);
    for version in 0..300 {
        load(&engine, &target, Destination::Group(Off), &rows(version), false);
        let behind = resolver.rows_behind();
        assert!(behind <= ROWS_MAX + ROWS as u64, "{behind} rows behind after {version}");
    }
    store.stop(engine);
}

/// Nobody looks up while another has the latch, as for the time of a slow disk.
#[test]
fn who_waits_too_long_for_look_ups_is_refused_and_others_go_on() {
    let store = Store::new();
    let engine = open(&store);
    let (target, resolver) = keyed(&engine);
    let latch = block_on(resolver.latch()).unwrap();
    let commit = |version| {
        let patience = WaitLimit::For(Duration::from_millis(100));
        let load = engine.load(&target, Destination::Group(Off), patience);
        block_on(load.commit(&mut encoded(&rows(version))))
    };
    for version in 0..4 {
        commit(version).unwrap();
    }
    assert_eq!(resolver.rows_behind(), 4 * ROWS as u64);
    let transaction = engine.begin_transaction(None);
    let own = Destination::Transaction(transaction.own_rows());
    load(&engine, &target, own, &rows(50), false);
    let refused = commit(4).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::OutOfRoom);
    assert!(refused.message().contains("has 120 rows whose keys are not looked up"), "{refused}");
    let short = WaitLimit::For(Duration::from_millis(100));
    let refused = block_on(engine.commit(transaction, short)).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::OutOfRoom);
    assert_eq!(engine.key_waits(), 2);

    // A table without keys is none of its business.
    let other = engine.target("d", "other").unwrap();
    load(&engine, &other, Destination::Group(Off), &rows(1), false);
    drop(latch);
    let loaded = commit(5).unwrap();
    block_on(engine.horizon().wait(loaded.lsn));
    block_on(resolver.resolve_to(loaded.lsn)).unwrap();
    assert_eq!(resolver.rows_behind(), 0);
    assert_eq!(rows_of(&engine, other.id(), Freshness::Committed), rows(1));
    store.stop(engine);
}

#[test]
fn rows_that_a_truncate_removes_hold_nobody_back() {
    let store = Store::new();
    let engine = open(&store);
    let (target, resolver) = keyed(&engine);
    let latch = block_on(resolver.latch()).unwrap();
    for version in 0..4 {
        load(&engine, &target, Destination::Group(Off), &rows(version), false);
    }
    drop(latch);
    block_on(engine.ddl().truncate(&[target.id()])).unwrap();
    block_on(resolver.resolve_to(engine.horizon().get())).unwrap();
    assert_eq!(resolver.rows_behind(), 0);
    store.stop(engine);
}
