//! CLEAN LABEL: labels are forgotten before their time, each at one place of the log.

use std::sync::Arc;

use freshet_base::{DbId, Lsn, TxnId};

use super::{DbLabels, LabelRecord, LabelRegistry};

/// Which labels are forgotten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CleanedLabels {
    pub db: DbId,
    /// This one; all otherwise.
    pub label: Option<String>,
    /// Those of loads whose records stand before this one.
    pub below: Lsn,
    /// The transactions of prepared loads that may be on their way to their end: while their notes
    /// are there, their labels tell a start that they are committed.
    pub kept: Vec<TxnId>,
}

impl CleanedLabels {
    fn has(&self, record: &LabelRecord) -> bool {
        let is_it = self.label.as_ref().is_none_or(|label| *label == record.label);
        is_it && record.lsn < self.below && !self.kept.contains(&record.txn)
    }
}

impl LabelRegistry {
    /// Forgets labels of finished loads. Called in the order of the log.
    pub fn clean(&self, cleaned: &CleanedLabels) {
        let mut databases = self.databases.lock();
        let Some(labels) = databases.get_mut(&cleaned.db) else { return };
        let gone = labels.finished.values().filter(|record| cleaned.has(record));
        let gone = gone.cloned().collect::<Vec<_>>();
        gone.iter().for_each(|record| labels.forget(record));
    }
}

impl DbLabels {
    fn forget(&mut self, record: &Arc<LabelRecord>) {
        self.entries.remove(&record.label);
        self.finished.remove(&(record.expires_micros, record.lsn));
        if self.unsaved.remove(&record.lsn).is_none() {
            self.to_delete.insert(record.label.clone());
        }
    }
}
