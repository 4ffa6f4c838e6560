//! The I/O threads: each has a runtime of its own, and a connection stays on the one it was
//! given, since crossing cores doubles what a socket costs.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use freshet_base::task::{Turns, take_turns};
use freshet_base::{Error, Lsn, Result};
use freshet_ingest::{Horizon, HorizonWatch};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The threads that serve connections.
pub struct IoThreads {
    threads: Vec<IoThread>,
    next: AtomicUsize,
}

/// One of them.
#[derive(Clone)]
pub struct IoThread {
    runtime: Handle,
    acks: Arc<Acks>,
    /// Dropped with the last clone, which ends the thread.
    _stop: Arc<oneshot::Sender<()>>,
}

impl IoThreads {
    /// Starts `count` threads, each with an eye of its own on the horizon.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(count: usize, horizon: &Horizon) -> Result<Self> {
        let threads = (0..count.max(1)).map(|n| start_thread(n, horizon)).collect::<Result<_>>()?;
        Ok(Self { threads, next: AtomicUsize::new(0) })
    }

    /// The thread for the next connection.
    pub fn next(&self) -> &IoThread {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        &self.threads[at]
    }
}

impl IoThread {
    /// Where its connections run.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Where its connections wait for the log.
    pub fn acks(&self) -> &Arc<Acks> {
        &self.acks
    }
}

fn start_thread(number: usize, horizon: &Horizon) -> Result<IoThread> {
    let failed = |error| Error::io("start an I/O thread", error);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let acks = Arc::new(Acks { horizon: horizon.clone(), waiting: Mutex::default() });
    handle.spawn(acknowledge(Arc::clone(&acks), horizon.subscribe()));
    std::thread::Builder::new()
        .name(format!("io-{number}"))
        .spawn(move || {
            take_turns(Turns::Short);
            // The sender is dropped, never used: both mean the end.
            let _ = runtime.block_on(stopped);
        })
        .map_err(failed)?;
    Ok(IoThread { runtime: handle, acks, _stop: Arc::new(stop) })
}

/// Wakes the connections of one thread whose loads are durable: one wake-up from the log's
/// thread a batch, whatever the number of connections, and all answers back to back.
async fn acknowledge(acks: Arc<Acks>, mut watch: HorizonWatch) {
    let mut seen = watch.get();
    loop {
        seen = watch.changed(seen).await;
        acks.wake_up_to(seen);
    }
}

/// Connections of one thread that wait for the horizon, in the order of their LSNs.
pub struct Acks {
    horizon: Horizon,
    waiting: Mutex<VecDeque<(Lsn, Waker)>>,
}

impl Acks {
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
