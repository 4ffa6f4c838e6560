//! Checking passwords: accounts of the catalog and the authentication plugins of the protocol.

mod attempts;
pub mod attributes;
pub mod current;
mod guard;
pub mod reuse;
pub mod second;
pub mod strength;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, PrivateDecryptingKey};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use freshet_base::clock::Clock;
use freshet_base::{Error, Result, bail, err};
use freshet_ingest::Engine;
use freshet_meta::{Account, AuthData, Catalog, TlsRequirement, User};
use freshet_wire::PacketWriter;
use freshet_wire::auth::{
    AuthPlugin, Credential, FastHash, PASSWORD_BYTES_MAX, Scramble, SlowHash,
};
use freshet_wire::login::{AuthStep, Authenticator, PasswordKey};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::tls::Transport;
use crate::variables::Globals;
use attempts::Attempts;
use guard::{Delays, Guard};

/// Characters per line of PEM.
const PEM_LINE_CHARS: usize = 64;
/// Passwords whose fast hash is cached.
const CACHED_HASHES_MAX: usize = 10_000;

/// The RSA key of this process, generated when a client first asks for it, which is slow.
#[derive(Default)]
struct ServerKey(OnceLock<Key>);

struct Key {
    private: OaepPrivateDecryptingKey,
    public_pem: String,
}

impl Key {
    fn new() -> Self {
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048)
            .expect("an RSA key of a common size can be made");
        let public: PublicKeyX509Der<'_> =
            private.public_key().as_der().expect("a public key can be written");
        let public_pem = pem(public.as_ref());
        let private = OaepPrivateDecryptingKey::new(private).expect("it is of the size for it");
        Self { private, public_pem }
    }
}

/// A public key in PEM.
fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN PUBLIC KEY-----\n");
    for line in text.as_bytes().chunks(PEM_LINE_CHARS) {
        pem.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        pem.push('\n');
    }
    pem.push_str("-----END PUBLIC KEY-----\n");
    pem
}

impl ServerKey {
    fn key(&self) -> &Key {
        self.0.get_or_init(Key::new)
    }
}

impl PasswordKey for ServerKey {
    fn public_key_pem(&self) -> &str {
        &self.key().public_pem
    }

    fn decrypt(&self, ciphertext: &[u8]) -> Option<Vec<u8>> {
        let private = &self.key().private;
        let mut plain = vec![0; private.min_output_size()];
        let decrypted = private.decrypt(&OAEP_SHA1_MGF1SHA1, ciphertext, &mut plain, None);
        decrypted.ok().map(|plain| plain.to_vec())
    }
}

/// State shared by all logins: the RSA key that passwords are encrypted with, and the cache of
/// `caching_sha2_password`, so that the slow hash is computed once per user and start.
pub struct Passwords {
    key: ServerKey,
    /// The fast hash by the slow hash that a password has proven: after ALTER USER nobody asks for
    /// the old one any more.
    fast_hashes: Mutex<HashMap<SlowHash, [u8; 32]>>,
    guard: Guard,
    attempts: Attempts,
    /// Seeds the decoy credentials of unknown users, so that they stay the same for a name.
    decoys: RandomState,
    globals: Arc<Globals>,
    /// Where RSA keys are generated and slow hashes computed: both block too long for I/O threads.
    threads: Handle,
}

impl Passwords {
    /// The values of variables that sessions start with.
    pub fn globals(&self) -> &Arc<Globals> {
        &self.globals
    }

    /// Must be called inside the Tokio runtime for statements.
    pub fn new(globals: Arc<Globals>) -> Arc<Self> {
        Arc::new(Self {
            key: ServerKey::default(),
            fast_hashes: Mutex::default(),
            guard: Guard::default(),
            attempts: Attempts::default(),
            decoys: RandomState::new(),
            globals,
            threads: Handle::current(),
        })
    }

    /// Refuses connections that are not encrypted while `require_secure_transport` is on.
    ///
    /// # Errors
    /// 3159.
    pub fn check_transport(&self, transport: Transport) -> Result<()> {
        if self.globals.is_on("require_secure_transport") && !transport.encrypted {
            bail!(
                SecureTransportRequired,
                "Connections using insecure transport are prohibited while \
                 --require_secure_transport=ON."
            );
        }
        Ok(())
    }

