//! Flush: the files of a table catch up with the log.
//!
//! One task at a time writes the rows of a table up to one LSN to files, and appends a record that
//! says so. A TRUNCATE or DROP that comes before that record makes it void.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use freshet_base::clock::Deadline;
use freshet_base::task::{self, Lane};
use freshet_base::{Error, Lsn, Result, Version, err};
use freshet_meta::{MetaEvent, Publish};
use freshet_schema::TableSchema;
use freshet_storage::Rowset;
use freshet_storage::delta::{DeltaPart, DeltaRows};
use freshet_storage::flush::{FlushInput, Written, flush};
use freshet_storage::flush_policy::FlushReason;
use freshet_storage::fold::Event;
use freshet_storage::resolver::FlushedRows;
use freshet_storage::view::TableView;
use freshet_wal::Room;
use futures::{StreamExt, TryStreamExt, stream};

use crate::append::Appender;
use crate::compact::Compactor;
use crate::group::FlushTimes;
use crate::history::{EndedFlush, FlushedFiles, History};
use crate::marks;
use crate::metadata::{SMALL_EVENT_BYTES, Settler, ViewChange};
use crate::record::GroupEndReason;
use crate::state::TableState;
use crate::store::Store;
use crate::sweep::{InFlight, Sweeper};
use crate::term::Term;

/// How often a waiter for log space checks whether the engine stops.
const ROOM_LOOK: Duration = Duration::from_millis(200);

/// Parts of a flush that are sorted and written at a time: one alone leaves a core idle where the
/// table has one tablet.
const PARTS_AT_ONCE: usize = 2;

/// How an attempt to flush a table ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FlushEnd {
    /// There was nothing to flush, or it went meanwhile.
    Nothing,
    Done(FlushedFiles),
    /// A partition for which it has written files went meanwhile.
    Divided,
}

/// Writes rows to files: those of flushes, and those of large loads.
pub(crate) struct Flusher {
    pub store: Arc<Store>,
    pub history: Arc<History>,
    pub settler: Arc<Settler>,
    pub sweeper: Arc<Sweeper>,
    pub compactor: Arc<Compactor>,
    pub term: Arc<Term>,
    pub appender: Arc<Appender>,
}

impl Flusher {
    /// Flushes a table once merges have caught up and there is log space for the record of the
    /// flush.
    ///
    /// # Errors
    /// Those of [`Self::flush_now`].
    pub async fn flush(&self, table: &Arc<TableState>, why: FlushReason) -> Result<()> {
        // Groups of earlier terms end with the record of this one, and files contain none that is
        // open.
        self.term.begun().await?;
        let _appends = self.term.appends();
        self.compactor.let_catch_up(&[table.id]).await;
        let room = match table.delta.stats().entries {
            0 => None,
            // Reserved before the table's `flushing` lock is taken, since recycling waits for that
            // lock.
            _ => Some(self.wait_for_room().await?),
        };
        self.flush_with(table, why, room).await
    }

    /// Waits for log space for the record of a flush. Recycling frees log space without needing
    /// records of this kind, so there will be space eventually. The caller must not hold anything
    /// that recycling waits for.
    ///
    /// # Errors
    /// Those of `Settler::room`, after `load_patience`, or when the engine stops, since nothing is
    /// recycled then.
    async fn wait_for_room(&self) -> Result<Room> {
        let deadline = Deadline::after(self.store.clock(), self.store.config.load_patience);
        loop {
            let look = Deadline::after(self.store.clock(), ROOM_LOOK);
            let look = Deadline(look.0.min(deadline.0));
            let room =
                self.store.wal.reserve_publish(SMALL_EVENT_BYTES, self.store.clock(), look).await;
            if let Ok(room) = room {
                return Ok(room);
            }
            if self.store.keeper.is_stopping() || self.store.clock().now() >= deadline.0 {
                return self.settler.room();
            }
        }
    }

    /// Writes all rows of a table that are in the log now to files. Does not wait for log space.
    ///
    /// # Errors
    /// When files or metadata cannot be written. Rows stay in the delta and in the log, and the
    /// next call retries.
    pub async fn flush_now(&self, table: &Arc<TableState>, why: FlushReason) -> Result<()> {
        self.flush_with(table, why, None).await
    }

