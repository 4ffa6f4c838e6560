//! Clients: writers, each with one protocol and mode; a reader that checks invariants meanwhile;
//! and one that alters the tables.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use freshet_wire::Param;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::client::{Client, Failure, Statement};
use crate::http::{Loaded, http_stream, stream_load, two_phase_load};
use crate::journal::{Fate, Journal, amount, text};

/// Append-only tables.
pub const EVENTS: [&str; 3] = ["events_0", "events_1", "events_2"];
/// Tables whose amounts add up to zero in every snapshot.
pub const LEDGERS: &[&str] = &["ledger_credit", "ledger_debit"];
/// The one with loads in two phases: changes that copy a table wait for those that are prepared,
/// and nobody commits what was prepared before a crash.
const PREPARED: &str = "events_2";
/// A table that is truncated from time to time.
pub const SCRATCH: &str = "scratch";
pub const TABLES: [&str; 6] =
    ["events_0", "events_1", "events_2", "ledger_credit", "ledger_debit", "scratch"];

/// The number of problems that are kept.
const PROBLEMS_MAX: usize = 20;
const REFUSED_PAUSE: Duration = Duration::from_millis(20);
/// The approximate time between two ALTERs.
const ALTER_PAUSE: Duration = Duration::from_millis(60);
/// The columns that writers name; ALTER adds and drops others.
const COLUMNS: usize = 3;
/// The number of latencies kept between two calls of `take_latencies`.
const LATENCIES_MAX: usize = 100_000;

/// How rows are sent to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// INSERT as text.
    Text,
    /// INSERT as a prepared statement.
    Prepared,
    /// Stream load of CSV.
    Stream,
    /// CSV by Http Stream.
    HttpStream,
    /// Stream load of CSV, prepared and committed.
    TwoPhase,
    /// BEGIN, an INSERT into each table, COMMIT.
    Transaction,
}

/// The behaviour of a writer.
#[derive(Clone, Debug)]
pub struct Writer {
    method: Method,
    mode: &'static str,
    labelled: bool,
    /// Whether labels ride in groups.
    labels_in_groups: bool,
    tables: &'static [&'static str],
    rows: RangeInclusive<u64>,
    /// One in this many loads is a TRUNCATE; 0 for none.
    cut_every: u32,
}

impl Writer {
    fn new(method: Method, mode: &'static str, tables: &'static [&'static str]) -> Self {
        let (labelled, labels_in_groups) = (false, false);
        Self { method, mode, labelled, labels_in_groups, tables, rows: 1..=20, cut_every: 0 }
    }

    fn labelled(self) -> Self {
        Self { labelled: true, ..self }
    }

    fn labelled_in_groups(self) -> Self {
        Self { labels_in_groups: true, ..self.labelled() }
    }

    fn rows(self, rows: RangeInclusive<u64>) -> Self {
        Self { rows, ..self }
    }

    fn cutting(self, cut_every: u32) -> Self {
        Self { cut_every, ..self }
    }
}

/// Every kind of writer.
pub fn all_writers() -> Vec<Writer> {
    use Method::{HttpStream, Prepared, Stream, Text, Transaction, TwoPhase};
    vec![
        Writer::new(Text, "off_mode", &["events_0"]),
        Writer::new(Text, "sync_mode", &["events_0"]),
        Writer::new(Text, "async_mode", &["events_1"]).rows(1..=300),
        Writer::new(Text, "off_mode", &["events_1"]).labelled(),
        Writer::new(Prepared, "off_mode", &["events_2"]).rows(1..=1),
        Writer::new(Prepared, "sync_mode", &["events_1"]).rows(5..=5),
        Writer::new(Prepared, "async_mode", &["events_0"]).rows(1..=1),
        Writer::new(Stream, "off_mode", &["events_2"]).labelled(),
        Writer::new(Stream, "sync_mode", &["events_2"]),
        Writer::new(Stream, "async_mode", &["events_1"]).rows(1..=200),
        // Larger than a log record: written to files directly.
        Writer::new(Stream, "off_mode", &["events_0"]).labelled().rows(3000..=5000),
        Writer::new(HttpStream, "async_mode", &["events_0"]),
        Writer::new(HttpStream, "off_mode", &["events_1"]).rows(1..=200),
        Writer::new(Stream, "async_mode", &["events_1"]).labelled_in_groups(),
        Writer::new(Text, "sync_mode", &["events_0"]).labelled_in_groups(),
        Writer::new(TwoPhase, "off_mode", &[PREPARED]).rows(1..=200),
        Writer::new(TwoPhase, "async_mode", &[PREPARED]).rows(1..=200),
        Writer::new(TwoPhase, "off_mode", &[PREPARED]).rows(3000..=5000),
        Writer::new(Transaction, "off_mode", LEDGERS),
        Writer::new(Transaction, "off_mode", LEDGERS).rows(1..=200),
        Writer::new(Text, "sync_mode", &[SCRATCH]).cutting(40),
        Writer::new(Prepared, "async_mode", &[SCRATCH]).rows(3..=3),
        Writer::new(Stream, "off_mode", &[SCRATCH]).rows(1..=100),
    ]
}

/// State shared by the clients of one server.
#[derive(Debug)]
pub struct Shared {
    /// What was sent and answered.
    pub journal: Arc<Journal>,
    /// Tells the clients to stop.
    pub stop: AtomicBool,
    mysql_port: u16,
    http_port: u16,
    pause: Duration,
    seed: u64,
    next_id: Arc<AtomicU64>,
    /// The number of acknowledged rows in each table of [`EVENTS`].
    acked: [AtomicU64; EVENTS.len()],
    problems: Mutex<Vec<String>>,
    latencies: Mutex<Vec<Duration>>,
}

impl Shared {
    /// Records a violation.
    fn problem(&self, what: String) {
        let mut problems = self.problems.lock();
        if problems.len() < PROBLEMS_MAX {
            problems.push(what);
        }
    }

