//! Settling: metadata and files of a table catch up with the log.
//!
//! Each table is settled by one task at a time, in LSN order: first the barriers that metadata does
//! not reflect yet, then the frozen rows. Each commit contains its range of LSNs. The log is
//! authoritative, so a commit that is impossible now (no space) is made later.

use std::convert::Infallible;
use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::task::{self, Lane};
use freshet_base::{Error, ErrorCode, Incarnation, Lsn, Result, TableId, Version, err};
use freshet_meta::{MetaEvent, Publish, PublishOutcome, RowsetMeta, Truncate};
use freshet_schema::TableSchema;
use freshet_storage::Rowset;
use freshet_storage::delta::{DeltaPart, DeltaRows};
use freshet_storage::flush::{FlushInput, flush};
use freshet_storage::flush_policy::FlushReason;
use freshet_storage::fold::{Barrier, Event, Unsettled};
use freshet_storage::view::TableView;
use freshet_wal::Room;

use crate::ddl::database_name;
use crate::engine::Engine;
use crate::group::{Filed, OpenGroup};
use crate::metadata::Shown;
use crate::record::{self, EndStamp, GroupEndReason, Kind};
use crate::state::TableState;
use crate::sweep::InFlight;

/// Log space for a record that ends a group, or a barrier of a few tables.
pub(crate) const SMALL_RECORD_BYTES: usize = 256;

impl Engine {
    /// Settles a table once merges have caught up and there is log space for the record of the
    /// flush.
    ///
    /// # Errors
    /// Those of [`Self::settle`].
    pub(crate) async fn flush(
        self: &Arc<Self>,
        table: &Arc<TableState>,
        why: FlushReason,
    ) -> Result<()> {
        let _appends = self.appends();
        self.let_merges_catch_up(&[table.id]).await;
        let room = match table.delta.stats().entries {
            0 => None,
            // Reserved before the table's `settling` lock is taken, since recycling waits for that
            // lock.
            _ => Some(self.wait_for_event_room().await?),
        };
        self.settle_with(table, why, room).await
    }

    /// Writes all rows of a table that are in the log now to files. Does not wait for log space.
    ///
    /// # Errors
    /// When files or metadata cannot be written. Rows stay in the delta and in the log, and the
    /// next call retries.
    pub async fn settle(self: &Arc<Self>, table: &Arc<TableState>, why: FlushReason) -> Result<()> {
        self.settle_with(table, why, None).await
    }

    /// Like [`Self::settle`], with log space for the record of the flush if the caller has reserved
    /// it.
    async fn settle_with(
        self: &Arc<Self>,
        table: &Arc<TableState>,
        why: FlushReason,
        room: Option<Room>,
    ) -> Result<()> {
        let _settling = table.settling.lock().await;
        self.events_settled(table).await;
        let (began, began_micros) = (self.clock().now(), self.clock().wall_micros());
        let (frozen, version) = self.freeze(table)?;
        self.wal().horizon().wait(frozen).await;
        self.settle_barriers_locked(table).await?;
        let dropped = table.is_dropped();
        if dropped {
            self.drop_is_durable(table).await;
        }
        let view = self.views().load().tables.get(&table.id).cloned();
        // Nobody reads the rows of a dropped table.
        let Some(view) = view.filter(|view| !dropped && view.flushed < frozen) else {
            return Ok(());
        };
        let tablets = view.tablets.iter().map(|tablet| tablet.id);
        assert!(tablets.eq(view.table.tablets()), "a flush writes to the tablets that are read");
        let read = view.read_up_to(frozen);
        let schema = read.schema.clone().unwrap_or_else(|| Arc::clone(&view.schema));
        let room = room.map_or_else(|| self.room_of_event(), Ok)?;
        let mut in_flight = self.in_flight();
        let rowsets = self.write_files(&view, &schema, read.parts, &mut in_flight).await?;
        let written = self.clock().now();
        let publish = Publish {
            table: table.id,
            from: view.flushed,
            to: frozen,
            version,
            schema_version: schema.version,
            rowsets: rowsets.iter().map(|rowset| rowset.meta().clone()).collect(),
        };
        let event = Event::Publish { version, schema, rowsets };
        let shown = Shown { table: Arc::clone(table), at: frozen, event, in_flight };
        let publish = MetaEvent::Publish(publish);
        if !self.append_event(publish, room, shown).await? {
            // The sweep will delete the files.
            return match table.is_dropped() {
                true => Ok(()),
                false => Err(err!(Internal, "a flush up to {frozen} was overtaken; tried again")),
            };
        }
        self.failpoints().pass("flush-after-publish").map_err(|e| Error::io("publish", e))?;
        table.grow(self.clock().now());
        let published = self.clock().now();
        self.metrics().flushes.with_label_values(&[why.name()]).inc();
        self.metrics().flush_seconds.observe(published.saturating_sub(began).as_secs_f64());
        let (flush, publish) = (written.saturating_sub(began), published.saturating_sub(written));
        let filed = Filed { began_micros, flush, publish };
        self.history().filed(table.id, (view.version, version), filed);
        Ok(())
    }

