//! The target and the result of a load.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{DbId, Lsn, Result, Retry, TableId, TxnId, bail, err};
use freshet_schema::{DeclaredKey, GroupCommitMode, Table, TableSchema};

use crate::counter::Counter;
use crate::gate::Pass;
use crate::names;
use crate::state::TableState;
use crate::tables::Tables;

/// After which time a load of a paused table may be tried again.
const PAUSED_RETRY: Duration = Duration::from_secs(10);

/// A table to load into, resolved once.
#[derive(Clone)]
pub struct LoadTarget {
    pub(crate) state: Arc<TableState>,
    table: Arc<Table>,
    /// Of who has entered before it began to load.
    pass: Option<Arc<Pass>>,
}

impl LoadTarget {
    pub(crate) fn new(state: Arc<TableState>, table: Arc<Table>) -> Self {
        assert_eq!(state.id, table.id, "rows are encoded for the table that takes them");
        Self { state, table, pass: None }
    }

    /// The table that the published catalog has under a name.
    ///
    /// # Errors
    /// 1049 (unknown database) and 1146 (unknown table).
    pub(crate) fn of(tables: &Tables, database: &str, table: &str) -> Result<Self> {
        let catalog = tables.catalog();
        let table = catalog.require_table(database, table)?;
        let state = tables
            .state(table.id)
            .ok_or_else(|| err!(NoSuchTable, "Table '{database}.{}' doesn't exist", table.name))?;
        Ok(Self::new(state, Arc::clone(table)))
    }

    /// The table of this id, which need not have its name.
    ///
    /// # Errors
    /// 1146.
    pub(crate) fn of_id(tables: &Tables, id: TableId) -> Result<Self> {
        let catalog = tables.catalog();
        let table = catalog.require(id)?;
        let missing = || err!(NoSuchTable, "Table '{}' doesn't exist", table.name);
        Ok(Self::new(tables.state(id).ok_or_else(missing)?, Arc::clone(table)))
    }

    /// Checks that the table takes loads.
    ///
    /// # Errors
    /// `OutOfRoom`, to retry, where ALTER TABLE .. PAUSE LOAD has paused them.
    pub fn check_takes_loads(&self) -> Result<()> {
        if !self.table.properties.is_paused() {
            return Ok(());
        }
        let name = &self.table.name;
        let error = err!(
            OutOfRoom,
            "loads of table '{name}' are paused; ALTER TABLE {name} RESUME LOAD takes them again"
        );
        Err(error.with_retry(Retry::After(PAUSED_RETRY)))
    }

    /// The same columns with the unique keys that the table has now.
    ///
    /// # Errors
    /// 1146; 1213 if rows with these columns do not have those of a key.
    pub(crate) fn with_unique_keys_of_now(&self, tables: &Tables) -> Result<Self> {
        let catalog = tables.catalog();
        let now = catalog.require(self.id())?;
        let has = |key: &DeclaredKey| self.schema().has_same(now.schema(), &key.columns);
        if !now.unique_keys().all(has) {
            bail!(
                Deadlock,
                "columns and unique keys of table '{}' changed while the statement ran; try \
                 restarting transaction",
                now.name
            );
        }
        Ok(self.with_unique_keys_of(now))
    }

    /// The same columns with the keys of another definition of the table.
    pub(crate) fn with_unique_keys_of(&self, other: &Table) -> Self {
        let declared_keys = other.declared_keys.clone();
        let table = Arc::new(Table { declared_keys, ..Table::clone(&self.table) });
        Self::new(Arc::clone(&self.state), table)
    }

    /// For a load that cannot be begun again: no change of columns takes the place of the table as
    /// long as the answer is held.
    ///
    /// # Errors
    /// 1412 while the end of such a change lets nobody in.
    pub fn entered(&self) -> Result<Self> {
        match self.pass() {
            Some(pass) => Ok(Self { pass: Some(pass), ..self.clone() }),
            None => Err(self.state.changed()),
        }
    }

    /// What lets a load in; `None` where nobody is let in.
    pub(crate) fn pass(&self) -> Option<Arc<Pass>> {
        self.pass.clone().or_else(|| self.state.gate.enter())
    }

    pub fn id(&self) -> TableId {
        self.table.id
    }

    pub fn db(&self) -> DbId {
        self.table.db
    }

    /// The table that a statement names which changes this one: that of temporary partitions has
    /// no name.
    pub fn named(&self) -> TableId {
        self.table.temporary_of.unwrap_or(self.id())
    }

    /// Its definition when it was resolved.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Where the ids of its AUTO_INCREMENT column come from.
    pub fn counter(&self) -> Option<&Arc<Counter>> {
        self.state.counter.as_ref()
    }

    /// The schema to encode rows with. If the table is altered meanwhile, readers convert the rows.
    pub fn schema(&self) -> &Arc<TableSchema> {
        self.table.schema()
    }
}

/// A load that is in the log or a transaction and can no longer fail or be cancelled.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The load is acknowledged and visible once the horizon reaches this LSN; zero in a
    /// transaction.
    pub lsn: Lsn,
    /// The transaction id reported to the client; `None` in a transaction.
    pub txn: Option<TxnId>,
    /// Whether and with which loads it shares a group.
    pub mode: GroupCommitMode,
    /// The label given by the client, or that of the transaction.
    pub given: Option<Arc<str>>,
    /// What it met in a table with a primary key.
    pub keys: KeyOutcome,
}

/// What the rows of a load met in a table with a primary key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyOutcome {
    /// How many rows others have replaced, also others of the load.
    pub replaced: u64,
    /// How many rows were left out since their key exists.
    pub skipped: u64,
    /// What is to be said of the first ones of these.
    pub messages: Vec<String>,
}

impl Loaded {
    pub(crate) fn alone(lsn: Lsn, txn: TxnId, given: Option<Arc<str>>) -> Self {
        let keys = KeyOutcome::default();
        Self { lsn, txn: Some(txn), mode: GroupCommitMode::Off, given, keys }
    }

    /// A statement that wrote nothing, and whose reply tells of rows up to `lsn`.
    pub(crate) fn looked_only(lsn: Lsn) -> Self {
        let keys = KeyOutcome::default();
        Self { lsn, txn: None, mode: GroupCommitMode::Off, given: None, keys }
    }

    /// The label for the reply, derived from the transaction id if none was given.
    pub fn label(&self) -> String {
        match (&self.given, self.txn, self.mode) {
            (Some(given), ..) => given.to_string(),
            (None, None, _) => String::new(),
            (None, Some(txn), GroupCommitMode::Off) => names::load_label(txn),
            (None, Some(txn), _) => names::group_label(txn),
        }
    }

    /// Its status in Doris's terms: VISIBLE if its group has ended, otherwise PREPARE.
    pub fn status(&self) -> &'static str {
        match (self.txn, self.mode) {
            (Some(_), GroupCommitMode::Off) => "VISIBLE",
            _ => "PREPARE",
        }
    }
}