    /// Delays this attempt if earlier ones failed (see `guard`).
    pub async fn delay_attempt(&self, clock: &dyn Clock, user: &str, peer: IpAddr) {
        let number = |name: &str| self.globals.number(name) as u64;
        let limit = |part: &str| {
            let name = format!("connection_control_{part}_connection_delay");
            Duration::from_millis(number(&name))
        };
        // The delay must leave enough of the login timeout for the login itself.
        let max = Duration::from_secs(number("connect_timeout")) / 2;
        let delays = Delays {
            threshold: number("connection_control_failed_connections_threshold"),
            min: limit("min"),
            max: limit("max").min(max),
        };
        let delay = self.guard.delay(user, peer, &delays, clock.now());
        if !delay.is_zero() {
            clock.sleep(delay).await;
        }
    }

    /// Records whether an attempt succeeded.
    fn record_attempt(&self, clock: &dyn Clock, user: &str, peer: IpAddr, succeeded: bool) {
        match succeeded {
            true => self.guard.logged_in(user, peer, clock.now()),
            false => self.guard.failed(user, peer, clock.now()),
        }
    }

    /// The account for `user` at `host`, and what its password is checked against. For unknown
    /// users it is a credential that no password matches, so that neither the exchange nor its
    /// duration reveals whether a user exists.
    pub fn account_of(
        &self,
        engine: &Engine,
        user: &str,
        host: &str,
        plugin: Option<&str>,
    ) -> (Option<Account>, Credential) {
        let plugin = plugin.and_then(AuthPlugin::from_name).unwrap_or(AuthPlugin::Native);
        let catalog = engine.catalog();
        // Nobody can log in as a role.
        match catalog.user_for(user, host).filter(|user| !user.locked) {
            Some(user) => (Some(user.account.clone()), self.credential(user, plugin)),
            None => (None, self.decoy(&catalog, user, plugin)),
        }
    }

    /// A credential for an unknown user that looks like one of the existing users'.
    fn decoy(&self, catalog: &Catalog, name: &str, plugin: AuthPlugin) -> Credential {
        let users = catalog.users().collect::<Vec<_>>();
        let Some(at) = self.decoys.hash_one(name).checked_rem(users.len() as u64) else {
            return Credential::Never(plugin);
        };
        let mut part = 0u64;
        self.credential(users[at as usize], plugin).decoy(&mut || {
            part += 1;
            self.decoys.hash_one((name, part))
        })
    }

    /// The credential of an account for the plugin that the client prefers.
    fn credential(&self, user: &User, plugin: AuthPlugin) -> Credential {
        let Some(second) = &user.second else { return self.credential_of(&user.auth, plugin) };
        // One exchange judges both: it is the native one only where both have a hash for that,
        // since any hash can be compared with the password that a full exchange tells.
        let both = [&user.auth, second];
        let has_native = both.iter().all(|auth| auth.native.is_some());
        let has_slow = both.iter().all(|auth| auth.sha2_slow.is_some());
        let plugin = match has_native && (plugin == AuthPlugin::Native || !has_slow) {
            true => AuthPlugin::Native,
            false => AuthPlugin::CachingSha2,
        };
        let [first, second] = both.map(|auth| Box::new(self.credential_of(auth, plugin)));
        Credential::Either(first, second)
    }

    fn credential_of(&self, auth: &AuthData, plugin: AuthPlugin) -> Credential {
        if auth.is_empty_password() {
            return Credential::Empty(plugin);
        }
        if let Some(stored) = auth.native
            && (plugin == AuthPlugin::Native || auth.sha2_slow.is_none())
        {
            return Credential::Native(stored);
        }
        let slow = auth.sha2_slow.as_ref().map(|stored| SlowHash::from_bytes(stored.as_bytes()));
        // An invalid stored hash matches no password.
        let Some(slow) = slow.flatten() else {
            return Credential::Never(AuthPlugin::CachingSha2);
        };
        let fast = self.fast_hashes.lock().get(&slow).copied();
        match fast {
            Some(fast) => Credential::Sha2Cached(slow, fast),
            None => Credential::Sha2Slow(slow),
        }
    }

    /// Caches the fast hash after a full exchange succeeded.
    fn cache_fast_hash(&self, hash: FastHash) {
        let mut fast_hashes = self.fast_hashes.lock();
        // A full cache is cleared; active accounts are cached again at their next login.
        if fast_hashes.len() >= CACHED_HASHES_MAX {
            fast_hashes.clear();
        }
        fast_hashes.insert(hash.of, hash.fast);
    }

