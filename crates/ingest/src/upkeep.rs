//! What the keeper does: background work without a client. It ends groups that are due, starts
//! flushes, compactions and checkpoints, creates log files ahead of need, recycles the log and
//! reserves ids.
//!
//! It decides in its own task and runs the work in others: a slow disk never delays the end of a
//! group.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use freshet_base::clock::{Deadline, until};
use freshet_base::task::{BackgroundShare, set_background_share};
use freshet_base::{ErrorCode, Result, TableId};
use freshet_storage::flush_policy::{self, FlushReason, Limits, TableStats};

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
/// Above this part of the memory for writes, the largest delta is flushed.
const PRESSURE_PERCENT: u64 = 60;
/// How long a flush is delayed after it failed, times the number of consecutive failures.
const FAILED_FLUSH_PAUSE: Duration = Duration::from_millis(500);

pub async fn run(engine: Arc<Engine>) {
    let keeper = engine.keeper();
    while !keeper.is_stopping() {
        engine.disk.keep_ballast();
        engine.keep_log();
        // Before that, nothing could say in the log what it did.
        if engine.has_begun() {
            end_due_groups(&engine);
            plan_flushes(&engine);
            engine.compactor.plan();
        }
        engine.sweeper.plan();
        let tick = engine.clock().now().saturating_add(TICK);
        let next = keeper.next_due().map_or(tick, |due| due.min(tick));
        let _ = until(&**engine.clock(), Deadline(next), keeper.woken()).await;
    }
    keeper.set_stopped();
}

/// Ends the groups whose interval has elapsed.
fn end_due_groups(engine: &Arc<Engine>) {
    let now = engine.clock().now();
    for table in engine.keeper().take_due(now) {
        let Some(state) = engine.table_state(table) else { continue };
        if let Err(error) = end_if_due(engine, &state, now) {
            // The log is full; the group ends as soon as there is space.
            tracing::warn!(%table, %error, "a group could not be ended");
            engine.keeper().end_again(table, now + TICK);
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
    let limits = flush_limits(engine);
    let mut waiting_bytes = 0;
    let largest = limits.memory_short.then(|| largest(engine)).flatten();
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
        engine.keeper().note_flush_backlog(engine.clock().now());
    }
    set_background_share(pace);
}

fn flush_limits(engine: &Engine) -> Limits {
    let (config, memory) = (engine.config(), engine.memory());
    let high = memory.limit_bytes() / 100 * PRESSURE_PERCENT;
    Limits {
        flush_bytes: config.flush_bytes.bytes(),
        flush_bytes_min: config.flush_bytes_min.bytes(),
        log_wanted: engine.keeper().log_wanted(),
        memory_short: memory.used_bytes() >= high || memory.waiting() > 0,
    }
}

/// The table with the largest delta. The memory of dropped tables is freed once that is durable.
fn largest(engine: &Engine) -> Option<TableId> {
    let bytes = |state: &Arc<TableState>| state.delta.stats().bytes;
    let can_flush = |state: &Arc<TableState>| bytes(state) > 0 && !state.is_dropped();
    let largest = engine.table_states().into_iter().filter(can_flush).max_by_key(bytes);
    largest.map(|state| state.id)
}

/// Flushes a table in the background, unless a flush of it is already running.
fn start_flush(engine: &Arc<Engine>, state: Arc<TableState>, why: FlushReason) {
    let (flushing, table) = (Arc::clone(engine), Arc::clone(&state));
    start(engine, state, async move { flushing.flush(&table, why).await });
}

fn start(
    engine: &Arc<Engine>,
    state: Arc<TableState>,
    work: impl Future<Output = Result<()>> + Send + 'static,
) {
    if !engine.keeper().begin_flush(state.id) {
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
                flushing.disk.give_up_for(&error);
                tracing::warn!(table = state.name(), %error, failures, "flush failed, tried again");
                let pause = FAILED_FLUSH_PAUSE * u32::try_from(failures.min(20)).unwrap_or(20);
                flushing.clock().sleep(pause).await;
            }
        }
        flushing.keeper().end_flush(state.id);
        flushing.keeper().wake();
    };
    engine.pool().spawn("flush", Box::pin(task));
}
