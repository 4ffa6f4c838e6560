//! Decides when a table is flushed, and why; never by a timer.

use freshet_base::Lsn;

use crate::delta::DeltaStats;

/// Maximum number of large loads that wait for a flush. Their files cannot be merged before
/// metadata lists them, so they must not accumulate.
const LARGE_LOADS_MAX: u64 = 4;

/// Why a table is flushed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlushReason {
    /// Its delta is large enough for a file of good size.
    Bytes,
    /// Large loads have accumulated.
    LargeLoads,
    /// It prevents log files from being reused.
    LogRoom,
    /// Write memory is short, and no table uses more.
    Memory,
    /// The last flush failed.
    Retry,
    /// By request.
    Manual,
    /// A change of the table moves its rows, and reads them from files.
    Alter,
}

impl FlushReason {
    /// Whether the flush may end before all rows are in files: the next one goes on.
    pub const fn may_stop(self) -> bool {
        matches!(self, Self::Bytes | Self::Memory | Self::Retry)
    }

    /// The name as a metric's label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::LargeLoads => "large_loads",
            Self::LogRoom => "log_room",
            Self::Memory => "memory",
            Self::Retry => "retry",
            Self::Manual => "manual",
            Self::Alter => "alter",
        }
    }
}

/// The state of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableStats {
    pub delta: DeltaStats,
    /// Its `group_commit_data_bytes`.
    pub group_bytes: u64,
    /// Whether its last flush failed.
    pub failed: bool,
    /// Whether no other table has a larger delta.
    pub largest: bool,
}

/// The thresholds for a flush.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A delta of this size is flushed.
    pub flush_bytes: u64,
    /// A smaller delta that prevents reuse of the log goes to the side file instead.
    pub flush_bytes_min: u64,
    /// Log files up to this LSN are needed for new records.
    pub log_wanted: Option<Lsn>,
    /// Whether write memory is short.
    pub memory_short: bool,
}

/// The reason to flush the table now, if there is one.
pub fn why(stats: &TableStats, limits: &Limits) -> Option<FlushReason> {
    let oldest = stats.delta.oldest?;
    // Repeated until it succeeds, since the table refuses large loads until then.
    if stats.failed {
        return Some(FlushReason::Retry);
    }
    if stats.delta.bytes >= limits.flush_bytes.max(stats.group_bytes) {
        return Some(FlushReason::Bytes);
    }
    if stats.delta.large_loads >= LARGE_LOADS_MAX {
        return Some(FlushReason::LargeLoads);
    }
    let holds_back = limits.log_wanted.is_some_and(|wanted| oldest <= wanted);
    if holds_back && stats.delta.bytes >= limits.flush_bytes_min {
        return Some(FlushReason::LogRoom);
    }
    (limits.memory_short && stats.largest && stats.delta.bytes > 0).then_some(FlushReason::Memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        flush_bytes: 64 << 20,
        flush_bytes_min: 1 << 20,
        log_wanted: None,
        memory_short: false,
    };

    fn stats(bytes: u64) -> TableStats {
        let oldest = Some(Lsn(10));
        let delta = DeltaStats { rows: 1, bytes, entries: 1, large_loads: 0, oldest };
        TableStats { delta, ..TableStats::default() }
    }

    #[test]
    fn a_delta_is_flushed_at_the_larger_of_two_limits() {
        assert_eq!(why(&stats((64 << 20) - 1), &LIMITS), None);
        assert_eq!(why(&stats(64 << 20), &LIMITS), Some(FlushReason::Bytes));
        let patient = TableStats { group_bytes: 128 << 20, ..stats(64 << 20) };
        assert_eq!(why(&patient, &LIMITS), None);
    }

    #[test]
    fn large_loads_do_not_gather() {
        let mut few = stats(0);
        few.delta.large_loads = LARGE_LOADS_MAX - 1;
        assert_eq!(why(&few, &LIMITS), None);
        few.delta.large_loads += 1;
        assert_eq!(why(&few, &LIMITS), Some(FlushReason::LargeLoads));
    }

    #[test]
    fn only_what_holds_back_the_log_and_is_worth_a_file_makes_room() {
        let wanted = |lsn| Limits { log_wanted: Some(Lsn(lsn)), ..LIMITS };
        assert_eq!(why(&stats(1 << 20), &wanted(10)), Some(FlushReason::LogRoom));
        assert_eq!(why(&stats(1 << 20), &wanted(9)), None);
        assert_eq!(why(&stats((1 << 20) - 1), &wanted(10)), None);
    }

    #[test]
    fn the_largest_goes_first_when_memory_is_short_and_an_empty_delta_never() {
        let short = Limits { memory_short: true, ..LIMITS };
        let largest = TableStats { largest: true, ..stats(100) };
        assert_eq!(why(&largest, &short), Some(FlushReason::Memory));
        assert_eq!(why(&stats(100), &short), None);
    }

    #[test]
    fn what_failed_is_tried_again_while_there_is_something_to_flush() {
        let failed = |stats| TableStats { failed: true, ..stats };
        assert_eq!(why(&failed(stats(1)), &LIMITS), Some(FlushReason::Retry));
        assert_eq!(why(&failed(TableStats::default()), &LIMITS), None);
    }
}
