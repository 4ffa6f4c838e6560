//! The result of a run: a line of JSON, a row of a table.

use serde::{Deserialize, Serialize};

use crate::alter::Altered;

/// The version of the line format, incremented when a field changes its meaning.
pub const FORMAT: u32 = 1;

/// The result of one run of a point on a target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// The format version of this line.
    pub format: u32,
    /// The name of the point, see `Point::name`.
    pub point: String,
    pub connections: usize,
    pub target: String,
    /// What the target's acknowledgement guarantees.
    pub sync: String,
    /// The start of the program, in microseconds since 1970-01-01.
    pub run: i64,
    /// Counted from 1; targets alternate within a round.
    pub round: usize,
    /// The length of the measured window.
    pub seconds: f64,
    /// Rows acknowledged per second in the window.
    pub rows_per_second: f64,
    /// Requests answered per second in the window.
    pub requests_per_second: f64,
    /// The median latency.
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
    /// The longest time in which none of the connections of a client thread was answered.
    #[serde(default)]
    pub gap_ms: f64,
    /// Refused requests and lost connections.
    pub errors: u64,
    pub first_error: Option<String>,
    /// Acknowledged rows, including those of the warm-up.
    pub acknowledged_rows: u64,
    /// Rows visible afterwards; `None` if the target stores nothing.
    pub visible_rows: Option<u64>,
    /// The average number of cores used by the clients.
    pub client_cores: f64,
    /// The average number of cores used by the server.
    pub server_cores: f64,
    /// The server's memory before the run.
    pub server_rss_before_mib: f64,
    /// The maximum of the server's memory at the ends of the tenths of a long run, or after a short
    /// one.
    pub server_rss_mib: f64,
    /// Bytes that the server wrote per acknowledged row.
    pub disk_bytes_per_row: f64,
    /// The average size of a row as CSV.
    pub row_bytes: f64,
    /// Rows per second in each tenth of a long run; empty for a short one.
    pub rates: Vec<f64>,
    /// The median duration of concurrent analytic queries, if there were any.
    pub query_seconds: Option<f64>,
    /// The number of files added to the server's data directory.
    pub files_made: Option<i64>,
    /// Changes of the table meanwhile, if there were any.
    #[serde(default)]
    pub alters: Option<Altered>,
}

impl Line {
    /// The clients' share of all CPU time, from 0 to 1.
    pub fn client_share(&self) -> f64 {
        self.client_cores / (self.client_cores + self.server_cores).max(f64::MIN_POSITIVE)
    }

    /// CPU time per request in microseconds, with this number of cores in use.
    pub fn micros_a_request(&self, cores: f64) -> f64 {
        cores * 1e6 / self.requests_per_second.max(1.0)
    }

    /// Bytes written to disk per byte of rows.
    pub fn write_amplification(&self) -> f64 {
        self.disk_bytes_per_row / self.row_bytes.max(1.0)
    }

    /// The rate in the last tenth of a long run relative to the first.
    pub fn last_to_first(&self) -> Option<f64> {
        let (first, last) = (self.rates.first()?, self.rates.last()?);
        (*first > 0.0).then(|| last / first)
    }

    /// Whether acknowledged rows are missing, or unacknowledged rows are visible although no
    /// request failed.
    pub fn is_wrong(&self) -> bool {
        self.visible_rows.is_some_and(|visible| {
            let missing = visible < self.acknowledged_rows;
            missing || (self.errors == 0 && visible > self.acknowledged_rows)
        })
    }

    /// Remarks to print after the numbers.
    fn remarks(&self) -> String {
        let mut remarks = String::new();
        if self.errors > 0 {
            let first = self.first_error.as_deref().unwrap_or_default();
            remarks.push_str(&format!("  {} errors, first: {first}", self.errors));
        }
        if let Some(visible) = self.visible_rows.filter(|_| self.is_wrong()) {
            let acknowledged = self.acknowledged_rows;
            remarks.push_str(&format!("  {visible} rows visible of {acknowledged} acknowledged"));
        }
        if let Some(files) = self.files_made {
            remarks.push_str(&format!("  {files} files made"));
        }
        if let Some(seconds) = self.query_seconds.filter(|seconds| *seconds > 0.0) {
            remarks.push_str(&format!("  queries took {seconds:.3} s"));
        }
        if let Some(Altered { count, max_ms }) = self.alters {
            let gap = self.gap_ms;
            remarks.push_str(&format!("  {count} alters, {max_ms:.1} ms at most, gap {gap:.1} ms"));
        }
        if let Some(ratio) = self.last_to_first() {
            remarks.push_str(&format!("  last tenth to first {ratio:.2}"));
        }
        remarks
    }

    /// A row of the table with [`HEADER`].
    pub fn row(&self) -> String {
        format!(
            "{:36} {:12} {:>10} {:>8.3} {:>8.3} {:>8.3} {:>7.0}% {:>6.2} {:>8.0} {:>8.0}{}",
            self.point,
            self.target,
            thousands(self.rows_per_second),
            self.p50_ms,
            self.p99_ms,
            self.p999_ms,
            100.0 * self.client_share(),
            self.server_cores,
            self.server_rss_mib,
            self.disk_bytes_per_row,
            self.remarks()
        )
    }
}

/// The column heads of [`Line::row`].
pub const HEADER: &str = concat!(
    "workload, mode, batch x connections  target           rows/s   p50 ms   p99 ms  p999 ms",
    "   client server  RSS MiB disk B/row\n",
    "                                                                                       ",
    "      CPU  cores"
);

/// A count with three significant digits.
pub fn thousands(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => format!("{:.2} M", v / 1e6),
        v if v >= 9_995.0 => format!("{:.1} k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
pub(crate) fn line(point: &str, target: &str, round: usize, rows_per_second: f64) -> Line {
    Line {
        format: FORMAT,
        point: point.to_owned(),
        connections: 30,
        target: target.to_owned(),
        sync: String::new(),
        run: 0,
        round,
        seconds: 1.0,
        rows_per_second,
        requests_per_second: rows_per_second,
        p50_ms: 1.0,
        p90_ms: 1.5,
        p99_ms: 2.0,
        p999_ms: 3.0,
        max_ms: 4.0,
        gap_ms: 1.0,
        errors: 0,
        first_error: None,
        acknowledged_rows: 10,
        visible_rows: Some(10),
        client_cores: 0.5,
        server_cores: 1.5,
        server_rss_before_mib: 1.0,
        server_rss_mib: 1.0,
        disk_bytes_per_row: 1.0,
        row_bytes: 1.0,
        rates: Vec::new(),
        query_seconds: None,
        files_made: None,
        alters: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_missing_or_too_many_are_seen() {
        let good = line("W1", "a", 1, 5.0);
        assert!(!good.is_wrong());
        assert!(Line { visible_rows: Some(9), ..good.clone() }.is_wrong());
        assert!(Line { visible_rows: Some(11), ..good.clone() }.is_wrong());
        // A failed request may have been written.
        assert!(!Line { visible_rows: Some(11), errors: 1, ..good.clone() }.is_wrong());
        assert!(!Line { visible_rows: None, ..good.clone() }.is_wrong());
        assert!((good.client_share() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn counts_are_short() {
        assert_eq!(thousands(1_234_567.0), "1.23 M");
        assert_eq!(thousands(33_140.0), "33.1 k");
        assert_eq!(thousands(812.0), "812");
    }
}
