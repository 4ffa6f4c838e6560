//! How a client becomes a session: greeting, proof of the password, first database.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Error, ErrorCode, Result, err};
use freshet_meta::Account;
use freshet_wire::auth::{AuthPlugin, Scramble};
use freshet_wire::handshake::{Greeting, HandshakeResponse, LoginRequest};
use freshet_wire::login::{AuthStep, Authenticator};
use freshet_wire::{Capabilities, ChangeUser, Collation, PacketReader, PacketWriter, StatusFlags};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::Shared;
use crate::auth::{self, Exchange};
use crate::mysql::socket::{End, send};
use crate::places::Place;
use crate::process::Registration;
use crate::session::{Client, Session};

/// How long a client that has not logged in may take to read what it is sent.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Compression by zlib and by zstd, as clients ask for it.
const COMPRESSION: u32 = Capabilities::COMPRESS.bits() | Capabilities::ZSTD.bits();

/// A conversation that is only packets yet.
pub struct Channel<'a> {
    /// The socket.
    pub socket: &'a mut TcpStream,
    /// What came.
    pub reader: &'a mut PacketReader,
    /// What goes.
    pub writer: &'a mut PacketWriter,
}

impl Channel<'_> {
    async fn flush(&mut self) -> std::result::Result<(), End> {
        send(self.socket, self.writer.bytes(), SEND_TIMEOUT).await?;
        self.writer.clear();
        Ok(())
    }

    /// The next packet, and the writer set to answer it.
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
                    return Err(Refused::Told(Error::new(code, error.to_string())));
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

/// Why nobody came in.
pub enum Refused {
    /// The client is told this.
    Told(Error),
    /// The client is gone.
    Gone(End),
}

impl From<End> for Refused {
    fn from(end: End) -> Self {
        Self::Gone(end)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

/// Greets a client and lets it prove who it is.
///
/// # Errors
/// What it is told, or that it is gone.
pub async fn greet(
    mut channel: Channel<'_>,
    shared: &Arc<Shared>,
    registration: &Registration,
    seat: &mut Place,
    peer: IpAddr,
) -> std::result::Result<Box<Session>, Refused> {
    let scramble = shared.scramble();
    channel.writer.greeting(&Greeting {
        version: &shared.settings.version,
        connection_id: registration.process.id,
        scramble,
        capabilities: Capabilities::SERVER,
        collation: Collation::UTF8MB4_0900_AI_CI,
        status: StatusFlags::AUTOCOMMIT,
        plugin: AuthPlugin::Native,
    });
    channel.flush().await?;
    let answer = channel.packet().await?;
    let told =
        |error: freshet_wire::Error| Refused::Told(err!(HandshakeFailed, "Bad handshake: {error}"));
    let request = match HandshakeResponse::parse(&answer).map_err(told)? {
        HandshakeResponse::Login(request) => request,
        HandshakeResponse::Ssl(_) => {
            return Err(Refused::Told(err!(HandshakeFailed, "the server does not offer TLS")));
        }
    };
    if request.hello.capabilities.bits() & COMPRESSION != 0 {
        // All that it sends from here on would be compressed, whatever was offered.
        return Err(Refused::Told(err!(
            HandshakeFailed,
            "Bad handshake: the server does not offer compression; connect without it"
        )));
    }
    channel.writer.set_capabilities(request.hello.capabilities & Capabilities::SERVER);
    let proof = Proof { user: request.user, peer, plugin: request.plugin };
    let account =
        prove(&mut channel, shared, &proof, scramble, Some(request.auth_response)).await?;
    seat.settle(&account, &shared.place_limits(), shared.is_admin(&account))?;
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
        user: request.user.to_owned(),
        peer,
        capabilities: channel.writer.capabilities(),
        collation: request.hello.collation,
    };
    let process = Arc::clone(&registration.process);
    process.describe(|details| {
        details.account = Some(client.account.clone());
        details.user = client.user.clone();
        details.attributes = request.attributes.iter().collect();
    });
    let mut session = Box::new(Session::new(Arc::clone(shared), process, client));
    if let Some(database) = request.database {
        session.use_database(database)?;
    }
    Ok(session)
}

/// Who says to be whom.
pub struct Proof<'a> {
    /// The name.
    pub user: &'a str,
    /// From where.
    pub peer: IpAddr,
    /// The plugin that the client likes.
    pub plugin: Option<&'a str>,
}

/// Lets a client prove a password under a new scramble, for COM_CHANGE_USER.
///
/// # Errors
/// 1045.
pub async fn prove_anew(
    mut channel: Channel<'_>,
    shared: &Arc<Shared>,
    proof: &Proof<'_>,
) -> std::result::Result<Account, Refused> {
    let scramble = shared.scramble();
    prove(&mut channel, shared, proof, scramble, None).await
}

async fn prove(
    channel: &mut Channel<'_>,
    shared: &Arc<Shared>,
    proof: &Proof<'_>,
    scramble: Scramble,
    response: Option<&[u8]>,
) -> std::result::Result<Account, Refused> {
    let host = auth::host_of(proof.peer);
    let (passwords, clock) = (&shared.passwords, &**shared.engine.clock());
    passwords.hold_back(clock, proof.user, proof.peer).await;
    let (account, credential) =
        passwords.account_of(&shared.engine, proof.user, &host, proof.plugin);
    let private = proof.peer.to_canonical().is_loopback();
    let mut exchange = Authenticator::new(credential.clone(), scramble, private);
    let mut step = match response {
        Some(response) => exchange.begin(channel.writer, proof.plugin, response),
        None => exchange.switch(channel.writer),
    };
    let learned = loop {
        match step {
            AuthStep::Accepted { learned } => break learned,
            AuthStep::Rejected { password_given } => {
                passwords.judged(clock, proof.user, proof.peer, false);
                return Err(auth::denied(proof.user, proof.peer, password_given).into());
            }
            AuthStep::Continue => {
                channel.flush().await?;
                let answer = channel.packet().await?;
                let login = Exchange { exchange, writer: std::mem::take(channel.writer) };
                let (login, next) = passwords.step(login, answer).await?;
                (exchange, *channel.writer, step) = (login.exchange, login.writer, next);
            }
        }
    };
    passwords.judged(clock, proof.user, proof.peer, account.is_some());
    let account =
        account.ok_or_else(|| auth::denied(proof.user, proof.peer, true)).map_err(Refused::Told)?;
    if let Some(fast) = learned {
        passwords.learn(&account, &credential, fast);
    }
    auth::refuse_open_root(&account, &credential, proof.peer)?;
    Ok(account)
}

/// What COM_CHANGE_USER asks for.
pub struct NewUser {
    /// The name.
    pub user: String,
    /// The database.
    pub database: Option<String>,
    /// The plugin that the client likes.
    pub plugin: Option<String>,
    collation: Option<Collation>,
    attributes: Vec<(String, String)>,
}

impl NewUser {
    /// The command with a life of its own.
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

/// Makes a session that of another user, as if it were new.
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

/// Whether the server may listen at an address: while `root` has no password, only where
/// nobody but this machine can come in.
///
/// # Errors
/// When it may not, saying what to do.
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
