//! Compaction in the engine: a merge, then a record of the log with the replacement, then a new
//! view. Replaced rowsets are deleted once no reader uses them. Small merges keep up with incoming
//! rows. A large merge takes minutes: it starts when flushes have not had to wait for a while, and
//! runs at low priority; a small one may run beside it where rowsets accumulate meanwhile.
//!
//! Where nothing is to be merged, rowsets from before an index of their table are written anew, one
//! by one: a merge of a single rowset.
//!
//! The merge that removes most rowsets comes first, and a tablet whose merge failed is skipped for
//! a while. Writers that add rowsets faster than they can be merged wait, which limits the number
//! of rowsets.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_base::task::{self, BackgroundShare, Lane};
use freshet_base::{ColumnId, Error, ErrorCode, Lsn, Result, RowsetId, TableId, TabletId};
use freshet_meta::{MetaEvent, Replacement, RowsetMeta};
use freshet_schema::{DeleteClock, TableSchema};
use freshet_storage::Rowset;
use freshet_storage::compaction::{
    Aging, Choice, Limits, MergeJob, Merged, check_rows, choose, merge, not_full, size,
};
use freshet_storage::fold::Event;
use freshet_storage::resolver::MergeSwap;
use freshet_storage::view::{TableView, TabletFiles};
use freshet_wal::Room;
use parking_lot::Mutex;

use crate::marks;
use crate::metadata::{Settler, ViewChange};
use crate::named::{Forgettable, Named};
use crate::state::TableState;
use crate::store::Store;
use crate::sweep::{InFlight, Sweeper};

/// The minimum number of rowsets of similar size for a merge while the table is being loaded. A
/// larger minimum means that each row is rewritten less often. [`Limits`] has the minimum for
/// tables at rest.
const MERGE_MIN_BUSY: usize = 8;
/// A table without new rowsets for this long is at rest; so is a server whose flushes did not have
/// to wait for this long.
const REST: Duration = Duration::from_secs(10);
/// Merges of at least this many times `flush_bytes` are large. Such merged rowsets are not merged
/// again as long as the table is being loaded.
const LARGE_FLUSHES: u64 = 16;
/// Above this many rowsets in a tablet, a large merge starts immediately and runs at full priority.
const ROWSETS_MANY: usize = 128;
/// Merged rowsets of at least this size are compressed for long-term storage.
const COLD_BYTES_MIN: u64 = 256 << 20;
/// The pause of compaction after a failed merge.
const FAILED_PAUSE: Duration = Duration::from_secs(5);
/// The pause of a merge that found no log space.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(500);
/// How long a tablet is skipped after a failed merge, so that others get their turn.
const FAILED_TABLET_PAUSE: Duration = Duration::from_secs(60);
/// How long a writer of rowsets waits for merges that have fallen behind. It is limited because
/// flushes free memory and log space.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(10);
/// How often a waiting writer checks again.
const CATCH_UP_LOOK: Duration = Duration::from_millis(20);

/// Starts merges, one of each size at a time, and replaces what they have merged.
pub(crate) struct Compactor {
    pub store: Arc<Store>,
    pub settler: Arc<Settler>,
    pub sweeper: Arc<Sweeper>,
    pub merges: Merges,
    /// What merges have named, in tables with a sequence column.
    pub forgettable: Arc<Forgettable>,
    /// Held while a merge is chosen, so that a rowset is the input of one.
    choosing: Mutex<()>,
    /// Held by who asks for a merge.
    asking: futures::lock::Mutex<()>,
}

/// Running and failed merges.
#[derive(Default)]
pub(crate) struct Merges {
    /// Input rowsets of running merges, at most one merge of each size.
    running: Mutex<HashMap<Size, HashSet<RowsetId>>>,
    /// Number of rowsets in all tablets at the last check.
    rowsets: AtomicU64,
    /// Tablets that are skipped after a failed merge, and until when.
    failed: Mutex<HashMap<TabletId, Duration>>,
}

/// Size class of a merge.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Size {
    /// Flushes wait for these when too many are due.
    Small,
    /// At least [`LARGE_FLUSHES`] flushes; nothing waits for these.
    Large,
    /// A statement waits for it.
    Asked,
}

