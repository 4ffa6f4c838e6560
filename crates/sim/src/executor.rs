//! A deterministic single-threaded executor: the seed determines the order of tasks, jobs and
//! timers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use freshet_base::clock::Clock;
use freshet_base::task::{Job, Lane, Pool};
use futures::future::BoxFuture;
use futures::task::{ArcWake, waker};
use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::StdRng;

/// A seeded scheduler with a simulated clock. Clones share it.
#[derive(Clone)]
pub struct Executor(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
}

struct State {
    chance: StdRng,
    next_task: u64,
    tasks: BTreeMap<u64, BoxFuture<'static, ()>>,
    ready: Vec<u64>,
    now: Duration,
    next_timer: u64,
    timers: BinaryHeap<Reverse<(Duration, u64)>>,
    timer_wakers: BTreeMap<u64, Waker>,
    steps: u64,
    job_delay_max: Duration,
    /// By how much the wall clock was moved.
    wall_jump_micros: i64,
}

struct TaskWaker {
    shared: Arc<Shared>,
    task: u64,
}

impl ArcWake for TaskWaker {
    fn wake_by_ref(waker: &Arc<Self>) {
        let mut state = waker.shared.state.lock();
        if state.tasks_known(waker.task) && !state.ready.contains(&waker.task) {
            state.ready.push(waker.task);
        }
    }
}

impl State {
    /// A task that is being polled is not in the map, but may be woken nevertheless.
    fn tasks_known(&self, task: u64) -> bool {
        task < self.next_task
    }
}

impl Executor {
    /// A scheduler whose choices are drawn from `chance`.
    pub fn new(chance: StdRng) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(State {
                chance,
                next_task: 0,
                tasks: BTreeMap::new(),
                ready: Vec::new(),
                now: Duration::ZERO,
                next_timer: 0,
                timers: BinaryHeap::new(),
                timer_wakers: BTreeMap::new(),
                steps: 0,
                job_delay_max: Duration::ZERO,
                wall_jump_micros: 0,
            }),
        }))
    }

    /// The number of polls, which is determined by the seed.
    pub fn steps(&self) -> u64 {
        self.0.state.lock().steps
    }

    /// Delays the start of jobs by up to this much from now on, as on a slow disk or with few
    /// threads.
    pub fn set_job_delay_max(&self, delay: Duration) {
        self.0.state.lock().job_delay_max = delay;
    }

    /// Moves the wall clock, but not the monotonic clock.
    pub fn jump_wall(&self, micros: i64) {
        self.0.state.lock().wall_jump_micros += micros;
    }

    /// Starts a task and returns its id.
    pub fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> u64 {
        self.push(Box::pin(task))
    }

    fn push(&self, task: BoxFuture<'static, ()>) -> u64 {
        let mut state = self.0.state.lock();
        let id = state.next_task;
        state.next_task += 1;
        state.tasks.insert(id, task);
        state.ready.push(id);
        id
    }

    /// Runs until `done` returns true, or no task can make progress. Returns whether it is true.
    pub fn run_until(&self, mut done: impl FnMut() -> bool) -> bool {
        while !done() {
            if !self.step() {
                return done();
            }
        }
        true
    }

    /// Drops these tasks, as when clients disconnect.
    pub fn kill(&self, tasks: &[u64]) {
        let killed = {
            let mut state = self.0.state.lock();
            tasks.iter().filter_map(|task| state.tasks.remove(task)).collect::<Vec<_>>()
        };
        // Dropped outside of the lock, since dropping a task may wake others.
        drop(killed);
    }

    /// Drops all tasks, like the end of a process.
    pub fn kill_all(&self) {
        // Dropped outside of the lock, since dropping a task may wake others.
        let tasks = {
            let mut state = self.0.state.lock();
            state.ready.clear();
            state.timers.clear();
            state.timer_wakers.clear();
            std::mem::take(&mut state.tasks)
        };
        drop(tasks);
        self.0.state.lock().ready.clear();
    }

    /// Polls a task, or advances time to the next timer; false if there is neither.
    fn step(&self) -> bool {
        let Some((id, mut task)) = self.next_task() else { return self.pass_time() };
        let waker = waker(Arc::new(TaskWaker { shared: Arc::clone(&self.0), task: id }));
        let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() {
            self.0.state.lock().tasks.insert(id, task);
        }
        true
    }

    fn next_task(&self) -> Option<(u64, BoxFuture<'static, ()>)> {
        let mut state = self.0.state.lock();
        while !state.ready.is_empty() {
            let count = state.ready.len();
            let pick = state.chance.random_range(0..count);
            let id = state.ready.swap_remove(pick);
            if let Some(task) = state.tasks.remove(&id) {
                state.steps += 1;
                return Some((id, task));
            }
        }
        None
    }

    fn pass_time(&self) -> bool {
        let woken = {
            let mut state = self.0.state.lock();
            let Some(Reverse((at, timer))) = state.timers.pop() else { return false };
            state.now = state.now.max(at);
            state.timer_wakers.remove(&timer)
        };
        if let Some(waker) = woken {
            waker.wake();
        }
        true
    }
}

