//! The session of a client: account, settings, transaction, diagnostics.

mod collations;
mod currents;
mod digested;
mod disabled_keys;
mod hinted;
mod ids;
mod last_insert;
mod left_out;
mod options;
pub mod policies;
mod temporary;
mod transact;
mod workload;

use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

use freshet_base::{Error, ErrorCode, Lsn, Result, TxnId, err};
use freshet_ingest::{LoadBuffer, Loaded, names};
use freshet_meta::{
    Account, ActiveRoles, Actor, Object, Privilege, UserLimits, authorize, is_reserved_database,
    require_visible,
};
use freshet_query::parser::Parsed;
use freshet_query::session::Value;
use freshet_schema::{Column, GroupCommitMode, Table};
use freshet_wire::{Capabilities, Collation, StatusFlags};

pub use collations::{collation_name, collation_of};
pub use currents::Currents;
pub use disabled_keys::DisabledKeys;
pub use hinted::Hinted;
pub use ids::Told;
pub use last_insert::LastInsert;
pub use left_out::LeftOut;
pub use options::seconds;
pub use temporary::{TemporaryName, TemporaryTables};
pub use workload::Admission;

use crate::Shared;
use crate::accounts::{AccountUsage, SessionMemory};
use crate::digests::KnownDigests;
use crate::locks::SessionLocks;
use crate::process::Process;
use crate::settings::{Keeps, Settings, StatementDeadline};
use crate::tls::TlsInfo;
use crate::transaction::{NextTransaction, Transactions};
use crate::variables::{self, Values};

/// Characters kept per warning, as in MySQL.
const WARNING_CHARS_MAX: usize = 512;
/// The approximate memory of a user variable besides its name and text.
const USER_VARIABLE_BYTES: usize = 64;

/// The identity and the capabilities of a client.
#[derive(Clone, Debug)]
pub struct Client {
    pub account: Account,
    /// Its active roles; those that were revoked meanwhile give no rights.
    pub roles: Arc<[Account]>,
    /// The user name that it gave.
    pub user: String,
    pub peer: IpAddr,
    /// Capabilities common to client and server.
    pub capabilities: Capabilities,
    /// The collation of its handshake.
    pub collation: Collation,
    /// How its connection is encrypted, if it is.
    pub tls: Option<TlsInfo>,
}

impl Client {
    /// Its account with its active roles, for whatever asks for rights.
    pub fn actor(&self) -> Actor<'_> {
        Actor { account: &self.account, roles: ActiveRoles::These(&self.roles) }
    }
}

/// A statement of PREPARE.
pub struct NamedStatement {
    pub parsed: Parsed,
    /// The current database when it was prepared, to which unqualified names keep referring.
    pub database: Option<Arc<str>>,
    /// The memory of its tree.
    pub memory: SessionMemory,
}

/// A condition that SHOW WARNINGS lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `Error`, `Warning` or `Note`.
    pub level: &'static str,
    pub errno: u16,
    /// The message text.
    pub message: String,
    /// Its SQLSTATE, where SIGNAL has said it.
    pub state: Option<String>,
}

impl Condition {
    /// Its SQLSTATE.
    pub fn state(&self) -> &str {
        let known = || ErrorCode::ALL.iter().find(|code| code.errno() == self.errno);
        let of_level = || if self.level == "Error" { "HY000" } else { "01000" };
        match &self.state {
            Some(state) => state,
            None => known().map_or_else(of_level, |code| code.sqlstate()),
        }
    }
}

/// The diagnostics area: conditions of the last statement.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    pub conditions: Vec<Condition>,
    /// The number of conditions, including those that were not kept.
    pub count: u64,
    /// Whether the statement only shows them. Its answer counts none, as in MySQL: a client that
    /// asks for the warnings of every answer that has some would ask for ever.
    pub shown: bool,
    /// Those of the previous statement.
    pub before: Counts,
    /// Which ones are kept, as variables of the session say it.
    pub keeps: Keeps,
    /// The number and SQLSTATE that SIGNAL gave to the error of the statement.
    signalled: Option<(u16, String)>,
}

/// How many conditions a statement had.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// All of them.
    pub warnings: u64,
    pub errors: u64,
}

