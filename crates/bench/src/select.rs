//! Point reads: SELECT of a row by its primary key, as text and prepared, over many connections.

use std::sync::Arc;
use std::time::Duration;

use freshet_wire::Param;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::encode::Request;
use crate::engine::{self, Connection, Options, Span};
use crate::reply::Replies;
use crate::rounds::{self, Round};
use crate::session::MysqlSession;
use crate::target::Target;

/// Different keys that are asked for.
const KEYS: usize = 1 << 16;
/// Rows of an INSERT of the preparation.
const BATCH_ROWS: u64 = 1000;
const TABLE: &str = "sbtest_points";

/// What to measure.
pub struct Plan {
    pub targets: Vec<Target>,
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
        load(target, plan.rows)?;
        truncate(target, plan.truncates)?;
    }
    println!("{}", rounds::HEADER);
    for prepared in [false, true] {
        for &connections in &plan.connections {
            point(plan, connections, prepared)?;
        }
    }
    Ok(())
}

/// Measures a point, and prints it.
fn point(plan: &Plan, connections: usize, prepared: bool) -> Result<(), String> {
    let mode = if prepared { "prepared" } else { "text" };
    let name = format!("select {mode} x {connections}");
    rounds::measure(&name, &plan.targets, plan.rounds, |target, number| {
        round(plan, target, connections, prepared, number as u64)
    })
}

fn round(
    plan: &Plan,
    target: &Target,
    connections: usize,
    prepared: bool,
    seed: u64,
) -> Result<Round, String> {
    let mut chance = StdRng::seed_from_u64(seed);
    let keys = (0..KEYS).map(|_| chance.random_range(1..=plan.rows)).collect::<Vec<_>>();
    let mut requests = None::<(u32, Arc<Vec<Request>>)>;
    let mut open = Vec::new();
    for _ in 0..connections {
        let mut session = MysqlSession::open(target)?;
        let id = match prepared {
            true => session.prepare(&format!("SELECT c FROM {TABLE} WHERE id = ?"))?,
            false => 0,
        };
        let (first, requests) =
            requests.get_or_insert_with(|| (id, Arc::new(encoded(&mut session, &keys, id))));
        // Some servers number the statements of all connections together.
        let own = match *first == id {
            true => Arc::clone(requests),
            false => Arc::new(encoded(&mut session, &keys[..KEYS / 64], id)),
        };
        let (stream, capabilities) = session.into_parts();
        open.push(Connection::new(stream, Replies::rows(capabilities), own)?);
    }
    let span = Span::Time { warmup: plan.warmup, measured: plan.measured };
    let options = Options { span, pace: None, threads: plan.threads, server_pid: target.pid };
    let measured = engine::run(open, options)?;
    let tally = measured.tally;
    if let Some(error) = tally.first_error {
        return Err(format!("{}: {error}", target.name));
    }
    let answered = tally.latency_nanos.len();
    if tally.rows != answered {
        return Err(format!("{}: {} rows in {answered} answers", target.name, tally.rows));
    }
    let at = |quantile| tally.latency_nanos.value_at_quantile(quantile) as f64 / 1e6;
    Ok(Round {
        per_second: answered as f64 / measured.window.as_secs_f64(),
        p50_ms: at(0.5),
        p99_ms: at(0.99),
    })
}

fn encoded(session: &mut MysqlSession, keys: &[u64], id: u32) -> Vec<Request> {
    let writer = session.writer();
    let request = |key: &u64| {
        writer.clear();
        match id {
            0 => {
                let sql = format!("SELECT c FROM {TABLE} WHERE id = {key}");
                writer.command_query(sql.as_bytes());
            }
            id => writer.command_execute(id, &[Param::Int(key.cast_signed())], true),
        }
        Request::fixed(writer.take_bytes(), 1)
    };
    keys.iter().map(request).collect()
}

/// Creates and fills the table, unless it has all rows.
fn load(target: &Target, rows: u64) -> Result<(), String> {
    let mut session = MysqlSession::open(target)?;
    session.query(&format!(
        "CREATE TABLE IF NOT EXISTS {TABLE} (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, \
         c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)"
    ))?;
    let count = session.query(&format!("SELECT COUNT(*) FROM {TABLE}"))?;
    if count == [[rows.to_string()]] {
        return Ok(());
    }
    session.query(&format!("TRUNCATE TABLE {TABLE}"))?;
    let mut chance = StdRng::seed_from_u64(1);
    for first in (1..=rows).step_by(BATCH_ROWS as usize) {
        let values = (first..(first + BATCH_ROWS).min(rows + 1)).map(|id| {
            let k = chance.random_range(1..=rows);
            let mut digits = |groups: usize| {
                let group = |_| format!("{:011}", chance.random_range(0..100_000_000_000u64));
                (0..groups).map(group).collect::<Vec<_>>().join("-")
            };
            format!("({id},{k},'{}','{}')", digits(10), digits(5))
        });
        let values = values.collect::<Vec<_>>().join(",");
        session.query(&format!("INSERT INTO {TABLE} VALUES {values}"))?;
    }
    println!("{}: {rows} rows loaded", target.name);
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
