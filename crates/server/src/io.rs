//! The I/O threads: each has a runtime of its own, and a connection stays on the one it was
//! given, since crossing cores doubles what a socket costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use freshet_base::task::{Turns, take_turns};
use freshet_base::{Error, Result};
pub use freshet_ingest::Acks;
use freshet_ingest::Horizon;
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
    let acks = Arc::new(Acks::new(horizon));
    let (watch, serving) = (horizon.subscribe(), Arc::clone(&acks));
    handle.spawn(async move { serving.serve(watch).await });
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
