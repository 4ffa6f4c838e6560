//! Compaction as the engine drives it: one merge at a time, then one metadata commit, then one
//! swap of the view. What it replaced goes when no reader has it any more.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use freshet_base::{Result, TableId, TabletId, task};
use freshet_meta::RowsetMeta;
use freshet_storage::Rowset;
use freshet_storage::compaction::picker::Limits;
use freshet_storage::compaction::{Choice, MergeJob, choose, merge};
use freshet_storage::view::{TableView, TabletFiles};

use crate::engine::Engine;

/// A merged rowset of this size is compressed for long storage.
const COLD_BYTES_MIN: u64 = 256 << 20;
/// How long compaction rests after a merge that failed.
const FAILED_PAUSE: std::time::Duration = std::time::Duration::from_secs(5);

/// Whether a merge runs.
#[derive(Default)]
pub(crate) struct Compactor {
    merging: AtomicBool,
    /// Rowsets over all tablets when last looked at.
    rowsets: AtomicU64,
}

impl Compactor {
    /// Whether a merge runs.
    pub fn is_busy(&self) -> bool {
        self.merging.load(Ordering::Acquire)
    }
}

impl Engine {
    /// Starts the next merge, if one is worth it and none runs; called by the keeper.
    pub(crate) fn plan_compaction(self: &Arc<Self>) {
        if !self.config().compaction || self.compactor.merging.load(Ordering::Acquire) {
            return;
        }
        let Some(work) = self.next_merge() else { return };
        self.compactor.merging.store(true, Ordering::Release);
        let engine = Arc::clone(self);
        let task = async move {
            if let Err(error) = engine.merge_and_replace(work).await {
                tracing::warn!(%error, "compaction failed, its rowsets stay as they are");
                engine.clock().sleep(FAILED_PAUSE).await;
            }
            engine.compactor.merging.store(false, Ordering::Release);
            engine.keeper().wake();
        };
        self.pool().spawn("compaction", Box::pin(task));
    }

    fn next_merge(&self) -> Option<Work> {
        let store = self.views().load();
        let mut rowsets = 0;
        let mut found = None;
        for state in self.table_states() {
            let Some(view) = store.tables.get(&state.id) else { continue };
            for tablet in &view.tablets {
                rowsets += tablet.rowsets.len() as u64;
                if found.is_none()
                    && let Choice::Merge(range) = choose(tablet, &Limits::default())
                {
                    found = Some(Work::new(view, tablet, range));
                }
            }
        }
        if self.compactor.rowsets.swap(rowsets, Ordering::Relaxed) != rowsets {
            self.metrics().rowsets.set(i64::try_from(rowsets).unwrap_or(i64::MAX));
        }
        found
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
