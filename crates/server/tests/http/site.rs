//! A server over a store of its own, and a client that writes requests byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use freshet_base::ByteSize;
use freshet_base::task::Threads;
use freshet_ingest::{Engine, EngineConfig, World};
use freshet_meta::{Account, AuthData, GrantObject, Privilege, Privileges};
use freshet_meta::{BucketsSpec, ColumnSpec, DistributionSpec, KeyModelSpec, KeySpec, TableSpec};
use freshet_schema::{ColumnType, TableForm};
use freshet_server::Settings;
use freshet_server::accounts::Accounts;
use freshet_server::http::{Http, HttpConfig, serve};
use freshet_server::io::IoThreads;
use freshet_server::mysql::auth::Passwords;
use freshet_server::variables::Globals;
use freshet_storage::delta::Freshness;
use freshet_storage::segment::ScanRequest;
use futures::executor::block_on;
use serde_json::Value;
use tokio::sync::oneshot;

/// `root` without a password.
pub const ROOT: &str = "Authorization: Basic cm9vdDo=";

/// A server.
pub struct Site {
    pub engine: Arc<Engine>,
    pub address: SocketAddr,
    pub dir: tempfile::TempDir,
    runtime: Option<tokio::runtime::Runtime>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
}

impl Site {
    /// With the defaults.
    pub fn new() -> Self {
        Self::with(HttpConfig::default())
    }

    pub fn with(config: HttpConfig) -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), config)
    }

    /// On what stands in `dir`; a new store gets `d.t (a INT, b INT NULL, c VARCHAR(4))`.
    pub fn in_dir(dir: tempfile::TempDir, config: HttpConfig) -> Self {
        static SALT: AtomicU64 = AtomicU64::new(1);
        let draw = || SALT.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let threads = Threads::start(2).unwrap();
        let world = World::real(threads, |message| panic!("fatal: {message}"), draw);
        let mut settings = EngineConfig::new(dir.path().join("store"), ByteSize::mib(256));
        settings.wal_file_bytes = ByteSize::mib(4);
        settings.wal_bytes_max = ByteSize::mib(64);
        let engine = block_on(Engine::open(settings, world)).unwrap();
        create_table(&engine);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let passwords = runtime.block_on(async { Passwords::new(Arc::new(Globals::new(&[]))) });
        let accounts = Accounts::new(&Settings::local().memory, 256 << 20);
        let http = Http::new(Arc::clone(&engine), passwords, accounts, config, Arc::new(draw));
        let http = http.unwrap();
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

    /// Makes a user without a password who may load everywhere.
    pub fn user(&self, name: &str) {
        let (root, account) = (Account::anywhere("root"), Account::anywhere(name));
        let change = self.engine.change_users(move |meta| {
            meta.create_user(&root, &account, AuthData::default(), false)?;
            let insert = Privileges::NONE.with(Privilege::Insert);
            meta.grant(&account, insert, &GrantObject::Server)
        });
        block_on(change).unwrap();
    }

    /// Loads `body` into `d.t` with these headers, as CSV with commas if they do not say else.
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

    /// All rows of `d.t`, NULL as "NULL", sorted.
    pub fn rows(&self) -> Vec<String> {
        let (state, _) = self.engine.resolve("d", "t").unwrap();
        let snapshot = self.engine.snapshot(Freshness::Committed).table(state.id).unwrap().unwrap();
        let request = ScanRequest::all(&snapshot.schema);
        let files = snapshot.rowsets.iter().flat_map(|rowset| rowset.scan(request.clone()));
        let mut batches = files.map(|batch| batch.unwrap()).collect::<Vec<_>>();
        batches.extend(snapshot.delta_batches().unwrap());
        let mut rows: Vec<String> = batches.iter().flat_map(texts).collect();
        rows.sort_unstable();
        rows
    }

    /// Rows that stand in files, and rows that stand in memory.
    pub fn places(&self) -> (u64, u64) {
        let (state, _) = self.engine.resolve("d", "t").unwrap();
        let snapshot = self.engine.snapshot(Freshness::Committed).table(state.id).unwrap().unwrap();
        (snapshot.file_rows(), snapshot.delta_rows())
    }

    /// Stops the server in order, and gives its directory back.
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
    let (a, b) = (batch.column(0).as_primitive::<Int32Type>(), batch.column(1));
    let b = b.as_primitive::<Int32Type>();
    let c = arrow::compute::cast(batch.column(2), &arrow::datatypes::DataType::Utf8).unwrap();
    let c = c.as_string::<i32>();
    let cell = |null: bool, text: String| if null { "NULL".to_owned() } else { text };
    (0..batch.num_rows())
        .map(|row| {
            let b = cell(b.is_null(row), b.value(row).to_string());
            let c = cell(c.is_null(row), c.value(row).to_owned());
            format!("{},{b},{c}", a.value(row))
        })
        .collect()
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
    block_on(engine.create_database("d", true)).unwrap();
    block_on(engine.create_table("d", spec, false)).unwrap();
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// One connection.
pub struct Client(pub TcpStream);

impl Client {
    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// Sends a load of `d.t` and reads the answer.
    pub fn put(&mut self, headers: &[&str], body: &str) -> Answer {
        let mut all = vec![ROOT];
        if !headers.iter().any(|line| line.starts_with("column_separator") || line.contains("json"))
        {
            all.push("column_separator: ,");
        }
        all.extend(headers);
        self.request("PUT", "/api/d/t/_stream_load", &all, body.as_bytes())
    }

    /// Sends a request with a sized body and reads the answer.
    pub fn request(&mut self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
        let length = format!("Content-Length: {}", body.len());
        let lines = [headers, &[length.as_str()]].concat();
        self.head(method, path, &lines);
        self.0.write_all(body).unwrap();
        self.answer()
    }

    pub fn head(&mut self, method: &str, path: &str, headers: &[&str]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test.example\r\n");
        for line in headers {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        self.0.write_all(head.as_bytes()).unwrap();
    }

    /// Sends one chunk of a body; an empty one ends it.
    pub fn chunk(&mut self, bytes: &[u8]) {
        self.0.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).unwrap();
        self.0.write_all(bytes).unwrap();
        self.0.write_all(b"\r\n").unwrap();
    }

    pub fn answer(&mut self) -> Answer {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned)
            })
            .map_or(0, |length| length.trim().parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        Answer { status, head, body: String::from_utf8(body).unwrap() }
    }

    /// Whether the server has closed its side.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}
