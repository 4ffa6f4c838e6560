//! Metadata follows the log (cluster.md 41 to 43): what a flush, a merge or a DDL statement did is
//! a record, which is applied to metadata in memory ("settles") once the horizon has reached it, in
//! log order. A checkpoint updates the store on disk later; only then are files deleted that the
//! store still refers to.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_base::fail::AbortOnPanic;
use freshet_base::{Error, Lsn, Result, TableId, bail, err, task};
use freshet_meta::{MetaEvent, disk};
use freshet_storage::fold::{Barrier, Event};
use freshet_wal::Room;
use futures::channel::oneshot;
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::layout::events_dir;
use crate::record::{self, Kind, MetadataBody};
use crate::state::TableState;
use crate::sweep::InFlight;

/// Payload size that fits in the one block of log space reserved at the beginning of a flush.
const SMALL_EVENT_BYTES: usize = 3 << 10;
/// A longer event is written to a file if it exceeds this fraction of a log file, 1 MiB of 64.
const FILE_PARTS: u64 = 64;
/// The maximum time from settling to the start of a checkpoint.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(900);

/// How often a waiter for log space checks whether the engine stops.
const ROOM_LOOK: Duration = Duration::from_millis(200);

/// Records that have not settled yet, and state of checkpoints.
#[derive(Default)]
pub(crate) struct Settling {
    /// Records in log order: they are added under the append lock.
    entered: Mutex<VecDeque<Entered>>,
    /// Held while settling.
    settles: Mutex<()>,
    /// Event files of records; each may be removed once the store reflects its record.
    files: Mutex<Vec<(Lsn, PathBuf)>>,
    /// Since when the store lacks settled changes.
    ahead_since: Mutex<Option<Duration>>,
}

/// A metadata record in the log that has not settled yet.
struct Entered {
    lsn: Lsn,
    event: MetaEvent,
    /// Of a flush or merge.
    shown: Option<Shown>,
    /// The file that contains its event.
    file: Option<EventFile>,
    answer: oneshot::Sender<bool>,
}

/// The change of the view when the record of a flush or merge settles.
pub(crate) struct Shown {
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

impl Settling {
    /// Whether the store has lacked changes for so long that a checkpoint is due. After a positive
    /// answer the interval starts again, whatever settles meanwhile, so that there is at most one
    /// checkpoint per second.
    fn is_due(&self, is_ahead: bool, now: Duration) -> bool {
        let mut since = self.ahead_since.lock();
        *since = is_ahead.then(|| since.unwrap_or(now));
        let is_due = since.is_some_and(|since| now.saturating_sub(since) >= CHECKPOINT_PAUSE);
        if is_due {
            *since = None;
        }
        is_due
    }
}

impl Engine {
    /// Reserves log space for the record of a flush or merge, before files are written.
    ///
    /// # Errors
    /// `OutOfRoom` while the part of the log for such records is full.
    pub(crate) fn room_of_event(&self) -> Result<Room> {
        self.wal().try_reserve_publish(SMALL_EVENT_BYTES).ok_or_else(|| {
            err!(OutOfRoom, "the log has no room for what a flush or a merge did; tried again")
        })
    }

    /// Like [`Self::room_of_event`], but waits. Recycling frees log space without needing records
    /// of this kind, so there will be space eventually. The caller must not hold anything that
    /// recycling waits for.
    ///
    /// # Errors
    /// Those of [`Self::room_of_event`], after `load_patience`, or when the engine stops, since
    /// nothing is recycled then.
    pub(crate) async fn wait_for_event_room(&self) -> Result<Room> {
        let deadline = Deadline::after(&**self.clock(), self.config().load_patience);
        loop {
            let look = Deadline::after(&**self.clock(), ROOM_LOOK);
            let look = Deadline(look.0.min(deadline.0));
            let room = self.wal().reserve_publish(SMALL_EVENT_BYTES, &**self.clock(), look).await;
            if let Ok(room) = room {
                return Ok(room);
            }
            if self.keeper().is_stopping() || self.clock().now() >= deadline.0 {
                return self.room_of_event();
            }
        }
    }

