//! Results as Markdown tables.

use super::{OURS, Results, in_order};
use crate::result::{Line, thousands};

/// A table whose first column is text and whose other columns are numbers.
struct Table {
    text: String,
    columns: usize,
}

impl Table {
    fn new(heads: &[&str]) -> Self {
        let mut table = Self { text: String::new(), columns: heads.len() };
        table.row(heads);
        table.text.push_str(&format!("| --- |{}\n", " --: |".repeat(heads.len() - 1)));
        table
    }

    fn row(&mut self, cells: &[impl AsRef<str>]) {
        assert_eq!(cells.len(), self.columns, "a cell for each column");
        let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
        self.text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// The medians of every point on every target.
pub(super) fn all(results: &Results) -> String {
    let mut table = Table::new(&[
        "point",
        "target",
        "rows/s",
        "ours to it",
        "p50 ms",
        "p99 ms",
        "p999 ms",
        "client CPU",
        "server cores",
        "RSS MiB",
        "disk B/row",
        "errors",
    ]);
    for point in results.points() {
        for target in results.targets(point) {
            let median = |of: fn(&Line) -> f64| results.median(point, target, of).unwrap_or(0.0);
            let ratio = results.ratio(point, OURS, target).filter(|_| target != OURS);
            let errors: u64 = results.of(point, target).map(|line| line.errors).sum();
            table.row(&[
                point.to_owned(),
                target.to_owned(),
                thousands(median(|line| line.rows_per_second)),
                ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
                format!("{:.3}", median(|line| line.p50_ms)),
                format!("{:.3}", median(|line| line.p99_ms)),
                format!("{:.3}", median(|line| line.p999_ms)),
                format!("{:.0} %", median(|line| 100.0 * line.client_share())),
                format!("{:.2}", median(|line| line.server_cores)),
                format!("{:.0}", median(|line| line.server_rss_mib)),
                format!("{:.0}", median(|line| line.disk_bytes_per_row)),
                errors.to_string(),
            ]);
        }
    }
    table.text
}

/// Points on all targets side by side: rows per second, median and 99th percentile latency, and the
/// ratio of Freshet.
pub(super) fn beside(results: &Results, points: &[&str]) -> String {
    let targets = in_order(points.iter().flat_map(|point| results.targets(point)));
    let heads: Vec<&str> = std::iter::once("point").chain(targets.iter().copied()).collect();
    let mut table = Table::new(&heads);
    for point in points {
        let mut cells = vec![(*point).to_owned()];
        cells.extend(targets.iter().map(|target| or_dash(cell(results, point, target))));
        table.row(&cells);
    }
    table.text
}

fn cell(results: &Results, point: &str, target: &str) -> Option<String> {
    let rate = thousands(results.rate(point, target)?);
    let p50 = results.median(point, target, |line| line.p50_ms)?;
    let p99 = results.median(point, target, |line| line.p99_ms)?;
    let ratio = results.ratio(point, OURS, target).filter(|_| target != OURS);
    let ratio = ratio.map_or(String::new(), |ratio| format!(", x {ratio:.2}"));
    Some(format!("{rate} ({p50:.2} / {p99:.1} ms{ratio})"))
}

/// The cost of points on Freshet, and its ratio to the null server.
pub(super) fn cost(results: &Results, points: &[&str]) -> String {
    let mut table = Table::new(&[
        "point",
        "rows/s",
        "of the null server",
        "server us a request",
        "client us a request",
        "client CPU",
        "cores in use",
        "RSS MiB",
        "disk B a row",
        "disk B a byte of rows",
    ]);
    for point in points.iter().filter(|point| results.rate(point, OURS).is_some()) {
        let median = |of: fn(&Line) -> f64| results.median(point, OURS, of).unwrap_or(0.0);
        let null = results.ratio(point, OURS, "null");
        table.row(&[
            (*point).to_owned(),
            thousands(median(|line| line.rows_per_second)),
            or_dash(null.map(|ratio| format!("{ratio:.2}"))),
            format!("{:.1}", median(|line| line.micros_a_request(line.server_cores))),
            format!("{:.1}", median(|line| line.micros_a_request(line.client_cores))),
            format!("{:.0} %", median(|line| 100.0 * line.client_share())),
            format!("{:.2}", median(|line| line.client_cores + line.server_cores)),
            format!("{:.0}", median(|line| line.server_rss_mib)),
            format!("{:.0}", median(|line| line.disk_bytes_per_row)),
            format!("{:.2}", median(Line::write_amplification)),
        ]);
    }
    table.text
}

/// Points on targets that send bodies in several forms, relative to the first of them.
pub(super) fn forms(results: &Results, points: &[&str]) -> String {
    let mut text = String::new();
    for point in points {
        let mut table = Table::new(&[
            *point,
            "rows/s",
            "to plain CSV",
            "p50 ms",
            "p99 ms",
            "server cores",
            "server us for 1000 rows",
            "client cores",
            "RSS MiB",
        ]);
        for target in results.targets(point) {
            let median = |of: fn(&Line) -> f64| results.median(point, target, of).unwrap_or(0.0);
            let micros = |line: &Line| line.server_cores * 1e9 / line.rows_per_second.max(1.0);
            let ratio = results.ratio(point, target, OURS);
            table.row(&[
                target.to_owned(),
                thousands(median(|line| line.rows_per_second)),
                or_dash(ratio.map(|ratio| format!("{ratio:.2}"))),
                format!("{:.1}", median(|line| line.p50_ms)),
                format!("{:.1}", median(|line| line.p99_ms)),
                format!("{:.2}", median(|line| line.server_cores)),
                format!("{:.0}", median(micros)),
                format!("{:.2}", median(|line| line.client_cores)),
                format!("{:.0}", median(|line| line.server_rss_mib)),
            ]);
        }
        text.push_str(&format!("{}\n", table.text));
    }
    text
}

/// Writes beside light schema changes, and the same without them.
pub(super) fn alters(results: &Results, points: &[&str]) -> String {
    let mut table = Table::new(&[
        "point",
        "rows/s",
        "p50 ms",
        "p99 ms",
        "slowest ms",
        "ms without an answer",
        "failed writes",
        "changes",
        "slowest change ms",
    ]);
    for point in points.iter().filter(|point| results.rate(point, OURS).is_some()) {
        let median = |of: fn(&Line) -> f64| results.median(point, OURS, of).unwrap_or(0.0);
        let errors: u64 = results.of(point, OURS).map(|line| line.errors).sum();
        table.row(&[
            (*point).to_owned(),
            thousands(median(|line| line.rows_per_second)),
            format!("{:.2}", median(|line| line.p50_ms)),
            format!("{:.1}", median(|line| line.p99_ms)),
            format!("{:.1}", median(|line| line.max_ms)),
            format!("{:.1}", median(|line| line.gap_ms)),
            errors.to_string(),
            format!("{:.0}", median(|line| line.alters.map_or(0.0, |of| of.count as f64))),
            format!("{:.1}", median(|line| line.alters.map_or(0.0, |of| of.max_ms))),
        ]);
    }
    table.text
}

/// The rates of a long run in tenths.
pub(super) fn tenths(results: &Results, points: &[&str]) -> String {
    let mut table = Table::new(&["point", "tenth of the time", "rows/s"]);
    for point in points {
        for line in results.of(point, OURS) {
            for (number, rate) in (1..).zip(&line.rates) {
                table.row(&[(*point).to_owned(), format!("{number}"), thousands(*rate)]);
            }
        }
    }
    table.text
}

/// The measurements of the machine.
pub(super) fn machine(results: &Results) -> String {
    let mut table = Table::new(&["machine", "p50 ms", "a second"]);
    for name in results.machine_figures() {
        let p50_ms = results.machine_ms(name).unwrap_or(0.0);
        let figures = results.machine.iter().filter(|figure| figure.machine == name);
        let rate = super::median(figures.map(|figure| figure.per_second).collect());
        table.row(&[name.to_owned(), format!("{p50_ms:.3}"), or_dash(rate.map(thousands))]);
    }
    let mut hosts = in_order(results.hosts.iter().map(|host| host.commit.as_str()));
    hosts.retain(|commit| !commit.is_empty());
    let Some(host) = results.hosts.last() else { return table.text };
    format!(
        "Commit {}. {} x {}, {} MiB of memory, {}.\n\n{}",
        hosts.join(", "),
        host.cores,
        host.processor,
        host.memory_mib,
        host.kernel,
        table.text
    )
}

/// The duration of each step of TPC-H on each target in seconds, and their sums; empty if there are
/// none.
pub(super) fn tpch(results: &Results) -> String {
    let targets = in_order(results.tpch.iter().map(|line| line.target.as_str()));
    if targets.is_empty() {
        return String::new();
    }
    let heads: Vec<&str> = std::iter::once("seconds").chain(targets.iter().copied()).collect();
    let mut table = Table::new(&heads);
    let seconds = |value: Option<f64>| or_dash(value.map(|seconds| format!("{seconds:.3}")));
    for step in in_order(results.tpch.iter().map(|line| line.tpch.as_str())) {
        let mut cells = vec![step.to_owned()];
        cells.extend(targets.iter().map(|target| seconds(results.tpch_seconds(step, target))));
        table.row(&cells);
    }
    type Mean = fn(Vec<f64>) -> f64;
    let mean = super::geometric_mean as Mean;
    for (name, of) in [("sum of the 22", super::sum as Mean), ("their geometric mean", mean)] {
        let mut cells = vec![name.to_owned()];
        cells.extend(targets.iter().map(|target| seconds(results.queries(target).map(of))));
        table.row(&cells);
    }
    table.text
}
