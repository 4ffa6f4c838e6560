//! What readers pin: all tables' files and deltas at one instant, swapped whole.

use std::sync::Arc;

use arc_swap::ArcSwap;
use arrow::array::RecordBatch;
use freshet_base::{ColumnId, Lsn, PartitionId, TableId, TabletId, Version};
use freshet_meta::Catalog;
use freshet_schema::{Table, TableSchema};
use imbl::HashMap;
use parking_lot::Mutex;

use crate::delta::{Bounds, Delta, DeltaPart, DeltaRead, DeltaRows, Freshness, Node};
use crate::error::Result;
use crate::rowset::Rowset;
use crate::segment::ColumnRange;

/// The files of a tablet, up to its table's flushed LSN.
#[derive(Clone)]
pub struct TabletFiles {
    /// The tablet.
    pub id: TabletId,
    /// The partition it is of.
    pub partition: PartitionId,
    /// Its rowsets, in the order of their LSNs, which do not overlap.
    pub rowsets: Vec<Arc<Rowset>>,
}

/// A table at one instant: files up to an LSN, delta from there on.
#[derive(Clone)]
pub struct TableView {
    /// Its definition.
    pub table: Arc<Table>,
    /// Its columns at `flushed`; an ALTER above it is in the delta.
    pub schema: Arc<TableSchema>,
    /// Records up to here are in `tablets`.
    pub flushed: Lsn,
    /// The table's version at `flushed`.
    pub version: Version,
    /// Its files.
    pub tablets: Vec<TabletFiles>,
    /// Records above `flushed`, and perhaps some below that are not looked at.
    pub delta: Arc<Delta>,
    /// Where in the delta to begin.
    pub head: Arc<Node>,
}

impl TableView {
    /// The tablets of a table that has no files.
    pub fn empty_tablets(table: &Table) -> Vec<TabletFiles> {
        let of_partition = |partition: &freshet_schema::Partition| {
            let id = partition.id;
            let empty = move |tablet| TabletFiles { id: tablet, partition: id, rowsets: vec![] };
            partition.tablets.iter().copied().map(empty).collect::<Vec<_>>()
        };
        table.partitions.iter().flat_map(of_partition).collect()
    }
}

/// All tables at one instant.
#[derive(Clone)]
pub struct StoreView {
    /// Names, users, definitions.
    pub catalog: Arc<Catalog>,
    /// The tables.
    pub tables: HashMap<TableId, Arc<TableView>>,
}

/// The one place where the current [`StoreView`] is.
pub struct Views {
    current: ArcSwap<StoreView>,
    writing: Mutex<()>,
}

impl Views {
    /// Starts with `view`.
    pub fn new(view: StoreView) -> Self {
        Self { current: ArcSwap::from_pointee(view), writing: Mutex::new(()) }
    }

    /// The view now.
    pub fn load(&self) -> Arc<StoreView> {
        self.current.load_full()
    }

    /// Replaces the view by what `change` makes of it, in one step for all readers. Changes
    /// follow each other; `change` must not call back.
    pub fn update(&self, change: impl FnOnce(&mut StoreView)) {
        let _one_at_a_time = self.writing.lock();
        let mut view = StoreView::clone(&self.current.load());
        change(&mut view);
        self.current.store(Arc::new(view));
    }

    /// Pins a snapshot: the view first and the horizon second, so that the delta of the view
    /// reaches at least from its files to the horizon, whatever is flushed meanwhile.
    pub fn pin(&self, freshness: Freshness, horizon: impl FnOnce() -> Lsn) -> Snapshot {
        let view = self.load();
        Snapshot { view, horizon: horizon(), freshness }
    }
}

/// Exactly the log up to its horizon.
#[derive(Clone)]
pub struct Snapshot {
    /// Files and deltas.
    pub view: Arc<StoreView>,
    /// Records above it are not seen.
    pub horizon: Lsn,
    /// Whether open groups are seen.
    pub freshness: Freshness,
}

