//! What all sessions share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::ByteSize;
use freshet_base::metrics::Metrics;
use freshet_ingest::Engine;
use freshet_meta::{Account, Object, Privilege, authorize};
use freshet_query::engine::QueryEngine;
use freshet_query::session::Value;
use freshet_wire::auth::{SCRAMBLE_BYTES, Scramble};
use tokio::runtime::Handle;

use crate::accounts::{Accounts, MemoryLimits};
use crate::auth::Passwords;
use crate::http::LoadLimits;
use crate::locks::Locks;
use crate::places::{ADMIN_PLACES, PlaceLimits, Places, UNAUTHENTICATED_PLACES, share_of};
use crate::process::Processes;
use crate::variables::Globals;

/// Random numbers.
pub type Draw = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Sizes and addresses of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the MySQL protocol is spoken.
    pub mysql_listen: SocketAddr,
    /// Where HTTP is spoken.
    pub http_listen: SocketAddr,
    /// The version that clients are told.
    pub version: String,
    /// Connections at most.
    pub connections_max: usize,
    /// Connections of one account; 0 means any number, `None` three quarters of all.
    pub user_connections_max: Option<usize>,
    /// Connections of one address; `None` means three quarters of all.
    pub address_connections_max: Option<usize>,
    /// How long a login may take.
    pub connect_timeout: Duration,
    /// Connections of HTTP at most.
    pub http_connections_max: usize,
    /// How long the head of a request may take.
    pub http_header_timeout: Duration,
    /// Bytes of a packet at most.
    pub packet_bytes_max: usize,
    /// Threads that serve sockets.
    pub io_threads: usize,
    /// What stream loads may have.
    pub loads: LoadLimits,
    /// How much memory may wait for clients.
    pub memory: MemoryLimits,
    /// How long a stop waits for requests of HTTP in flight.
    pub drain_timeout: Duration,
}

impl Settings {
    /// Settings for tests and tools: free ports of this machine.
    pub fn local() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            mysql_listen: any,
            http_listen: any,
            version: "8.0.36".to_owned(),
            connections_max: 4096,
            user_connections_max: None,
            address_connections_max: None,
            connect_timeout: Duration::from_secs(10),
            http_connections_max: 4096,
            http_header_timeout: Duration::from_secs(10),
            packet_bytes_max: 64 << 20,
            io_threads: 1,
            loads: LoadLimits::default(),
            memory: MemoryLimits {
                client_memory: ByteSize::mib(64),
                account_memory: None,
                account_receive_memory: None,
            },
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// What all sessions share.
pub struct Shared {
    /// Everything below SQL.
    pub engine: Arc<Engine>,
    /// Plans and runs queries.
    pub query: Arc<QueryEngine>,
    /// The values that new sessions begin with.
    pub globals: Arc<Globals>,
    /// Who is connected.
    pub processes: Arc<Processes>,
    /// Their places.
    pub places: Arc<Places>,
    /// Sizes and addresses.
    pub settings: Settings,
    /// What the clients of each account hold.
    pub accounts: Arc<Accounts>,
    /// What logins share.
    pub passwords: Arc<Passwords>,
    /// Locks that sessions take by name.
    pub locks: Arc<Locks>,
    /// Where statements run: nothing there computes for long, so whoever has to be answered at
    /// once is.
    pub statements: Handle,
    /// When the server started, in the clock's monotonic time.
    pub started: Duration,
    draw: Draw,
}

impl Shared {
    /// What the sessions of a new server share. Must be called inside the runtime of statements.
    pub fn new(
        engine: Arc<Engine>,
        query: Arc<QueryEngine>,
        settings: Settings,
        draw: Draw,
    ) -> Arc<Self> {
        let text = |text: &str| Value::Text(text.to_owned());
        let int = |number: usize| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let share = share_of(settings.connections_max);
        let globals = Arc::new(Globals::new(&[
            ("version", text(&settings.version)),
            ("version_compile_machine", text(std::env::consts::ARCH)),
            ("port", int(settings.mysql_listen.port().into())),
            ("max_connections", int(settings.connections_max)),
            ("max_user_connections", int(settings.user_connections_max.unwrap_or(share))),
            ("max_address_connections", int(settings.address_connections_max.unwrap_or(share))),
            ("connect_timeout", int(settings.connect_timeout.as_secs() as usize)),
            ("max_allowed_packet", int(settings.packet_bytes_max)),
        ]));
        let started = engine.clock().now();
        let passwords = Passwords::new(Arc::clone(&globals));
        let write_bytes = engine.memory().limit_bytes();
        let accounts = Accounts::new(&settings.memory, write_bytes);
        Arc::new(Self {
            engine,
            query,
            globals,
            processes: Arc::default(),
            places: Arc::default(),
            accounts,
            settings,
            passwords,
            locks: Arc::default(),
            statements: Handle::current(),
            started,
            draw,
        })
    }

    /// Counters.
    pub fn metrics(&self) -> &Arc<Metrics> {
        self.engine.metrics()
    }

    /// How many connections there may be, as SET GLOBAL says now.
    pub fn place_limits(&self) -> PlaceLimits {
        PlaceLimits {
            all: self.globals.number("max_connections"),
            of_address: self.globals.number("max_address_connections"),
            of_account: Some(self.globals.number("max_user_connections")).filter(|max| *max > 0),
            unauthenticated: UNAUTHENTICATED_PLACES,
            admins: ADMIN_PLACES,
        }
    }

    /// How long a login may take, as SET GLOBAL says now.
    pub fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.globals.number("connect_timeout") as u64)
    }

    /// Whether an account may come in where others find no place.
    pub fn is_admin(&self, account: &Account) -> bool {
        authorize(&self.engine.catalog(), account, Privilege::Super, Object::Server).is_ok()
    }

    /// A fresh scramble.
    pub fn scramble(&self) -> Scramble {
        let mut random = [0; SCRAMBLE_BYTES];
        for chunk in random.chunks_mut(8) {
            chunk.copy_from_slice(&(self.draw)().to_le_bytes()[..chunk.len()]);
        }
        Scramble::from_random(random)
    }
}
