//! Large loads: rows are first written to synced files, then one small record refers to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use freshet_base::budget::Permit;
use freshet_base::task::{self, Lane};
use freshet_base::{Incarnation, Lsn, Result, SegmentId, TabletId, bail, err};
use freshet_meta::RowsetMeta;
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::{Partition, Table, TableSchema};
use freshet_storage::view::TableView;

use crate::append::{PartBody, PartLoad};
use crate::buffer::too_many_rows;
use crate::flush::Flusher;
use crate::state::TableState;
use crate::sweep::InFlight;

/// A large load of one table while it is written.
pub(crate) struct LargeLoad {
    flusher: Arc<Flusher>,
    table: Arc<TableState>,
    schema: Arc<TableSchema>,
    /// The table as it is going to be, if its rows are for that.
    layout: Option<Arc<Table>>,
    incarnation: Incarnation,
    stretch: Vec<(Bytes, u32)>,
    stretch_bytes: usize,
    permits: Vec<Permit>,
    rows: u32,
    written: Vec<RowsetMeta>,
    in_flight: InFlight,
}

impl LargeLoad {
    /// Begins a large load.
    ///
    /// # Errors
    /// `NoSuchTable` when the table was dropped, `OutOfRoom` when its flush keeps failing.
    pub fn begin(
        flusher: &Arc<Flusher>,
        table: &Arc<TableState>,
        schema: &Arc<TableSchema>,
    ) -> Result<Self> {
        // Checked before any files are written, and unlike at the append regardless of how much
        // memory the table holds.
        table.check_flushes()?;
        let group = table.lock();
        if group.is_gone() {
            return Err(err!(NoSuchTable, "Table '{}' doesn't exist", table.name()));
        }
        Ok(Self {
            flusher: Arc::clone(flusher),
            table: Arc::clone(table),
            schema: Arc::clone(schema),
            layout: None,
            incarnation: group.log().incarnation(),
            stretch: Vec::new(),
            stretch_bytes: 0,
            permits: Vec::new(),
            rows: 0,
            written: Vec::new(),
            in_flight: flusher.sweeper.in_flight(),
        })
    }

    /// Writes its rows to the partitions that the table is going to have.
    #[must_use]
    pub fn into_layout(mut self, table: Arc<Table>) -> Self {
        self.layout = Some(table);
        self
    }

    /// Adds encoded rows with their memory, and writes them to files once `stretch_bytes` have
    /// accumulated.
    ///
    /// # Errors
    /// When files cannot be written. The caller then drops the load, and the sweep deletes its
    /// files.
    pub async fn push(&mut self, bytes: Bytes, rows: u32, permit: Permit) -> Result<()> {
        self.rows = self.rows.checked_add(rows).ok_or_else(too_many_rows)?;
        self.stretch_bytes += bytes.len();
        self.stretch.push((bytes, rows));
        self.permits.push(permit);
        let is_full = self.stretch_bytes as u64 >= self.flusher.store.config.stretch_bytes.bytes();
        if is_full { self.write().await } else { Ok(()) }
    }

    /// Writes the remaining rows and returns the part for the load's record.
    ///
    /// # Errors
    /// When files cannot be written.
    pub async fn finish(mut self) -> Result<PartLoad> {
        self.write().await?;
        let rowsets = joined(self.written);
        let rows = rowsets.iter().map(|rowset| rowset.rows).sum::<u64>();
        assert_eq!(rows, u64::from(self.rows), "rows of a large load are the rows in its files");
        Ok(PartLoad {
            table: self.table,
            schema: self.schema,
            began_in: self.incarnation,
            rows: self.rows,
            removals: 0,
            ids: None,
            looked_up: None,
            body: PartBody::Rowsets { metas: rowsets, in_flight: self.in_flight },
        })
    }

    /// The table with the tablets of the incarnation in which the load began. They are the table's
    /// once the TRUNCATE before the load has settled.
    async fn view(&self) -> Result<Arc<TableView>> {
        if let Some(table) = &self.layout {
            let view = self.flusher.store.tables.view(self.table.id);
            let Some(view) = view.filter(|_| !self.table.is_dropped()) else {
                bail!(NoSuchTable, "Table '{}' doesn't exist", self.table.name());
            };
            let tablets = Arc::new(TableView::empty_tablets(table));
            return Ok(Arc::new(TableView {
                table: Arc::clone(table),
                tablets,
                ..TableView::clone(&view)
            }));
        }
        self.flusher.settler.events_settled(&self.table).await;
        self.flusher.settler.save_tablets(&self.table).await?;
        let view = self.flusher.store.tables.view(self.table.id);
        let Some(view) = view.filter(|_| !self.table.is_dropped()) else {
            bail!(NoSuchTable, "Table '{}' doesn't exist", self.table.name());
        };
        let is_same = |partition: &Partition| partition.incarnation == self.incarnation;
        if self.table.incarnation() != self.incarnation
            || !view.table.partitions.iter().all(is_same)
        {
            bail!(
                SnapshotTooOld,
                "table '{}' was truncated while the load ran; nothing was loaded, send it again",
                self.table.name()
            );
        }
        Ok(view)
    }

    /// Writes the accumulated rows.
    ///
    /// # Errors
    /// When files cannot be written, or the table was truncated or dropped meanwhile.
    pub async fn write(&mut self) -> Result<()> {
        let stretch = std::mem::take(&mut self.stretch);
        if stretch.is_empty() {
            return Ok(());
        }
        self.flusher.store.disk.may_grow()?;
        // Its files have ids, which the record of the term reserves.
        self.flusher.term.begun().await?;
        // All its files end up in one rowset per tablet, so it waits for merges only once.
        if self.written.is_empty() {
            self.flusher.compactor.let_catch_up(&[self.table.id]).await;
        }
        let view = self.view().await?;
        let schema = Arc::clone(&self.schema);
        let batches = task::run(self.flusher.store.pool(), move || {
            stretch
                .into_iter()
                .map(|(bytes, rows)| {
                    let mut columns = ColumnsBuilder::new(&schema, rows as usize);
                    columns.append(&bytes, rows as usize);
                    columns.finish()
                })
                .collect::<Vec<_>>()
        })
        .await;
        // The LSN is known only when the record is appended.
        let nowhere = (Lsn::ZERO, Lsn::ZERO);
        let in_flight = &mut self.in_flight;
        let lane = Lane::Foreground;
        let (flusher, schema) = (&self.flusher, &self.schema);
        let metas = flusher.write_rowsets(lane, &view, schema, batches, nowhere, in_flight).await?;
        self.written.extend(metas.into_iter().map(|written| written.rowset));
        self.stretch_bytes = 0;
        self.permits.clear();
        Ok(())
    }
}

/// Combines the rowsets of each tablet into one with all their segments, so that each tablet has
/// exactly one rowset per record.
fn joined(written: Vec<RowsetMeta>) -> Vec<RowsetMeta> {
    let mut tablets: BTreeMap<TabletId, RowsetMeta> = BTreeMap::new();
    for meta in written {
        let Some(rowset) = tablets.get_mut(&meta.tablet) else {
            tablets.insert(meta.tablet, meta);
            continue;
        };
        rowset.rows += meta.rows;
        for mut segment in meta.segments {
            let last = rowset.segments.last().expect("a rowset has a segment");
            segment.id = SegmentId(last.id.get() + 1);
            rowset.segments.push(segment);
        }
    }
    tablets.into_values().collect()
}
