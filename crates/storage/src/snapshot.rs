//! What a query reads: exactly the log up to a horizon, regardless of later writes and flushes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use freshet_base::{Lsn, PartitionId, TableId, TabletId};
use freshet_meta::Catalog;
use freshet_schema::hash::Places;
use freshet_schema::{Partition, Router, Table, TableSchema};

use crate::delta::{Bounds, DeltaPart, DeltaRead, DeltaRows, Freshness};
use crate::division::Division;
use crate::error::Result;
use crate::hidden::HiddenKeys;
use crate::pin::{Pin, TooOld};
use crate::resolver::Resolver;
use crate::rowset::Rowset;
use crate::sync::Mutex;
use crate::view::{StoreView, TableView, TabletFiles};

/// The state of the log up to its horizon.
#[derive(Clone)]
pub struct Snapshot {
    pub catalog: Arc<Catalog>,
    /// Records above this LSN are not visible.
    pub horizon: Lsn,
    /// Whether open commit groups are visible.
    pub freshness: Freshness,
    pin: Arc<Pin>,
    tables: Arc<Mutex<SnapshotTables>>,
}

impl Snapshot {
    pub(crate) fn new(pin: Arc<Pin>, tables: SnapshotTables) -> Self {
        let catalog = Arc::clone(&tables.view.catalog);
        let SnapshotTables { horizon, freshness, .. } = tables;
        Self { catalog, horizon, freshness, pin, tables: Arc::new(Mutex::new(tables)) }
    }

    pub(crate) fn tables(&self) -> &Arc<Mutex<SnapshotTables>> {
        &self.tables
    }

    /// A table as of the horizon; `None` if it does not exist there.
    ///
    /// # Errors
    /// [`TooOld`] when the snapshot was closed to free memory.
    pub fn table(&self, id: TableId) -> Result<Option<TableSnapshot>, TooOld> {
        let tables = self.tables.lock();
        // Under the lock: closing a snapshot sets the flag first and removes its tables afterwards.
        self.pin.check_open()?;
        Ok(tables.table(id, &self.pin))
    }
}

/// The tables that a snapshot can read.
pub(crate) struct SnapshotTables {
    /// Tables without a flush since, read through their deltas, which continue to grow.
    view: StoreView,
    /// Tables with a flush since, reduced to what the snapshot sees of them.
    detached: HashMap<TableId, Option<TableSnapshot>>,
    horizon: Lsn,
    freshness: Freshness,
}

impl SnapshotTables {
    pub fn new(view: StoreView, horizon: Lsn, freshness: Freshness) -> Self {
        Self { view, detached: HashMap::new(), horizon, freshness }
    }

    /// Detaches a table from its delta, so that nothing newer than the horizon is kept alive.
    pub fn detach(&mut self, id: TableId, pin: &Arc<Pin>) {
        if self.view.tables.contains_key(&id) {
            let table = self.table(id, pin);
            self.view.tables.remove(&id);
            self.detached.insert(id, table);
        }
    }

    /// Removes and returns all tables, to be dropped when no lock is held.
    pub fn close(&mut self) -> Self {
        let catalog = Arc::clone(&self.view.catalog);
        let nothing = StoreView { catalog, tables: imbl::HashMap::new() };
        std::mem::replace(self, Self::new(nothing, self.horizon, self.freshness))
    }

    fn table(&self, id: TableId, pin: &Arc<Pin>) -> Option<TableSnapshot> {
        match self.detached.get(&id) {
            Some(table) => table.clone(),
            None => self.read(self.view.tables.get(&id)?, pin),
        }
    }

