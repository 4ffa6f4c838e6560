//! Compaction as the engine drives it: a merge, then one metadata commit, then one swap of the
//! view. What it replaced goes when no reader has it any more. Small merges keep up with the rows
//! that come in; a large one, which takes minutes, begins when little else has waited for a while
//! and runs in the time that others leave, a small one beside it where rowsets pile up meanwhile.
//!
//! The tablet that a merge helps most comes first, one whose merge failed is left alone for a
//! while, and whoever adds rowsets faster than they can be merged waits: so they stay few.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_base::task::{self, BackgroundShare, Lane};
use freshet_base::{ErrorCode, Lsn, Result, RowsetId, TableId, TabletId};
use freshet_meta::{MetaEvent, Replacement};
use freshet_storage::Rowset;
use freshet_storage::compaction::{Choice, Limits, MergeJob, choose, merge, not_full, size};
use freshet_storage::fold::Event;
use freshet_storage::view::{TableView, TabletFiles};
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::metadata::Shown;
use crate::state::TableState;

/// So many rowsets of like size are worth a merge while more keep coming: each row is then
/// rewritten less often, and rows still come in. [`Limits`] say how many do at rest.
const MERGE_MIN_BUSY: usize = 8;
/// A table that got no rowset for so long is at rest, and so is a server whose flushes had time.
const REST: Duration = Duration::from_secs(10);
/// A merge of so many flushes of `flush_bytes`, or more, is a large one: what was merged while
/// its table is loaded is left alone then.
const LARGE_FLUSHES: u64 = 16;
/// In a tablet of more rowsets a large merge waits for nothing and takes its full part.
const ROWSETS_MANY: usize = 128;
/// A merged rowset of this size is compressed for long storage.
const COLD_BYTES_MIN: u64 = 256 << 20;
/// How long compaction rests after a merge that failed.
const FAILED_PAUSE: Duration = Duration::from_secs(5);
/// How long one waits for room in the log.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(500);
/// How long it leaves the tablet alone whose merge failed, so that others have their turn.
const FAILED_TABLET_PAUSE: Duration = Duration::from_secs(60);
/// How long one who adds rowsets waits for merges that have fallen behind. Not for ever: a flush
/// gives back memory and log.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(10);
/// How often who waits looks.
const CATCH_UP_LOOK: Duration = Duration::from_millis(20);

/// The merges that run.
#[derive(Default)]
pub(crate) struct Compactor {
    /// What they read, at most one of each size.
    merging: Mutex<HashMap<Size, HashSet<RowsetId>>>,
    /// Rowsets over all tablets when last looked at.
    rowsets: AtomicU64,
    /// Tablets whose merge failed, and until when they are left alone.
    failed: Mutex<HashMap<TabletId, Duration>>,
}

/// How much a merge reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Size {
    /// What flushes wait for where too much of it is due.
    Small,
    /// [`LARGE_FLUSHES`] flushes or more, which nobody waits for.
    Large,
}

impl Size {
    fn of(rowsets: &[Arc<Rowset>], large_bytes: u64) -> Self {
        let bytes = rowsets.iter().map(|rowset| size(rowset)).sum::<u64>();
        if bytes < large_bytes { Self::Small } else { Self::Large }
    }
}

impl Compactor {
    /// Whether a merge runs.
    pub fn is_busy(&self) -> bool {
        !self.merging.lock().is_empty()
    }

    fn runs(&self, size: Size) -> bool {
        self.merging.lock().contains_key(&size)
    }

    fn begin(&self, size: Size, work: &Work) {
        let reads = work.rowsets.iter().map(|rowset| rowset.meta().id).collect();
        let before = self.merging.lock().insert(size, reads);
        assert!(before.is_none(), "one merge of a size runs at a time");
    }

    fn end(&self, size: Size) {
        self.merging.lock().remove(&size);
    }

    /// What running merges read.
    fn reads(&self) -> HashSet<RowsetId> {
        self.merging.lock().values().flatten().copied().collect()
    }

    fn leave_alone(&self, tablet: TabletId, now: Duration) {
        let mut failed = self.failed.lock();
        failed.retain(|_, until| *until > now);
        failed.insert(tablet, now.saturating_add(FAILED_TABLET_PAUSE));
    }

    fn is_left_alone(&self, tablet: TabletId, now: Duration) -> bool {
        self.failed.lock().get(&tablet).is_some_and(|until| *until > now)
    }
}

