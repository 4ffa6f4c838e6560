//! Metadata follows the log (cluster.md 41 to 43): what a flush, a merge or a DDL statement did, or
//! which ids are reserved, is a record, which is applied to metadata in memory ("settles") once the
//! horizon has reached it, in log order. A checkpoint updates the store on disk later; only then
//! are files deleted that the store still refers to.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use freshet_base::fail::AbortOnPanic;
use freshet_base::{Error, Lsn, Result, TableId, err, task};
use freshet_meta::{Definition, IdEnds, MetaEvent, disk};
use freshet_schema::Table;
use freshet_storage::fold::{Barrier, Event};
use freshet_wal::Room;
use futures::channel::oneshot;
use parking_lot::Mutex;

use crate::event_files::{EventFile, EventFiles};
use crate::record::{self, Kind, MetadataBody};
use crate::state::TableState;
use crate::store::Store;
use crate::sweep::InFlight;

/// Payload size that fits in the one block of log space reserved at the beginning of a flush.
pub(crate) const SMALL_EVENT_BYTES: usize = 3 << 10;
/// A longer event is written to a file if it exceeds this fraction of a log file, 1 MiB of 64.
const FILE_PARTS: u64 = 64;
/// The maximum time from settling to the start of a checkpoint.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(900);

/// Appends metadata records, settles them, and knows when a checkpoint is due.
pub(crate) struct Settler {
    store: Arc<Store>,
    pub event_files: Arc<EventFiles>,
    /// Records in log order: they are added under the append lock.
    entered: Mutex<VecDeque<Entered>>,
    /// Held while settling.
    settles: Mutex<()>,
    ahead: Ahead,
}

/// Since when the store lacks settled changes.
#[derive(Default)]
struct Ahead(Mutex<Option<Duration>>);

/// A metadata record in the log that has not settled yet.
struct Entered {
    lsn: Lsn,
    event: MetaEvent,
    /// Of a flush or merge.
    change: Option<ViewChange>,
    /// The file that contains its event.
    file: Option<EventFile>,
    answer: oneshot::Sender<bool>,
}

/// The change of the view when the record of a flush or merge settles.
pub(crate) struct ViewChange {
    pub table: Arc<TableState>,
    /// The LSN of the view after the change.
    pub at: Lsn,
    /// The change.
    pub event: Event<'static>,
    /// Prevents the sweep from deleting the new files until the view refers to them.
    pub in_flight: InFlight,
}

/// A record that was appended and settles once it is durable.
pub(crate) struct Unsettled {
    pub lsn: Lsn,
    answer: oneshot::Receiver<bool>,
}

impl Ahead {
    /// Whether the store has lacked changes for so long that a checkpoint is due. After a positive
    /// answer the interval starts again, whatever settles meanwhile, so that there is at most one
    /// checkpoint per second.
    fn is_due(&self, is_ahead: bool, now: Duration) -> bool {
        let mut since = self.0.lock();
        *since = is_ahead.then(|| since.unwrap_or(now));
        let is_due = since.is_some_and(|since| now.saturating_sub(since) >= CHECKPOINT_PAUSE);
        if is_due {
            *since = None;
        }
        is_due
    }
}

impl Settler {
    pub fn new(store: Arc<Store>) -> Self {
        let event_files = EventFiles::new(Arc::clone(&store.world.fs), &store.config.data_dir);
        Self {
            store,
            event_files: Arc::new(event_files),
            entered: Mutex::default(),
            settles: Mutex::default(),
            ahead: Ahead::default(),
        }
    }

    /// Reserves log space for the record of a flush or merge, before files are written, or of ids.
    ///
    /// # Errors
    /// `OutOfRoom` while the part of the log for such records is full.
    pub fn room(&self) -> Result<Room> {
        self.store.wal.try_reserve_publish(SMALL_EVENT_BYTES).ok_or_else(|| {
            err!(
                OutOfRoom,
                "the log has no room for what a flush or a merge did, or for ids; tried again"
            )
        })
    }

