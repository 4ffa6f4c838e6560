//! An HTTP server on a store of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use freshet_base::ByteSize;
use freshet_base::task::Threads;
use freshet_ingest::{Engine, EngineConfig, World};
use freshet_meta::{BucketsSpec, ColumnSpec, DistributionSpec, KeyModelSpec, KeySpec, TableSpec};
use freshet_query::engine::{QueryConfig, QueryEngine};
use freshet_schema::{ColumnType, TableForm};
use freshet_server::http::{Http, HttpConfig, serve};
use freshet_server::io::IoThreads;
use freshet_server::load_book::LoadBook;
use freshet_server::{Settings, Shared};
use freshet_storage::delta::Freshness;
use freshet_storage::segment::ScanRequest;
use futures::executor::block_on;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::client::{Answer, Client};

pub struct Site {
    pub engine: Arc<Engine>,
    pub address: SocketAddr,
    pub dir: tempfile::TempDir,
    runtime: Option<tokio::runtime::Runtime>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
}

impl Site {
    /// With the default configuration.
    pub fn new() -> Self {
        Self::with(HttpConfig::default())
    }

    pub fn with(config: HttpConfig) -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), config)
    }

    /// With small log records, so that loads are soon written to files.
    pub fn with_small_records() -> Self {
        Self::small_records_in(tempfile::tempdir().unwrap())
    }

    /// The same on the store in `dir`.
    pub fn small_records_in(dir: tempfile::TempDir) -> Self {
        Self::tuned(dir, HttpConfig::default(), |engine| {
            engine.wal_load_bytes_max = ByteSize::kib(256);
        })
    }

    /// The same with files of the log that take no large record.
    pub fn small_log_in(dir: tempfile::TempDir) -> Self {
        Self::tuned(dir, HttpConfig::default(), |engine| {
            engine.wal_file_bytes = ByteSize::kib(128);
            engine.wal_bytes_max = ByteSize::mib(2);
        })
    }

    /// On the store in `dir`; a new store gets `d.t (a INT, b INT NULL, c VARCHAR(4))`.
    pub fn in_dir(dir: tempfile::TempDir, config: HttpConfig) -> Self {
        Self::tuned(dir, config, |_| {})
    }

    fn tuned(
        dir: tempfile::TempDir,
        config: HttpConfig,
        tune: impl FnOnce(&mut EngineConfig),
    ) -> Self {
        static SALT: AtomicU64 = AtomicU64::new(1);
        let draw = || SALT.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let threads = Threads::start(2).unwrap();
        let world = World::real(threads, |message| panic!("fatal: {message}"), draw);
        let mut settings = EngineConfig::new(dir.path().join("store"), ByteSize::mib(256));
        settings.wal_file_bytes = ByteSize::mib(4);
        settings.wal_bytes_max = ByteSize::mib(64);
        tune(&mut settings);
        let engine = block_on(Engine::open(settings, world)).unwrap();
        create_table(&engine);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let query = QueryConfig {
            memory_bytes: 64 << 20,
            spill_dir: dir.path().join("spill"),
            threads: 2,
            plan_threads: 1,
        };
        let query = Arc::new(QueryEngine::new(&query).unwrap());
        let draw: Arc<dyn Fn() -> u64 + Send + Sync> = Arc::new(draw);
        let book = LoadBook::open(&engine, config.loads.error_logs(), Arc::clone(&draw)).unwrap();
        let shared = runtime.block_on(async {
            let (engine, settings) = (Arc::clone(&engine), Settings::local());
            Shared::new(engine, query, book, settings, None, Arc::clone(&draw))
        });
        let http = Http::new(shared, config, draw);
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let threads = Arc::new(IoThreads::start(1, engine.horizon()).unwrap());
        let served = runtime.spawn(async move {
            let stopped = async move {
                let _ = stopped.await;
            };
            serve(listener, http, threads, stopped).await.unwrap();
        });
        let (runtime, stop, served) = (Some(runtime), Some(stop), Some(served));
        Self { engine, address, dir, runtime, stop, served }
    }

    /// Loads `body` into `d.t` with these headers; by default as CSV with commas.
    pub fn load(&self, headers: &[&str], body: &str) -> Value {
        let answer = self.client().put(headers, body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }

    pub fn client(&self) -> Client {
        Client::to(self.address)
    }

    pub fn get(&self, path: &str, headers: &[&str]) -> Answer {
        self.client().request("GET", path, headers, b"")
    }

    /// All rows of `d.t`, sorted, with NULL as "NULL".
    pub fn rows(&self) -> Vec<String> {
        self.rows_of("t")
    }

    /// All rows of a table of `d`, sorted, with hidden columns and rows that delete their key.
    pub fn rows_of(&self, table: &str) -> Vec<String> {
        let id = self.engine.target("d", table).unwrap().id();
        let snapshot = self.engine.snapshot(Freshness::Committed).table(id).unwrap().unwrap();
        block_on(snapshot.resolved()).unwrap();
        let request = ScanRequest::all(&snapshot.schema);
        let slices = snapshot.rowsets().flat_map(|rowset| rowset.slices(snapshot.horizon));
        let files = slices
            .flat_map(|slice| slice.segment.scan(&request, slice.share, &slice.dead).unwrap());
        let mut batches = files.map(|batch| batch.unwrap()).collect::<Vec<_>>();
        batches.extend(snapshot.delta_batches().unwrap());
        let mut rows: Vec<String> = batches.iter().flat_map(texts).collect();
        rows.sort_unstable();
        rows
    }

    /// The numbers of rows in files and in memory.
    pub fn places(&self) -> (u64, u64) {
        let id = self.engine.target("d", "t").unwrap().id();
        let snapshot = self.engine.snapshot(Freshness::Committed).table(id).unwrap().unwrap();
        (snapshot.file_rows(), snapshot.delta_rows())
    }

    /// Stops the server and returns its directory.
    pub fn stop(mut self) -> tempfile::TempDir {
        let _ = self.stop.take().unwrap().send(());
        let runtime = self.runtime.take().unwrap();
        runtime.block_on(self.served.take().unwrap()).unwrap();
        runtime.shutdown_timeout(Duration::from_secs(5));
        block_on(self.engine.stop()).unwrap();
        let Self { dir, engine, .. } = self;
        drop(engine);
        dir
    }
}

