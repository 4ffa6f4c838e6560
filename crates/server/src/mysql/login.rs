//! The login: greeting, password check, session, first database.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Error, ErrorCode, Result, bail, err};
use freshet_meta::Account;
use freshet_wire::auth::{AuthPlugin, Credential, Scramble};
use freshet_wire::handshake::{Greeting, HandshakeResponse, LoginRequest};
use freshet_wire::login::{AuthStep, Authenticator};
use freshet_wire::{Capabilities, ChangeUser, Collation, PacketReader, PacketWriter, StatusFlags};
use tokio::io::AsyncReadExt;

use crate::Shared;
use crate::auth::{self, Exchange, LoginAttempt};
use crate::mysql::socket::{End, send};
use crate::process::Registration;
use crate::session::{Client, Session};
use crate::slots::ConnectionSlot;
use crate::tls::Stream;

/// How long a client may take to read a packet before its login is complete.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// What clients may ask for, besides TLS.
const OFFERED: Capabilities =
    Capabilities::SERVER.with(Capabilities::COMPRESS).with(Capabilities::EXPIRED_PASSWORDS);

/// A connection without a session yet.
pub struct Channel<'a> {
    pub socket: &'a mut Stream,
    /// Received bytes.
    pub reader: &'a mut PacketReader,
    /// Packets to send.
    pub writer: &'a mut PacketWriter,
}

impl Channel<'_> {
    async fn flush(&mut self) -> std::result::Result<(), End> {
        send(self.socket, self.writer.bytes(), SEND_TIMEOUT).await?;
        self.writer.clear();
        Ok(())
    }

    /// The next packet; sets the writer's sequence id to answer it.
    async fn packet(&mut self) -> std::result::Result<Vec<u8>, Refused> {
        let expected = self.writer.sequence();
        loop {
            match self.reader.next_packet(expected) {
                Ok(Some(packet)) => {
                    self.writer.reply_to(packet.reply_sequence());
                    return Ok(packet.payload.to_vec());
                }
                Ok(None) => {}
                Err(error) => {
                    self.writer.reply_to(expected.wrapping_add(1));
                    let code = ErrorCode::PacketMalformed;
                    return Err(Refused::Error(Error::new(code, error.to_string())));
                }
            }
            match self.socket.read(self.reader.spare()).await {
                Ok(0) => return Err(Refused::Gone(End::Closed)),
                Ok(count) => self.reader.filled(count),
                Err(error) => return Err(Refused::Gone(End::Io(error))),
            }
        }
    }
}

/// Why a login failed.
pub enum Refused {
    /// The client gets this error.
    Error(Error),
    /// The client disconnected.
    Gone(End),
}