impl Size {
    fn of(rowsets: &[Arc<Rowset>], large_bytes: u64) -> Self {
        let bytes = rowsets.iter().map(|rowset| size(rowset)).sum::<u64>();
        if bytes < large_bytes { Self::Small } else { Self::Large }
    }
}

impl Merges {
    fn is_running(&self, size: Size) -> bool {
        self.running.lock().contains_key(&size)
    }

    fn begin(&self, size: Size, work: &MergePlan) {
        assert!(!work.rowsets.is_empty(), "a merge has rowsets");
        let reads = work.rowsets.iter().map(|rowset| rowset.meta().id).collect::<HashSet<_>>();
        let mut running = self.running.lock();
        let are_free = running.values().all(|others| others.is_disjoint(&reads));
        assert!(are_free, "a rowset is the input of one merge");
        let before = running.insert(size, reads);
        assert!(before.is_none(), "one merge of a size runs at a time");
    }

    fn end(&self, size: Size) {
        let ended = self.running.lock().remove(&size);
        assert!(ended.is_some(), "a merge that ends has begun");
    }

    /// Input rowsets of all running merges.
    fn reads(&self) -> HashSet<RowsetId> {
        self.running.lock().values().flatten().copied().collect()
    }

    fn back_off(&self, tablet: TabletId, now: Duration) {
        let mut failed = self.failed.lock();
        failed.retain(|_, until| *until > now);
        failed.insert(tablet, now.saturating_add(FAILED_TABLET_PAUSE));
    }

    fn is_backing_off(&self, tablet: TabletId, now: Duration) -> bool {
        self.failed.lock().get(&tablet).is_some_and(|until| *until > now)
    }
}

impl Compactor {
    pub fn new(store: &Arc<Store>, settler: &Arc<Settler>, sweeper: &Arc<Sweeper>) -> Self {
        let (store, settler) = (Arc::clone(store), Arc::clone(settler));
        let (sweeper, merges) = (Arc::clone(sweeper), Merges::default());
        let (choosing, asking) = (Mutex::default(), futures::lock::Mutex::default());
        let forgettable = Arc::default();
        Self { store, settler, sweeper, merges, forgettable, choosing, asking }
    }

    /// Whether any merge is running.
    pub fn is_busy(&self) -> bool {
        !self.merges.running.lock().is_empty()
    }

    /// Starts a merge of each size class if one is worthwhile and none is running; called by the
    /// keeper.
    pub fn plan(self: &Arc<Self>, tables: &[Arc<TableState>]) {
        if !self.may_merge() {
            return;
        }
        for size in [Size::Small, Size::Large] {
            if !self.merges.is_running(size) {
                let _one = self.choosing.lock();
                let next = self.next_merge(size, tables);
                let next = next.or_else(|| self.next_unindexed(size, tables));
                next.into_iter().for_each(|work| self.start_merge(size, work));
            }
        }
    }

    fn start_merge(self: &Arc<Self>, size: Size, work: MergePlan) {
        self.merges.begin(size, &work);
        let compactor = Arc::clone(self);
        let task = async move {
            let tablet = work.tablet;
            match compactor.merge_and_replace(work).await {
                Ok(()) => {}
                // The log is full, which is not a problem of this tablet.
                Err(error) if error.code() == ErrorCode::OutOfRoom => {
                    compactor.store.clock().sleep(NO_ROOM_PAUSE).await;
                }
                Err(error) => {
                    tracing::warn!(%tablet, %error, "compaction failed, its rowsets stay");
                    compactor.merges.back_off(tablet, compactor.store.clock().now());
                    compactor.store.clock().sleep(FAILED_PAUSE).await;
                }
            }
            compactor.merges.end(size);
            compactor.store.keeper.wake();
        };
        self.store.pool().spawn("compaction", Box::pin(task));
    }

    /// Whether merges may run. A merge needs disk space before it frees any, and when space is
    /// short, it is reserved for flushes.
    fn may_merge(&self) -> bool {
        self.store.config.compaction
            && !self.store.keeper.is_stopping()
            && self.store.disk.may_grow().is_ok()
    }

