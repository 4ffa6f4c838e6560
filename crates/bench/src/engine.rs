//! Many connections with one outstanding request each, driven by one or two threads.
//!
//! Requests are encoded before the measurement; only serial numbers are stamped in while it runs. A
//! request counts if its answer arrives in the measured window; acknowledged rows are counted at
//! any time, to compare them with the visible ones.

mod connection;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use freshet_base::clock::{Clock, SystemClock};
use hdrhistogram::Histogram;

use crate::encode::Request;
use crate::usage::Usage;
pub use connection::Connection;
use worker::Worker;

/// How long answers may take after the last request.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(60);
/// Runs of at least [`PARTED_TIME_MIN`] are divided into this many equal parts, which are reported
/// separately.
const PARTS: u32 = 10;
const PARTED_TIME_MIN: Duration = Duration::from_secs(30);
/// The largest recorded latency: an hour.
const LATENCY_MAX_NANOS: u64 = 3_600_000_000_000;

/// How long requests are sent.
#[derive(Clone, Copy, Debug)]
pub enum Span {
    /// For a time, after a warm-up that is not measured.
    Time { warmup: Duration, measured: Duration },
    /// Each request once; everything is measured.
    Once,
}

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub span: Span,
    /// Requests per second over all connections; `None`: as fast as answers arrive.
    pub pace: Option<f64>,
    /// The number of client threads.
    pub threads: usize,
    /// The process whose resource usage is measured; 0 for none.
    pub server_pid: u32,
}

/// The result of a run.
pub struct Measured {
    /// The length of the measured window.
    pub window: Duration,
    pub tally: Tally,
    /// The average number of cores used by the clients.
    pub client_cores: f64,
    /// The average number of cores used by the server.
    pub server_cores: f64,
    /// Acknowledged rows per second in each part of a long run; empty for a short one.
    pub rates: Vec<f64>,
    /// The maximum of the server's memory at the ends of the parts, or after a short run.
    pub server_rss_bytes: u64,
}

/// The counts of one thread.
pub struct Tally {
    /// Rows acknowledged in the measured window.
    pub rows: u64,
    /// The same for each part of the window.
    part_rows: Vec<u64>,
    /// All acknowledged rows.
    pub acknowledged_rows: u64,
    /// Latencies in the measured window, in nanoseconds.
    pub latency_nanos: Histogram<u64>,
    /// Refused requests and lost connections.
    pub errors: u64,
    pub first_error: Option<String>,
    /// When the last answer arrived.
    pub last_answer: Duration,
    /// The longest time of a thread without an answer, in the measured window.
    pub gap: Duration,
}

impl Tally {
    fn new() -> Self {
        let histogram = Histogram::new_with_max(LATENCY_MAX_NANOS, 3);
        Self {
            rows: 0,
            part_rows: vec![0; PARTS as usize],
            acknowledged_rows: 0,
            latency_nanos: histogram.expect("three digits up to an hour are allowed"),
            errors: 0,
            first_error: None,
            last_answer: Duration::ZERO,
            gap: Duration::ZERO,
        }
    }

    fn error(&mut self, text: String) {
        self.errors += 1;
        self.first_error.get_or_insert(text);
    }

    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        for (sum, more) in self.part_rows.iter_mut().zip(other.part_rows) {
            *sum += more;
        }
        self.acknowledged_rows += other.acknowledged_rows;
        self.latency_nanos.add(other.latency_nanos).expect("histograms of the same bounds");
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.last_answer = self.last_answer.max(other.last_answer);
        self.gap = self.gap.max(other.gap);
    }
}

/// Distributes requests over all connections.
pub(crate) struct Feed {
    next: AtomicUsize,
    serial: AtomicU64,
    once: bool,
}

impl Feed {
    /// The index of the next request of `count`; `None` when each was sent and should be sent once.
    fn take(&self, count: usize) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (!self.once || number < count).then_some(number % count)
    }

    fn serials(&self, request: &Request) -> u64 {
        self.serial.fetch_add(request.rows, Ordering::Relaxed)
    }
}