    /// Like [`Self::flush_now`], with log space for the record of the flush if the caller has
    /// reserved it.
    async fn flush_with(
        &self,
        table: &Arc<TableState>,
        why: FlushReason,
        mut room: Option<Room>,
    ) -> Result<()> {
        let clock = self.store.clock();
        let (began, began_micros) = (clock.now(), clock.wall_micros());
        let ended = loop {
            match self.flush_once(table, why, room.take()).await {
                // Partitions that go while their rows are written let it begin again.
                Ok(FlushEnd::Divided) => {}
                ended => break ended,
            }
        };
        let result = match &ended {
            Ok(FlushEnd::Done(files)) => Ok(*files),
            Ok(FlushEnd::Nothing | FlushEnd::Divided) => return Ok(()),
            Err(error) => Err(error.to_string()),
        };
        let took = clock.now().saturating_sub(began);
        let (table, reason) = (table.id, why);
        self.history.push_flush(EndedFlush { table, reason, began_micros, took, result });
        ended.map(drop)
    }

    async fn flush_once(
        &self,
        table: &Arc<TableState>,
        why: FlushReason,
        room: Option<Room>,
    ) -> Result<FlushEnd> {
        let _flushing = table.flushing.lock().await;
        self.settler.events_settled(table).await;
        let (began, began_micros) = (self.store.clock().now(), self.store.clock().wall_micros());
        let Some((view, frozen, version)) = self.bounds(table, why).await? else {
            return Ok(FlushEnd::Nothing);
        };
        assert!(version >= view.version, "versions of a table rise in the order of the log");
        self.settler.save_tablets(table).await?;
        let tablets = view.tablets.iter().map(|tablet| tablet.id);
        assert!(tablets.eq(view.table.tablets()), "a flush writes to the tablets that are read");
        if let Some(resolver) = &view.resolver {
            resolver.begin_flush(frozen).await?;
        }
        let read = view.read_up_to(frozen);
        let schema = read.schema.clone().unwrap_or_else(|| Arc::clone(&view.schema));
        let room = room.map_or_else(|| self.settler.room(), Ok)?;
        let waited = self.store.clock().now();
        let mut in_flight = self.sweeper.in_flight();
        let unflushed = read.parts.iter().map(DeltaPart::rows).sum::<u64>();
        let (rowsets, rows) = self.write_files(&view, &schema, read.parts, &mut in_flight).await?;
        check_files(&rowsets, unflushed, (view.flushed, frozen));
        let (store, filed) = (&self.store, self.store.clock().now());
        let marks = marks::of_flush(store, &view, &rowsets, frozen, &mut in_flight).await?;
        let swap = marks::begin_flush_swap(store, &view, rows).await?;
        let written = self.store.clock().now();
        let publish = Publish {
            table: table.id,
            from: view.flushed,
            to: frozen,
            version,
            schema_version: schema.version,
            rowsets: rowsets.iter().map(|rowset| rowset.meta().clone()).collect(),
            marks,
        };
        let files = files_of(&rowsets, (frozen, version), [began, waited, filed, written]);
        let event = Event::Publish { version, schema, rowsets, swap };
        let change = ViewChange { table: Arc::clone(table), at: frozen, event, in_flight };
        let publish = MetaEvent::Publish(publish);
        if !self.settler.append(publish, room, change).await? {
            // The sweep will delete the files. Until a DROP is durable, a power failure may restore
            // the table, so its rows must not count as flushed before.
            self.settler.events_settled(table).await;
            return match self.view_behind(table, frozen) {
                None => Ok(FlushEnd::Nothing),
                Some(_) if table.delta.divided() > frozen => Ok(FlushEnd::Divided),
                Some(_) => Err(err!(Internal, "a flush up to {frozen} was overtaken; tried again")),
            };
        }
        self.store.failpoints().pass("flush-after-publish").map_err(|e| Error::io("publish", e))?;
        let now = self.store.clock().now();
        table.grow(now);
        let (flush, publish) = (written.saturating_sub(began), now.saturating_sub(written));
        let times = FlushTimes { began_micros, flush, publish };
        self.published(table, why, (view.version, version), times);
        Ok(FlushEnd::Done(FlushedFiles { publish, ..files }))
    }

    /// The view from which a flush goes on, the LSN at which it ends, and the version there; `None`
    /// if there is nothing to flush.
    async fn bounds(
        &self,
        table: &TableState,
        why: FlushReason,
    ) -> Result<Option<(Arc<TableView>, Lsn, Version)>> {
        let mut may_stop = why.may_stop() && !table.is_keyed;
        loop {
            let stop = if std::mem::take(&mut may_stop) { self.next_stop(table) } else { None };
            let (frozen, version) = stop.map_or_else(|| self.freeze(table), Ok)?;
            self.store.horizon().wait(frozen).await;
            self.settler.settle_due();
            assert!(frozen <= self.store.horizon().get(), "a flush ends below the horizon");
            let Some(view) = self.view_behind(table, frozen) else { return Ok(None) };
            // Rows go where the partitions of the view say, which are those up to its end.
            if table.delta.divided() <= frozen {
                return Ok(Some((view, frozen, version)));
            }
        }
    }

