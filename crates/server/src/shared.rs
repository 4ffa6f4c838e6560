//! State shared by all sessions.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::metrics::Metrics;
use freshet_base::{ByteSize, Result, SchemaVersion, TableId};
use freshet_ingest::Engine;
use freshet_ingest::decode::GeneratedValues;
use freshet_meta::{Account, Object, Privilege, UserLimits, authorize};
use freshet_query::engine::QueryEngine;
use freshet_query::evaluation::Losses;
use freshet_query::session::Value;
use freshet_schema::{Collation, RowChecks};
use freshet_wire::auth::{SCRAMBLE_BYTES, Scramble};
use tokio::runtime::Handle;

use crate::accounts::{Accounts, Hourly, MemoryLimits};
use crate::alter_jobs::AlterJobs;
use crate::auth::Passwords;
use crate::compiled::Compiled;
use crate::counters::Counters;
use crate::digests::Digests;
use crate::load_book::LoadBook;
use crate::load_limits::LoadLimits;
use crate::locks::Locks;
use crate::numbers::NumberTexts;
use crate::point::PointPlans;
use crate::process::Processes;
use crate::slots::{
    ADMIN_SLOTS, ConnectionSlot, ConnectionSlots, SlotLimits, UNAUTHENTICATED_SLOTS,
    own_connections, share_of,
};
use crate::tls::{Tls, TlsSettings};
use crate::variables::{Globals, Persisted, server_uuid};
use crate::workload::WorkloadGroups;

/// A source of random numbers.
pub type Draw = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Addresses, limits and timeouts of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    pub mysql_listen: SocketAddr,
    pub http_listen: SocketAddr,
    /// The version that clients see.
    pub version: String,
    /// What `collation_server` is when the server starts.
    pub collation: &'static str,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Connections of one account; 0: unlimited, `None`: three quarters of all.
    pub user_connections_max: Option<usize>,
    /// Connections from one address; `None`: three quarters of all.
    pub address_connections_max: Option<usize>,
    /// The login timeout.
    pub connect_timeout: Duration,
    /// Maximum number of HTTP connections.
    pub http_connections_max: usize,
    /// The timeout of a request's head.
    pub http_header_timeout: Duration,
    /// The largest packet.
    pub packet_bytes_max: usize,
    /// The number of I/O threads.
    pub io_threads: usize,
    pub loads: LoadLimits,
    pub memory: MemoryLimits,
    /// How long a shutdown waits for running HTTP requests.
    pub drain_timeout: Duration,
    pub tls: TlsSettings,
    /// Whether connections must be encrypted.
    pub require_secure_transport: bool,
    /// `validate_password.policy`.
    pub password_policy: String,
    /// The directory of files that statements read and write; `None`: they may not.
    pub file_dir: Option<PathBuf>,
}

impl Settings {
    /// Settings for tests and tools: free ports on loopback.
    pub fn local() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            mysql_listen: any,
            http_listen: any,
            version: "8.0.36".to_owned(),
            collation: Collation::DEFAULT.name(),
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
            tls: TlsSettings::default(),
            require_secure_transport: false,
            password_policy: "NONE".to_owned(),
            file_dir: None,
        }
    }
}

