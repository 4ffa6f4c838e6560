//! Groups: which loads share a label, a transaction and a version. Bookkeeping only.
//!
//! A table's [`TableLog`] is what the log itself has made of the table so far. It changes only
//! under the log's append lock, which is why its own lock is never waited for there; readers
//! of statistics take it for an instant.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Incarnation, Lsn, PartitionId, SchemaVersion, TableId, TxnId, Version};
use freshet_schema::TableSchema;
use freshet_wal::Room;
use futures::channel::oneshot;

use crate::record::GroupEndReason;

/// The window in which loads share a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupLimits {
    /// Ceiling on its age.
    pub interval: Duration,
    /// Ceiling on its bytes.
    pub bytes_max: u64,
}

/// A group that loads may still join.
#[derive(Debug)]
pub struct OpenGroup {
    /// What all its loads report.
    pub txn: TxnId,
    /// When its first load joined, in the clock's monotonic time.
    pub opened: Duration,
    /// When it was opened, for people.
    pub opened_micros: i64,
    /// Read when it was opened: ALTER takes effect with the next one.
    pub limits: GroupLimits,
    /// Loads in it.
    pub loads: u64,
    /// Rows in it.
    pub rows: u64,
    /// Encoded bytes in it.
    pub bytes: u64,
    /// Log room of the record that ends it: however full the log is, a group can end, and so
    /// can the flush that waits for it. Taken out by whoever is about to end it.
    pub end_room: Option<Room>,
}

impl OpenGroup {
    fn new(txn: TxnId, limits: GroupLimits, time: JoinTime) -> Self {
        let JoinTime { now: opened, wall_micros: opened_micros } = time;
        Self { txn, opened, opened_micros, limits, loads: 0, rows: 0, bytes: 0, end_room: None }
    }

    /// When it must end.
    pub fn due(&self) -> Duration {
        self.opened.saturating_add(self.limits.interval)
    }
}

/// A group that ended.
#[derive(Clone, Debug)]
pub struct EndedGroup {
    /// The table it was of.
    pub table: TableId,
    /// What all its loads reported.
    pub txn: TxnId,
    /// The version it gave its table.
    pub version: Version,
    /// Loads in it.
    pub loads: u64,
    /// Rows in it.
    pub rows: u64,
    /// Encoded bytes in it.
    pub bytes: u64,
    /// When it was opened, microseconds since 1970-01-01 UTC.
    pub opened_micros: i64,
    /// When it ended, in the same.
    pub ended_micros: i64,
    /// Why it ended.
    pub reason: GroupEndReason,
    /// How its rows came into files; `None` until they have, and for ever where a TRUNCATE or a
    /// DROP was faster.
    pub filed: Option<Filed>,
}

/// How the rows of a group came into files: the stages that no client waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filed {
    /// When the flush that took them began, microseconds since 1970-01-01 UTC.
    pub began_micros: i64,
    /// How long it waited for the log, sorted and wrote files.
    pub flush: Duration,
    /// How long it committed them to metadata and showed them to readers.
    pub publish: Duration,
}

/// Why a group should end now, if it should: pure, so that tests need no clock.
pub fn why(group: &OpenGroup, now: Duration) -> Option<GroupEndReason> {
    if group.bytes >= group.limits.bytes_max {
        Some(GroupEndReason::Bytes)
    } else if now >= group.due() {
        Some(GroupEndReason::Interval)
    } else {
        None
    }
}

/// What the log has made of one table so far.
#[derive(Debug)]
pub struct TableLog {
    /// The table.
    pub table: TableId,
    /// Its one partition.
    pub partition: PartitionId,
    /// Raised by TRUNCATE.
    pub incarnation: Incarnation,
    /// The schema version that is current at the log's end.
    pub schema_version: SchemaVersion,
    /// Groups and large loads ended so far.
    pub version: Version,
    /// The DROP, if there is one: nothing is appended any more.
    pub dropped: Option<Dropped>,
    /// The group that loads join now.
    pub open: Option<OpenGroup>,
    /// The LSN of the last record that names the table.
    pub last_lsn: Lsn,
    /// An ALTER that metadata does not reflect yet, with the LSN of its barrier.
    pub altered: Option<(Arc<TableSchema>, Lsn)>,
    /// Truncations that metadata does not reflect yet, oldest first.
    pub cuts: Vec<PendingCut>,
    /// Those who wait for the end of a group, with the LSN of that end.
    waiting: Vec<(TxnId, oneshot::Sender<Lsn>)>,
}

