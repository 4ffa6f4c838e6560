//! HTTP: stream loads, and what tools ask of a server.
//!
//! A connection stays on one thread; a request is decoded, appended and answered there, without
//! a task of its own. Read it in this order: `connection`, `route`, `load`.

mod admin;
mod answer;
mod auth;
mod client;
mod connection;
mod error_log;
mod load;
mod route;

use std::sync::Arc;
use std::time::Duration;

use freshet_base::clock::ClockRef;
use freshet_base::{ByteSize, Result};
use freshet_ingest::Engine;
use tokio::sync::Semaphore;

pub use connection::serve;
use error_log::{ErrorLog, ErrorLogLimits};

use crate::accounts::Accounts;
use crate::auth::Passwords;
use crate::places::{PlaceLimits, Places, share_of};

/// Memory that a large load may hold until its rows are in files, about.
const LARGE_LOAD_BYTES: u64 = 48 << 20;

/// What the settings say of stream loads.
#[derive(Clone, Debug)]
pub struct LoadLimits {
    /// Largest body of a load, in MiB.
    pub streaming_load_max_mb: u64,
    /// The same for JSON that is not read by line.
    pub streaming_load_json_max_mb: u64,
    /// How long reasons of rejected rows are kept.
    pub error_log_keep: Duration,
    /// Most bytes of all of them.
    pub error_log_bytes_max: ByteSize,
    /// Most loads at the same time.
    pub loads_max: usize,
    /// Most loads of one account at the same time; `None` means half of all.
    pub account_loads_max: Option<usize>,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self {
            streaming_load_max_mb: 10_240,
            streaming_load_json_max_mb: 100,
            error_log_keep: Duration::from_secs(48 * 3600),
            error_log_bytes_max: ByteSize::mib(200),
            loads_max: 1024,
            account_loads_max: None,
        }
    }
}

/// The sizes and times of the HTTP interface.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Most connections.
    pub connections_max: usize,
    /// Most connections of one address; `None` means three quarters of all.
    pub address_connections_max: Option<usize>,
    /// How long the head of a request may take, and how long a client may be silent that nobody
    /// knows; up to twice this.
    pub header_max: Duration,
    /// The limits of stream loads.
    pub loads: LoadLimits,
    /// A client that lets this pass in silence, or twice this, loses its connection.
    pub silence_max: Duration,
    /// How long requests in flight may take once the server stops.
    pub drain_max: Duration,
    /// The port of the MySQL protocol, for those who ask.
    pub mysql_port: u16,
    /// The version of the server, for those who ask.
    pub version: String,
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
        }
    }
}

/// What all HTTP connections share.
pub struct Http {
    engine: Arc<Engine>,
    passwords: Arc<Passwords>,
    accounts: Arc<Accounts>,
    config: HttpConfig,
    draw: Arc<dyn Fn() -> u64 + Send + Sync>,
    error_log: ErrorLog,
    /// Places of connections.
    places: Arc<Places>,
    /// Loads that may still begin.
    loads: Semaphore,
    /// Large loads that may still begin to write files.
    large: Semaphore,
}

impl Http {
    /// The HTTP interface of `engine`, for those whom `passwords` lets in. Names of error logs
    /// come from `draw`, so it must not be
    /// guessable.
    ///
    /// # Errors
    /// When the directory of error logs cannot be made or read.
    pub fn new(
        engine: Arc<Engine>,
        passwords: Arc<Passwords>,
        accounts: Arc<Accounts>,
        config: HttpConfig,
        draw: Arc<dyn Fn() -> u64 + Send + Sync>,
    ) -> Result<Arc<Self>> {
        let limits = ErrorLogLimits {
            keep: config.loads.error_log_keep,
            bytes_max: config.loads.error_log_bytes_max.bytes(),
        };
        let error_log = ErrorLog::open(&engine, limits, Arc::clone(&draw))?;
        let half = engine.memory().limit_bytes() / 2;
        let large = usize::try_from(half / LARGE_LOAD_BYTES).unwrap_or(usize::MAX).clamp(2, 64);
        Ok(Arc::new(Self {
            error_log,
            places: Arc::default(),
            loads: Semaphore::new(config.loads.loads_max),
            large: Semaphore::new(large),
            engine,
            passwords,
            accounts,
            config,
            draw,
        }))
    }

    fn clock(&self) -> &ClockRef {
        self.engine.clock()
    }

    /// How many connections there may be. Nobody is kept out here who could end the connections
    /// of others, so none are kept for administrators.
    fn place_limits(&self) -> PlaceLimits {
        let all = self.config.connections_max;
        let share = share_of(all);
        let of_address = self.config.address_connections_max.unwrap_or(share);
        PlaceLimits { all, of_address, of_account: Some(share), unauthenticated: 0, admins: 0 }
    }

    /// The most loads of one account at the same time.
    fn account_loads_max(&self) -> usize {
        let loads = &self.config.loads;
        loads.account_loads_max.unwrap_or(loads.loads_max.div_ceil(2))
    }

    fn draw(&self) -> u64 {
        (self.draw)()
    }
}

/// Reads arbitrary bytes as the headers of a stream load, line by line: must not panic.
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
