//! Tasks and threads, passed as an argument: real ones in the server, seeded ones in simulation.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use futures::channel::oneshot;
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};

mod time_slice;

pub use time_slice::{
    BackgroundShare, TimeSlice, lower_priority, set_background_share, set_time_slice,
    with_background_share, yield_core,
};

/// Runs asynchronous tasks, and jobs that compute or block.
pub trait Pool: Send + Sync + 'static {
    /// Runs `task` in the background until it ends.
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>);

    /// Runs `task`, which may block and which others wait for, on a thread of its own.
    fn dedicate(&self, name: &'static str, task: BoxFuture<'static, ()>);

    /// Runs `job`, which may block or compute for long, on a thread for such jobs.
    fn execute(&self, lane: Lane, job: Job);
}

pub type PoolRef = Arc<dyn Pool>;

/// Work that may block.
pub type Job = Box<dyn FnOnce() + Send>;

/// Which threads run a job, so that urgent jobs do not queue behind long ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// A client or the log waits for the result; queues only behind other foreground jobs.
    Foreground,
    /// Frees memory; nobody waits for it directly. It calls [`yield_core`] as it computes.
    Background,
    /// A read for a query; it waits for nothing but the device.
    Read,
    /// As [`Lane::Background`], but too long for other background jobs to queue behind: it gets a
    /// thread of its own.
    OwnThread,
}

/// Runs `job` in the foreground lane and waits for its result.
///
/// # Panics
/// When the job panics, or the pool drops it.
pub async fn run<T: Send + 'static>(
    pool: &dyn Pool,
    job: impl FnOnce() -> T + Send + 'static,
) -> T {
    run_in(pool, Lane::Foreground, job).await
}

/// Runs `job` in `lane` and waits for its result.
///
/// # Panics
/// As [`run`].
pub async fn run_in<T: Send + 'static>(
    pool: &dyn Pool,
    lane: Lane,
    job: impl FnOnce() -> T + Send + 'static,
) -> T {
    begin(pool, lane, job).await.expect(RETURNS)
}

/// Runs jobs in `lane`, up to `beside` of them at once, and gives what they return to `take`, in
/// their order. Once that fails no further one is begun.
///
/// # Errors
/// The first one of `take`.
///
/// # Panics
/// As [`run`].
pub async fn run_each<T: Send + 'static, E>(
    pool: &dyn Pool,
    (lane, beside): (Lane, usize),
    mut jobs: impl Iterator<Item = impl FnOnce() -> T + Send + 'static>,
    mut take: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    assert!(beside > 0, "at least one job runs at a time");
    let mut running = VecDeque::with_capacity(beside);
    loop {
        let free = beside - running.len();
        running.extend(jobs.by_ref().take(free).map(|job| begin(pool, lane, job)));
        let Some(first) = running.pop_front() else { return Ok(()) };
        take(first.await.expect(RETURNS))?;
    }
}

/// Why whoever waits for a job gets its result.
const RETURNS: &str = "a job of the pool ends by returning";

fn begin<T: Send + 'static>(
    pool: &dyn Pool,
    lane: Lane,
    job: impl FnOnce() -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    let (sender, receiver) = oneshot::channel();
    let job = move || {
        // Fails when the caller was dropped and no longer needs the result.
        let _ = sender.send(job());
    };
    pool.execute(lane, Box::new(job));
    receiver
}

/// Lets other tasks run, and whoever waits for this one give it up.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs everything at once on the caller's thread: for tests and tools without a runtime.
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

/// The threads of a server: two for tasks, a few for the jobs of each lane, one for each dedicated
/// task.
pub struct Threads {
    tasks: futures::executor::ThreadPool,
    foreground: Arc<Jobs>,
    reads: Arc<Jobs>,
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
    /// Starts `job_threads` threads for each of the two queues of jobs, twice as many for reads,
    /// which wait for the device more than they compute, and two for tasks.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn start(job_threads: usize) -> std::io::Result<Self> {
        let tasks =
            futures::executor::ThreadPool::builder().pool_size(2).name_prefix("task-").create()?;
        let foreground = Jobs::start("job", job_threads, TimeSlice::Long)?;
        let reads = Jobs::start("read", 2 * job_threads, TimeSlice::Long)?;
        let background = Jobs::start("background", job_threads, TimeSlice::Background)?;
        Ok(Self { tasks, foreground, reads, background })
    }

    /// Runs a job on a new thread, or in the background lane if the system refuses the thread.
    fn run_on_own_thread(&self, job: Job) {
        let job = Arc::new(Mutex::new(Some(job)));
        let taken = Arc::clone(&job);
        let thread = std::thread::Builder::new().name("long-job".to_owned());
        let started = thread.spawn(move || {
            set_time_slice(TimeSlice::Background);
            taken.lock().take().into_iter().for_each(contain);
        });
        if started.is_err() {
            self.background.push(job.lock().take().expect("no thread took it"));
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.foreground.close();
        self.reads.close();
        self.background.close();
    }
}

impl Jobs {
    fn start(name: &str, threads: usize, slice: TimeSlice) -> std::io::Result<Arc<Self>> {
        let jobs = Arc::new(Self::default());
        for n in 0..threads.max(1) {
            let jobs = Arc::clone(&jobs);
            std::thread::Builder::new().name(format!("{name}-{n}")).spawn(move || {
                set_time_slice(slice);
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

    /// Waits for a job and runs it; false once the pool was dropped and the queue is empty.
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

/// Runs a job and catches its panic: the thread survives, and whoever waits for the job panics. (In
/// the server the panic hook ends the process first.)
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
                set_time_slice(TimeSlice::Short);
                futures::executor::block_on(task);
            })
            .expect("the system grants the few dedicated threads of a start");
    }

    fn execute(&self, lane: Lane, job: Job) {
        match lane {
            Lane::Foreground => self.foreground.push(job),
            Lane::Read => self.reads.push(job),
            Lane::Background => self.background.push(job),
            Lane::OwnThread => self.run_on_own_thread(job),
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
    fn each_job_gives_its_result_in_order_until_one_is_refused() {
        let threads = Threads::start(3).unwrap();
        let jobs = || (0..20u64).map(|number| move || number * number);
        let mut taken = Vec::new();
        let take = |square: u64| -> Result<(), u64> {
            taken.push(square);
            Ok(())
        };
        let all = run_each(&threads, (Lane::Foreground, 3), jobs(), take);
        assert_eq!(futures::executor::block_on(all), Ok(()));
        assert_eq!(taken, (0..20u64).map(|number| number * number).collect::<Vec<_>>());
        let refuse = |square: u64| if square < 16 { Ok(()) } else { Err(square) };
        let some = run_each(&InlinePool, (Lane::Read, 1), jobs(), refuse);
        assert_eq!(futures::executor::block_on(some), Err(16));
    }

    #[test]
    fn foreground_and_long_jobs_do_not_wait_for_background_jobs() {
        let threads = Threads::start(1).unwrap();
        let (release, released) = oneshot::channel::<()>();
        let wait = move || futures::executor::block_on(released).is_ok();
        let slow = run_in(&threads, Lane::Background, wait);
        let long = run_in(&threads, Lane::OwnThread, || 2);
        let slow = std::pin::pin!(slow);
        let waits = async {
            let (foreground, long) = futures::join!(run(&threads, || 1), long);
            release.send(()).unwrap();
            (foreground, long)
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
