//! Sending to a client, and why connections end.

use std::time::Duration;

use freshet_base::Error;
use freshet_wire::PacketWriter;
use tokio::io::AsyncWriteExt;

use crate::tls::Stream;

#[derive(Debug)]
pub enum End {
    /// The client said that it leaves.
    Quit,
    /// The client disconnected, or was sent an error that ends the connection.
    Closed,
    /// The socket failed, or the client stopped reading.
    Io(std::io::Error),
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Sends bytes; fails if the client does not take them within `timeout`.
pub async fn send(socket: &mut Stream, bytes: &[u8], timeout: Duration) -> std::io::Result<()> {
    // The socket nearly always takes everything at once; then no timer is needed.
    let sent = match socket.try_write(bytes) {
        Ok(sent) => sent,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
        Err(error) => return Err(error),
    };
    if sent == bytes.len() && !socket.has_unsent() {
        return Ok(());
    }
    let rest = async {
        socket.write_all(&bytes[sent..]).await?;
        // Under TLS what was written may still wait to be sent.
        socket.flush().await
    };
    match tokio::time::timeout(timeout, rest).await {
        Ok(written) => written,
        Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut)),
    }
}

/// Writes an ERR packet.
pub fn put_error(writer: &mut PacketWriter, error: &Error) {
    writer.err(error.code().errno(), error.code().sqlstate(), error.message());
}