    /// The merge of this size class that has most input rowsets; among equals, the one of the
    /// tablet with most rowsets.
    fn next_merge(&self, size: Size, tables: &[Arc<TableState>]) -> Option<MergePlan> {
        // Before the view: a merge that ends in between has its inputs replaced in the view.
        let reads = self.merges.reads();
        let store = self.store.tables.views.load();
        let now = self.store.clock().now();
        // Two concurrent merges take resources from writers and queries, so a second one must be
        // urgent. So must a large one if flushes have had to wait: on a busy server each row is
        // then merged only once.
        let is_second = self.is_busy();
        let had_leisure = self.store.keeper.was_flush_backlog_low_since(now.saturating_sub(REST));
        let can_wait = is_second || !had_leisure;
        let is_read = |rowset: &Arc<Rowset>| reads.contains(&rowset.meta().id);
        let mut rowsets = 0;
        let mut best: Option<(_, MergePlan)> = None;
        for state in tables {
            let Some(view) = store.tables.get(&state.id) else { continue };
            if state.is_copied() {
                continue;
            }
            let large_bytes = self.large_merge_bytes(view);
            let limits = limits(state, size, large_bytes, now);
            for tablet in view.tablets.iter() {
                rowsets += tablet.rowsets.len() as u64;
                let enough = match size {
                    Size::Large if can_wait => ROWSETS_MANY + 1,
                    Size::Small if is_second => limits.rowsets_max + 1,
                    _ => limits.merge_min,
                };
                if tablet.rowsets.len() < enough || self.merges.is_backing_off(tablet.id, now) {
                    continue;
                }
                // Rowsets that are inputs of a running merge are not available.
                for free in tablet.rowsets.split(is_read) {
                    let Choice::Merge(range) = choose(free, &limits) else { continue };
                    let inputs = &free[range];
                    let gain = (inputs.len(), tablet.rowsets.len());
                    let is_better = best.as_ref().is_none_or(|(most, ..)| gain > *most);
                    if is_better && Size::of(inputs, large_bytes) == size {
                        let pace = merge_pace(tablet, size, &limits);
                        let plan = MergePlan::new((view, state), tablet, inputs, pace);
                        best = Some((gain, plan));
                    }
                }
            }
        }
        if self.merges.rowsets.swap(rowsets, Ordering::Relaxed) != rowsets {
            self.store.metrics().rowsets.set(i64::try_from(rowsets).unwrap_or(i64::MAX));
        }
        best.map(|(_, work)| work)
    }

    /// A rowset that lacks an index of its table, or whose files have to be read to know it, if
    /// nothing else is to be done.
    fn next_unindexed(&self, size: Size, tables: &[Arc<TableState>]) -> Option<MergePlan> {
        let now = self.store.clock().now();
        let had_leisure = self.store.keeper.was_flush_backlog_low_since(now.saturating_sub(REST));
        if self.is_busy() || (size == Size::Large && !had_leisure) {
            return None;
        }
        let views = self.store.tables.views.load();
        for state in tables {
            let Some(view) = views.tables.get(&state.id) else { continue };
            if state.is_copied() {
                continue;
            }
            // Most tables of a store with thousands have no files at a time.
            if view.tablets.iter().all(|tablet| tablet.rowsets.is_empty()) {
                continue;
            }
            let indexes = state.as_indexed(&view.table).file_indexes();
            if indexes.is_empty() {
                continue;
            }
            let is_keyed = view.table.key_model.is_keyed();
            let large_bytes = self.large_merge_bytes(view);
            let is_wanted = |rowset: &&Arc<Rowset>| {
                Size::of(std::slice::from_ref(*rowset), large_bytes) == size
                    && rowset.has_indexes(&indexes, is_keyed) != Some(true)
            };
            let tablets = view.tablets.iter();
            for tablet in tablets.filter(|tablet| !self.merges.is_backing_off(tablet.id, now)) {
                if let Some(rowset) = tablet.rowsets.iter().find(is_wanted) {
                    let pace = (size == Size::Large).then_some(BackgroundShare::Tenth);
                    let alone = std::slice::from_ref(rowset);
                    return Some(MergePlan::new((view, state), tablet, alone, pace));
                }
            }
        }
        None
    }