    /// Appends the result of a flush or merge and waits until it has settled. Returns `false` if it
    /// had no effect because the table has changed; the new files are then to be deleted. If the
    /// future is dropped after the append, the record settles nevertheless.
    ///
    /// # Errors
    /// When a large event cannot be written to its file.
    pub(crate) async fn append_event(
        self: &Arc<Self>,
        event: MetaEvent,
        room: Room,
        shown: Shown,
    ) -> Result<bool> {
        let (payload, room, file) = self.payload_of(&event, room).await?;
        let appended = self.wal().append(Kind::Metadata as u8, &payload[..], room, |lsn, stamp| {
            if shown.table.is_dropped() {
                return Err(());
            }
            record::write_metadata_stamp(stamp, shown.table.id);
            shown.table.note_event(lsn);
            Ok(self.settle_later(lsn, event, Some(shown), file))
        });
        let Ok((_, unsettled)) = appended else { return Ok(false) };
        Ok(self.settled(unsettled).await)
    }

    /// Reserves log space for a definition. Done before names are locked, so that a DROP, which
    /// frees space, never waits behind it.
    ///
    /// # Errors
    /// `OutOfRoom` while the log is full.
    pub(crate) async fn room_of_definition(&self) -> Result<Room> {
        self.admission().room_soon(SMALL_EVENT_BYTES).await
    }

    /// Appends a definition and waits until it has settled. The caller sees to it that nobody else
    /// decides about the same name or the same definition meanwhile. `state` is that of the table,
    /// if it exists already.
    ///
    /// # Errors
    /// `NoSuchTable` when the table was dropped meanwhile.
    pub(crate) async fn define(
        self: &Arc<Self>,
        table: TableId,
        state: Option<&TableState>,
        event: MetaEvent,
        room: Room,
    ) -> Result<()> {
        let (payload, room, file) = self.payload_of(&event, room).await?;
        let kind = Kind::Metadata as u8;
        let (_, unsettled) = self.wal().append(kind, &payload[..], room, |lsn, stamp| {
            if let Some(state) = state {
                if state.is_dropped() {
                    bail!(NoSuchTable, "Table '{}' doesn't exist", state.name());
                }
                state.note_event(lsn);
            }
            record::write_metadata_stamp(stamp, table);
            Ok(self.settle_later(lsn, event, None, file))
        })?;
        self.settled_as_told(unsettled).await
    }

    /// Adds a record to those that settle once they are durable; called under the append lock.
    pub(crate) fn settle_later(
        &self,
        lsn: Lsn,
        event: MetaEvent,
        shown: Option<Shown>,
        file: Option<EventFile>,
    ) -> Unsettled {
        let (answer, settled) = oneshot::channel();
        let entered = Entered { lsn, event, shown, file, answer };
        self.settling.entered.lock().push_back(entered);
        Unsettled { lsn, answer: settled }
    }

    /// Waits until a record has settled; returns whether it had an effect.
    async fn settled(&self, unsettled: Unsettled) -> bool {
        self.horizon().wait(unsettled.lsn).await;
        self.settle_due();
        unsettled.answer.await.expect("what is durable has settled")
    }

    /// Waits until the record of a statement has settled.
    ///
    /// # Errors
    /// That of a failpoint; the record settles nevertheless.
    pub(crate) async fn settled_as_told(&self, unsettled: Unsettled) -> Result<()> {
        self.horizon().wait(unsettled.lsn).await;
        self.failpoints().pass("barrier-durable").map_err(|e| Error::io("barrier", e))?;
        let lsn = unsettled.lsn;
        assert!(self.settled(unsettled).await, "the statement at {lsn} was decided under its lock");
        Ok(())
    }

    /// Waits until everything that statements have appended has settled. Their futures may have
    /// been dropped meanwhile.
    pub(crate) async fn all_settled(&self) {
        let last = self.settling.entered.lock().back().map(|entered| entered.lsn);
        self.horizon().wait(last.unwrap_or_default()).await;
        self.settle_due();
    }

