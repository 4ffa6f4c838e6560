//! The production environment of an engine.

use std::sync::Arc;

use freshet_base::clock::SystemClock;
use freshet_base::fail::Failpoints;
use freshet_base::io::RealFs;
use freshet_base::metrics::Metrics;
use freshet_base::task::Threads;

use crate::World;

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
