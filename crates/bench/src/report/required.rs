//! Requirements: ratios to other servers, latencies, shapes of curves.

/// A required ratio of rows per second to those of another server.
pub(super) struct Ratio {
    pub(super) point: &'static str,
    pub(super) peer: &'static str,
    pub(super) must: f64,
    pub(super) aim: f64,
}

const fn ratio(point: &'static str, peer: &'static str, must: f64, aim: f64) -> Ratio {
    Ratio { point, peer, must, aim }
}

/// Ratios to servers that were not measured stay open.
pub(super) const RATIOS: &[Ratio] = &[
    ratio("W1 ints prepared 1 x 30", "mariadb", 3.0, 3.0),
    ratio("W1 ints prepared 1 x 30", "questdb", 1.5, 1.5),
    ratio("W1 ints prepared 1 x 100", "mariadb", 3.5, 3.5),
    ratio("W1 ints prepared 1 x 100", "postgres", 5.0, 5.0),
    ratio("W1 ints prepared 1 x 100", "questdb", 1.5, 1.5),
    ratio("W1 ints prepared 1 x 500", "mariadb", 4.0, 4.0),
    ratio("W1 ints prepared 1 x 500", "postgres", 7.0, 7.0),
    ratio("W1 ints prepared 1 x 500", "questdb", 1.5, 1.5),
    ratio("W1 lineitem prepared 1 x 30", "mariadb", 4.0, 4.0),
    ratio("W1 lineitem prepared 1 x 100", "postgres", 5.0, 5.0),
    ratio("W1 lineitem prepared 1 x 500", "postgres", 7.0, 7.0),
    ratio("W2 lineitem text 100 x 10", "mariadb", 6.0, 8.0),
    ratio("W2 lineitem text 100 x 20", "mariadb", 6.0, 8.0),
    ratio("W2 lineitem text 100 x 30", "mariadb", 6.0, 8.0),
    ratio("W2 lineitem prepared 100 x 10", "postgres", 5.0, 7.0),
    ratio("W2 lineitem prepared 100 x 20", "postgres", 5.0, 7.0),
    ratio("W2 lineitem prepared 100 x 30", "postgres", 5.0, 7.0),
    ratio("W3 ints text 1000 x 30", "postgres", 8.0, 12.0),
    ratio("W3 ints text 1000 x 100", "postgres", 8.0, 12.0),
    ratio("W3 ints text 1000 x 500", "postgres", 8.0, 12.0),
    ratio("W3 ints text 1000 x 30", "mariadb", 35.0, 35.0),
    ratio("W3 ints text 1000 x 100", "mariadb", 35.0, 35.0),
    ratio("W3 ints text 1000 x 500", "mariadb", 35.0, 35.0),
    ratio("W4 sbtest1 text 1 x 16", "mariadb", 4.0, 5.0),
    ratio("W4 sbtest1 text 10 x 16", "mariadb", 4.0, 5.0),
    ratio("W4 sbtest1 text 100 x 16", "mariadb", 5.0, 7.0),
    ratio("W4 sbtest1 text 500 x 16", "mariadb", 5.0, 6.0),
    ratio("W4 sbtest1 text 1000 x 16", "mariadb", 5.0, 6.0),
    ratio("W4 sbtest1 text 2000 x 16", "mariadb", 5.0, 6.0),
    ratio("W4 sbtest1 text 5000 x 16", "mariadb", 5.0, 6.0),
    ratio("W4 sbtest1 text 10000 x 16", "mariadb", 5.0, 6.0),
    ratio("W5 httplogs body 10KB x 10", "questdb", 5.0, 6.0),
    ratio("W5 httplogs body 10KB x 10", "postgres", 5.0, 6.0),
    ratio("W5 httplogs body 100KB x 10", "questdb", 3.5, 4.5),
    ratio("W5 httplogs body 500KB x 10", "postgres", 3.0, 4.0),
    ratio("W5 httplogs body 500KB x 10", "questdb", 3.0, 4.0),
    ratio("W5 httplogs body 1MB x 10", "postgres", 3.0, 4.0),
    ratio("W5 httplogs body 1MB x 10", "questdb", 3.0, 4.0),
    ratio("W5 httplogs body 10KB x 30", "questdb", 5.0, 6.0),
    ratio("W5 httplogs body 10KB x 30", "postgres", 5.0, 6.0),
    ratio("W5 httplogs body 100KB x 30", "questdb", 3.5, 4.5),
    ratio("W5 httplogs body 500KB x 30", "postgres", 3.0, 4.0),
    ratio("W5 httplogs body 500KB x 30", "questdb", 3.0, 4.0),
    ratio("W5 httplogs body 1MB x 30", "postgres", 3.0, 4.0),
    ratio("W5 httplogs body 1MB x 30", "questdb", 3.0, 4.0),
    ratio("W5 httplogs body 10MB x 10", "clickhouse", 2.2, 3.0),
    ratio("W5 httplogs body 10KB x 10", "null", 0.8, 0.8),
    ratio("W5 httplogs body 10KB x 30", "null", 0.8, 0.8),
];

