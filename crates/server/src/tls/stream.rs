//! A connection, encrypted or not.

use std::io::{IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::ProtocolVersion;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::ahead::Ahead;
use super::compressed::Compressed;

/// How a client is connected, as far as accounts ask for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transport {
    /// Whether the connection is encrypted.
    pub encrypted: bool,
    /// Whether the client has shown a certificate that the server trusts.
    pub certified: bool,
}

/// The protocol version and cipher of an encrypted connection, in the names of OpenSSL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsInfo {
    pub version: &'static str,
    pub cipher: String,
}

/// A connection of a client.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<Ahead>>),
    /// One of the others, in compressed frames.
    Compressed(Box<Compressed<Self>>),
    /// Between the two: its handshake runs, or has failed.
    Closed,
}

impl Stream {
    /// Switches to TLS. `received` is what came behind the plain packets: the beginning of the
    /// handshake, and never a command.
    ///
    /// # Errors
    /// When the handshake fails; the connection is closed then.
    pub async fn encrypt(&mut self, received: Vec<u8>, by: &TlsAcceptor) -> std::io::Result<()> {
        let Self::Plain(socket) = std::mem::replace(self, Self::Closed) else {
            return Err(closed());
        };
        let socket = Ahead::new(socket, received);
        *self = Self::Tls(Box::new(by.accept(socket).await?));
        Ok(())
    }

    /// Switches to compressed frames, behind a login.
    pub fn compress(&mut self) {
        let inner = std::mem::replace(self, Self::Closed);
        *self = Self::Compressed(Box::new(Compressed::new(inner)));
    }

    /// How its client is connected.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Tls(stream) => {
                let certified = stream.get_ref().1.peer_certificates().is_some();
                Transport { encrypted: true, certified }
            }
            Self::Compressed(stream) => stream.inner().transport(),
            Self::Plain(_) | Self::Closed => Transport::default(),
        }
    }

    /// Version and cipher; `None` for a plain connection.
    pub fn tls_info(&self) -> Option<TlsInfo> {
        let Self::Tls(stream) = self else { return None };
        let session = stream.get_ref().1;
        let version = match session.protocol_version()? {
            ProtocolVersion::TLSv1_2 => "TLSv1.2",
            ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "unknown",
        };
        let suite = session.negotiated_cipher_suite()?.suite();
        Some(TlsInfo { version, cipher: openssl_name(suite.as_str().unwrap_or_default()) })
    }

    /// Sends what the socket takes at once; `WouldBlock` if it takes nothing, and always where
    /// bytes are to be compressed first. What was encrypted may still wait for the socket
    /// ([`Self::has_unsent`]).
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write(bytes),
            Self::Tls(stream) => {
                let (io, session) = stream.get_mut();
                if session.wants_write() {
                    return Err(std::io::ErrorKind::WouldBlock.into());
                }
                let taken = session.writer().write(bytes)?;
                while session.wants_write() {
                    match session.write_tls(&mut AtOnce(io.socket())) {
                        Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                        Ok(_) => {}
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error),
                    }
                }
                Ok(taken)
            }
            Self::Compressed(_) | Self::Closed => Err(std::io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Whether encrypted bytes wait for the socket: they are sent by a flush.
    pub fn has_unsent(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.get_ref().1.wants_write())
    }
}

/// A socket that takes what it can at once.
struct AtOnce<'a>(&'a TcpStream);

impl Write for AtOnce<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> std::io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The name that OpenSSL, and so MySQL, has for a suite: `ECDHE-RSA-AES256-GCM-SHA384` is
/// `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`; those of TLS 1.3 have one name everywhere.
fn openssl_name(suite: &str) -> String {
    let Some((exchange, cipher)) = suite.split_once("_WITH_") else {
        return suite.replace("TLS13_", "TLS_");
    };
    let exchange = exchange.trim_start_matches("TLS_").replace('_', "-");
    let cipher = cipher.replace("AES_", "AES").replace("POLY1305_SHA256", "POLY1305");
    format!("{exchange}-{}", cipher.replace('_', "-"))
}

fn closed() -> std::io::Error {
    std::io::ErrorKind::NotConnected.into()
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Compressed(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Closed => Poll::Ready(Err(closed())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Compressed(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Closed => Poll::Ready(Err(closed())),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(context, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Compressed(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Closed => Poll::Ready(Err(closed())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Compressed(_) | Self::Closed => false,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
            Self::Compressed(stream) => Pin::new(stream).poll_flush(context),
            Self::Closed => Poll::Ready(Err(closed())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Compressed(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Closed => Poll::Ready(Err(closed())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::openssl_name;

    #[test]
    fn suites_have_the_names_of_openssl() {
        for (suite, name) in [
            ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
            ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ] {
            assert_eq!(openssl_name(suite), name);
        }
    }
}
