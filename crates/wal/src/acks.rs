//! Who of one thread waits for the log: however many they are, the log's thread wakes one of them
//! a batch, which wakes the others.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use freshet_base::Lsn;

use crate::horizon::{Horizon, HorizonWatch};
use crate::sync::Mutex;

/// Those of one thread that wait for the horizon, in the order of their LSNs.
pub struct Acks {
    horizon: Horizon,
    waiting: Mutex<VecDeque<(Lsn, Waker)>>,
}

impl Acks {
    /// Nobody waits yet.
    pub fn new(horizon: &Horizon) -> Self {
        Self { horizon: horizon.clone(), waiting: Mutex::default() }
    }

    /// Wakes, for ever, those whose LSN is durable; `watch` is of the same horizon.
    pub async fn serve(&self, mut watch: HorizonWatch) {
        // From the beginning: some may have queued before the first look.
        let mut seen = Lsn::ZERO;
        loop {
            seen = self.turn(&mut watch, seen).await;
        }
    }

    /// Waits until the horizon is above `seen` and wakes those that it has reached. Returns where
    /// it stands.
    pub async fn turn(&self, watch: &mut HorizonWatch, seen: Lsn) -> Lsn {
        let durable = watch.changed(seen).await;
        self.wake_up_to(durable);
        durable
    }

    /// Resolves once `lsn` is durable.
    pub async fn durable(&self, lsn: Lsn) {
        let mut queued = false;
        poll_fn(|context| {
            if self.horizon.get() >= lsn {
                return Poll::Ready(());
            }
            if !queued {
                queued = true;
                self.push(lsn, context.waker().clone());
                // It may have moved between the look and the push, and then nobody wakes us.
                if self.horizon.get() >= lsn {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        })
        .await;
    }

    /// How far the log is durable.
    pub fn horizon(&self) -> Lsn {
        self.horizon.get()
    }

    fn push(&self, lsn: Lsn, waker: Waker) {
        let mut waiting = self.waiting.lock();
        // Nearly always the newest load is the newest waiter.
        if waiting.back().is_none_or(|(last, _)| *last <= lsn) {
            waiting.push_back((lsn, waker));
        } else {
            let at = waiting.partition_point(|(before, _)| *before <= lsn);
            waiting.insert(at, (lsn, waker));
        }
    }

    fn wake_up_to(&self, durable: Lsn) {
        let mut waiting = self.waiting.lock();
        while waiting.front().is_some_and(|(lsn, _)| *lsn <= durable) {
            if let Some((_, waker)) = waiting.pop_front() {
                waker.wake();
            }
        }
    }
}
