//! A store on real files, and loads of rows with two INT columns.
#![allow(dead_code, clippy::disallowed_methods, clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use freshet_base::task::Threads;
use freshet_base::{ByteSize, Result, TableId};
use freshet_ingest::{
    Destination, Engine, EngineConfig, LoadBuffer, LoadTarget, Loaded, Transaction, WaitLimit,
    World,
};
use freshet_meta::{
    Account, AuthData, BucketsSpec, ColumnPlace, ColumnSpec, DefaultSpec, DistributionSpec,
    KeyModelSpec, KeySpec, SchemaChange, TableSpec, UserAdmin,
};
use freshet_schema::{ColumnType, DefaultValue, GroupCommitMode, TableForm};
use freshet_storage::delta::Freshness;
use freshet_storage::segment::ScanRequest;
use freshet_storage::snapshot::TableSnapshot;
use freshet_testkit::until_closed;
use futures::executor::block_on;

/// A store in a temporary directory.
pub struct Store {
    dir: tempfile::TempDir,
    small: bool,
}

impl Store {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), small: false }
    }

    /// A store with so little log and memory that they are recycled repeatedly.
    pub fn small() -> Self {
        Self { small: true, ..Self::new() }
    }

    pub fn config(&self) -> EngineConfig {
        let mut config = EngineConfig::new(self.dir.path().join("store"), ByteSize::mib(64));
        config.wal_file_bytes = ByteSize::mib(4);
        config.wal_bytes_max = ByteSize::mib(64);
        if self.small {
            config.wal_file_bytes = ByteSize::mib(1);
            config.wal_bytes_max = ByteSize::mib(8);
            config.write_memory_bytes = ByteSize::mib(16);
            config.flush_bytes = ByteSize::mib(4);
            config.flush_bytes_min = ByteSize::kib(64);
        }
        config
    }

    pub fn world(&self) -> World {
        static SALT: AtomicU64 = AtomicU64::new(1);
        let draw = || SALT.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        World::real(Threads::start(2).unwrap(), |message| panic!("fatal: {message}"), draw)
    }

    pub fn try_open(&self) -> Result<Arc<Engine>> {
        block_on(Engine::open(self.config(), self.world()))
    }

    pub fn open(&self) -> Arc<Engine> {
        self.try_open().unwrap()
    }

    /// Stops an engine without ending its groups, as an orderly stop would; waits for its tasks, so
    /// that the store can be opened again.
    pub fn crash(&self, engine: Arc<Engine>) {
        block_on(engine.halt());
        self.close(engine);
    }

    fn close(&self, engine: Arc<Engine>) {
        drop(engine);
        until_closed(&self.config().data_dir);
    }

    /// Keeps the temporary directory and returns the path of the store in it.
    pub fn keep(self) -> std::path::PathBuf {
        let store = self.config().data_dir;
        let _ = self.dir.keep();
        store
    }

    pub fn stop(&self, engine: Arc<Engine>) {
        block_on(engine.stop()).unwrap();
        self.close(engine);
    }
}

/// Waits up to ten seconds for a condition.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}: not within ten seconds");
}

pub fn int_column(name: &str) -> ColumnSpec {
    ColumnSpec::new(name, ColumnType::Int { unsigned: false })
}

/// `d.name (a INT, b INT) DUPLICATE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 2`.
pub fn create_table(engine: &Arc<Engine>, name: &str) -> TableId {
    block_on(engine.ddl().create_database("d", None, None, true)).unwrap();
    let columns = vec![int_column("a"), int_column("b")];
    let spec = TableSpec {
        key: Some(KeySpec { model: KeyModelSpec::Duplicate, columns: vec!["a".to_owned()] }),
        distribution: Some(DistributionSpec::Hash(vec!["a".to_owned()])),
        buckets: BucketsSpec::Count(2),
        ..TableSpec::new(name, TableForm::Olap, columns)
    };
    block_on(engine.ddl().create_table("d", spec, false)).unwrap().object.id
}

pub fn encoded(rows: &[(i32, i32)]) -> LoadBuffer {
    let mut buffer = LoadBuffer::default();
    let bytes = buffer.begin();
    for (a, b) in rows {
        bytes.push(0);
        bytes.extend_from_slice(&a.to_le_bytes());
        bytes.extend_from_slice(&b.to_le_bytes());
    }
    buffer.count(rows.len()).unwrap();
    buffer
}

/// How long loads wait in tests.
pub const PATIENCE: WaitLimit = WaitLimit::For(Duration::from_secs(10));

