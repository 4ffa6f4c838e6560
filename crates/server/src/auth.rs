//! Passwords at login: accounts of the catalog against the plugins of the protocol.

mod guard;

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
use freshet_base::{Error, Result, err};
use freshet_ingest::Engine;
use freshet_meta::{Account, AuthData, Catalog, User};
use freshet_wire::PacketWriter;
use freshet_wire::auth::{AuthPlugin, Credential, PASSWORD_BYTES_MAX, Scramble, SlowHash};
use freshet_wire::login::{AuthStep, Authenticator, PasswordKey};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::variables::Globals;
use guard::{Delays, Guard};

/// Characters in a line of PEM.
const PEM_LINE_CHARS: usize = 64;
/// Accounts whose passwords are remembered as they were shown.
const LEARNED_MAX: usize = 10_000;

/// The RSA key of this start, made when a client first asks for it: making one takes long.
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

/// A public key as text.
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

/// What logins share: the key that passwords are encrypted with, and what full exchanges of
/// `caching_sha2_password` taught, so that a user's slow hash is computed once a start.
pub struct Passwords {
    key: ServerKey,
    /// By account, each with the slow hash that it belongs to: an ALTER USER makes another one,
    /// and what was learned before counts no more.
    learned: Mutex<HashMap<Account, (SlowHash, [u8; 32])>>,
    /// Slows down who guesses.
    guard: Guard,
    /// Makes decoys that stay the same for a name.
    decoys: RandomState,
    globals: Arc<Globals>,
    /// Where keys are made and slow hashes computed: neither is for threads of sockets.
    threads: Handle,
}

impl Passwords {
    /// Nothing learned yet; must be called inside the runtime of queries.
    pub fn new(globals: Arc<Globals>) -> Arc<Self> {
        Arc::new(Self {
            key: ServerKey::default(),
            learned: Mutex::default(),
            guard: Guard::default(),
            decoys: RandomState::new(),
            globals,
            threads: Handle::current(),
        })
    }

