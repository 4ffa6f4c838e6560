//! How long and how many labels are kept, as records of terms say it.

use std::time::Duration;

use freshet_base::Lsn;

/// How a load with a label came, which determines how long the label is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LabelKind {
    /// INSERT WITH LABEL and BEGIN WITH LABEL.
    Statement,
    /// Stream loads, also those in two phases.
    Streaming,
}

/// How long and how many labels are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LabelLimits {
    /// Retention of labels of INSERT and two-phase loads.
    pub keep: Duration,
    /// Retention of labels of stream loads.
    pub keep_streaming: Duration,
    /// Maximum number of finished labels per database; each needs about 300 bytes.
    pub finished_max: usize,
    /// Maximum number of labels of running loads per database.
    pub running_max: usize,
}

impl Default for LabelLimits {
    fn default() -> Self {
        Self {
            keep: Duration::from_secs(3 * 24 * 3600),
            keep_streaming: Duration::from_secs(12 * 3600),
            finished_max: 200_000,
            running_max: 1000,
        }
    }
}

impl LabelLimits {
    /// When a label expires whose record has this log time, by the same clock.
    pub(super) fn expires_micros(&self, kind: LabelKind, log_micros: i64) -> i64 {
        let keep = match kind {
            LabelKind::Statement => self.keep,
            LabelKind::Streaming => self.keep_streaming,
        };
        let keep_micros = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        log_micros.saturating_add(keep_micros)
    }
}

/// The limits at each position of the log above the recycled part.
///
/// A label is kept as long as the last term record before it says. If a replay went by its own
/// settings instead, a label of which the store knows nothing yet would be forgotten earlier than
/// was promised, and its load could be sent again.
#[derive(Debug)]
pub(super) struct LimitsInLog {
    /// By position, from the last one at or below the recycled position on; never empty.
    terms: Vec<(Lsn, LabelLimits)>,
}

impl LimitsInLog {
    /// `saved` are those at the recycled position; a store without a term record has none.
    pub fn new(saved: Option<LabelLimits>) -> Self {
        Self { terms: vec![(Lsn::ZERO, saved.unwrap_or_default())] }
    }

    /// Those at the end of the log.
    pub fn last(&self) -> LabelLimits {
        self.terms[self.terms.len() - 1].1
    }

    /// Those at a position.
    pub fn at(&self, lsn: Lsn) -> LabelLimits {
        let after = self.terms.partition_point(|(from, _)| *from <= lsn);
        self.terms[after - 1].1
    }

    /// A record says which ones hold from its position on.
    pub fn enter(&mut self, lsn: Lsn, limits: LabelLimits) {
        let last = self.terms[self.terms.len() - 1].0;
        assert!(last < lsn, "limits of labels enter in the order of the log");
        self.terms.push((lsn, limits));
    }

    /// The store has those at `lsn`.
    pub fn saved(&mut self, lsn: Lsn) {
        let after = self.terms.partition_point(|(from, _)| *from <= lsn);
        self.terms.drain(..after - 1);
    }
}
