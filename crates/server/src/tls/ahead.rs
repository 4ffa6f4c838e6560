//! A socket that is read ahead of what TLS asks for.
//!
//! rustls asks for 4 KiB at a time, which is a system call for each of them: five for a record. Of
//! a client that sends much, more is received at once.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What is received at once of a client that sends much: two records.
const AHEAD_BYTES: usize = 32 << 10;

/// A socket of which some bytes have been received already.
pub struct Ahead {
    socket: TcpStream,
    /// `taken..end` are received and not yet read. It is empty while the client is silent.
    buffer: Vec<u8>,
    taken: usize,
    end: usize,
    /// Whether the last read got as much as it had room for, so that there is more.
    is_busy: bool,
}

impl Ahead {
    /// A socket of which these bytes have been received already.
    pub fn new(socket: TcpStream, received: Vec<u8>) -> Self {
        let end = received.len();
        Self { socket, buffer: received, taken: 0, end, is_busy: false }
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Receives what there is into the buffer, which is empty.
    fn fill(&mut self, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.buffer.resize(AHEAD_BYTES, 0);
        let mut ahead = ReadBuf::new(&mut self.buffer);
        let read = Pin::new(&mut self.socket).poll_read(context, &mut ahead);
        (self.taken, self.end) = (0, ahead.filled().len());
        self.is_busy = self.end == AHEAD_BYTES;
        if self.end == 0 {
            // A client that is silent holds no memory.
            self.buffer = Vec::new();
        }
        read
    }
}

impl AsyncRead for Ahead {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        if this.taken == this.end {
            if !this.is_busy {
                ready!(Pin::new(&mut this.socket).poll_read(context, buffer))?;
                this.is_busy = buffer.remaining() == 0;
                return Poll::Ready(Ok(()));
            }
            ready!(this.fill(context))?;
        }
        let count = (this.end - this.taken).min(buffer.remaining());
        buffer.put_slice(&this.buffer[this.taken..this.taken + count]);
        this.taken += count;
        if this.taken == this.end && !this.is_busy {
            this.buffer = Vec::new();
            (this.taken, this.end) = (0, 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Ahead {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn what_is_sent_is_read_in_order_and_silence_holds_no_memory() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let sent = (0..300_000_u32).map(|at| (at % 251) as u8).collect::<Vec<_>>();
            let (first, rest) = (sent[..10].to_vec(), sent[10..].to_vec());
            let client = tokio::spawn(async move {
                let mut client = TcpStream::connect(address).await.unwrap();
                client.write_all(&rest).await.unwrap();
                client
            });
            let (socket, _) = listener.accept().await.unwrap();
            let mut ahead = Ahead::new(socket, first);
            let (mut got, mut read_ahead) = (Vec::new(), false);
            let mut piece = [0; 4096];
            while got.len() < sent.len() {
                let count = ahead.read(&mut piece).await.unwrap();
                got.extend_from_slice(&piece[..count]);
                read_ahead |= ahead.end > 0 && got.len() > 10;
            }
            assert!(got == sent, "other bytes than were sent");
            assert!(read_ahead, "all was read in small pieces");
            let mut client = client.await.unwrap();
            client.write_all(b"x").await.unwrap();
            assert_eq!(ahead.read(&mut piece).await.unwrap(), 1);
            assert_eq!(ahead.buffer.capacity(), 0);
            drop(client);
            assert_eq!(ahead.read(&mut piece).await.unwrap(), 0, "the end");
        });
    }
}