    /// Waits as long as an attempt has to after those that failed.
    pub async fn hold_back(&self, clock: &dyn Clock, user: &str, peer: IpAddr) {
        let number = |name: &str| self.globals.number(name) as u64;
        let limit = |part: &str| {
            let name = format!("connection_control_{part}_connection_delay");
            Duration::from_millis(number(&name))
        };
        // Whoever waits must have time to log in behind it.
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

    /// Notes what came of an attempt.
    pub fn judged(&self, clock: &dyn Clock, user: &str, peer: IpAddr, came_in: bool) {
        match came_in {
            true => self.guard.came_in(user, peer, clock.now()),
            false => self.guard.failed(user, peer, clock.now()),
        }
    }

    /// Who a client that calls itself `user` at `host` would be, and what proves it. Unknown
    /// users get a credential that nothing proves, so that neither the exchange nor its time
    /// tells them from others.
    pub fn account_of(
        &self,
        engine: &Engine,
        user: &str,
        host: &str,
        plugin: Option<&str>,
    ) -> (Option<Account>, Credential) {
        let plugin = plugin.and_then(AuthPlugin::from_name).unwrap_or(AuthPlugin::Native);
        let catalog = engine.catalog();
        match catalog.user_for(user, host) {
            Some(user) => (Some(user.account.clone()), self.credential(user, plugin)),
            None => (None, self.decoy(&catalog, user, plugin)),
        }
    }

    /// A credential for a name that nobody has: like that of one of the users there are.
    fn decoy(&self, catalog: &Catalog, name: &str, plugin: AuthPlugin) -> Credential {
        let users = catalog.users().collect::<Vec<_>>();
        let Some(at) = self.decoys.hash_one(name).checked_rem(users.len() as u64) else {
            return Credential::Never(plugin);
        };
        let mut part = 0u64;
        self.credential(users[at as usize], plugin).decoy(|| {
            part += 1;
            self.decoys.hash_one((name, part))
        })
    }

    /// What proves a password under the plugin that the client would like.
    fn credential(&self, user: &User, plugin: AuthPlugin) -> Credential {
        let auth = &user.auth;
        let has_sha2 = auth.sha2.is_some() || auth.sha2_slow.is_some();
        if auth.is_empty_password() {
            return Credential::Empty(plugin);
        }
        if let Some(stored) = auth.native
            && (plugin == AuthPlugin::Native || !has_sha2)
        {
            return Credential::Native(stored);
        }
        let Some(stored) = &auth.sha2_slow else {
            let never = Credential::Never(AuthPlugin::CachingSha2);
            return auth.sha2.map_or(never, Credential::Sha2Fast);
        };
        // What is no hash proves nothing.
        let Some(slow) = SlowHash::from_bytes(stored.as_bytes()) else {
            return Credential::Never(AuthPlugin::CachingSha2);
        };
        match self.learned.lock().get(&user.account) {
            Some((of, fast)) if *of == slow => Credential::Sha2Learned(slow, *fast),
            _ => Credential::Sha2Slow(slow),
        }
    }

    /// Remembers what a full exchange about `proven` taught.
    pub fn learn(&self, account: &Account, proven: &Credential, fast: Credential) {
        let (Credential::Sha2Slow(slow), Credential::Sha2Fast(fast)) = (proven, fast) else {
            return;
        };
        let mut learned = self.learned.lock();
        // Accounts come and go; those that are there log in again.
        if learned.len() >= LEARNED_MAX {
            learned.clear();
        }
        learned.insert(account.clone(), (slow.clone(), fast));
    }

    /// Takes what a client answered to a step of its login.
    ///
    /// # Errors
    /// When the step ended by an internal error.
    pub async fn step(
        self: &Arc<Self>,
        mut login: Exchange,
        answer: Vec<u8>,
    ) -> Result<(Exchange, AuthStep)> {
        let passwords = Arc::clone(self);
        self.apart(move || {
            let step = login.exchange.advance(&mut login.writer, &answer, Some(&passwords.key));
            (login, step)
        })
        .await
    }

    /// Whether somebody with this name and password may come in, for HTTP Basic authentication.
    ///
    /// # Errors
    /// 1045.
    pub async fn check(
        &self,
        engine: &Engine,
        user: &str,
        password: &str,
        peer: IpAddr,
    ) -> Result<Account> {
        let clock = &**engine.clock();
        self.hold_back(clock, user, peer).await;
        let (account, credential) = self.account_of(engine, user, &host_of(peer), None);
        let accepted = match credential.accepts_quickly(password.as_bytes()) {
            Some(accepted) => accepted,
            None => {
                let (credential, given) = (credential.clone(), password.to_owned());
                self.apart(move || credential.accepts_password(given.as_bytes())).await?
            }
        };
        self.judged(clock, user, peer, accepted && account.is_some());
        let Some(account) = account.filter(|_| accepted) else {
            return Err(denied(user, peer, !password.is_empty()));
        };
        self.learn(&account, &credential, Credential::sha2_fast(password.as_bytes()));
        refuse_open_root(&account, &credential, peer)?;
        Ok(account)
    }

    /// Runs what computes for long.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let done = self.threads.spawn(async move { work() }).await;
        done.map_err(|error| err!(Unknown, "the login ended by an internal error: {error}"))
    }
}

/// A login between two packets of the client.
pub struct Exchange {
    /// How far it is.
    pub exchange: Authenticator,
    /// What the server says.
    pub writer: PacketWriter,
}

/// What is stored of a password, for the plugin that was named or for both.
///
/// # Errors
/// 1396 for a password that is too long to be hashed slowly.
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

/// What is stored of a password whose hash another server, or SHOW CREATE USER, gave.
///
/// # Errors
/// 1827 for a hash that the plugin does not make.
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

/// `*` and the hexadecimal digits of SHA1(SHA1(password)).
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

/// The plugin and the hash that make the same account elsewhere, no hash for the empty password;
/// `None` where only what format 1 kept is there.
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

/// While `root` has no password it comes from this machine only.
///
/// # Errors
/// 1045.
pub fn refuse_open_root(account: &Account, credential: &Credential, peer: IpAddr) -> Result<()> {
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
pub fn denied(user: &str, peer: IpAddr, password_given: bool) -> Error {
    let given = if password_given { "YES" } else { "NO" };
    let host = host_of(peer);
    err!(AccessDenied, "Access denied for user '{user}'@'{host}' (using password: {given})")
}

/// The host of a client, as accounts name it.
pub fn host_of(peer: IpAddr) -> String {
    match peer.to_canonical() {
        address if address.is_loopback() => "localhost".to_owned(),
        address => address.to_string(),
    }
}