fn texts(batch: &RecordBatch) -> Vec<String> {
    let text = |column: &ArrayRef| arrow::compute::cast(column, &DataType::Utf8).unwrap();
    let columns = batch.columns().iter().map(text).collect::<Vec<_>>();
    let columns = columns.iter().map(|column| column.as_string::<i32>()).collect::<Vec<_>>();
    let row = |row: usize| {
        let cells = columns.iter().map(|column| match column.is_null(row) {
            true => "NULL",
            false => column.value(row),
        });
        cells.collect::<Vec<_>>().join(",")
    };
    (0..batch.num_rows()).map(row).collect()
}

fn create_table(engine: &Arc<Engine>) {
    if engine.catalog().database("d").is_some() {
        return;
    }
    let int = ColumnType::Int { unsigned: false };
    let columns = vec![
        ColumnSpec { nullable: false, ..ColumnSpec::new("a", int) },
        ColumnSpec::new("b", int),
        ColumnSpec::new("c", ColumnType::VarChar { len: 4 }),
    ];
    let spec = TableSpec {
        key: Some(KeySpec { model: KeyModelSpec::Duplicate, columns: vec!["a".to_owned()] }),
        distribution: Some(DistributionSpec::Hash(vec!["a".to_owned()])),
        buckets: BucketsSpec::Count(2),
        ..TableSpec::new("t", TableForm::Olap, columns)
    };
    block_on(engine.ddl().create_database("d", None, None, true)).unwrap();
    block_on(engine.ddl().create_table("d", spec, false)).unwrap();
}
