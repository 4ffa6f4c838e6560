//! Rows by their primary key: read, changed, removed and replaced, one, a short range and in
//! batches, as text and prepared, over many connections; and how long it takes to empty a table.

mod emptied;
mod minutes;
mod scanned;
mod work;

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::encode::Request;
use crate::engine::{self, Connection, Options, Span};
use crate::reply::Replies;
use crate::rounds::{self, Round};
use crate::session::MysqlSession;
use crate::table::Dialect;
use crate::target::Target;
pub use work::Work;

/// Different keys that are asked for.
const KEYS: usize = 1 << 16;
/// Rows of an INSERT of the preparation.
const BATCH_ROWS: u64 = 1000;
const TABLE: &str = "sbtest_points";
/// The columns of sysbench's table, without keys.
const COLUMNS: &str =
    "id INT NOT NULL, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL";

/// What to measure.
#[derive(Clone)]
pub struct Plan {
    pub targets: Vec<Target>,
    pub works: Vec<Work>,
    /// Whether also the time of TRUNCATE, DROP and DELETE of tables with these rows.
    pub emptied: Vec<u64>,
    /// Also scans of tables with these rows, with and without a key.
    pub scanned: Vec<u64>,
    /// Also so many minutes of upserts with reads beside them.
    pub minutes: usize,
    pub rows: u64,
    pub connections: Vec<usize>,
    pub rounds: usize,
    /// TRUNCATEs of other tables before anything is measured.
    pub truncates: usize,
    pub warmup: Duration,
    pub measured: Duration,
    pub threads: usize,
}

/// Loads the table where it is missing, and measures.
///
/// # Errors
/// What a server refuses.
pub fn run(plan: &Plan) -> Result<(), String> {
    for target in &plan.targets {
        if !plan.works.is_empty() {
            load(target, TABLE, plan.rows)?;
        }
        truncate(target, plan.truncates)?;
    }
    println!("{}", rounds::HEADER);
    for work in &plan.works {
        for &prepared in work.modes() {
            for &connections in &plan.connections {
                point(plan, *work, connections, prepared)?;
            }
        }
    }
    for &rows in &plan.emptied {
        emptied::measure(&plan.targets, rows, plan.rounds)?;
    }
    for &rows in &plan.scanned {
        scanned::measure(&plan.targets, rows, plan.rounds)?;
    }
    if plan.minutes > 0 {
        minutes::measure(plan, plan.minutes)?;
    }
    Ok(())
}

/// Measures a point, and prints it.
fn point(plan: &Plan, work: Work, connections: usize, prepared: bool) -> Result<(), String> {
    let mode = if prepared { "prepared" } else { "text" };
    let name = format!("{} {mode} x {connections}", work.name());
    rounds::measure(&name, &plan.targets, plan.rounds, |target, number| {
        let seed = number as u64;
        round(plan, target, Shape { work, connections, prepared, seed, pace: None })
    })
}

/// How a round works.
#[derive(Clone, Copy)]
struct Shape {
    work: Work,
    connections: usize,
    prepared: bool,
    seed: u64,
    /// Requests a second over all connections; `None`: as fast as answers arrive.
    pace: Option<f64>,
}

fn round(plan: &Plan, target: &Target, shape: Shape) -> Result<Round, String> {
    let Shape { work, connections, prepared, seed, pace } = shape;
    let mut chance = StdRng::seed_from_u64(seed);
    let keys = (0..KEYS / work.rows() as usize).map(|_| chance.random_range(1..=plan.rows));
    let keys = keys.collect::<Vec<_>>();
    let mut requests = None::<(u32, Arc<Vec<Request>>)>;
    let mut open = Vec::new();
    for _ in 0..connections {
        let mut session = MysqlSession::open(target)?;
        let id = match prepared {
            true => session.prepare(&work.prepared())?,
            false => 0,
        };
        let is_own = target.dialect == Dialect::Freshet;
        let mut encode = |keys: &[u64]| work.encode(&mut session, (keys, plan.rows), (id, is_own));
        let (first, requests) = requests.get_or_insert_with(|| (id, Arc::new(encode(&keys))));
        // Some servers number the statements of all connections together.
        let own = match *first == id {
            true => Arc::clone(requests),
            false => Arc::new(encode(&keys[..keys.len() / 64])),
        };
        let (stream, capabilities) = session.into_parts();
        let replies = match work.reads() {
            true => Replies::rows(capabilities),
            false => Replies::mysql(capabilities),
        };
        open.push(Connection::new(stream, replies, own)?);
    }
    let span = Span::Time { warmup: plan.warmup, measured: plan.measured };
    let options = Options { span, pace, threads: plan.threads, server_pid: target.pid };
    let measured = engine::run(open, options)?;
    let tally = measured.tally;
    if let Some(error) = tally.first_error {
        return Err(format!("{}: {error}", target.name));
    }
    let answered = tally.latency_nanos.len();
    if work == Work::Select && tally.rows != answered {
        return Err(format!("{}: {} rows in {answered} answers", target.name, tally.rows));
    }
    let at = |quantile| tally.latency_nanos.value_at_quantile(quantile) as f64 / 1e6;
    Ok(Round {
        per_second: (answered * work.rows()) as f64 / measured.window.as_secs_f64(),
        p50_ms: at(0.5),
        p99_ms: at(0.99),
    })
}

/// Creates and fills a table like that of sysbench, unless it has all rows. Freshet's own form has
/// a UNIQUE KEY, of which the last row counts.
fn load(target: &Target, table: &str, rows: u64) -> Result<(), String> {
    let mut session = MysqlSession::open(target)?;
    let create = match target.dialect {
        Dialect::Freshet => format!("({COLUMNS}) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1"),
        _ => format!("({COLUMNS}, PRIMARY KEY (id), KEY k_1 (k))"),
    };
    session.query(&format!("CREATE TABLE IF NOT EXISTS {table} {create}"))?;
    let count = session.query(&format!("SELECT COUNT(*) FROM {table}"))?;
    if count == [[rows.to_string()]] {
        return Ok(());
    }
    session.query(&format!("TRUNCATE TABLE {table}"))?;
    let mut chance = StdRng::seed_from_u64(1);
    for first in (1..=rows).step_by(BATCH_ROWS as usize) {
        let ids = first..(first + BATCH_ROWS).min(rows + 1);
        let values = work::values(ids, &mut chance, rows);
        session.query(&format!("INSERT INTO {table} VALUES {values}"))?;
    }
    println!("{}: {rows} rows loaded into {table}", target.name);
    Ok(())
}

/// Truncates other tables so often.
fn truncate(target: &Target, times: usize) -> Result<(), String> {
    let mut session = MysqlSession::open(target)?;
    for number in 0..times {
        let other = format!("sbtest_other_{}", number % 10);
        session.query(&format!("CREATE TABLE IF NOT EXISTS {other} (id INT PRIMARY KEY)"))?;
        session.query(&format!("INSERT INTO {other} VALUES (1)"))?;
        session.query(&format!("TRUNCATE TABLE {other}"))?;
    }
    Ok(())
}