impl Snapshot {
    /// A table as it is at the horizon; `None` where there is none, or no longer.
    pub fn table(&self, id: TableId) -> Option<TableSnapshot> {
        let view = self.view.tables.get(&id)?;
        let flushed = view.flushed;
        // Files above the horizon cannot be: a flush covers only what the horizon has passed.
        let horizon = self.horizon.max(flushed);
        let bounds = Bounds { flushed, horizon, freshness: self.freshness };
        let chunks = match view.delta.last() > flushed {
            true => view.delta.chunks(&view.head),
            false => Vec::new(),
        };
        let read = DeltaRead::new(&chunks, bounds);
        if read.dropped {
            return None;
        }
        let mut snapshot = TableSnapshot {
            table: Arc::clone(&view.table),
            schema: read.schema.unwrap_or_else(|| Arc::clone(&view.schema)),
            horizon,
            rowsets: Vec::new(),
            delta: Vec::new(),
            overlay: Vec::new(),
        };
        if read.cut.is_none() {
            let files = view.tablets.iter().flat_map(|tablet| tablet.rowsets.iter().cloned());
            snapshot.rowsets.extend(files);
        }
        for part in read.parts {
            match part {
                DeltaPart::Rows(rows) => snapshot.delta.push(rows),
                DeltaPart::Rowsets(_, rowsets) => snapshot.rowsets.extend(rowsets),
            }
        }
        Some(snapshot)
    }
}

/// A table at the horizon of a snapshot.
#[derive(Clone)]
pub struct TableSnapshot {
    /// Its definition.
    pub table: Arc<Table>,
    /// Its columns.
    pub schema: Arc<TableSchema>,
    /// What it was read at.
    pub horizon: Lsn,
    /// Its files, those of large loads included.
    pub rowsets: Vec<Arc<Rowset>>,
    delta: Vec<DeltaRows>,
    overlay: Vec<RecordBatch>,
}

impl TableSnapshot {
    /// The same with rows that only this session sees, as columns of `schema`.
    #[must_use]
    pub fn with_overlay(mut self, rows: impl IntoIterator<Item = RecordBatch>) -> Self {
        self.overlay.extend(rows);
        self
    }

    /// Rows, exactly.
    pub fn rows(&self) -> u64 {
        self.file_rows() + self.delta_rows()
    }

    /// Rows in files.
    pub fn file_rows(&self) -> u64 {
        self.rowsets.iter().map(|rowset| rowset.rows()).sum()
    }

    /// Rows in memory, the session's own included.
    pub fn delta_rows(&self) -> u64 {
        let own = self.overlay.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        self.delta.iter().map(DeltaRows::rows).sum::<u64>() + own
    }

    /// About how many bytes, files and memory.
    pub fn bytes(&self) -> u64 {
        let own = self.overlay.iter().map(|batch| batch.get_array_memory_size() as u64);
        let files = self.rowsets.iter().map(|rowset| rowset.bytes());
        files.chain(self.delta.iter().map(DeltaRows::bytes)).chain(own).sum()
    }

    /// The rows in memory as columns of `schema`. Converts what no query has converted before.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict the schema.
    pub fn delta_batches(&self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        for rows in &self.delta {
            rows.batches(&self.schema, &mut batches)?;
        }
        batches.extend(self.overlay.iter().cloned());
        Ok(batches)
    }

    /// The bounds of a column over all files; `None` where not known, or where rows are in
    /// memory, whose bounds nobody keeps.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`] of a footer.
    pub fn column_range(&self, column: ColumnId) -> Result<Option<ColumnRange>> {
        let mut range: Option<ColumnRange> = None;
        if self.delta_rows() > 0 {
            return Ok(None);
        }
        for rowset in &self.rowsets {
            let Some(next) = rowset.column_range(column)? else { return Ok(None) };
            let joined = match range {
                None => Some(next),
                Some(before) => before.union(&next),
            };
            let Some(joined) = joined else { return Ok(None) };
            range = Some(joined);
        }
        Ok(range)
    }
}

#[cfg(test)]
mod tests;
