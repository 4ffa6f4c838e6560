//! Background jobs of which one runs at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a background job is running.
#[derive(Default)]
pub(crate) struct Job(Arc<AtomicBool>);

impl Job {
    /// Begins the job, which ends when the returned guard is dropped; `None` if it is running.
    pub fn begin(&self) -> Option<RunningJob> {
        let was_running = self.0.swap(true, Ordering::AcqRel);
        (!was_running).then(|| RunningJob(Arc::clone(&self.0)))
    }

    pub fn is_running(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A running [`Job`].
pub(crate) struct RunningJob(Arc<AtomicBool>);

impl Drop for RunningJob {
    fn drop(&mut self) {
        let was_running = self.0.swap(false, Ordering::AcqRel);
        assert!(was_running, "a job that ends has begun");
    }
}

/// The jobs that keep log files, ids and the store of metadata ahead of need.
#[derive(Default)]
pub(crate) struct LogJobs {
    /// A turn of the log.
    pub turn: Job,
    pub log_file: Job,
    pub ids: Job,
    pub checkpoint: Job,
}

impl LogJobs {
    /// Whether any of them is running.
    pub fn is_busy(&self) -> bool {
        [&self.turn, &self.log_file, &self.ids, &self.checkpoint].into_iter().any(Job::is_running)
    }
}