    /// Processes one packet of the client's login exchange.
    ///
    /// # Errors
    /// When the step panicked.
    pub async fn step(
        self: &Arc<Self>,
        mut login: Exchange,
        answer: Vec<u8>,
    ) -> Result<(Exchange, AuthStep)> {
        let passwords = Arc::clone(self);
        self.run_blocking(move || {
            // On an encrypted connection a password comes as it is, and needs no key of ours.
            let key = (!login.encrypted).then_some(&passwords.key as &dyn PasswordKey);
            let step = login.exchange.advance(&mut login.writer, &answer, key);
            (login, step)
        })
        .await
    }

    /// Checks a user name and password for HTTP Basic authentication.
    ///
    /// # Errors
    /// 1045 if they do not match.
    pub async fn check(
        &self,
        engine: &Engine,
        user: &str,
        password: &str,
        peer: IpAddr,
        transport: Transport,
    ) -> Result<Account> {
        self.check_transport(transport)?;
        let clock = &**engine.clock();
        self.delay_attempt(clock, user, peer).await;
        let (account, credential) = self.account_of(engine, user, &host_of(peer), None);
        let (accepted, fast) = match credential.accepts_quickly(password.as_bytes()) {
            Some(accepted) => (accepted, None),
            None => {
                let (credential, given) = (credential.clone(), password.to_owned());
                let prove = move || {
                    let proven = credential.proven_by(given.as_bytes());
                    (proven.is_some(), proven.and_then(|one| one.fast_hash(given.as_bytes())))
                };
                self.run_blocking(prove).await?
            }
        };
        let (credential, password_given) = (&credential, !password.is_empty());
        let attempt = LoginAttempt { user, peer, transport, account, credential, password_given };
        self.conclude(engine, attempt, accepted, fast)
    }

    /// Ends an attempt whose password was right or wrong: the account that comes in. `fast` is the
    /// fast hash to cache after a full exchange.
    ///
    /// # Errors
    /// 1045 for a wrong password, and what an account whose password was right is refused for:
    /// 3955 after too many failures, 1045 on a connection that is not encrypted as the account
    /// asks for and for `root` without a password from elsewhere, 3118 for one that is locked.
    pub fn conclude(
        &self,
        engine: &Engine,
        attempt: LoginAttempt<'_>,
        accepted: bool,
        fast: Option<FastHash>,
    ) -> Result<Account> {
        let LoginAttempt { user, peer, transport, account, credential, password_given } = attempt;
        self.record_attempt(&**engine.clock(), user, peer, accepted && account.is_some());
        let account = match (accepted, account) {
            (true, Some(account)) => account,
            (_, tried) => {
                return Err(self.refused(engine, tried.as_ref(), user, peer, password_given));
            }
        };
        if let Some(fast) = fast {
            self.cache_fast_hash(fast);
        }
        self.admit(engine, &account, transport, peer, password_given)?;
        refuse_open_root(&account, credential, peer)?;
        Ok(account)
    }

    /// Whether an account whose password was right may come in.
    fn admit(
        &self,
        engine: &Engine,
        account: &Account,
        transport: Transport,
        peer: IpAddr,
        password_given: bool,
    ) -> Result<()> {
        let catalog = engine.catalog();
        let Some(user) = catalog.user(account) else {
            return Err(denied(&account.name, peer, password_given));
        };
        self.attempts.note(user, true, engine.clock().wall_micros())?;
        let met = match user.auth.tls {
            TlsRequirement::None => true,
            TlsRequirement::Ssl => transport.encrypted,
            TlsRequirement::X509 => transport.certified,
        };
        if !met {
            return Err(denied(&account.name, peer, password_given));
        }
        if user.options.is_locked {
            bail!(AccountLocked, "Access denied for user {account}. Account is locked.");
        }
        Ok(())
    }

    /// The error of a wrong password for the account that was tried, if there is one.
    fn refused(
        &self,
        engine: &Engine,
        tried: Option<&Account>,
        user: &str,
        peer: IpAddr,
        password_given: bool,
    ) -> Error {
        let catalog = engine.catalog();
        let tried = tried.and_then(|account| catalog.user(account));
        let noted = tried.map(|user| self.attempts.note(user, false, engine.clock().wall_micros()));
        match noted {
            Some(Err(blocked)) => blocked,
            _ => denied(user, peer, password_given),
        }
    }

    /// Forgets the failures of an account, which is not locked by them any more.
    pub fn forget_failures(&self, account: &Account) {
        self.attempts.forget(account);
    }

    /// Runs slow computations outside of the I/O threads.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let done = self.threads.spawn(async move { work() }).await;
        done.map_err(|error| err!(Unknown, "the login ended by an internal error: {error}"))
    }
}

