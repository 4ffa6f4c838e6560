//! Rounds: each round runs all targets, so that slow phases of the machine affect all of them.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::alter::Alterer;
use crate::engine::{self, Measured, Options, Span};
use crate::point::{Mode, Point, Size};
use crate::prepare::{self, Batches};
use crate::questions::Questioners;
use crate::result::{FORMAT, HEADER, Line};
use crate::session::Session;
use crate::table::Dialect;
use crate::target::Target;
use crate::usage::{Usage, files_below};

/// How long rows may take to become visible on targets that do not promise visibility at once.
const VISIBLE_TIME_MAX: Duration = Duration::from_secs(10);
const VISIBLE_POLL: Duration = Duration::from_millis(500);
/// Requests of this size take about a second each, so the window is lengthened to hold many.
const LARGE_BYTES: usize = 5_000_000;
const LARGE_STRETCH: u32 = 3;

/// What to run and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The start of the run, in microseconds since 1970-01-01.
    pub run: i64,
    pub points: Vec<Point>,
    pub targets: Vec<Target>,
    /// Runs per point and target.
    pub rounds: usize,
    /// Time before the measured window.
    pub warmup: Duration,
    /// The measured window.
    pub measured: Duration,
    pub threads: usize,
    /// The file for results.
    pub out: Option<PathBuf>,
}

/// Runs all points and prints a row for each run.
pub fn run(plan: &Plan) -> Result<(), String> {
    println!("{HEADER}");
    for point in &plan.points {
        let batches = Batches::of(point);
        let mut targets = plan.targets.iter().filter(|t| fits(point, t)).collect::<Vec<_>>();
        for round in 1..=plan.rounds {
            for target in &targets {
                match one(plan, point, target, &batches, round) {
                    Ok(line) => {
                        println!("{}", line.row());
                        append(plan.out.as_deref(), &line)?;
                    }
                    Err(error) => println!("{:36} {:12} {error}", point.name(), target.name),
                }
            }
            // Rotated, so that background work after a target's run (checkpoints, merges) affects a
            // different target each round.
            let next = targets.len().min(1);
            targets.rotate_left(next);
        }
    }
    Ok(())
}

/// Whether a target supports a point: the null server only simple writes, ClickHouse only bodies.
fn fits(point: &Point, target: &Target) -> bool {
    match target.dialect {
        Dialect::Null => {
            point.pace.is_none() && point.questioners.is_none() && point.alters.is_none()
        }
        Dialect::ClickHouse => matches!(point.mode, Mode::Body),
        _ => true,
    }
}

fn one(
    plan: &Plan,
    point: &Point,
    target: &Target,
    batches: &Batches,
    round: usize,
) -> Result<Line, String> {
    let mut session = Session::open(target)?;
    let tables = point.tables();
    for statement in tables.iter().flat_map(|table| table.recreate(target.dialect)) {
        session.query(&statement)?;
    }
    let folder = target.directory.as_deref().map(Path::new);
    let files = folder.map(files_below);
    let before = Usage::of(target.pid);
    let connections = prepare::connections(target, point, batches)?;
    let questioners = Questioners::start(target, point.questioners.unwrap_or(0))?;
    let alterer = match point.alters {
        Some(true) => Some(Alterer::start(target, &tables[0])?),
        _ => None,
    };
    let large = matches!(point.size, Size::Bytes(bytes) if bytes >= LARGE_BYTES);
    let stretch = if large { LARGE_STRETCH } else { 1 };
    let options = Options {
        span: Span::Time { warmup: plan.warmup * stretch, measured: plan.measured * stretch },
        pace: point.pace,
        threads: plan.threads,
        server_pid: target.pid,
    };
    let measured = engine::run(connections, options);
    let (answers, measured) = (questioners.stop()?, measured?);
    let alters = alterer.map(Alterer::stop).transpose()?;
    let visible_rows = count(&mut session, point, measured.tally.acknowledged_rows)?;
    let written_bytes = Usage::of(target.pid).written_bytes.saturating_sub(before.written_bytes);
    let files_made = files.zip(folder.map(files_below)).map(|(old, new)| new as i64 - old as i64);
    for table in &tables {
        session.query(&format!("DROP TABLE {}", table.name))?;
    }
    let rows = measured.tally.acknowledged_rows.max(1) as f64;
    Ok(Line {
        run: plan.run,
        server_rss_before_mib: mib(before.rss_bytes),
        disk_bytes_per_row: written_bytes as f64 / rows,
        row_bytes: batches.row_bytes(),
        query_seconds: point.questioners.map(|_| answers.median_seconds()),
        visible_rows,
        files_made: files_made.filter(|_| point.pace.is_some()),
        alters,
        ..line(point, target, round, measured)
    })
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn line(point: &Point, target: &Target, round: usize, measured: Measured) -> Line {
    let (tally, rates) = (measured.tally, measured.rates);
    let seconds = measured.window.as_secs_f64();
    let ms = |quantile: f64| tally.latency_nanos.value_at_quantile(quantile) as f64 / 1e6;
    Line {
        format: FORMAT,
        point: point.name(),
        connections: point.connections,
        target: target.name.clone(),
        sync: target.sync.clone(),
        run: 0,
        round,
        seconds,
        rows_per_second: tally.rows as f64 / seconds,
        requests_per_second: tally.latency_nanos.len() as f64 / seconds,
        p50_ms: ms(0.5),
        p90_ms: ms(0.9),
        p99_ms: ms(0.99),
        p999_ms: ms(0.999),
        gap_ms: tally.gap.as_secs_f64() * 1e3,
        max_ms: tally.latency_nanos.max() as f64 / 1e6,
        errors: tally.errors,
        first_error: tally.first_error,
        acknowledged_rows: tally.acknowledged_rows,
        visible_rows: None,
        client_cores: measured.client_cores,
        server_cores: measured.server_cores,
        server_rss_before_mib: 0.0,
        server_rss_mib: mib(measured.server_rss_bytes),
        disk_bytes_per_row: 0.0,
        row_bytes: 0.0,
        rates,
        query_seconds: None,
        files_made: None,
        alters: None,
    }
}

/// Counts visible rows; waits for them where an acknowledgement does not imply visibility.
fn count(session: &mut Session, point: &Point, acknowledged: u64) -> Result<Option<u64>, String> {
    let mut waited = Duration::ZERO;
    loop {
        let mut sum = Some(0);
        for table in point.tables() {
            sum = sum.zip(session.count(&table.name)?).map(|(sum, count)| sum + count);
        }
        let waits = matches!(session, Session::Postgres(_)) && waited < VISIBLE_TIME_MAX;
        if !waits || sum.is_none_or(|sum| sum >= acknowledged) {
            return Ok(sum);
        }
        std::thread::sleep(VISIBLE_POLL);
        waited += VISIBLE_POLL;
    }
}

/// Appends a line of JSON to a file, if there is one.
pub fn append(path: Option<&Path>, line: &impl serde::Serialize) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string(line).map_err(|error| error.to_string())?;
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{text}"));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
