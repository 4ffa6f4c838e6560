//! Stream loads under the names that dashboards of Doris read.

use std::time::Duration;

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};

use super::Registrar;

/// Stream Loads and Http Streams, by the names of a backend of Doris.
pub struct StreamMetrics {
    requests: IntCounter,
    http_requests: IntCounter,
    duration_ms: IntCounter,
    running: IntGauge,
    begun: IntCounter,
    committed: IntCounter,
    rolled_back: IntCounter,
    /// Bytes received and rows loaded.
    amounts: IntCounterVec,
}

/// A load that runs: it is counted as long as this lives.
pub struct RunningStream<'a>(&'a IntGauge);

impl Drop for RunningStream<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What became of a load.
pub struct EndedStream {
    pub took: Duration,
    pub body_bytes: u64,
    pub rows_loaded: u64,
    /// Whether its rows are committed, or wait for their second phase.
    pub is_done: bool,
    /// Whether a group has committed it, and no transaction of its own.
    pub is_grouped: bool,
}

impl StreamMetrics {
    pub(super) fn new(all: &Registrar) -> Self {
        let counter = |name: &str, help: &str| {
            let name = format!("doris_be_{name}");
            all.added(IntCounter::new(name, help).expect("a valid name"))
        };
        let running = IntGauge::new("doris_be_streaming_load_current_processing", "Loads that run");
        let amounts = Opts::new("doris_be_stream_load", "Bytes received and rows loaded");
        let amounts = IntCounterVec::new(amounts, &["type"]).expect("a valid name");
        Self {
            requests: counter("streaming_load_requests_total", "Stream Loads and Http Streams"),
            http_requests: counter("http_stream_requests_total", "Http Streams"),
            duration_ms: counter("streaming_load_duration_ms", "Time of all of them"),
            running: all.added(running.expect("a valid name")),
            begun: counter("stream_load_txn_begin_request_total", "Transactions begun"),
            committed: counter("stream_load_txn_commit_request_total", "Transactions committed"),
            rolled_back: counter(
                "stream_load_txn_rollback_request_total",
                "Transactions rolled back",
            ),
            amounts: all.added(amounts),
        }
    }

    /// Counts a load that begins.
    pub fn begin(&self, is_http_stream: bool) -> RunningStream<'_> {
        self.requests.inc();
        self.http_requests.inc_by(u64::from(is_http_stream));
        self.running.inc();
        RunningStream(&self.running)
    }

    /// Counts what became of it.
    pub fn end(&self, ended: &EndedStream) {
        self.duration_ms.inc_by(u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX));
        self.amounts.with_label_values(&["receive_bytes"]).inc_by(ended.body_bytes);
        self.amounts.with_label_values(&["load_rows"]).inc_by(ended.rows_loaded);
        if ended.is_grouped && ended.is_done {
            return;
        }
        self.begun.inc();
        match ended.is_done {
            true => self.committed.inc(),
            false => self.rolled_back.inc(),
        }
    }
}