/// An attempt to log in, by either protocol.
pub struct LoginAttempt<'a> {
    /// Whom the client claims to be.
    pub user: &'a str,
    pub peer: IpAddr,
    pub transport: Transport,
    /// The account that is meant, if there is one, and what its password was checked against.
    pub account: Option<Account>,
    pub credential: &'a Credential,
    /// Whether the client gave a password, for the message of 1045.
    pub password_given: bool,
}

/// A login exchange between two packets of the client.
pub struct Exchange {
    pub exchange: Authenticator,
    /// Packets to send to the client.
    pub writer: PacketWriter,
    /// Whether the connection is encrypted.
    pub encrypted: bool,
}

/// What is stored for a password: hashes for `plugin`, or for all plugins if `None`.
///
/// # Errors
/// 1396 for a password that is too long for the slow hash.
pub fn auth_data(password: &[u8], plugin: Option<AuthPlugin>, salt: Scramble) -> Result<AuthData> {
    let mut auth = AuthData::default();
    if password.is_empty() {
        return Ok(auth);
    }
    if plugin != Some(AuthPlugin::CachingSha2)
        && let Credential::Native(stored) = Credential::native(password)
    {
        auth.native = Some(stored);
    }
    if plugin != Some(AuthPlugin::Native) {
        let slow = SlowHash::new(password, salt, SlowHash::THOUSAND_ROUNDS).ok_or_else(|| {
            err!(CannotUser, "a password has at most {PASSWORD_BYTES_MAX} bytes; use a shorter one")
        })?;
        let stored = String::from_utf8(slow.to_bytes()).expect("salts and digests are ASCII");
        auth.sha2_slow = Some(stored);
    }
    Ok(auth)
}

/// What is stored for a given password hash (`IDENTIFIED ... AS`).
///
/// # Errors
/// 1827 for a hash that is not in the plugin's format.
pub fn auth_data_of_hash(hash: &[u8], plugin: Option<AuthPlugin>) -> Result<AuthData> {
    let mut auth = AuthData::default();
    if hash.is_empty() {
        return Ok(auth);
    }
    if plugin != Some(AuthPlugin::CachingSha2) {
        auth.native = native_of_hash(hash);
    }
    if plugin != Some(AuthPlugin::Native) && SlowHash::from_bytes(hash).is_some() {
        auth.sha2_slow = String::from_utf8(hash.to_vec()).ok();
    }
    if auth.is_empty_password() {
        return Err(err!(
            PasswordFormat,
            "The password hash doesn't have the expected format: * and 40 hexadecimal digits, or \
             $A$005$, a salt and a digest."
        ));
    }
    Ok(auth)
}

/// Parses `*` and the hexadecimal digits of SHA1(SHA1(password)).
fn native_of_hash(hash: &[u8]) -> Option<[u8; 20]> {
    let digits = std::str::from_utf8(hash.strip_prefix(b"*")?).ok()?;
    let mut stored = [0; 20];
    if digits.len() != 2 * stored.len() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in stored.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(stored)
}

/// The plugin and the hash with which CREATE USER makes the same account elsewhere; an empty hash
/// for an empty password. `None` where only the hash of store format 1 exists.
pub fn stored_of(auth: &AuthData) -> Option<(AuthPlugin, Vec<u8>)> {
    if auth.is_empty_password() {
        return Some((AuthPlugin::CachingSha2, Vec::new()));
    }
    if let Some(stored) = &auth.sha2_slow {
        return Some((AuthPlugin::CachingSha2, stored.clone().into_bytes()));
    }
    let hex = auth.native?.iter().fold("*".to_owned(), |hex, byte| format!("{hex}{byte:02X}"));
    Some((AuthPlugin::Native, hex.into_bytes()))
}

/// Refuses remote logins of `root` while it has no password.
fn refuse_open_root(account: &Account, credential: &Credential, peer: IpAddr) -> Result<()> {
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

/// The error of a failed login.
fn denied(user: &str, peer: IpAddr, password_given: bool) -> Error {
    let given = if password_given { "YES" } else { "NO" };
    let host = host_of(peer);
    err!(AccessDenied, "Access denied for user '{user}'@'{host}' (using password: {given})")
}

/// The client's address as the host part of accounts.
pub fn host_of(peer: IpAddr) -> String {
    match peer.to_canonical() {
        address if address.is_loopback() => "localhost".to_owned(),
        address => address.to_string(),
    }
}
