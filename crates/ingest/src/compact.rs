//! Compaction as the engine drives it: one merge at a time, then one metadata commit, then one
//! swap of the view. What it replaced goes when no reader has it any more.
//!
//! The tablet that a merge helps most comes first, one whose merge failed is left alone for a
//! while, and whoever adds rowsets faster than they can be merged waits: so they stay few.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_base::{Result, TableId, TabletId, task};
use freshet_meta::RowsetMeta;
use freshet_storage::Rowset;
use freshet_storage::compaction::{Choice, Limits, MergeJob, choose, is_behind, merge};
use freshet_storage::view::{TableView, TabletFiles};
use parking_lot::Mutex;

use crate::engine::Engine;

/// A merged rowset of this size is compressed for long storage.
const COLD_BYTES_MIN: u64 = 256 << 20;
/// How long compaction rests after a merge that failed.
const FAILED_PAUSE: Duration = Duration::from_secs(5);
/// How long it leaves the tablet alone whose merge failed, so that others have their turn.
const FAILED_TABLET_PAUSE: Duration = Duration::from_secs(60);
/// How long one who adds rowsets waits for merges that have fallen behind. Not for ever: a flush
/// gives back memory and log.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(10);
/// How often who waits looks.
const CATCH_UP_LOOK: Duration = Duration::from_millis(20);

/// Whether a merge runs.
#[derive(Default)]
pub(crate) struct Compactor {
    merging: AtomicBool,
    /// Rowsets over all tablets when last looked at.
    rowsets: AtomicU64,
    /// Tablets whose merge failed, and until when they are left alone.
    failed: Mutex<HashMap<TabletId, Duration>>,
}

impl Compactor {
    /// Whether a merge runs.
    pub fn is_busy(&self) -> bool {
        self.merging.load(Ordering::Acquire)
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
    /// Starts the next merge, if one is worth it and none runs; called by the keeper.
    pub(crate) fn plan_compaction(self: &Arc<Self>) {
        if !self.may_merge() || self.compactor.is_busy() {
            return;
        }
        let Some(work) = self.next_merge() else { return };
        self.compactor.merging.store(true, Ordering::Release);
        let engine = Arc::clone(self);
        let task = async move {
            let tablet = work.tablet;
            if let Err(error) = engine.merge_and_replace(work).await {
                tracing::warn!(%tablet, %error, "compaction failed, its rowsets stay as they are");
                engine.compactor.leave_alone(tablet, engine.clock().now());
                engine.clock().sleep(FAILED_PAUSE).await;
            }
            engine.compactor.merging.store(false, Ordering::Release);
            engine.keeper().wake();
        };
        self.pool().spawn("compaction", Box::pin(task));
    }

    /// Whether merges run. One needs room on the disk before it frees some, and what little there
    /// may be left is for flushes.
    fn may_merge(&self) -> bool {
        self.config().compaction && !self.keeper().is_stopping() && self.may_grow().is_ok()
    }

    /// The merge that takes most rowsets, of equal ones that of the tablet that has most.
    fn next_merge(&self) -> Option<Work> {
        let store = self.views().load();
        let now = self.clock().now();
        let mut rowsets = 0;
        let mut best = None;
        for state in self.table_states() {
            let Some(view) = store.tables.get(&state.id) else { continue };
            for tablet in &view.tablets {
                rowsets += tablet.rowsets.len() as u64;
                let Choice::Merge(range) = choose(tablet, &Limits::default()) else { continue };
                let gain = (range.len(), tablet.rowsets.len());
                let is_better = best.as_ref().is_none_or(|(most, _)| gain > *most);
                if is_better && !self.compactor.is_left_alone(tablet.id, now) {
                    best = Some((gain, Work::new(view, tablet, range)));
                }
            }
        }
        if self.compactor.rowsets.swap(rowsets, Ordering::Relaxed) != rowsets {
            self.metrics().rowsets.set(i64::try_from(rowsets).unwrap_or(i64::MAX));
        }
        best.map(|(_, work)| work)
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
        let Some(view) = store.tables.get(&table).filter(|_| self.may_merge()) else {
            return false;
        };
        let limits = Limits::default();
        let is_left_alone = |tablet: &TabletFiles| self.compactor.is_left_alone(tablet.id, now);
        view.tablets.iter().any(|tablet| is_behind(tablet, &limits) && !is_left_alone(tablet))
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
        let mut in_flight = self.in_flight();
        in_flight.add(job.id);
        let (engine, schema) = (Arc::clone(self), Arc::clone(&job.schema));
        let merged = task::run(&**self.pool(), move || {
            let mut pace = || match engine.keeper().is_stopping() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            merge(engine.files(), &job, &mut pace)
        })
        .await?;
        let Some(meta) = merged else { return Ok(()) };
        self.failpoints()
            .pass("compaction-before-publish")
            .map_err(|error| freshet_base::Error::io("compaction", error))?;
        if self.replace_in_meta(&work, &meta).await? {
            self.metrics().compactions.inc();
            self.metrics().compaction_bytes.inc_by(meta.bytes());
            let dir = self.data_dir().tablet(work.table, work.tablet);
            let rowset = Arc::new(Rowset::new(self.fs(), &dir, meta, &schema));
            self.show_merged(&work, rowset);
            self.sweeper.retire(&work.rowsets);
        }
        Ok(())
    }

    async fn replace_in_meta(self: &Arc<Self>, work: &Work, merged: &RowsetMeta) -> Result<bool> {
        let engine = Arc::clone(self);
        let (table, tablet, added) = (work.table, work.tablet, vec![merged.clone()]);
        let removed = work.rowsets.iter().map(|rowset| rowset.meta().clone()).collect::<Vec<_>>();
        task::run(&**self.pool(), move || {
            engine.meta().replace_rowsets(table, tablet, &removed, &added)
        })
        .await
    }

    /// Puts the merged rowset in place of its inputs. Flushes may have added newer ones since.
    fn show_merged(&self, work: &Work, merged: Arc<Rowset>) {
        self.views().update(|store| {
            let Some(current) = store.tables.get(&work.table) else { return };
            let mut next = TableView::clone(current);
            let tablet = next.tablets.iter_mut().find(|tablet| tablet.id == work.tablet);
            // A TRUNCATE has given the table other tablets meanwhile.
            let Some(tablet) = tablet else { return };
            let first = work.rowsets[0].meta().id;
            let at = tablet.rowsets.iter().position(|rowset| rowset.meta().id == first);
            let at = at.expect("only compaction removes rowsets, and one merge runs at a time");
            tablet.rowsets.splice(at..at + work.rowsets.len(), [merged]);
            store.tables.insert(work.table, Arc::new(next));
        });
    }
}

/// Neighbouring rowsets of one tablet, to become one.
struct Work {
    table: TableId,
    tablet: TabletId,
    rowsets: Vec<Arc<Rowset>>,
}

impl Work {
    fn new(view: &TableView, tablet: &TabletFiles, range: Range<usize>) -> Self {
        let rowsets = tablet.rowsets[range].to_vec();
        Self { table: view.table.id, tablet: tablet.id, rowsets }
    }

    /// The newest columns that any of them was written in.
    fn schema(&self) -> Arc<freshet_schema::TableSchema> {
        let newest = self.rowsets.iter().max_by_key(|rowset| rowset.schema().version);
        Arc::clone(newest.expect("a merge has rowsets").schema())
    }
}
