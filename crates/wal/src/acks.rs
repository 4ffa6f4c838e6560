//! Waiters for durability in one thread: for each batch the log's thread wakes only one task of the
//! thread, which wakes the others.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use freshet_base::Lsn;

use crate::horizon::{Horizon, HorizonWatch};
use crate::sync::Mutex;

/// The waiters of one thread, ordered by LSN.
pub struct Acks {
    horizon: Horizon,
    waiting: Mutex<VecDeque<(Lsn, Waker)>>,
}

impl Acks {
    pub fn new(horizon: &Horizon) -> Self {
        Self { horizon: horizon.clone(), waiting: Mutex::default() }
    }

    /// Wakes waiters whose LSN is durable, forever; `watch` must be of the same horizon.
    pub async fn serve(&self, mut watch: HorizonWatch) {
        // From zero: waiters may have queued before the first check.
        let mut seen = Lsn::ZERO;
        loop {
            seen = self.turn(&mut watch, seen).await;
        }
    }

    /// Waits until the horizon is above `seen`, wakes the waiters that it has reached, and returns
    /// it.
    pub async fn turn(&self, watch: &mut HorizonWatch, seen: Lsn) -> Lsn {
        let durable = watch.changed(seen).await;
        self.wake_up_to(durable);
        durable
    }

    /// Resolves when `lsn` is durable.
    pub async fn durable(&self, lsn: Lsn) {
        let mut queued = false;
        poll_fn(|context| {
            if self.horizon.get() >= lsn {
                return Poll::Ready(());
            }
            if !queued {
                queued = true;
                self.push(lsn, context.waker().clone());
                // The horizon may have moved between check and push, and then nothing would wake
                // this future.
                if self.horizon.get() >= lsn {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        })
        .await;
    }

    /// The highest durable LSN.
    pub fn horizon(&self) -> Lsn {
        self.horizon.get()
    }

    fn push(&self, lsn: Lsn, waker: Waker) {
        let mut waiting = self.waiting.lock();
        // Nearly always the newest load is the last to wait.
        if waiting.back().is_none_or(|(last, _)| *last <= lsn) {
            waiting.push_back((lsn, waker));
        } else {
            let at = waiting.partition_point(|(before, _)| *before <= lsn);
            waiting.insert(at, (lsn, waker));
        }
    }

    fn wake_up_to(&self, durable: Lsn) {
        assert!(durable <= self.horizon.get(), "only what is durable is acknowledged");
        let mut waiting = self.waiting.lock();
        while waiting.front().is_some_and(|(lsn, _)| *lsn <= durable) {
            if let Some((_, waker)) = waiting.pop_front() {
                waker.wake();
            }
        }
    }
}