impl From<End> for Refused {
    fn from(end: End) -> Self {
        Self::Gone(end)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Greets a client and checks its password.
///
/// # Errors
/// An error for the client, or that it disconnected.
pub async fn greet(
    mut channel: Channel<'_>,
    shared: &Arc<Shared>,
    registration: &Registration,
    slot: &mut ConnectionSlot,
    peer: IpAddr,
) -> std::result::Result<Box<Session>, Refused> {
    let scramble = shared.scramble();
    channel.writer.greeting(&Greeting {
        version: &shared.settings.version,
        connection_id: registration.process.id,
        scramble,
        capabilities: OFFERED.set(Capabilities::SSL, shared.tls.is_some()),
        collation: Collation::UTF8MB4_0900_AI_CI,
        status: StatusFlags::AUTOCOMMIT,
        plugin: AuthPlugin::Native,
    });
    channel.flush().await?;
    let mut answer = channel.packet().await?;
    let refused = |error: freshet_wire::Error| {
        Refused::Error(err!(HandshakeFailed, "Bad handshake: {error}"))
    };
    if let HandshakeResponse::Ssl(_) = HandshakeResponse::parse(&answer).map_err(refused)? {
        let Some(tls) = &shared.tls else {
            return Err(Refused::Error(err!(HandshakeFailed, "the server does not offer TLS")));
        };
        let received = channel.reader.take_unread();
        channel.socket.encrypt(received, &tls.acceptor()).await.map_err(End::Io)?;
        shared.counters.tls.add(1);
        answer = channel.packet().await?;
    }
    let HandshakeResponse::Login(request) = HandshakeResponse::parse(&answer).map_err(refused)?
    else {
        return Err(Refused::Error(err!(HandshakeFailed, "Bad handshake: TLS twice")));
    };
    if request.hello.capabilities.contains(Capabilities::ZSTD) {
        // The client would compress all packets from here on, although the server did not offer it.
        return Err(Refused::Error(err!(
            HandshakeFailed,
            "Bad handshake: the server offers compression by zlib, and not by zstd"
        )));
    }
    channel.writer.set_capabilities(request.hello.capabilities & OFFERED);
    let claim = LoginClaim { user: request.user, peer, plugin: request.plugin };
    let account =
        authenticate(&mut channel, shared, &claim, scramble, Some(request.auth_response)).await?;
    shared.seat(slot, &account)?;
    open_session(&channel, shared, registration, peer, account, &request)
}

fn open_session(
    channel: &Channel<'_>,
    shared: &Arc<Shared>,
    registration: &Registration,
    peer: IpAddr,
    account: Account,
    request: &LoginRequest<'_>,
) -> std::result::Result<Box<Session>, Refused> {
    let client = Client {
        account,
        roles: Arc::from([]),
        user: request.user.to_owned(),
        peer,
        capabilities: channel.writer.capabilities(),
        tls: channel.socket.tls_info(),
        collation: request.hello.collation,
    };
    let process = Arc::clone(&registration.process);
    process.describe(|details| {
        details.account = Some(client.account.clone());
        details.user = client.user.clone();
        details.attributes = request.attributes.iter().collect();
    });
    let mut session = Box::new(Session::new(Arc::clone(shared), process, client));
    check_expired(&session)?;
    if let Some(database) = request.database {
        session.use_database(database)?;
    }
    Ok(session)
}

/// Lets a client with an expired password in only if it can change it.
///
/// # Errors
/// 1862.
pub fn check_expired(session: &Session) -> Result<()> {
    let changes = session.client.capabilities.contains(Capabilities::EXPIRED_PASSWORDS);
    if session.must_change_password && !changes {
        bail!(
            PasswordExpired,
            "Your password has expired. To log in you must change it using a client that supports \
             expired passwords."
        );
    }
    Ok(())
}

/// Whom a client claims to be.
pub struct LoginClaim<'a> {
    pub user: &'a str,
    /// Its address.
    pub peer: IpAddr,
    /// The plugin that the client prefers.
    pub plugin: Option<&'a str>,
}

/// Checks a password with a new scramble, for COM_CHANGE_USER.
///
/// # Errors
/// 1045.
pub async fn authenticate_again(
    mut channel: Channel<'_>,
    shared: &Arc<Shared>,
    claim: &LoginClaim<'_>,
) -> std::result::Result<Account, Refused> {
    let scramble = shared.scramble();
    authenticate(&mut channel, shared, claim, scramble, None).await
}

async fn authenticate(
    channel: &mut Channel<'_>,
    shared: &Arc<Shared>,
    claim: &LoginClaim<'_>,
    scramble: Scramble,
    response: Option<&[u8]>,
) -> std::result::Result<Account, Refused> {
    let host = auth::host_of(claim.peer);
    let (passwords, clock) = (&shared.passwords, &**shared.engine.clock());
    let transport = channel.socket.transport();
    passwords.check_transport(transport)?;
    passwords.delay_attempt(clock, claim.user, claim.peer).await;
    let (account, credential) =
        passwords.account_of(&shared.engine, claim.user, &host, claim.plugin);
    let private = transport.encrypted || claim.peer.to_canonical().is_loopback();
    let mut exchange = Authenticator::new(credential.clone(), scramble, private);
    let mut step = match response {
        Some(response) => exchange.begin(channel.writer, claim.plugin, response),
        None => exchange.switch(channel.writer),
    };
    let (accepted, password_given, fast_hash) = loop {
        match step {
            AuthStep::Accepted { fast_hash } => {
                break (true, !matches!(credential, Credential::Empty(_)), fast_hash);
            }
            AuthStep::Rejected { password_given } => break (false, password_given, None),
            AuthStep::Continue => {
                channel.flush().await?;
                let answer = channel.packet().await?;
                let writer = std::mem::take(channel.writer);
                let login = Exchange { exchange, writer, encrypted: transport.encrypted };
                let (login, next) = passwords.step(login, answer).await?;
                (exchange, *channel.writer, step) = (login.exchange, login.writer, next);
            }
        }
    };
    let (user, peer, credential) = (claim.user, claim.peer, &credential);
    let attempt = LoginAttempt { user, peer, transport, account, credential, password_given };
    Ok(passwords.conclude(&shared.engine, attempt, accepted, fast_hash)?)
}

/// The parameters of COM_CHANGE_USER.
pub struct NewUser {
    pub user: String,
    pub database: Option<String>,
    /// The plugin that the client prefers.
    pub plugin: Option<String>,
    collation: Option<Collation>,
    attributes: Vec<(String, String)>,
}

impl NewUser {
    /// Copies the parameters out of the packet.
    pub fn of(command: &ChangeUser<'_>) -> Self {
        Self {
            user: command.user.to_owned(),
            database: command.database.map(str::to_owned),
            plugin: command.plugin.map(str::to_owned),
            collation: command.collation,
            attributes: command.attributes.iter().collect(),
        }
    }
}

/// Resets a session for another user.
pub fn become_user(session: &mut Session, account: Account, user: &NewUser) {
    session.client.user = user.user.clone();
    if let Some(collation) = user.collation {
        session.client.collation = collation;
    }
    session.move_to_account(account);
    session.process.describe(|details| {
        details.account = Some(session.client.account.clone());
        details.user = user.user.clone();
        details.database = None;
        details.attributes = user.attributes.clone();
    });
}

/// Whether the server may listen at an address: only on loopback while `root` has no password.
///
/// # Errors
/// When it may not, with a message that says what to do.
pub fn check_listen(shared: &Shared, address: IpAddr) -> Result<()> {
    let root = Account::anywhere("root");
    let catalog = shared.engine.catalog();
    let open = catalog.user(&root).is_some_and(|user| user.auth.is_empty_password());
    if open && !address.is_loopback() {
        return Err(err!(
            AccessDenied,
            "root has no password yet, so the server listens on loopback only, not on {address}; \
             start it on 127.0.0.1 and run ALTER USER root IDENTIFIED BY '...' first"
        ));
    }
    Ok(())
}
