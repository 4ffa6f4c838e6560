//! Accepting connections and giving each to a thread of its own choice for life.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Error, Result};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::Shared;
use crate::io::IoThreads;
use crate::mysql::login;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// How long to wait when the system has no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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

/// Accepts clients until `stop`.
pub async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    threads: Arc<IoThreads>,
    stop: impl Future<Output = ()>,
) {
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => hand_over(stream, peer, &shared, &threads),
            Err(error) => {
                // Usually no file descriptors are left: some come back when clients leave.
                tracing::warn!(%error, "cannot accept a connection");
                shared.engine.clock().sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn hand_over(stream: TcpStream, peer: SocketAddr, shared: &Arc<Shared>, threads: &IoThreads) {
    // The stream is registered anew with the runtime of its thread.
    let Ok(stream) = stream.into_std() else { return };
    let thread = threads.next();
    let (shared, acks) = (Arc::clone(shared), Arc::clone(thread.acks()));
    thread.runtime().spawn(async move {
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        // A socket that does not take the option is still a socket.
        let _ = stream.set_nodelay(true);
        login::serve(stream, shared, acks, peer.ip()).await;
    });
}
