//! Settling: metadata and files catch up with the log, table by table.
//!
//! One settling at a time per table, in LSN order: first the truncations that metadata does not
//! reflect yet, then the rows up to the cut. Each commit says from which LSN to which; the log
//! has already decided, so a commit that cannot be made now (no room) is made later.

use std::convert::Infallible;
use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::task::{self, Lane};
use freshet_base::{Error, ErrorCode, Lsn, Result, Version, err};
use freshet_meta::{Publish, PublishOutcome, RowsetMeta, Truncate};
use freshet_schema::TableSchema;
use freshet_storage::Rowset;
use freshet_storage::delta::{Bounds, DeltaPart, DeltaRead, DeltaRows, Freshness};
use freshet_storage::flush::{FlushInput, flush};
use freshet_storage::flush_policy::FlushReason;
use freshet_storage::view::TableView;

use crate::engine::Engine;
use crate::group::{Filed, OpenGroup, PendingCut};
use crate::record::{self, EndStamp, GroupEndReason, Kind};
use crate::state::TableState;
use crate::sweep::InFlight;

/// Room of a record that ends a group or is a barrier over a few tables.
pub(crate) const SMALL_RECORD_BYTES: usize = 256;

impl Engine {
    /// Settles a table as soon as merges leave room for more rowsets.
    ///
    /// # Errors
    /// Those of `settle`.
    pub(crate) async fn flush(
        self: &Arc<Self>,
        table: &Arc<TableState>,
        why: FlushReason,
    ) -> Result<()> {
        self.let_merges_catch_up(&[table.id]).await;
        self.settle(table, why).await
    }

    /// Brings everything of a table that is in the log now into files.
    ///
    /// # Errors
    /// When files or metadata cannot be written; rows stay in the delta and in the log, and
    /// the next call tries again.
    pub async fn settle(self: &Arc<Self>, table: &Arc<TableState>, why: FlushReason) -> Result<()> {
        let _settling = table.settling.lock().await;
        let (began, began_micros) = (self.clock().now(), self.clock().wall_micros());
        let (cut, version) = self.cut(table)?;
        self.wal().horizon().wait(cut).await;
        self.settle_barriers_locked(table).await?;
        let dropped = table.log.lock().dropped.is_some();
        let view = self.views().load().tables.get(&table.id).cloned();
        // Nobody reads the rows of a table that is dropped.
        let Some(view) = view.filter(|view| !dropped && view.flushed < cut) else {
            return Ok(());
        };
        let tablets = view.tablets.iter().map(|tablet| tablet.id);
        assert!(tablets.eq(view.table.tablets()), "a flush writes to the tablets that are read");
        let read = read_up_to(&view, cut);
        let schema = read.schema.clone().unwrap_or_else(|| Arc::clone(&view.schema));
        let mut in_flight = self.in_flight();
        let rowsets = self.write_files(&view, &schema, read.parts, &mut in_flight).await?;
        let written = self.clock().now();
        self.publish(table, &view, cut, version, &schema, rowsets).await?;
        let published = self.clock().now();
        self.metrics().flushes.with_label_values(&[why.name()]).inc();
        self.metrics().flush_seconds.observe(published.saturating_sub(began).as_secs_f64());
        let (flush, publish) = (written.saturating_sub(began), published.saturating_sub(written));
        let filed = Filed { began_micros, flush, publish };
        self.history().filed(table.id, (view.version, version), filed);
        Ok(())
    }

    /// Brings what the log's barriers did to a table into metadata: ALTER, TRUNCATE, DROP.
    ///
    /// # Errors
    /// When metadata cannot be written; it has happened all the same, and is tried again.
    pub(crate) async fn settle_barriers(self: &Arc<Self>, table: &Arc<TableState>) -> Result<()> {
        let _settling = table.settling.lock().await;
        self.settle_barriers_locked(table).await
    }

    /// The same for who holds `settling`.
    pub(crate) async fn settle_barriers_locked(
        self: &Arc<Self>,
        table: &Arc<TableState>,
    ) -> Result<()> {
        let last = table.log.lock().last_barrier();
        // Metadata follows the log: it tells of no barrier that a power cut could undo.
        self.wal().horizon().wait(last).await;
        if last > Lsn::ZERO {
            self.failpoints().pass("barrier-before-publish").map_err(|e| Error::io("DDL", e))?;
        }
        let dropped = table.log.lock().dropped.is_some();
        if dropped {
            return self.settle_drop(table).await;
        }
        self.settle_altered(table, last).await?;
        self.settle_cuts(table, last).await
    }

