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
use freshet_base::task::{BackgroundShare, Lane, set_background_share, with_background_share};
use freshet_base::{ErrorCode, TableId};
use freshet_storage::flush_policy::{self, FlushReason, Limits, TableStats};
use freshet_storage::resolver::Resolver;

use crate::admit::Admission;
use crate::append::Appender;
use crate::bin::Emptier;
use crate::compact::Compactor;
use crate::flush::Flusher;
use crate::follow::Follower;
use crate::forget::Forgetter;
use crate::group;
use crate::prepared::PreparedLoads;
use crate::record::GroupEndReason;
use crate::recycle::Recycler;
use crate::state::TableState;
use crate::store::Store;
use crate::sweep::Sweeper;
use crate::term::Term;

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
/// How often a stop checks whether background work has ended.
const IDLE_LOOK: Duration = Duration::from_millis(5);

/// Decides when background work runs.
pub(crate) struct Upkeep {
    pub store: Arc<Store>,
    pub admission: Arc<Admission>,
    pub sweeper: Arc<Sweeper>,
    pub compactor: Arc<Compactor>,
    pub term: Arc<Term>,
    pub appender: Arc<Appender>,
    pub flusher: Arc<Flusher>,
    pub recycler: Arc<Recycler>,
    pub prepared: Arc<PreparedLoads>,
    pub follower: Follower,
    pub emptier: Emptier,
    pub forgetter: Arc<Forgetter>,
}

impl Upkeep {
    /// Runs the keeper until it is stopped.
    pub async fn run(self: Arc<Self>) {
        while !self.store.keeper.is_stopping() {
            self.store.disk.keep_ballast();
            self.recycler.keep_log();
            // There may be tens of thousands: they are listed once a round.
            let tables = self.store.tables.states();
            // Before that, nothing could say in the log what it did.
            if self.term.has_begun() {
                self.end_due_groups();
                self.plan_flushes(&tables);
                self.compactor.plan(&tables);
                self.forgetter.plan();
                self.prepared.abort_expired();
                self.follower.plan();
                self.emptier.plan();
            }
            self.resolve(&tables);
            drop(tables);
            self.sweeper.plan();
            let tick = self.store.clock().now().saturating_add(TICK);
            let next = self.store.keeper.next_due().map_or(tick, |due| due.min(tick));
            let _ = until(self.store.clock(), Deadline(next), self.store.keeper.woken()).await;
        }
        self.store.keeper.set_stopped();
    }

    /// Stops the keeper, and waits until background work has ended.
    pub async fn stop(&self) {
        self.store.keeper.stop();
        while !self.store.keeper.is_stopped() || self.is_busy() {
            self.store.clock().sleep(IDLE_LOOK).await;
        }
    }

    /// Whether background work is in progress.
    fn is_busy(&self) -> bool {
        let appends = self.term.is_busy();
        let resolves = self.store.tables.states().iter().any(|state| state.resolving.is_running());
        let kept =
            self.recycler.jobs.is_busy() || self.compactor.is_busy() || self.sweeper.is_busy();
        let kept = kept || self.prepared.is_busy() || self.follower.is_busy();
        let kept = kept || self.emptier.is_busy() || self.forgetter.job.is_running();
        kept || resolves || self.store.disk.is_busy() || appends
    }

    /// Ends the groups whose interval has elapsed.
    fn end_due_groups(&self) {
        let now = self.store.clock().now();
        for table in self.store.keeper.take_due(now) {
            let Some(state) = self.store.tables.state(table) else { continue };
            let is_due = |open: &group::OpenGroup| group::why(open, now).is_some();
            let ended = self.appender.end_group(&state, GroupEndReason::Interval, is_due);
            if let Err(error) = ended {
                // The log is full; the group ends as soon as there is space.
                tracing::warn!(%table, %error, "a group could not be ended");
                self.store.keeper.end_again(table, now + TICK);
            }
        }
    }

