//! Where a flush may end before the log does, so that a table whose flushes have fallen behind
//! gives memory back in steps: who waits for memory then waits for a step, and not for all.

use std::collections::VecDeque;

use freshet_base::{Lsn, Version};
use freshet_storage::fold::{Body, Load, TableLog};

/// How many times `flush_bytes` a flush takes that has fallen behind.
const STEP_FLUSHES: usize = 4;
/// Flushes have fallen behind once so many times `flush_bytes` are ahead; with less, one takes all
/// there is.
pub const BEHIND_FLUSHES: u64 = 8;

/// Places in a table's log, oldest first, where no group is open: what is in files up to there is a
/// version of the table.
pub struct Stops {
    stops: VecDeque<(Lsn, Version)>,
    /// Encoded bytes of the rows between two of them, at least.
    apart: u64,
    /// Those since the last one.
    bytes: u64,
}

impl Stops {
    /// At least `apart` bytes of rows are between two.
    pub fn new(apart: u64) -> Self {
        assert!(apart > 0, "rows are between two stops");
        Self { stops: VecDeque::new(), apart, bytes: 0 }
    }

    /// Counts the rows of a load that comes next.
    pub fn count(&mut self, load: &Load<'_>) {
        if let Body::Rows { payload, .. } = &load.body {
            self.bytes += payload.bytes() as u64;
        }
    }

    /// Takes the end of the log, where no group is open, if it is far enough from the last stop.
    pub fn may_be_here(&mut self, log: &TableLog) {
        if self.bytes < self.apart {
            return;
        }
        self.bytes = 0;
        let (frozen, last) = (log.freeze(), self.stops.back().map(|(last, _)| *last));
        assert!(frozen <= log.applied(), "a delta has records of the log only");
        assert!(last.is_none_or(|last| last < frozen), "rows came since the last stop");
        self.stops.push_back((frozen, log.version()));
    }

    /// Forgets all: flushes take what comes now together with what is there.
    pub fn clear(&mut self) {
        self.stops.clear();
        self.bytes = 0;
    }

    /// The end of a flush of what is above `flushed`; `None` if it takes all. `flush_bytes` are
    /// those of the table, whose groups may be larger than what stops are apart.
    pub fn next(&mut self, flushed: Lsn, flush_bytes: u64) -> Option<(Lsn, Version)> {
        while self.stops.front().is_some_and(|(stop, _)| *stop <= flushed) {
            self.stops.pop_front();
        }
        let stride = usize::try_from(flush_bytes.div_ceil(self.apart)).unwrap_or(usize::MAX).max(1);
        let is_behind = (self.stops.len() / stride) as u64 >= BEHIND_FLUSHES;
        is_behind.then(|| self.stops[STEP_FLUSHES * stride - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_part_of_what_is_behind_and_as_large_as_groups() {
        let at = |n| (Lsn(n), Version(n + 1));
        let mut stops = Stops::new(10);
        stops.stops = (1..=16).map(at).collect();
        assert_eq!(stops.next(Lsn(0), 10), Some(at(4)));
        assert_eq!(stops.next(Lsn(0), 15), Some(at(8)));
        assert_eq!(stops.next(Lsn(0), 30), None, "five flushes wait, and a bit");
        assert_eq!(stops.next(Lsn(8), 1), Some(at(12)));
        assert_eq!(stops.next(Lsn(9), 10), None, "seven wait");
        stops.clear();
        assert_eq!(stops.next(Lsn(0), 10), None);
    }
}
