//! Shows how far a run is.

use std::io::{IsTerminal, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use freshet_base::size::ByteSize;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

/// How often a line is written where no bar can be drawn.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
const BAR: &str = "{wide_bar} {percent}% {bytes}/{total_bytes}, {msg}, {eta} left";
/// Where nobody knows how much there is.
const SPINNER: &str = "{spinner} {bytes}, {msg}";

/// Counts what was read and what has arrived.
pub struct Meter {
    bar: ProgressBar,
    rows: AtomicU64,
    began: Instant,
    /// When the last line was written; `None` if none is to be.
    line: Option<Mutex<Instant>>,
}

impl Meter {
    /// Of a run that reads `total` bytes; 0 if nobody knows.
    pub fn new(total: u64, quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let target = match is_terminal && !quiet {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let (length, template) = if total > 0 { (Some(total), BAR) } else { (None, SPINNER) };
        let style = ProgressStyle::with_template(template).expect("it is a template");
        let bar = ProgressBar::with_draw_target(length, target).with_style(style);
        let began = Instant::now();
        let line = (!is_terminal && !quiet).then(|| Mutex::new(began));
        Self { bar, rows: AtomicU64::new(0), began, line }
    }

    /// Counts bytes that were read, or need not be.
    pub fn read(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Counts rows that have arrived.
    pub fn arrived(&self, rows: u64) {
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        let per_second = rows as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        let message = format!("{rows} rows, {per_second:.0} rows/s");
        if let Some(line) = &self.line {
            let mut last = line.lock();
            if last.elapsed() >= LINE_INTERVAL {
                *last = Instant::now();
                eprintln!("freshet: {}, {message}", self.so_far());
            }
        }
        self.bar.set_message(message);
    }

    fn so_far(&self) -> String {
        let read = ByteSize(self.bar.position());
        match self.bar.length() {
            Some(total) => format!("{read} of {}", ByteSize(total)),
            None => read.to_string(),
        }
    }

    /// Writes a line, above the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("freshet: {line}"));
    }

    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Counts what is read through it.
pub struct Counted<R>(pub R, pub Arc<Meter>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.read(out)?;
        self.1.read(count as u64);
        Ok(count)
    }
}