    fn read(&self, view: &TableView, pin: &Arc<Pin>) -> Option<TableSnapshot> {
        let flushed = view.flushed;
        // Files cannot be above the horizon: a flush only covers what the horizon has passed.
        let horizon = self.horizon.max(flushed);
        let mut bounds = Bounds { flushed, horizon, freshness: self.freshness };
        let chunks = match view.delta.last() > flushed {
            true => view.delta.chunks(&view.head),
            false => Vec::new(),
        };
        if view.table.key_model.is_keyed() && self.freshness == Freshness::Published {
            let horizon = DeltaRead::last_end(&chunks, bounds);
            bounds = Bounds { flushed, horizon, freshness: Freshness::Committed };
        }
        let horizon = bounds.horizon;
        let read = DeltaRead::new(&chunks, bounds);
        if read.dropped {
            return None;
        }
        let mut snapshot = TableSnapshot {
            table: divided(view, &read.divisions),
            schema: read.schema.unwrap_or_else(|| Arc::clone(&view.schema)),
            horizon,
            tablets: match read.truncated {
                None if read.divisions.is_empty() => Arc::clone(&view.tablets),
                None => Arc::new(kept(&view.tablets, &read.divisions)),
                Some(_) => Arc::default(),
            },
            loaded: Vec::new(),
            delta: Vec::new(),
            overlay: Vec::new(),
            hidden: None,
            within: None,
            resolver: view.resolver.clone(),
            removes: view.delta.removed() > flushed,
            pin: Arc::clone(pin),
        };
        for part in read.parts {
            match part {
                DeltaPart::Rows(rows) => snapshot.delta.push(rows),
                DeltaPart::Rowsets(_, rowsets) => snapshot.loaded.extend(rowsets),
            }
        }
        pin.keeps(snapshot.delta.iter().map(DeltaRows::chunk));
        Some(snapshot)
    }
}

/// The table of a view with the partitions behind these changes, of which some may not have settled
/// when the view was shown: files and rows are of these partitions, by number and by value.
fn divided(view: &TableView, divisions: &[(Lsn, Arc<Division>)]) -> Arc<Table> {
    let is_new = |(at, one): &&(Lsn, Arc<Division>)| *at > view.defined && one.changes();
    let mut new = divisions.iter().filter(is_new).peekable();
    if new.peek().is_none() {
        return Arc::clone(&view.table);
    }
    let mut table = Table::clone(&view.table);
    new.for_each(|(_, division)| division.change(&mut table.partitions));
    assert!(!table.partitions.is_empty(), "a table has a partition");
    Arc::new(table)
}

/// The tablets whose partitions are not gone, which a view may still have.
fn kept(tablets: &[TabletFiles], divisions: &[(Lsn, Arc<Division>)]) -> Vec<TabletFiles> {
    let is_lost = |id| divisions.iter().any(|(_, division)| division.loses(id));
    tablets.iter().filter(|tablet| !is_lost(tablet.id)).cloned().collect()
}

/// A table as of a snapshot's horizon.
#[derive(Clone)]
pub struct TableSnapshot {
    /// Its definition, with the partitions as of the horizon, in any order.
    pub table: Arc<Table>,
    pub schema: Arc<TableSchema>,
    pub horizon: Lsn,
    /// Its files by tablet, except those that a TRUNCATE at the horizon has removed.
    pub tablets: Arc<Vec<TabletFiles>>,
    /// The files of large loads that no flush has added to their tablets yet.
    pub loaded: Vec<Arc<Rowset>>,
    delta: Vec<DeltaRows>,
    overlay: Vec<RecordBatch>,
    /// Stored rows with these keys are not seen.
    hidden: Option<HiddenKeys>,
    /// Rows of other partitions are not seen.
    within: Option<Arc<Within>>,
    resolver: Option<Arc<Resolver>>,
    /// Whether rows in memory remove others.
    removes: bool,
    pin: Arc<Pin>,
}

/// Some partitions of a table.
struct Within {
    router: Router,
    partitions: Vec<u32>,
}

impl Within {
    fn seen(&self, batch: &RecordBatch, schema: &TableSchema) -> RecordBatch {
        let routed = self.router.of_batch(batch, schema).into_iter();
        let is_seen = |at: Option<u32>| Some(at.is_some_and(|at| self.partitions.contains(&at)));
        let seen = routed.map(is_seen).collect::<BooleanArray>();
        filter_record_batch(batch, &seen).expect("the mask has the rows of the batch")
    }
}