    /// Applies the barriers of a table to metadata: ALTER, TRUNCATE and DROP.
    ///
    /// # Errors
    /// When metadata cannot be written. The barriers hold nevertheless, and metadata is retried.
    pub(crate) async fn settle_barriers(self: &Arc<Self>, table: &Arc<TableState>) -> Result<()> {
        let _settling = table.settling.lock().await;
        self.events_settled(table).await;
        self.settle_barriers_locked(table).await
    }

    /// Like [`Self::settle_barriers`], for callers that hold `settling`.
    pub(crate) async fn settle_barriers_locked(
        self: &Arc<Self>,
        table: &Arc<TableState>,
    ) -> Result<()> {
        let last = table.lock().log().last_barrier();
        // Metadata must not contain a barrier that a power failure could undo.
        self.wal().horizon().wait(last).await;
        if last > Lsn::ZERO {
            self.failpoints().pass("barrier-before-publish").map_err(|e| Error::io("DDL", e))?;
        }
        if table.is_dropped() {
            self.drop_is_durable(table).await;
            return self.settle_drop(table).await;
        }
        loop {
            let oldest = table.lock().log().unsettled().next().cloned();
            let Some(oldest) = oldest.filter(|unsettled| unsettled.lsn <= last) else {
                return Ok(());
            };
            match &oldest.barrier {
                Barrier::Alter(schema) => self.settle_alter(table.id, oldest.lsn, schema).await?,
                Barrier::Truncate { incarnation } => {
                    self.settle_truncate(table.id, &oldest, *incarnation).await?;
                }
                Barrier::Drop { .. } => return self.settle_drop(table).await,
            }
            let Unsettled { lsn, version, barrier } = oldest;
            self.show(lsn, table.id, Event::Barrier { barrier, ended: None, version });
            table.lock().settled(lsn);
        }
    }

    /// Waits until the DROP of a table, its last record, is durable. Until then a power failure may
    /// restore the table with its rows, so they must remain in the log.
    async fn drop_is_durable(&self, table: &TableState) {
        let dropped_at = table.lock().log().applied();
        self.wal().horizon().wait(dropped_at).await;
    }

    async fn settle_alter(
        self: &Arc<Self>,
        table: TableId,
        at: Lsn,
        schema: &Arc<TableSchema>,
    ) -> Result<()> {
        let (engine, schema) = (Arc::clone(self), Arc::clone(schema));
        let adopt = move || engine.meta().adopt_schema(table, &schema, at);
        match task::run(&**self.pool(), adopt).await {
            // The table was dropped meanwhile.
            Err(error) if error.code() == ErrorCode::NoSuchTable => Ok(()),
            adopted => adopted.map(drop),
        }
    }

    /// Ends the open group and freezes the delta after its end, so that files contain only
    /// complete groups.
    fn freeze(&self, table: &TableState) -> Result<(Lsn, Version)> {
        loop {
            if let Some(frozen) = self.end_group(table, GroupEndReason::Flush, |_| true)? {
                return Ok(frozen);
            }
            // Nothing is added to the delta while the table's state is locked.
            let group = table.lock();
            // A group opened since then must end first.
            if group.open().is_none() {
                return Ok((table.delta.freeze(), group.log().version()));
            }
        }
    }

    /// Ends the open group with a record if `wanted` accepts it. Returns the LSN up to which the
    /// delta is frozen, and the version.
    pub(crate) fn end_group(
        &self,
        table: &TableState,
        reason: GroupEndReason,
        wanted: impl Fn(&OpenGroup) -> bool,
    ) -> Result<Option<(Lsn, Version)>> {
        let Some(own_room) = table.lock().take_end_room(&wanted) else { return Ok(None) };
        // Another task may just have taken the space to end the group; one of the two will end it.
        let room = own_room.or_else(|| self.wal().try_reserve_privileged(SMALL_RECORD_BYTES));
        let room = room.ok_or_else(|| err!(OutOfRoom, "the log has no room left, retry"))?;
        let ended = self.wal().append(Kind::GroupEnd as u8, &[][..], room, |lsn, stamp| {
            let mut group = table.lock();
            if !group.open().is_some_and(&wanted) {
                return Err(None::<Infallible>);
            }
            let now = self.clock().wall_micros();
            let ended = group.end_open(reason, now).expect("it is open, as just seen");
            let (txn, version) = (ended.txn, ended.version);
            let end = EndStamp { table: table.id, txn, version, reason: reason as u8 };
            record::write_end_stamp(stamp, &end);
            group.enter(lsn, Event::GroupEnd { txn, version });
            Ok((ended, table.delta.freeze()))
        });
        match ended {
            Ok((_, (ended, frozen))) => {
                let version = ended.version;
                self.group_ended(ended);
                Ok(Some((frozen, version)))
            }
            Err(_) => Ok(None),
        }
    }

