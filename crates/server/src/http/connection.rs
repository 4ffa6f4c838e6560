//! Accepting connections, and one connection's requests in their order.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use freshet_base::clock::Clock;
use freshet_base::{Error, Result};
use freshet_meta::Account;
use futures::future::{Either, select};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::{Http, route};
use crate::io::{ACCEPT_PAUSE, Acks, IoThreads, Trouble};
use crate::places::Place;

/// Most headers of a request.
const HEADERS_MAX: usize = 128;
/// Most bytes of a request's head, and of one read of its body.
const BUFFER_BYTES_MAX: usize = 256 << 10;
/// What a client reads that finds no free connection.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
    Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n";

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
    /// Its place among the connections.
    place: Mutex<Place>,
}

impl Client {
    /// The place is that of an account from now on.
    ///
    /// # Errors
    /// 1040 and 1203 where there are too many.
    pub(super) fn settle(&self, http: &Http, account: &Account) -> Result<()> {
        if !self.activity.known.load(Ordering::Relaxed) {
            self.place.lock().settle(account, &http.place_limits(), false)?;
            self.activity.known.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whose turn it is on a connection. A client that lets a whole interval pass with nothing but
/// silence, between requests or inside one, loses its connection: one timer a connection, none
/// a request. The interval is short for one that nobody knows, and for the head of a request.
#[derive(Default)]
pub(super) struct Activity {
    working: AtomicBool,
    steps: AtomicU64,
    /// Whether a request is being answered.
    in_request: AtomicBool,
    /// Whether something came of a request whose head is not whole.
    in_head: AtomicBool,
    /// Whether the client has shown who it is.
    known: AtomicBool,
}

/// How long a client may be silent.
#[derive(Clone, Copy)]
struct Patience {
    /// In the head of a request, and before anybody knows it.
    head: Duration,
    /// Otherwise.
    silence: Duration,
}

impl Activity {
    /// Notes that the client is to act from here on, or has acted.
    pub(super) fn waits_for_client(&self, waits: bool) {
        self.working.store(!waits, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// A request begins or is answered.
    fn request(&self, begins: bool) {
        self.in_head.store(false, Ordering::Relaxed);
        self.in_request.store(begins, Ordering::Relaxed);
        self.waits_for_client(!begins);
    }

    /// Bytes came.
    fn heard(&self) {
        if !self.in_request.load(Ordering::Relaxed) {
            self.in_head.store(true, Ordering::Relaxed);
        }
    }

    /// Resolves once the client was silent for between one and two intervals.
    async fn silence(&self, clock: &dyn Clock, patience: Patience) {
        let interval = patience.head.min(patience.silence);
        let mut before = self.steps.load(Ordering::Relaxed);
        let (mut silent, mut head_before) = (Duration::ZERO, false);
        loop {
            clock.sleep(interval).await;
            let now = self.steps.load(Ordering::Relaxed);
            let in_head = self.in_head.load(Ordering::Relaxed);
            if now == before && !self.working.load(Ordering::Relaxed) {
                silent += interval;
                let unknown = !self.known.load(Ordering::Relaxed);
                let in_request = self.in_request.load(Ordering::Relaxed);
                let soon = !in_request && (unknown || in_head && head_before);
                if soon || silent >= patience.silence {
                    return;
                }
            } else {
                silent = Duration::ZERO;
            }
            (before, head_before) = (now, in_head);
        }
    }
}

/// A socket that notes when something came.
struct Heard {
    stream: TcpStream,
    client: Arc<Client>,
}

impl AsyncRead for Heard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.client.activity.heard();
        }
        read
    }
}

impl AsyncWrite for Heard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
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
    let mut trouble = Trouble::default();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = match select(std::pin::pin!(listener.accept()), shutdown.as_mut()).await {
            Either::Left((accepted, _)) => accepted,
            Either::Right(_) => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                trouble.tell(&error, http.clock().now(), "HTTP");
                http.places.make_room();
                http.clock().sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = http.places.enter(address.ip(), &http.place_limits()) else {
            // Best effort: the connection is closed either way.
            let _ = stream.try_write(BUSY);
            continue;
        };
        let local = stream.local_addr().unwrap_or(bound);
        let thread = threads.next();
        let acks = Arc::clone(thread.acks());
        let (activity, place) = (Activity::default(), Mutex::new(place));
        let client = Client { address, local, activity, acks, place };
        let task = Task { http: Arc::clone(&http), client, stopping: stopping.clone() };
        task.spawn(stream, thread.runtime());
    }
    drop(listener);
    // Nobody may be left to hear it.
    let _ = stop.send(true);
    let drained = http.places.emptied();
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
    /// Runs on `worker`.
    fn spawn(self, stream: TcpStream, worker: &Handle) {
        // A socket belongs to the runtime whose thread waits for it.
        let moved = stream.set_nodelay(true).and_then(|()| stream.into_std());
        let Ok(stream) = moved else { return };
        worker.spawn(async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => self.run(stream).await,
                Err(error) => tracing::warn!(%error, "a connection could not be taken over"),
            }
        });
    }

    async fn run(self, stream: TcpStream) {
        let Self { http, client, mut stopping } = self;
        let gauge = http.engine.metrics().connections.clone();
        gauge.inc();
        let client = Arc::new(client);
        let sent_away = client.place.lock().sent_away();
        let heard = Heard { stream, client: Arc::clone(&client) };
        let service = service_fn(|request| {
            let (http, client) = (Arc::clone(&http), Arc::clone(&client));
            async move {
                client.activity.request(true);
                let response = route::answer(&http, &client, request).await;
                client.activity.request(false);
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        let mut connection = std::pin::pin!(
            http1::Builder::new()
                .max_headers(HEADERS_MAX)
                .max_buf_size(BUFFER_BYTES_MAX)
                .serve_connection(TokioIo::new(heard), service)
        );
        let patience = Patience { head: http.config.header_max, silence: http.config.silence_max };
        let silence = client.activity.silence(&**http.clock(), patience);
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
            () = sent_away => {
                tracing::debug!(client = %client.address, "connection closed for another one");
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
        let patience = Patience { head: interval, silence: interval };
        futures::executor::block_on(activity.silence(&clock, patience));
        activity.waits_for_client(false);
        let silence = std::pin::pin!(activity.silence(&clock, patience));
        let longer = clock.sleep(Duration::from_millis(50));
        let first = futures::executor::block_on(select(silence, longer));
        assert!(matches!(first, Either::Right(_)), "the server works");
        activity.waits_for_client(true);
        assert!(activity.silence(&clock, patience).now_or_never().is_none());
    }
}
