//! Metadata follows the log (cluster.md 41 to 43): the result of a flush or a merge is a record,
//! which is applied to metadata in memory ("settles") once the horizon has reached it, in log
//! order. A checkpoint updates the store on disk later; only then are files deleted that the store
//! still refers to.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_base::fail::AbortOnPanic;
use freshet_base::{Error, Lsn, Result, err, task};
use freshet_meta::{MetaEvent, disk};
use freshet_storage::fold::Event;
use freshet_wal::Room;
use futures::channel::oneshot;
use parking_lot::Mutex;

use crate::engine::Engine;
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
    shown: Shown,
    /// The file that contains its event.
    file: Option<EventFile>,
    answer: oneshot::Sender<bool>,
}

/// The change of the view when a metadata record settles.
pub(crate) struct Shown {
    pub table: Arc<TableState>,
    /// The LSN of the view after the change.
    pub at: Lsn,
    /// The change.
    pub event: Event<'static>,
    /// Prevents the sweep from deleting the new files until the view refers to them.
    pub in_flight: InFlight,
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
        let (payload, room, file) = self.payload_of(disk::encode(&event), room).await?;
        let (answer, settled) = oneshot::channel();
        let appended = self.wal().append(Kind::Metadata as u8, &payload[..], room, |lsn, stamp| {
            if shown.table.is_dropped() {
                return Err(());
            }
            record::write_metadata_stamp(stamp, shown.table.id);
            shown.table.note_event(lsn);
            let entered = Entered { lsn, event, shown, file, answer };
            self.settling.entered.lock().push_back(entered);
            Ok(())
        });
        let Ok((lsn, ())) = appended else { return Ok(false) };
        self.horizon().wait(lsn).await;
        self.settle_due();
        Ok(settled.await.expect("what is durable has settled"))
    }

    /// Encodes an event with log space for it: in a file if it is long or there is no log space for
    /// it.
    async fn payload_of(
        self: &Arc<Self>,
        event: Vec<u8>,
        small: Room,
    ) -> Result<(Vec<u8>, Room, Option<EventFile>)> {
        let bytes_max = (self.config().wal_file_bytes.bytes() / FILE_PARTS) as usize;
        let inline = |room| (record::metadata_payload(MetadataBody::Inline(&event)), room, None);
        if event.len() < SMALL_EVENT_BYTES {
            return Ok(inline(small));
        }
        if event.len() <= bytes_max
            && let Some(room) = self.wal().try_reserve_publish(event.len() + SMALL_EVENT_BYTES)
        {
            return Ok(inline(room));
        }
        let name = format!("{}.event", self.meta().ids().rowset()?);
        let path = events_dir(&self.config().data_dir).join(&name);
        let checksum = crc_fast::crc32_iscsi(&event);
        let file = EventFile { engine: Arc::downgrade(self), path, free_at: Lsn::ZERO };
        let (engine, to) = (Arc::clone(self), file.path.clone());
        task::run(&**self.pool(), move || engine.fs().write_atomic(&to, &event))
            .await
            .map_err(|error| Error::io(format_args!("write {}", file.path.display()), error))?;
        let body = MetadataBody::File { checksum, name: &name };
        Ok((record::metadata_payload(body), small, Some(file)))
    }

    /// Waits until all metadata records of a table have settled. Futures of a flush or merge may
    /// have been dropped between append and settling.
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
        let Shown { table, at, event: of_view, in_flight } = shown;
        let fits = self.meta().settle(lsn, &event);
        if fits {
            self.show_since(lsn, at, table.id, of_view);
        }
        // By now either the view refers to the files or nothing does.
        drop(in_flight);
        if let Some(mut file) = file {
            file.free_at = lsn;
        }
        // The receiver may have been dropped.
        let _ = answer.send(fits);
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
struct EventFile {
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

/// The directory of event files.
pub(crate) fn events_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("events")
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
