//! W7: bulk loading of TPC-H, and its 22 queries.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use freshet_base::clock::{Clock, SystemClock};
use serde::{Deserialize, Serialize};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

use crate::encode::Request;
use crate::engine::{self, Options, Span};
use crate::measure::append;
use crate::prepare::{body_connection, body_request};
use crate::result::FORMAT;
use crate::session::{MysqlSession, Session};
use crate::table::{Dialect, Table, tpch};
use crate::target::{BodyProtocol, Target};
use crate::usage::Usage;

/// A body ends with the row that exceeds this size.
const BODY_BYTES: usize = 10_000_000;
/// The number of loading connections.
const LOADERS: usize = 4;
/// Runs of each query, of which the fastest counts.
const QUERY_RUNS: usize = 6;
/// A server is at rest when it used no more CPU than this in [`REST_LOOK`].
const REST_CPU_SECONDS_MAX: f64 = 0.3;
/// How long a server is watched to see whether it is at rest. Ours begins large merges when nothing
/// has been flushed for 10 seconds.
const REST_LOOK: Duration = Duration::from_secs(12);
/// How long queries wait for the servers to be at rest.
const REST_PATIENCE: Duration = Duration::from_secs(180);

/// The result of a step: a loaded table or a query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TpchLine {
    /// The format of the line.
    pub format: u32,
    /// The step: `load lineitem`, `q1`.
    pub tpch: String,
    pub target: String,
    pub seconds: f64,
    /// Rows loaded, or rows of the result.
    pub rows: u64,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub targets: Vec<Target>,
    pub scale: f64,
    /// Load only this table.
    pub only: Option<String>,
    /// The folder of `q01.sql` to `q22.sql`.
    pub queries: Option<PathBuf>,
    /// The file for results.
    pub out: Option<PathBuf>,
}

/// Loads all tables into each target, then runs the queries on it.
pub fn run(plan: &Plan) -> Result<(), String> {
    let wanted = |table: &Table| plan.only.as_ref().is_none_or(|only| table.name == *only);
    for table in tpch::all().into_iter().filter(wanted) {
        for target in &plan.targets {
            let (seconds, rows) = load(target, &table, plan.scale)?;
            say(plan, &target.name, format!("load {}", table.name), seconds, rows)?;
        }
    }
    plan.queries.as_ref().map_or(Ok(()), |folder| queries(plan, folder))
}

fn say(plan: &Plan, target: &str, step: String, seconds: f64, rows: u64) -> Result<(), String> {
    println!("{target:12} {step:16} {seconds:>9.3} s {rows:>9} rows");
    let target = target.to_owned();
    let line = TpchLine { format: FORMAT, tpch: step, target, seconds, rows };
    append(plan.out.as_deref(), &line)
}

/// Waits until no server works on the rows that it has just loaded; its merges would slow down the
/// queries of all.
fn wait_for_rest(targets: &[Target], clock: &SystemClock) {
    let used = || targets.iter().map(|target| Usage::of(target.pid).cpu_seconds).sum::<f64>();
    let deadline = clock.now() + REST_PATIENCE;
    while clock.now() < deadline {
        let before = used();
        std::thread::sleep(REST_LOOK);
        if used() - before <= REST_CPU_SECONDS_MAX {
            return;
        }
    }
}

/// Runs the queries on alternating targets, each of them first in half of the runs, so that slow
/// phases of the machine affect all of them alike.
fn queries(plan: &Plan, folder: &Path) -> Result<(), String> {
    let clock = SystemClock::new();
    let mut sessions: Vec<Session> =
        plan.targets.iter().map(Session::open).collect::<Result<_, _>>()?;
    wait_for_rest(&plan.targets, &clock);
    for number in 1..=22 {
        let path = folder.join(format!("q{number:02}.sql"));
        let text = std::fs::read_to_string(&path);
        let sql = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let sql = sql.trim().trim_end_matches(';');
        for round in 0..QUERY_RUNS {
            let count = sessions.len();
            for turn in 0..count {
                let at = if round % 2 == 0 { turn } else { count - 1 - turn };
                let (session, target) = (&mut sessions[at], &plan.targets[at]);
                let start = clock.now();
                match session.query(sql) {
                    Ok(rows) => {
                        let seconds = (clock.now() - start).as_secs_f64();
                        say(plan, &target.name, format!("q{number}"), seconds, rows.len() as u64)?;
                    }
                    Err(error) => println!("{:12} q{number:<15} {error}", target.name),
                }
            }
        }
    }
    Ok(())
}