impl TableSnapshot {
    /// Some partitions of it, by their indices in `table`; it has a PARTITION BY.
    ///
    /// A TRUNCATE gives all partitions other tablets, which `table` has once it has settled. No
    /// snapshot has a large load above one that has not: its files are written to the new tablets,
    /// so it waits for the TRUNCATE to settle, and settling waits for every snapshot that is being
    /// opened with the view before, by which its horizon is below the load ([`Pins`]).
    ///
    /// [`Pins`]: crate::pins::Pins
    #[must_use]
    pub fn within(mut self, partitions: &[usize]) -> Self {
        let kept = partitions.iter().flat_map(|&at| &self.table.partitions[at].tablets);
        let kept = kept.copied().collect::<HashSet<_>>();
        let tablets = self.tablets.iter().filter(|tablet| kept.contains(&tablet.id));
        self.tablets = Arc::new(tablets.cloned().collect());
        self.loaded.retain(|rowset| kept.contains(&rowset.meta().tablet));
        let router = self.table.router().expect("PARTITION BY divides the table");
        let partitions = partitions.iter().map(|&at| at as u32).collect();
        self.within = Some(Arc::new(Within { router, partitions }));
        self
    }

    /// Waits until the rows that are dead at the horizon are known; to be called before anything is
    /// read.
    ///
    /// # Errors
    /// Those of [`Resolver::resolve_to`].
    pub async fn resolved(&self) -> Result<()> {
        match &self.resolver {
            Some(resolver) => resolver.resolve_to(self.horizon).await,
            None => Ok(()),
        }
    }

    /// Whether it has a unique key.
    pub fn is_keyed(&self) -> bool {
        self.table.key_model.is_keyed()
    }

    /// Whether some of its rows may be dead, so that counts are too high until [`Self::resolved`],
    /// and the bounds of columns may be those of dead rows.
    pub fn loses_rows(&self) -> bool {
        let has_any = || self.rowsets().any(|rowset| rowset.loses_rows());
        self.resolver.is_some() && (self.is_keyed() || self.removes || has_any())
    }

    /// Adds rows that only this session sees, with the columns of `schema`.
    #[must_use]
    pub fn with_overlay(mut self, rows: impl IntoIterator<Item = RecordBatch>) -> Self {
        self.overlay.extend(rows);
        self
    }

    /// Hides the stored rows that the session's transaction has changed; to be called once.
    #[must_use]
    pub fn hiding(mut self, hidden: Option<HiddenKeys>) -> Self {
        self.hidden = hidden;
        self
    }

    /// The stored rows that are not seen.
    pub fn hidden(&self) -> Option<HiddenKeys> {
        self.hidden.clone().or_else(|| HiddenKeys::deleted(&self.schema))
    }

    /// The table with these rows alone, which have the columns of `schema`.
    #[must_use]
    pub fn only(self, schema: Arc<TableSchema>, rows: RecordBatch) -> Self {
        let (tablets, loaded, delta) = (Arc::default(), Vec::new(), Vec::new());
        let overlay = vec![rows];
        let (hidden, within, resolver) = (None, None, None);
        Self { schema, tablets, loaded, delta, overlay, hidden, within, resolver, ..self }
    }

    /// Checks that it may still be read; long-running readers call this repeatedly.
    ///
    /// # Errors
    /// [`TooOld`] when the snapshot was closed to free memory.
    pub fn check_open(&self) -> Result<(), TooOld> {
        self.pin.check_open()
    }

    /// All its files, by tablet and then by large load.
    pub fn rowsets(&self) -> impl Iterator<Item = &Arc<Rowset>> + Clone {
        let of_tablets = self.tablets.iter().flat_map(|tablet| &tablet.rowsets);
        of_tablets.chain(&self.loaded)
    }

    /// The exact number of rows, once it is resolved.
    pub fn rows(&self) -> u64 {
        self.file_rows() + self.delta_rows()
    }

    /// The number of rows in files that are alive.
    pub fn file_rows(&self) -> u64 {
        self.rowsets().map(|rowset| rowset.rows_at(self.horizon)).sum()
    }

    /// The number of rows in memory, including the session's own, and those that are hidden.
    pub fn delta_rows(&self) -> u64 {
        if self.within.is_some() {
            let batches = self.delta_batches().unwrap_or_default();
            return batches.iter().map(|batch| batch.num_rows() as u64).sum();
        }
        let own = self.overlay.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        self.delta.iter().map(DeltaRows::rows).sum::<u64>() + own
    }

    /// Approximate size of files and memory.
    pub fn bytes(&self) -> u64 {
        let own = self.overlay.iter().map(|batch| batch.get_array_memory_size() as u64);
        let files = self.rowsets().map(|rowset| rowset.bytes());
        files.chain(self.delta.iter().map(DeltaRows::bytes)).chain(own).sum()
    }