/// The times of the phases of a run.
#[derive(Clone, Copy)]
pub(crate) struct Schedule {
    start: Duration,
    measure_from: Duration,
    send_until: Duration,
    give_up: Duration,
}

impl Schedule {
    fn new(start: Duration, span: Span) -> Self {
        let (warmup, measured) = match span {
            Span::Time { warmup, measured } => (warmup, measured),
            Span::Once => (Duration::ZERO, Duration::from_secs(3600)),
        };
        let measure_from = start + warmup;
        let send_until = measure_from + measured;
        Self { start, measure_from, send_until, give_up: send_until + DRAIN_TIME_MAX }
    }

    /// The index of the part of the window that `now` is in; `None` outside of it.
    fn part(&self, now: Duration) -> Option<usize> {
        let since = now.checked_sub(self.measure_from).filter(|_| now < self.send_until)?;
        Some((since.as_nanos() as u64 / self.part_length().as_nanos() as u64) as usize)
    }

    fn part_length(&self) -> Duration {
        // Rounded up, so that the last instant belongs to the last part.
        (self.send_until - self.measure_from) / PARTS + Duration::from_nanos(1)
    }
}

/// Runs the load and returns the measurements.
pub fn run(connections: Vec<Connection>, options: Options) -> Result<Measured, String> {
    let once = matches!(options.span, Span::Once);
    let feed = Arc::new(Feed { next: 0.into(), serial: 1.into(), once });
    let threads = options.threads.clamp(1, connections.len().max(1));
    let clock = SystemClock::new();
    let schedule = Schedule::new(clock.now(), options.span);
    let mut shares: Vec<Vec<Connection>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, connection) in connections.into_iter().enumerate() {
        shares[index % threads].push(connection);
    }
    let pace = options.pace.map(|rate| rate / threads as f64);
    let mut workers = Vec::new();
    for share in shares {
        let worker = Worker::new(share, Arc::clone(&feed), clock, schedule, pace)?;
        workers.push(std::thread::spawn(move || worker.run()));
    }
    let sample = || (clock.now(), Usage::own(), Usage::of(options.server_pid));
    std::thread::sleep(schedule.measure_from.saturating_sub(clock.now()));
    let before = sample();
    let parts = match options.span {
        Span::Time { measured, .. } if measured >= PARTED_TIME_MIN => PARTS,
        _ => 1,
    };
    let server_rss_bytes =
        if once { 0 } else { peak_memory(&clock, &schedule, parts, options.server_pid) };
    let timed = (!once).then(sample);
    let mut tally = Tally::new();
    for worker in workers {
        tally.add(worker.join().map_err(|_| "a client thread panicked")??);
    }
    let after = timed.unwrap_or_else(sample);
    let sampled = (after.0 - before.0).as_secs_f64();
    let window = match options.span {
        Span::Time { measured, .. } => measured,
        Span::Once => tally.last_answer.saturating_sub(schedule.start),
    };
    let part_seconds = schedule.part_length().as_secs_f64();
    let rates = tally.part_rows.iter().map(|rows| *rows as f64 / part_seconds);
    Ok(Measured {
        window,
        rates: if parts > 1 { rates.collect() } else { Vec::new() },
        server_rss_bytes,
        tally,
        client_cores: (after.1.cpu_seconds - before.1.cpu_seconds) / sampled,
        server_cores: (after.2.cpu_seconds - before.2.cpu_seconds) / sampled,
    })
}

/// Waits until the window ends; returns the maximum of the server's memory at the ends of its
/// parts.
fn peak_memory(clock: &SystemClock, schedule: &Schedule, parts: u32, server_pid: u32) -> u64 {
    let length = schedule.send_until - schedule.measure_from;
    let after_part = |part| {
        let until = schedule.measure_from + length * part / parts;
        std::thread::sleep(until.saturating_sub(clock.now()));
        Usage::of(server_pid).rss_bytes
    };
    (1..=parts).map(after_part).max().unwrap_or(0)
}
