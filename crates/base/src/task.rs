//! Tasks and threads as an argument: real ones in the server, seeded ones in simulation.

use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::BoxFuture;

/// Runs tasks that wait and jobs that compute or block.
pub trait Pool: Send + Sync + 'static {
    /// Runs `task` apart from the caller until it ends.
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>);

    /// Runs `job`, which may block or compute for long, on a thread made for that.
    fn execute(&self, job: Box<dyn FnOnce() + Send>);
}

/// A shared [`Pool`].
pub type PoolRef = Arc<dyn Pool>;

/// Runs `job` on the pool's blocking threads and waits for its result.
///
/// # Panics
/// When the job panicked, or the pool dropped it: both end the caller as well.
pub async fn run<T: Send + 'static>(
    pool: &dyn Pool,
    job: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = oneshot::channel();
    pool.execute(Box::new(move || {
        // A caller that went away no longer wants the result.
        let _ = sender.send(job());
    }));
    receiver.await.expect("a job of the pool ends by returning")
}

/// Runs jobs at once on the caller's thread: for tests and tools without a runtime.
#[derive(Debug, Default)]
pub struct InlinePool;

impl Pool for InlinePool {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        futures::executor::block_on(task);
    }

    fn execute(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_returns_what_the_job_returned() {
        let answer = futures::executor::block_on(run(&InlinePool, || 6 * 7));
        assert_eq!(answer, 42);
    }
}
