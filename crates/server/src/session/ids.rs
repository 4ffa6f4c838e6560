//! What statements tell their session: LAST_INSERT_ID(), the id of an OK packet, user variables.

use freshet_base::Result;
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

    /// Notes what evaluated expressions tell: their warnings, the id of `LAST_INSERT_ID(value)`, and
    /// user variables.
    ///
    /// # Errors
    /// 1041 when the variables take too much memory.
    pub fn evaluated(&mut self, mut warnings: Warnings) -> Result<()> {
        self.last_insert_id = warnings.insert_id.unwrap_or(self.last_insert_id);
        for (name, value) in std::mem::take(&mut warnings.assigned) {
            self.set_user_variable(&name, (value, None))?;
        }
        self.diagnostics.evaluated(warnings);
        Ok(())
    }
}
