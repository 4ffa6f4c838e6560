//! The environment of an engine: files, clock, threads and chance.

use std::sync::Arc;

use freshet_base::clock::{ClockRef, SystemClock};
use freshet_base::fail::Failpoints;
use freshet_base::io::{FsRef, RealFs};
use freshet_base::metrics::Metrics;
use freshet_base::task::{PoolRef, Threads};

/// External dependencies of the engine.
#[derive(Clone)]
pub struct World {
    pub fs: FsRef,
    pub clock: ClockRef,
    pub pool: PoolRef,
    pub metrics: Arc<Metrics>,
    /// Where tests inject failures.
    pub failpoints: Failpoints,
    /// Ends the process after a failed sync; the argument is a message for the operator.
    pub on_fatal: Arc<dyn Fn(&str) + Send + Sync>,
    /// Random numbers, for the id of a store and the secrets of its log.
    pub draw: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl World {
    /// Files, clock and threads of this machine, with new metrics and without failpoints.
    pub fn real(
        threads: Threads,
        on_fatal: fn(&str),
        draw: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            fs: Arc::new(RealFs),
            clock: Arc::new(SystemClock::new()),
            pool: Arc::new(threads),
            metrics: Arc::new(Metrics::new()),
            failpoints: Failpoints::default(),
            on_fatal: Arc::new(on_fatal),
            draw: Arc::new(draw),
        }
    }
}