    /// Encodes an event with log space for it: in a file if it is long or there is no log space for
    /// it.
    async fn payload_of(
        self: &Arc<Self>,
        event: &MetaEvent,
        small: Room,
    ) -> Result<(Vec<u8>, Room, Option<EventFile>)> {
        let encoded = disk::encode(event);
        let bytes_max = (self.config().wal_file_bytes.bytes() / FILE_PARTS) as usize;
        let inline = |room| (record::metadata_payload(MetadataBody::Inline(&encoded)), room, None);
        if encoded.len() < SMALL_EVENT_BYTES {
            return Ok(inline(small));
        }
        let room = match event {
            _ if encoded.len() > bytes_max => None,
            MetaEvent::Publish(_) | MetaEvent::Replace(_) => {
                self.wal().try_reserve_publish(encoded.len() + SMALL_EVENT_BYTES)
            }
            // Never from what is kept for flushes and ends.
            _ => self.wal().try_reserve(encoded.len() + SMALL_EVENT_BYTES),
        };
        if let Some(room) = room {
            return Ok(inline(room));
        }
        let name = format!("{}.event", self.meta().ids().rowset()?);
        let path = events_dir(&self.config().data_dir).join(&name);
        let checksum = crc_fast::crc32_iscsi(&encoded);
        let file = EventFile { engine: Arc::downgrade(self), path, free_at: Lsn::ZERO };
        let (engine, to) = (Arc::clone(self), file.path.clone());
        task::run(&**self.pool(), move || engine.fs().write_atomic(&to, &encoded))
            .await
            .map_err(|error| Error::io(format_args!("write {}", file.path.display()), error))?;
        let body = MetadataBody::File { checksum, name: &name };
        Ok((record::metadata_payload(body), small, Some(file)))
    }

    /// Waits until all metadata records and barriers of a table have settled, even if the futures
    /// that appended them were dropped.
    pub(crate) async fn events_settled(&self, table: &TableState) {
        self.horizon().wait(table.last_event()).await;
        self.settle_due();
    }

    /// Settles every record up to the horizon, in memory and without waiting.
    pub(crate) fn settle_due(&self) {
        let _one = self.settling.settles.lock();
        // A panic would leave metadata and view inconsistent, and a checkpoint would make that
        // durable: rows that are in no file would count as flushed.
        let _whole = AbortOnPanic("settling a metadata record");
        // The horizon is read before `entered`, so that every durable record is found there.
        let horizon = self.horizon().get();
        loop {
            let next = {
                let mut entered = self.settling.entered.lock();
                let is_due = entered.front().is_some_and(|next| next.lsn <= horizon);
                if is_due { entered.pop_front() } else { None }
            };
            let Some(next) = next else { break };
            self.settle_one(next);
        }
        self.meta().settled_to(horizon);
    }

    fn settle_one(&self, entered: Entered) {
        let Entered { lsn, event, shown, file, answer } = entered;
        let fits = self.meta().settle(lsn, &event);
        if fits {
            self.show_settled(lsn, &event, shown);
        }
        if let Some(mut file) = file {
            file.free_at = lsn;
        }
        // The receiver may have been dropped.
        let _ = answer.send(fits);
    }

    /// Publishes the current catalog of metadata, in which databases or users have changed.
    pub(crate) fn show_catalog(&self) {
        // Otherwise a table could be in the catalog before it is in the view.
        let _one = self.settling.settles.lock();
        self.views().show(|| self.meta().catalog());
        self.catalog_changed();
    }

    /// Publishes what has settled to readers and writers.
    fn show_settled(&self, lsn: Lsn, event: &MetaEvent, shown: Option<Shown>) {
        match event {
            MetaEvent::Publish(_) | MetaEvent::Replace(_) => {
                let shown = shown.expect("a flush or merge has changed files");
                let Shown { table, at, event, in_flight } = shown;
                self.show(lsn, at, vec![(table.id, event)]);
                // By now the view refers to the new files.
                drop(in_flight);
            }
            MetaEvent::Create(table) => self.add_table(table),
            MetaEvent::Define { table, .. } => self.show(lsn, lsn, vec![(*table, Event::Define)]),
            MetaEvent::Truncate(tables) => {
                let event = |truncate: &freshet_meta::Truncate| {
                    let (version, incarnation) = (truncate.version, truncate.incarnation);
                    let barrier = Barrier::Truncate { incarnation };
                    (truncate.table, Event::Barrier { barrier, ended: None, version })
                };
                self.show(lsn, lsn, tables.iter().map(event).collect());
            }
            MetaEvent::Drop(tables) => self.remove_tables(lsn, tables),
            MetaEvent::DropDatabase(id) => {
                let of_it = |state: &Arc<TableState>| (state.db == *id).then_some(state.id);
                let tables = self.table_states().iter().filter_map(of_it).collect::<Vec<_>>();
                self.remove_tables(lsn, &tables);
            }
        }
    }

