//! Group commit: loads of a group share a label, a transaction and a version.
//!
//! A [`GroupCommit`] determines what the log says about the next record of a table, and applies it
//! to the [`TableLog`]. It is only modified under the append lock, so its own lock is never
//! contended there; readers of statistics hold it only briefly.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Lsn, Result, TableId, TxnId, Version};
use freshet_storage::delta::Chunk;
use freshet_storage::fold::{Barrier, Event, TableLog};
use freshet_wal::Room;
use futures::channel::oneshot;

use crate::record::GroupEndReason;
use crate::stops::Stops;

/// Limits of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLimits {
    /// Maximum age.
    pub interval: Duration,
    /// Maximum encoded bytes.
    pub bytes_max: u64,
}

/// A group that loads may still join.
#[derive(Debug)]
pub struct OpenGroup {
    /// The transaction that all its loads report.
    pub txn: TxnId,
    /// When it was opened, in monotonic time.
    pub opened: Duration,
    /// When it was opened, in microseconds since 1970-01-01 UTC.
    pub opened_micros: i64,
    /// Read when it was opened: changes by ALTER apply to the next group.
    pub limits: GroupLimits,
    /// Number of loads.
    pub loads: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of encoded bytes.
    pub bytes: u64,
    /// Space in the log for the record that ends it: however full the log is, a group can end, and
    /// so can the flush that waits for it. Taken by whoever is about to end the group.
    pub end_room: Option<Room>,
}

impl OpenGroup {
    fn new(txn: TxnId, limits: GroupLimits, end_room: Option<Room>, time: JoinTime) -> Self {
        let JoinTime { now: opened, wall_micros: opened_micros } = time;
        Self { txn, opened, opened_micros, limits, loads: 0, rows: 0, bytes: 0, end_room }
    }

    /// When it must end, in monotonic time.
    pub fn due(&self) -> Duration {
        self.opened.saturating_add(self.limits.interval)
    }
}

/// A group that has ended.
#[derive(Clone, Debug)]
pub struct EndedGroup {
    pub table: TableId,
    /// The transaction that all its loads reported.
    pub txn: TxnId,
    /// The table version that it created.
    pub version: Version,
    /// Of the record that ended it, which may not be durable yet; known once it is appended.
    pub lsn: Lsn,
    /// Number of loads.
    pub loads: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of encoded bytes.
    pub bytes: u64,
    /// When it was opened, in microseconds since 1970-01-01 UTC.
    pub opened_micros: i64,
    /// When it ended, in microseconds since 1970-01-01 UTC.
    pub ended_micros: i64,
    pub reason: GroupEndReason,
    /// How its rows were written to files; `None` until they have been, and forever if the table
    /// was truncated or dropped before.
    pub flushed: Option<FlushTimes>,
}

/// Times of the flush of a group, which no client waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushTimes {
    /// When its flush began, in microseconds since 1970-01-01 UTC.
    pub began_micros: i64,
    /// Duration of waiting for the log, sorting and writing files.
    pub flush: Duration,
    /// Duration of the metadata commit and of publishing to readers.
    pub publish: Duration,
}

/// The reason to end a group now, if any. A pure function, so that tests need no clock.
pub fn why(group: &OpenGroup, now: Duration) -> Option<GroupEndReason> {
    if group.bytes >= group.limits.bytes_max {
        Some(GroupEndReason::Bytes)
    } else if now >= group.due() {
        Some(GroupEndReason::Interval)
    } else {
        None
    }
}

/// The state of a table for appending its records.
pub struct GroupCommit {
    log: TableLog,
    /// Whether later rows of a key replace earlier ones.
    is_keyed: bool,
    /// The group that loads join now.
    open: Option<OpenGroup>,
    /// Where a flush that has fallen behind may end.
    stops: Stops,
    /// Waiters for the end of a group; they receive the LSN of that end.
    waiting: Vec<(TxnId, oneshot::Sender<Lsn>)>,
    /// Whether the table is in the recycle bin: nobody loads into it.
    in_bin: bool,
}

/// The result of [`GroupCommit::join`].
#[derive(Clone, Debug)]
pub struct Joined {
    /// The transaction id reported to the client.
    pub txn: TxnId,
    /// The version, if the load ends its group.
    pub ends_with: Option<Version>,
    /// When the group must end, if the load opened it.
    pub due: Option<Duration>,
    /// The group, if the load filled it, or ended it before its own.
    pub ended: Option<EndedGroup>,
}

