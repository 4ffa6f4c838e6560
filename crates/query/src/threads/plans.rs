//! The threads for large plans: a fixed number, a queue, and substitutes for threads that are still
//! busy with cancelled jobs.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use freshet_base::task::{TimeSlice, lower_priority, set_time_slice};
use freshet_base::{Result, bail, err};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::{STACK_BYTES, panicked};
use crate::interrupt::Cancellation;

/// Maximum number of queued jobs.
const WAITING_MAX: usize = 1_024;
/// Maximum number of substitutes per thread.
const SUBSTITUTES: usize = 4;

type Work = Box<dyn FnOnce() + Send>;

pub struct Plans {
    threads: usize,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    waiting: VecDeque<(u64, Work)>,
    /// The running jobs, and whether each was cancelled.
    running: HashMap<u64, bool>,
    /// The number of threads, including substitutes.
    alive: usize,
    closed: bool,
}

impl State {
    /// The number of threads that should exist: `threads` plus substitutes.
    fn wanted(&self, threads: usize) -> usize {
        let given_up = self.running.values().filter(|given_up| **given_up).count();
        threads + given_up.min(SUBSTITUTES * threads)
    }
}

impl Plans {
    /// Starts the threads.
    ///
    /// # Errors
    /// When threads cannot be created.
    pub fn start(threads: usize) -> std::io::Result<Arc<Self>> {
        let plans =
            Arc::new(Self { threads, state: Mutex::default(), arrived: Condvar::default() });
        for _ in 0..threads {
            plans.state.lock().alive += 1;
            plans.start_thread()?;
        }
        Ok(plans)
    }

    fn start_thread(self: &Arc<Self>) -> std::io::Result<()> {
        let plans = Arc::clone(self);
        let thread = std::thread::Builder::new().name("plan".to_owned()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            set_time_slice(TimeSlice::Long);
            lower_priority();
            while let Some((id, work)) = plans.next() {
                work();
                plans.state.lock().running.remove(&id);
            }
        });
        started.map(drop).inspect_err(|_| self.state.lock().alive -= 1)
    }

    /// Waits for the next job; `None` if the thread should end.
    fn next(&self) -> Option<(u64, Work)> {
        let mut state = self.state.lock();
        loop {
            if state.closed || state.alive > state.wanted(self.threads) {
                state.alive -= 1;
                return None;
            }
            if let Some((id, work)) = state.waiting.pop_front() {
                state.running.insert(id, false);
                return Some((id, work));
            }
            self.arrived.wait(&mut state);
        }
    }

    /// Runs a job when a thread is free. Dropping the future cancels it.
    ///
    /// # Errors
    /// Those of the job; 1041 if the queue is full.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        interrupt: Cancellation,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, done) = oneshot::channel();
        let work = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(job));
            // There is no receiver after cancellation.
            let _ = sender.send(result.unwrap_or_else(|panic| Err(panicked(&*panic))));
        });
        let _wanted = PendingJob { id: self.queue(work)?, plans: self, interrupt };
        done.await.unwrap_or_else(|_| Err(err!(ShuttingDown, "Server shutdown in progress")))
    }

    fn queue(&self, work: Work) -> Result<u64> {
        let mut state = self.state.lock();
        if state.waiting.len() >= WAITING_MAX {
            bail!(
                OutOfRoom,
                "{WAITING_MAX} large statements wait to be planned already; try again later, or \
                 send smaller ones"
            );
        }
        state.last += 1;
        let id = state.last;
        state.waiting.push_back((id, work));
        drop(state);
        self.arrived.notify_one();
        Ok(id)
    }

    /// Cancels a job.
    fn give_up(self: &Arc<Self>, id: u64) {
        let mut state = self.state.lock();
        if let Some(given_up) = state.running.get_mut(&id) {
            *given_up = true;
            self.start_substitute(state);
        } else if let Some(at) = state.waiting.iter().position(|(waiting, _)| *waiting == id) {
            let work = state.waiting.remove(at);
            drop(state);
            // Dropped without the lock, since releasing what the job holds may take a while.
            drop(work);
        }
    }

    /// Starts a substitute for a thread that is busy with a cancelled job.
    fn start_substitute(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.closed || state.alive >= state.wanted(self.threads) {
            return;
        }
        state.alive += 1;
        drop(state);
        // If no thread can be created, the others continue.
        let _ = self.start_thread();
    }

    #[cfg(test)]
    pub fn alive(&self) -> usize {
        self.state.lock().alive
    }

    /// Ends each thread after its current job.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
        self.arrived.notify_all();
    }
}

/// A job that its caller waits for; cancelled on drop.
struct PendingJob<'a> {
    id: u64,
    plans: &'a Arc<Plans>,
    interrupt: Cancellation,
}

impl Drop for PendingJob<'_> {
    fn drop(&mut self) {
        self.interrupt.set();
        self.plans.give_up(self.id);
    }
}
