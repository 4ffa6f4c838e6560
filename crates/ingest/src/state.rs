//! The state of a table in the engine: its delta, its state according to the log, and its locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::{ByteSize, ColumnId, DbId, Error, Incarnation, Lsn, Result, Retry};
use freshet_base::{SchemaVersion, TableId, TabletId, TxnId, Version, err};
use freshet_meta::RowsetMeta;
use freshet_schema::{DeclaredKey, DeclaredKeyKind, KeyForm, Table, TableSchema};
use freshet_storage::delta::Delta;
use freshet_storage::fold::{Base, TableLog};
use freshet_storage::resolver::Resolver;
use freshet_storage::view::TableView;
use futures::channel::oneshot;
use parking_lot::{Mutex, MutexGuard};

use crate::config::EngineConfig;
use crate::counter::Counter;
use crate::gate::Gate;
use crate::group::{GroupCommit, GroupLimits, OpenGroup};
use crate::job::Job;
use crate::partitions::Layout;

/// After this many consecutive failures of its flush, a table rejects loads.
const FLUSH_FAILURES_MAX: u64 = 3;
/// The retry delay of rejected loads.
const UNFLUSHABLE_PAUSE: Duration = Duration::from_secs(5);

/// The state of a table in the engine.
pub struct TableState {
    pub id: TableId,
    /// The id of its database, which RENAME changes.
    db: AtomicU64,
    /// Its records above the flushed LSN.
    pub delta: Arc<Delta>,
    /// Its state according to the log; only changed under the append lock.
    log: Mutex<GroupCommit>,
    /// Finds what each version of a key has replaced, and what is removed.
    pub resolver: Option<Arc<Resolver>>,
    /// Whether it has a unique key.
    pub(crate) is_keyed: bool,
    /// Its run in the background.
    pub(crate) resolving: Job,
    /// The ids of its AUTO_INCREMENT column.
    pub counter: Option<Arc<Counter>>,
    /// Held while its rows are written to files or to the side file.
    pub flushing: futures::lock::Mutex<()>,
    /// Held by a statement that changes its definition, from reading the current one until the new
    /// one has settled.
    pub altering: futures::lock::Mutex<()>,
    /// Held by a change of columns that copies its rows.
    pub rewriting: futures::lock::Mutex<()>,
    /// Who writes to it.
    pub(crate) gate: Arc<Gate>,
    /// Whether its rows are copied, so that its files stay as they are but for new ones.
    is_copied: AtomicBool,
    /// The columns of unique keys that a statement adds: new files have indexes by them already.
    added_indexes: Mutex<Vec<Vec<ColumnId>>>,
    /// Its partitions at the end of the log; only changed under the append lock. `None` without
    /// PARTITION BY, which stays so.
    layout: Option<Mutex<Arc<Layout>>>,
    /// Its tablets without PARTITION BY, until a TRUNCATE gives it others: an exchange does so in
    /// the same incarnation.
    tablets: Mutex<Option<Vec<TabletId>>>,
    /// When its partitions last followed the clock, in microseconds since 1970 UTC, and what went
    /// wrong.
    followed: Mutex<Option<(i64, Option<String>)>>,
    name: Mutex<String>,
    interval_ms: AtomicU64,
    data_bytes: AtomicU64,
    /// Number of consecutive failed flushes; too many make only this table reject loads.
    pub flush_failures: AtomicU64,
    /// When it last got rowsets since the start of the server.
    grew: Mutex<Option<Duration>>,
    /// Its newest metadata record or barrier since the start of the server.
    last_event: AtomicU64,
    /// Its newest TRUNCATE, or exchange without PARTITION BY, since the start of the server.
    last_truncate: AtomicU64,
}

/// The counter of a table whose next id or number is `next`.
fn counter(table: &Table, next: u64) -> Counter {
    match table.sequence.and_then(|sequence| sequence.block()) {
        Some(block) => Counter::in_blocks(table.id, next, block, block),
        None => Counter::new(table.id, next),
    }
}

/// Checks the rows of slices, of which the first one has those that remove.
fn check_in<'r>(
    layout: &Layout,
    schema: &TableSchema,
    slices: impl Iterator<Item = &'r [u8]>,
    removals: u32,
) -> Result<()> {
    for (at, rows) in slices.enumerate() {
        layout.check(schema, rows, if at == 0 { removals } else { 0 })?;
    }
    Ok(())
}

