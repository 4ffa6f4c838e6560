//! Soak test: hours of mixed load on one server; memory, descriptors, files and latencies must stay
//! flat.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::sleep;
use std::time::{Duration, Instant};

use plotters::prelude::*;

use crate::check::{Moment, check};
use crate::client::Client;
use crate::journal::Journal;
use crate::server::{Server, Setup};
use crate::writers::{Crowd, CrowdOptions, TABLES, create_tables, drop_tables};

/// The duration of a round of load. At its end everything is compared and the tables are created
/// again, so the peaks of all rounds must be alike.
const ROUND: Duration = Duration::from_secs(30);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);
/// The maximum ratio of the second half of a run to the first.
const GROWTH_MAX: f64 = 1.25;
/// Normal fluctuation: memory cached by the allocator, descriptors of clients.
const RESIDENT_SLACK_BYTES: f64 = 48.0 * 1024.0 * 1024.0;
const COUNT_SLACK: f64 = 24.0;
const LATENCY_SLACK_MS: f64 = 25.0;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How to start the server.
    pub setup: Setup,
    /// The duration.
    pub time: Duration,
    /// The directory of `soak.csv` and `soak.svg`.
    pub out: PathBuf,
}

/// Measurements at one time.
#[derive(Clone, Copy, Default, Debug)]
struct Sample {
    second: f64,
    resident_bytes: f64,
    descriptors: f64,
    files: f64,
    p50_ms: f64,
    p99_ms: f64,
    loads: f64,
}

type Field = fn(&Sample) -> f64;

/// The curves that are plotted and must be flat: name, field, slack.
const CURVES: [(&str, Field, f64); 5] = [
    ("resident bytes", |s| s.resident_bytes, RESIDENT_SLACK_BYTES),
    ("descriptors", |s| s.descriptors, COUNT_SLACK),
    ("files", |s| s.files, COUNT_SLACK),
    ("p50 ms", |s| s.p50_ms, LATENCY_SLACK_MS),
    ("p99 ms", |s| s.p99_ms, 4.0 * LATENCY_SLACK_MS),
];

/// Runs the soak test.
///
/// # Errors
/// What was lost, or which curve is not flat.
pub fn run(options: &Options) -> Result<String, String> {
    let began = Instant::now();
    let mut server = options.setup.start()?;
    // Labels are derived from ids and outlive the tables of a round, so ids continue across rounds.
    let ids = Arc::new(AtomicU64::new(1));
    let mut samples = Vec::new();
    let mut rounds = Vec::new();
    let mut rows = 0;
    while began.elapsed() < options.time {
        let from = samples.len();
        rows += round(options, &mut server, &ids, began, &mut samples)?;
        rounds.push(peak(&samples[from..]));
        println!("{:?}", rounds.last());
        save(&options.out, &samples).map_err(|e| format!("{}: {e}", options.out.display()))?;
    }
    server.stop()?;
    options.setup.check_files()?;
    flat(&rounds)?;
    let loads = samples.iter().map(|sample| sample.loads).sum::<f64>();
    let seconds = began.elapsed().as_secs();
    Ok(format!("{seconds} s, {} rounds, {loads} loads, {rows} rows compared", rounds.len()))
}

fn round(
    options: &Options,
    server: &mut Server,
    ids: &Arc<AtomicU64>,
    began: Instant,
    samples: &mut Vec<Sample>,
) -> Result<usize, String> {
    let failed = |e| format!("tables: {e}");
    let mut client = Client::connect(server.mysql_port).map_err(failed)?;
    create_tables(&mut client).map_err(failed)?;
    let journal = Arc::<Journal>::default();
    let seed = samples.len() as u64;
    let crowd_options = CrowdOptions { seed, pause: PAUSE, reader: true, alters: false };
    let ports = (server.mysql_port, server.http_port);
    let crowd = Crowd::start(ports, Arc::clone(&journal), Arc::clone(ids), &crowd_options);
    let until = Instant::now() + ROUND;
    while Instant::now() < until {
        sleep(SAMPLE_INTERVAL);
        let latencies = crowd.shared.take_latencies();
        samples.push(sample(server, &options.setup.data_dir, began, latencies));
    }
    let problems = crowd.end();
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let now = Instant::now();
    let found = check(&mut client, &TABLES, &journal.copy(), Moment { from: now, to: now })?;
    drop_tables(&mut client).map_err(failed)?;
    Ok(found.rows)
}

