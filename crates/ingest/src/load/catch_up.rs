//! Large loads wait for flushes that have fallen behind (RFC 0068).

use std::sync::atomic::Ordering;
use std::time::Duration;

use freshet_base::clock::Deadline;

use super::Load;
use crate::stops::BEHIND_FLUSHES;

/// How long a large load waits for flushes that have fallen behind, and how often it looks.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(10);
const CATCH_UP_LOOK: Duration = Duration::from_millis(5);

impl Load<'_> {
    /// Waits for flushes of its table that have fallen behind and succeed, for a while: what a
    /// large load adds to them would take new memory, which is dearer than what they are about to
    /// give back.
    pub async fn let_flushes_catch_up(&self, deadline: Deadline) {
        let (clock, state) = (self.engine.clock(), &self.target.state);
        let flush_bytes = state.flush_bytes(self.engine.config());
        let behind_bytes = flush_bytes.saturating_mul(BEHIND_FLUSHES);
        let deadline = deadline.min(Deadline::after(&**clock, CATCH_UP_PATIENCE));
        let are_done = || {
            let fail = state.flush_failures.load(Ordering::Relaxed) > 0;
            let is_gone = state.is_dropped() || self.engine.store.keeper.is_stopping();
            fail || is_gone || state.delta.stats().bytes <= behind_bytes
        };
        while !are_done() && clock.now() < deadline.0 {
            clock.sleep(CATCH_UP_LOOK).await;
        }
    }
}