/// Writes the tables as text for embedded engines: `lineitem.csv` with `|` as separator, and
/// `lineitem.postgres.sql` and `lineitem.clickhouse.sql` with the CREATE statements.
pub fn write_files(folder: &Path, scale: f64) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for table in tpch::all() {
        let mut bodies = Vec::new();
        generate(&table.name, scale, |body, rows| {
            bodies.extend_from_slice(body);
            Request::fixed(Vec::new(), rows)
        })?;
        let make = |dialect| table.recreate(dialect).pop().unwrap_or_default().into_bytes();
        let files = [
            ("csv", bodies),
            ("postgres.sql", make(Dialect::Postgres)),
            ("clickhouse.sql", make(Dialect::ClickHouse)),
        ];
        for (ending, bytes) in files {
            let path = folder.join(format!("{}.{ending}", table.name));
            let written = std::fs::write(&path, bytes);
            written.map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// Loads a table and checks that all rows are visible; returns the duration in seconds and the
/// rows.
fn load(target: &Target, table: &Table, scale: f64) -> Result<(f64, u64), String> {
    let protocol = target.body_protocol();
    let mut session = Session::open(target)?;
    for statement in table.recreate(target.dialect) {
        session.query(&statement)?;
    }
    let requests = Arc::new(requests(target, protocol, &table.name, scale)?);
    let rows: u64 = requests.iter().map(|request| request.rows).sum();
    let connections = (0..LOADERS.min(requests.len()))
        .map(|_| body_connection(target, protocol, &requests))
        .collect::<Result<Vec<_>, _>>()?;
    let options = Options { span: Span::Once, pace: None, threads: 1, server_pid: target.pid };
    let measured = engine::run(connections, options)?;
    if let Some(error) = measured.tally.first_error {
        return Err(format!("load {}: {error}", table.name));
    }
    match session.count(&table.name)? {
        Some(visible) if visible != rows => {
            Err(format!("load {}: {visible} rows visible of {rows}", table.name))
        }
        _ => Ok((measured.window.as_secs_f64(), rows)),
    }
}

fn requests(
    target: &Target,
    protocol: BodyProtocol,
    table: &str,
    scale: f64,
) -> Result<Vec<Request>, String> {
    let mut session = match protocol {
        BodyProtocol::LoadData => Some(MysqlSession::open(target)?),
        _ => None,
    };
    generate(table, scale, |body, rows| {
        body_request(target, protocol, table, body, rows, '|', session.as_mut())
    })
}

/// Generates the rows of a table, divided into bodies that `encode` makes requests of.
fn generate(
    table: &str,
    scale: f64,
    encode: impl FnMut(&[u8], u64) -> Request,
) -> Result<Vec<Request>, String> {
    Ok(match table {
        "region" => cut(RegionGenerator::new(scale, 1, 1).iter(), encode),
        "nation" => cut(NationGenerator::new(scale, 1, 1).iter(), encode),
        "supplier" => cut(SupplierGenerator::new(scale, 1, 1).iter(), encode),
        "part" => cut(PartGenerator::new(scale, 1, 1).iter(), encode),
        "customer" => cut(CustomerGenerator::new(scale, 1, 1).iter(), encode),
        "partsupp" => cut(PartSuppGenerator::new(scale, 1, 1).iter(), encode),
        "orders" => cut(OrderGenerator::new(scale, 1, 1).iter(), encode),
        "lineitem" => cut(LineItemGenerator::new(scale, 1, 1).iter(), encode),
        _ => return Err(format!("`{table}` is no table of TPC-H")),
    })
}

/// Writes rows as text and divides it into bodies.
fn cut<R: Display>(
    rows: impl Iterator<Item = R>,
    mut encode: impl FnMut(&[u8], u64) -> Request,
) -> Vec<Request> {
    use std::io::Write;
    let mut requests = Vec::new();
    let mut body = Vec::with_capacity(BODY_BYTES + 1024);
    let mut count = 0;
    for row in rows {
        write!(body, "{row}").expect("a Vec takes all");
        // The generator ends each row with a separator, which loaders would take for another
        // column.
        body.pop_if(|byte| *byte == b'|');
        body.push(b'\n');
        count += 1;
        if body.len() >= BODY_BYTES {
            requests.push(encode(&body, std::mem::take(&mut count)));
            body.clear();
        }
    }
    if count > 0 {
        requests.push(encode(&body, count));
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_without_a_separator() {
        let generator = RegionGenerator::new(1.0, 1, 1);
        let requests = cut(generator.iter(), |body, rows| Request::fixed(body.to_vec(), rows));
        assert_eq!((requests.len(), requests[0].rows), (1, 5));
        let text = String::from_utf8(requests[0].bytes.clone()).unwrap();
        assert!(text.lines().all(|line| line.split('|').count() == 3), "{text}");
    }

    #[test]
    fn every_table_has_rows_of_its_columns() {
        let target: Target = "clickhouse://127.0.0.1:1".parse().unwrap();
        for table in tpch::all() {
            let requests = requests(&target, BodyProtocol::ClickHouse, &table.name, 0.001).unwrap();
            let text = String::from_utf8_lossy(&requests[0].bytes).into_owned();
            let (_, body) = text.split_once("\r\n\r\n").unwrap();
            let cells = body.lines().next().unwrap().split('|').count();
            assert_eq!(cells, table.columns.len(), "{}", table.name);
        }
    }
}