impl Joined {
    /// The group that the load ended although it is not of it.
    pub fn ended_other(&self) -> Option<TxnId> {
        self.ended.as_ref().map(|group| group.txn).filter(|txn| *txn != self.txn)
    }
}

/// The size of a load that joins a group.
#[derive(Clone, Copy, Debug)]
pub struct JoinSize {
    pub rows: u64,
    /// Encoded bytes.
    pub bytes: u64,
}

/// The time at which a load joins.
#[derive(Clone, Copy, Debug)]
pub struct JoinTime {
    /// Monotonic time.
    pub now: Duration,
    /// Microseconds since 1970-01-01 UTC.
    pub wall_micros: i64,
}

impl GroupCommit {
    /// Starts without an open group.
    /// `flush_bytes` of rows are worth a flush.
    pub fn new(log: TableLog, is_keyed: bool, flush_bytes: u64) -> Self {
        assert_eq!(log.open(), None, "a table has no group before its first record");
        let (stops, waiting) = (Stops::new(flush_bytes), Vec::new());
        Self { log, is_keyed, open: None, stops, waiting, in_bin: false }
    }

    /// Whether it takes no rows, since it is dropped, for good or into the recycle bin.
    pub fn is_gone(&self) -> bool {
        self.in_bin || self.log.is_dropped()
    }

    /// Puts the table into the recycle bin, or takes it out.
    pub fn set_in_bin(&mut self, in_bin: bool) {
        self.in_bin = in_bin;
    }

    /// The state of the table according to the log.
    pub fn log(&self) -> &TableLog {
        &self.log
    }

    /// The group that loads join now.
    pub fn open(&self) -> Option<&OpenGroup> {
        self.open.as_ref()
    }

    /// Applies what the record at `at` says about the table, and notifies waiters of a group that
    /// it ended. Returns the chunk of the delta that became full, if any.
    pub fn enter(&mut self, at: Lsn, event: Event<'_>) -> Option<Arc<Chunk>> {
        let before = self.log.open();
        // What follows them has other columns, partitions or versions.
        match &event {
            Event::Barrier { .. } | Event::Term { .. } => self.stops.clear(),
            Event::Load(load) => self.stops.count(load),
            _ => {}
        }
        let full = self.log.enter(at, event);
        let open = self.log.open();
        // Marks and keys follow a flush that takes all (keys.md K25).
        if open.is_none() && !self.is_keyed {
            self.stops.may_be_here(&self.log);
        }
        let is_joined = self.open.as_ref().is_none_or(|group| open == Some(group.txn));
        assert!(is_joined, "the group that loads join is the one that the log has open");
        if open != before {
            for (txn, sender) in self.waiting.extract_if(.., |(txn, _)| open != Some(*txn)) {
                // The receiver is gone if the client disconnected.
                let _ = (txn, sender.send(at));
            }
        }
        full
    }

    /// Where a flush of what is above `flushed` ends, if it is to end before the log does;
    /// `flush_bytes` of rows are worth one.
    pub fn next_stop(&mut self, flushed: Lsn, flush_bytes: u64) -> Option<(Lsn, Version)> {
        self.stops.next(flushed, flush_bytes)
    }

    /// Ends the open group, and applies a barrier after it.
    pub fn enter_barrier(
        &mut self,
        at: Lsn,
        barrier: Barrier,
        wall_micros: i64,
    ) -> Option<EndedGroup> {
        let open = self.open.as_ref().map(|group| group.txn);
        assert_eq!(self.log.open(), open, "a barrier ends the group that the log has open");
        let group = self.end_open(GroupEndReason::Barrier, wall_micros);
        let ended = group.as_ref().map(|group| group.txn);
        let version = group.as_ref().map_or(self.log.version(), |group| group.version);
        self.enter(at, Event::Barrier { barrier, ended, version });
        group
    }

    /// Takes the log space out of the open group if `wanted` accepts the group.
    pub fn take_end_room(&mut self, wanted: impl Fn(&OpenGroup) -> bool) -> Option<Option<Room>> {
        self.open.as_mut().filter(|group| wanted(group)).map(|group| group.end_room.take())
    }