/// A DROP whose record is in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// Where the record stands.
    pub lsn: Lsn,
    /// Whether it is of the database: metadata then follows for all its tables at once.
    pub with_database: bool,
}

/// A TRUNCATE whose barrier is in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingCut {
    /// Where the barrier stands.
    pub lsn: Lsn,
    /// The table's version there.
    pub version: Version,
    /// The incarnation of its partition from there on.
    pub incarnation: Incarnation,
}

/// What [`TableLog::join`] decided about a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joined {
    /// The transaction it is reported under.
    pub txn: TxnId,
    /// The version, when the load ends its group.
    pub ends_with: Option<Version>,
    /// Whether it opened the group.
    pub opened: bool,
}

/// The size of a load that joins a group.
#[derive(Clone, Copy, Debug)]
pub struct JoinSize {
    /// Its rows.
    pub rows: u64,
    /// Its encoded bytes.
    pub bytes: u64,
}

/// Where time stands when a load joins.
#[derive(Clone, Copy, Debug)]
pub struct JoinTime {
    /// Monotonic.
    pub now: Duration,
    /// For people, microseconds since 1970-01-01 UTC.
    pub wall_micros: i64,
}

impl TableLog {
    /// The state of a table whose files hold everything so far.
    pub fn new(
        table: TableId,
        partition: PartitionId,
        incarnation: Incarnation,
        schema_version: SchemaVersion,
        version: Version,
        last_lsn: Lsn,
    ) -> Self {
        Self {
            table,
            partition,
            incarnation,
            schema_version,
            version,
            dropped: None,
            open: None,
            last_lsn,
            altered: None,
            cuts: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// The last barrier of the table that metadata does not reflect yet; zero when there is none.
    pub fn last_barrier(&self) -> Lsn {
        let cut = self.cuts.last().map(|cut| cut.lsn);
        let altered = self.altered.as_ref().map(|(_, lsn)| *lsn);
        let dropped = self.dropped.filter(|dropped| !dropped.with_database);
        cut.max(altered).max(dropped.map(|dropped| dropped.lsn)).unwrap_or_default()
    }

    /// A load that is a group of its own: it takes the next version at once.
    pub fn alone(&mut self, txn: TxnId) -> Joined {
        self.version = self.version.next();
        Joined { txn, ends_with: Some(self.version), opened: false }
    }

    /// A load joins the open group or opens one under `txn`; a full group ends with it. The
    /// time is asked for only then: a load that just joins needs none.
    pub fn join(
        &mut self,
        txn: TxnId,
        size: JoinSize,
        limits: GroupLimits,
        time: impl Fn() -> JoinTime,
    ) -> (Joined, Option<EndedGroup>) {
        let opened = self.open.is_none();
        let group = self.open.get_or_insert_with(|| OpenGroup::new(txn, limits, time()));
        group.loads += 1;
        group.rows += size.rows;
        group.bytes += size.bytes;
        let txn = group.txn;
        let full = group.bytes >= group.limits.bytes_max;
        let ended =
            full.then(|| self.end_open(GroupEndReason::Bytes, time().wall_micros)).flatten();
        let ends_with = ended.as_ref().map(|group| group.version);
        (Joined { txn, ends_with, opened }, ended)
    }

    /// Ends the open group, if there is one, with the table's next version.
    pub fn end_open(&mut self, reason: GroupEndReason, wall_micros: i64) -> Option<EndedGroup> {
        let group = self.open.take()?;
        self.version = self.version.next();
        Some(EndedGroup {
            table: self.table,
            txn: group.txn,
            version: self.version,
            loads: group.loads,
            rows: group.rows,
            bytes: group.bytes,
            opened_micros: group.opened_micros,
            ended_micros: wall_micros,
            reason,
            filed: None,
        })
    }

    /// Resolves with the LSN of the end of the group of `txn`; at once with the last LSN when
    /// that group is not open any more.
    pub fn wait_end(&mut self, txn: TxnId) -> oneshot::Receiver<Lsn> {
        let (sender, receiver) = oneshot::channel();
        if self.open.as_ref().is_some_and(|group| group.txn == txn) {
            self.waiting.push((txn, sender));
        } else {
            // The receiver is in our hands, so it is there to receive.
            let _ = sender.send(self.last_lsn);
        }
        receiver
    }

    /// Tells those who wait for the end of the group of `txn` that it stands at `lsn`.
    pub fn tell_end(&mut self, txn: TxnId, lsn: Lsn) {
        for (waits_for, sender) in std::mem::take(&mut self.waiting) {
            if waits_for == txn {
                // A client that went away no longer waits.
                let _ = sender.send(lsn);
            } else {
                self.waiting.push((waits_for, sender));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time() -> JoinTime {
        JoinTime { now: Duration::from_secs(1), wall_micros: 1 }
    }

    fn log() -> TableLog {
        TableLog::new(
            TableId(1),
            PartitionId(2),
            Incarnation(0),
            SchemaVersion(1),
            Version(1),
            Lsn(0),
        )
    }

    fn limits(bytes_max: u64) -> GroupLimits {
        GroupLimits { interval: Duration::from_secs(10), bytes_max }
    }

    #[test]
    fn loads_of_a_window_share_a_transaction_and_end_with_one_version() {
        let mut log = log();
        let size = JoinSize { rows: 1, bytes: 10 };
        let (first, _) = log.join(TxnId(7), size, limits(100), time);
        let (second, _) = log.join(TxnId(8), size, limits(100), time);
        assert_eq!((first.txn, second.txn), (TxnId(7), TxnId(7)));
        assert!(first.opened && !second.opened);
        assert_eq!(log.version, Version(1), "an open group has no version yet");
        let ended = log.end_open(GroupEndReason::Interval, 2).unwrap();
        assert_eq!((ended.loads, ended.rows, ended.version), (2, 2, Version(2)));
        assert!(log.end_open(GroupEndReason::Interval, 2).is_none());
    }

    #[test]
    fn a_full_group_ends_with_the_load_that_filled_it() {
        let mut log = log();
        let size = JoinSize { rows: 1, bytes: 60 };
        assert!(log.join(TxnId(7), size, limits(100), time).1.is_none());
        let (joined, ended) = log.join(TxnId(8), size, limits(100), time);
        assert_eq!(joined.ends_with, Some(Version(2)));
        assert_eq!(ended.unwrap().reason, GroupEndReason::Bytes);
        assert!(log.open.is_none());
    }

    #[test]
    fn a_load_alone_leaves_the_open_group_open() {
        let mut log = log();
        log.join(TxnId(7), JoinSize { rows: 1, bytes: 1 }, limits(100), time);
        let joined = log.alone(TxnId(9));
        assert_eq!((joined.txn, joined.ends_with), (TxnId(9), Some(Version(2))));
        assert_eq!(log.open.as_ref().unwrap().txn, TxnId(7));
    }

    #[test]
    fn a_group_is_due_by_age_or_bytes() {
        let mut log = log();
        log.join(TxnId(7), JoinSize { rows: 1, bytes: 1 }, limits(100), time);
        let group = log.open.as_mut().unwrap();
        assert_eq!(why(group, Duration::from_secs(10)), None);
        assert_eq!(why(group, Duration::from_secs(11)), Some(GroupEndReason::Interval));
        group.bytes = 100;
        assert_eq!(why(group, Duration::from_secs(2)), Some(GroupEndReason::Bytes));
    }

    #[test]
    fn who_waits_for_an_end_is_told_its_lsn() {
        let mut log = log();
        log.join(TxnId(7), JoinSize { rows: 1, bytes: 1 }, limits(100), time);
        let mut waits = log.wait_end(TxnId(7));
        assert_eq!(waits.try_recv(), Ok(None));
        log.end_open(GroupEndReason::Interval, 2);
        log.tell_end(TxnId(7), Lsn(9));
        assert_eq!(waits.try_recv(), Ok(Some(Lsn(9))));
        log.last_lsn = Lsn(9);
        assert_eq!(log.wait_end(TxnId(7)).try_recv(), Ok(Some(Lsn(9))));
    }
}
