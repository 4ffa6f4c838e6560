//! All metrics, declared in one list; `/metrics` prints them.

mod streams;

use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder,
};
pub use prometheus::{IntCounter, IntGauge};
pub use streams::{EndedStream, RunningStream, StreamMetrics};

/// The metrics of one server.
pub struct Metrics {
    registry: Registry,
    pub loads: IntCounter,
    pub rows: IntCounter,
    pub rows_rejected: IntCounter,
    pub load_bytes: IntCounter,
    /// Commit groups ended, by reason.
    pub groups_ended: IntCounterVec,
    /// Flushes published, by reason.
    pub flushes: IntCounterVec,
    /// Flush attempts that failed; they are retried.
    pub flushes_failed: IntCounter,
    pub flush_seconds: Histogram,
    pub wal_records: IntCounter,
    /// Log bytes written, padding included.
    pub wal_bytes: IntCounter,
    pub wal_syncs: IntCounter,
    /// Duration of one synced write.
    pub wal_sync_seconds: Histogram,
    /// Open groups that have rows; `get_wal_size` reports the same.
    pub wal_total_count: IntGauge,
    /// What holds writers back.
    pub held_back: HeldBackMetrics,
    /// Log files in use or prepared.
    pub wal_files: IntGauge,
    /// Bytes of rows in deltas, not yet in files.
    pub delta_bytes: IntGauge,
    pub write_memory_bytes: IntGauge,
    /// Bytes kept for clients between commands.
    pub client_memory_bytes: IntGauge,
    /// Bytes of rows in files that only open snapshots keep alive.
    pub snapshot_memory_bytes: IntGauge,
    /// Memory of segment footers.
    pub footer_memory_bytes: IntGauge,
    /// Memory of filters and blocks of keys.
    pub key_memory_bytes: IntGauge,
    /// Footers found in memory.
    pub footer_hits: IntCounter,
    /// Footers read.
    pub footer_misses: IntCounter,
    pub segment_reads: IntCounter,
    pub segment_read_bytes: IntCounter,
    /// Parts of tables that were tested against conditions of queries, by level.
    pub scan_parts: IntCounterVec,
    /// Those of them that were left to be read, by level.
    pub scan_parts_left: IntCounterVec,
    pub snapshots: IntGauge,
    /// Snapshots closed because their memory was needed elsewhere.
    pub snapshots_closed: IntGauge,
    /// The sum of the versions of all tables.
    pub versions: IntGauge,
    pub rowsets: IntGauge,
    pub compactions: IntCounter,
    pub rows_forgotten: IntCounter,
    pub compaction_bytes: IntCounter,
    /// Statements, by kind.
    pub statements: IntCounterVec,
    /// The `insert` child of `statements`: looking it up for every insert costs too much.
    pub inserts: IntCounter,
    /// The `query` child of `statements`.
    pub queries: IntCounter,
    /// Queries answered by a key alone.
    pub point_reads: IntCounter,
    /// UPDATE and DELETE of a row by its key, without a plan.
    pub point_changes: IntCounter,
    /// Pieces of INSERTs that were read in several.
    pub insert_pieces: IntCounter,
    /// Query time, planning included.
    pub query_seconds: Histogram,
    pub groups: GroupMetrics,
    pub connections: IntGauge,
    /// Stream loads, by status.
    pub stream_loads: IntCounterVec,
    pub streams: StreamMetrics,
    /// Errors sent to clients, by MySQL errno.
    pub errors: IntCounterVec,
}

/// The queries of workload groups, by group.
pub struct GroupMetrics {
    /// Those that run.
    pub running: IntGaugeVec,
    /// Those that wait.
    pub waiting: IntGaugeVec,
    /// Those that found no place or waited too long.
    pub refused: IntCounterVec,
}

/// What holds writers back, by the names of Doris.
pub struct HeldBackMetrics {
    /// Open groups of the table with most of them.
    pub wal_max_count_per_table: IntGauge,
    /// Writes that the log has had no room for in time, since the start.
    pub by_log: IntGauge,
    /// Writes that have waited for memory, since the start.
    pub by_memory: IntGauge,
    /// Writes that have waited for look-ups of keys, since the start.
    pub by_keys: IntGauge,
}

impl HeldBackMetrics {
    fn new(all: &Registrar) -> Self {
        Self {
            wal_max_count_per_table: all.gauge(
                "wal_max_count_per_table",
                "Open groups with rows of the table with most of them: a table has one at most",
            ),
            by_log: all.gauge(
                "group_commit_wal_fail",
                "Writes that the log had no room for in time, since start",
            ),
            by_memory: all.gauge(
                "group_commit_block_by_memory_counter",
                "Writes that had to wait for memory, since start",
            ),
            by_keys: all.gauge(
                "writes_behind_keys",
                "Writes that had to wait for look-ups of keys, since start",
            ),
        }
    }
}

impl GroupMetrics {
    fn new(all: &Registrar) -> Self {
        let gauge = |name: &str, help: &str| all.labelled_gauge(name, help, "workload_group");
        Self {
            running: gauge("workload_group_running", "Queries that run"),
            waiting: gauge("workload_group_waiting", "Queries that wait for those"),
            refused: all.labelled(
                "workload_group_refused_total",
                "Queries that found no place or waited too long",
                "workload_group",
            ),
        }
    }
}

/// Buckets from 20 us to 5 s.
const LATENCY_SECONDS: &[f64] = &[
    0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
    1.0, 2.0, 5.0,
];

/// Where metrics get their names.
struct Registrar(Registry);

impl Registrar {
    fn counter(&self, name: &str, help: &str) -> IntCounter {
        let metric = IntCounter::new(format!("freshet_{name}"), help).expect("a valid name");
        self.added(metric)
    }

