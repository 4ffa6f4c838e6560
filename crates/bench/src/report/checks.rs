//! Compares results with what is required.

use std::fmt;

use super::required::*;
use super::{OURS, Results};
use crate::result::Line;

/// One requirement and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) what: String,
    /// `None` when it was not measured.
    pub(super) got: Option<f64>,
    /// `None` where there is only an aim.
    pub(super) must: Option<f64>,
    pub(super) aim: Option<f64>,
    pub(super) bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    AtLeast,
    AtMost,
}

impl Check {
    fn at_least(what: String, got: Option<f64>, must: f64) -> Self {
        Self { what, got, must: Some(must), aim: None, bound: Bound::AtLeast }
    }

    fn at_most(what: String, got: Option<f64>, must: f64) -> Self {
        Self { what, got, must: Some(must), aim: None, bound: Bound::AtMost }
    }

    fn only_aim(what: String, got: Option<f64>, aim: f64, bound: Bound) -> Self {
        Self { what, got, must: None, aim: Some(aim), bound }
    }

    fn aim(self, aim: f64) -> Self {
        Self { aim: Some(aim), ..self }
    }

    /// Whether it is met, or reaches its aim if nothing is required; `None` when it was not
    /// measured.
    pub(super) fn met(&self) -> Option<bool> {
        let wanted = self.must.or(self.aim)?;
        self.got.map(|got| match self.bound {
            Bound::AtLeast => got >= wanted,
            Bound::AtMost => got <= wanted,
        })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.met() {
            Some(true) => "met",
            Some(false) if self.must.is_none() => "aim missed",
            Some(false) => "NOT MET",
            None => "not measured",
        };
        let sign = if self.bound == Bound::AtLeast { ">=" } else { "<=" };
        let got = self.got.map_or("-".to_owned(), |got| format!("{got:.3}"));
        write!(f, "{word:12} {:66} {got:>10}  {sign}", self.what)?;
        if let Some(must) = self.must {
            write!(f, " {must:.2}")?;
        }
        match self.aim {
            Some(aim) => write!(f, " (aim {aim:.2})"),
            None => Ok(()),
        }
    }
}

/// Every requirement.
pub(super) fn all(results: &Results) -> Vec<Check> {
    let mut checks: Vec<Check> =
        RATIOS.iter().map(|wanted| against_peer(results, wanted)).collect();
    checks.extend(null_server(results));
    checks.extend(peak(results));
    checks.extend(LATENCIES.iter().map(|wanted| latency(results, wanted)));
    checks.extend(SHAPES.iter().map(|wanted| shape(results, wanted)));
    checks.extend(modes(results));
    checks.extend(steadiness(results));
    checks.extend(memory(results));
    checks.extend(many_tables(results));
    checks.extend(tpch(results));
    checks
}

fn against_peer(results: &Results, wanted: &Ratio) -> Check {
    let got = results.ratio(wanted.point, OURS, wanted.peer);
    let possible = results.ratio(wanted.point, "null", wanted.peer);
    let must = possible.map_or(wanted.must, |most| wanted.must.min(NULL_SERVER_MUST * most));
    Check::at_least(format!("{}, to {}", wanted.point, wanted.peer), got, must).aim(wanted.aim)
}

fn null_server(results: &Results) -> Vec<Check> {
    let points = [30, 100, 500].map(|n| format!("W1 ints prepared 1 x {n}"));
    let check = |point: &String| {
        let got = results.ratio(point, OURS, "null");
        let what = format!("{point}, to the null server");
        Check::only_aim(what, got, NULL_SERVER_AIM, Bound::AtLeast)
    };
    points.iter().map(check).collect()
}

fn peak(results: &Results) -> Vec<Check> {
    let curve = |point: &&str| point.starts_with(PEAK_CURVE);
    let points: Vec<&str> = results.points().into_iter().filter(curve).collect();
    let rates = points.iter().filter_map(|point| results.rate(point, PEAK_PEER));
    let best = rates.max_by(f64::total_cmp);
    let connections = |point: &str| point[PEAK_CURVE.len()..].parse().unwrap_or(0usize);
    let wanted = points.iter().filter(|point| connections(point) >= PEAK_CONNECTIONS_MIN);
    let check = |point: &&str| {
        let got = results.rate(point, OURS).zip(best).map(|(ours, best)| ours / best);
        let what = format!("{point}, to the best of {PEAK_PEER}");
        Check::at_least(what, got, PEAK_MUST).aim(PEAK_AIM)
    };
    wanted.map(check).collect()
}

fn latency(results: &Results, wanted: &Latency) -> Check {
    let of = |line: &Line| if wanted.quantile > 0.9 { line.p99_ms } else { line.p50_ms };
    let got = results.median(wanted.point, OURS, of);
    let what = format!("{}, p{:.0} in ms", wanted.point, 100.0 * wanted.quantile);
    Check::at_most(what, got, wanted.ms_max)
}