    /// Appends the result of a flush or merge and waits until it has settled. Returns `false` if it
    /// had no effect because the table has changed; the new files are then to be deleted. If the
    /// future is dropped after the append, the record settles nevertheless.
    ///
    /// # Errors
    /// When a large event cannot be written to its file.
    pub async fn append(&self, event: MetaEvent, room: Room, change: ViewChange) -> Result<bool> {
        let (payload, room, file) = self.payload_of(&event, room).await?;
        let appended =
            self.store.wal.append(Kind::Metadata as u8, &payload[..], room, |lsn, stamp| {
                if change.table.is_dropped() {
                    return Err(());
                }
                record::write_metadata_stamp(stamp, change.table.id);
                change.table.note_event(lsn);
                Ok(self.settle_later(lsn, event, Some(change), file))
            });
        let Ok((_, unsettled)) = appended else { return Ok(false) };
        Ok(self.settled(unsettled).await)
    }

    /// Appends the definition of a new table and waits until it has settled. The caller sees to it
    /// that nobody else decides about its name meanwhile.
    ///
    /// # Errors
    /// When a large definition cannot be written to its file.
    pub async fn create(&self, table: Arc<Table>, room: Room) -> Result<()> {
        let id = table.id;
        self.define(&[id], &[], MetaEvent::Create(table), room).await
    }

    /// Appends a change of the definitions of tables and waits until it has settled. The caller
    /// sees to it that nobody else decides about the same names or definitions meanwhile.
    ///
    /// # Errors
    /// `NoSuchTable` when a table was dropped meanwhile.
    pub async fn define_tables(
        &self,
        tables: &[Arc<TableState>],
        event: MetaEvent,
        room: Room,
    ) -> Result<()> {
        let ids = tables.iter().map(|state| state.id).collect::<Vec<_>>();
        self.define(&ids, tables, event, room).await
    }

    async fn define(
        &self,
        ids: &[TableId],
        states: &[Arc<TableState>],
        event: MetaEvent,
        room: Room,
    ) -> Result<()> {
        let (payload, room, file) = self.payload_of(&event, room).await?;
        let kind = Kind::Metadata as u8;
        let (_, unsettled) = self.store.wal.append(kind, &payload[..], room, |lsn, stamp| {
            let is_gone = |state: &&Arc<TableState>| state.is_dropped() || state.gate.is_replaced();
            if let Some(state) = states.iter().find(is_gone) {
                return Err(state.gone());
            }
            states.iter().for_each(|state| state.note_event(lsn));
            let in_bin = match &event {
                MetaEvent::BinDatabase { .. } => Some(true),
                MetaEvent::RecoverDatabase { .. } => Some(false),
                MetaEvent::Define { change: Definition::Dropped { .. }, .. } => Some(true),
                MetaEvent::Define { change: Definition::Recovered(_), .. } => Some(false),
                _ => None,
            };
            if let Some(in_bin) = in_bin {
                states.iter().for_each(|state| state.lock().set_in_bin(in_bin));
            }
            ids.iter().for_each(|id| record::write_metadata_stamp(stamp, *id));
            Ok(self.settle_later(lsn, event, None, file))
        })?;
        self.settled_as_told(unsettled).await
    }

    /// Appends that a database goes into the recycle bin, or comes back, with these tables. They
    /// are not in the record, which has room for few.
    ///
    /// # Errors
    /// `NoSuchTable` when a table was dropped meanwhile.
    pub async fn define_database(
        &self,
        tables: &[Arc<TableState>],
        event: MetaEvent,
        room: Room,
    ) -> Result<()> {
        self.define(&[TableId(0)], tables, event, room).await
    }

    /// Appends a reservation of ids and waits until it has settled.
    ///
    /// # Errors
    /// `OutOfRoom` while the part of the log for such records is full.
    pub async fn reserve(&self, ends: IdEnds) -> Result<()> {
        let (room, event) = (self.room()?, MetaEvent::Reserve(ends));
        let encoded = disk::encode(&event);
        let payload = record::metadata_payload(MetadataBody::Inline(&encoded));
        let appended =
            self.store.wal.append(Kind::Metadata as u8, &payload[..], room, |lsn, stamp| {
                // It is of no table.
                record::write_metadata_stamp(stamp, TableId(0));
                Ok::<_, Error>(self.settle_later(lsn, event, None, None))
            });
        let (_, unsettled) = appended?;
        // It has no effect if a burst has reserved more meanwhile.
        self.settled(unsettled).await;
        Ok(())
    }