/// Ratios are not required beyond this fraction of the null server.
pub(super) const NULL_SERVER_MUST: f64 = 0.8;
/// The aimed fraction of the null server with single rows of two ints.
pub(super) const NULL_SERVER_AIM: f64 = 0.9;

/// The bound of a latency quantile in milliseconds.
pub(super) struct Latency {
    pub(super) point: &'static str,
    /// 0.5 or 0.99.
    pub(super) quantile: f64,
    pub(super) ms_max: f64,
}

const fn latency(point: &'static str, quantile: f64, ms_max: f64) -> Latency {
    Latency { point, quantile, ms_max }
}

pub(super) const LATENCIES: &[Latency] = &[
    latency("W1 ints prepared 1 x 30", 0.5, 0.35),
    latency("W1 ints prepared 1 x 30", 0.99, 1.5),
    latency("W1 ints prepared 1 x 500", 0.99, 12.0),
    latency("W3 ints text 1000 x 100", 0.99, 60.0),
];

/// A ratio between two points on Freshet.
pub(super) struct Shape {
    pub(super) point: &'static str,
    pub(super) to: &'static str,
    /// `None` if there is only an aim.
    pub(super) must: Option<f64>,
    pub(super) aim: f64,
}

const fn shape(point: &'static str, to: &'static str, must: f64) -> Shape {
    Shape { point, to, must: Some(must), aim: must }
}

const fn aim(point: &'static str, to: &'static str, aim: f64) -> Shape {
    Shape { point, to, must: None, aim }
}

pub(super) const SHAPES: &[Shape] = &[
    shape("W1 ints prepared 1 x 500", "W1 ints prepared 1 x 100", 0.9),
    shape("W1 lineitem prepared 1 x 500", "W1 lineitem prepared 1 x 100", 0.9),
    shape("W3 ints text 1000 x 500", "W3 ints text 1000 x 100", 0.9),
    shape("W4 sbtest1 text 10000 x 16", "W4 sbtest1 text 1000 x 16", 0.9),
    aim("W1 lineitem prepared 1 x 30", "W1 ints prepared 1 x 30", 0.8),
    aim("W1 lineitem prepared 1 x 100", "W1 ints prepared 1 x 100", 0.8),
    aim("W1 lineitem prepared 1 x 500", "W1 ints prepared 1 x 500", 0.8),
    aim("W3 ints text 1000 x 500", "W3 ints text 1000 x 30", 0.9),
];

/// The last point of W4 by connections relative to the best one.
pub(super) const PEAK_CURVE_END: &str = "W4 sbtest1 text 1000 x 128";
pub(super) const PEAK_CURVE_END_MUST: f64 = 0.95;
/// Each batch size of W4 relative to the previous one: there must be no sharp drop.
pub(super) const BATCHES: [usize; 8] = [1, 10, 100, 500, 1000, 2000, 5000, 10_000];
pub(super) const NEXT_BATCH_MUST: f64 = 0.9;

