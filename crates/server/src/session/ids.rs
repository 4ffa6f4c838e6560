//! What LAST_INSERT_ID() returns, and the id that an OK packet tells.

use freshet_ingest::UsedIds;
use freshet_query::evaluation::Warnings;

use super::Session;

impl Session {
    /// Notes the ids in rows that a statement has inserted.
    pub fn note_ids(&mut self, ids: Option<UsedIds>) {
        let Some(ids) = ids else { return };
        if let Some(first) = ids.generated {
            self.last_insert_id = first;
            self.forced_id = None;
        }
        self.insert_id = ids.generated.or(ids.explicit).unwrap_or(0);
    }

    /// Notes what evaluated expressions tell: their warnings, and the id of `LAST_INSERT_ID(value)`.
    pub fn evaluated(&mut self, warnings: Warnings) {
        self.last_insert_id = warnings.insert_id.unwrap_or(self.last_insert_id);
        self.diagnostics.evaluated(warnings);
    }
}
