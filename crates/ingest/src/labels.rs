//! Labels that clients give: claimed for one load, told of to others once that is durable.

use std::sync::Arc;

use freshet_base::{DbId, Lsn, Result, TxnId};
use freshet_meta::{Claim, ClaimOutcome, LabelKind, LabelRecord, LabelTime, UsedLabel};

use crate::engine::Engine;
use crate::record;

/// A label that a client gave, claimed for one load; dropped before it is appended, it is free.
#[derive(Debug)]
pub struct LabelClaim {
    db: DbId,
    /// How long it is remembered.
    kind: LabelKind,
    claim: Claim,
}

impl LabelClaim {
    /// The label.
    pub fn text(&self) -> &str {
        self.claim.label()
    }

    pub(crate) fn write(&self, payload: &mut Vec<u8>, time: LabelTime) {
        let label = record::Label { db: self.db, kind: self.kind, time, text: self.text() };
        record::write_label(payload, &label);
    }

    /// The label belongs to its record from here on, whatever becomes of the request.
    /// Called under the log's lock, so that a recycling of the log cannot overlook it.
    pub(crate) fn appended(self, txn: TxnId, lsn: Lsn) {
        self.claim.appended(txn, lsn);
    }
}

/// The answer to a claim.
#[derive(Debug)]
pub enum Claimed {
    /// The label is the caller's.
    New(LabelClaim),
    /// Another load has it; what is told of that is durable.
    Used(UsedLabel),
}

impl Claimed {
    /// The claim.
    ///
    /// # Errors
    /// Where another load has the label.
    pub fn or_refuse(self) -> Result<LabelClaim> {
        match self {
            Self::New(claim) => Ok(claim),
            Self::Used(used) => Err(used.into()),
        }
    }
}

impl Engine {
    /// Claims a label of a database for a load. That it is used is told when the load that uses
    /// it is durable: a power cut must not take back what was told.
    ///
    /// # Errors
    /// A label that is none; too many labels of running loads, or that must be remembered.
    pub async fn claim_label(&self, db: DbId, label: &str, kind: LabelKind) -> Result<Claimed> {
        match self.meta().labels().claim(db, label, kind, None)? {
            ClaimOutcome::New(claim) => Ok(Claimed::New(LabelClaim { db, kind, claim })),
            ClaimOutcome::Used(used) => {
                self.durable(&used).await;
                Ok(Claimed::Used(used))
            }
        }
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