/// Loads rows into a table, optionally through files, without waiting for the acknowledgement.
pub fn load(
    engine: &Arc<Engine>,
    target: &LoadTarget,
    destination: Destination<'_>,
    rows: &[(i32, i32)],
    through_files: bool,
) -> Loaded {
    let mut load = engine.load(target, destination, PATIENCE);
    if through_files {
        block_on(load.to_files()).unwrap();
    }
    block_on(load.commit(&mut encoded(rows))).unwrap()
}

/// Loads rows into `d.table` and waits for the acknowledgement.
pub fn insert(
    engine: &Arc<Engine>,
    table: &str,
    mode: GroupCommitMode,
    rows: &[(i32, i32)],
) -> Loaded {
    let target = engine.target("d", table).unwrap();
    let loaded = load(engine, &target, Destination::Group(mode), rows, false);
    block_on(engine.horizon().wait(loaded.lsn));
    loaded
}

/// Adds rows to `d.table` in a transaction.
pub fn add(engine: &Arc<Engine>, transaction: &Transaction, table: &str, rows: &[(i32, i32)]) {
    let target = engine.target("d", table).unwrap();
    load(engine, &target, Destination::Transaction(transaction.own_rows()), rows, false);
}

/// All rows of a snapshot, files first.
pub fn batches(snapshot: &TableSnapshot) -> Vec<RecordBatch> {
    let request = ScanRequest::all(&snapshot.schema);
    let files = snapshot.rowsets().flat_map(|rowset| rowset.scan(request.clone()));
    let mut batches = files.map(|batch| batch.unwrap()).collect::<Vec<_>>();
    batches.extend(snapshot.delta_batches().unwrap());
    batches
}

/// The rows visible to a reader, sorted.
pub fn rows_of(engine: &Engine, table: TableId, freshness: Freshness) -> Vec<(i32, i32)> {
    let snapshot = engine.snapshot(freshness).table(table).unwrap().unwrap();
    let mut rows = Vec::new();
    for batch in batches(&snapshot) {
        let a = batch.column(0).as_primitive::<Int32Type>().values();
        let b = batch.column(1).as_primitive::<Int32Type>().values();
        rows.extend(a.iter().copied().zip(b.iter().copied()));
    }
    rows.sort_unstable();
    rows
}

/// A slow password hash, as stored since format 2.
pub const SLOW_HASH: &str =
    concat!("$A$005$", "a salt of 20 letters", "and.then.a.digest.that.has.43.letters......",);

/// The value of earlier rows in an added column whose default is the current time.
pub const ALTERED_AT: &str = "2026-11-21 12:00:00.000000";

pub fn account() -> Account {
    Account { name: "reader".to_owned(), host: "%".to_owned() }
}

/// Inserts rows, then adds a column whose default is the current time.
fn alter(engine: &Arc<Engine>) {
    let table = create_table(engine, "altered");
    insert(engine, "altered", GroupCommitMode::Off, &[(4, 40)]);
    let column = ColumnSpec {
        ty: ColumnType::DateTime { fsp: 6 },
        default: DefaultSpec::Computed {
            default: DefaultValue::CurrentTimestamp,
            before: Some(ALTERED_AT.to_owned()),
        },
        ..int_column("at")
    };
    let add = SchemaChange::AddColumn { column, place: ColumnPlace::Last };
    block_on(engine.ddl().alter_columns(table, vec![add])).unwrap();
}

/// Fills a store with files, a side file, a recycled log, open groups, a truncated table, an
/// altered table and a user.
pub fn fill(store: &Store) {
    let engine = store.open();
    let auth = AuthData { sha2_slow: Some(SLOW_HASH.to_owned()), ..AuthData::default() };
    let user =
        move |admin: &mut UserAdmin| admin.create_user(&Account::root(), &account(), auth, false);
    block_on(engine.ddl().change_users(user)).unwrap();
    alter(&engine);
    for name in ["filed", "trickle", "emptied"] {
        create_table(&engine, name);
    }
    insert(&engine, "trickle", GroupCommitMode::Async, &[(1, 10)]);
    insert(&engine, "emptied", GroupCommitMode::Off, &[(9, 90)]);
    let emptied = engine.target("d", "emptied").unwrap().id();
    block_on(engine.ddl().truncate(&[emptied])).unwrap();
    let rows = (0..2_000).map(|k| (k, -k)).collect::<Vec<_>>();
    for _ in 0..250 {
        insert(&engine, "filed", GroupCommitMode::Sync, &rows);
    }
    wait_until("the log was recycled", || engine.meta().log_state().recycled.lsn.get() > 0);
    insert(&engine, "trickle", GroupCommitMode::Sync, &[(2, 20)]);
    insert(&engine, "emptied", GroupCommitMode::Off, &[(3, 30)]);
    store.crash(engine);
}