    /// Counts a flush that is published, and tells its groups.
    fn published(
        &self,
        table: &TableState,
        why: FlushReason,
        versions: (Version, Version),
        times: FlushTimes,
    ) {
        let took = times.flush + times.publish;
        self.store.metrics().flushes.with_label_values(&[why.name()]).inc();
        self.store.metrics().flush_seconds.observe(took.as_secs_f64());
        self.history.flushed(table.id, versions, times);
    }

    /// The view of a table with unflushed rows up to `lsn`; `None` if it has none, since they were
    /// truncated or the table is gone.
    fn view_behind(&self, table: &TableState, lsn: Lsn) -> Option<Arc<TableView>> {
        self.store.tables.view(table.id).filter(|view| view.flushed < lsn)
    }

    /// Where a flush of a table ends that has fallen behind.
    fn next_stop(&self, table: &TableState) -> Option<(Lsn, Version)> {
        let flushed = self.store.tables.view(table.id)?.flushed;
        let flush_bytes = table.flush_bytes(&self.store.config);
        table.lock().next_stop(flushed, flush_bytes)
    }

    /// Ends the open group and freezes the delta after its end, so that files contain only
    /// complete groups.
    fn freeze(&self, table: &TableState) -> Result<(Lsn, Version)> {
        loop {
            if let Some(frozen) = self.appender.end_group(table, GroupEndReason::Flush, |_| true)? {
                return Ok(frozen);
            }
            // Nothing is added to the delta while the table's state is locked.
            let group = table.lock();
            // A group opened since then must end first.
            if group.open().is_none() {
                assert_eq!(group.log().open(), None, "files contain groups that have ended");
                let frozen = table.delta.freeze();
                assert!(frozen <= group.log().applied(), "a delta has records of the log only");
                return Ok((frozen, group.log().version()));
            }
        }
    }

    /// Writes the rows between large loads to rowsets, and includes the rowsets of the large loads;
    /// all in LSN order. In keyed tables, also where the rows went.
    async fn write_files(
        &self,
        view: &TableView,
        schema: &Arc<TableSchema>,
        parts: Vec<DeltaPart>,
        in_flight: &mut InFlight,
    ) -> Result<(Vec<Arc<Rowset>>, Vec<FlushedRows>)> {
        let (mut rowsets, mut rows) = (Vec::new(), Vec::new());
        let mut stretch = Vec::new();
        for part in parts {
            let loaded = match part {
                // Rows that are all dead need no files.
                DeltaPart::Rows(part) if part.rows() == 0 => continue,
                DeltaPart::Rows(part) => {
                    stretch.push(part);
                    continue;
                }
                DeltaPart::Rowsets(_, loaded) => loaded,
            };
            let out = (&mut rowsets, &mut rows);
            self.write_stretch(view, schema, std::mem::take(&mut stretch), out, in_flight).await?;
            rowsets.extend(loaded);
        }
        self.write_stretch(view, schema, stretch, (&mut rowsets, &mut rows), in_flight).await?;
        Ok((rowsets, rows))
    }

    async fn write_stretch(
        &self,
        view: &TableView,
        schema: &Arc<TableSchema>,
        mut stretch: Vec<DeltaRows>,
        (rowsets, rows): (&mut Vec<Arc<Rowset>>, &mut Vec<FlushedRows>),
        in_flight: &mut InFlight,
    ) -> Result<()> {
        let mut parts = Vec::new();
        let all = stretch.iter().map(DeltaRows::bytes).sum::<u64>();
        let mut left = all.div_ceil(self.store.config.sorted_bytes_max.bytes().max(1));
        while !stretch.is_empty() {
            // Of like sizes, so that two of them take as long as one.
            let bytes = stretch.iter().map(DeltaRows::bytes);
            let of_part = bytes.clone().sum::<u64>().div_ceil(left.max(1));
            let rest = stretch.split_off(at_once(bytes, of_part));
            parts.push(std::mem::replace(&mut stretch, rest));
            left = left.saturating_sub(1);
        }
        let write = |part: Vec<DeltaRows>| async move {
            let numbers = part.iter().flat_map(DeltaRows::numbers).collect::<Vec<_>>();
            let mut own = self.sweeper.in_flight();
            let written = self.write_part(view, schema, part, &mut own).await?;
            Ok::<_, Error>((numbers, written, own))
        };
        let mut parts = stream::iter(parts.into_iter().map(write)).buffered(PARTS_AT_ONCE);
        while let Some((numbers, written, own)) = parts.try_next().await? {
            in_flight.join(own);
            if view.resolver.is_some() {
                rows.push(FlushedRows::new(numbers, &written));
            }
            let open = |written: Written| {
                let rowset = self.store.files.rowset(view.table.id, written.rowset, schema);
                Arc::new(rowset)
            };
            rowsets.extend(written.into_iter().map(open));
        }
        Ok(())
    }