impl Diagnostics {
    /// Removes the conditions of the previous statement, of which only the counts remain. The
    /// statement that begins tells those of its own.
    pub fn clear(&mut self) {
        let errors = self.conditions.iter().filter(|one| one.level == "Error").count() as u64;
        self.before = Counts { warnings: self.count, errors };
        self.conditions.clear();
        self.count = 0;
        self.shown = false;
        self.signalled = None;
    }

    /// The error by which the statement is about to fail has this number and SQLSTATE.
    pub fn signal(&mut self, errno: u16, state: String) {
        self.signalled = Some((errno, state));
    }

    /// The number and SQLSTATE of an error of SIGNAL.
    pub fn signalled(&self) -> Option<(u16, &str)> {
        self.signalled.as_ref().map(|(errno, state)| (*errno, state.as_str()))
    }

    /// The condition that was added last has this SQLSTATE.
    pub fn name_last(&mut self, state: String) {
        if let Some(last) = self.conditions.last_mut() {
            last.state = Some(state);
        }
    }

    /// Adds a condition.
    pub fn push(&mut self, level: &'static str, errno: u16, mut message: String) {
        if level == "Note" && !self.keeps.notes {
            return;
        }
        self.count += 1;
        if let Some((end, _)) = message.char_indices().nth(WARNING_CHARS_MAX) {
            message.truncate(end);
            message.shrink_to_fit();
        }
        if self.conditions.len() < self.keeps.count_max {
            self.conditions.push(Condition { level, errno, message, state: None });
        }
    }

    /// Adds the warnings of evaluated expressions.
    pub fn evaluated(&mut self, warnings: freshet_query::evaluation::Warnings) {
        let kept = warnings.first.len() as u64;
        for (code, message) in warnings.first {
            self.push("Warning", code.errno(), message);
        }
        self.count += warnings.count.saturating_sub(kept);
    }

    /// The count for the packet that ends an answer, saturated to 16 bits.
    pub fn count_u16(&self) -> u16 {
        if self.shown { 0 } else { u16::try_from(self.count).unwrap_or(u16::MAX) }
    }
}

/// The text of an OK packet. Loads of one group have the same text, so it is formatted once.
#[derive(Clone, Debug, Default)]
pub struct Info {
    text: String,
    about: Option<(TxnId, GroupCommitMode)>,
}

impl Info {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn clear(&mut self) {
        self.text.clear();
        self.about = None;
    }

    pub fn set(&mut self, text: String) {
        self.text = text;
        self.about = None;
    }

    /// Sets the text for a load, unless it is already that of a load in the same group.
    pub fn describe(&mut self, loaded: &Loaded, connection: u32) {
        let about = loaded.txn.filter(|_| loaded.given.is_none()).map(|txn| (txn, loaded.mode));
        if about.is_some() && about == self.about {
            return;
        }
        self.about = about;
        self.text.clear();
        let mut write = || {
            let (text, label, status) = (&mut self.text, loaded.label(), loaded.status());
            write!(text, "{{'label':'{label}', 'status':'{status}', 'txnId':'")?;
            if let Some(txn) = loaded.txn {
                write!(text, "{txn}")?;
                if loaded.mode == GroupCommitMode::Sync {
                    write!(text, "', 'query_id':'{}", names::query_id(txn, connection))?;
                }
            }
            text.write_str("'}")
        };
        write().expect("a String takes all text");
    }
}

