//! Tasks and threads as an argument: real ones in the server, seeded ones in simulation.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};

mod turns;

pub use turns::{Turns, give_way, hurry, take_turns};

/// Runs tasks that wait and jobs that compute or block.
pub trait Pool: Send + Sync + 'static {
    /// Runs `task` apart from the caller until it ends.
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>);

    /// Runs `task`, which blocks while it works and which others wait for, on a thread of its
    /// own until it ends.
    fn dedicate(&self, name: &'static str, task: BoxFuture<'static, ()>);

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

    fn dedicate(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        self.spawn(name, task);
    }

    fn execute(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

/// The threads of a server: a few for tasks, a few for jobs, one for each dedicated task.
pub struct Threads {
    tasks: futures::executor::ThreadPool,
    jobs: Arc<Jobs>,
}

#[derive(Default)]
struct Jobs {
    queue: Mutex<JobQueue>,
    arrived: Condvar,
}

#[derive(Default)]
struct JobQueue {
    waiting: VecDeque<Box<dyn FnOnce() + Send>>,
    closed: bool,
}

impl Threads {
    /// Starts `job_threads` threads for jobs and two for tasks.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(job_threads: usize) -> std::io::Result<Self> {
        let tasks =
            futures::executor::ThreadPool::builder().pool_size(2).name_prefix("task-").create()?;
        let jobs = Arc::new(Jobs::default());
        for n in 0..job_threads.max(1) {
            let jobs = Arc::clone(&jobs);
            std::thread::Builder::new().name(format!("job-{n}")).spawn(move || {
                take_turns(Turns::Background);
                while jobs.run_next() {}
            })?;
        }
        Ok(Self { tasks, jobs })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.jobs.queue.lock().closed = true;
        self.jobs.arrived.notify_all();
    }
}

impl Jobs {
    /// Waits for a job and runs it; false once the pool is gone and nothing waits.
    fn run_next(&self) -> bool {
        let mut queue = self.queue.lock();
        let job = loop {
            if let Some(job) = queue.waiting.pop_front() {
                break job;
            }
            if queue.closed {
                return false;
            }
            self.arrived.wait(&mut queue);
        };
        drop(queue);
        // A panic ends the job, not the thread: whoever waits for the job panics in turn. (The
        // server ends the process before, see its panic hook.)
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        true
    }
}

impl Pool for Threads {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.tasks.spawn_ok(task);
    }

    fn dedicate(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                take_turns(Turns::Short);
                futures::executor::block_on(task);
            })
            .expect("the few dedicated threads of a start are to be had");
    }

    fn execute(&self, job: Box<dyn FnOnce() + Send>) {
        self.jobs.queue.lock().waiting.push_back(job);
        self.jobs.arrived.notify_one();
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

    #[test]
    fn threads_run_tasks_jobs_and_dedicated_tasks() {
        let threads = Arc::new(Threads::start(2).unwrap());
        let (sender, receiver) = oneshot::channel();
        let inner = Arc::clone(&threads);
        let task = async move {
            let sum = run(&*inner, || (1..=10).sum::<u32>()).await;
            inner.dedicate("one", Box::pin(async move { sender.send(sum).unwrap() }));
        };
        threads.spawn("outer", Box::pin(task));
        assert_eq!(futures::executor::block_on(receiver), Ok(55));
    }
}