    /// Waits until no merge reads a table that [`TableState::is_copied`].
    pub async fn merges_ended(&self, state: &TableState) {
        // Behind a choice that has not seen it.
        drop(self.choosing.lock());
        loop {
            let reads = self.merges.reads();
            let Some(view) = self.store.tables.view(state.id) else { return };
            let mut rowsets = view.tablets.iter().flat_map(|tablet| &tablet.rowsets);
            if !rowsets.any(|rowset| reads.contains(&rowset.meta().id)) {
                return;
            }
            self.store.clock().sleep(CATCH_UP_LOOK).await;
        }
    }

    /// Writes the first rowset of a table anew whose files `lack` an index, with the columns that
    /// its files have by now. Returns whether there was one.
    ///
    /// # Errors
    /// A full disk; damaged files.
    pub async fn index_next(
        self: &Arc<Self>,
        state: &Arc<TableState>,
        lacks: impl Fn(&Rowset) -> Result<bool> + Send + 'static,
    ) -> Result<bool> {
        let _one = self.asking.lock().await;
        self.store.disk.may_grow()?;
        let Some(view) = self.store.tables.view(state.id) else { return Ok(false) };
        // Files may have to be read.
        let found = task::run(self.store.pool(), move || {
            for rowset in view.tablets.iter().flat_map(|tablet| &tablet.rowsets) {
                if lacks(rowset)? {
                    return Ok::<_, Error>(Some(rowset.meta().id));
                }
            }
            Ok(None)
        });
        let Some(found) = found.await? else { return Ok(false) };
        let Some(work) = self.begin_asked(state, found) else {
            // It is an input of another merge.
            self.store.clock().sleep(CATCH_UP_LOOK).await;
            return Ok(true);
        };
        let done = self.merge_and_replace(work).await;
        self.merges.end(Size::Asked);
        done.map(|()| true)
    }

    /// Begins a merge of one rowset, if it is there and no other merge reads it.
    fn begin_asked(&self, state: &TableState, rowset: RowsetId) -> Option<MergePlan> {
        let _one = self.choosing.lock();
        let reads = self.merges.reads();
        let view = self.store.tables.view(state.id).filter(|_| !reads.contains(&rowset))?;
        let plan = view.tablets.iter().find_map(|tablet| {
            let alone = tablet.rowsets.iter().find(|one| one.meta().id == rowset)?;
            let alone = std::slice::from_ref(alone);
            let plan = MergePlan::new((&view, state), tablet, alone, Some(BackgroundShare::Full));
            Some(MergePlan { schema: Arc::clone(&view.schema), ..plan })
        })?;
        self.merges.begin(Size::Asked, &plan);
        Some(plan)
    }

    /// The size from which a merge is large, in bytes; a flush is divided among the tablets.
    fn large_merge_bytes(&self, view: &TableView) -> u64 {
        let flushes_bytes = self.store.config.flush_bytes.bytes().saturating_mul(LARGE_FLUSHES);
        flushes_bytes / view.tablets.len().max(1) as u64
    }

    /// Waits while merges of any of these tables have fallen behind. Flushes and large loads call
    /// this before they add rowsets; memory and log then fill up, which slows down the clients.
    pub async fn let_catch_up(&self, tables: &[TableId]) {
        let deadline = Deadline::after(self.store.clock(), CATCH_UP_PATIENCE);
        while self.store.clock().now() < deadline.0 && tables.iter().any(|id| self.is_behind(*id)) {
            self.store.clock().sleep(CATCH_UP_LOOK).await;
        }
    }

    /// Whether merges of a table have fallen behind and can make progress.
    fn is_behind(&self, table: TableId) -> bool {
        let (store, now) = (self.store.tables.views.load(), self.store.clock().now());
        let view = store.tables.get(&table).filter(|_| self.may_merge());
        let Some((view, state)) = view.zip(self.store.tables.state(table)) else { return false };
        if state.is_copied() {
            return false;
        }
        let limits = limits(&state, Size::Small, self.large_merge_bytes(view), now);
        let is_backing_off = |tablet: &TabletFiles| self.merges.is_backing_off(tablet.id, now);
        let is_behind = |tablet: &TabletFiles| not_full(tablet, &limits) > limits.rowsets_behind;
        view.tablets.iter().any(|tablet| is_behind(tablet) && !is_backing_off(tablet))
    }

