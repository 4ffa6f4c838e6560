//! What became of a part of a body.

use freshet_base::budget::Permit;
use freshet_ingest::UsedIds;
use freshet_ingest::rejects::Rejects;

/// Counts and rejected rows of a body.
#[derive(Default)]
pub(super) struct BodySummary {
    /// All rows, rejected ones included.
    pub rows: u64,
    pub rejects: Rejects,
    /// Rows that a condition left out.
    pub unselected: u64,
    /// The ids in accepted rows, of an AUTO_INCREMENT column.
    pub ids: Option<UsedIds>,
}

impl BodySummary {
    /// Appends that of a later part of the body.
    pub(super) fn append(&mut self, later: Self) {
        self.rejects.append(later.rejects, self.rows);
        self.rows += later.rows;
        self.unselected += later.unselected;
        self.ids = UsedIds::join(self.ids, later.ids);
    }
}

/// The rows of a decoded piece.
pub(super) struct Decoded {
    pub rows: Vec<u8>,
    pub count: usize,
    pub summary: BodySummary,
    pub permit: Permit,
    /// Which rows delete, where a condition of the load says that.
    pub deletes: Vec<bool>,
    /// For each row of a flexible partial update, which columns it has.
    pub given: Vec<bool>,
}

/// Frees what decoded rows have not used of their memory, if it is much: the delta may keep them
/// for long.
pub(super) fn shrink(rows: &mut Vec<u8>) {
    if rows.capacity() - rows.len() > rows.len() / 4 {
        rows.shrink_to_fit();
    }
}

/// Which rows delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deletes {
    /// APPEND.
    None,
    /// DELETE.
    All,
    /// MERGE: those for which the condition `delete` holds, as the mapping says.
    Marked,
}
