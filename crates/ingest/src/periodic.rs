//! Jobs that are due again and again.

use std::time::Duration;

use parking_lot::Mutex;

use crate::job::Job;
use crate::store::Store;

/// A job that looks now and then whether there is something to do.
pub(crate) struct Periodic {
    interval: Duration,
    /// When it looks next.
    due: Mutex<Duration>,
    job: Job,
}

impl Periodic {
    pub fn every(interval: Duration) -> Self {
        Self { interval, due: Mutex::default(), job: Job::default() }
    }

    /// Begins what `look` finds, if it is time and the last is done.
    pub fn plan<W>(&self, store: &Store, name: &'static str, look: impl FnOnce() -> Option<W>)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let now = store.clock().now();
        if *self.due.lock() > now {
            return;
        }
        *self.due.lock() = now + self.interval;
        let Some(running) = self.job.begin() else { return };
        let Some(work) = look() else { return };
        let run = async move {
            work.await;
            drop(running);
        };
        store.pool().spawn(name, Box::pin(run));
    }

    pub fn is_busy(&self) -> bool {
        self.job.is_running()
    }
}
