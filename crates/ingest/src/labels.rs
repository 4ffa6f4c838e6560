//! Labels that clients give: claimed for one load, told of to others once that is durable.

use std::sync::Arc;

use freshet_base::{DbId, Result};
use freshet_meta::{Claim, ClaimOutcome, LABEL_CHARS_MAX, LabelKind, LabelRecord, UsedLabel};

use crate::engine::Engine;
use crate::record;

/// Writes the label of a load behind its rows.
pub(crate) fn write_label(claim: &mut Claim, payload: &mut Vec<u8>) {
    assert!(claim.label().len() <= LABEL_CHARS_MAX, "admission counts on the length of a label");
    let wall_micros = claim.dated();
    let (db, kind, text) = (claim.db(), claim.kind(), claim.label());
    record::write_label(payload, &record::Label { db, kind, wall_micros, text });
}

impl Engine {
    /// Claims a label of a database for a load. That it is used is told when the load that uses
    /// it is durable: a power cut must not take back what was told.
    ///
    /// # Errors
    /// A label that is none; too many labels of running loads, or that must be remembered.
    pub async fn claim_label(
        &self,
        db: DbId,
        label: &str,
        kind: LabelKind,
    ) -> Result<ClaimOutcome> {
        let outcome = self.meta().labels().claim(db, label, kind)?;
        if let ClaimOutcome::Used(used) = &outcome {
            self.durable(used).await;
        }
        Ok(outcome)
    }

    /// What a label is used for, if it is, as far as that is durable.
    pub async fn used_label(&self, db: DbId, label: &str) -> Option<UsedLabel> {
        let used = self.meta().labels().get(db, label)?;
        self.durable(&used).await;
        Some(used)
    }

    /// The labels of a database whose loads are in the log, the first to be forgotten first.
    pub fn finished_labels(&self, db: DbId) -> Vec<Arc<LabelRecord>> {
        self.meta().labels().finished(db)
    }

    async fn durable(&self, used: &UsedLabel) {
        if let Some(lsn) = used.lsn {
            self.horizon().wait(lsn).await;
        }
    }
}