    /// Latencies since the last call.
    pub fn take_latencies(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.latencies.lock())
    }

    /// Violations so far.
    pub fn problems(&self) -> Vec<String> {
        self.problems.lock().clone()
    }
}

/// Running clients.
#[derive(Debug)]
pub struct Crowd {
    pub shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Options of a crowd.
#[derive(Clone, Debug)]
pub struct CrowdOptions {
    /// Seeds all random decisions.
    pub seed: u64,
    /// The maximum pause of a writer between two loads.
    pub pause: Duration,
    /// Whether there is a reader.
    pub reader: bool,
    /// Whether a client adds, renames and drops columns.
    pub alters: bool,
}

impl Crowd {
    /// Starts all clients against the server at these ports (MySQL, HTTP).
    pub fn start(
        ports: (u16, u16),
        journal: Arc<Journal>,
        next_id: Arc<AtomicU64>,
        options: &CrowdOptions,
    ) -> Self {
        let rows = |table: &str| {
            journal.with(|entries| {
                let acked = entries.loads.iter().filter(|load| load.fate == Fate::Acked);
                let here = acked.filter(|load| load.tables.contains(&table));
                here.map(|load| load.ids.end - load.ids.start).sum::<u64>()
            })
        };
        let acked = EVENTS.map(|table| AtomicU64::new(rows(table)));
        let shared = Arc::new(Shared {
            journal,
            stop: AtomicBool::new(false),
            mysql_port: ports.0,
            http_port: ports.1,
            pause: options.pause,
            seed: options.seed,
            next_id,
            acked,
            problems: Mutex::default(),
            latencies: Mutex::default(),
        });
        let mut threads = Vec::new();
        for (number, writer) in all_writers().into_iter().enumerate() {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || write(&shared, &writer, number as u64)));
        }
        if options.reader {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || read_along(&shared)));
        }
        if options.alters {
            let shared = Arc::clone(&shared);
            threads.push(thread::spawn(move || alter_along(&shared)));
        }
        Self { shared, threads }
    }

    /// Stops all clients and returns the violations.
    pub fn end(self) -> Vec<String> {
        self.shared.stop.store(true, Ordering::Release);
        for thread in self.threads {
            if thread.join().is_err() {
                self.shared.problem("a client panicked".to_owned());
            }
        }
        self.shared.problems()
    }
}

/// Creates the database and the tables.
///
/// # Errors
/// The server's error.
pub fn create_tables(client: &mut Client) -> Result<(), Failure> {
    client.query("CREATE DATABASE IF NOT EXISTS torture")?;
    for table in TABLES {
        client.query(&format!(
            "CREATE TABLE torture.{table} (id BIGINT NOT NULL, amount BIGINT NOT NULL, \
             body VARCHAR(200) NOT NULL) DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 2 \
             PROPERTIES ('group_commit_interval_ms' = '50')"
        ))?;
    }
    Ok(())
}

