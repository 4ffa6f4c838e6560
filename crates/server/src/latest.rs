//! What a statement sees of tables whose rows it locks, whatever snapshot its transaction reads.

use std::collections::HashMap;

use freshet_base::{Result, TableId};
use freshet_storage::snapshot::{Snapshot, TableSnapshot};

/// Tables as they are now.
pub struct Latest {
    snapshot: Snapshot,
    /// The keys of the rows of each that it leaves out, since others hold them.
    skipped: HashMap<TableId, Vec<Box<[u8]>>>,
}

impl Latest {
    pub fn new(snapshot: Snapshot, skipped: HashMap<TableId, Vec<Box<[u8]>>>) -> Self {
        Self { snapshot, skipped }
    }

    /// The table, if it is one of them and is still there.
    ///
    /// # Errors
    /// When the snapshot cannot be read.
    pub fn table(&self, id: TableId) -> Result<Option<TableSnapshot>> {
        match self.skipped.contains_key(&id) {
            true => Ok(self.snapshot.table(id)?),
            false => Ok(None),
        }
    }

    /// The keys that are left out of a table.
    pub fn skipped(&self, id: TableId) -> &[Box<[u8]>] {
        self.skipped.get(&id).map_or(&[], Vec::as_slice)
    }
}