    /// The rows and approximate bytes of each partition; of all of them for a table without
    /// PARTITION BY.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict the schema.
    pub fn by_partition(&self) -> Result<HashMap<PartitionId, (u64, u64)>> {
        let partitions = &self.table.partitions;
        if self.table.partition_by.is_none() {
            let all = (self.rows(), self.bytes());
            return Ok(partitions.iter().map(|one| (one.id, all)).collect());
        }
        let by_tablet = self.by_tablet()?;
        let sum = |partition: &Partition| {
            let sizes = partition.tablets.iter().filter_map(|id| by_tablet.get(id));
            sizes.fold((0, 0), |(rows, bytes), (more, size)| (rows + more, bytes + size))
        };
        Ok(partitions.iter().map(|one| (one.id, sum(one))).collect())
    }

    /// The rows and approximate bytes of each tablet. Rows in memory of a table that is divided at
    /// RANDOM are in one or another.
    ///
    /// # Errors
    /// As [`Self::by_partition`].
    pub fn by_tablet(&self) -> Result<HashMap<TabletId, (u64, u64)>> {
        let partitions = &self.table.partitions;
        let tablets = partitions.iter().flat_map(|one| &one.tablets);
        let mut sizes = tablets.map(|id| (*id, (0, 0))).collect::<HashMap<_, _>>();
        let mut add = |id: TabletId, rows: u64, bytes: u64| {
            if let Some(size) = sizes.get_mut(&id) {
                *size = (size.0 + rows, size.1 + bytes);
            }
        };
        for rowset in self.rowsets() {
            add(rowset.meta().tablet, rowset.rows_at(self.horizon), rowset.bytes());
        }
        let router = self.table.router();
        for batch in self.delta_batches()? {
            let rows = batch.num_rows();
            let row_bytes = batch.get_array_memory_size() as u64 / (rows as u64).max(1);
            let buckets = Places::new(&batch, &self.schema, &self.table.distribution, 0);
            let of_rows = match &router {
                Some(router) => router.of_batch(&batch, &self.schema),
                None => vec![Some(0); rows],
            };
            for (row, at) in of_rows.into_iter().enumerate() {
                let Some(at) = at else { continue };
                let partition = &partitions[at as usize];
                let bucket = buckets.bucket(row, partition.buckets()) as usize;
                add(partition.tablets[bucket], 1, row_bytes);
            }
        }
        Ok(sizes)
    }

    /// The rows in memory as columns of `schema`, converting those that have not been converted
    /// yet.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict the schema.
    pub fn delta_batches(&self) -> Result<Vec<RecordBatch>> {
        Ok(self.delta_parts()?.into_iter().map(|(_, batch)| batch).collect())
    }

    /// [`Self::delta_parts`] without rows that delete their key.
    ///
    /// # Errors
    /// As [`Self::delta_batches`].
    pub fn seen_parts(&self) -> Result<Vec<(Lsn, RecordBatch)>> {
        let mut parts = self.delta_parts()?;
        if let Some(deleted) = HiddenKeys::deleted(&self.schema) {
            for (_, batch) in &mut parts {
                *batch = deleted.seen(batch, deleted.columns());
            }
        }
        Ok(parts)
    }

    /// [`Self::delta_batches`] in the order of the log, each with an LSN at or below those of its
    /// rows and above all before it that are not of the same part; the session's own rows, which
    /// come last, have the greatest.
    ///
    /// # Errors
    /// As [`Self::delta_batches`].
    pub fn delta_parts(&self) -> Result<Vec<(Lsn, RecordBatch)>> {
        let mut parts = Vec::new();
        for rows in &self.delta {
            let mut batches = Vec::new();
            rows.batches(&self.schema, &mut batches)?;
            parts.extend(batches.into_iter().map(|batch| (rows.lsns.0, batch)));
        }
        if let Some(hidden) = &self.hidden {
            for (_, batch) in &mut parts {
                *batch = hidden.seen(batch, hidden.columns());
            }
        }
        parts.extend(self.overlay.iter().map(|batch| (Lsn(u64::MAX), batch.clone())));
        if let Some(within) = &self.within {
            for (_, batch) in &mut parts {
                *batch = within.seen(batch, &self.schema);
            }
        }
        Ok(parts)
    }
}
