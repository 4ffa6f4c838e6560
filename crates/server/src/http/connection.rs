//! Accepts HTTP connections and serves their requests.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use freshet_base::{Error, Result};
use futures::future::{Either, select};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::client::{Activity, Client, IdleTimeouts};
use super::{Http, route};
use crate::io::{ACCEPT_PAUSE, AcceptErrors, IoThreads};
use crate::tls::{HANDSHAKE_BYTE, Stream};

/// The maximum number of headers of a request.
const HEADERS_MAX: usize = 128;
/// The maximum size of a request's head, and of one read of its body.
const BUFFER_BYTES_MAX: usize = 256 << 10;
/// The response when all connection slots are taken.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
    Content-Length: 21\r\nConnection: close\r\n\r\ntoo many connections\n";

/// A socket that records received bytes for the idle timeout.
struct TrackedSocket {
    stream: Stream,
    client: Arc<Client>,
}

impl AsyncRead for TrackedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.client.activity.received();
        }
        read
    }
}

impl AsyncWrite for TrackedSocket {
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

/// Serves HTTP on `listener` until `shutdown`; then stops accepting, waits for running requests,
/// and returns. Connections are distributed over `threads`, one task each.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    http: Arc<Http>,
    threads: Arc<IoThreads>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let bound = listener.local_addr().map_err(|error| Error::io("read the address", error))?;
    let (stop, stopping) = watch::channel(false);
    let mut errors = AcceptErrors::default();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = match select(std::pin::pin!(listener.accept()), shutdown.as_mut()).await {
            Either::Left((accepted, _)) => accepted,
            Either::Right(_) => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                errors.log(&error, http.clock().now(), "HTTP");
                http.slots.evict_oldest();
                http.clock().sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(slot) = http.slots.enter(address.ip(), &http.slot_limits()) else {
            // Best effort: the connection is closed either way.
            let _ = stream.try_write(BUSY);
            continue;
        };
        let local = stream.local_addr().unwrap_or(bound);
        let thread = threads.next();
        let acks = Arc::clone(thread.acks());
        let (activity, slot) = (Activity::default(), Mutex::new(slot));
        let transport = OnceLock::new();
        let client = Client { address, local, activity, acks, slot, transport };
        let task = Task { http: Arc::clone(&http), client, stopping: stopping.clone() };
        task.spawn(stream, thread.runtime());
    }
    drop(listener);
    // Fails when there are no connections.
    let _ = stop.send(true);
    let drained = http.slots.emptied();
    let deadline = freshet_base::clock::Deadline::after(&**http.clock(), http.config.drain_max);
    if freshet_base::clock::until(&**http.clock(), deadline, drained).await.is_none() {
        tracing::warn!("HTTP requests did not end in time and are cut off");
    }
    Ok(())
}

/// A connection that was accepted and not yet started.
struct Task {
    http: Arc<Http>,
    client: Client,
    stopping: watch::Receiver<bool>,
}

impl Task {
    /// Starts it on `worker`.
    fn spawn(self, stream: TcpStream, worker: &Handle) {
        // A socket must be registered with the runtime of the thread that polls it.
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
        let evicted = client.slot.lock().evicted();
        let timeouts =
            IdleTimeouts { head: http.config.header_max, silence: http.config.silence_max };
        let silence = client.activity.silence(&**http.clock(), timeouts);
        let mut silence = std::pin::pin!(silence);
        tokio::select! {
            biased;
            ended = converse(&http, &client, stream, &mut stopping) => {
                if let Err(error) = ended {
                    tracing::debug!(%error, client = %client.address, "connection closed");
                }
            }
            () = evicted => {
                tracing::debug!(client = %client.address, "connection closed for another one");
            }
            () = silence.as_mut() => {
                tracing::debug!(client = %client.address, "connection closed after silence");
            }
        }
        gauge.dec();
    }
}

/// Answers the requests of a client until it leaves or the server stops.
async fn converse(
    http: &Arc<Http>,
    client: &Arc<Client>,
    stream: TcpStream,
    stopping: &mut watch::Receiver<bool>,
) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = tokio::select! {
        biased;
        opened = open(http, stream) => opened?,
        _ = stopping.changed() => return Ok(()),
    };
    client.transport.set(stream.transport()).expect("a connection is opened once");
    let socket = TrackedSocket { stream, client: Arc::clone(client) };
    let service = service_fn(|request| {
        let (http, client) = (Arc::clone(http), Arc::clone(client));
        async move {
            client.activity.request(true);
            let response = route::answer(&http, &client, request).await;
            client.activity.request(false);
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .max_headers(HEADERS_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = std::pin::pin!(connection);
    let mut announced = false;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => return Ok(ended?),
            _ = stopping.changed(), if !announced => {
                announced = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The stream of a connection: encrypted if its client begins with a handshake of TLS. A handshake
/// that takes too long counts as silence.
async fn open(http: &Http, stream: TcpStream) -> std::io::Result<Stream> {
    let mut first = [0];
    let encrypted = match &http.config.tls {
        Some(tls) if stream.peek(&mut first).await? == 1 && first[0] == HANDSHAKE_BYTE => Some(tls),
        _ => None,
    };
    let mut stream = Stream::Plain(stream);
    if let Some(tls) = encrypted {
        stream.encrypt(Vec::new(), &tls.acceptor()).await?;
    }
    Ok(stream)
}
