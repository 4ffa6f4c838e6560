//! Accepts connections and assigns each to an I/O thread.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};

use crate::Shared;
use crate::io::{ACCEPT_PAUSE, AcceptErrors, IoThreads};
use crate::mysql::client;

/// Accepts connections until `stop`.
pub async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    threads: Arc<IoThreads>,
    stop: impl Future<Output = ()>,
) {
    let mut stop = std::pin::pin!(stop);
    let mut errors = AcceptErrors::default();
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
                errors.log(&error, clock.now(), "MySQL protocol");
                // Usually the process is out of file descriptors: closing an idle connection frees
                // one.
                shared.slots.evict_oldest();
                clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn hand_over(stream: TcpStream, peer: SocketAddr, shared: &Arc<Shared>, threads: &IoThreads) {
    // The stream is registered again with the runtime of its thread.
    let Ok(stream) = stream.into_std() else { return };
    let thread = threads.next();
    let (shared, acks) = (Arc::clone(shared), Arc::clone(thread.acks()));
    thread.runtime().spawn(async move {
        let Ok(stream) = TcpStream::from_std(stream) else { return };
        // Works without the option, only slower.
        let _ = stream.set_nodelay(true);
        client::serve(stream, shared, acks, peer).await;
    });
}
