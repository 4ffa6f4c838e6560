//! The keeper: background work without a client. It ends groups that are due, starts flushes,
//! compactions and checkpoints, creates log files ahead of need, recycles the log and reserves ids.
//!
//! It decides in its own task and runs the work in others: a slow disk never delays the end of a
//! group.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use freshet_base::clock::{Deadline, until};
use freshet_base::task::{BackgroundShare, set_background_share};
use freshet_base::{ErrorCode, Result, TableId};
use freshet_storage::flush_policy::{self, FlushReason, TableStats};
use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::group;
use crate::record::GroupEndReason;
use crate::state::TableState;

/// How often flushes and the log are checked.
const TICK: Duration = Duration::from_millis(50);
/// If fewer bytes than this many flushes wait to be flushed, flushes and merges run at low
/// priority, so that a burst of loads is taken in at the speed of the log.
const LOW_PRIORITY_FLUSHES_MAX: u64 = 4;
/// From this many on, they run at full priority.
const FULL_PRIORITY_FLUSHES_MIN: u64 = 8;
/// How long a flush is delayed after it failed, times the number of consecutive failures.
const FAILED_FLUSH_PAUSE: Duration = Duration::from_millis(500);

/// State of the keeper, and requests to it.
#[derive(Default)]
pub struct Keeper {
    /// The deadlines of open groups, earliest first.
    due: Mutex<BinaryHeap<Reverse<(Duration, TableId)>>>,
    busy: Mutex<HashSet<TableId>>,
    /// When background work last had a higher priority than [`BackgroundShare::Tenth`].
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
        self.stopped.load(Ordering::Acquire) && self.busy.lock().is_empty()
    }

    /// Whether few bytes have waited to be flushed since `then`.
    pub(crate) fn was_flush_backlog_low_since(&self, then: Duration) -> bool {
        self.pressed.lock().is_none_or(|pressed| pressed < then)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    async fn woken(&self) {
        std::future::poll_fn(|context| {
            self.waker.register(context.waker());
            match self.woken.swap(false, Ordering::AcqRel) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }

    fn take_due(&self, now: Duration) -> Vec<TableId> {
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

    fn next_due(&self) -> Option<Duration> {
        self.due.lock().peek().map(|Reverse((due, _))| *due)
    }
}

pub async fn run(engine: Arc<Engine>) {
    let keeper = engine.keeper();
    while !keeper.is_stopping() {
        end_due_groups(&engine);
        plan_flushes(&engine);
        engine.keep_ballast();
        engine.keep_log();
        engine.plan_checkpoint();
        engine.plan_compaction();
        engine.plan_sweep();
        let tick = engine.clock().now().saturating_add(TICK);
        let next = keeper.next_due().map_or(tick, |due| due.min(tick));
        let _ = until(&**engine.clock(), Deadline(next), keeper.woken()).await;
    }
    keeper.stopped.store(true, Ordering::Release);
}

/// Ends the groups whose interval has elapsed.
fn end_due_groups(engine: &Arc<Engine>) {
    let now = engine.clock().now();
    for table in engine.keeper().take_due(now) {
        let Some(state) = engine.table_state(table) else { continue };
        if let Err(error) = end_if_due(engine, &state, now) {
            // The log is full; the group ends as soon as there is space.
            tracing::warn!(%table, %error, "a group could not be ended");
            engine.keeper().due.lock().push(Reverse((now + TICK, table)));
        }
    }
}

fn end_if_due(engine: &Engine, state: &TableState, now: Duration) -> Result<()> {
    let is_due = |open: &group::OpenGroup| group::why(open, now).is_some();
    engine.end_group(state, GroupEndReason::Interval, is_due)?;
    Ok(())
}

/// Starts a flush of every table that the policy selects and that is not being flushed yet, and
/// sets the priority of background work by the number of bytes to flush.
fn plan_flushes(engine: &Arc<Engine>) {
    let limits = engine.flush_limits();
    let mut waiting_bytes = 0;
    let largest = engine.largest_under_pressure().map(|state| state.id);
    for state in engine.table_states() {
        let delta = state.delta.stats();
        if delta.entries == 0 || state.is_dropped() {
            continue;
        }
        let stats = TableStats {
            delta,
            group_bytes: state.group_limits().bytes_max,
            failed: state.flush_failures.load(Ordering::Relaxed) > 0,
            largest: largest == Some(state.id),
        };
        if let Some(why) = flush_policy::why(&stats, &limits) {
            waiting_bytes += delta.bytes;
            start_flush(engine, state, why);
        }
    }
    let flushes = waiting_bytes / limits.flush_bytes.max(1);
    let pace = match flushes {
        _ if limits.memory_short || engine.wal().stats().room_waiters > 0 => BackgroundShare::Full,
        FULL_PRIORITY_FLUSHES_MIN.. => BackgroundShare::Full,
        LOW_PRIORITY_FLUSHES_MAX.. => BackgroundShare::TwoFifths,
        _ => BackgroundShare::Tenth,
    };
    if pace != BackgroundShare::Tenth {
        *engine.keeper().pressed.lock() = Some(engine.clock().now());
    }
    set_background_share(pace);
}

/// Flushes a table in the background, unless a flush of it is already running.
pub(crate) fn start_flush(engine: &Arc<Engine>, state: Arc<TableState>, why: FlushReason) {
    let (flushing, table) = (Arc::clone(engine), Arc::clone(&state));
    start(engine, state, async move { flushing.flush(&table, why).await });
}

fn start(
    engine: &Arc<Engine>,
    state: Arc<TableState>,
    work: impl Future<Output = Result<()>> + Send + 'static,
) {
    if !engine.keeper().busy.lock().insert(state.id) {
        return;
    }
    let flushing = Arc::clone(engine);
    let task = async move {
        match work.await {
            Ok(()) => state.flush_failures.store(0, Ordering::Relaxed),
            // The log is full, which is not a problem of this table.
            Err(error) if error.code() == ErrorCode::OutOfRoom => {
                flushing.clock().sleep(FAILED_FLUSH_PAUSE).await;
            }
            Err(error) => {
                let failures = state.flush_failures.fetch_add(1, Ordering::Relaxed) + 1;
                flushing.metrics().flushes_failed.inc();
                flushing.note_error(&error);
                tracing::warn!(table = state.name(), %error, failures, "flush failed, tried again");
                let pause = FAILED_FLUSH_PAUSE * u32::try_from(failures.min(20)).unwrap_or(20);
                flushing.clock().sleep(pause).await;
            }
        }
        flushing.keeper().busy.lock().remove(&state.id);
        flushing.keeper().wake();
    };
    engine.pool().spawn("flush", Box::pin(task));
}