    /// Starts a flush of every table that the policy selects and that is not being flushed yet, and
    /// sets the priority of background work by the number of bytes to flush.
    fn plan_flushes(self: &Arc<Self>, tables: &[Arc<TableState>]) {
        if self.flush_limits().memory_short {
            self.prepared.free_memory();
        }
        let limits = self.flush_limits();
        let mut waiting_bytes = 0;
        let largest = limits.memory_short.then(|| largest(tables)).flatten();
        for state in tables {
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
                self.start_flush(Arc::clone(state), why);
            }
        }
        let flushes = waiting_bytes / limits.flush_bytes.max(1);
        let pace = match flushes {
            _ if limits.memory_short || self.store.wal.stats().room_waiters > 0 => {
                BackgroundShare::Full
            }
            FULL_PRIORITY_FLUSHES_MIN.. => BackgroundShare::Full,
            LOW_PRIORITY_FLUSHES_MAX.. => BackgroundShare::TwoFifths,
            _ => BackgroundShare::Tenth,
        };
        if pace != BackgroundShare::Tenth {
            self.store.keeper.note_flush_backlog(self.store.clock().now());
        }
        set_background_share(pace);
    }

    /// Finds what new versions of keys have replaced, before a reader has to wait for it.
    fn resolve(&self, tables: &[Arc<TableState>]) {
        let horizon = self.store.horizon().get();
        for state in tables {
            let is_behind = |resolver: &&Arc<Resolver>| !resolver.is_resolved(horizon);
            let Some(resolver) = state.resolver.as_ref().filter(is_behind) else { continue };
            let Some(running) = state.resolving.begin() else { continue };
            let (resolver, name) = (Arc::clone(resolver), state.name());
            let job = move || {
                // Who comes meanwhile waits for all of it, so it lets nobody else pass.
                let full = BackgroundShare::Full;
                let done = with_background_share(full, || resolver.try_resolve_to(horizon));
                if let Err(error) = done {
                    tracing::warn!(table = name, %error, "keys cannot be looked up, tried again");
                }
                drop(running);
            };
            self.store.pool().execute(Lane::Background, Box::new(job));
        }
    }

    fn flush_limits(&self) -> Limits {
        let (config, memory) = (&self.store.config, self.admission.memory());
        let high = memory.limit_bytes() / 100 * PRESSURE_PERCENT;
        Limits {
            flush_bytes: config.flush_bytes.bytes(),
            flush_bytes_min: config.flush_bytes_min.bytes(),
            log_wanted: self.store.keeper.log_wanted(),
            memory_short: memory.used_bytes() >= high || memory.waiting() > 0,
        }
    }

    /// Flushes a table in the background, unless a flush of it is already running.
    fn start_flush(self: &Arc<Self>, state: Arc<TableState>, why: FlushReason) {
        if !self.store.keeper.begin_flush(state.id) {
            return;
        }
        let upkeep = Arc::clone(self);
        let task = async move {
            match upkeep.flusher.flush(&state, why).await {
                Ok(()) => state.flush_failures.store(0, Ordering::Relaxed),
                // The log is full, which is not a problem of this table.
                Err(error) if error.code() == ErrorCode::OutOfRoom => {
                    upkeep.store.clock().sleep(FAILED_FLUSH_PAUSE).await;
                }
                Err(error) => {
                    let failures = state.flush_failures.fetch_add(1, Ordering::Relaxed) + 1;
                    upkeep.store.metrics().flushes_failed.inc();
                    upkeep.store.disk.give_up_for(&error);
                    let table = state.name();
                    tracing::warn!(table, %error, failures, "flush failed, tried again");
                    let pause = FAILED_FLUSH_PAUSE * u32::try_from(failures.min(20)).unwrap_or(20);
                    upkeep.store.clock().sleep(pause).await;
                }
            }
            upkeep.store.keeper.end_flush(state.id);
            upkeep.store.keeper.wake();
        };
        self.store.pool().spawn("flush", Box::pin(task));
    }
}

/// The table with the largest delta. The memory of dropped tables is freed once that is durable.
fn largest(tables: &[Arc<TableState>]) -> Option<TableId> {
    let bytes = |state: &&Arc<TableState>| state.delta.stats().bytes;
    let can_flush = |state: &&Arc<TableState>| bytes(state) > 0 && !state.is_dropped();
    tables.iter().filter(can_flush).max_by_key(bytes).map(|state| state.id)
}
