//! What SHOW LAST INSERT tells.

use freshet_base::TableId;
use freshet_ingest::Loaded;

/// The data of SHOW LAST INSERT.
#[derive(Clone, Debug)]
pub struct LastInsert {
    /// Its position, label and transaction.
    pub loaded: Loaded,
    pub table: TableId,
    pub rows: u64,
    /// Rows filtered out.
    pub filtered: u64,
}

impl LastInsert {
    /// Whether it is one of the transaction that `loaded` is of, and waits for its end.
    pub fn waits_for(&self, loaded: &Loaded) -> bool {
        self.loaded.txn.is_none() && self.loaded.given == loaded.given
    }
}
