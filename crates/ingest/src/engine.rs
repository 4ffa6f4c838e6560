//! The engine: all components below SQL.
//!
//! All services but the first two share the store. Each owns its state and is given the services
//! that it uses, which come earlier in this order: `admit`, `history`, `metadata` (metadata follows
//! the log), `sweep`, `compact`, `term` (its first record), `append` (the critical section),
//! `flush` (files catch up), `recycle` (reuse of log files), `prepared`, `ddl`, `upkeep` (when the
//! others run).
//! The engine is above them. Above the engine are loads and transactions, and a start: `open` makes
//! the services, and `begin` runs the term's.
//!
//! Suggested reading order: `term`, `append`, `group`, `flush`, `metadata`, `replay` (the log into
//! memory), `recycle`.

use std::collections::BTreeMap;
use std::sync::Arc;

use freshet_base::budget::{Budget, Permit};
use freshet_base::clock::{ClockRef, Deadline};
use freshet_base::fail::Failpoints;
use freshet_base::io::FsRef;
use freshet_base::metrics::Metrics;
use freshet_base::task::{self, PoolRef};
use freshet_base::{DbId, Lsn, Result, TableId};
use freshet_meta::{
    Catalog, ClaimOutcome, LabelKind, LabelRecord, Meta, StoredResting, UsedLabel,
    unknown_partition,
};
use freshet_schema::Table;
use freshet_storage::delta::Freshness;
use freshet_storage::flush_policy::FlushReason;
use freshet_storage::segment::SegmentAccess;
use freshet_storage::snapshot::Snapshot;
use freshet_storage::views::Views;
use freshet_wal::{Horizon, WalStats};

use crate::admit::Admission;
use crate::append::Appender;
use crate::config::EngineConfig;
use crate::ddl::Ddl;
use crate::digest::{self, TableDigest};
use crate::flush::Flusher;
use crate::forget::Forgot;
use crate::history::History;
use crate::locks::{KeyLocks, LockWait};
use crate::metadata::Settler;
use crate::prepared::PreparedLoads;
use crate::record::GroupEndReason;
use crate::state::TableState;
use crate::store::Store;
use crate::target::{LoadTarget, Loaded};
use crate::term::Term;
use crate::upkeep::Upkeep;

/// All components below SQL.
pub struct Engine {
    pub(crate) store: Arc<Store>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) history: Arc<History>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) term: Arc<Term>,
    pub(crate) appender: Arc<Appender>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) prepared: Arc<PreparedLoads>,
    pub(crate) ddl: Arc<Ddl>,
    pub(crate) upkeep: Arc<Upkeep>,
}

impl Engine {
    pub fn config(&self) -> &EngineConfig {
        &self.store.config
    }

    pub fn clock(&self) -> &ClockRef {
        &self.store.world.clock
    }

    pub fn pool(&self) -> &PoolRef {
        &self.store.world.pool
    }

    pub fn fs(&self) -> &FsRef {
        &self.store.world.fs
    }

    /// Access to segments.
    pub fn segments(&self) -> &Arc<SegmentAccess> {
        &self.store.files.segments
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.store.world.metrics
    }

    /// Where tests inject failures.
    pub fn failpoints(&self) -> &Failpoints {
        self.store.failpoints()
    }

    /// Metadata, for the simulation and tests; a server uses the published views.
    pub fn meta(&self) -> &Meta {
        self.store.meta()
    }

    /// Position and space of the log.
    pub fn log_stats(&self) -> WalStats {
        self.store.wal.stats()
    }

    /// The LSN up to which the log has been freed, and the side file with what was still in memory.
    pub fn recycled(&self) -> (Lsn, Option<String>) {
        let log = self.meta().log_state();
        (log.recycled.lsn, log.side_file)
    }

    /// The durable horizon: replies to loads must wait for it.
    pub fn horizon(&self) -> &Horizon {
        self.store.horizon()
    }

    /// The memory for all writes.
    pub fn memory(&self) -> &Budget {
        self.admission.memory()
    }

    /// How many writes the log has had no room for in time, since the start.
    pub fn log_refusals(&self) -> u64 {
        self.admission.log_refusals()
    }

    /// How many writes have waited for look-ups of keys, since the start.
    pub fn key_waits(&self) -> u64 {
        self.admission.key_waits()
    }