/// State shared by all sessions.
pub struct Shared {
    pub engine: Arc<Engine>,
    /// Of queries outside of workload groups.
    pub query: Arc<QueryEngine>,
    pub workload: WorkloadGroups,
    /// The CHECK constraints of tables.
    pub compiled_checks: Compiled<(TableId, SchemaVersion), dyn RowChecks>,
    /// The generated columns of tables.
    pub compiled_columns: Compiled<(TableId, SchemaVersion, Losses), dyn GeneratedValues>,
    /// The values that new sessions start with.
    pub globals: Arc<Globals>,
    /// Those that the next start has.
    pub persisted: Persisted,
    /// Recent loads.
    pub book: Arc<LoadBook>,
    /// Recent changes of columns.
    pub alter_jobs: AlterJobs,
    /// The process list.
    pub processes: Arc<Processes>,
    pub slots: Arc<ConnectionSlots>,
    pub settings: Settings,
    pub accounts: Arc<Accounts>,
    pub passwords: Arc<Passwords>,
    /// The keys of encrypted connections; `None`: all are plain.
    pub tls: Option<Arc<Tls>>,
    /// Named locks (GET_LOCK).
    pub locks: Arc<Locks>,
    /// What SHOW STATUS counts.
    pub(crate) counters: Counters,
    /// What it knows of statements.
    pub(crate) digests: Digests,
    /// Texts that are answered by a key alone.
    pub(crate) points: PointPlans,
    pub(crate) numbers: NumberTexts,
    /// The runtime for statements. Only short work runs on its threads, so that urgent tasks are
    /// not delayed.
    pub statements: Handle,
    /// The start of the server, in the clock's monotonic time.
    pub started: Duration,
    draw: Draw,
}

impl Shared {
    /// Must be called inside the Tokio runtime for statements.
    pub fn new(
        engine: Arc<Engine>,
        query: Arc<QueryEngine>,
        book: Arc<LoadBook>,
        settings: Settings,
        tls: Option<Arc<Tls>>,
        draw: Draw,
    ) -> Arc<Self> {
        let text = |text: &str| Value::Text(text.to_owned());
        let int = |number: usize| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let share = share_of(settings.connections_max);
        let have_tls = text(if tls.is_some() { "YES" } else { "DISABLED" });
        let file_dir = settings.file_dir.as_ref().map(|dir| dir.display().to_string());
        let [cert, key, ca] = tls.as_ref().map_or_else(Default::default, |tls| tls.paths());
        let data_dir = &engine.config().data_dir;
        let globals = Arc::new(Globals::new(&[
            ("version", text(&settings.version)),
            ("innodb_version", text(&settings.version)),
            ("datadir", text(&format!("{}/", data_dir.display()))),
            ("server_uuid", text(&server_uuid(data_dir, settings.mysql_listen.port()))),
            ("version_compile_machine", text(std::env::consts::ARCH)),
            ("collation_server", text(settings.collation)),
            ("collation_database", text(settings.collation)),
            ("port", int(settings.mysql_listen.port().into())),
            ("bind_address", text(&settings.mysql_listen.ip().to_string())),
            ("max_connections", int(settings.connections_max)),
            ("max_user_connections", int(settings.user_connections_max.unwrap_or(share))),
            ("max_address_connections", int(settings.address_connections_max.unwrap_or(share))),
            ("connect_timeout", int(settings.connect_timeout.as_secs() as usize)),
            ("max_allowed_packet", int(settings.packet_bytes_max)),
            ("require_secure_transport", int(settings.require_secure_transport.into())),
            ("validate_password.policy", text(&settings.password_policy)),
            ("secure_file_priv", file_dir.map_or(Value::Null, |dir| text(&dir))),
            ("have_ssl", have_tls.clone()),
            ("have_openssl", have_tls),
            ("ssl_cert", text(&cert)),
            ("ssl_key", text(&key)),
            ("ssl_ca", text(&ca)),
        ]));
        let started = engine.clock().now();
        let passwords = Passwords::new(Arc::clone(&globals));
        let write_bytes = engine.memory().limit_bytes();
        let accounts = Accounts::new(&settings.memory, write_bytes);
        let workload = WorkloadGroups::new(&engine, &query);
        Arc::new(Self {
            persisted: Persisted::new(&engine),
            engine,
            query,
            workload,
            compiled_checks: Compiled::default(),
            compiled_columns: Compiled::default(),
            book,
            alter_jobs: AlterJobs::default(),
            globals,
            processes: Arc::default(),
            slots: Arc::default(),
            accounts,
            settings,
            passwords,
            tls,
            locks: Arc::default(),
            counters: Counters::default(),
            digests: Digests::default(),
            points: PointPlans::default(),
            numbers: NumberTexts::default(),
            statements: Handle::current(),
            started,
            draw,
        })
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        self.engine.metrics()
    }

