//! Where a load goes, and what became of it.

use std::sync::Arc;

use freshet_base::{DbId, Lsn, Result, TableId, TxnId, err};
use freshet_schema::{GroupCommitMode, Table, TableSchema};

use crate::engine::Engine;
use crate::names;
use crate::state::TableState;

/// A table to load into, looked up once.
#[derive(Clone)]
pub struct LoadTarget {
    pub(crate) state: Arc<TableState>,
    table: Arc<Table>,
}

impl LoadTarget {
    pub(crate) fn new(state: Arc<TableState>, table: Arc<Table>) -> Self {
        Self { state, table }
    }

    /// Its id.
    pub fn id(&self) -> TableId {
        self.table.id
    }

    /// Its database.
    pub fn db(&self) -> DbId {
        self.table.db
    }

    /// Its definition when it was looked up.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What rows are encoded under. The table may be altered meanwhile: readers adapt them.
    pub fn schema(&self) -> &Arc<TableSchema> {
        self.table.schema()
    }
}

/// A load that is in the log, or in a transaction: nothing can fail or be cancelled any more.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// It is acknowledged and readable once the horizon has reached this; zero in a transaction.
    pub lsn: Lsn,
    /// What the reply reports; none in a transaction.
    pub txn: Option<TxnId>,
    /// Which loads it shares its group with.
    pub mode: GroupCommitMode,
    /// The label of a client, or of the transaction.
    pub given: Option<Arc<str>>,
}

impl Loaded {
    pub(crate) fn alone(lsn: Lsn, txn: TxnId, given: Option<Arc<str>>) -> Self {
        Self { lsn, txn: Some(txn), mode: GroupCommitMode::Off, given }
    }

    /// The label that the reply tells: where none was given it follows from the transaction id.
    pub fn label(&self) -> String {
        match (&self.given, self.txn, self.mode) {
            (Some(given), ..) => given.to_string(),
            (None, None, _) => String::new(),
            (None, Some(txn), GroupCommitMode::Off) => names::load_label(txn),
            (None, Some(txn), _) => names::group_label(txn),
        }
    }

    /// Whether it has ended, in Doris's word: a group goes on, a transaction too.
    pub fn status(&self) -> &'static str {
        match (self.txn, self.mode) {
            (Some(_), GroupCommitMode::Off) => "VISIBLE",
            _ => "PREPARE",
        }
    }
}

impl Engine {
    /// A table to load into.
    ///
    /// # Errors
    /// 1049 and 1146.
    pub fn target(&self, database: &str, table: &str) -> Result<LoadTarget> {
        let catalog = self.catalog();
        let table = catalog.require_table(database, table)?;
        let state = self
            .table_state(table.id)
            .ok_or_else(|| err!(NoSuchTable, "Table '{database}.{}' doesn't exist", table.name))?;
        Ok(LoadTarget::new(state, Arc::clone(table)))
    }

    /// Where the group ends that a load has joined: resolves when it has.
    pub async fn end_of_group(&self, target: &LoadTarget, loaded: &Loaded) -> Lsn {
        let Some(txn) = loaded.txn else { return loaded.lsn };
        let ended = target.state.wait_end(txn);
        // A sender that is gone went with its table; the rows are durable all the same.
        ended.await.map_or(loaded.lsn, |lsn| lsn.max(loaded.lsn))
    }
}
