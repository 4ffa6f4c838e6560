//! What goes to a client's socket, and why a conversation ends.

use std::time::Duration;

use freshet_base::Error;
use freshet_wire::PacketWriter;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Why a connection ends.
#[derive(Debug)]
pub enum End {
    /// The client left, or was told why it has to.
    Closed,
    /// The socket failed, or the client stopped reading.
    Io(std::io::Error),
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Sends bytes to a client that may take its time, but not for ever.
pub async fn send(socket: &mut TcpStream, bytes: &[u8], timeout: Duration) -> std::io::Result<()> {
    // Nearly always the socket takes all at once, and no timer has to be set.
    let sent = match socket.try_write(bytes) {
        Ok(sent) => sent,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
        Err(error) => return Err(error),
    };
    if sent == bytes.len() {
        return Ok(());
    }
    match tokio::time::timeout(timeout, socket.write_all(&bytes[sent..])).await {
        Ok(written) => written,
        Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut)),
    }
}

/// Answers with an error.
pub fn put_error(writer: &mut PacketWriter, error: &Error) {
    writer.err(error.code().errno(), error.code().sqlstate(), error.message());
}
