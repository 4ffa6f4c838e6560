//! The way to a server, encrypted or not, and blocking or not.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// A socket of std (blocking) or of mio (not blocking), with TLS above it if that was asked for.
pub struct Socket<S> {
    stream: S,
    tls: Option<Box<ClientConnection>>,
}

impl Socket<TcpStream> {
    pub fn plain(stream: TcpStream) -> Self {
        Self { stream, tls: None }
    }

    /// Begins TLS; the handshake itself comes with the first bytes.
    ///
    /// # Errors
    /// Those of the configuration.
    pub fn encrypt(&mut self, config: &Arc<ClientConfig>) -> io::Result<()> {
        assert!(self.tls.is_none(), "a connection is encrypted once");
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// The same connection, which no longer blocks.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn polled(self) -> io::Result<Socket<mio::net::TcpStream>> {
        self.stream.set_nodelay(true)?;
        self.stream.set_nonblocking(true)?;
        Ok(Socket { stream: mio::net::TcpStream::from_std(self.stream), tls: self.tls })
    }
}

impl<S> Socket<S> {
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Whether bytes may be left where a read got fewer than it had room for.
    pub fn may_hold_more(&self) -> bool {
        self.tls.is_some()
    }
}

impl<S: Read + Write> Read for Socket<S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.read(out),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).read(out),
        }
    }
}

impl<S: Read + Write> Write for Socket<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.write(bytes),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).write(bytes),
        }
    }

    /// Sends what was encrypted and not yet accepted by the socket.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => self.stream.flush(),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).flush(),
        }
    }
}

/// The configuration of a client that trusts the authorities in this file of PEM.
///
/// # Errors
/// The file cannot be read.
pub fn trust(ca: &Path) -> Result<Arc<ClientConfig>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", ca.display());
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(ca).map_err(|error| failed(&error))? {
        let root = root.map_err(|error| failed(&error))?;
        roots.add(root).map_err(|error| failed(&error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().map_err(|error| failed(&error))?;
    // Each connection makes the whole handshake: what is resumed would be cheaper than a new one.
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}
