//! Progress of the loads: a line for each, redrawn on a terminal and printed at intervals
//! elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Stream;

const TERMINAL_PAUSE: Duration = Duration::from_millis(200);
const LOG_PAUSE: Duration = Duration::from_secs(2);

/// The progress display.
pub struct Screen {
    streams: Vec<Arc<Stream>>,
    is_terminal: bool,
    has_lines: bool,
}

impl Screen {
    pub fn new(streams: Vec<Arc<Stream>>) -> Self {
        Self { streams, is_terminal: std::io::stdout().is_terminal(), has_lines: false }
    }

    /// Waits until the next update.
    pub fn pause(&self) {
        std::thread::sleep(if self.is_terminal { TERMINAL_PAUSE } else { LOG_PAUSE });
    }

    /// Shows the progress after `seconds`.
    pub fn show(&mut self, seconds: f64) {
        if self.is_terminal && self.has_lines {
            print!("\x1b[{}A\x1b[J", self.streams.len());
        }
        for stream in &self.streams {
            println!("{}", line(stream, seconds));
        }
        self.has_lines = true;
        // If the terminal is gone, loading continues.
        let _ = std::io::stdout().flush();
    }

    /// Shows the final state.
    pub fn end(&mut self, seconds: f64) {
        self.show(seconds);
        println!("all of it in {seconds:.1} s");
    }
}

fn line(stream: &Stream, seconds: f64) -> String {
    let rows = stream.rows.load(Ordering::Relaxed);
    let megabytes = stream.bytes.load(Ordering::Relaxed) as f64 / 1e6;
    let percent = (100 * rows / stream.rows_planned.max(1)).min(100);
    let latency = stream.commit_micros.lock();
    let millis = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
    format!(
        "{:9} {percent:>3} % {:>11} rows {:>9} rows/s {:>6.1} MB/s  commit p50 {:>6.1} ms, p99 \
         {:>6.1} ms",
        stream.name,
        thousands(rows),
        thousands((rows as f64 / seconds.max(0.001)) as u64),
        megabytes / seconds.max(0.001),
        millis(0.5),
        millis(0.99),
    )
}

/// A number with thousands separators.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(thousands(7), "7");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(6_001_215), "6,001,215");
    }
}