    /// The memory of filters of keys.
    pub fn key_memory(&self) -> &Budget {
        &self.store.tables.key_memory.filters
    }

    /// The memory of blocks of keys.
    pub fn key_block_bytes(&self) -> u64 {
        self.store.files.segments.block_bytes()
    }

    /// Reserves memory for writes, waiting until `deadline`.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable).
    pub async fn take_memory(&self, bytes: u64, deadline: Deadline) -> Result<Permit> {
        self.admission.memory_until(bytes, deadline).await
    }

    /// Whether rows of this many bytes are stored in the log itself.
    pub fn takes_record_of(&self, bytes: usize) -> bool {
        self.appender.takes_record_of(bytes)
    }

    /// Keys that statements and transactions hold.
    pub(crate) fn locks(&self) -> &Arc<KeyLocks> {
        &self.store.locks
    }

    /// Which connections wait for keys that others hold.
    pub fn lock_waits(&self) -> Vec<LockWait> {
        self.store.locks.waits()
    }

    /// The number of keys that statements and transactions hold.
    pub fn locked_keys(&self) -> usize {
        self.store.locks.held()
    }

    /// Whether the record of the term has settled.
    pub fn has_begun(&self) -> bool {
        self.term.has_begun()
    }

    /// Waits until the record of the term has settled.
    ///
    /// # Errors
    /// `OutOfRoom` after `load_patience`.
    pub async fn begun(&self) -> Result<()> {
        self.term.begun().await
    }

    /// Statements that define, empty or remove databases, tables and users.
    pub fn ddl(&self) -> &Arc<Ddl> {
        &self.ddl
    }

    /// The views that readers pin.
    pub fn views(&self) -> &Views {
        &self.store.tables.views
    }