/// # Errors
/// The server's error.
pub fn drop_tables(client: &mut Client) -> Result<(), Failure> {
    for table in TABLES {
        client.query(&format!("DROP TABLE torture.{table} FORCE"))?;
    }
    Ok(())
}

/// A writer's connection, and its prepared statement if it uses one.
struct Session {
    client: Client,
    statement: Option<Statement>,
}

fn write(shared: &Shared, writer: &Writer, number: u64) {
    let mut random = StdRng::seed_from_u64(shared.seed ^ (number << 32));
    let mut session = None;
    while !shared.stop.load(Ordering::Acquire) {
        let open = match session.take() {
            Some(open) => Ok(open),
            None => open(shared, writer),
        };
        let outcome = open.and_then(|mut open| {
            let cut = writer.cut_every > 0 && random.random_ratio(1, writer.cut_every);
            let done = match cut {
                true => truncate(shared, &mut open.client),
                false => load(shared, writer, &mut open, &mut random),
            };
            done.map(|()| session = Some(open))
        });
        match outcome {
            Ok(()) => {}
            Err(Failure::Hung) => shared.problem(format!("{writer:?}: {}", Failure::Hung)),
            Err(Failure::Lost(_)) => return,
            Err(failure @ Failure::Refused { .. }) => {
                if !allowed(&failure, writer) {
                    shared.problem(format!("{writer:?}: {failure}"));
                }
                sleep(REFUSED_PAUSE);
            }
        }
        if !shared.pause.is_zero() {
            sleep(shared.pause.mul_f64(random.random()));
        }
    }
}

/// Errors that a healthy server may return: no free memory or slot at the moment, or a TRUNCATE
/// during a load.
fn allowed(failure: &Failure, writer: &Writer) -> bool {
    matches!(failure, Failure::Refused { errno: 1040 | 1041 | 1053 | 503, .. })
        || writer.tables.contains(&SCRATCH)
}

fn open(shared: &Shared, writer: &Writer) -> Result<Session, Failure> {
    let mut client = Client::connect(shared.mysql_port)?;
    client.query(&format!("SET group_commit = {}", writer.mode))?;
    if writer.labels_in_groups {
        client.query("SET group_commit_labels = true")?;
    }
    Ok(Session { client, statement: None })
}

fn load(
    shared: &Shared,
    writer: &Writer,
    session: &mut Session,
    random: &mut StdRng,
) -> Result<(), Failure> {
    let count = random.random_range(writer.rows.clone());
    let first = shared.next_id.fetch_add(count, Ordering::Relaxed);
    let ids = first..first + count;
    let label = writer.labelled.then(|| format!("torture_{first}"));
    let entry = shared.journal.begin(writer.tables, ids.clone(), label.clone());
    let began = Instant::now();
    let ids = ids.collect::<Vec<_>>();
    let table = writer.tables[0];
    let done = match writer.method {
        Method::Text => insert(&mut session.client, table, &ids, label.as_deref()),
        Method::Prepared => insert_prepared(session, table, &ids),
        Method::Stream => {
            let mode = ("group_commit", writer.mode);
            let mut headers = vec![mode, ("columns", "id,amount,body")];
            headers.extend(label.as_deref().map(|label| ("label", label)));
            headers.extend(writer.labels_in_groups.then_some(("group_commit_labels", "true")));
            stream_load(shared.http_port, table, &headers, &csv(table, &ids)).map(|_| ())
        }
        Method::HttpStream => {
            let columns = "id, amount, body";
            let body = csv(table, &ids);
            http_stream(shared.http_port, (table, columns), writer.mode, &body).map(|_| ())
        }
        Method::TwoPhase => {
            let commit = random.random_ratio(9, 10);
            let (to, body) = ((table, writer.mode), csv(table, &ids));
            let done = two_phase_load(shared.http_port, to, commit, &body);
            if done.is_ok() && !commit {
                shared.journal.end(entry, Fate::Gone);
                return Ok(());
            }
            done.map(|_| ())
        }
        Method::Transaction => {
            let commit = random.random_ratio(9, 10);
            let done = transact(&mut session.client, writer.tables, &ids, commit);
            match done {
                Ok(Transacted::Committed) => Ok(()),
                Ok(Transacted::Not(why)) => {
                    shared.journal.end(entry, Fate::Gone);
                    return why.map_or(Ok(()), Err);
                }
                Err(failure) => Err(failure),
            }
        }
    };
    match &done {
        Ok(()) => {
            shared.journal.end(entry, Fate::Acked);
            for (acked, _) in shared.acked.iter().zip(EVENTS).filter(|(_, of)| *of == table) {
                acked.fetch_add(count, Ordering::Release);
            }
            note_latency(shared, began.elapsed());
        }
        Err(Failure::Refused { errno: 1053, .. } | Failure::Lost(_) | Failure::Hung) => {}
        Err(Failure::Refused { .. }) => shared.journal.end(entry, Fate::Gone),
    }
    done
}

