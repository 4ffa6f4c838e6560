//! TLS of both protocols: where keys come from, and how they are replaced while connections are
//! served.

mod ahead;
mod compressed;
mod generate;
mod stream;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use freshet_base::io::FsRef;
use freshet_base::task::{self, PoolRef};
use freshet_base::{Error, ErrorCode, Result, err};
use freshet_ingest::Engine;
use parking_lot::RwLock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

pub use stream::{Stream, TlsInfo, Transport};

/// The first byte of a TLS connection; no HTTP request begins with it.
pub const HANDSHAKE_BYTE: u8 = 0x16;
/// The largest file of certificates or of a key.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Whether connections may be encrypted, and with which keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsSettings {
    pub enabled: bool,
    /// The certificate chain of the server, in PEM; `None`: it is generated.
    pub cert_file: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    pub key_file: Option<PathBuf>,
    /// The authorities that certificates of clients are checked against, in PEM; `None`: clients
    /// need none.
    pub ca_file: Option<PathBuf>,
}

/// The files that keys are read from.
#[derive(Clone, Debug)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
    ca: Option<PathBuf>,
}

/// The keys of the server.
pub struct Tls {
    fs: FsRef,
    pool: PoolRef,
    files: Files,
    current: RwLock<Arc<ServerConfig>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the keys, and generates them in the data directory where none are given; `None` if TLS
    /// is switched off. `addresses` are those that a generated certificate names.
    ///
    /// # Errors
    /// When files are missing, unreadable, or do not belong together.
    pub async fn open(
        settings: &TlsSettings,
        engine: &Engine,
        addresses: &[SocketAddr],
    ) -> Result<Option<Arc<Self>>> {
        if !settings.enabled {
            return Ok(None);
        }
        let (fs, pool) = (Arc::clone(engine.fs()), Arc::clone(engine.pool()));
        let dir = engine.config().data_dir.join(generate::DIR);
        let (files, generates) = match (&settings.cert_file, &settings.key_file) {
            (Some(cert), Some(key)) => {
                (Files { cert: cert.clone(), key: key.clone(), ca: None }, false)
            }
            (None, None) => {
                let (cert, key) = (dir.join(generate::CERT_FILE), dir.join(generate::KEY_FILE));
                (Files { cert, key, ca: None }, true)
            }
            _ => {
                return Err(err!(
                    WrongArguments,
                    "tls_cert_file and tls_key_file belong together: give both or none"
                ));
            }
        };
        let files = Files { ca: settings.ca_file.clone(), ..files };
        let names = addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>();
        let (at, from) = (Arc::clone(&fs), files.clone());
        let current = task::run(&*pool, move || {
            if generates {
                generate::ensure(&*at, &dir, &names)?;
            }
            read(&*at, &from)
        })
        .await?;
        Ok(Some(Arc::new(Self { fs, pool, files, current: RwLock::new(current) })))
    }

    /// Reads the files again, for connections from now on; those that are open keep their keys.
    ///
    /// # Errors
    /// As [`Self::open`]; the keys stay what they were.
    pub async fn reload(&self) -> Result<()> {
        let (fs, files) = (Arc::clone(&self.fs), self.files.clone());
        let read = task::run(&*self.pool, move || read(&*fs, &files)).await?;
        *self.current.write() = read;
        Ok(())
    }

    /// What accepts a connection with the present keys.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current.read()))
    }

    /// The files of certificate, key, and authorities of clients, as `SHOW VARIABLES` has them.
    pub fn paths(&self) -> [String; 3] {
        let shown = |path: &Path| path.display().to_string();
        let ca = self.files.ca.as_deref().map(shown).unwrap_or_default();
        [shown(&self.files.cert), shown(&self.files.key), ca]
    }
}

fn read(fs: &dyn freshet_base::io::Fs, files: &Files) -> Result<Arc<ServerConfig>> {
    let chain = certificates(fs, &files.cert, "tls_cert_file")?;
    let text = pem(fs, &files.key, "tls_key_file")?;
    let key = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| unfit(&files.key, "tls_key_file", "no private key in PEM", error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for all versions");
    let builder = match &files.ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(fs, path, "tls_ca_file")? {
                roots
                    .add(authority)
                    .map_err(|error| unfit(path, "tls_ca_file", "no authority", error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| unfit(path, "tls_ca_file", "no authority", error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(chain, key).map_err(|error| {
        let why = format!("it does not go with the key in {}", files.key.display());
        unfit(&files.cert, "tls_cert_file", &why, error)
    })?;
    Ok(Arc::new(config))
}

fn certificates(
    fs: &dyn freshet_base::io::Fs,
    path: &Path,
    setting: &str,
) -> Result<Vec<CertificateDer<'static>>> {
    const WHAT: &str = "no certificates in PEM";
    let text = pem(fs, path, setting)?;
    let all = CertificateDer::pem_slice_iter(&text).collect::<std::result::Result<Vec<_>, _>>();
    let all = all.map_err(|error| unfit(path, setting, WHAT, error))?;
    match all.is_empty() {
        true => Err(err!(WrongArguments, "{setting}: {}: {WHAT}", path.display())),
        false => Ok(all),
    }
}

/// The content of a file.
fn pem(fs: &dyn freshet_base::io::Fs, path: &Path, setting: &str) -> Result<Vec<u8>> {
    let failed = |error| Error::io(format_args!("{setting}: read {}", path.display()), error);
    let file = fs.open(path, freshet_base::io::Mode::Read).map_err(failed)?;
    let bytes = file.len_bytes().map_err(failed)?;
    if bytes > FILE_BYTES_MAX {
        return Err(err!(
            WrongArguments,
            "{setting}: {} has {bytes} bytes, which is no file of keys",
            path.display()
        ));
    }
    fs.read(path).map_err(failed)
}

fn unfit(path: &Path, setting: &str, what: &str, error: impl std::fmt::Display) -> Error {
    let code = ErrorCode::WrongArguments;
    Error::new(code, format!("{setting}: {}: {what}: {error}", path.display()))
}
