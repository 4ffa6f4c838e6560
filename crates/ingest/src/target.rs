//! The target and the result of a load.

use std::sync::Arc;

use freshet_base::{DbId, Lsn, Result, TableId, TxnId, err};
use freshet_schema::{GroupCommitMode, Table, TableSchema};

use crate::engine::Engine;
use crate::names;
use crate::state::TableState;

/// A table to load into, resolved once.
#[derive(Clone)]
pub struct LoadTarget {
    pub(crate) state: Arc<TableState>,
    table: Arc<Table>,
}

impl LoadTarget {
    pub(crate) fn new(state: Arc<TableState>, table: Arc<Table>) -> Self {
        assert_eq!(state.id, table.id, "rows are encoded for the table that takes them");
        Self { state, table }
    }

    pub fn id(&self) -> TableId {
        self.table.id
    }

    pub fn db(&self) -> DbId {
        self.table.db
    }

    /// Its definition when it was resolved.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
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
}

impl Loaded {
    pub(crate) fn alone(lsn: Lsn, txn: TxnId, given: Option<Arc<str>>) -> Self {
        Self { lsn, txn: Some(txn), mode: GroupCommitMode::Off, given }
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

impl Engine {
    /// Resolves a table to load into.
    ///
    /// # Errors
    /// 1049 (unknown database) and 1146 (unknown table).
    pub fn target(&self, database: &str, table: &str) -> Result<LoadTarget> {
        let catalog = self.catalog();
        let table = catalog.require_table(database, table)?;
        let state = self
            .table_state(table.id)
            .ok_or_else(|| err!(NoSuchTable, "Table '{database}.{}' doesn't exist", table.name))?;
        Ok(LoadTarget::new(state, Arc::clone(table)))
    }

    /// The LSN of the end of the group that a load has joined; resolves when it has ended.
    pub async fn end_of_group(&self, target: &LoadTarget, loaded: &Loaded) -> Lsn {
        let Some(txn) = loaded.txn else { return loaded.lsn };
        let ended = target.state.wait_end(txn);
        // The sender is dropped when the table is dropped; the rows are durable nevertheless.
        ended.await.map_or(loaded.lsn, |lsn| lsn.max(loaded.lsn))
    }
}