fn note_latency(shared: &Shared, latency: Duration) {
    let mut latencies = shared.latencies.lock();
    if latencies.len() < LATENCIES_MAX {
        latencies.push(latency);
    }
}

fn values(table: &str, ids: &[u64]) -> String {
    let row = |id: &u64| format!("({id},{},'{}')", amount(*id, table), text(*id));
    ids.iter().map(row).collect::<Vec<_>>().join(",")
}

fn csv(table: &str, ids: &[u64]) -> String {
    ids.iter().map(|id| format!("{id},{},{}\n", amount(*id, table), text(*id))).collect()
}

fn insert(
    client: &mut Client,
    table: &str,
    ids: &[u64],
    label: Option<&str>,
) -> Result<(), Failure> {
    let label = label.map_or_else(String::new, |label| format!("WITH LABEL {label} "));
    let values = values(table, ids);
    client
        .query(&format!("INSERT INTO torture.{table} {label}(id, amount, body) VALUES {values}"))
        .map(|_| ())
}

fn insert_prepared(session: &mut Session, table: &str, ids: &[u64]) -> Result<(), Failure> {
    let statement = match &mut session.statement {
        Some(statement) => statement,
        none => {
            let places = vec!["(?,?,?)"; ids.len()].join(",");
            let sql = format!("INSERT INTO torture.{table} (id, amount, body) VALUES {places}");
            none.insert(session.client.prepare(&sql)?)
        }
    };
    let texts = ids.iter().map(|id| text(*id)).collect::<Vec<_>>();
    let row = |(id, text): (&u64, &'_ String)| {
        [Value::Id(*id), Value::Amount(amount(*id, table)), Value::Text(text.clone())]
    };
    let cells = ids.iter().zip(&texts).flat_map(row).collect::<Vec<_>>();
    let params = cells.iter().map(Value::param).collect::<Vec<_>>();
    session.client.execute(statement, &params).map(|_| ())
}

enum Value {
    Id(u64),
    Amount(i64),
    Text(String),
}

impl Value {
    fn param(&self) -> Param<'_> {
        match self {
            Self::Id(id) => Param::UInt(*id),
            Self::Amount(amount) => Param::Int(*amount),
            Self::Text(text) => Param::Bytes(text.as_bytes()),
        }
    }
}

enum Transacted {
    Committed,
    /// Rolled back, or COMMIT was not reached: its rows must never become visible.
    Not(Option<Failure>),
}

fn transact(
    client: &mut Client,
    tables: &[&str],
    ids: &[u64],
    commit: bool,
) -> Result<Transacted, Failure> {
    let mut steps = || {
        client.query("BEGIN")?;
        tables.iter().try_for_each(|table| insert(client, table, ids, None))
    };
    if let Err(failure) = steps() {
        return Ok(Transacted::Not(Some(failure)));
    }
    match commit {
        true => client.query("COMMIT").map(|_| Transacted::Committed),
        false => Ok(Transacted::Not(client.query("ROLLBACK").err())),
    }
}

fn truncate(shared: &Shared, client: &mut Client) -> Result<(), Failure> {
    let cut = shared.journal.begin_cut(SCRATCH);
    let done = client.query(&format!("TRUNCATE TABLE torture.{SCRATCH}"));
    // The record of a failed TRUNCATE may have been logged.
    if done.is_ok() {
        shared.journal.end_cut(cut, Fate::Acked);
    }
    done.map(|_| ())
}

