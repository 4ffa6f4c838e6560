//! What the keeper is asked to do, and what it has under way. [`crate::upkeep`] is what it does.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::{Lsn, TableId};
use futures::task::AtomicWaker;
use parking_lot::Mutex;

/// State of the keeper, and requests to it.
#[derive(Default)]
pub struct Keeper {
    /// The deadlines of open groups, earliest first.
    due: Mutex<BinaryHeap<Reverse<(Duration, TableId)>>>,
    /// Tables that it is flushing.
    flushing: Mutex<HashSet<TableId>>,
    /// The LSN up to which the log is to be freed; zero if it is not.
    log_wanted: AtomicU64,
    /// When background work last had a high priority.
    pressed: Mutex<Option<Duration>>,
    waker: AtomicWaker,
    woken: AtomicBool,
    stopping: AtomicBool,
    stopped: AtomicBool,
}

impl Keeper {
    /// Notes that a group of `table` was opened that must end at `due`.
    pub fn group_opened(&self, table: TableId, due: Duration) {
        let mut heap = self.due.lock();
        let earliest = heap.peek().is_none_or(|Reverse((first, _))| due < *first);
        heap.push(Reverse((due, table)));
        drop(heap);
        if earliest {
            self.wake();
        }
    }

    /// Notes that a group that could not be ended is due again at `due`.
    pub(crate) fn end_again(&self, table: TableId, due: Duration) {
        self.due.lock().push(Reverse((due, table)));
    }

    /// Asks for flushes that free the log up to an LSN, or for none any more.
    pub(crate) fn want_log(&self, up_to: Option<Lsn>) {
        self.log_wanted.store(up_to.map_or(0, Lsn::get), Ordering::Release);
    }

    /// The LSN up to which the log is to be freed, if it is.
    pub(crate) fn log_wanted(&self) -> Option<Lsn> {
        let lsn = self.log_wanted.load(Ordering::Acquire);
        (lsn > 0).then_some(Lsn(lsn))
    }

    /// Begins a flush of a table; `false` if one is running.
    pub(crate) fn begin_flush(&self, table: TableId) -> bool {
        self.flushing.lock().insert(table)
    }

    pub(crate) fn end_flush(&self, table: TableId) {
        let was_running = self.flushing.lock().remove(&table);
        assert!(was_running, "a flush that ends has begun");
    }

    /// Wakes the keeper, since something has changed.
    pub fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Tells the keeper to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether it has ended and none of its flushes is running any more.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire) && self.flushing.lock().is_empty()
    }

    /// Notes that it has ended.
    pub(crate) fn set_stopped(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Notes that many bytes wait to be flushed.
    pub(crate) fn note_flush_backlog(&self, now: Duration) {
        *self.pressed.lock() = Some(now);
    }

    /// Whether few bytes have waited to be flushed since `then`.
    pub(crate) fn was_flush_backlog_low_since(&self, then: Duration) -> bool {
        self.pressed.lock().is_none_or(|pressed| pressed < then)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) async fn woken(&self) {
        std::future::poll_fn(|context| {
            self.waker.register(context.waker());
            match self.woken.swap(false, Ordering::AcqRel) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }

    /// The tables with groups that are due.
    pub(crate) fn take_due(&self, now: Duration) -> Vec<TableId> {
        let mut heap = self.due.lock();
        let mut tables = Vec::new();
        while let Some(Reverse((due, table))) = heap.peek().copied() {
            if due > now {
                break;
            }
            heap.pop();
            tables.push(table);
        }
        tables
    }

    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.due.lock().peek().map(|Reverse((due, _))| *due)
    }
}