fn shape(results: &Results, wanted: &Shape) -> Check {
    let rates = results.rate(wanted.point, OURS).zip(results.rate(wanted.to, OURS));
    let what = format!("{}, to {}", wanted.point, wanted.to);
    Check::at_least(what, rates.map(|(at, to)| at / to), wanted.must)
}

fn modes(results: &Results) -> Vec<Check> {
    let mut checks = Vec::new();
    for point in results.points() {
        for (mode, must) in MODES {
            if let Some(got) = results.ratio(point, mode, MODE_BASE) {
                let what = format!("{point}, {mode} to {MODE_BASE}");
                checks.push(Check::at_least(what, Some(got), must));
            }
        }
    }
    checks
}

fn steadiness(results: &Results) -> Vec<Check> {
    let steady = |point: &&str| point.starts_with("W1") || point.starts_with("W2");
    let tail = |point: &str| {
        let got = results.median(point, OURS, |line| line.p99_ms / line.p50_ms.max(1e-6));
        got.map(|got| Check::at_most(format!("{point}, p99 to p50"), Some(got), P99_TO_P50_MAX))
    };
    let mut checks: Vec<Check> =
        results.points().into_iter().filter(steady).filter_map(tail).collect();
    let lone = results.median(LONE_POINT, OURS, |line| line.p50_ms);
    let got = lone.zip(results.machine_ms(SYNC_FIGURE)).map(|(lone, sync)| lone / sync);
    let what = format!("{LONE_POINT}, p50 to one synced write");
    checks.push(Check::at_most(what, got, LONE_TO_SYNC_MAX));
    checks
}

fn memory(results: &Results) -> [Check; 2] {
    let ours = results.lines.iter().find(|line| line.target == OURS);
    let idle = ours.map(|line| line.server_rss_before_mib);
    let many = results.median(MANY_CLIENTS_POINT, OURS, |line| line.server_rss_mib);
    let over = many.zip(idle).map(|(many, idle)| many - idle);
    let what = format!("{MANY_CLIENTS_POINT}, MiB over idle");
    [
        Check::at_most("memory of the idle server, MiB".to_owned(), idle, IDLE_MIB_MAX),
        Check::at_most(what, over, MANY_CLIENTS_MIB_MAX),
    ]
}

fn many_tables(results: &Results) -> [Check; 3] {
    let point = MANY_TABLES_POINT;
    let cores = results.median(point, OURS, |line| line.server_cores);
    let files = results.median(point, OURS, |line| line.files_made.unwrap_or(0) as f64);
    let p50 = |point| results.median(point, OURS, |line| line.p50_ms);
    let ratio = p50(point).zip(p50(ONE_TABLE_POINT)).map(|(many, one)| many / one);
    let (must, aim) = MANY_TABLES_CORES;
    let what = format!("{point}, p50 to one table's");
    [
        Check::at_most(format!("{point}, cores"), cores, must).aim(aim),
        Check::at_most(format!("{point}, files made"), files, MANY_TABLES_FILES_MAX).aim(0.0),
        Check::at_most(what, ratio, MANY_TABLES_P50_MAX),
    ]
}

fn tpch(results: &Results) -> Vec<Check> {
    let load = |target| results.tpch_seconds("load lineitem", target);
    let faster = |target| load(target).zip(load(OURS)).map(|(theirs, ours)| theirs / ours);
    let sum = |target| queries(results, target).map(|times| times.iter().sum::<f64>());
    let mean = |target| {
        let times = queries(results, target)?;
        Some((times.iter().map(|time| time.ln()).sum::<f64>() / times.len() as f64).exp())
    };
    let against = |theirs: Option<f64>, ours: Option<f64>| ours.zip(theirs).map(|(o, t)| o / t);
    let datafusion = against(sum("datafusion"), sum(OURS));
    let duckdb = against(mean("duckdb"), mean(OURS));
    let chdb = "W7 load, to ClickHouse in process".to_owned();
    let sum_what = "W7 queries, sum to DataFusion's".to_owned();
    let mean_what = "W7 queries, geometric mean to DuckDB's".to_owned();
    vec![
        Check::at_least("W7 load, to DuckDB".to_owned(), faster("duckdb"), LOAD_DUCKDB_MUST),
        Check::only_aim(chdb, faster("chdb"), LOAD_CHDB_AIM, Bound::AtLeast),
        Check::at_most(sum_what, datafusion, QUERIES_DATAFUSION_MAX),
        Check::only_aim(mean_what, duckdb, QUERIES_DUCKDB_AIM, Bound::AtMost),
    ]
}

/// Seconds of the 22 queries; `None` unless all were run.
fn queries(results: &Results, target: &str) -> Option<Vec<f64>> {
    (1..=22).map(|number| results.tpch_seconds(&format!("q{number}"), target)).collect()
}