/// Sends a labelled load again; returns whether it had been loaded already.
///
/// # Errors
/// Any other error of the server.
pub fn send_again(client: &mut Client, table: &str, ids: &[u64], label: &str) -> Outcome {
    match insert(client, table, ids, Some(label)) {
        Ok(()) => Ok(Loaded::Success),
        Err(Failure::Refused { message, .. }) if message.to_lowercase().contains("label") => {
            Ok(Loaded::LabelUsed)
        }
        Err(failure) => Err(failure),
    }
}

/// The result of a load that was sent again.
pub type Outcome = Result<Loaded, Failure>;

/// Reads concurrently with the writers: the ledgers add up to zero, and a query sees everything
/// acknowledged before it began.
fn read_along(shared: &Shared) {
    let Ok(mut client) = Client::connect(shared.mysql_port) else { return };
    let ledgers = "SELECT SUM(amount) FROM (SELECT amount FROM torture.ledger_credit \
                   UNION ALL SELECT amount FROM torture.ledger_debit) AS ledgers";
    while !shared.stop.load(Ordering::Acquire) {
        let looked = look(shared, &mut client, ledgers);
        match looked {
            Ok(()) => sleep(Duration::from_millis(5)),
            Err(Failure::Lost(_)) => return,
            Err(failure) => {
                shared.problem(format!("reader: {failure}"));
                return;
            }
        }
    }
}

/// Alters tables concurrently with the writers: no row may be lost or changed.
fn alter_along(shared: &Shared) {
    let Ok(mut client) = Client::connect(shared.mysql_port) else { return };
    let mut random = StdRng::seed_from_u64(!shared.seed);
    while !shared.stop.load(Ordering::Acquire) {
        match alter(&mut client, &mut random) {
            Ok(()) => {}
            Err(Failure::Refused { errno: 1040 | 1041 | 1053 | 503, .. }) => sleep(REFUSED_PAUSE),
            // A table was truncated again and again while its rows were copied.
            Err(Failure::Refused { errno: 1213, .. }) => {}
            Err(Failure::Lost(_)) => return,
            Err(failure) => {
                shared.problem(format!("alter: {failure}"));
                return;
            }
        }
        sleep(ALTER_PAUSE.mul_f64(random.random()));
    }
}

fn alter(client: &mut Client, random: &mut StdRng) -> Result<(), Failure> {
    let table = TABLES.choose(random).expect("there are tables");
    let columns = client.query(&format!("SHOW COLUMNS FROM torture.{table}"))?;
    let added = columns.iter().map(|row| row[0].as_str());
    let added = added.filter(|name| name.starts_with("added_")).collect::<Vec<_>>();
    assert_eq!(columns.len(), COLUMNS + added.len(), "nobody drops what writers name");
    let name = format!("added_{}", random.random::<u32>());
    let place = ["", " AFTER id", " AFTER amount"].choose(random).expect("there are places");
    let clause = match (added.choose(random), random.random_range(0..5)) {
        (Some(old), 0) => format!("RENAME COLUMN {old} {name}"),
        (Some(old), 1 | 2) => format!("DROP COLUMN {old}"),
        // Where it is shorter than before, the rows are copied.
        (Some(old), 3) if *table != PREPARED => {
            let length = random.random_range(10..20);
            format!("MODIFY COLUMN {old} VARCHAR({length}) DEFAULT 'of before'")
        }
        _ => format!("ADD COLUMN {name} VARCHAR(20) DEFAULT 'of before'{place}"),
    };
    client.query(&format!("ALTER TABLE torture.{table} {clause}")).map(|_| ())
}

fn look(shared: &Shared, client: &mut Client, ledgers: &str) -> Result<(), Failure> {
    let sum = client.number(ledgers)?;
    if sum != 0 {
        shared.problem(format!("reader: the ledgers are {sum} apart"));
    }
    for (table, acked) in EVENTS.iter().zip(&shared.acked) {
        let acked = acked.load(Ordering::Acquire);
        let seen = client.number(&format!("SELECT COUNT(*) FROM torture.{table}"))?;
        if (seen as u64) < acked {
            shared.problem(format!("reader: {table}: {acked} rows acknowledged, {seen} seen"));
        }
    }
    Ok(())
}
