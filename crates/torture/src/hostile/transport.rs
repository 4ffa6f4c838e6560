//! The bytes of a hostile client, encrypted or not.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// An answer that takes longer is not waited for: what was sent may have promised more bytes.
const PATIENCE: Duration = Duration::from_millis(60);

/// The configuration of a client that trusts the server with this certificate.
///
/// # Errors
/// The file cannot be read.
pub fn trust(ca: &Path) -> Result<Arc<ClientConfig>, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", ca.display());
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(ca).map_err(|e| failed(&e))? {
        roots.add(root.map_err(|e| failed(&e))?).map_err(|e| failed(&e))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().map_err(|e| failed(&e))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// The way to the server.
pub enum Transport {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Transport {
    /// # Errors
    /// Those of the socket.
    pub fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self::Plain(stream))
    }

    /// Begins encryption. Some clients send rubbish where it should begin, or amid it.
    ///
    /// # Errors
    /// Those of the socket and of the handshake.
    pub fn encrypt(self, tls: &Arc<ClientConfig>, random: &mut StdRng) -> io::Result<Self> {
        let Self::Plain(mut stream) = self else { return Ok(self) };
        if super::happens(random, 5) {
            let rubbish = (0..random.random_range(1..200)).map(|_| random.random());
            stream.write_all(&rubbish.collect::<Vec<u8>>())?;
        }
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::clone(tls), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(tls, stream);
        stream.flush()?;
        if super::happens(random, 2) {
            let rubbish = [0x17, 3, 3, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9];
            stream.sock.write_all(&rubbish)?;
        }
        Ok(Self::Encrypted(Box::new(stream)))
    }

    /// Sends bytes, at once or in pieces.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn send(&mut self, bytes: &[u8], random: &mut StdRng) -> io::Result<()> {
        let piece = match random.random_range(0..10) {
            0 => 1.max(bytes.len() / 7),
            1 if bytes.len() < 200 => 1,
            _ => bytes.len().max(1),
        };
        for piece in bytes.chunks(piece) {
            match self {
                Self::Plain(stream) => stream.write_all(piece)?,
                Self::Encrypted(stream) => {
                    stream.write_all(piece)?;
                    stream.flush()?;
                }
            }
        }
        Ok(())
    }

    /// Reads what is there, and waits a moment if it is nothing; empty if nothing comes.
    ///
    /// # Errors
    /// The server has closed the connection, or it broke.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 1 << 16];
        let read = match self {
            Self::Plain(stream) => stream.read(&mut bytes),
            Self::Encrypted(stream) => stream.read(&mut bytes),
        };
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                bytes.truncate(count);
                Ok(bytes)
            }
            Err(error) if is_patience(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

fn is_patience(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