/// The session of one client. It is owned by either its connection or the running statement;
/// dropping it rolls back its transaction.
pub struct Session {
    pub shared: Arc<Shared>,
    /// Its entry in the process list.
    pub process: Arc<Process>,
    pub client: Client,
    /// What its account may do in an hour.
    limits: UserLimits,
    /// The longest `query_timeout` and `insert_timeout` of its account; 0 is no limit.
    seconds_max: [u32; 2],
    /// Where the running statement queries, once it does.
    admission: Option<Admission>,
    /// Whether its password has expired: nothing else is done before it is changed.
    pub must_change_password: bool,
    /// Memory and loads of its account.
    pub usage: Arc<AccountUsage>,
    pub database: Option<Arc<str>>,
    /// System variables.
    pub variables: Values,
    /// Whether SET has set `group_commit`.
    pub sets_group_commit: bool,
    /// The variables before the hint of the running statement has set some, and
    /// `sets_group_commit`.
    unhinted: Option<(Values, bool)>,
    /// The decoded values of `variables`.
    pub settings: Settings,
    /// `@x`, by lower-case name.
    pub user_variables: Arc<HashMap<String, Value>>,
    /// The collations of those whose values brought one.
    pub user_collations: Arc<HashMap<String, freshet_schema::Collation>>,
    /// Statements of PREPARE, by lower-case name.
    pub named: HashMap<String, NamedStatement>,
    /// The memory of `user_variables`.
    user_variables_kept: SessionMemory,
    /// Named locks (GET_LOCK).
    pub locks: SessionLocks,
    /// The open transaction, and the characteristics of the next one.
    pub transactions: Transactions,
    pub diagnostics: Diagnostics,
    /// Of its statements.
    digests: KnownDigests,
    pub last_insert: Option<LastInsert>,
    /// Rows that the running INSERT filtered out.
    pub filtered: u64,
    /// The same, until it is known what becomes of the others.
    pub left_out: Option<Box<LeftOut>>,
    /// The time limit of the running statement.
    pub statement_deadline: StatementDeadline,
    /// ROW_COUNT().
    pub row_count: i64,
    /// FOUND_ROWS().
    pub found_rows: u64,
    /// LAST_INSERT_ID().
    pub last_insert_id: u64,
    /// The id that the next OK packet tells.
    pub insert_id: u64,
    /// Tables that no other session knows.
    pub temporary: TemporaryTables,
    pub disabled_keys: DisabledKeys,
    /// The values of sequences that CURRVAL tells.
    pub currents: Currents,
    /// `insert_id`: the first id that the next INSERT generates.
    pub forced_id: Option<u64>,
    /// `timestamp`: the time of its statements, in microseconds since 1970 UTC; else the clock's.
    pub timestamp_micros: Option<i64>,
    /// Encoded rows of the running load.
    pub buffer: LoadBuffer,
    /// The text of the next OK packet.
    pub info: Info,
    /// The new current database that the next OK packet reports (session tracking).
    pub moved_to: Option<Arc<str>>,
    /// Replies may be sent only when the log is durable up to here.
    pub acked: Lsn,
}