pub(super) const WITH_QUERIES: &str = "W2 lineitem text 100 x 20 + 2 queries";
pub(super) const WITHOUT_QUERIES: &str = "W2 lineitem text 100 x 20 + 0 queries";
pub(super) const WITH_QUERIES_MUST: f64 = 0.5;

pub(super) const LONG_POINT: &str = "W2 lineitem text 100 x 20 long";
pub(super) const LONG_MUST: f64 = 0.9;
/// The default fraction of memory for writes.
pub(super) const WRITE_MEMORY_SHARE: f64 = 0.4;

/// W4 by connections, relative to MariaDB's best point on that curve.
pub(super) const PEAK_MUST: f64 = 4.0;
pub(super) const PEAK_AIM: f64 = 5.0;
pub(super) const PEAK_PEER: &str = "mariadb";
pub(super) const PEAK_CURVE: &str = "W4 sbtest1 text 1000 x ";
pub(super) const PEAK_CONNECTIONS_MIN: usize = 4;

/// Durability modes relative to `async_mode`, over W1 and W2.
pub(super) const MODES: [(&str, f64); 2] = [("freshet-sync", 0.95), ("freshet", 0.9)];
pub(super) const MODE_BASE: &str = "freshet-async";

/// Forms of large bodies relative to plain CSV, in rows.
pub(super) const FORMS: [(&str, f64); 3] =
    [("freshet-mapped", 0.5), ("freshet-parquet", 2.0), ("freshet-2pc", 0.8)];
pub(super) const FORMS_POINT: &str = "W10 httplogs body 10MB x 10";

/// W1 and W2 while a column comes and goes.
pub(super) const ALTERS_POINTS: [&str; 2] =
    ["W1 ints prepared 1 x 100 + alters", "W2 lineitem text 100 x 20 + alters"];
pub(super) const ALTERS_GAP_MS_MAX: f64 = 50.0;

/// The maximum ratio of p99 to p50 under steady load.
pub(super) const P99_TO_P50_MAX: f64 = 5.0;
/// The maximum ratio of a single client's synced insert to a synced write.
pub(super) const LONE_TO_SYNC_MAX: f64 = 1.5;
pub(super) const LONE_POINT: &str = "W1 ints prepared 1 x 1";
pub(super) const SYNC_FIGURE: &str = "synced overwrite, 4 KiB";

pub(super) const IDLE_MIB_MAX: f64 = 150.0;
pub(super) const MANY_CLIENTS_MIB_MAX: f64 = 400.0;
pub(super) const MANY_CLIENTS_POINT: &str = "W1 ints prepared 1 x 500";

pub(super) const MANY_TABLES_POINT: &str = "W9 ints text 1 x 20 1000 tables";
pub(super) const ONE_TABLE_POINT: &str = "W9 ints text 1 x 20";
pub(super) const MANY_TABLES_CORES: (f64, f64) = (0.2, 0.1);
pub(super) const MANY_TABLES_FILES_MAX: f64 = 1000.0;
/// The maximum ratio of p50 with many tables to p50 with one: equal, except for noise.
pub(super) const MANY_TABLES_P50_MAX: f64 = 1.2;

/// The load of `lineitem`: the duration of another engine divided by ours.
pub(super) const LOAD_DUCKDB_MUST: f64 = 1.5;
pub(super) const LOAD_CHDB_AIM: f64 = 1.0;
/// The maximum ratio of the sum of the 22 queries to DataFusion's.
pub(super) const QUERIES_DATAFUSION_MAX: f64 = 0.7;
/// The geometric mean of the 22 queries relative to DuckDB's.
pub(super) const QUERIES_DUCKDB_AIM: f64 = 1.0;
