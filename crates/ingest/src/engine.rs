//! The engine: all components below SQL.
//!
//! Suggested reading order: `begin` (a term), `append` (the critical section), `group`, `flush`
//! (files catch up), `metadata` (so does metadata), `replay` (the log into memory), `recycle`
//! (reuse of log files).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use freshet_base::budget::Budget;
use freshet_base::clock::ClockRef;
use freshet_base::fail::Failpoints;
use freshet_base::io::FsRef;
use freshet_base::metrics::Metrics;
use freshet_base::task::{self, Lane, PoolRef};
use freshet_base::{Lsn, Result, TableId};
use freshet_meta::{Catalog, Meta};
use freshet_storage::DataDir;
use freshet_storage::delta::{Chunk, Freshness};
use freshet_storage::flush::Files;
use freshet_storage::segment::SegmentAccess;
use freshet_storage::snapshot::Snapshot;
use freshet_storage::views::Views;
use freshet_wal::{Horizon, Wal, WalStats};
use tokio::sync::SetOnce;

use crate::admit::Admission;
use crate::compact::Compactor;
use crate::config::EngineConfig;
use crate::disk::Disk;
use crate::group::EndedGroup;
use crate::history::History;
use crate::job::LogJobs;
use crate::keeper::Keeper;
use crate::log_files::LogFiles;
use crate::metadata::Settler;
use crate::record::GroupEndReason;
use crate::state::TableState;
use crate::sweep::Sweeper;
use crate::tables::Tables;
use crate::world::World;

/// How often a stop checks whether background work has ended.
const IDLE_LOOK: Duration = Duration::from_millis(5);

/// A guard for background work that may append to the log; a stop waits for it.
pub(crate) struct Appends(Arc<Engine>);

impl Drop for Appends {
    fn drop(&mut self) {
        let before = self.0.appending.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "work that may append ends once");
    }
}

/// All components below SQL.
pub struct Engine {
    pub(crate) config: Arc<EngineConfig>,
    pub(crate) world: World,
    pub(crate) wal: Arc<Wal>,
    pub(crate) admission: Admission,
    pub(crate) tables: Arc<Tables>,
    pub(crate) files: Files,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) log_files: LogFiles,
    pub(crate) log_jobs: LogJobs,
    pub(crate) compactor: Arc<Compactor>,
    pub(crate) sweeper: Arc<Sweeper>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) history: History,
    /// Held by statements that assign or free names of databases and tables.
    pub(crate) names: futures::lock::Mutex<()>,
    /// Number of tasks that may still append to the log.
    pub(crate) appending: AtomicUsize,
    /// Whether the record of the term has settled.
    pub(crate) begun: SetOnce<()>,
}

impl Engine {
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    pub fn clock(&self) -> &ClockRef {
        &self.world.clock
    }

    pub fn pool(&self) -> &PoolRef {
        &self.world.pool
    }

    pub fn fs(&self) -> &FsRef {
        &self.world.fs
    }

    /// Access to segments.
    pub fn segments(&self) -> &Arc<SegmentAccess> {
        &self.files.segments
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.world.metrics
    }

    /// Where tests inject failures.
    pub fn failpoints(&self) -> &Failpoints {
        &self.world.failpoints
    }

    /// Metadata, for the simulation and tests; a server uses the published views.
    pub fn meta(&self) -> &Meta {
        &self.tables.meta
    }

    pub(crate) fn wal(&self) -> &Arc<Wal> {
        &self.wal
    }

    /// Position and space of the log.
    pub fn log_stats(&self) -> WalStats {
        self.wal.stats()
    }

    /// The LSN up to which the log has been freed, and the side file with what was still in memory.
    pub fn recycled(&self) -> (Lsn, Option<String>) {
        let log = self.meta().log_state();
        (log.recycled.lsn, log.side_file)
    }

    /// The durable horizon: replies to loads must wait for it.
    pub fn horizon(&self) -> &Horizon {
        self.wal.horizon()
    }

    /// The memory for all writes.
    pub fn memory(&self) -> &Budget {
        self.admission.memory()
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The views that readers pin.
    pub fn views(&self) -> &Views {
        &self.tables.views
    }

    /// The currently published catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.tables.catalog()
    }

