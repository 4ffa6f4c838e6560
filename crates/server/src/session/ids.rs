//! What statements tell their session: LAST_INSERT_ID(), the id of an OK packet, user variables.
//! And what it tells them: their time.

use std::collections::HashMap;
use std::sync::Arc;

use freshet_base::Result;
use freshet_ingest::UsedIds;
use freshet_query::evaluation::Warnings;
use freshet_query::session::Value;
use freshet_schema::Collation;

use super::{Diagnostics, Session};

/// What a statement has told its session when it begins, in case that it begins again.
pub struct Told {
    diagnostics: Diagnostics,
    last_insert_id: u64,
    variables: Arc<HashMap<String, Value>>,
    collations: Arc<HashMap<String, Collation>>,
    /// The memory of `variables`.
    kept: u64,
}

impl Session {
    /// The time of a statement that begins now, in microseconds since 1970 UTC.
    pub fn now_micros(&self) -> i64 {
        self.timestamp_micros.unwrap_or_else(|| self.shared.engine.clock().wall_micros())
    }

    pub fn told(&self) -> Told {
        Told {
            diagnostics: self.diagnostics.clone(),
            last_insert_id: self.last_insert_id,
            variables: Arc::clone(&self.user_variables),
            collations: Arc::clone(&self.user_collations),
            kept: self.user_variables_kept.bytes(),
        }
    }

    /// Lets a statement begin again.
    ///
    /// # Errors
    /// 1041 when the variables take too much memory.
    pub fn forget_since(&mut self, told: &Told) -> Result<()> {
        self.user_variables_kept.resize(told.kept)?;
        self.diagnostics.clone_from(&told.diagnostics);
        self.last_insert_id = told.last_insert_id;
        self.user_variables = Arc::clone(&told.variables);
        self.user_collations = Arc::clone(&told.collations);
        Ok(())
    }

    /// Notes the ids in rows that a statement has inserted.
    pub fn note_ids(&mut self, ids: Option<UsedIds>) {
        let Some(ids) = ids else { return };
        if let Some(first) = ids.generated {
            self.last_insert_id = first;
            self.forced_id = None;
        }
        self.insert_id = ids.generated.or(ids.explicit).unwrap_or(0);
    }

    /// Notes what evaluated expressions tell: their warnings, the id of `LAST_INSERT_ID(value)`,
    /// and user variables.
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
