//! Listening sockets and I/O threads of both protocols. Each thread has a Tokio runtime of its own,
//! and a connection stays on the thread it was assigned to: moving between cores doubles the cost
//! of socket I/O.

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

/// The backlog of listening sockets.
const BACKLOG: i32 = 4096;
/// The pause after `accept` failed for lack of file descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The minimum time between two log lines about failed `accept` calls.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Binds and listens at `address`.
///
/// # Errors
/// When the address is not available.
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

#[derive(Clone)]
pub struct IoThread {
    runtime: Handle,
    acks: Arc<Acks>,
    /// The thread ends when the last clone is dropped.
    _stop: Arc<oneshot::Sender<()>>,
}

impl IoThreads {
    /// Starts `count` threads, each with its own waiter on the durable horizon.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(count: usize, horizon: &Horizon) -> Result<Self> {
        let threads = (0..count.max(1)).map(|n| start_thread(n, horizon)).collect::<Result<_>>()?;
        Ok(Self { threads, next: AtomicUsize::new(0) })
    }

    /// The thread for the next connection, round robin.
    pub fn next(&self) -> &IoThread {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        &self.threads[at]
    }
}

impl IoThread {
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Through which its connections wait for the log.
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
        // The expressions of loads are parsed here.
        .stack_size(freshet_query::STACK_BYTES)
        .spawn(move || {
            set_time_slice(TimeSlice::Short);
            // Nothing is ever sent; the channel closes when the thread shall end.
            let _ = runtime.block_on(stopped);
        })
        .map_err(failed)?;
    Ok(IoThread { runtime: handle, acks, _stop: Arc::new(stop) })
}

/// Logs failed `accept` calls: the first one, and then at intervals, because without free
/// descriptors it fails many times a second.
#[derive(Default)]
pub struct AcceptErrors {
    logged_at: Option<Duration>,
    unlogged: u64,
}

impl AcceptErrors {
    /// Counts a failure, and logs it if the interval has passed.
    pub fn log(&mut self, error: &std::io::Error, now: Duration, protocol: &str) {
        if self.logged_at.is_some_and(|logged_at| now.saturating_sub(logged_at) < LOG_INTERVAL) {
            self.unlogged += 1;
            return;
        }
        let others = std::mem::take(&mut self.unlogged);
        tracing::warn!(%error, protocol, others, "cannot accept a connection; more descriptors \
            (ulimit -n) or fewer connections are needed");
        self.logged_at = Some(now);
    }
}