    /// Writes the rows between large loads to rowsets, and includes the rowsets of the large loads;
    /// all in LSN order.
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
        let batches =
            task::run_in(&**self.pool(), lane, move || to_columns(&part, &columns)).await?;
        let metas = self.write_rowsets(lane, view, schema, batches, lsns, in_flight).await?;
        let written = metas.iter().map(|meta| meta.rows).sum::<u64>();
        assert_eq!(written, rows, "rows handed to a flush are the rows in its files");
        Ok(metas.into_iter().map(|meta| Arc::new(self.open_rowset(view, meta, schema))).collect())
    }

    /// Writes batches of `schema` to one synced rowset for each tablet that has rows.
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
            // Distributes the rows of RANDOM tables evenly over flushes.
            turn: view.tablets.iter().flat_map(|t| &t.rowsets).map(|r| r.rows()).sum(),
        };
        // Ids are reserved first, while running out of them is still an error that can be returned.
        let ids = view.tablets.iter().map(|_| self.meta().ids().rowset());
        let mut ids = ids.collect::<Result<Vec<_>>>()?;
        ids.iter().for_each(|rowset| in_flight.add(*rowset));
        let next_id = || ids.pop().expect("there is an id for each tablet");
        let segment_bytes_max = self.config().segment_bytes_max.bytes();
        let metas = flush(self.files(), input, segment_bytes_max, next_id).await?;
        self.failpoints().pass("flush-after-write").map_err(|e| Error::io("flush", e))?;
        Ok(metas)
    }

    /// The rowset of files just written.
    pub(crate) fn open_rowset(
        &self,
        view: &TableView,
        meta: RowsetMeta,
        schema: &Arc<TableSchema>,
    ) -> Rowset {
        let dir = self.data_dir().tablet(view.table.id, meta.tablet);
        Rowset::new(self.segments(), &dir, meta, schema)
    }

    async fn settle_truncate(
        self: &Arc<Self>,
        table: TableId,
        pending: &Unsettled,
        incarnation: Incarnation,
    ) -> Result<()> {
        let Some(view) = self.views().load().tables.get(&table).cloned() else {
            return Ok(());
        };
        let partitions = view.table.partitions.iter();
        let truncate = Truncate {
            table,
            from: view.flushed,
            to: pending.lsn,
            version: pending.version,
            incarnations: partitions.map(|p| (p.id, incarnation)).collect(),
        };
        let engine = Arc::clone(self);
        let outcome = task::run(&**self.pool(), move || engine.meta().truncate(&truncate)).await?;
        match outcome {
            PublishOutcome::Applied(_) | PublishOutcome::Gone => Ok(()),
            PublishOutcome::Stale { stands } => {
                panic!("table {table} is settled by one at a time, yet stands at {stands}")
            }
        }
    }

    /// Publishes an event of a table that the store already reflects; the view is at `at`
    /// afterwards.
    pub(crate) fn show(&self, at: Lsn, id: TableId, event: Event<'_>) {
        self.show_since(Lsn::ZERO, at, id, event);
    }

    /// Like [`Self::show`], for an event that the store reflects once it reflects the record at
    /// `lsn`.
    pub(crate) fn show_since(&self, lsn: Lsn, at: Lsn, id: TableId, event: Event<'_>) {
        let defines = event.defines();
        let gone = self.views().settle(at, vec![(id, event)], || {
            let catalog = self.meta().catalog();
            // Called while changes of the view are serialized, so that published definitions never
            // go back.
            if let Some((state, table)) = self.table_state(id).zip(catalog.table_by_id(id)) {
                state.adopt(table, &database_name(&catalog, table));
            }
            catalog
        });
        self.sweeper.retire(lsn, &gone);
        if defines {
            self.catalog_changed();
        }
    }
}

/// The number of leading items with a total size of at most `bytes_max`, and at least one.
fn at_once(bytes: impl Iterator<Item = u64>, bytes_max: u64) -> usize {
    let mut sum = 0;
    let fits = |bytes: &u64| {
        sum += bytes;
        sum <= bytes_max
    };
    bytes.take_while(fits).count().max(1)
}

fn to_columns(part: &[DeltaRows], schema: &TableSchema) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for rows in part {
        rows.batches(schema, &mut batches)?;
    }
    Ok(batches)
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
