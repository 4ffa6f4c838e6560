//! Tasks and threads as an argument: real ones in the server, seeded ones in simulation.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};

mod turns;

pub use turns::{Pace, Turns, at_pace, give_way, set_pace, step_back, take_turns};

/// Runs tasks that wait and jobs that compute or block.
pub trait Pool: Send + Sync + 'static {
    /// Runs `task` apart from the caller until it ends.
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>);

    /// Runs `task`, which blocks while it works and which others wait for, on a thread of its
    /// own until it ends.
    fn dedicate(&self, name: &'static str, task: BoxFuture<'static, ()>);

    /// Runs `job`, which may block or compute for long, on a thread made for that.
    fn execute(&self, lane: Lane, job: Job);
}

/// A shared [`Pool`].
pub type PoolRef = Arc<dyn Pool>;

/// What a thread is given to do.
pub type Job = Box<dyn FnOnce() + Send>;

/// Which jobs a job may have to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// A client or the log waits for it, so it waits for none but its like.
    Awaited,
    /// Only memory waits for it. It gives way, see [`give_way`].
    Background,
    /// As [`Lane::Background`], but so long that the others must not wait for it: it gets a
    /// thread of its own.
    Apart,
}

/// Runs `job`, which somebody waits for, on the pool's blocking threads and waits for its result.
///
/// # Panics
/// When the job panicked, or the pool dropped it: both end the caller as well.
pub async fn run<T: Send + 'static>(
    pool: &dyn Pool,
    job: impl FnOnce() -> T + Send + 'static,
) -> T {
    run_in(pool, Lane::Awaited, job).await
}

/// The same in any lane.
///
/// # Panics
/// As [`run`].
pub async fn run_in<T: Send + 'static>(
    pool: &dyn Pool,
    lane: Lane,
    job: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = oneshot::channel();
    let job = move || {
        // A caller that went away no longer wants the result.
        let _ = sender.send(job());
    };
    pool.execute(lane, Box::new(job));
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

    fn execute(&self, _lane: Lane, job: Job) {
        job();
    }
}

/// The threads of a server: a few for tasks, a few for the jobs of each lane, one for each
/// dedicated task.
pub struct Threads {
    tasks: futures::executor::ThreadPool,
    awaited: Arc<Jobs>,
    background: Arc<Jobs>,
}

#[derive(Default)]
struct Jobs {
    queue: Mutex<JobQueue>,
    arrived: Condvar,
}

#[derive(Default)]
struct JobQueue {
    waiting: VecDeque<Job>,
    closed: bool,
}

impl Threads {
    /// Starts `job_threads` threads for the jobs of each lane and two for tasks.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(job_threads: usize) -> std::io::Result<Self> {
        let tasks =
            futures::executor::ThreadPool::builder().pool_size(2).name_prefix("task-").create()?;
        let awaited = Jobs::start("job", job_threads, Turns::Long)?;
        let background = Jobs::start("background", job_threads, Turns::Background)?;
        Ok(Self { tasks, awaited, background })
    }

    /// Runs a job on a new thread; where the system gives none, with the background's.
    fn apart(&self, job: Job) {
        let job = Arc::new(Mutex::new(Some(job)));
        let taken = Arc::clone(&job);
        let thread = std::thread::Builder::new().name("apart".to_owned());
        let started = thread.spawn(move || {
            take_turns(Turns::Background);
            taken.lock().take().into_iter().for_each(contain);
        });
        if started.is_err() {
            self.background.push(job.lock().take().expect("no thread took it"));
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.awaited.close();
        self.background.close();
    }
}

impl Jobs {
    fn start(name: &str, threads: usize, turns: Turns) -> std::io::Result<Arc<Self>> {
        let jobs = Arc::new(Self::default());
        for n in 0..threads.max(1) {
            let jobs = Arc::clone(&jobs);
            std::thread::Builder::new().name(format!("{name}-{n}")).spawn(move || {
                take_turns(turns);
                while jobs.run_next() {}
            })?;
        }
        Ok(jobs)
    }

    fn push(&self, job: Job) {
        self.queue.lock().waiting.push_back(job);
        self.arrived.notify_one();
    }

    fn close(&self) {
        self.queue.lock().closed = true;
        self.arrived.notify_all();
    }

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
        contain(job);
        true
    }
}

/// Runs a job. A panic ends the job, not the thread: whoever waits for the job panics in turn.
/// (The server ends the process before, see its panic hook.)
fn contain(job: Job) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
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

    fn execute(&self, lane: Lane, job: Job) {
        match lane {
            Lane::Awaited => self.awaited.push(job),
            Lane::Background => self.background.push(job),
            Lane::Apart => self.apart(job),
        }
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
    fn who_is_waited_for_waits_for_nobody_in_the_background() {
        let threads = Threads::start(1).unwrap();
        let (release, released) = oneshot::channel::<()>();
        let wait = move || futures::executor::block_on(released).is_ok();
        let slow = run_in(&threads, Lane::Background, wait);
        let apart = run_in(&threads, Lane::Apart, || 2);
        let slow = std::pin::pin!(slow);
        let waits = async {
            let (awaited, apart) = futures::join!(run(&threads, || 1), apart);
            release.send(()).unwrap();
            (awaited, apart)
        };
        let answers = futures::executor::block_on(futures::future::join(slow, waits));
        assert_eq!(answers, (true, (1, 2)));
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
