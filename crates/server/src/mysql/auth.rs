//! Passwords at login: accounts of the catalog against the plugins of the protocol.

use std::sync::OnceLock;

use freshet_base::{Error, Result, err};
use freshet_ingest::Engine;
use freshet_meta::{Account, AuthData};
use freshet_wire::auth::{AuthPlugin, Credential};
use freshet_wire::login::PasswordKey;
use rsa::pkcs8::{EncodePublicKey, LineEnding};
use rsa::{Oaep, RsaPrivateKey};

/// Bits of the key that passwords are encrypted with.
const KEY_BITS: usize = 2048;

/// The RSA key of this start, made when a client first asks for it: making one takes long.
#[derive(Default)]
pub struct ServerKey(OnceLock<Key>);

struct Key {
    private: RsaPrivateKey,
    public_pem: String,
}

impl ServerKey {
    /// Whether making the key would block.
    pub fn is_made(&self) -> bool {
        self.0.get().is_some()
    }

    /// Makes the key, which takes a second; for a thread that may block.
    pub fn make(&self) {
        self.key();
    }

    fn key(&self) -> &Key {
        self.0.get_or_init(|| {
            let private = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, KEY_BITS)
                .expect("an RSA key of a common size can be made");
            let public_pem = private
                .to_public_key()
                .to_public_key_pem(LineEnding::LF)
                .expect("a public key can be written");
            Key { private, public_pem }
        })
    }
}

impl PasswordKey for ServerKey {
    fn public_key_pem(&self) -> &str {
        &self.key().public_pem
    }

    fn decrypt(&self, ciphertext: &[u8]) -> Option<Vec<u8>> {
        self.key().private.decrypt(Oaep::new::<sha1::Sha1>(), ciphertext).ok()
    }
}

/// Who a client that calls itself `user` at `host` would be, and what proves it. Unknown users
/// get a credential that nothing proves, so that the exchange does not tell them from others.
pub fn account_of(
    engine: &Engine,
    user: &str,
    host: &str,
    plugin: Option<&str>,
) -> (Option<Account>, Credential) {
    let plugin = plugin.and_then(AuthPlugin::from_name).unwrap_or(AuthPlugin::Native);
    match engine.catalog().user_for(user, host) {
        Some(user) => (Some(user.account.clone()), credential(&user.auth, plugin)),
        None => (None, Credential::Never(plugin)),
    }
}

/// What proves a password under the plugin that the client would like.
pub fn credential(auth: &AuthData, plugin: AuthPlugin) -> Credential {
    match (auth.native, auth.sha2, plugin) {
        (None, None, _) => Credential::Empty(plugin),
        (Some(stored), _, AuthPlugin::Native) | (Some(stored), None, _) => {
            Credential::Native(stored)
        }
        (_, Some(stored), _) => Credential::Sha2Fast(stored),
    }
}

/// What is stored of a password, for the plugin that was named or for both.
pub fn auth_data(password: &[u8], plugin: Option<AuthPlugin>) -> AuthData {
    let mut auth = AuthData::default();
    if plugin != Some(AuthPlugin::CachingSha2)
        && let Credential::Native(stored) = Credential::native(password)
    {
        auth.native = Some(stored);
    }
    if plugin != Some(AuthPlugin::Native)
        && let Credential::Sha2Fast(stored) = Credential::sha2_fast(password)
    {
        auth.sha2 = Some(stored);
    }
    auth
}

/// Whether somebody with this name and password may come in, for HTTP Basic authentication.
///
/// # Errors
/// 1045.
pub fn check_password(
    engine: &Engine,
    user: &str,
    password: &str,
    peer: std::net::IpAddr,
) -> Result<Account> {
    let (account, credential) = account_of(engine, user, &host_of(peer), None);
    let accepted = credential.accepts_password(password.as_bytes());
    match account.filter(|_| accepted) {
        Some(account) => {
            refuse_open_root(&account, &credential, peer)?;
            Ok(account)
        }
        None => Err(denied(user, peer, !password.is_empty())),
    }
}

/// While `root` has no password it comes from this machine only.
///
/// # Errors
/// 1045.
pub fn refuse_open_root(
    account: &Account,
    credential: &Credential,
    peer: std::net::IpAddr,
) -> Result<()> {
    if account.name == "root" && matches!(credential, Credential::Empty(_)) && !peer.is_loopback() {
        return Err(err!(
            AccessDenied,
            "Access denied for user 'root'@'{}' (using password: NO): root has no password yet, \
             and comes from this machine only; set one by ALTER USER root IDENTIFIED BY '...'",
            host_of(peer)
        ));
    }
    Ok(())
}

/// The refusal of a login.
pub fn denied(user: &str, peer: std::net::IpAddr, password_given: bool) -> Error {
    let given = if password_given { "YES" } else { "NO" };
    let host = host_of(peer);
    err!(AccessDenied, "Access denied for user '{user}'@'{host}' (using password: {given})")
}

/// The host of a client, as accounts name it.
pub fn host_of(peer: std::net::IpAddr) -> String {
    match peer.to_canonical() {
        address if address.is_loopback() => "localhost".to_owned(),
        address => address.to_string(),
    }
}
