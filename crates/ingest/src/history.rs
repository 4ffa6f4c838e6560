//! Recently ended groups and flushes, for `information_schema.group_commits` and `flushes`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::metrics::Metrics;
use freshet_base::{Lsn, TableId, Version};
use freshet_storage::flush_policy::FlushReason;
use parking_lot::Mutex;

use crate::group::{EndedGroup, FlushTimes};

/// Maximum number of groups kept.
const GROUPS_MAX: usize = 1000;
/// Maximum number of flushes kept.
const FLUSHES_MAX: usize = 1000;
/// Bytes of the message of a flush that failed.
const MESSAGE_BYTES_MAX: usize = 512;

/// A flush that has ended.
#[derive(Clone, Debug)]
pub struct EndedFlush {
    pub table: TableId,
    pub reason: FlushReason,
    /// In microseconds since 1970-01-01 UTC.
    pub began_micros: i64,
    /// From its begin to its end.
    pub took: Duration,
    /// What it has put into files, or why it has not.
    pub result: Result<FlushedFiles, String>,
}

/// What a flush has put into files, and how long each stage took. The stages follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushedFiles {
    pub rows: u64,
    pub rowsets: u64,
    pub segments: u64,
    /// The length of the files.
    pub bytes: u64,
    /// The files hold the table up to there.
    pub to: Lsn,
    pub version: Version,
    /// Until what it flushes was durable, and it was known which of its keys replace others.
    pub wait: Duration,
    /// Sorting, encoding and syncing of the files.
    pub write: Duration,
    /// Marking rows of older files that have died; zero without unique keys.
    pub mark: Duration,
    /// From the append of its record to the readers.
    pub publish: Duration,
}

/// Recently ended groups and flushes, newest last.
pub struct History {
    metrics: Arc<Metrics>,
    groups: Mutex<VecDeque<EndedGroup>>,
    flushes: Mutex<VecDeque<EndedFlush>>,
}

impl History {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, groups: Mutex::default(), flushes: Mutex::default() }
    }

    /// All of them, oldest first.
    pub fn groups(&self) -> Vec<EndedGroup> {
        self.groups.lock().iter().cloned().collect()
    }

    /// Adds a group, which the record at `lsn` has ended.
    pub(crate) fn push(&self, mut group: EndedGroup, lsn: Lsn) {
        group.lsn = lsn;
        self.metrics.groups_ended.with_label_values(&[group.reason.name()]).inc();
        let mut groups = self.groups.lock();
        if groups.len() == GROUPS_MAX {
            groups.pop_front();
        }
        groups.push_back(group);
        assert!(groups.len() <= GROUPS_MAX, "the oldest makes room for the newest");
    }

    /// The last flushes, oldest first.
    pub fn flushes(&self) -> Vec<EndedFlush> {
        self.flushes.lock().iter().cloned().collect()
    }

    pub(crate) fn push_flush(&self, mut flush: EndedFlush) {
        if let Err(message) = &mut flush.result {
            message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        }
        let mut flushes = self.flushes.lock();
        if flushes.len() == FLUSHES_MAX {
            flushes.pop_front();
        }
        flushes.push_back(flush);
    }

    /// Marks the groups of a table with versions above the first and up to the second as flushed.
    pub(crate) fn flushed(
        &self,
        table: TableId,
        (from, to): (Version, Version),
        times: FlushTimes,
    ) {
        assert!(from <= to, "versions of a table rise");
        for group in self.groups.lock().iter_mut().filter(|group| group.table == table) {
            if from < group.version && group.version <= to {
                assert!(group.flushed.is_none(), "the rows of a group are flushed once");
                group.flushed = Some(times);
            }
        }
    }
}