    async fn write_part(
        &self,
        view: &TableView,
        schema: &Arc<TableSchema>,
        part: Vec<DeltaRows>,
        in_flight: &mut InFlight,
    ) -> Result<Vec<Written>> {
        let (first, last) = part.first().zip(part.last()).expect("a part has rows");
        let lsns = (first.lsns.0, last.lsns.1);
        let columns = Arc::clone(schema);
        let lane = Lane::Background;
        let batches =
            task::run_in(self.store.pool(), lane, move || to_columns(&part, &columns)).await?;
        self.write_rowsets(lane, view, schema, batches, lsns, in_flight).await
    }

    /// Writes batches of `schema` to one synced rowset for each tablet that has rows.
    pub async fn write_rowsets(
        &self,
        lane: Lane,
        view: &TableView,
        schema: &Arc<TableSchema>,
        batches: Vec<RecordBatch>,
        lsns: (Lsn, Lsn),
        in_flight: &mut InFlight,
    ) -> Result<Vec<Written>> {
        self.store.failpoints().pass("flush-before-write").map_err(|e| Error::io("flush", e))?;
        let handed = rows_of(&batches);
        let state = self.store.tables.state(view.table.id);
        let input = FlushInput {
            lane,
            table: match state {
                Some(state) => state.as_indexed(&view.table),
                None => Arc::clone(&view.table),
            },
            schema: Arc::clone(schema),
            batches,
            lsns,
            // Distributes the rows of RANDOM tables evenly over flushes.
            turn: view.tablets.iter().flat_map(|t| &t.rowsets).map(|r| r.rows()).sum(),
        };
        // Ids are reserved first, while running out of them is still an error that can be returned.
        let ids_max = usize::try_from(handed).unwrap_or(usize::MAX);
        let ids = view.tablets.iter().take(ids_max).map(|_| self.store.meta().ids().rowset());
        let mut ids = ids.collect::<Result<Vec<_>>>()?;
        ids.iter().for_each(|rowset| in_flight.add(*rowset));
        let next_id = || ids.pop().expect("there is an id for each tablet");
        let segment_bytes_max = self.store.config.segment_bytes_max.bytes();
        let written = flush(&self.store.files, input, segment_bytes_max, next_id).await?;
        let is_one_each = written.len() <= view.tablets.len();
        assert!(is_one_each, "rows of one stretch are one rowset in each tablet");
        let rows = written.iter().map(|written| written.rowset.rows).sum::<u64>();
        assert_eq!(rows, handed, "rows handed over are the rows in files");
        self.store.failpoints().pass("flush-after-write").map_err(|e| Error::io("flush", e))?;
        Ok(written)
    }
}

/// Checks what a flush has written before a record says so: settling that record must not fail.
fn check_files(rowsets: &[Arc<Rowset>], unflushed: u64, (from, to): (Lsn, Lsn)) {
    let rows = rowsets.iter().map(|rowset| rowset.rows()).sum::<u64>();
    assert_eq!(rows, unflushed, "the rows in memory are the rows that a flush has in files");
    let mut ends = BTreeMap::new();
    for rowset in rowsets {
        let (first, last) = rowset.lsns();
        assert!(from < first && last <= to, "a flush writes rows of its range");
        let before = ends.insert(rowset.meta().tablet, last);
        assert!(before < Some(first), "rowsets of a tablet follow each other");
    }
}

/// What is in the files of a flush, which are yet to be published; `stages` are the begin of the
/// flush and the ends of its stages.
fn files_of(
    rowsets: &[Arc<Rowset>],
    (to, version): (Lsn, Version),
    stages: [Duration; 4],
) -> FlushedFiles {
    let [wait, write, mark] = [0, 1, 2].map(|at| stages[at + 1].saturating_sub(stages[at]));
    let segments = || rowsets.iter().flat_map(|rowset| &rowset.meta().segments);
    FlushedFiles {
        rows: rowsets.iter().map(|rowset| rowset.rows()).sum(),
        rowsets: rowsets.len() as u64,
        segments: segments().count() as u64,
        bytes: segments().map(|segment| segment.bytes).sum(),
        to,
        version,
        wait,
        write,
        mark,
        publish: Duration::ZERO,
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

fn rows_of(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

fn to_columns(part: &[DeltaRows], schema: &TableSchema) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for rows in part {
        rows.batches(schema, &mut batches)?;
    }
    let rows = part.iter().map(DeltaRows::rows).sum::<u64>();
    assert_eq!(rows_of(&batches), rows, "rows in memory are the rows of their columns");
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