impl Engine {
    /// Starts a merge of each size, if one is worth it and none runs; called by the keeper.
    pub(crate) fn plan_compaction(self: &Arc<Self>) {
        for size in [Size::Small, Size::Large] {
            if self.may_merge() && !self.compactor.runs(size) {
                let next = self.next_merge(size);
                next.into_iter().for_each(|work| self.start_merge(size, work));
            }
        }
    }

    fn start_merge(self: &Arc<Self>, size: Size, work: Work) {
        self.compactor.begin(size, &work);
        let engine = Arc::clone(self);
        let task = async move {
            let tablet = work.tablet;
            match engine.merge_and_replace(work).await {
                Ok(()) => {}
                // The log is full to the brim: no fault of the tablet.
                Err(error) if error.code() == ErrorCode::OutOfRoom => {
                    engine.clock().sleep(NO_ROOM_PAUSE).await;
                }
                Err(error) => {
                    tracing::warn!(%tablet, %error, "compaction failed, its rowsets stay");
                    engine.compactor.leave_alone(tablet, engine.clock().now());
                    engine.clock().sleep(FAILED_PAUSE).await;
                }
            }
            engine.compactor.end(size);
            engine.keeper().wake();
        };
        self.pool().spawn("compaction", Box::pin(task));
    }

    /// Whether merges run. One needs room on the disk before it frees some, and what little there
    /// may be left is for flushes.
    fn may_merge(&self) -> bool {
        self.config().compaction && !self.keeper().is_stopping() && self.may_grow().is_ok()
    }

    /// The merge of a size that takes most rowsets, of equal ones that of the tablet that has
    /// most.
    fn next_merge(&self, size: Size) -> Option<Work> {
        let store = self.views().load();
        let now = self.clock().now();
        // Two at once take from who writes and asks what one does not, so a second has to be
        // needed, and so has a large one where flushes have waited: while a server has all it can
        // do, a row is merged once.
        let is_second = self.compactor.is_busy();
        let had_leisure = self.keeper().had_leisure_since(now.saturating_sub(REST));
        let can_wait = is_second || !had_leisure;
        let reads = self.compactor.reads();
        let is_read = |rowset: &Arc<Rowset>| reads.contains(&rowset.meta().id);
        let mut rowsets = 0;
        let mut best: Option<(_, Work)> = None;
        for state in self.table_states() {
            let Some(view) = store.tables.get(&state.id) else { continue };
            let large_bytes = self.large_merge_bytes(view);
            let limits = limits(&state, size, large_bytes, now);
            for tablet in &view.tablets {
                rowsets += tablet.rowsets.len() as u64;
                let enough = match size {
                    Size::Large if can_wait => ROWSETS_MANY + 1,
                    Size::Small if is_second => limits.rowsets_max + 1,
                    _ => limits.merge_min,
                };
                if tablet.rowsets.len() < enough || self.compactor.is_left_alone(tablet.id, now) {
                    continue;
                }
                // What one merge reads is not for another.
                for free in tablet.rowsets.split(is_read) {
                    let Choice::Merge(range) = choose(free, &limits) else { continue };
                    let inputs = &free[range];
                    let gain = (inputs.len(), tablet.rowsets.len());
                    let is_better = best.as_ref().is_none_or(|(most, ..)| gain > *most);
                    if is_better && Size::of(inputs, large_bytes) == size {
                        let pace = merge_pace(tablet, size, &limits);
                        best = Some((gain, Work::new(view, tablet, inputs, pace)));
                    }
                }
            }
        }
        if self.compactor.rowsets.swap(rowsets, Ordering::Relaxed) != rowsets {
            self.metrics().rowsets.set(i64::try_from(rowsets).unwrap_or(i64::MAX));
        }
        best.map(|(_, work)| work)
    }

    /// From how many bytes on a merge is a large one; each tablet gets its part of a flush.
    fn large_merge_bytes(&self, view: &TableView) -> u64 {
        let flushes_bytes = self.config().flush_bytes.bytes().saturating_mul(LARGE_FLUSHES);
        flushes_bytes / view.tablets.len().max(1) as u64
    }

    /// Waits while merges of one of these tables have fallen behind. Flushes and large loads do
    /// so before they add rowsets, which slows down who loads: memory and log fill up.
    pub(crate) async fn let_merges_catch_up(&self, tables: &[TableId]) {
        let deadline = Deadline::after(&**self.clock(), CATCH_UP_PATIENCE);
        while self.clock().now() < deadline.0 && tables.iter().any(|id| self.is_behind(*id)) {
            self.clock().sleep(CATCH_UP_LOOK).await;
        }
    }

