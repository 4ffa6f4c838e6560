//! What is counted of each statement by its digest.

use std::time::Duration;

use super::Session;
use crate::digests::{Asked, Ended, Outcome};

impl Session {
    /// The time by which statements are measured.
    pub fn clock_now(&self) -> Duration {
        self.shared.engine.clock().now()
    }

    /// Counts a statement that ended between these times of the monotonic clock.
    pub fn count_digest(
        &mut self,
        asked: &Asked<'_>,
        (began, ended): (Duration, Duration),
        outcome: Outcome,
    ) {
        let warnings = match outcome {
            Outcome::Failed => 0,
            Outcome::Changed(_) | Outcome::Sent(_) => self.diagnostics.count,
        };
        let ended = Ended { began, ended, outcome, warnings };
        let hides = self.settings.dialect.no_backslash_escapes;
        let place = (&self.shared.digests, self.database.as_ref());
        self.digests.count(place, (self.process.id, hides), asked, &ended);
    }

    /// The same of a statement that ended now, well or not: what it did is in the session.
    pub fn count_done(&mut self, asked: &Asked<'_>, began: Duration, is_done: bool) {
        let outcome = match u64::try_from(self.row_count) {
            _ if !is_done => Outcome::Failed,
            Ok(affected) => Outcome::Changed(affected),
            Err(_) => Outcome::Sent(self.found_rows),
        };
        let now = self.clock_now();
        self.count_digest(asked, (began, now), outcome);
    }
}