    /// The currently published catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.store.tables.catalog()
    }

    /// The partitions in the recycle bin.
    pub fn resting_partitions(&self) -> Vec<StoredResting> {
        self.meta().fold().resting()
    }

    /// A snapshot of all tables that contains exactly the log up to the horizon.
    pub fn snapshot(&self, freshness: Freshness) -> Snapshot {
        self.views().pin(freshness, || self.horizon().get())
    }

    pub fn table_state(&self, id: TableId) -> Option<Arc<TableState>> {
        self.store.tables.state(id)
    }

    /// The next generated id of a table; `None` without an AUTO_INCREMENT column that users see.
    pub fn next_id(&self, id: TableId) -> Option<u64> {
        if self.catalog().table_by_id(id).is_some_and(|table| table.hides_ids()) {
            return None;
        }
        self.table_state(id)?.counter.as_ref().map(|counter| counter.next())
    }

    /// All tables, by id.
    pub fn table_states(&self) -> Vec<Arc<TableState>> {
        self.store.tables.states()
    }

    /// Resolves a table to load into.
    ///
    /// # Errors
    /// 1049 (unknown database) and 1146 (unknown table).
    pub fn target(&self, database: &str, table: &str) -> Result<LoadTarget> {
        LoadTarget::of(&self.store.tables, database, table)
    }

    /// The table of this id, for loads; it may be a temporary one.
    ///
    /// # Errors
    /// 1146.
    pub fn target_of(&self, id: TableId) -> Result<LoadTarget> {
        LoadTarget::of_id(&self.store.tables, id)
    }

    /// The table that has the temporary partitions of another one, which are named.
    ///
    /// # Errors
    /// 1735 if it has none.
    pub fn temporary_target(&self, table: &Table, names: &[String]) -> Result<LoadTarget> {
        let catalog = self.catalog();
        let Some(temporary) = catalog.temporary_partitions(table.id) else {
            return Err(unknown_partition(table, names.first().map_or("", String::as_str)));
        };
        self.target_of(temporary.id)
    }

    /// The LSN of the end of the group that a load has joined; resolves when it has ended.
    pub async fn end_of_group(&self, target: &LoadTarget, loaded: &Loaded) -> Lsn {
        let Some(txn) = loaded.txn else { return loaded.lsn };
        let ended = target.state.wait_end(txn);
        // The sender is dropped when the table is dropped; the rows are durable nevertheless.
        ended.await.map_or(loaded.lsn, |lsn| lsn.max(loaded.lsn))
    }

    /// Claims a label of a database for a load. If the label is already used, waits until the load
    /// that uses it is durable: a power failure must not undo what was reported.
    ///
    /// # Errors
    /// When the label is invalid, when there are too many labels of running or remembered loads, or
    /// when the term does not begin in time.
    pub async fn claim_label(
        &self,
        db: DbId,
        label: &str,
        kind: LabelKind,
    ) -> Result<ClaimOutcome> {
        // The record of the term says how many labels there may be.
        self.begun().await?;
        let outcome = self.meta().labels().claim(db, label, kind)?;
        if let ClaimOutcome::Used(used) = &outcome {
            self.durable(used).await;
        }
        Ok(outcome)
    }

    /// How a label is used, if it is; waits until that load is durable.
    pub async fn used_label(&self, db: DbId, label: &str) -> Option<UsedLabel> {
        let used = self.meta().labels().get(db, label)?;
        self.durable(&used).await;
        Some(used)
    }

    async fn durable(&self, used: &UsedLabel) {
        if let Some(lsn) = used.lsn {
            self.horizon().wait(lsn).await;
        }
    }

    /// The labels of a database whose loads are in the log, in the order in which they expire.
    pub fn finished_labels(&self, db: DbId) -> Vec<Arc<LabelRecord>> {
        self.meta().labels().finished(db)
    }

    /// The labels of a database whose loads run or wait for their commit.
    pub fn running_labels(&self, db: DbId) -> Vec<UsedLabel> {
        self.meta().labels().running(db)
    }

    /// The digests of all tables that are listed in the catalog and not dropped.
    ///
    /// # Errors
    /// When rows do not match their schema.
    pub fn digests(&self) -> Result<BTreeMap<TableId, TableDigest>> {
        digest::digests(&self.store.tables, &self.upkeep.compactor)
    }

    /// Recently ended groups.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Flushes all rows of a table that are in the log now: `FLUSH TABLES`.
    ///
    /// # Errors
    /// When files or metadata cannot be written, or the log has no room for the record.
    pub async fn flush_table(&self, id: TableId) -> Result<()> {
        self.flush_for(id, FlushReason::Manual).await
    }

    /// The same, for the reason that `information_schema.flushes` tells.
    pub(crate) async fn flush_for(&self, id: TableId, why: FlushReason) -> Result<()> {
        let Some(state) = self.table_state(id) else { return Ok(()) };
        self.flusher.flush(&state, why).await
    }

    /// Lets some rows that delete be forgotten, which merges have named, where the engine does not
    /// do so by itself; `None` if there are none.
    ///
    /// # Errors
    /// Those of a load.
    pub async fn forget_some(&self) -> Result<Option<Forgot>> {
        self.upkeep.forgetter.forget_some().await
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
    pub async fn stop(&self) -> Result<()> {
        let states = self.table_states();
        let end = |state: &Arc<TableState>| {
            self.appender.end_group(state, GroupEndReason::Shutdown, |_| true).map(drop)
        };
        let ended = states.iter().map(end).fold(Ok(()), Result::and);
        for counter in states.iter().filter_map(|state| state.counter.as_ref()) {
            if let Err(error) = counter.park(&|table, end| self.settler.count(table, end)) {
                tracing::warn!(%error, "the next start leaves out generated ids");
            }
        }
        self.halt().await;
        let (store, settler) = (Arc::clone(&self.store), Arc::clone(&self.settler));
        let saved = task::run(self.store.pool(), move || {
            store.meta().checkpoint_of_stop()?;
            settler.remove_event_files()
        });
        if let Err(error) = saved.await {
            tracing::warn!(%error, "the next start has more of the log to settle");
        }
        ended
    }

    /// Ends background tasks and then the log; everything appended is durable. Open groups remain
    /// open, as after a crash.
    pub async fn halt(&self) {
        self.upkeep.stop().await;
        // Running tasks may have appended until now: the removal of a table that was never listed,
        // the end of a group by a flush, the result of a merge.
        let last = self.store.wal.stats().next_lsn.get() - 1;
        self.horizon().wait(Lsn(last)).await;
        self.settler.settle_due();
        assert!(self.meta().settled() >= Lsn(last), "what is durable has settled before the end");
        self.store.wal.stop();
        // The last record, which covers everything acknowledged, is durable as well. A checkpoint
        // up to there leaves the next start nothing to settle.
        self.store.wal.ended().await;
        self.settler.settle_due();
    }
}