impl Session {
    /// The columns of a table that the user sees.
    pub fn shown_columns<'t>(&self, table: &'t Table) -> &'t [Column] {
        match self.settings.hidden_columns {
            true => &table.schema().columns,
            false => table.schema().shown(),
        }
    }

    /// The session of a client that just logged in.
    pub fn new(shared: Arc<Shared>, process: Arc<Process>, client: Client) -> Self {
        let variables = shared.globals.load();
        let settings = Settings::of(&variables, 0);
        let statement_deadline = StatementDeadline::of_query(&settings, &**shared.engine.clock());
        let usage = shared.accounts.of(&client.account, shared.engine.clock().now());
        let mut session = Self {
            user_variables_kept: SessionMemory::new(&usage),
            usage,
            locks: SessionLocks::new(&shared.locks, process.id),
            transactions: Transactions::new(&process),
            shared,
            process,
            client,
            limits: UserLimits::default(),
            seconds_max: [0, 0],
            admission: None,
            must_change_password: false,
            database: None,
            variables,
            sets_group_commit: false,
            unhinted: None,
            settings,
            user_variables: Arc::default(),
            user_collations: Arc::default(),
            named: HashMap::new(),
            diagnostics: Diagnostics::default(),
            digests: KnownDigests::default(),
            last_insert: None,
            filtered: 0,
            left_out: None,
            statement_deadline,
            row_count: -1,
            found_rows: 0,
            last_insert_id: 0,
            insert_id: 0,
            forced_id: None,
            timestamp_micros: None,
            temporary: TemporaryTables::default(),
            disabled_keys: DisabledKeys::default(),
            currents: Currents::default(),
            buffer: LoadBuffer::default(),
            info: Info::default(),
            moved_to: None,
            acked: Lsn::ZERO,
        };
        session.adopt_client();
        session.adopt_roles();
        session.adopt_options();
        session
    }

    /// Resets everything but the client's identity, for COM_RESET_CONNECTION.
    pub fn reset(&mut self) {
        self.transactions.roll_back();
        self.transactions.locks_tables = false;
        self.locks.release_all();
        self.variables = self.shared.globals.load();
        self.sets_group_commit = false;
        self.unhinted = None;
        self.user_variables = Arc::default();
        self.user_collations = Arc::default();
        self.named = HashMap::new();
        self.user_variables_kept = SessionMemory::new(&self.usage);
        self.diagnostics.clear();
        self.last_insert = None;
        self.transactions.next = NextTransaction::default();
        self.row_count = -1;
        self.found_rows = 0;
        (self.last_insert_id, self.insert_id, self.forced_id) = (0, 0, None);
        self.timestamp_micros = None;
        self.temporary = TemporaryTables::default();
        self.currents = Currents::default();
        self.adopt_client();
        self.show_collation();
        self.adopt_roles();
    }

    /// Makes the roles active that a login of its account does.
    pub fn adopt_roles(&mut self) {
        let all = self.shared.globals.is_on("activate_all_roles_on_login");
        let catalog = self.shared.engine.catalog();
        let user = catalog.user(&self.client.account);
        self.activate(user.map(|user| user.login_roles(all)).unwrap_or_default());
    }

    /// Makes these roles active, and no others.
    pub fn activate(&mut self, roles: Vec<Account>) {
        self.client.roles = roles.into();
        // What was planned and resolved was allowed by other roles.
        self.settings.version += 1;
    }

    /// CURRENT_ROLE().
    pub fn current_role(&self) -> String {
        let catalog = self.shared.engine.catalog();
        let user = catalog.user(&self.client.account);
        let held = |role: &&Account| user.is_some_and(|user| user.holds(role));
        let roles = self.client.roles.iter().filter(held).map(Account::quoted);
        let roles = roles.collect::<Vec<_>>();
        if roles.is_empty() { "NONE".to_owned() } else { roles.join(",") }
    }

    /// Applies what the client requested in its handshake: character set and interactive timeout.
    fn adopt_client(&mut self) {
        self.adopt_properties();
        if self.client.capabilities.contains(Capabilities::INTERACTIVE) {
            let id = |name| variables::find(name).expect("a variable of the registry");
            let patience = id("interactive_timeout").of(&self.variables).clone();
            id("wait_timeout").put(&mut self.variables, patience);
        }
        let collation = self.client.collation;
        if let (Some(charset), Some(name)) = (collation.charset(), collation.name()) {
            let values = &mut self.variables;
            for variable in ["character_set_client", "character_set_connection"] {
                let id = variables::find(variable).expect("a variable of the registry");
                id.put(values, Value::Text(charset.to_owned()));
            }
            let id = variables::find("collation_connection").expect("a variable of the registry");
            id.put(values, Value::Text(name.to_owned()));
        }
        self.settings_changed();
    }

    /// Turns it into a new session of another account.
    pub fn move_to_account(&mut self, account: Account) {
        self.usage = self.shared.accounts.of(&account, self.shared.engine.clock().now());
        self.client.account = account;
        self.database = None;
        self.reset();
        self.adopt_options();
    }

    /// `SET @name = value`; the variable keeps the collation of a text that has one of its own.
    ///
    /// # Errors
    /// 1041 at the account's memory limit.
    pub fn set_user_variable(
        &mut self,
        name: &str,
        (value, collation): (Value, Option<freshet_schema::Collation>),
    ) -> Result<()> {
        let bytes = |value: &Value| match value {
            Value::Decimal(text) | Value::Text(text) => {
                (USER_VARIABLE_BYTES + name.len() + text.len()) as u64
            }
            _ => (USER_VARIABLE_BYTES + name.len()) as u64,
        };
        let before = self.user_variables.get(name).map_or(0, bytes);
        let kept = self.user_variables_kept.bytes() - before + bytes(&value);
        self.user_variables_kept.resize(kept)?;
        match collation {
            Some(collation) => {
                let collations = Arc::make_mut(&mut self.user_collations);
                collations.insert(name.to_owned(), collation);
            }
            None if self.user_collations.contains_key(name) => {
                Arc::make_mut(&mut self.user_collations).remove(name);
            }
            None => {}
        }
        Arc::make_mut(&mut self.user_variables).insert(name.to_owned(), value);
        Ok(())
    }

    /// Shrinks large buffers; called before waiting for the client.
    pub fn rest(&mut self) {
        self.buffer.rest();
    }

    /// Called after variables were set.
    pub fn settings_changed(&mut self) {
        self.settings = Settings::of(&self.variables, self.settings.version + 1);
        self.settings.sets_group_commit = self.sets_group_commit;
        self.diagnostics.keeps = self.settings.keeps;
        self.settings.shorten(self.seconds_max);
        self.process
            .set_idle_timeouts(self.settings.wait_timeout, self.settings.idle_transaction_timeout);
    }

    /// The status flags of OK and EOF packets.
    pub fn status(&self) -> StatusFlags {
        StatusFlags::NONE
            .set(StatusFlags::AUTOCOMMIT, self.settings.autocommit)
            .set(StatusFlags::IN_TRANSACTION, self.transactions.open().is_some())
            .set(StatusFlags::NO_BACKSLASH_ESCAPES, self.settings.dialect.no_backslash_escapes)
    }

    /// The database of a name, or the current one.
    ///
    /// # Errors
    /// 1046 if there is none.
    pub fn database_of<'a>(&'a self, given: Option<&'a str>) -> Result<&'a str> {
        given.or(self.database.as_deref()).ok_or_else(|| err!(NoDatabase, "No database selected"))
    }

    /// Checks that the user has a privilege.
    ///
    /// # Errors
    /// 1044, 1142 or 1227 if not.
    pub fn authorize(&self, privilege: Privilege, object: Object<'_>) -> Result<()> {
        authorize(&self.shared.engine.catalog(), self.client.actor(), privilege, object)
    }

    /// USE, also by a login or COM_INIT_DB, whose name may have the catalog of Doris before it, as
    /// in `jdbc:mysql://host/internal.d`: names of databases have no dots.
    ///
    /// # Errors
    /// 1049 and 1044.
    pub fn use_database(&mut self, name: &str) -> Result<()> {
        let in_catalog = name.split_once('.').filter(|(of, _)| of.eq_ignore_ascii_case("internal"));
        let name = in_catalog.map_or(name, |(_, name)| name);
        let catalog = self.shared.engine.catalog();
        require_visible(&catalog, self.client.actor(), name)?;
        let canonical = match is_reserved_database(name) {
            true => name.to_ascii_lowercase(),
            false => catalog.require_database(name)?.name.clone(),
        };
        let name: Arc<str> = canonical.into();
        if self.database.as_ref() == Some(&name) {
            return Ok(());
        }
        self.process.describe(|details| details.database = Some(Arc::clone(&name)));
        self.database = Some(name);
        self.show_collation();
        // Unqualified names now refer to other tables: resolved targets are stale.
        self.settings.version += 1;
        Ok(())
    }

    /// USE as a statement of its own, whose OK packet reports the database to clients that track
    /// it.
    ///
    /// # Errors
    /// As [`Self::use_database`].
    pub fn move_to_database(&mut self, name: &str) -> Result<()> {
        self.use_database(name)?;
        self.moved_to = self.database.clone().filter(|_| self.settings.tracks_schema);
        Ok(())
    }

    /// `user@host` with the name that the client gave.
    pub fn user_at_host(&self) -> String {
        format!("{}@{}", self.client.user, crate::auth::host_of(self.client.peer))
    }

    /// Makes an error the only condition of its statement. A deadlock ends the transaction, as in
    /// MySQL: who waits for it goes on.
    pub fn failed(&mut self, error: &Error) {
        if error.code() == ErrorCode::Deadlock {
            self.transactions.roll_back();
        }
        self.note_left_out(Some(error));
        let signalled = self.diagnostics.signalled.take();
        let errno = signalled.as_ref().map_or(error.code().errno(), |(errno, _)| *errno);
        (self.row_count, self.insert_id) = (-1, 0);
        self.diagnostics.clear();
        self.diagnostics.push("Error", errno, error.message().to_owned());
        if let Some((_, state)) = &signalled {
            self.diagnostics.name_last(state.clone());
        }
        self.diagnostics.signalled = signalled;
        self.shared.metrics().errors.with_label_values(&[&errno.to_string()]).inc();
    }
}