fn sample(
    server: &Server,
    data_dir: &Path,
    began: Instant,
    mut latencies: Vec<Duration>,
) -> Sample {
    latencies.sort_unstable();
    let at = |part: f64| {
        let index = (latencies.len() as f64 * part) as usize;
        latencies.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
    };
    Sample {
        second: began.elapsed().as_secs_f64(),
        resident_bytes: server.resident_bytes() as f64,
        descriptors: server.open_files() as f64,
        files: files_below(data_dir) as f64,
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        loads: latencies.len() as f64,
    }
}

fn files_below(dir: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path()),
            _ => 1,
        })
        .sum()
}

/// The maxima of a round; of latencies the median, because a single slow second on a busy machine
/// is not significant.
fn peak(samples: &[Sample]) -> Sample {
    let most = |field: Field| samples.iter().map(field).fold(0.0, f64::max);
    let middle = |field: Field| {
        let mut numbers = samples.iter().map(field).collect::<Vec<_>>();
        numbers.sort_by(f64::total_cmp);
        numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
    };
    Sample {
        second: most(|s| s.second),
        resident_bytes: most(|s| s.resident_bytes),
        descriptors: most(|s| s.descriptors),
        files: most(|s| s.files),
        p50_ms: middle(|s| s.p50_ms),
        p99_ms: middle(|s| s.p99_ms),
        loads: samples.iter().map(|s| s.loads).sum(),
    }
}

/// Compares the second half of the rounds with the first. The first round is left out, because
/// caches fill during it.
fn flat(rounds: &[Sample]) -> Result<(), String> {
    let warm = rounds.get(1..).unwrap_or_default();
    if warm.len() < 4 {
        return Ok(());
    }
    let (early, late) = warm.split_at(warm.len() / 2);
    let mut grown = Vec::new();
    for (name, field, slack) in CURVES {
        let mean = |part: &[Sample]| part.iter().map(field).sum::<f64>() / part.len() as f64;
        let (before, after) = (mean(early), mean(late));
        if after > before * GROWTH_MAX + slack {
            grown.push(format!("{name}: {before:.1} in the first half, {after:.1} in the second"));
        }
    }
    if grown.is_empty() { Ok(()) } else { Err(grown.join("\n")) }
}

fn save(out: &Path, samples: &[Sample]) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(out)?;
    let mut csv = "second,resident_bytes,descriptors,files,p50_ms,p99_ms,loads\n".to_owned();
    for s in samples {
        writeln!(
            csv,
            "{:.1},{},{},{},{:.3},{:.3},{}",
            s.second, s.resident_bytes, s.descriptors, s.files, s.p50_ms, s.p99_ms, s.loads
        )?;
    }
    std::fs::write(out.join("soak.csv"), csv)?;
    plot(&out.join("soak.svg"), samples)
}

fn plot(path: &Path, samples: &[Sample]) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::new(path, (900, 1000)).into_drawing_area();
    root.fill(&WHITE)?;
    let end = samples.last().map_or(1.0, |sample| sample.second);
    for (area, (name, field, _)) in root.split_evenly((CURVES.len(), 1)).iter().zip(CURVES) {
        let top = samples.iter().map(field).fold(1.0, f64::max) * 1.1;
        let mut chart = ChartBuilder::on(area)
            .caption(name, ("sans-serif", 14))
            .margin(6)
            .x_label_area_size(20)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..end, 0.0..top)?;
        chart.configure_mesh().y_labels(4).draw()?;
        let points = samples.iter().map(|sample| (sample.second, field(sample)));
        chart.draw_series(LineSeries::new(points, &BLUE))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_reported() {
        let rounds = |step: f64| {
            (0..9).map(move |n| Sample { files: 100.0 + step * f64::from(n), ..Sample::default() })
        };
        assert_eq!(flat(&rounds(1.0).collect::<Vec<_>>()), Ok(()));
        let error = flat(&rounds(30.0).collect::<Vec<_>>()).unwrap_err();
        assert!(error.starts_with("files: "), "{error}");
    }
}