    /// The limits of connections, as SET GLOBAL last set them.
    pub fn slot_limits(&self) -> SlotLimits {
        SlotLimits {
            all: self.globals.number("max_connections"),
            of_address: self.globals.number("max_address_connections"),
            of_account: Some(self.globals.number("max_user_connections")).filter(|max| *max > 0),
            own: None,
            unauthenticated: UNAUTHENTICATED_SLOTS,
            admins: ADMIN_SLOTS,
        }
    }

    /// Gives the slot of a MySQL connection to the account that has logged in.
    ///
    /// # Errors
    /// Those of [`Self::seat_within`].
    pub fn seat(&self, slot: &mut ConnectionSlot, account: &Account) -> Result<()> {
        self.seat_within(&self.slot_limits(), slot, account, self.is_admin(account))
    }

    /// Gives the slot of a connection to the account that has logged in, within the limits of its
    /// protocol.
    ///
    /// # Errors
    /// 1040, 1203 and 1226 at the limits of the server and of the account.
    pub fn seat_within(
        &self,
        slots: &SlotLimits,
        slot: &mut ConnectionSlot,
        account: &Account,
        is_admin: bool,
    ) -> Result<()> {
        let limits = self.user_limits(account);
        let now = self.engine.clock().now();
        self.accounts.of(account, now).count(&limits, Hourly::Connections, now)?;
        let slots = SlotLimits { own: own_connections(&limits), ..*slots };
        slot.assign(account, &slots, is_admin)
    }

    /// The limits of an account.
    fn user_limits(&self, account: &Account) -> UserLimits {
        let catalog = self.engine.catalog();
        catalog.user(account).map(|user| user.options.limits).unwrap_or_default()
    }

    /// The login timeout, as SET GLOBAL last set it.
    pub fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.globals.number("connect_timeout") as u64)
    }

    /// Whether an account may use the slots for administrators.
    pub fn is_admin(&self, account: &Account) -> bool {
        authorize(&self.engine.catalog(), account, Privilege::Super, Object::Server).is_ok()
    }

    /// An address for the rows that a statement leaves out; nobody guesses it.
    pub fn new_error_url(&self) -> String {
        let name = self.book.error_log.new_name(self.engine.clock().wall_micros());
        let mut listen = self.settings.http_listen;
        if listen.ip().is_unspecified() {
            // As SHOW BACKENDS has it.
            listen.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let is_secure = self.globals.is_on("require_secure_transport");
        let scheme = if is_secure { "https" } else { "http" };
        format!("{scheme}://{listen}/api/_load_error_log?file={name}")
    }

    /// A password that nobody can guess: of letters, digits and signs, and one of each.
    pub fn random_password(&self) -> String {
        const KINDS: [&[u8]; 4] = [
            b"abcdefghijklmnopqrstuvwxyz",
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            b"0123456789",
            b"!#$%&()*+,-./:;<=>?@[]^_{|}~",
        ];
        let below = |count: usize| ((self.draw)() % count as u64) as usize;
        let length = self.globals.number("generated_random_password_length");
        let any = KINDS.concat();
        let mut password = (0..length).map(|_| any[below(any.len())]).collect::<Vec<_>>();
        // Four places that are not the same get one of each kind, as policies ask for.
        let first = below(length);
        for (at, kind) in KINDS.iter().enumerate() {
            password[(first + at) % length] = kind[below(kind.len())];
        }
        String::from_utf8(password).expect("it is ASCII")
    }

    pub fn scramble(&self) -> Scramble {
        let mut random = [0; SCRAMBLE_BYTES];
        for chunk in random.chunks_mut(8) {
            chunk.copy_from_slice(&(self.draw)().to_le_bytes()[..chunk.len()]);
        }
        Scramble::from_random(random)
    }
}
