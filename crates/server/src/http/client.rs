//! The client of an HTTP connection, and its idle timeout.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use freshet_base::Result;
use freshet_base::clock::Clock;
use freshet_meta::Account;
use parking_lot::Mutex;

use super::Http;
use crate::io::Acks;
use crate::slots::ConnectionSlot;
use crate::tls::Transport;

/// The client of a connection.
pub(super) struct Client {
    pub address: SocketAddr,
    /// The server's address that it connected to.
    pub local: SocketAddr,
    pub activity: Activity,
    /// Through which it waits for the log.
    pub acks: Arc<Acks>,
    /// Its connection slot.
    pub slot: Mutex<ConnectionSlot>,
    /// How it is connected, once its first bytes have shown it.
    pub transport: OnceLock<Transport>,
}

impl Client {
    /// How it is connected.
    pub(super) fn transport(&self) -> Transport {
        self.transport.get().copied().unwrap_or_default()
    }

    /// The scheme of its URLs.
    pub(super) fn scheme(&self) -> &'static str {
        if self.transport().encrypted { "https" } else { "http" }
    }

    /// Assigns the connection slot to an authenticated account.
    ///
    /// # Errors
    /// 1040, 1203 and 1226 at the limits.
    pub(super) fn assign_slot(&self, http: &Http, account: &Account) -> Result<()> {
        if !self.activity.authenticated.load(Ordering::Relaxed) {
            let (limits, mut slot) = (http.slot_limits(), self.slot.lock());
            http.sessions.seat_within(&limits, &mut slot, account, false)?;
            self.activity.authenticated.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Tracks whether the client or the server has to act next, for the idle timeout. A client that is
/// silent for a whole interval, between requests or inside one, loses its connection. There is one
/// timer per connection, not per request. The interval is shorter before authentication and inside
/// the head of a request.
#[derive(Default)]
pub(super) struct Activity {
    working: AtomicBool,
    steps: AtomicU64,
    /// Whether a request is being processed.
    in_request: AtomicBool,
    /// Whether the head of a request was received in part.
    in_head: AtomicBool,
    /// Whether the client is authenticated.
    authenticated: AtomicBool,
}

/// Idle timeouts.
#[derive(Clone, Copy)]
pub(super) struct IdleTimeouts {
    /// In the head of a request, and before authentication.
    pub head: Duration,
    pub silence: Duration,
}

impl Activity {
    /// Records that the server waits for the client, or no longer does.
    pub(super) fn waits_for_client(&self, waits: bool) {
        self.working.store(!waits, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the begin or the end of a request.
    pub(super) fn request(&self, begins: bool) {
        self.in_head.store(false, Ordering::Relaxed);
        self.in_request.store(begins, Ordering::Relaxed);
        self.waits_for_client(!begins);
    }

    /// Records that bytes were received.
    pub(super) fn received(&self) {
        if !self.in_request.load(Ordering::Relaxed) {
            self.in_head.store(true, Ordering::Relaxed);
        }
    }

    /// Resolves once the client was silent for one to two intervals.
    pub(super) async fn silence(&self, clock: &dyn Clock, timeouts: IdleTimeouts) {
        let interval = timeouts.head.min(timeouts.silence);
        let mut before = self.steps.load(Ordering::Relaxed);
        let (mut silent, mut head_before) = (Duration::ZERO, false);
        loop {
            clock.sleep(interval).await;
            let now = self.steps.load(Ordering::Relaxed);
            let in_head = self.in_head.load(Ordering::Relaxed);
            if now == before && !self.working.load(Ordering::Relaxed) {
                silent += interval;
                let unauthenticated = !self.authenticated.load(Ordering::Relaxed);
                let in_request = self.in_request.load(Ordering::Relaxed);
                let soon = !in_request && (unauthenticated || in_head && head_before);
                if soon || silent >= timeouts.silence {
                    return;
                }
            } else {
                silent = Duration::ZERO;
            }
            (before, head_before) = (now, in_head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_base::clock::SystemClock;
    use futures::FutureExt;
    use futures::future::{Either, select};

    #[test]
    fn silence_counts_only_while_the_client_is_to_act() {
        let clock = SystemClock::new();
        let activity = Activity::default();
        let interval = Duration::from_millis(5);
        let timeouts = IdleTimeouts { head: interval, silence: interval };
        futures::executor::block_on(activity.silence(&clock, timeouts));
        activity.waits_for_client(false);
        let silence = std::pin::pin!(activity.silence(&clock, timeouts));
        let longer = clock.sleep(Duration::from_millis(50));
        let first = futures::executor::block_on(select(silence, longer));
        assert!(matches!(first, Either::Right(_)), "the server works");
        activity.waits_for_client(true);
        assert!(activity.silence(&clock, timeouts).now_or_never().is_none());
    }
}
