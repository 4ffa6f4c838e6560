//! Keys for a server that was given none: an authority, and a certificate that it signed.
//!
//! The key of the authority is thrown away, so that nothing else can ever be signed by it: clients
//! that trust it trust this server alone.

use std::net::IpAddr;
use std::path::Path;

use freshet_base::io::Fs;
use freshet_base::{Error, Result, err};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

/// The directory of generated keys in the data directory.
pub const DIR: &str = "tls";
/// What clients may trust (`--ssl-ca`).
const CA_FILE: &str = "ca.pem";
pub const CERT_FILE: &str = "server-cert.pem";
pub const KEY_FILE: &str = "server-key.pem";
/// A certificate that nobody renews must not end while its server lives. Later years are written in
/// a form that old clients do not read.
const LAST_YEAR: i32 = 2049;

/// Generates the files unless they exist.
///
/// # Errors
/// When they cannot be written.
pub fn ensure(fs: &dyn Fs, dir: &Path, addresses: &[IpAddr]) -> Result<()> {
    let [ca, cert, key] = [CA_FILE, CERT_FILE, KEY_FILE].map(|name| dir.join(name));
    if fs.exists(&cert) && fs.exists(&key) {
        return Ok(());
    }
    let failed = |error| Error::io(format_args!("write keys to {}", dir.display()), error);
    let made = Generated::new(addresses)
        .map_err(|error| err!(Internal, "keys for TLS could not be generated: {error}"))?;
    fs.make_dir(dir).map_err(failed)?;
    fs.close(dir).map_err(failed)?;
    // The certificate is written last, so that after a crash there is none without its key.
    if fs.exists(&cert) {
        fs.remove_file(&cert).map_err(failed)?;
        fs.sync_dir(dir).map_err(failed)?;
    }
    for (path, text) in [(&ca, &made.ca), (&key, &made.key), (&cert, &made.cert)] {
        fs.write_atomic(path, text.as_bytes()).map_err(failed)?;
        fs.close(path).map_err(failed)?;
    }
    Ok(())
}

/// Certificates and a key in PEM.
struct Generated {
    ca: String,
    cert: String,
    key: String,
}

impl Generated {
    fn new(addresses: &[IpAddr]) -> std::result::Result<Self, rcgen::Error> {
        let mut authority = named("Freshet generated authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut server = named("Freshet generated server certificate");
        server.subject_alt_names.push(SanType::DnsName("localhost".try_into()?));
        let loopback = ["127.0.0.1", "::1"].map(|text| text.parse().expect("an address"));
        let mut own = loopback.to_vec();
        own.extend(addresses.iter().filter(|address| !address.is_unspecified()));
        own.sort_unstable();
        own.dedup();
        server.subject_alt_names.extend(own.into_iter().map(SanType::IpAddress));
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let cert = server.signed_by(&key, &authority)?;
        Ok(Self { ca: authority.pem(), cert: cert.pem(), key: key.serialize_pem() })
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2025, 1, 1);
    params.not_after = date_time_ymd(LAST_YEAR, 12, 31);
    params
}