impl TableState {
    /// The state of the table in `view`, whose versions are counted up to the LSN `counted`, and
    /// whose generated ids go on with `next_id`. So many bytes of rows are worth a flush.
    pub fn new(
        view: &TableView,
        db_name: &str,
        counted: Lsn,
        (next_id, flush_bytes): (Option<u64>, u64),
    ) -> Self {
        let (table, delta) = (&*view.table, Arc::clone(&view.delta));
        assert_eq!(delta.table(), table.id, "a table has a delta of its own");
        let base = Base {
            partition: table.partitions.first().expect("a table has a partition").id,
            incarnation: table.incarnation(),
            schema_version: table.schema().version,
            version: view.version,
            flushed: view.flushed,
            counted,
        };
        let is_keyed = table.key_model.is_keyed();
        let log = TableLog::new(Arc::clone(&delta), base);
        let log = GroupCommit::new(log, is_keyed, flush_bytes);
        let state = Self {
            id: table.id,
            db: AtomicU64::new(table.db.get()),
            delta,
            log: Mutex::new(log),
            resolver: view.resolver.clone(),
            is_keyed,
            resolving: Job::default(),
            counter: next_id.map(|next| Arc::new(counter(table, next))),
            flushing: futures::lock::Mutex::new(()),
            altering: futures::lock::Mutex::new(()),
            rewriting: futures::lock::Mutex::new(()),
            gate: Arc::default(),
            is_copied: AtomicBool::new(false),
            added_indexes: Mutex::default(),
            layout: Layout::of(table).map(Mutex::new),
            tablets: Mutex::new(table.partition_by.is_none().then(|| table.tablets().collect())),
            followed: Mutex::default(),
            name: Mutex::new(String::new()),
            interval_ms: AtomicU64::new(0),
            data_bytes: AtomicU64::new(0),
            flush_failures: AtomicU64::new(0),
            grew: Mutex::new(None),
            last_event: AtomicU64::new(0),
            last_truncate: AtomicU64::new(0),
        };
        state.adopt(table, db_name);
        state
    }

    /// Takes generated ids of the table whose temporary partitions it has, or some of whose
    /// partitions it overwrites.
    #[must_use]
    pub fn counting_with(mut self, owner: Option<&Self>) -> Self {
        if let Some(owner) = owner {
            self.counter.clone_from(&owner.counter);
        }
        self
    }

    /// Its database. DROP DATABASE, which asks, holds the lock of names, as RENAME does.
    pub fn db(&self) -> DbId {
        DbId(self.db.load(Ordering::Acquire))
    }

    /// Updates the name, database and properties from a changed definition.
    pub fn adopt(&self, table: &Table, db_name: &str) {
        assert!(table.id == self.id, "a definition is of its table");
        self.db.store(table.db.get(), Ordering::Release);
        *self.name.lock() = format!("{db_name}.{}", table.name);
        let properties = &table.properties;
        self.interval_ms.store(properties.group_commit_interval_ms, Ordering::Relaxed);
        self.data_bytes.store(properties.group_commit_data_bytes, Ordering::Relaxed);
    }