    fn gauge(&self, name: &str, help: &str) -> IntGauge {
        let metric = IntGauge::new(format!("freshet_{name}"), help).expect("a valid name");
        self.added(metric)
    }

    fn labelled(&self, name: &str, help: &str, label: &str) -> IntCounterVec {
        let opts = Opts::new(format!("freshet_{name}"), help);
        self.added(IntCounterVec::new(opts, &[label]).expect("a valid name"))
    }

    fn labelled_gauge(&self, name: &str, help: &str, label: &str) -> IntGaugeVec {
        let opts = Opts::new(format!("freshet_{name}"), help);
        self.added(IntGaugeVec::new(opts, &[label]).expect("a valid name"))
    }

    fn histogram(&self, name: &str, help: &str) -> Histogram {
        let opts =
            HistogramOpts::new(format!("freshet_{name}"), help).buckets(LATENCY_SECONDS.to_vec());
        self.added(Histogram::with_opts(opts).expect("a valid name"))
    }

    fn added<T: Collector + Clone + 'static>(&self, metric: T) -> T {
        self.0.register(Box::new(metric.clone())).expect("one name, one metric");
        metric
    }
}

impl Metrics {
    pub fn new() -> Self {
        let all = Registrar(Registry::new());
        let counter = |name: &str, help: &str| all.counter(name, help);
        let gauge = |name: &str, help: &str| all.gauge(name, help);
        let labelled = |name: &str, help: &str, label: &str| all.labelled(name, help, label);
        let histogram = |name: &str, help: &str| all.histogram(name, help);
        let statements = labelled("statements_total", "Statements", "kind");
        Self {
            loads: counter("loads_total", "Loads acknowledged"),
            rows: counter("rows_total", "Rows acknowledged"),
            rows_rejected: counter("rows_rejected_total", "Rows refused"),
            load_bytes: counter("load_bytes_total", "Encoded bytes acknowledged"),
            groups_ended: labelled("groups_ended_total", "Groups ended", "reason"),
            flushes: labelled("flushes_total", "Flushes published", "reason"),
            flushes_failed: counter("flushes_failed_total", "Flushes that failed"),
            flush_seconds: histogram("flush_seconds", "Time of a flush"),
            wal_records: counter("wal_records_total", "Log records appended"),
            wal_bytes: counter("wal_bytes_total", "Log bytes written"),
            wal_syncs: counter("wal_syncs_total", "Synced writes of the log"),
            wal_sync_seconds: histogram("wal_sync_seconds", "Time of one synced write"),
            wal_total_count: gauge("wal_total_count", "Open groups with rows"),
            held_back: HeldBackMetrics::new(&all),
            wal_files: gauge("wal_files", "Log files in use or ready"),
            delta_bytes: gauge("delta_bytes", "Bytes of rows in memory, not in files"),
            write_memory_bytes: gauge("write_memory_bytes", "Bytes of the write budget in use"),
            client_memory_bytes: gauge("client_memory_bytes", "Bytes kept between commands"),
            snapshot_memory_bytes: gauge(
                "snapshot_memory_bytes",
                "Bytes of rows in files that only open snapshots keep",
            ),
            footer_memory_bytes: gauge("footer_memory_bytes", "Bytes of footers in memory"),
            key_memory_bytes: gauge("key_memory_bytes", "Bytes of filters and blocks of keys"),
            footer_hits: counter("footer_hits_total", "Footers found in memory"),
            footer_misses: counter("footer_misses_total", "Footers read"),
            segment_reads: counter("segment_reads_total", "Reads of segments"),
            segment_read_bytes: counter("segment_read_bytes_total", "Bytes read of segments"),
            scan_parts: labelled(
                "scan_parts_total",
                "Parts of tables that conditions of queries were held against",
                "level",
            ),
            scan_parts_left: labelled(
                "scan_parts_left_total",
                "Parts of tables that conditions of queries left to be read",
                "level",
            ),
            snapshots: gauge("snapshots", "Open snapshots"),
            snapshots_closed: gauge("snapshots_closed", "Snapshots closed as too old since start"),
            versions: gauge("versions", "Versions that tables have reached, all together"),
            rowsets: gauge("rowsets", "Rowsets over all tablets"),
            compactions: counter("compactions_total", "Compactions done"),
            rows_forgotten: counter("rows_forgotten_total", "Rows that delete and are forgotten"),
            compaction_bytes: counter("compaction_bytes_total", "Bytes written by compaction"),
            insert_pieces: counter("insert_pieces_total", "Pieces of INSERTs that were SPLIT"),
            inserts: statements.with_label_values(&["insert"]),
            queries: statements.with_label_values(&["query"]),
            point_reads: counter("point_reads_total", "SELECTs answered by their key alone"),
            point_changes: counter("point_changes_total", "UPDATEs and DELETEs by key alone"),
            statements,
            query_seconds: histogram("query_seconds", "Time of queries"),
            groups: GroupMetrics::new(&all),
            connections: gauge("connections", "Open client connections"),
            stream_loads: labelled("stream_loads_total", "Stream loads", "status"),
            streams: StreamMetrics::new(&all),
            errors: labelled("errors_total", "Errors answered", "errno"),
            registry: all.0,
        }
    }

    /// All metrics as Prometheus text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        TextEncoder::new()
            .encode_utf8(&self.registry.gather(), &mut text)
            .expect("metrics are valid text");
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_what_was_counted() {
        let metrics = Metrics::new();
        metrics.rows.inc_by(3);
        metrics.groups_ended.with_label_values(&["interval"]).inc();
        let text = metrics.render();
        assert!(text.contains("freshet_rows_total 3"));
        assert!(text.contains("freshet_groups_ended_total{reason=\"interval\"} 1"));
        assert!(text.contains("freshet_wal_total_count 0"));
    }
}