    async fn settle_altered(self: &Arc<Self>, table: &TableState, up_to: Lsn) -> Result<()> {
        let altered = table.log.lock().altered.clone();
        let Some((schema, lsn)) = altered.filter(|(_, lsn)| *lsn <= up_to) else {
            return Ok(());
        };
        let (engine, id) = (Arc::clone(self), table.id);
        let adopted =
            task::run(&**self.pool(), move || engine.meta().adopt_schema(id, &schema, lsn)).await;
        match adopted {
            // A DROP was faster.
            Err(error) if error.code() == ErrorCode::NoSuchTable => return Ok(()),
            adopted => adopted?,
        };
        table.log.lock().altered = None;
        self.show_table(id);
        Ok(())
    }

    /// Ends the open group and cuts the delta behind its end, so that files hold whole groups.
    fn cut(&self, table: &TableState) -> Result<(Lsn, Version)> {
        loop {
            if let Some(cut) = self.end_group(table, GroupEndReason::Flush, |_| true)? {
                return Ok(cut);
            }
            // Pushes of this table are held off while its state is locked.
            let log = table.log.lock();
            // A group that was opened since is ended first.
            if log.open.is_none() {
                return Ok((table.delta.cut(), log.version));
            }
        }
    }

    /// Ends the open group if `wanted`, with a record of its own. Returns the cut behind it.
    pub(crate) fn end_group(
        &self,
        table: &TableState,
        reason: GroupEndReason,
        wanted: impl Fn(&OpenGroup) -> bool,
    ) -> Result<Option<(Lsn, Version)>> {
        let own_room = match table.log.lock().open.as_mut() {
            Some(open) if wanted(open) => open.end_room.take(),
            _ => return Ok(None),
        };
        // Another may have taken it a moment ago, to end the group: one of the two will.
        let room = own_room.or_else(|| self.wal().try_reserve_privileged(SMALL_RECORD_BYTES));
        let room = room.ok_or_else(|| err!(OutOfRoom, "the log has no room left, retry"))?;
        let ended = self.wal().append(Kind::GroupEnd as u8, &[][..], room, |lsn, stamp| {
            let mut log = table.log.lock();
            if !log.open.as_ref().is_some_and(&wanted) {
                return Err(None::<Infallible>);
            }
            let now = self.clock().wall_micros();
            let ended = log.end_open(reason, now).expect("it is open, as just seen");
            let (txn, version) = (ended.txn, ended.version);
            let end = EndStamp { table: table.id, txn, version, reason: reason as u8 };
            record::write_end_stamp(stamp, &end);
            log.last_lsn = lsn;
            log.tell_end(txn, lsn);
            table.delta.end_group(txn, lsn);
            Ok((ended, table.delta.cut()))
        });
        match ended {
            Ok((_, (ended, cut))) => {
                let version = ended.version;
                self.group_ended(ended);
                Ok(Some((cut, version)))
            }
            Err(_) => Ok(None),
        }
    }

    /// Writes the rows of each stretch between large loads into rowsets, and takes the large
    /// loads' own along; all in LSN order.
    async fn write_files(
        &self,
        view: &TableView,
        schema: &Arc<TableSchema>,
        parts: Vec<DeltaPart>,
        in_flight: &mut InFlight,
    ) -> Result<Vec<Arc<Rowset>>> {
        let mut rowsets = Vec::new();
        let mut stretch = Vec::new();
        for part in parts {
            match part {
                DeltaPart::Rows(rows) => stretch.push(rows),
                DeltaPart::Rowsets(_, loaded) => {
                    let written = std::mem::take(&mut stretch);
                    rowsets.extend(self.write_stretch(view, schema, written, in_flight).await?);
                    rowsets.extend(loaded);
                }
            }
        }
        rowsets.extend(self.write_stretch(view, schema, stretch, in_flight).await?);
        Ok(rowsets)
    }

    async fn write_stretch(
        &self,
        view: &TableView,
        schema: &Arc<TableSchema>,
        mut stretch: Vec<DeltaRows>,
        in_flight: &mut InFlight,
    ) -> Result<Vec<Arc<Rowset>>> {
        let mut rowsets = Vec::new();
        while !stretch.is_empty() {
            let bytes = stretch.iter().map(DeltaRows::bytes);
            let rest = stretch.split_off(at_once(bytes, self.config().sorted_bytes_max.bytes()));
            let part = std::mem::replace(&mut stretch, rest);
            rowsets.extend(self.write_part(view, schema, part, in_flight).await?);
        }
        Ok(rowsets)
    }