    /// A group for a single load, which gets the next version immediately. In a keyed table it ends
    /// the open group before, so that what has ended is the beginning of the table's log: otherwise
    /// readers of ended groups could see that an older version is dead, and not the one that has
    /// replaced it (keys.md K21).
    pub fn alone(&mut self, txn: TxnId, wall_micros: impl FnOnce() -> i64) -> Joined {
        let ended = match self.is_keyed && self.open.is_some() {
            true => self.end_open(GroupEndReason::Load, wall_micros()),
            false => None,
        };
        let before = ended.as_ref().map_or(self.log.version(), |group| group.version);
        Joined { txn, ends_with: Some(before.next()), due: None, ended }
    }

    /// Adds a load to the open group, or to a new one with transaction `txn`; if that fills the
    /// group, it ends with this load. `end_room` and `time` are called only if a group is opened or
    /// ends.
    ///
    /// # Errors
    /// Those of `end_room`; no group is opened then.
    pub fn join(
        &mut self,
        txn: TxnId,
        size: JoinSize,
        limits: GroupLimits,
        end_room: impl FnOnce() -> Result<Option<Room>>,
        time: impl Fn() -> JoinTime,
    ) -> Result<Joined> {
        let open = self.open.as_ref().map(|group| group.txn);
        assert_eq!(self.log.open(), open, "a load joins the group that the log has open");
        if open.is_none() {
            self.open = Some(OpenGroup::new(txn, limits, end_room()?, time()));
        }
        let group = self.open.as_mut().expect("it was open, or was just opened");
        group.loads += 1;
        group.rows += size.rows;
        group.bytes += size.bytes;
        let (txn, due) = (group.txn, group.due());
        let full = group.bytes >= group.limits.bytes_max;
        let ended =
            full.then(|| self.end_open(GroupEndReason::Bytes, time().wall_micros)).flatten();
        let ends_with = ended.as_ref().map(|group| group.version);
        let is_opened = open.is_none() && ended.is_none();
        Ok(Joined { txn, ends_with, due: is_opened.then_some(due), ended })
    }

    /// Ends the open group, if any, with the table's next version. The caller then applies the
    /// record that says so.
    pub fn end_open(&mut self, reason: GroupEndReason, wall_micros: i64) -> Option<EndedGroup> {
        let group = self.open.take()?;
        // A load that fills a group at once ends it before the log has it.
        let is_same = self.log.open().is_none_or(|open| open == group.txn);
        assert!(is_same, "the group that ends is the one that the log has open");
        Some(EndedGroup {
            table: self.log.table(),
            txn: group.txn,
            version: self.log.version().next(),
            lsn: Lsn::ZERO,
            loads: group.loads,
            rows: group.rows,
            bytes: group.bytes,
            opened_micros: group.opened_micros,
            ended_micros: wall_micros,
            reason,
            flushed: None,
        })
    }

    /// Resolves with the LSN of the end of the group `txn`; immediately with the last LSN if that
    /// group is no longer open.
    pub fn wait_end(&mut self, txn: TxnId) -> oneshot::Receiver<Lsn> {
        let (sender, receiver) = oneshot::channel();
        if self.log.open() == Some(txn) {
            self.waiting.push((txn, sender));
        } else {
            // The receiver still exists here, so sending succeeds.
            let _ = sender.send(self.log.applied());
        }
        receiver
    }
}

#[cfg(test)]
mod tests {
    use freshet_base::{Incarnation, PartitionId, SchemaVersion};
    use freshet_storage::delta::Delta;
    use freshet_storage::fold::{self, Base, Body};

    use super::*;

    fn time() -> JoinTime {
        JoinTime { now: Duration::from_secs(1), wall_micros: 1 }
    }

    /// A table's state and the LSN of its last record.
    struct Table(GroupCommit, Lsn);

    fn table() -> Table {
        let base = Base {
            partition: PartitionId(2),
            incarnation: Incarnation(0),
            schema_version: SchemaVersion(1),
            version: Version(1),
            flushed: Lsn(0),
            counted: Lsn(0),
        };
        let delta = Arc::new(Delta::new(TableId(1), &[]));
        Table(GroupCommit::new(TableLog::new(delta, base), false, 1 << 20), Lsn(0))
    }

    impl Table {
        fn append(&mut self, joined: &Joined) {
            let Joined { txn, ends_with, .. } = *joined;
            let body = Body::Rowsets(Vec::new());
            let (incarnation, ended) = (Incarnation(0), joined.ended_other());
            let load = fold::Load { incarnation, txn, ends_with, ended, body };
            self.enter(Event::Load(load));
        }