    /// Appends that generated ids of a table below `end` may be given, without waiting: a record
    /// with such ids stands behind it in the log.
    ///
    /// # Errors
    /// `OutOfRoom` while the part of the log for such records is full; `NoSuchTable` when the table
    /// was dropped.
    pub fn count(&self, table: TableId, end: u64) -> Result<Lsn> {
        let (room, event) = (self.room()?, MetaEvent::Counter { table, end });
        let encoded = disk::encode(&event);
        let payload = record::metadata_payload(MetadataBody::Inline(&encoded));
        let kind = Kind::Metadata as u8;
        let (lsn, _) = self.store.wal.append(kind, &payload[..], room, |lsn, stamp| {
            record::write_metadata_stamp(stamp, table);
            Ok::<_, Error>(self.settle_later(lsn, event, None, None))
        })?;
        Ok(lsn)
    }

    /// Adds a record to those that settle once they are durable; called under the append lock.
    pub fn settle_later(
        &self,
        lsn: Lsn,
        event: MetaEvent,
        change: Option<ViewChange>,
        file: Option<EventFile>,
    ) -> Unsettled {
        let (answer, settled) = oneshot::channel();
        let mut entered = self.entered.lock();
        let is_next = entered.back().is_none_or(|last| last.lsn < lsn);
        assert!(is_next, "records wait for the horizon in the order of the log");
        entered.push_back(Entered { lsn, event, change, file, answer });
        Unsettled { lsn, answer: settled }
    }

    /// Waits until a record has settled; returns whether it had an effect.
    async fn settled(&self, unsettled: Unsettled) -> bool {
        self.store.horizon().wait(unsettled.lsn).await;
        self.settle_due();
        unsettled.answer.await.expect("what is durable has settled")
    }

    /// Waits until the record of a statement has settled.
    ///
    /// # Errors
    /// That of a failpoint; the record settles nevertheless.
    pub async fn settled_as_told(&self, unsettled: Unsettled) -> Result<()> {
        self.store.horizon().wait(unsettled.lsn).await;
        self.store.failpoints().pass("barrier-durable").map_err(|e| Error::io("barrier", e))?;
        let lsn = unsettled.lsn;
        assert!(self.settled(unsettled).await, "the statement at {lsn} was decided under its lock");
        Ok(())
    }

    /// Waits until everything that statements have appended has settled. Their futures may have
    /// been dropped meanwhile.
    pub async fn all_settled(&self) {
        let last = self.entered.lock().back().map(|entered| entered.lsn).unwrap_or_default();
        self.store.horizon().wait(last).await;
        self.settle_due();
        assert!(self.store.meta().settled() >= last, "what is durable has settled");
    }

    /// Encodes an event with log space for it: in a file if it is long or there is no log space for
    /// it.
    async fn payload_of(
        &self,
        event: &MetaEvent,
        small: Room,
    ) -> Result<(Vec<u8>, Room, Option<EventFile>)> {
        let encoded = disk::encode(event);
        let bytes_max = (self.store.config.wal_file_bytes.bytes() / FILE_PARTS) as usize;
        let inline = |room| (record::metadata_payload(MetadataBody::Inline(&encoded)), room, None);
        if encoded.len() < SMALL_EVENT_BYTES {
            return Ok(inline(small));
        }
        let room = match event {
            _ if encoded.len() > bytes_max => None,
            MetaEvent::Publish(_) | MetaEvent::Replace(_) => {
                self.store.wal.try_reserve_publish(encoded.len() + SMALL_EVENT_BYTES)
            }
            // Never from what is kept for flushes and ends.
            _ => self.store.wal.try_reserve(encoded.len() + SMALL_EVENT_BYTES),
        };
        if let Some(room) = room {
            return Ok(inline(room));
        }
        let name = format!("{}.event", self.store.meta().ids().rowset()?);
        let checksum = crc_fast::crc32_iscsi(&encoded);
        let file = self.event_files.file(&name);
        let (fs, to) = (Arc::clone(&self.store.world.fs), file.path.clone());
        task::run(self.store.pool(), move || fs.write_atomic(&to, &encoded))
            .await
            .map_err(|error| Error::io(format_args!("write {}", file.path.display()), error))?;
        let body = MetadataBody::File { checksum, name: &name };
        Ok((record::metadata_payload(body), small, Some(file)))
    }

