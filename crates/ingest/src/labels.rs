//! Labels given by clients: each is claimed by one load, and reported as used once that is durable.

use std::sync::Arc;

use freshet_base::{DbId, Result};
use freshet_meta::{Claim, ClaimOutcome, LABEL_CHARS_MAX, LabelKind, LabelRecord, UsedLabel};

use crate::engine::Engine;
use crate::record;

/// Appends the label of a load to its rows.
pub(crate) fn write_label(claim: &mut Claim, payload: &mut Vec<u8>) {
    assert!(claim.label().len() <= LABEL_CHARS_MAX, "admission counts on the length of a label");
    let wall_micros = claim.dated();
    let (db, kind, text) = (claim.db(), claim.kind(), claim.label());
    record::write_label(payload, &record::Label { db, kind, wall_micros, text });
}

impl Engine {
    /// Claims a label of a database for a load. If the label is already used, waits until the load
    /// that uses it is durable: a power failure must not undo what was reported.
    ///
    /// # Errors
    /// When the label is invalid, when there are too many labels of running or remembered loads, or
    /// when the term does not begin in time.
    pub async fn claim_label(
        &self,
        db: DbId,
        label: &str,
        kind: LabelKind,
    ) -> Result<ClaimOutcome> {
        // The record of the term says how many labels there may be.
        self.begun().await?;
        let outcome = self.meta().labels().claim(db, label, kind)?;
        if let ClaimOutcome::Used(used) = &outcome {
            self.durable(used).await;
        }
        Ok(outcome)
    }

    /// How a label is used, if it is; waits until that load is durable.
    pub async fn used_label(&self, db: DbId, label: &str) -> Option<UsedLabel> {
        let used = self.meta().labels().get(db, label)?;
        self.durable(&used).await;
        Some(used)
    }

    /// The labels of a database whose loads are in the log, in the order in which they expire.
    pub fn finished_labels(&self, db: DbId) -> Vec<Arc<LabelRecord>> {
        self.meta().labels().finished(db)
    }

    async fn durable(&self, used: &UsedLabel) {
        if let Some(lsn) = used.lsn {
            self.horizon().wait(lsn).await;
        }
    }
}
