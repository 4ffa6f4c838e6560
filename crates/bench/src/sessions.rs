//! What connections cost: how fast they come and go, the memory of idle ones, and the questions
//! with which tools begin.

use std::thread;
use std::time::Duration;

use freshet_base::clock::{Clock, SystemClock};
use hdrhistogram::Histogram;

use crate::rounds::{self, Round, median};
use crate::session::MysqlSession;
use crate::target::Target;
use crate::usage::Usage;

/// A connection and its question take no longer.
const LATENCY_MAX_NANOS: u64 = 60_000_000_000;
/// How long a server gets to come to rest before its memory is read.
const REST: Duration = Duration::from_secs(2);
/// The database of the tables whose columns are listed, and the columns of each.
const MANY: &str = "bench_many";
const COLUMNS: usize = 20;

/// What to measure.
pub struct Plan {
    pub targets: Vec<Target>,
    /// Clients that connect, ask and leave.
    pub threads: usize,
    pub rounds: usize,
    pub measured: Duration,
    /// Numbers of idle connections.
    pub idle: Vec<usize>,
    /// Tables of 20 columns in `information_schema.columns`; 0 for not to ask.
    pub tables: usize,
}

/// Measures and prints.
///
/// # Errors
/// What a server refuses.
pub fn run(plan: &Plan) -> Result<(), String> {
    println!("{}", rounds::HEADER);
    let name = format!("connect, ask, leave x {}", plan.threads);
    rounds::measure(&name, &plan.targets, plan.rounds, |target, _| {
        come_and_go(target, plan.threads, plan.measured)
    })?;
    for &count in &plan.idle {
        for target in &plan.targets {
            let mib = idle(target, count)?;
            println!(
                "{:28} {:12} {mib:>9.1} MiB",
                format!("idle connections x {count}"),
                target.name
            );
        }
    }
    if plan.tables > 0 {
        plan.targets.iter().try_for_each(|target| make_tables(target, plan.tables))?;
        let name = format!("columns of {} tables", plan.tables);
        rounds::measure(&name, &plan.targets, plan.rounds, |target, _| {
            list_columns(target, plan.tables)
        })?;
    }
    Ok(())
}

/// Clients that log in, ask for 1 and leave, for a time.
fn come_and_go(target: &Target, clients: usize, time: Duration) -> Result<Round, String> {
    let clock = SystemClock::new();
    let client = || {
        let mut took_nanos = Vec::new();
        let end = clock.now() + time;
        while clock.now() < end {
            let began = clock.now();
            let mut session = MysqlSession::login(target)?;
            if session.query("SELECT 1")? != [["1"]] {
                return Err("SELECT 1 is not 1".to_owned());
            }
            session.quit()?;
            took_nanos.push(clock.now().saturating_sub(began).as_nanos() as u64);
        }
        Ok(took_nanos)
    };
    let began = clock.now();
    let took = thread::scope(|scope| {
        let clients = (0..clients).map(|_| scope.spawn(client)).collect::<Vec<_>>();
        let join = |client: thread::ScopedJoinHandle<'_, _>| client.join().expect("no panic");
        clients.into_iter().map(join).collect::<Result<Vec<_>, String>>()
    })?;
    let seconds = clock.now().saturating_sub(began).as_secs_f64();
    let histogram = Histogram::new_with_max(LATENCY_MAX_NANOS, 3);
    let mut nanos: Histogram<u64> = histogram.expect("three digits up to a minute are allowed");
    took.iter().flatten().for_each(|&took| nanos.saturating_record(took));
    let at = |quantile| nanos.value_at_quantile(quantile) as f64 / 1e6;
    Ok(Round { per_second: nanos.len() as f64 / seconds, p50_ms: at(0.5), p99_ms: at(0.99) })
}

/// The memory that so many idle connections add to the server, in MiB.
fn idle(target: &Target, count: usize) -> Result<f64, String> {
    thread::sleep(REST);
    let before = Usage::of(target.pid).rss_bytes;
    let sessions = (0..count).map(|_| MysqlSession::login(target)).collect::<Result<Vec<_>, _>>();
    let mut sessions = sessions.map_err(|error| format!("{}: {error}", target.name))?;
    thread::sleep(REST);
    let after = Usage::of(target.pid).rss_bytes;
    for session in &mut sessions {
        session.query("SELECT 1")?;
    }
    Ok(after.saturating_sub(before) as f64 / f64::from(1 << 20))
}

fn make_tables(target: &Target, count: usize) -> Result<(), String> {
    let mut session = MysqlSession::login(target)?;
    session.query(&format!("CREATE DATABASE IF NOT EXISTS {MANY}"))?;
    let columns = (1..COLUMNS).map(|number| format!("c{number} VARCHAR(20)"));
    let columns = columns.collect::<Vec<_>>().join(", ");
    for number in 0..count {
        session.query(&format!(
            "CREATE TABLE IF NOT EXISTS {MANY}.t{number} (id INT PRIMARY KEY, {columns})"
        ))?;
    }
    Ok(())
}

/// What a tool that shows all tables asks first.
fn list_columns(target: &Target, tables: usize) -> Result<Round, String> {
    let clock = SystemClock::new();
    let mut session = MysqlSession::login(target)?;
    let ask = format!("SELECT * FROM information_schema.columns WHERE table_schema = '{MANY}'");
    let mut took_ms = Vec::new();
    for _ in 0..3 {
        let began = clock.now();
        let rows = session.query(&ask)?;
        took_ms.push(clock.now().saturating_sub(began).as_secs_f64() * 1e3);
        if rows.len() != tables * COLUMNS {
            return Err(format!("{}: {} columns are listed", target.name, rows.len()));
        }
    }
    let [p50_ms, p99_ms] =
        [median(took_ms.iter().copied()), took_ms.iter().copied().fold(0.0, f64::max)];
    Ok(Round { per_second: 1e3 / p50_ms, p50_ms, p99_ms })
}