    /// Waits until all metadata records and barriers of a table have settled, even if the futures
    /// that appended them were dropped.
    pub async fn events_settled(&self, table: &TableState) {
        let last = table.last_event();
        self.store.horizon().wait(last).await;
        self.settle_due();
        assert!(self.store.meta().settled() >= last, "what is durable has settled");
    }

    /// Settles every record up to the horizon, in memory and without waiting.
    pub fn settle_due(&self) {
        let _one = self.settles.lock();
        // A panic would leave metadata and view inconsistent, and a checkpoint would make that
        // durable: rows that are in no file would count as flushed.
        let _whole = AbortOnPanic::in_work("settling a metadata record");
        // The horizon is read before `entered`, so that every durable record is found there.
        let horizon = self.store.horizon().get();
        loop {
            let next = {
                let mut entered = self.entered.lock();
                let is_due = entered.front().is_some_and(|next| next.lsn <= horizon);
                if is_due { entered.pop_front() } else { None }
            };
            let Some(next) = next else { break };
            self.settle_one(next);
        }
        let is_above = self.entered.lock().front().is_none_or(|next| next.lsn > horizon);
        assert!(is_above, "what has not settled is above the horizon");
        self.store.meta().settled_to(horizon);
    }

    fn settle_one(&self, entered: Entered) {
        let Entered { lsn, event, change, file, answer } = entered;
        assert!(lsn <= self.store.horizon().get(), "a record settles behind the horizon");
        let fits = self.store.meta().settle(lsn, &event);
        if fits {
            self.show_settled(lsn, &event, change);
        }
        if let Some(mut file) = file {
            file.free_at = lsn;
        }
        // The receiver may have been dropped.
        let _ = answer.send(fits);
    }

    /// Publishes the current catalog of metadata, in which databases or users have changed.
    pub fn show_catalog(&self) {
        // Otherwise a table could be in the catalog before it is in the view.
        let _one = self.settles.lock();
        self.store.tables.show_catalog();
    }

    /// Publishes what has settled to readers and writers.
    fn show_settled(&self, lsn: Lsn, event: &MetaEvent, change: Option<ViewChange>) {
        match event {
            MetaEvent::Publish(_) | MetaEvent::Replace(_) => {
                let change = change.expect("a flush or merge has changed files");
                let ViewChange { table, at, event: shown, in_flight } = change;
                check_change(event, table.id, at);
                self.store.tables.show(lsn, at, vec![(table.id, shown)]);
                // By now the view refers to the new files.
                drop(in_flight);
                self.check_flushed(table.id);
            }
            MetaEvent::Create(table) => self.store.tables.add(table),
            MetaEvent::Define { table, .. } => {
                self.store.tables.show(lsn, lsn, vec![(*table, Event::Define)]);
            }
            MetaEvent::Rename(_) | MetaEvent::Move(_) => {
                let events = event.renames().into_iter().map(|table| (table, Event::Define));
                self.store.tables.show(lsn, lsn, events.collect());
            }
            MetaEvent::Divide(tables) => {
                let events = tables.iter().map(|change| (change.table, Event::Define));
                self.store.tables.show(lsn, lsn, events.collect());
            }
            MetaEvent::Exchange { old, new } => {
                let events = vec![(*old, Event::Define), (*new, Event::Define)];
                self.store.tables.show(lsn, lsn, events);
            }
            MetaEvent::Truncate(tables) => {
                let event = |truncate: &freshet_meta::Truncate| {
                    let (version, incarnation) = (truncate.version, truncate.incarnation);
                    let barrier = Barrier::Truncate { incarnation };
                    (truncate.table, Event::Barrier { barrier, ended: None, version })
                };
                self.store.tables.show(lsn, lsn, tables.iter().map(event).collect());
                tables.iter().for_each(|truncate| self.check_flushed(truncate.table));
            }
            MetaEvent::Drop(tables) => self.store.tables.remove(lsn, tables),
            MetaEvent::DropDatabase(id) => {
                let of_it = |state: &Arc<TableState>| (state.db() == *id).then_some(state.id);
                let tables =
                    self.store.tables.states().iter().filter_map(of_it).collect::<Vec<_>>();
                self.store.tables.remove(lsn, &tables);
            }
            MetaEvent::BinDatabase { database, .. }
            | MetaEvent::RecoverDatabase { database, .. } => {
                let tables = self.store.meta().catalog().tables_of(*database);
                let events = tables.iter().map(|table| (table.id, Event::Define));
                self.store.tables.show(lsn, lsn, events.collect());
            }
            // Readers see no reservations.
            MetaEvent::Reserve(_) | MetaEvent::Term(_) | MetaEvent::Counter { .. } => {}
        }
    }