    /// Publishes events of the record at `lsn`, which metadata reflects; the view of their tables
    /// is at `at` afterwards.
    pub(crate) fn show(&self, lsn: Lsn, at: Lsn, events: Vec<(TableId, Event<'_>)>) {
        let tables = events.iter().map(|(table, _)| *table).collect::<Vec<_>>();
        let defines = events.is_empty() || events.iter().any(|(_, event)| event.defines());
        let gone = self.views().settle(at, events, || {
            let catalog = self.meta().catalog();
            // Called while changes of the view are serialized, so that published definitions never
            // go back.
            for id in &tables {
                if let Some((state, table)) = self.table_state(*id).zip(catalog.table_by_id(*id)) {
                    state.adopt(table, catalog.database_name(table));
                }
            }
            catalog
        });
        self.sweeper.retire(lsn, &gone);
        if defines {
            self.catalog_changed();
        }
    }

    /// Starts a checkpoint if one is due; called by the keeper.
    pub(crate) fn plan_checkpoint(self: &Arc<Self>) {
        self.settle_due();
        if self.settling.is_due(self.meta().is_ahead(), self.clock().now()) {
            self.start_checkpoint();
        }
    }

    /// Writes a checkpoint.
    ///
    /// # Errors
    /// When the disk is full; it is retried.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.settle_due();
        self.failpoints().pass("checkpoint").map_err(|e| Error::io("checkpoint", e))?;
        self.meta().checkpoint()?;
        self.remove_event_files()
    }

    /// Removes event files of records that the store reflects.
    pub(crate) fn remove_event_files(&self) -> Result<()> {
        let saved = self.meta().saved_lsn();
        let mut files = self.settling.files.lock();
        let mut free = files.extract_if(.., |(lsn, _)| *lsn <= saved).collect::<Vec<_>>();
        drop(files);
        while let Some((_, file)) = free.last() {
            if let Err(error) = remove_event_file(&self.world.fs, file) {
                // The next checkpoint retries it.
                self.settling.files.lock().append(&mut free);
                return Err(error);
            }
            free.pop();
        }
        Ok(())
    }

    /// Registers the event files of records above the checkpoint, and removes all others.
    pub(crate) fn adopt_event_files(&self, files: Vec<(Lsn, PathBuf)>) -> Result<()> {
        let dir = events_dir(&self.config().data_dir);
        let listed = self.fs().list(&dir).map_err(|error| Error::io("list files", error))?;
        for entry in listed {
            if !files.iter().any(|(_, file)| *file == entry.path) {
                remove_event_file(&self.world.fs, &entry.path)?;
            }
        }
        *self.settling.files.lock() = files;
        Ok(())
    }
}

/// An event file. When dropped, it is left to the next checkpoint that reflects its record, or to
/// the next one if no record refers to it.
pub(crate) struct EventFile {
    engine: Weak<Engine>,
    path: PathBuf,
    free_at: Lsn,
}

impl Drop for EventFile {
    fn drop(&mut self) {
        // If the process ends, the next start removes it.
        let Some(engine) = self.engine.upgrade() else { return };
        engine.settling.files.lock().push((self.free_at, std::mem::take(&mut self.path)));
    }
}

fn remove_event_file(fs: &freshet_base::io::FsRef, file: &Path) -> Result<()> {
    match fs.remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format_args!("remove {}", file.display()), error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_a_pause_apart_however_much_settles() {
        let settling = Settling::default();
        let is_due = |is_ahead, millis| settling.is_due(is_ahead, Duration::from_millis(millis));
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
