//! One client's session: who it is, what it has set, what it has open.

mod transact;

use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

use freshet_base::{Error, Lsn, Result, TableId, TxnId, err};
use freshet_ingest::{LoadBuffer, Loaded, names};
use freshet_meta::{Account, Object, Privilege, authorize, is_reserved_database, require_visible};
use freshet_query::session::Value;
use freshet_schema::GroupCommitMode;
use freshet_wire::{Capabilities, Collation, StatusFlags};

use crate::Shared;
use crate::accounts::{Holdings, Kept};
use crate::locks::SessionLocks;
use crate::process::Process;
use crate::settings::{Patience, Settings};
use crate::transaction::{NextTransaction, Transactions};
use crate::variables::{self, Values};

/// Most warnings of a statement that are kept; the others are counted.
const WARNINGS_MAX: usize = 64;

/// Most characters of a warning that are kept, as in MySQL.
const WARNING_CHARS_MAX: usize = 512;
/// What a user variable takes besides its name and text, about.
const USER_VARIABLE_BYTES: usize = 64;

/// Who a client is and how it speaks.
#[derive(Clone, Debug)]
pub struct Client {
    /// The account it logged in to.
    pub account: Account,
    /// The name it gave.
    pub user: String,
    /// Where it is.
    pub peer: IpAddr,
    /// What both sides can do.
    pub capabilities: Capabilities,
    /// The collation that it asked for.
    pub collation: Collation,
}

/// A condition that SHOW WARNINGS lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `Error`, `Warning` or `Note`.
    pub level: &'static str,
    /// The MySQL number.
    pub errno: u16,
    /// In words.
    pub message: String,
}

/// What the last statement had to say.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    /// The first conditions.
    pub conditions: Vec<Condition>,
    /// How many there were.
    pub count: u64,
}

impl Diagnostics {
    /// Forgets the conditions of the statement before.
    pub fn clear(&mut self) {
        self.conditions.clear();
        self.count = 0;
    }

    /// Adds one.
    pub fn push(&mut self, level: &'static str, errno: u16, mut message: String) {
        self.count += 1;
        if let Some((end, _)) = message.char_indices().nth(WARNING_CHARS_MAX) {
            message.truncate(end);
            message.shrink_to_fit();
        }
        if self.conditions.len() < WARNINGS_MAX {
            self.conditions.push(Condition { level, errno, message });
        }
    }

    /// Adds what evaluating expressions had to say.
    pub fn evaluated(&mut self, warnings: freshet_query::evaluation::Warnings) {
        let kept = warnings.first.len() as u64;
        for (code, message) in warnings.first {
            self.push("Warning", code.errno(), message);
        }
        self.count += warnings.count.saturating_sub(kept);
    }

    /// The count as packets carry it.
    pub fn count_u16(&self) -> u16 {
        u16::try_from(self.count).unwrap_or(u16::MAX)
    }
}

/// The text of an OK packet. Loads of one group share it, so it is made once for them.
#[derive(Clone, Debug, Default)]
pub struct Info {
    text: String,
    about: Option<(TxnId, GroupCommitMode)>,
}

impl Info {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Nothing is said.
    pub fn clear(&mut self) {
        self.text.clear();
        self.about = None;
    }

    /// This is said.
    pub fn set(&mut self, text: String) {
        self.text = text;
        self.about = None;
    }

    /// What is said of a load, unless it was said of one of the same group just before.
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

/// What SHOW LAST INSERT tells.
#[derive(Clone, Debug)]
pub struct LastInsert {
    /// Where its rows are, and under which label.
    pub loaded: Loaded,
    /// The table.
    pub table: TableId,
    /// Rows loaded.
    pub rows: u64,
    /// Rows left out.
    pub filtered: u64,
}

/// One client's session. It is in one place at a time: with its connection, or with the
/// statement that runs; dropped, what it has open is rolled back.
pub struct Session {
    /// The server.
    pub shared: Arc<Shared>,
    /// Its entry in the list of connections.
    pub process: Arc<Process>,
    /// Who it is.
    pub client: Client,
    /// What the clients of its account hold.
    pub holdings: Arc<Holdings>,
    /// The current database.
    pub database: Option<Arc<str>>,
    /// Its variables.
    pub variables: Values,
    /// What they mean.
    pub settings: Settings,
    /// `@x`, by lower-case name.
    pub user_variables: Arc<HashMap<String, Value>>,
    /// Their memory.
    user_variables_kept: Kept,
    /// Locks that it took by name.
    pub locks: SessionLocks,
    /// Its transaction, and what the next one is to be.
    pub transactions: Transactions,
    /// What the last statement had to say.
    pub diagnostics: Diagnostics,
    /// The last INSERT.
    pub last_insert: Option<LastInsert>,
    /// Rows that the INSERT that runs has left out.
    pub filtered: u64,
    /// Until when the statement that runs may do so.
    pub patience: Patience,
    /// What ROW_COUNT() says.
    pub row_count: i64,
    /// What FOUND_ROWS() says.
    pub found_rows: u64,
    /// Where loads are encoded.
    pub buffer: LoadBuffer,
    /// What the next OK packet says.
    pub info: Info,
    /// The new current database that it tells of.
    pub moved_to: Option<Arc<str>>,
    /// No reply that was written may be sent before the log is durable up to here.
    pub acked: Lsn,
}

impl Session {
    /// The session of a client that has just logged in.
    pub fn new(shared: Arc<Shared>, process: Arc<Process>, client: Client) -> Self {
        let variables = shared.globals.load();
        let settings = Settings::of(&variables, 0);
        let patience = Patience::of_query(&settings, &**shared.engine.clock());
        let holdings = shared.accounts.of(&client.account);
        let mut session = Self {
            user_variables_kept: Kept::nothing(&holdings),
            holdings,
            locks: SessionLocks::new(&shared.locks, process.id),
            transactions: Transactions::new(&process),
            shared,
            process,
            client,
            database: None,
            variables,
            settings,
            user_variables: Arc::default(),
            diagnostics: Diagnostics::default(),
            last_insert: None,
            filtered: 0,
            patience,
            row_count: -1,
            found_rows: 0,
            buffer: LoadBuffer::default(),
            info: Info::default(),
            moved_to: None,
            acked: Lsn::ZERO,
        };
        session.adopt_client();
        session
    }

