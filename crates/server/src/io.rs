//! Sockets of both protocols: how they listen, and the I/O threads that serve them. Each thread
//! has a runtime of its own, and a connection stays on the one it was given, since crossing cores
//! doubles what a socket costs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use freshet_base::task::{TimeSlice, set_time_slice};
use freshet_base::{Error, Result};
pub use freshet_ingest::Acks;
use freshet_ingest::Horizon;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// How long to wait when the system has no more file descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// A line of the log about that comes no more often.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(30);

/// A socket that listens at `address`.
///
/// # Errors
/// When the address cannot be had.
pub fn listen(address: SocketAddr) -> Result<TcpListener> {
    let failed = |error| Error::io(format_args!("listen on {address}"), error);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
        .map_err(failed)?;
    socket.set_reuse_address(true).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    socket.bind(&address.into()).map_err(failed)?;
    socket.listen(BACKLOG).map_err(failed)?;
    TcpListener::from_std(socket.into()).map_err(failed)
}

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
            set_time_slice(TimeSlice::Short);
            // The sender is dropped, never used: both mean the end.
            let _ = runtime.block_on(stopped);
        })
        .map_err(failed)?;
    Ok(IoThread { runtime: handle, acks, _stop: Arc::new(stop) })
}

/// Connections that could not be accepted: told at once, and then now and then, since the same
/// happens many times a second for as long as descriptors are missing.
#[derive(Default)]
pub struct Trouble {
    told: Option<Duration>,
    untold: u64,
}

impl Trouble {
    /// Notes one, and says so in the log if it is time.
    pub fn log(&mut self, error: &std::io::Error, now: Duration, protocol: &str) {
        if self.told.is_some_and(|told| now.saturating_sub(told) < TROUBLE_INTERVAL) {
            self.untold += 1;
            return;
        }
        let others = std::mem::take(&mut self.untold);
        tracing::warn!(%error, protocol, others, "cannot accept a connection; more descriptors \
            (ulimit -n) or fewer connections are needed");
        self.told = Some(now);
    }
}