impl Clock for Executor {
    fn now(&self) -> Duration {
        // Time advances slightly with each call, so that earlier events have earlier times.
        let mut state = self.0.state.lock();
        state.now += Duration::from_nanos(100);
        state.now
    }

    fn wall_micros(&self) -> i64 {
        let start_micros = 1_700_000_000_000_000 + self.0.state.lock().wall_jump_micros;
        start_micros + i64::try_from(Clock::now(self).as_micros()).unwrap_or(i64::MAX / 2)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut state = self.0.state.lock();
        let timer = state.next_timer;
        state.next_timer += 1;
        let at = state.now.saturating_add(duration);
        state.timers.push(Reverse((at, timer)));
        Box::pin(Sleep { shared: Arc::clone(&self.0), timer, at })
    }
}

struct Sleep {
    shared: Arc<Shared>,
    timer: u64,
    at: Duration,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.state.lock();
        if state.now >= self.at {
            return Poll::Ready(());
        }
        state.timer_wakers.insert(self.timer, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.shared.state.lock().timer_wakers.remove(&self.timer);
    }
}

impl Pool for Executor {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.push(task);
    }

    fn dedicate(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.push(task);
    }

    fn execute(&self, _lane: Lane, job: Job) {
        let delay = {
            let mut state = self.0.state.lock();
            let max = state.job_delay_max;
            if max.is_zero() { max } else { max.mul_f64(state.chance.random::<f64>()) }
        };
        let clock = self.clone();
        self.push(Box::pin(async move {
            if !delay.is_zero() {
                clock.sleep(delay).await;
            }
            job();
        }));
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn order_of(seed: u64) -> Vec<u32> {
        let executor = Executor::new(StdRng::seed_from_u64(seed));
        let order = Arc::new(Mutex::new(Vec::new()));
        for n in 0..8 {
            let (order, clock) = (Arc::clone(&order), executor.clone());
            executor.start(async move {
                clock.sleep(Duration::from_millis(u64::from(n % 3))).await;
                order.lock().push(n);
            });
        }
        assert!(executor.run_until(|| order.lock().len() == 8));
        let order = order.lock();
        order.clone()
    }

    #[test]
    fn a_seed_gives_one_order_and_seeds_give_many() {
        assert_eq!(order_of(1), order_of(1));
        let orders = (0..10).map(order_of).collect::<std::collections::BTreeSet<_>>();
        assert!(orders.len() > 3);
    }

    #[test]
    fn time_passes_only_when_nothing_is_ready() {
        let executor = Executor::new(StdRng::seed_from_u64(1));
        let done = Arc::new(Mutex::new(false));
        let (flag, clock) = (Arc::clone(&done), executor.clone());
        executor.start(async move {
            clock.sleep(Duration::from_secs(3600)).await;
            *flag.lock() = true;
        });
        assert!(executor.run_until(|| *done.lock()));
        assert!(Clock::now(&executor) >= Duration::from_secs(3600));
        assert!(!executor.run_until(|| false), "nothing is left to do");
    }
}