    /// Incremented when names may refer to something else.
    pub fn catalog_generation(&self) -> u64 {
        self.tables.generation()
    }

    /// A snapshot of all tables that contains exactly the log up to the horizon.
    pub fn snapshot(&self, freshness: Freshness) -> Snapshot {
        self.views().pin(freshness, || self.horizon().get())
    }

    pub fn table_state(&self, id: TableId) -> Option<Arc<TableState>> {
        self.tables.state(id)
    }

    /// All tables, by id.
    pub fn table_states(&self) -> Vec<Arc<TableState>> {
        self.tables.states()
    }

    /// Recently ended groups.
    pub fn history(&self) -> &History {
        &self.history
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    pub(crate) fn data_dir(&self) -> &DataDir {
        &self.files.dir
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    pub(crate) fn group_ended(&self, group: EndedGroup) {
        self.metrics().groups_ended.with_label_values(&[group.reason.name()]).inc();
        self.history.push(group);
    }

    /// Converts a full chunk to columns in the background, before a query needs it.
    pub(crate) fn convert_later(&self, chunk: Arc<Chunk>) {
        self.pool().execute(Lane::Background, Box::new(move || chunk.convert()));
    }

    /// Whether background work is in progress.
    fn is_busy(&self) -> bool {
        let appends = self.appending.load(Ordering::Acquire) > 0;
        let kept = self.log_jobs.is_busy() || self.compactor.is_busy() || self.sweeper.is_busy();
        kept || self.disk.is_busy() || appends
    }

    /// Prevents the log from ending until the returned guard is dropped.
    pub(crate) fn appends(self: &Arc<Self>) -> Appends {
        self.appending.fetch_add(1, Ordering::AcqRel);
        Appends(Arc::clone(self))
    }

    /// Flushes all rows of a table that are in the log now: `FLUSH TABLES`.
    ///
    /// # Errors
    /// Those of `flush_now`.
    pub async fn flush_table(self: &Arc<Self>, id: TableId) -> Result<()> {
        let Some(state) = self.table_state(id) else { return Ok(()) };
        self.flush(&state, freshet_storage::flush_policy::FlushReason::Manual).await
    }

    /// Number of open groups with rows, as returned by `get_wal_size`.
    pub fn open_groups(&self) -> usize {
        self.table_states().iter().filter(|state| state.open_group(|_| ()).is_some()).count()
    }

    /// Stops in order: ends the open groups, makes everything durable and ends the log. There must
    /// be no more loads when it is called. Does not flush.
    ///
    /// # Errors
    /// When there is no log space to end a group; everything acknowledged is durable nevertheless.
    pub async fn stop(self: &Arc<Self>) -> Result<()> {
        let states = self.table_states();
        let end = |state: &Arc<TableState>| {
            self.end_group(state, GroupEndReason::Shutdown, |_| true).map(drop)
        };
        let ended = states.iter().map(end).fold(Ok(()), Result::and);
        self.halt().await;
        let engine = Arc::clone(self);
        let saved = task::run(&**self.pool(), move || {
            engine.meta().checkpoint_of_stop()?;
            engine.settler.remove_event_files()
        });
        if let Err(error) = saved.await {
            tracing::warn!(%error, "the next start has more of the log to settle");
        }
        ended
    }

    /// Ends background tasks and then the log; everything appended is durable. Open groups remain
    /// open, as after a crash.
    pub async fn halt(&self) {
        self.keeper.stop();
        while !self.keeper.is_stopped() || self.is_busy() {
            self.clock().sleep(IDLE_LOOK).await;
        }
        // Running tasks may have appended until now: the removal of a table that was never listed,
        // the end of a group by a flush, the result of a merge.
        let last = self.wal.stats().next_lsn.get() - 1;
        self.horizon().wait(Lsn(last)).await;
        self.settler.settle_due();
        assert!(self.meta().settled() >= Lsn(last), "what is durable has settled before the end");
        self.wal.stop();
        // The last record, which covers everything acknowledged, is durable as well. A checkpoint
        // up to there leaves the next start nothing to settle.
        self.wal.ended().await;
        self.settler.settle_due();
    }
}
