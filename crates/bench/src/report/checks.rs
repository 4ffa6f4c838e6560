//! Compares results with requirements.

use std::fmt;

use super::required::*;
use super::{OURS, Results, geometric_mean, sum};
use crate::result::Line;

pub(super) use super::required::MODE_BASE;

/// A requirement and its result.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) what: String,
    /// `None` if it was not measured.
    pub(super) got: Option<f64>,
    /// `None` if there is only an aim.
    pub(super) must: Option<f64>,
    pub(super) aim: Option<f64>,
    pub(super) bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    AtLeast,
    AtMost,
}

impl Bound {
    fn holds(self, got: f64, wanted: f64) -> bool {
        match self {
            Self::AtLeast => got >= wanted,
            Self::AtMost => got <= wanted,
        }
    }
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

    /// Whether the requirement, or else the aim, is met; `None` if it was not measured.
    pub(super) fn met(&self) -> Option<bool> {
        let wanted = self.must.or(self.aim)?;
        self.got.map(|got| self.bound.holds(got, wanted))
    }
}

impl Check {
    fn verdict(&self) -> &'static str {
        let aim = self.aim.filter(|_| self.must.is_some());
        let reached = self.got.zip(aim).is_some_and(|(got, aim)| self.bound.holds(got, aim));
        match self.met() {
            Some(true) if reached => "met, aim too",
            Some(true) => "met",
            Some(false) if self.must.is_none() => "aim missed",
            Some(false) => "NOT MET",
            None => "not measured",
        }
    }

    fn cells(&self) -> [String; 5] {
        let number =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        let sign = if self.bound == Bound::AtLeast { ">=" } else { "<=" };
        [
            self.verdict().to_owned(),
            self.what.clone(),
            self.got.map_or("-".to_owned(), |got| format!("{got:.3}")),
            format!("{sign} {}", number(self.must)),
            number(self.aim),
        ]
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [verdict, what, got, must, aim] = self.cells();
        write!(f, "{verdict:12} {what:76} {got:>10}  {must:>8}  aim {aim:>5}")
    }
}

/// A Markdown table of all requirements, with the number of those met.
pub(super) fn markdown(results: &Results) -> String {
    let mut text = summary(results);
    text.push_str("\n\n| verdict | what | measured | must | aim |\n");
    text.push_str("| --- | --- | --: | --: | --: |\n");
    for check in all(results) {
        text.push_str(&format!("| {} |\n", check.cells().join(" | ")));
    }
    text
}

/// How many requirements are met, missed and not measured.
pub(super) fn summary(results: &Results) -> String {
    let checks = all(results);
    let musts = || checks.iter().filter(|check| check.must.is_some());
    let count = |met: Option<bool>| musts().filter(|check| check.met() == met).count();
    format!(
        "Of {} requirements {} are met, {} are not, {} were not measured.",
        musts().count(),
        count(Some(true)),
        count(Some(false)),
        count(None)
    )
}

/// All requirements.
pub(super) fn all(results: &Results) -> Vec<Check> {
    let mut checks: Vec<Check> =
        RATIOS.iter().map(|wanted| against_peer(results, wanted)).collect();
    checks.extend(null_server(results));
    checks.extend(peak(results));
    checks.extend(LATENCIES.iter().map(|wanted| latency(results, wanted)));
    checks.extend(SHAPES.iter().map(|wanted| shape(results, wanted)));
    checks.extend(curves(results));
    checks.extend(company(results));
    checks.extend(modes(results));
    checks.extend(forms(results));
    checks.extend(alters(results));
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
        let to_best = |target| results.rate(point, target).zip(best).map(|(at, best)| at / best);
        let must = to_best("null").map_or(PEAK_MUST, |most| PEAK_MUST.min(NULL_SERVER_MUST * most));
        let what = format!("{point}, to the best of {PEAK_PEER}");
        Check::at_least(what, to_best(OURS), must).aim(PEAK_AIM)
    };
    wanted.map(check).collect()
}

fn latency(results: &Results, wanted: &Latency) -> Check {
    let of = |line: &Line| if wanted.quantile > 0.9 { line.p99_ms } else { line.p50_ms };
    let got = results.median(wanted.point, OURS, of);
    let least = results.median(wanted.point, "null", of).map(|ms| ms / NULL_SERVER_MUST);
    let what = format!("{}, p{:.0} in ms", wanted.point, 100.0 * wanted.quantile);
    Check::at_most(what, got, least.unwrap_or(0.0).max(wanted.ms_max))
}

fn shape(results: &Results, wanted: &Shape) -> Check {
    let rates = results.rate(wanted.point, OURS).zip(results.rate(wanted.to, OURS));
    let what = format!("{}, to {}", wanted.point, wanted.to);
    let got = rates.map(|(at, to)| at / to);
    match wanted.must {
        Some(must) => Check::at_least(what, got, must),
        None => Check::only_aim(what, got, wanted.aim, Bound::AtLeast),
    }
}

