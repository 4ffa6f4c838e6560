//! The HTTP interface: stream loads, statements, and endpoints for tools and monitoring.
//!
//! A connection stays on one I/O thread; its requests are decoded, appended and answered there,
//! without spawning tasks. Read in this order: `connection`, `route`, `load`.

mod admin;
mod answer;
mod auth;
mod client;
mod connection;
mod load;
mod query;
mod route;

use std::sync::Arc;
use std::time::Duration;

use freshet_base::Result;
use freshet_base::clock::ClockRef;
use freshet_ingest::Engine;
use freshet_meta::{Account, ActiveRoles, Actor};
use freshet_query::engine::QueryEngine;
use tokio::sync::Semaphore;

pub use connection::serve;

use crate::accounts::{AccountUsage, Accounts, LoadSlot};
use crate::auth::Passwords;
use crate::load_book::LoadBook;
use crate::load_limits::LoadLimits;
use crate::shared::{Draw, Shared};
use crate::slots::{ConnectionSlots, SlotLimits, share_of};
use crate::tls::Tls;
use crate::variables::Globals;

/// The approximate memory that a large load holds until its rows are in files.
const LARGE_LOAD_BYTES: u64 = 48 << 20;

/// Limits and timeouts of the HTTP interface.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    pub connections_max: usize,
    /// Connections from one address; `None`: three quarters of all.
    pub address_connections_max: Option<usize>,
    /// The timeout of a request's head, and the idle timeout of unauthenticated clients; enforced
    /// between once and twice this time.
    pub header_max: Duration,
    pub loads: LoadLimits,
    /// The idle timeout of authenticated clients; enforced between once and twice this time.
    pub silence_max: Duration,
    /// How long running requests may take after a shutdown began.
    pub drain_max: Duration,
    /// The port of the MySQL protocol, as endpoints report it.
    pub mysql_port: u16,
    /// The version of the server, as endpoints report it.
    pub version: String,
    /// The keys of encrypted connections; `None`: all are plain.
    pub tls: Option<Arc<Tls>>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            address_connections_max: None,
            header_max: Duration::from_secs(10),
            loads: LoadLimits::default(),
            silence_max: Duration::from_secs(300),
            drain_max: Duration::from_secs(60),
            mysql_port: 9030,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            tls: None,
        }
    }
}

/// State shared by all HTTP connections.
pub struct Http {
    /// What sessions share, for statements.
    sessions: Arc<Shared>,
    engine: Arc<Engine>,
    /// Computes the expressions of loads.
    query: Arc<QueryEngine>,
    /// The values of variables that sessions start with.
    globals: Arc<Globals>,
    passwords: Arc<Passwords>,
    accounts: Arc<Accounts>,
    config: HttpConfig,
    draw: Draw,
    book: Arc<LoadBook>,
    slots: Arc<ConnectionSlots>,
    /// Limits concurrent loads.
    loads: Semaphore,
    /// Limits concurrent large loads, which write files.
    large: Semaphore,
}

impl Http {
    pub fn new(sessions: Arc<Shared>, config: HttpConfig, draw: Draw) -> Arc<Self> {
        let half = sessions.engine.memory().limit_bytes() / 2;
        let large = usize::try_from(half / LARGE_LOAD_BYTES).unwrap_or(usize::MAX).clamp(2, 64);
        Arc::new(Self {
            slots: Arc::default(),
            loads: Semaphore::new(config.loads.loads_max),
            large: Semaphore::new(large),
            engine: Arc::clone(&sessions.engine),
            query: Arc::clone(&sessions.query),
            globals: Arc::clone(&sessions.globals),
            passwords: Arc::clone(&sessions.passwords),
            accounts: Arc::clone(&sessions.accounts),
            book: Arc::clone(&sessions.book),
            sessions,
            config,
            draw,
        })
    }

    fn clock(&self) -> &ClockRef {
        self.engine.clock()
    }

    /// The limits of connections. There are no extra slots for administrators, because connections
    /// cannot be killed over HTTP.
    fn slot_limits(&self) -> SlotLimits {
        let all = self.config.connections_max;
        let share = share_of(all);
        let of_address = self.config.address_connections_max.unwrap_or(share);
        let (own, of_account) = (None, Some(share));
        SlotLimits { all, of_address, of_account, own, unauthenticated: 0, admins: 0 }
    }

    /// A slot for one more load of an account, by the setting or by its own property.
    fn begin_load(&self, account: &Account, usage: &Arc<AccountUsage>) -> Result<LoadSlot> {
        let loads = &self.config.loads;
        let of_all = loads.account_loads_max.unwrap_or(loads.loads_max.div_ceil(2));
        let catalog = self.engine.catalog();
        match catalog.user(account).map_or(0, |user| user.properties.loads_max as usize) {
            own if own > 0 && own <= of_all => usage.begin_load(own, "max_stream_loads"),
            _ => usage.begin_load(of_all, "account_stream_loads_max"),
        }
    }

    fn draw(&self) -> u64 {
        (self.draw)()
    }

    /// An account with the roles that a login makes active.
    fn actor<'a>(&self, account: &'a Account) -> Actor<'a> {
        let all = self.globals.is_on("activate_all_roles_on_login");
        Actor { account, roles: if all { ActiveRoles::All } else { ActiveRoles::Default } }
    }
}

/// For fuzzing: parses arbitrary bytes as the headers of a stream load; must not panic.
pub fn fuzz_headers(data: &[u8]) {
    use hyper::header::{HeaderName, HeaderValue};
    let mut headers = hyper::HeaderMap::new();
    for line in data.split(|&byte| byte == b'\n').take(64) {
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let parsed = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value));
        if let (Ok(name), Ok(value)) = parsed {
            headers.insert(name, value);
        }
    }
    let checked = load::headers::LoadHeaders::parse(&headers);
    if let Ok(checked) = checked {
        assert!((0.0..=1.0).contains(&checked.max_filter_ratio), "a ratio is from 0 to 1");
    }
    auth::fuzz(data);
}