    /// Whether merges of a table have fallen behind and go on.
    fn is_behind(&self, table: TableId) -> bool {
        let (store, now) = (self.views().load(), self.clock().now());
        let view = store.tables.get(&table).filter(|_| self.may_merge());
        let Some((view, state)) = view.zip(self.table_state(table)) else { return false };
        let limits = limits(&state, Size::Small, self.large_merge_bytes(view), now);
        let is_left_alone = |tablet: &TabletFiles| self.compactor.is_left_alone(tablet.id, now);
        let is_behind = |tablet: &TabletFiles| not_full(tablet, &limits) > limits.rowsets_behind;
        view.tablets.iter().any(|tablet| is_behind(tablet) && !is_left_alone(tablet))
    }

    async fn merge_and_replace(self: &Arc<Self>, work: Work) -> Result<()> {
        let job = MergeJob {
            table: work.table,
            tablet: work.tablet,
            schema: work.schema(),
            rowsets: work.rowsets.clone(),
            id: self.meta().ids().rowset()?,
            segment_bytes_max: self.config().segment_bytes_max.bytes(),
            cold_bytes_min: COLD_BYTES_MIN,
        };
        let room = self.room_of_event()?;
        let mut in_flight = self.in_flight();
        in_flight.add(job.id);
        let (engine, schema) = (Arc::clone(self), Arc::clone(&job.schema));
        let own_pace = work.pace;
        let merged = task::run_in(&**self.pool(), Lane::OwnThread, move || {
            let mut go_on = || match engine.keeper().is_stopping() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            let mut merge = || merge(engine.files(), &job, &mut go_on);
            match own_pace {
                Some(pace) => task::with_background_share(pace, merge),
                None => merge(),
            }
        })
        .await?;
        let Some(meta) = merged else { return Ok(()) };
        self.failpoints()
            .pass("compaction-before-publish")
            .map_err(|error| freshet_base::Error::io("compaction", error))?;
        let Work { table, tablet, rowsets: removed, .. } = work;
        let Some(state) = self.table_state(table) else { return Ok(()) };
        let bytes = meta.bytes();
        let replacement = Replacement {
            table,
            tablet,
            removed: removed.iter().map(|rowset| rowset.meta().id).collect(),
            added: meta.clone(),
        };
        let dir = self.data_dir().tablet(table, tablet);
        let added = Arc::new(Rowset::new(self.segments(), &dir, meta, &schema));
        let event = Event::Replace { tablet, removed, added };
        let shown = Shown { table: state, at: Lsn::ZERO, event, in_flight };
        if self.append_event(MetaEvent::Replace(replacement), room, shown).await? {
            self.metrics().compactions.inc();
            self.metrics().compaction_bytes.inc_by(bytes);
        }
        Ok(())
    }
}

/// The pace of a merge in a tablet, if it has one of its own. Who writes pays for small merges
/// from the first minute on, not all at once when they have fallen behind.
fn merge_pace(tablet: &TabletFiles, size: Size, limits: &Limits) -> Option<BackgroundShare> {
    match size {
        Size::Small if not_full(tablet, limits) > limits.merge_max => Some(BackgroundShare::Full),
        Size::Large if tablet.rowsets.len() <= ROWSETS_MANY => Some(BackgroundShare::Tenth),
        Size::Small | Size::Large => None,
    }
}

/// What is worth a merge in a table as it is loaded now.
fn limits(table: &TableState, size: Size, large_bytes: u64, now: Duration) -> Limits {
    let mut limits = Limits::default();
    if size == Size::Small {
        limits.rowset_bytes_max = large_bytes.saturating_sub(1);
        let least = limits.rowset_bytes_max / limits.merge_max as u64;
        limits.rowset_bytes_min = limits.rowset_bytes_min.min(least);
    }
    if table.grew_after(now.saturating_sub(REST)) {
        limits.merge_min = MERGE_MIN_BUSY;
    }
    limits
}

/// Neighbouring rowsets of one tablet, to become one.
struct Work {
    table: TableId,
    tablet: TabletId,
    rowsets: Vec<Arc<Rowset>>,
    /// Its pace, if not that of flushes.
    pace: Option<BackgroundShare>,
}

impl Work {
    fn new(
        view: &TableView,
        tablet: &TabletFiles,
        rowsets: &[Arc<Rowset>],
        pace: Option<BackgroundShare>,
    ) -> Self {
        Self { table: view.table.id, tablet: tablet.id, rowsets: rowsets.to_vec(), pace }
    }

    /// The newest columns that any of them was written in.
    fn schema(&self) -> Arc<freshet_schema::TableSchema> {
        let newest = self.rowsets.iter().max_by_key(|rowset| rowset.schema().version);
        Arc::clone(newest.expect("a merge has rowsets").schema())
    }
}