    async fn write_part(
        &self,
        view: &TableView,
        schema: &Arc<TableSchema>,
        part: Vec<DeltaRows>,
        in_flight: &mut InFlight,
    ) -> Result<Vec<Arc<Rowset>>> {
        let (first, last) = part.first().zip(part.last()).expect("a part has rows");
        let lsns = (first.lsns.0, last.lsns.1);
        let rows = part.iter().map(DeltaRows::rows).sum::<u64>();
        let columns = Arc::clone(schema);
        let lane = Lane::Background;
        let batches = task::run_in(&**self.pool(), lane, move || roll(&part, &columns)).await?;
        let metas = self.write_rowsets(lane, view, schema, batches, lsns, in_flight).await?;
        let written = metas.iter().map(|meta| meta.rows).sum::<u64>();
        assert_eq!(written, rows, "rows handed to a flush are the rows in its files");
        Ok(metas.into_iter().map(|meta| Arc::new(self.open_rowset(view, meta, schema))).collect())
    }

    /// Writes batches of `schema` into one synced rowset per tablet that has rows.
    pub(crate) async fn write_rowsets(
        &self,
        lane: Lane,
        view: &TableView,
        schema: &Arc<TableSchema>,
        batches: Vec<RecordBatch>,
        lsns: (Lsn, Lsn),
        in_flight: &mut InFlight,
    ) -> Result<Vec<RowsetMeta>> {
        self.failpoints().pass("flush-before-write").map_err(|e| Error::io("flush", e))?;
        let input = FlushInput {
            lane,
            table: Arc::clone(&view.table),
            schema: Arc::clone(schema),
            batches,
            lsns,
            // Spreads the rows of RANDOM tables evenly over flushes.
            turn: view.tablets.iter().flat_map(|t| &t.rowsets).map(|r| r.rows()).sum(),
        };
        // Ids are taken before, where running out of them can still be an error.
        let ids = view.tablets.iter().map(|_| self.meta().ids().rowset());
        let mut ids = ids.collect::<Result<Vec<_>>>()?;
        ids.iter().for_each(|rowset| in_flight.add(*rowset));
        let next_id = || ids.pop().expect("there is an id for each tablet");
        let segment_bytes_max = self.config().segment_bytes_max.bytes();
        let metas = flush(self.files(), input, segment_bytes_max, next_id).await?;
        self.failpoints().pass("flush-after-write").map_err(|e| Error::io("flush", e))?;
        Ok(metas)
    }

    /// The rowset of files just written for a table.
    pub(crate) fn open_rowset(
        &self,
        view: &TableView,
        meta: RowsetMeta,
        schema: &Arc<TableSchema>,
    ) -> Rowset {
        let dir = self.data_dir().tablet(view.table.id, meta.tablet);
        Rowset::new(self.fs(), &dir, meta, schema)
    }

    /// Commits a flush to metadata and swaps the view in one step.
    async fn publish(
        self: &Arc<Self>,
        table: &Arc<TableState>,
        view: &TableView,
        cut: Lsn,
        version: Version,
        schema: &Arc<TableSchema>,
        rowsets: Vec<Arc<Rowset>>,
    ) -> Result<()> {
        let publish = Publish {
            table: table.id,
            from: view.flushed,
            to: cut,
            version,
            rowsets: rowsets.iter().map(|rowset| rowset.meta().clone()).collect(),
        };
        let engine = Arc::clone(self);
        let outcome = task::run(&**self.pool(), move || engine.meta().publish(&publish)).await?;
        self.failpoints().pass("flush-after-publish").map_err(|e| Error::io("publish", e))?;
        match outcome {
            PublishOutcome::Applied(()) => {}
            // A table that is gone has nothing to show; the sweep removes its files.
            PublishOutcome::Gone => return Ok(()),
            PublishOutcome::Stale { stands } => {
                panic!("table {} is settled by one at a time, yet stands at {stands}", table.id)
            }
        }
        table.grow(self.clock().now());
        self.views().settle(&table.delta, cut, |store, head| {
            let Some(current) = store.tables.get(&table.id) else { return };
            let mut next = TableView::clone(current);
            next.flushed = cut;
            next.version = version;
            next.schema = Arc::clone(schema);
            next.head = head;
            add_rowsets(&mut next, rowsets);
            store.tables.insert(table.id, Arc::new(next));
        });
        Ok(())
    }