    /// Checks that readers see a table flushed as far as metadata says.
    fn check_flushed(&self, table: TableId) {
        let shown = self.store.tables.view(table).map(|view| view.flushed);
        let settled = self.store.meta().flushed(table).map(|flushed| flushed.lsn);
        assert_eq!(shown, settled, "a table is flushed alike in metadata and for readers");
    }

    /// Settles what is due, and returns whether a checkpoint is.
    pub fn checkpoint_due(&self) -> bool {
        self.settle_due();
        self.ahead.is_due(self.store.meta().is_ahead(), self.store.clock().now())
    }

    /// Writes a checkpoint.
    ///
    /// # Errors
    /// When the disk is full; it is retried.
    pub fn checkpoint(&self) -> Result<()> {
        self.settle_due();
        self.store.failpoints().pass("checkpoint").map_err(|e| Error::io("checkpoint", e))?;
        let before = self.store.meta().saved_lsn();
        self.store.meta().checkpoint()?;
        assert!(self.store.meta().saved_lsn() >= before, "the LSN of a checkpoint never falls");
        self.remove_event_files()
    }

    /// Writes a checkpoint if the tablets of a table are newer than the last one. To be called
    /// before files are written: a record that names tablets must not outlive the record of the
    /// TRUNCATE that created them, which could be given up with a hole in the log.
    ///
    /// # Errors
    /// When the disk is full.
    pub async fn save_tablets(self: &Arc<Self>, table: &TableState) -> Result<()> {
        if table.last_truncate() <= self.store.meta().saved_lsn() {
            return Ok(());
        }
        let settler = Arc::clone(self);
        task::run(self.store.pool(), move || settler.checkpoint()).await
    }

    /// Removes event files of records that the store reflects.
    pub fn remove_event_files(&self) -> Result<()> {
        self.event_files.remove_up_to(self.store.meta().saved_lsn())
    }
}

/// Checks that the change of a view is the one that the record of a flush or merge says.
fn check_change(event: &MetaEvent, table: TableId, at: Lsn) {
    match event {
        MetaEvent::Publish(publish) => {
            assert_eq!(publish.table, table, "a flush changes the view of its table");
            assert_eq!(publish.to, at, "a flush moves the view as far as its record says");
        }
        MetaEvent::Replace(replacement) => {
            assert_eq!(replacement.table, table, "a merge changes the view of its table");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_a_pause_apart_however_much_settles() {
        let ahead = Ahead::default();
        let is_due = |is_ahead, millis| ahead.is_due(is_ahead, Duration::from_millis(millis));
        assert!(!is_due(true, 0));
        assert!(is_due(true, 900));
        // Other records have settled during the checkpoint.
        assert!(!is_due(true, 950));
        assert!(!is_due(true, 1_800));
        assert!(is_due(true, 1_850));
        assert!(!is_due(false, 9_000));
        assert!(!is_due(true, 9_050), "it was level in between");
    }
}
