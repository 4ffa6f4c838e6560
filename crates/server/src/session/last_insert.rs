//! What SHOW LAST INSERT tells.

use freshet_base::TableId;
use freshet_ingest::Loaded;

use crate::transaction::Inserted;

/// The data of SHOW LAST INSERT.
#[derive(Clone, Debug)]
pub struct LastInsert {
    /// Its position, label and transaction.
    pub loaded: Loaded,
    /// The number of the transaction of the session that it is in.
    pub transaction: Option<u64>,
    pub table: TableId,
    pub inserted: Inserted,
}

impl LastInsert {
    /// Whether it waits for the end of the transaction with this number. Its label says less: once
    /// it is rolled back, another one may have that.
    pub fn waits_for(&self, transaction: Option<u64>) -> bool {
        self.loaded.txn.is_none() && transaction.is_some() && self.transaction == transaction
    }
}