    /// Brings truncations up to `up_to` into metadata.
    ///
    /// # Errors
    /// When metadata cannot be written; the truncation has happened and is tried again.
    async fn settle_cuts(self: &Arc<Self>, table: &Arc<TableState>, up_to: Lsn) -> Result<()> {
        loop {
            let first = table.log.lock().cuts.first().copied();
            let Some(pending) = first.filter(|pending| pending.lsn <= up_to) else {
                return Ok(());
            };
            self.settle_cut(table, pending).await?;
            table.log.lock().cuts.remove(0);
        }
    }

    async fn settle_cut(
        self: &Arc<Self>,
        table: &Arc<TableState>,
        pending: PendingCut,
    ) -> Result<()> {
        let Some(view) = self.views().load().tables.get(&table.id).cloned() else {
            return Ok(());
        };
        let partitions = view.table.partitions.iter();
        let truncate = Truncate {
            table: table.id,
            from: view.flushed,
            to: pending.lsn,
            version: pending.version,
            incarnations: partitions.map(|p| (p.id, pending.incarnation)).collect(),
        };
        let engine = Arc::clone(self);
        let outcome = task::run(&**self.pool(), move || engine.meta().truncate(&truncate)).await?;
        match outcome {
            PublishOutcome::Applied(_) => self.show_truncated(table, &view, pending),
            PublishOutcome::Gone => {}
            PublishOutcome::Stale { stands } => {
                panic!("table {} is settled by one at a time, yet stands at {stands}", table.id)
            }
        }
        Ok(())
    }

    fn show_truncated(&self, table: &TableState, before: &TableView, pending: PendingCut) {
        let read = read_up_to(before, pending.lsn);
        // Sealed, so that the rows of before give back their memory.
        table.delta.cut();
        self.views().settle(&table.delta, pending.lsn, |store, head| {
            store.catalog = self.meta().catalog();
            let Some(table) = store.catalog.table_by_id(table.id) else { return };
            let Some(current) = store.tables.get(&table.id) else { return };
            let mut next = TableView::clone(current);
            // Other changes may have followed in metadata; the tablets are those of this one.
            next.table = Arc::clone(table);
            next.schema = read.schema.unwrap_or_else(|| Arc::clone(&before.schema));
            next.flushed = pending.lsn;
            next.version = pending.version;
            next.tablets = TableView::empty_tablets(table);
            next.head = head;
            store.tables.insert(table.id, Arc::new(next));
        });
        let mut gone = before.rowsets();
        gone.retain(|rowset| rowset.meta().lsn_last <= pending.lsn);
        self.sweeper.retire(&gone);
    }
}

/// What a table's delta holds above its files, up to `lsn`.
fn read_up_to(view: &TableView, lsn: Lsn) -> DeltaRead {
    let bounds = Bounds { flushed: view.flushed, horizon: lsn, freshness: Freshness::Committed };
    DeltaRead::new(&view.delta.chunks(&view.head), bounds)
}

/// How many of the rows that have so many bytes each are sorted at once: at least the first.
fn at_once(bytes: impl Iterator<Item = u64>, bytes_max: u64) -> usize {
    let mut sum = 0;
    let fits = |bytes: &u64| {
        sum += bytes;
        sum <= bytes_max
    };
    bytes.take_while(fits).count().max(1)
}

fn roll(stretch: &[DeltaRows], schema: &TableSchema) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for rows in stretch {
        rows.batches(schema, &mut batches)?;
    }
    Ok(batches)
}

/// Adds published rowsets to their tablets, which keep them in LSN order.
fn add_rowsets(view: &mut TableView, rowsets: Vec<Arc<Rowset>>) {
    for rowset in rowsets {
        let tablet = view.tablets.iter_mut().find(|tablet| tablet.id == rowset.meta().tablet);
        let tablet = tablet.expect("a flush writes to tablets that the table has");
        let last = tablet.rowsets.last().map(|before| before.meta().lsn_last);
        assert!(last < Some(rowset.meta().lsn_first), "rowsets of a tablet follow each other");
        tablet.rowsets.push(rowset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sorted_at_once_is_bounded_and_never_nothing() {
        let at_once = |bytes: &[u64]| at_once(bytes.iter().copied(), 256);
        assert_eq!(at_once(&[1; 10]), 10);
        assert_eq!(at_once(&[64; 10]), 4);
        assert_eq!(at_once(&[257, 1]), 1);
    }
}