/// W4: the largest number of connections against the best, and each batch size against the
/// previous.
fn curves(results: &Results) -> Vec<Check> {
    let mut all = results.points();
    all.retain(|point| point.starts_with(PEAK_CURVE));
    let best = all.iter().filter_map(|point| results.rate(point, OURS)).max_by(f64::total_cmp);
    let end = results.rate(PEAK_CURVE_END, OURS).zip(best).map(|(end, best)| end / best);
    let what = format!("{PEAK_CURVE_END}, to the best of the curve");
    let mut checks = vec![Check::at_least(what, end, PEAK_CURVE_END_MUST)];
    let rated = |batch: &usize| {
        let point = format!("W4 sbtest1 text {batch} x 16");
        Some((results.rate(&point, OURS)?, point))
    };
    let by_batch: Vec<(f64, String)> = BATCHES.iter().filter_map(rated).collect();
    for pair in by_batch.windows(2) {
        let [(before, _), (after, point)] = pair else { continue };
        let what = format!("{point}, to the batch before it");
        checks.push(Check::at_least(what, Some(after / before), NEXT_BATCH_MUST));
    }
    checks
}

/// Writes with concurrent queries, and long runs.
fn company(results: &Results) -> Vec<Check> {
    let rates = results.rate(WITH_QUERIES, OURS).zip(results.rate(WITHOUT_QUERIES, OURS));
    let what = format!("{WITH_QUERIES}, to none");
    let beside = rates.map(|(with, without)| with / without);
    let last_to_first = |line: &Line| line.last_to_first().unwrap_or(f64::NAN);
    let kept = results.median(LONG_POINT, OURS, last_to_first).filter(|ratio| !ratio.is_nan());
    let memory_mib = results.hosts.last().map_or(f64::NAN, |host| host.memory_mib as f64);
    let held = results.median(LONG_POINT, OURS, |line| line.server_rss_mib);
    vec![
        Check::at_least(what, beside, WITH_QUERIES_MUST),
        Check::at_least(format!("{LONG_POINT}, last tenth to first"), kept, LONG_MUST),
        Check::at_most(
            format!("{LONG_POINT}, MiB to idle and the write budget"),
            held.map(|mib| mib / (IDLE_MIB_MAX + WRITE_MEMORY_SHARE * memory_mib)),
            1.0,
        ),
    ]
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

fn forms(results: &Results) -> impl Iterator<Item = Check> {
    FORMS.iter().map(|(form, must)| {
        let got = results.ratio(FORMS_POINT, form, OURS);
        Check::at_least(format!("{FORMS_POINT}, {form} to {OURS}"), got, *must)
    })
}

/// Light schema changes beside writes: none fails, none waits.
fn alters(results: &Results) -> impl Iterator<Item = Check> {
    ALTERS_POINTS.iter().flat_map(|point| {
        let errors = results.median(point, OURS, |line| line.errors as f64);
        let gap = results.median(point, OURS, |line| line.gap_ms);
        let what = format!("{point}, ms without an answer");
        [
            Check::at_most(format!("{point}, failed writes"), errors, 0.0),
            Check::at_most(what, gap, ALTERS_GAP_MS_MAX),
        ]
    })
}

fn steadiness(results: &Results) -> Vec<Check> {
    let steady = |point: &&str| {
        let load = point.starts_with("W1 ") || point.starts_with("W2 ");
        load && !point.contains(" + ")
    };
    let tail = |point: &str| {
        let got = results.median(point, OURS, |line| line.p99_ms / line.p50_ms.max(1e-6));
        got.map(|got| Check::at_most(format!("{point}, p99 to p50"), Some(got), P99_TO_P50_MAX))
    };
    let mut checks: Vec<Check> =
        results.points().into_iter().filter(steady).filter_map(tail).collect();
    let lone = results.median(LONE_POINT, OURS, |line| line.p50_ms);
    let got = lone.zip(results.machine_ms(SYNC_FIGURE)).map(|(lone, sync)| lone / sync);
    let null = results.median(LONE_POINT, "null", |line| line.p50_ms);
    let least = null.zip(results.machine_ms(SYNC_FIGURE)).map(|(null, sync)| null / sync);
    let most = least.map_or(0.0, |ratio| ratio / NULL_SERVER_MUST).max(LONE_TO_SYNC_MAX);
    let what = format!("{LONE_POINT}, p50 to one synced write");
    checks.push(Check::at_most(what, got, most));
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
    let against = |target, of: fn(Vec<f64>) -> f64| {
        let times = |target| results.queries(target).map(of);
        times(OURS).zip(times(target)).map(|(ours, theirs)| ours / theirs)
    };
    let chdb = "W7 load, to ClickHouse in process".to_owned();
    let sum_what = "W7 queries, sum to DataFusion's".to_owned();
    let sum = against("datafusion", sum);
    let mean_what = "W7 queries, geometric mean to DuckDB's".to_owned();
    let mean = against("duckdb", geometric_mean);
    vec![
        Check::at_least("W7 load, to DuckDB".to_owned(), faster("duckdb"), LOAD_DUCKDB_MUST),
        Check::only_aim(chdb, faster("chdb"), LOAD_CHDB_AIM, Bound::AtLeast),
        Check::at_most(sum_what, sum, QUERIES_DATAFUSION_MAX),
        Check::only_aim(mean_what, mean, QUERIES_DUCKDB_AIM, Bound::AtMost),
    ]
}