        fn enter(&mut self, event: Event<'_>) {
            self.1 = self.1.next();
            self.0.enter(self.1, event);
        }

        /// A load of one row that joins a group of at most `bytes_max`.
        fn join(&mut self, txn: u64, bytes: u64, bytes_max: u64) -> Joined {
            let size = JoinSize { rows: 1, bytes };
            let limits = GroupLimits { interval: Duration::from_secs(10), bytes_max };
            let joined = self.0.join(TxnId(txn), size, limits, || Ok(None), time).unwrap();
            self.append(&joined);
            joined
        }

        fn end(&mut self) -> Option<EndedGroup> {
            let ended = self.0.end_open(GroupEndReason::Interval, 2)?;
            self.enter(Event::GroupEnd { txn: ended.txn, version: ended.version });
            Some(ended)
        }
    }

    #[test]
    fn loads_of_a_window_share_a_transaction_and_end_with_one_version() {
        let mut table = table();
        let (first, second) = (table.join(7, 10, 100), table.join(8, 10, 100));
        assert_eq!((first.txn, second.txn), (TxnId(7), TxnId(7)));
        assert!(first.due.is_some() && second.due.is_none());
        assert_eq!(table.0.log().version(), Version(1), "an open group has no version yet");
        let ended = table.end().unwrap();
        assert_eq!((ended.loads, ended.rows, ended.version), (2, 2, Version(2)));
        assert_eq!(table.0.log().version(), Version(2));
        assert!(table.end().is_none());
    }

    #[test]
    fn a_full_group_ends_with_the_load_that_filled_it() {
        let mut table = table();
        assert!(table.join(7, 60, 100).ended.is_none());
        let joined = table.join(8, 60, 100);
        assert_eq!((joined.txn, joined.ends_with), (TxnId(7), Some(Version(2))));
        assert_eq!(joined.ended.unwrap().reason, GroupEndReason::Bytes);
        assert!(table.0.open().is_none());
        let alone = table.join(9, 100, 100);
        assert_eq!((alone.ends_with, alone.due), (Some(Version(3)), None), "opened and filled");
        assert_eq!(table.0.log().version(), Version(3));
    }

    #[test]
    fn a_load_alone_leaves_the_open_group_open() {
        let mut table = table();
        table.join(7, 1, 100);
        let joined = table.0.alone(TxnId(9), || 3);
        assert_eq!((joined.txn, joined.ends_with), (TxnId(9), Some(Version(2))));
        table.append(&joined);
        assert_eq!(table.0.open().unwrap().txn, TxnId(7));
    }

    #[test]
    fn a_load_alone_ends_the_open_group_of_a_keyed_table() {
        let mut table = table();
        table.0.is_keyed = true;
        table.join(7, 1, 100);
        let mut waits = table.0.wait_end(TxnId(7));
        let joined = table.0.alone(TxnId(9), || 3);
        assert_eq!((joined.txn, joined.ends_with), (TxnId(9), Some(Version(3))));
        assert_eq!(joined.ended_other(), Some(TxnId(7)));
        table.append(&joined);
        assert_eq!((table.0.log().version(), table.0.log().open()), (Version(3), None));
        assert_eq!(waits.try_recv(), Ok(Some(Lsn(2))));
        let ended = joined.ended.unwrap();
        assert_eq!((ended.version, ended.reason), (Version(2), GroupEndReason::Load));
    }

    #[test]
    fn a_group_is_due_by_age_or_bytes() {
        let mut table = table();
        table.join(7, 99, 100);
        let due = |table: &Table, second| why(table.0.open().unwrap(), Duration::from_secs(second));
        assert_eq!(due(&table, 10), None);
        assert_eq!(due(&table, 11), Some(GroupEndReason::Interval));
        table.0.open.as_mut().unwrap().bytes = 100;
        assert_eq!(due(&table, 2), Some(GroupEndReason::Bytes));
    }

    #[test]
    fn who_waits_for_an_end_is_told_its_lsn() {
        let mut table = table();
        table.join(7, 1, 100);
        let mut waits = table.0.wait_end(TxnId(7));
        table.join(8, 1, 100);
        assert_eq!(waits.try_recv(), Ok(None));
        table.end();
        assert_eq!(waits.try_recv(), Ok(Some(Lsn(3))));
        assert_eq!(table.0.wait_end(TxnId(7)).try_recv(), Ok(Some(Lsn(3))));
    }
}
