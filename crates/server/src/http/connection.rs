//! Accepting connections, and one connection's requests in their order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::clock::Clock;
use freshet_base::{Error, Result};
use futures::future::{Either, select};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{Http, route};
use crate::io::{Acks, IoThreads};

/// Most headers of a request.
const HEADERS_MAX: usize = 128;
/// Most bytes of a request's head, and of one read of its body.
const BUFFER_BYTES_MAX: usize = 256 << 10;
/// What a client reads that finds no free connection.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
    Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n";
/// How long the next accept waits when the system has no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The other end of a connection.
pub(super) struct Client {
    /// Its address.
    pub address: SocketAddr,
    /// The address that it came to.
    pub local: SocketAddr,
    /// Whether it or the server is to act.
    pub activity: Activity,
    /// Where it waits for the log.
    pub acks: Arc<Acks>,
}

/// Whose turn it is on a connection. A client that lets a whole interval pass with nothing but
/// silence, between requests or inside one, loses its connection: one timer a connection, none
/// a request.
#[derive(Default)]
pub(super) struct Activity {
    working: AtomicBool,
    steps: AtomicU64,
}

impl Activity {
    /// Notes that the client is to act from here on, or has acted.
    pub(super) fn waits_for_client(&self, waits: bool) {
        self.working.store(!waits, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Resolves once the client was silent for between one and two intervals.
    async fn silence(&self, clock: &dyn Clock, interval: Duration) {
        let mut before = self.steps.load(Ordering::Relaxed);
        loop {
            clock.sleep(interval).await;
            let now = self.steps.load(Ordering::Relaxed);
            if now == before && !self.working.load(Ordering::Relaxed) {
                return;
            }
            before = now;
        }
    }
}

/// Serves HTTP on `listener` until `shutdown`; then takes no more connections, lets requests
/// in flight end, and returns. Connections live on `threads` in turn, one task each.
///
/// # Errors
/// When the listener itself fails.
pub async fn serve(
    listener: TcpListener,
    http: Arc<Http>,
    threads: Arc<IoThreads>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let bound = listener.local_addr().map_err(|error| Error::io("read the address", error))?;
    let (stop, stopping) = watch::channel(false);
    let slots = Arc::new(Semaphore::new(http.config.connections_max));
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = match select(std::pin::pin!(listener.accept()), shutdown.as_mut()).await {
            Either::Left((accepted, _)) => accepted,
            Either::Right(_) => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                http.clock().sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            // Best effort: the connection is closed either way.
            let _ = stream.try_write(BUSY);
            continue;
        };
        let local = stream.local_addr().unwrap_or(bound);
        let thread = threads.next();
        let acks = Arc::clone(thread.acks());
        let client = Client { address, local, activity: Activity::default(), acks };
        let task = Task { http: Arc::clone(&http), client, stopping: stopping.clone() };
        task.spawn(stream, slot, thread.runtime());
    }
    drop(listener);
    // Nobody may be left to hear it.
    let _ = stop.send(true);
    let all = u32::try_from(http.config.connections_max).unwrap_or(u32::MAX);
    let drained = slots.acquire_many(all);
    let deadline = freshet_base::clock::Deadline::after(&**http.clock(), http.config.drain_max);
    if freshet_base::clock::until(&**http.clock(), deadline, drained).await.is_none() {
        tracing::warn!("HTTP requests did not end in time and are cut off");
    }
    Ok(())
}

/// One connection, before it runs.
struct Task {
    http: Arc<Http>,
    client: Client,
    stopping: watch::Receiver<bool>,
}

impl Task {
    /// Runs on `worker`; the slot comes back when nothing of the connection is left.
    fn spawn(self, stream: TcpStream, slot: OwnedSemaphorePermit, worker: &Handle) {
        // A socket belongs to the runtime whose thread waits for it.
        let moved = stream.set_nodelay(true).and_then(|()| stream.into_std());
        let Ok(stream) = moved else { return };
        worker.spawn(async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => self.run(stream).await,
                Err(error) => tracing::warn!(%error, "a connection could not be taken over"),
            }
            drop(slot);
        });
    }

    async fn run(self, stream: TcpStream) {
        let Self { http, client, mut stopping } = self;
        let gauge = http.engine.metrics().connections.clone();
        gauge.inc();
        let client = Arc::new(client);
        let service = service_fn(|request| {
            let (http, client) = (Arc::clone(&http), Arc::clone(&client));
            async move {
                client.activity.waits_for_client(false);
                let response = route::answer(&http, &client, request).await;
                client.activity.waits_for_client(true);
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        let mut connection = std::pin::pin!(
            http1::Builder::new()
                .max_headers(HEADERS_MAX)
                .max_buf_size(BUFFER_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service)
        );
        let silence = client.activity.silence(&**http.clock(), http.config.silence_max);
        let mut silence = std::pin::pin!(silence);
        let mut told = false;
        tokio::select! {
            biased;
            ended = async {
                loop {
                    tokio::select! {
                        biased;
                        ended = connection.as_mut() => break ended,
                        _ = stopping.changed(), if !told => {
                            told = true;
                            connection.as_mut().graceful_shutdown();
                        }
                    }
                }
            } => {
                if let Err(error) = ended {
                    tracing::debug!(%error, client = %client.address, "connection closed");
                }
            }
            () = silence.as_mut() => {
                tracing::debug!(client = %client.address, "connection closed after silence");
            }
        }
        gauge.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_base::clock::SystemClock;
    use futures::FutureExt;

    #[test]
    fn silence_counts_only_while_the_client_is_to_act() {
        let clock = SystemClock::new();
        let activity = Activity::default();
        let interval = Duration::from_millis(5);
        futures::executor::block_on(activity.silence(&clock, interval));
        activity.waits_for_client(false);
        let silence = std::pin::pin!(activity.silence(&clock, interval));
        let longer = clock.sleep(Duration::from_millis(50));
        let first = futures::executor::block_on(select(silence, longer));
        assert!(matches!(first, Either::Right(_)), "the server works");
        activity.waits_for_client(true);
        assert!(activity.silence(&clock, interval).now_or_never().is_none());
    }
}
