//! TLS to the server, and the password where there is none.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::exit::{Failure, Result};

/// A connection, encrypted or not.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Encrypts a connection to `host`, whose certificate an authority in the file `ca` must have
    /// signed.
    ///
    /// # Errors
    /// When the file cannot be read; the handshake itself fails at the first byte.
    pub fn encrypted(socket: TcpStream, host: &str, ca: &Path) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in authorities(ca).map_err(io::Error::other)? {
            roots.add(authority).map_err(io::Error::other)?;
        }
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(StreamOwned::new(session, socket))))
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(out),
            Self::Tls(stream) => stream.read(out),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The same for HTTPS.
///
/// # Errors
/// When the file cannot be read.
pub fn of_https(ca: &Path) -> Result<TlsConfig> {
    let authorities = authorities(ca)?;
    let roots = authorities.iter().map(|authority| Certificate::from_der(authority).to_owned());
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(provider())
        .root_certs(RootCerts::Specific(Arc::new(roots.collect())))
        .build())
}

fn authorities(ca: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unread = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("--tls-ca {}: {error}", ca.display()))
    };
    let all = CertificateDer::pem_file_iter(ca).map_err(|error| unread(&error))?;
    let all = all.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| unread(&error))?;
    match all.is_empty() {
        true => Err(unread(&"there is no certificate in it")),
        false => Ok(all),
    }
}

/// Encrypts a password under the public key of a server, in PEM.
pub fn encrypt_password(pem: &str, plain: &[u8]) -> Option<Vec<u8>> {
    let text = pem.lines().filter(|line| !line.starts_with("-----")).collect::<String>();
    let der = BASE64.decode(text).ok()?;
    let key = OaepPublicEncryptingKey::new(PublicEncryptingKey::from_der(&der).ok()?).ok()?;
    let mut hidden = vec![0; key.ciphertext_size()];
    Some(key.encrypt(&OAEP_SHA1_MGF1SHA1, plain, &mut hidden, None).ok()?.to_vec())
}