    /// Locks its state according to the log and its open group. Changes require the append lock as
    /// well. Reading blocks appends to the table.
    pub(crate) fn lock(&self) -> MutexGuard<'_, GroupCommit> {
        self.log.lock()
    }

    /// The table for who writes files of it: with the indexes that statements add.
    pub(crate) fn as_indexed(&self, table: &Arc<Table>) -> Arc<Table> {
        let added = self.added_indexes.lock();
        if added.is_empty() {
            return Arc::clone(table);
        }
        let mut indexed = Table::clone(table);
        indexed.declared_keys.extend(added.iter().map(|columns| {
            let (kind, name) = (DeclaredKeyKind::Index, String::new());
            let (comment, form) = (String::new(), KeyForm::default());
            DeclaredKey { kind, name, columns: columns.clone(), comment, global: None, form }
        }));
        Arc::new(indexed)
    }

    /// Whether merges leave its files alone, since a change of columns copies its rows.
    pub(crate) fn is_copied(&self) -> bool {
        self.is_copied.load(Ordering::Acquire)
    }

    pub(crate) fn set_copied(&self, is_copied: bool) {
        self.is_copied.store(is_copied, Ordering::Release);
    }

    /// What is said to who comes to its gate too late, or too early: begun again, the statement
    /// finds the table.
    pub(crate) fn changed(&self) -> Error {
        err!(
            TableChanged,
            "Table definition has changed, please retry transaction: ALTER TABLE has copied the \
             rows of '{}' to a table of its name",
            self.name()
        )
    }

    /// The error of who finds it gone.
    pub(crate) fn gone(&self) -> Error {
        match self.gate.is_replaced() {
            true => self.changed(),
            false => err!(NoSuchTable, "Table '{}' doesn't exist", self.name()),
        }
    }

    /// Lets new files have these indexes, besides those of the table.
    pub(crate) fn set_added_indexes(&self, columns: Vec<Vec<ColumnId>>) {
        *self.added_indexes.lock() = columns;
    }

    /// Its partitions at the end of the log; `None` without PARTITION BY.
    pub(crate) fn layout(&self) -> Option<Arc<Layout>> {
        self.layout.as_ref().map(|layout| layout.lock().clone())
    }

    /// Changes its partitions; called under the append lock.
    pub(crate) fn set_layout(&self, layout: &Arc<Layout>) {
        let current = self.layout.as_ref().expect("a table whose partitions change is divided");
        *current.lock() = Arc::clone(layout);
    }

    /// Notes that it has the rows of others, in other tablets; called under the append lock.
    pub(crate) fn note_exchange(&self, lsn: Lsn, tablets: Vec<TabletId>) {
        *self.tablets.lock() = Some(tablets);
        self.last_truncate.store(lsn.get(), Ordering::Release);
    }

    /// Whether files of a load that began in its incarnation are in its tablets.
    pub(crate) fn has_tablets_of(&self, files: &[RowsetMeta]) -> bool {
        let tablets = self.tablets.lock();
        tablets.as_ref().is_none_or(|now| files.iter().all(|file| now.contains(&file.tablet)))
    }

    /// Notes that its partitions have followed the clock, or why they could not.
    pub(crate) fn note_clock(&self, now_micros: i64, error: Option<Error>) {
        let message = error.map(|error| error.message().to_owned());
        *self.followed.lock() = Some((now_micros, message));
    }

    /// When its partitions last followed the clock, in microseconds since 1970 UTC, and what went
    /// wrong; `None` if they have not since the start of the server.
    pub fn followed_clock(&self) -> Option<(i64, Option<String>)> {
        self.followed.lock().clone()
    }

    /// Checks rows that are to be appended. Returns the partitions that they were checked against,
    /// for [`Self::check_rows_again`]; `None` without PARTITION BY.
    ///
    /// # Errors
    /// 1526 for the first row that no partition takes.
    pub(crate) fn check_rows(
        &self,
        version: SchemaVersion,
        rows: &[u8],
        removals: u32,
    ) -> Result<Option<Arc<Layout>>> {
        self.check_slices(version, std::iter::once(rows), removals)
    }

    /// As [`Self::check_rows`], of rows in slices, of which the first one has those that remove.
    ///
    /// # Errors
    /// Those of [`Self::check_rows`].
    pub(crate) fn check_slices<'r>(
        &self,
        version: SchemaVersion,
        slices: impl Iterator<Item = &'r [u8]>,
        removals: u32,
    ) -> Result<Option<Arc<Layout>>> {
        let Some(layout) = self.layout() else { return Ok(None) };
        let schema = self.lock().log().schema(version);
        let schema = schema.expect("rows name a schema that was made known");
        check_in(&layout, &schema, slices, removals)?;
        Ok(Some(layout))
    }

    /// Checks slices where partitions have changed since they were checked; called under the append
    /// lock, with the schema of the rows.
    ///
    /// # Errors
    /// Those of [`Self::check_rows`].
    pub(crate) fn check_slices_again<'r>(
        &self,
        checked: Option<&Arc<Layout>>,
        schema: impl FnOnce() -> Option<Arc<TableSchema>>,
        slices: impl Iterator<Item = &'r [u8]>,
        removals: u32,
    ) -> Result<()> {
        let Some(checked) = checked else { return Ok(()) };
        let layout = self.layout().expect("a table stays divided");
        if Arc::ptr_eq(checked, &layout) {
            return Ok(());
        }
        let schema = schema().expect("rows name a schema that was made known");
        check_in(&layout, &schema, slices, removals)
    }

    /// The number of ended groups and large loads.
    pub fn version(&self) -> Version {
        self.lock().log().version()
    }

    /// The schema version at the end of the log.
    pub fn schema_version(&self) -> SchemaVersion {
        self.lock().log().schema_version()
    }

    /// Incremented by TRUNCATE.
    pub fn incarnation(&self) -> Incarnation {
        self.lock().log().incarnation()
    }

    /// Whether the log contains its DROP.
    pub fn is_dropped(&self) -> bool {
        self.lock().log().is_dropped()
    }

    /// Calls `read` with the open group, if any.
    pub fn open_group<T>(&self, read: impl FnOnce(&OpenGroup) -> T) -> Option<T> {
        self.lock().open().map(read)
    }

    /// Resolves with the LSN of the end of the group `txn`; immediately if it has ended.
    pub fn wait_end(&self, txn: TxnId) -> oneshot::Receiver<Lsn> {
        self.lock().wait_end(txn)
    }

    pub fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// The LSN of the last TRUNCATE or change of partitions that has removed rows; zero if there
    /// was none.
    pub(crate) fn cut(&self) -> Lsn {
        self.delta.truncated().max(self.delta.lost())
    }

    /// Checks that its flushes succeed.
    ///
    /// # Errors
    /// `OutOfRoom` when the last ones failed.
    pub(crate) fn check_flushes(&self) -> Result<()> {
        let failures = self.flush_failures.load(Ordering::Relaxed);
        if failures < FLUSH_FAILURES_MAX {
            return Ok(());
        }
        let error = err!(
            OutOfRoom,
            "table '{}' takes no rows: {failures} flushes of it failed in a row and {} wait in \
             memory; the log of the server says why. Loading resumes by itself when one succeeds",
            self.name(),
            ByteSize(self.delta.stats().bytes)
        );
        Err(error.with_retry(Retry::After(UNFLUSHABLE_PAUSE)))
    }

    /// Notes the LSN of a metadata record or barrier; called under the append lock.
    pub(crate) fn note_event(&self, lsn: Lsn) {
        let before = self.last_event.swap(lsn.get(), Ordering::AcqRel);
        assert!(before < lsn.get(), "events of a table rise in the order of the log");
    }

    /// Its newest metadata record or barrier since the start of the server, or 0.
    pub(crate) fn last_event(&self) -> Lsn {
        Lsn(self.last_event.load(Ordering::Acquire))
    }

    /// Notes the LSN of a TRUNCATE; called under the append lock.
    pub(crate) fn note_truncate(&self, lsn: Lsn) {
        *self.tablets.lock() = None;
        let before = self.last_truncate.swap(lsn.get(), Ordering::AcqRel);
        assert!(before < lsn.get(), "events of a table rise in the order of the log");
    }

    /// Its newest TRUNCATE since the start of the server, or 0.
    pub(crate) fn last_truncate(&self) -> Lsn {
        Lsn(self.last_truncate.load(Ordering::Acquire))
    }

    /// Notes that it got rowsets.
    pub(crate) fn grow(&self, now: Duration) {
        *self.grew.lock() = Some(now);
    }

    pub(crate) fn grew_after(&self, since: Duration) -> bool {
        self.grew.lock().is_some_and(|grew| grew > since)
    }

    /// The size of its rows in memory at which they are flushed: groups are not divided for it.
    pub(crate) fn flush_bytes(&self, config: &EngineConfig) -> u64 {
        config.flush_bytes.bytes().max(self.group_limits().bytes_max)
    }

    /// Limits of the next group.
    pub fn group_limits(&self) -> GroupLimits {
        GroupLimits {
            interval: Duration::from_millis(self.interval_ms.load(Ordering::Relaxed)),
            bytes_max: self.data_bytes.load(Ordering::Relaxed),
        }
    }
}
