//! Rows that delete, which merges have named, and which wait to be forgotten (RFC 0047).

use std::collections::VecDeque;
use std::sync::Arc;

use freshet_base::{Lsn, TableId};
use freshet_schema::{Forgotten, TableSchema};
use parking_lot::Mutex;

/// How many merges may wait with what they have named; what others name is found again.
const MERGES_MAX: usize = 64;

/// What a merge has named.
pub(crate) struct Named {
    pub table: TableId,
    /// The columns of the merge.
    pub schema: Arc<TableSchema>,
    /// The last LSN whose rows it has read.
    pub to: Lsn,
    pub rows: VecDeque<Forgotten>,
}

/// Rows that are to be forgotten.
#[derive(Default)]
pub(crate) struct Forgettable(Mutex<VecDeque<Named>>);

impl Forgettable {
    pub fn add(&self, named: Named) {
        let mut waiting = self.0.lock();
        if !named.rows.is_empty() && waiting.len() < MERGES_MAX {
            waiting.push_back(named);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    pub fn next(&self) -> Option<Named> {
        self.0.lock().pop_front()
    }

    /// What is left of the first one.
    pub fn put_back(&self, named: Named) {
        if !named.rows.is_empty() {
            self.0.lock().push_front(named);
        }
    }
}