    /// Forgets everything but who the client is, as COM_RESET_CONNECTION wants.
    pub fn reset(&mut self) {
        self.transactions.roll_back();
        self.locks.release_all();
        self.variables = self.shared.globals.load();
        self.user_variables = Arc::default();
        self.user_variables_kept = Kept::nothing(&self.holdings);
        self.diagnostics.clear();
        self.last_insert = None;
        self.transactions.next = NextTransaction::default();
        self.row_count = -1;
        self.found_rows = 0;
        self.adopt_client();
    }

    /// What a client asked for in its handshake: a character set, and the patience for people.
    fn adopt_client(&mut self) {
        if self.client.capabilities.contains(Capabilities::INTERACTIVE) {
            let id = |name| variables::find(name).expect("a variable of the registry");
            let patience = id("interactive_timeout").of(&self.variables).clone();
            let values = Arc::make_mut(&mut self.variables);
            id("wait_timeout").put(values, patience);
        }
        let collation = self.client.collation;
        if let (Some(charset), Some(name)) = (collation.charset(), collation.name()) {
            let values = Arc::make_mut(&mut self.variables);
            for variable in ["character_set_client", "character_set_connection"] {
                let id = variables::find(variable).expect("a variable of the registry");
                id.put(values, Value::Text(charset.to_owned()));
            }
            let id = variables::find("collation_connection").expect("a variable of the registry");
            id.put(values, Value::Text(name.to_owned()));
        }
        self.settings_changed();
    }

    /// Makes it the session of another account, as if it were new.
    pub fn move_to_account(&mut self, account: Account) {
        self.holdings = self.shared.accounts.of(&account);
        self.client.account = account;
        self.database = None;
        self.reset();
    }

    /// `SET @name = value`.
    ///
    /// # Errors
    /// 1041 where the account keeps too much.
    pub fn set_user_variable(&mut self, name: &str, value: Value) -> Result<()> {
        let bytes = |value: &Value| match value {
            Value::Text(text) => (USER_VARIABLE_BYTES + name.len() + text.len()) as u64,
            _ => (USER_VARIABLE_BYTES + name.len()) as u64,
        };
        let before = self.user_variables.get(name).map_or(0, bytes);
        let kept = self.user_variables_kept.bytes() - before + bytes(&value);
        self.user_variables_kept.resize(kept)?;
        Arc::make_mut(&mut self.user_variables).insert(name.to_owned(), value);
        Ok(())
    }

    /// To be called before the client is waited for: gives unusual memory back.
    pub fn rest(&mut self) {
        self.buffer.rest();
    }

    /// To be called when variables were set.
    pub fn settings_changed(&mut self) {
        self.settings = Settings::of(&self.variables, self.settings.version + 1);
        self.process
            .set_patience(self.settings.wait_timeout, self.settings.idle_transaction_timeout);
    }

    /// State flags of OK and EOF packets.
    pub fn status(&self) -> StatusFlags {
        StatusFlags::NONE
            .set(StatusFlags::AUTOCOMMIT, self.settings.autocommit)
            .set(StatusFlags::IN_TRANSACTION, self.transactions.open().is_some())
            .set(StatusFlags::NO_BACKSLASH_ESCAPES, self.settings.dialect.no_backslash_escapes)
    }

    /// The database of a name that gives none.
    ///
    /// # Errors
    /// 1046.
    pub fn database_of<'a>(&'a self, given: Option<&'a str>) -> Result<&'a str> {
        given.or(self.database.as_deref()).ok_or_else(|| err!(NoDatabase, "No database selected"))
    }

    /// Whether the user may do this.
    ///
    /// # Errors
    /// 1044, 1142 and 1227.
    pub fn authorize(&self, privilege: Privilege, object: Object<'_>) -> Result<()> {
        authorize(&self.shared.engine.catalog(), &self.client.account, privilege, object)
    }

    /// USE.
    ///
    /// # Errors
    /// 1049 and 1044.
    pub fn use_database(&mut self, name: &str) -> Result<()> {
        let catalog = self.shared.engine.catalog();
        require_visible(&catalog, &self.client.account, name)?;
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
        // A name without a database means another table now: what was resolved is stale.
        self.settings.version += 1;
        Ok(())
    }

    /// The same by a command of its own, whose reply tells clients that track it.
    ///
    /// # Errors
    /// As [`Self::use_database`].
    pub fn move_to_database(&mut self, name: &str) -> Result<()> {
        self.use_database(name)?;
        self.moved_to = self.database.clone().filter(|_| self.settings.tracks_schema);
        Ok(())
    }

    /// `user@host` as the client gave it.
    pub fn user_at_host(&self) -> String {
        format!("{}@{}", self.client.user, crate::auth::host_of(self.client.peer))
    }

    /// An error is the one condition of its statement.
    pub fn failed(&mut self, error: &Error) {
        let errno = error.code().errno();
        self.row_count = -1;
        self.diagnostics.clear();
        self.diagnostics.push("Error", errno, error.message().to_owned());
        self.shared.metrics().errors.with_label_values(&[&errno.to_string()]).inc();
    }
}
