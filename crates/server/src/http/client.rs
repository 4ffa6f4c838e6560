//! The client of an HTTP connection, and whose turn it is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::Result;
use freshet_base::clock::Clock;
use freshet_meta::Account;
use parking_lot::Mutex;

use super::Http;
use crate::io::Acks;
use crate::places::Place;

/// The other end of a connection.
pub(super) struct Client {
    /// Its address.
    pub address: SocketAddr,
    /// The address that it came to.
    pub local: SocketAddr,
    /// Whether it or the server is to act.
    pub activity: Activity,
    /// Where it waits for the log.
    pub acks: Arc<Acks>,
    /// Its place among the connections.
    pub place: Mutex<Place>,
}

impl Client {
    /// The place is that of an account from now on.
    ///
    /// # Errors
    /// 1040 and 1203 where there are too many.
    pub(super) fn settle(&self, http: &Http, account: &Account) -> Result<()> {
        if !self.activity.known.load(Ordering::Relaxed) {
            self.place.lock().settle(account, &http.place_limits(), false)?;
            self.activity.known.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whose turn it is on a connection. A client that lets a whole interval pass with nothing but
/// silence, between requests or inside one, loses its connection: one timer a connection, none
/// a request. The interval is short for one that nobody knows, and for the head of a request.
#[derive(Default)]
pub(super) struct Activity {
    working: AtomicBool,
    steps: AtomicU64,
    /// Whether a request is being answered.
    in_request: AtomicBool,
    /// Whether something came of a request whose head is not whole.
    in_head: AtomicBool,
    /// Whether the client has shown who it is.
    known: AtomicBool,
}

/// How long a client may be silent.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// In the head of a request, and before anybody knows it.
    pub head: Duration,
    /// Otherwise.
    pub silence: Duration,
}

impl Activity {
    /// Notes that the client is to act from here on, or has acted.
    pub(super) fn waits_for_client(&self, waits: bool) {
        self.working.store(!waits, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// A request begins or is answered.
    pub(super) fn request(&self, begins: bool) {
        self.in_head.store(false, Ordering::Relaxed);
        self.in_request.store(begins, Ordering::Relaxed);
        self.waits_for_client(!begins);
    }

    /// Bytes came.
    pub(super) fn heard(&self) {
        if !self.in_request.load(Ordering::Relaxed) {
            self.in_head.store(true, Ordering::Relaxed);
        }
    }

    /// Resolves once the client was silent for between one and two intervals.
    pub(super) async fn silence(&self, clock: &dyn Clock, patience: Patience) {
        let interval = patience.head.min(patience.silence);
        let mut before = self.steps.load(Ordering::Relaxed);
        let (mut silent, mut head_before) = (Duration::ZERO, false);
        loop {
            clock.sleep(interval).await;
            let now = self.steps.load(Ordering::Relaxed);
            let in_head = self.in_head.load(Ordering::Relaxed);
            if now == before && !self.working.load(Ordering::Relaxed) {
                silent += interval;
                let unknown = !self.known.load(Ordering::Relaxed);
                let in_request = self.in_request.load(Ordering::Relaxed);
                let soon = !in_request && (unknown || in_head && head_before);
                if soon || silent >= patience.silence {
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
        let patience = Patience { head: interval, silence: interval };
        futures::executor::block_on(activity.silence(&clock, patience));
        activity.waits_for_client(false);
        let silence = std::pin::pin!(activity.silence(&clock, patience));
        let longer = clock.sleep(Duration::from_millis(50));
        let first = futures::executor::block_on(select(silence, longer));
        assert!(matches!(first, Either::Right(_)), "the server works");
        activity.waits_for_client(true);
        assert!(activity.silence(&clock, patience).now_or_never().is_none());
    }
}