    async fn merge_and_replace(self: &Arc<Self>, work: MergePlan) -> Result<()> {
        let job = MergeJob {
            table: work.table,
            tablet: work.tablet,
            schema: Arc::clone(&work.schema),
            rowsets: work.rowsets.clone(),
            id: self.store.meta().ids().rowset()?,
            segment_bytes_max: self.store.config.segment_bytes_max.bytes(),
            cold_bytes_min: COLD_BYTES_MIN,
            is_keyed: work.is_keyed,
            stores_rows: work.stores_rows,
            indexes: work.indexes.clone(),
            aging: self.aging(&work),
        };
        let room = self.settler.room()?;
        let mut in_flight = self.sweeper.in_flight();
        in_flight.add(job.id);
        let (compactor, schema) = (Arc::clone(self), Arc::clone(&job.schema));
        let own_pace = work.pace;
        let merged = task::run_in(self.store.pool(), Lane::OwnThread, move || {
            let mut go_on = || match compactor.store.keeper.is_stopping() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            if let [alone] = job.rowsets.as_slice()
                && alone.schema().version == job.schema.version
                && alone.read_has_indexes(&job.indexes, job.is_keyed)?
            {
                return Ok(None);
            }
            let mut merge = || merge(&compactor.store.files, &job, &mut go_on);
            match own_pace {
                Some(pace) => task::with_background_share(pace, merge),
                None => merge(),
            }
        })
        .await?;
        let Some(merged) = merged else { return Ok(()) };
        self.store
            .failpoints()
            .pass("compaction-before-publish")
            .map_err(|error| Error::io("compaction", error))?;
        let Some(state) = self.store.tables.state(work.table) else { return Ok(()) };
        self.replace(&state, work, merged, &schema, (room, in_flight)).await
    }

    /// What becomes of rows that delete. Their age is that of the log, which goes on while a server
    /// of the store runs: the wall clock may jump.
    fn aging(&self, work: &MergePlan) -> Option<Aging> {
        let now_micros = self.store.meta().labels().clock().now_micros();
        let clock = DeleteClock::at(now_micros, self.store.config.deleted_rows_keep)?;
        Some(Aging { clock, has_oldest: work.has_oldest })
    }

    /// Replaces the inputs of a merge by its result.
    async fn replace(
        &self,
        state: &Arc<TableState>,
        work: MergePlan,
        merged: Merged,
        schema: &Arc<TableSchema>,
        (room, mut in_flight): (Room, InFlight),
    ) -> Result<()> {
        let MergePlan { table, tablet, rowsets: removed, indexes, .. } = work;
        let Merged { rowset: meta, rows, forgotten } = merged;
        check_merged(&removed, &meta, schema);
        // A merge that moves marks is shown between flushes, which move marks to files (K28).
        let _between_flushes = match &rows {
            Some(_) => Some(state.flushing.lock().await),
            None => None,
        };
        self.settler.events_settled(state).await;
        let resolver = state.resolver.as_ref().expect("an engine makes the marks of its tables");
        let swap = marks::begin_swap(&self.store, resolver).await?;
        let Some((flushed, inputs)) = self.shown(table, &removed) else { return Ok(()) };
        if rows.is_none() && !MergeSwap::has_all_deaths(&removed, &inputs) {
            // Rows were removed meanwhile that the merge cannot tell. It is done again.
            return Ok(());
        }
        if !swap.takes_files_with(&indexes) {
            // A unique key is enforced since it began.
            return Ok(());
        }
        let swap = MergeSwap { swap, rows };
        let (from, sections) = swap.stored(&removed, &inputs, &meta, flushed);
        let lsns = (from, flushed);
        let marks = marks::write(&self.store, table, lsns, sections, &mut in_flight).await?;
        let swap = Some(Box::new(swap));
        let (bytes, to) = (meta.bytes(), meta.lsn_last);
        let replacement = Replacement {
            table,
            tablet,
            removed: removed.iter().map(|rowset| rowset.meta().id).collect(),
            added: meta.clone(),
            marks,
        };
        let added = Arc::new(self.store.files.rowset(table, meta, schema));
        let event = Event::Replace { tablet, removed, added, swap };
        let change = ViewChange { table: Arc::clone(state), at: Lsn::ZERO, event, in_flight };
        if self.settler.append(MetaEvent::Replace(replacement), room, change).await? {
            self.store.metrics().compactions.inc();
            self.store.metrics().compaction_bytes.inc_by(bytes);
            let (schema, rows) = (Arc::clone(schema), VecDeque::from(forgotten));
            self.forgettable.add(Named { table, schema, to, rows });
        }
        Ok(())
    }

