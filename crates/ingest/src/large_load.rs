//! Large loads: rows are first written to synced files, then one small record refers to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use freshet_base::budget::Permit;
use freshet_base::task::{self, Lane};
use freshet_base::{Incarnation, Lsn, Result, SegmentId, TabletId, bail};
use freshet_meta::RowsetMeta;
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::{Partition, Table, TableSchema};
use freshet_storage::view::TableView;

use crate::append::{PartBody, PartLoad};
use crate::buffer::{row_count, too_many_rows};
use crate::flush::Flusher;
use crate::removals::{Encoded, divided};
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
    stretch: Vec<Piece>,
    stretch_bytes: usize,
    permits: Vec<Permit>,
    rows: u32,
    written: Vec<RowsetMeta>,
    in_flight: InFlight,
}

/// Some rows of a load.
struct Piece {
    bytes: Bytes,
    rows: u32,
    /// Which rows only remove their key; empty for none.
    deletes: Vec<bool>,
}

/// Batches of rows that only remove their key, and of those that are written.
type Divided = (Vec<RecordBatch>, Vec<RecordBatch>);

impl Piece {
    /// The rows of a stretch, in the order in which they act.
    fn batches(stretch: Vec<Self>, table: &Table, schema: &Arc<TableSchema>) -> Result<Divided> {
        if stretch.iter().all(|piece| piece.deletes.is_empty()) {
            let batch =
                |piece: Self| ColumnsBuilder::batch_of(schema, &piece.bytes, piece.rows as usize);
            return Ok((Vec::new(), stretch.into_iter().map(batch).collect()));
        }
        let (mut rows, mut deletes) = (Vec::new(), Vec::new());
        for piece in stretch {
            rows.extend_from_slice(&piece.bytes);
            let before = deletes.len();
            deletes.extend(piece.deletes);
            deletes.resize(before + piece.rows as usize, false);
        }
        let (removed, kept) = divided((table, schema), &rows, &deletes)?;
        let batch = |Encoded { bytes, rows }: Encoded| {
            let batch = || ColumnsBuilder::batch_of(schema, &bytes, rows as usize);
            (rows > 0).then(batch).into_iter().collect()
        };
        Ok((batch(removed), batch(kept)))
    }
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
            return Err(table.gone());
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
        self.push_piece(Piece { bytes, rows, deletes: Vec::new() }, permit).await
    }

    /// Adds encoded rows of a table with unique keys, of which those in `deletes` only remove their
    /// key.
    ///
    /// # Errors
    /// Those of [`Self::push`].
    pub async fn push_deleting(
        &mut self,
        bytes: Bytes,
        deletes: Vec<bool>,
        permit: Permit,
    ) -> Result<()> {
        let rows = row_count(deletes.len())?;
        self.push_piece(Piece { bytes, rows, deletes }, permit).await
    }

    async fn push_piece(&mut self, piece: Piece, permit: Permit) -> Result<()> {
        self.stretch_bytes += piece.bytes.len();
        self.stretch.push(piece);
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
        let mut part = self.part();
        if let PartBody::Rowsets { in_flight, .. } = &mut part.body {
            *in_flight = self.in_flight;
        }
        Ok(part)
    }

    /// What is written so far.
    pub fn written(&self) -> &[RowsetMeta] {
        &self.written
    }

    /// The part for a record that refers to what is written so far. The load keeps the files.
    pub fn part(&self) -> PartLoad {
        let rowsets = joined(self.written.clone());
        let rows = rowsets.iter().map(|rowset| rowset.rows).sum::<u64>();
        assert_eq!(rows, u64::from(self.rows), "rows of a large load are the rows in its files");
        PartLoad {
            table: Arc::clone(&self.table),
            schema: Arc::clone(&self.schema),
            began_in: self.incarnation,
            rows: self.rows,
            removals: 0,
            ids: None,
            looked_up: None,
            body: PartBody::Rowsets { metas: rowsets, in_flight: self.flusher.sweeper.in_flight() },
        }
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
        let (schema, table) = (Arc::clone(&self.schema), Arc::clone(&view.table));
        let batches = move || Piece::batches(stretch, &table, &schema);
        let (removed, kept) = task::run(self.flusher.store.pool(), batches).await?;
        // A row that comes behind one that removes its key stands in a later segment.
        self.write_batches(&view, removed, true).await?;
        self.write_batches(&view, kept, false).await?;
        self.stretch_bytes = 0;
        self.permits.clear();
        Ok(())
    }

    async fn write_batches(
        &mut self,
        view: &TableView,
        batches: Vec<RecordBatch>,
        removes: bool,
    ) -> Result<()> {
        if batches.is_empty() {
            return Ok(());
        }
        // The LSN is known only when the record is appended.
        let nowhere = (Lsn::ZERO, Lsn::ZERO);
        let in_flight = &mut self.in_flight;
        let lane = Lane::Foreground;
        let (flusher, schema) = (&self.flusher, &self.schema);
        let metas = flusher.write_rowsets(lane, view, schema, batches, nowhere, in_flight).await?;
        for mut meta in metas.into_iter().map(|written| written.rowset) {
            let rows = u32::try_from(meta.rows).map_err(|_| too_many_rows())?;
            self.rows = self.rows.checked_add(rows).ok_or_else(too_many_rows)?;
            meta.segments.iter_mut().for_each(|segment| segment.removes = removes);
            self.written.push(meta);
        }
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
