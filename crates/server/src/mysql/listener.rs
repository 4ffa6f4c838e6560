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

/// Accepts clients until `stop`.
pub async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    threads: Arc<IoThreads>,
    stop: impl Future<Output = ()>,
) {
    let mut stop = std::pin::pin!(stop);
    let mut trouble = Trouble::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => hand_over(stream, peer, &shared, &threads),
            Err(error) => {
                let clock = shared.engine.clock();
                trouble.tell(&error, clock.now(), "MySQL protocol");
                // Usually no file descriptors are left: some come back when clients leave.
                shared.places.make_room();
                clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
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
    pub fn tell(&mut self, error: &std::io::Error, now: Duration, protocol: &str) {
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