    /// The inputs of a merge as readers see them now, and the flushed LSN; `None` if they are gone.
    fn shown(&self, table: TableId, removed: &[Arc<Rowset>]) -> Option<(Lsn, Vec<Arc<Rowset>>)> {
        let view = self.store.tables.view(table)?;
        let all = view.tablets.iter().flat_map(|tablet| &tablet.rowsets);
        let find = |input: &Arc<Rowset>| {
            all.clone().find(|rowset| rowset.meta().id == input.meta().id).cloned()
        };
        Some((view.flushed, removed.iter().map(find).collect::<Option<_>>()?))
    }
}

/// Checks what a merge has written before a record says so: settling that record must not fail.
fn check_merged(removed: &[Arc<Rowset>], added: &RowsetMeta, schema: &TableSchema) {
    check_rows(removed, added.rows, schema);
    let (first, last) = removed.first().zip(removed.last()).expect("a merge has rowsets");
    let lsns = (first.lsns().0, last.lsns().1);
    assert_eq!(lsns, (added.lsn_first, added.lsn_last), "a merge has the LSNs of its inputs");
}

/// The priority of a merge if it differs from that of flushes. Small merges run at full priority
/// early, so that writers are slowed down a little from the start instead of all at once when
/// merges have fallen behind.
fn merge_pace(tablet: &TabletFiles, size: Size, limits: &Limits) -> Option<BackgroundShare> {
    match size {
        Size::Small if not_full(tablet, limits) > limits.merge_max => Some(BackgroundShare::Full),
        Size::Large if tablet.rowsets.len() <= ROWSETS_MANY => Some(BackgroundShare::Tenth),
        Size::Small | Size::Large | Size::Asked => None,
    }
}

/// Limits of merges in a table under its current load.
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

/// Adjacent rowsets of one tablet to be merged.
struct MergePlan {
    table: TableId,
    tablet: TabletId,
    rowsets: Vec<Arc<Rowset>>,
    is_keyed: bool,
    stores_rows: bool,
    /// The columns of each index of the table.
    indexes: Vec<Vec<ColumnId>>,
    /// The columns of the result.
    schema: Arc<TableSchema>,
    /// The priority if it differs from that of flushes.
    pace: Option<BackgroundShare>,
    /// Whether the oldest rowset of the tablet is among them.
    has_oldest: bool,
}

impl MergePlan {
    fn new(
        (view, state): (&TableView, &TableState),
        tablet: &TabletFiles,
        rowsets: &[Arc<Rowset>],
        pace: Option<BackgroundShare>,
    ) -> Self {
        let id = |rowset: Option<&Arc<Rowset>>| rowset.map(|rowset| rowset.meta().id);
        let has_oldest = id(tablet.rowsets.first()) == id(rowsets.first());
        let (table, tablet, rowsets) = (view.table.id, tablet.id, rowsets.to_vec());
        let (is_keyed, stores_rows) = (view.table.key_model.is_keyed(), view.table.stores_rows());
        let indexes = state.as_indexed(&view.table).file_indexes();
        let newest = rowsets.iter().max_by_key(|rowset| rowset.schema().version);
        let schema = Arc::clone(newest.expect("a merge has rowsets").schema());
        Self { table, tablet, rowsets, is_keyed, stores_rows, indexes, schema, pace, has_oldest }
    }
}
