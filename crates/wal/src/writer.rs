//! Appends and writes: a lock that determines the order, and a task that writes to the device.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use freshet_base::budget::NoRoom;
use freshet_base::clock::{ClockRef, Deadline, LogClock};
use freshet_base::fail::{AbortOnPanic, Failpoints};
use freshet_base::io::FsRef;
use freshet_base::metrics::Metrics;
use freshet_base::{LogPosition, Lsn, Term};
use futures::task::AtomicWaker;
use parking_lot::Mutex;

use crate::BLOCK_BYTES;
use crate::checksum::Salt;
use crate::file::{LogFile, OpenFile};
use crate::horizon::Horizon;
use crate::queue::{Entry, Frame, Queue};
use crate::record::{FRAME_HEADER_BYTES, Header, KIND_IDLE, Payload, STAMP_BYTES_MAX, frame_bytes};
use crate::recycle::{Files, LiveFile, Recycled};
use crate::room::{LogSpace, Priority, Room, charge_bytes};
use crate::scan::FileState;
use crate::term::{Secret, Terms};

mod task;

/// Maximum size of a synced write. Devices reach about full speed at this size; with smaller
/// writes, the sync takes longer than the transfer.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Larger payloads are not copied under the lock; copying this much takes a few microseconds.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// Sizes and durations of a log.
#[derive(Clone, Debug)]
pub struct WalOptions {
    pub file_bytes: u64,
    /// Total size of all files.
    pub wal_bytes_max: u64,
    /// Space reserved for records that free space: ends of groups, barriers, idle records.
    pub kept_bytes: u64,
    /// Minimum number of files to keep ready for writing.
    pub ready_files_min: usize,
    /// How long after its last record the log is idle.
    pub idle_after: Duration,
}

impl Default for WalOptions {
    fn default() -> Self {
        let file_bytes = 64 << 20;
        Self {
            file_bytes,
            wal_bytes_max: 4 << 30,
            kept_bytes: file_bytes / 4,
            ready_files_min: 2,
            idle_after: Duration::from_millis(5),
        }
    }
}

impl WalOptions {
    /// The maximum size of a record, a quarter of a file rounded down to blocks.
    pub fn record_bytes_max(&self) -> u64 {
        self.file_bytes / 4 / BLOCK_BYTES * BLOCK_BYTES
    }

    /// Maximum number of files.
    pub fn files_max(&self) -> usize {
        usize::try_from(self.wal_bytes_max / self.file_bytes).unwrap_or(usize::MAX)
    }

    fn batch_bytes(&self) -> usize {
        let quarter = usize::try_from(self.record_bytes_max()).unwrap_or(usize::MAX);
        quarter.min(BATCH_BYTES_MAX)
    }

    fn copied_bytes_max(&self) -> usize {
        COPIED_BYTES_MAX.min(self.batch_bytes() / 4)
    }

    fn check(&self) {
        assert!(self.file_bytes.is_multiple_of(BLOCK_BYTES), "a log file is whole blocks");
        assert!(self.record_bytes_max() >= BLOCK_BYTES, "a log file has at least four blocks");
        assert!(self.ready_files_min >= 1, "admission needs a ready file");
        assert!(self.files_max() > self.ready_files_min, "the log needs a file to write in");
        let sure_bytes = self.ready_files_min as u64 * (self.file_bytes - self.record_bytes_max());
        let needed_bytes = self.kept_bytes + self.record_bytes_max();
        assert!(sure_bytes >= needed_bytes, "the ready files hold a record beside what is kept");
    }
}

/// External dependencies of a log.
pub struct WalWorld {
    pub fs: FsRef,
    /// Measures syncs and idle time.
    pub clock: ClockRef,
    /// Receives the metrics `wal_*`.
    pub metrics: Arc<Metrics>,
    /// The failpoints `wal-before-write` and `wal-after-write` are passed around each batch.
    pub failpoints: Failpoints,
    /// Called once when a write failed, with a message for the operator. It must end the process,
    /// because the state of the device is then unknown.
    pub on_fatal: Box<dyn Fn(&str) + Send + Sync>,
}

/// The new term, which is already in the term file.
#[derive(Clone)]
pub struct NewTerm {
    pub term: Term,
    /// The secrets of the store.
    pub secrets: Vec<Secret>,
    /// The end of the log before this term.
    pub after: LogPosition,
    /// The highest LSN that the log itself records as durable; an idle record follows those
    /// above it.
    pub durable_recorded: Lsn,
    /// Provides the times of batches; it is not behind the time of the last batch.
    pub clock: Arc<LogClock>,
}

/// Statistics of the log, for policies and monitoring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WalStats {
    /// The LSN of the next record.
    pub next_lsn: Lsn,
    /// The highest durable LSN.
    pub durable_lsn: Lsn,
    /// Files with unrecycled records, in LSN order; the last one may still be written to.
    pub live_files: Vec<LiveFile>,
    /// The end of the last file that the writer has completed; recycling up to it frees all
    /// completed files.
    pub full_to: Option<LogPosition>,
    /// The first LSN of this term.
    pub term_first: Lsn,
    /// Number of files ready to be written from their start.
    pub ready_files: usize,
    /// Maximum number of files.
    pub files_max: usize,
    /// Size of the live files; of the last one only the used part.
    pub live_bytes: u64,
    /// Space that loads can reserve immediately.
    pub free_bytes: u64,
    /// What is left of the space that is kept back for records that free space.
    pub kept_bytes_left: u64,
    /// Number of waiters for space.
    pub room_waiters: usize,
}

/// State guarded by the append lock.
struct Log {
    next_lsn: Lsn,
    /// The log time of the current or last batch.
    time_micros: i64,
    queue: Queue,
    /// Buffer for a stamp, whose length is not known in advance.
    stamp: Vec<u8>,
    /// Whether the writer sleeps, so that the next append must wake it.
    writer_sleeps: bool,
    stopping: bool,
}

/// The write-ahead log during one term.
pub struct Wal {
    options: WalOptions,
    world: WalWorld,
    term: NewTerm,
    salt: Salt,
    log: Mutex<Log>,
    writer: AtomicWaker,
    files: Mutex<Files>,
    space: Arc<LogSpace>,
    horizon: Horizon,
    has_ended: AtomicBool,
    stopper: AtomicWaker,
}

impl Wal {
    /// Opens the log for a new term, after recovery or, without files, for the first time. `files`
    /// is the result of [`scan()`](crate::scan()) in any order; those with another size than in
    /// `options` must be marked as leaving. Nothing is written until [`Wal::run`] is polled.
    ///
    /// # Errors
    /// A file that cannot be opened or has another length.
    ///
    /// # Panics
    /// When the sizes in `options` are inconsistent.
    pub fn start(
        options: WalOptions,
        world: WalWorld,
        term: NewTerm,
        files: Vec<FileState>,
    ) -> io::Result<Arc<Self>> {
        options.check();
        assert!(term.term > term.after.term, "a term is above all that stand in the log");
        assert!(term.durable_recorded <= term.after.lsn, "the log records nothing behind its end");
        let terms = Terms::new(&term.secrets);
        let salt = terms.salt(term.term).expect("a secret of the store is for every term");
        let record_bytes_max = options.record_bytes_max();
        let space = LogSpace::new(options.file_bytes, record_bytes_max, options.kept_bytes);
        let log = Log {
            next_lsn: term.after.lsn.next(),
            time_micros: i64::MIN,
            queue: Queue::new(options.batch_bytes(), options.copied_bytes_max()),
            stamp: Vec::new(),
            writer_sleeps: false,
            stopping: false,
        };
        let wal = Self {
            salt,
            log: Mutex::new(log),
            writer: AtomicWaker::new(),
            files: Mutex::new(Files::new(options.file_bytes)),
            space: Arc::new(space),
            horizon: Horizon::new(term.after.lsn),
            has_ended: AtomicBool::new(false),
            stopper: AtomicWaker::new(),
            term,
            options,
            world,
        };
        wal.adopt(files)?;
        Ok(Arc::new(wal))
    }

    /// Registers the files of earlier terms.
    fn adopt(&self, mut states: Vec<FileState>) -> io::Result<()> {
        states.sort_by_key(|state| state.live.map(|live| live.last.lsn));
        let mut files = self.files.lock();
        let mut ready_files = 0;
        for FileState { file, live, leaving } in states {
            let open = self.open(file.clone())?;
            match live {
                None => {
                    files.add_ready(open);
                    ready_files += 1;
                }
                Some(records) => files.add_full(open, records.of(file), leaving),
            }
        }
        self.space.resume_file(files.resume_last());
        self.world.metrics.wal_files.set(files.total() as i64);
        drop(files);
        self.space.add_files(ready_files);
        Ok(())
    }

    fn open(&self, file: LogFile) -> io::Result<OpenFile> {
        OpenFile::open(&*self.world.fs, file)
    }

    /// Appends a record and returns its LSN; it is durable once the horizon reaches it.
    ///
    /// `stamp` is called under the lock that determines the order of the log. It writes the stamp,
    /// at most [`STAMP_BYTES_MAX`], and performs whatever must happen in log order. It must be fast
    /// and must not call the log. If it fails, nothing was appended.
    ///
    /// # Errors
    /// Only those of `stamp`.
    ///
    /// # Panics
    /// When `room` is smaller than stamp and payload, or when `kind` is [`KIND_IDLE`].
    pub fn append<'a, R, E>(
        &self,
        kind: u8,
        payload: impl Into<Payload<'a>>,
        room: Room,
        stamp: impl FnOnce(Lsn, &mut Vec<u8>) -> Result<R, E>,
    ) -> Result<(Lsn, R), E> {
        self.append_timed(kind, payload, room, |lsn, _, bytes| stamp(lsn, bytes))
    }

    /// Like [`Wal::append`], but also passes the log time in microseconds to `stamp`; readers of
    /// the record get the same time.
    ///
    /// # Errors
    /// Those of [`Wal::append`].
    pub fn append_timed<'a, R, E>(
        &self,
        kind: u8,
        payload: impl Into<Payload<'a>>,
        room: Room,
        stamp: impl FnOnce(Lsn, i64, &mut Vec<u8>) -> Result<R, E>,
    ) -> Result<(Lsn, R), E> {
        assert_ne!(kind, KIND_IDLE, "idle records are the log's own");
        self.append_any(kind, payload.into(), room, stamp)
    }

    fn append_any<R, E>(
        &self,
        kind: u8,
        payload: Payload<'_>,
        room: Room,
        stamp: impl FnOnce(Lsn, i64, &mut Vec<u8>) -> Result<R, E>,
    ) -> Result<(Lsn, R), E> {
        let payload = payload.share_large(self.options.copied_bytes_max());
        let payload_checksum = payload.checksum(&self.salt);
        // A panic inside would leave log and delta inconsistent. The tests of this crate provoke
        // panics, so they are exempt.
        let _whole = cfg!(not(test)).then(|| AbortOnPanic::in_work("the append of a log record"));
        let mut guard = self.log.lock();
        let log = &mut *guard;
        let lsn = log.next_lsn;
        if log.queue.is_empty() {
            // Read once per batch: its records share the time, which never goes back.
            log.time_micros = log.time_micros.max(self.term.clock.now_micros());
        }
        log.stamp.clear();
        let result = stamp(lsn, log.time_micros, &mut log.stamp)?;
        let header = Header {
            kind,
            stamp_bytes: u32::try_from(log.stamp.len()).expect("checked against room below"),
            payload_bytes: u32::try_from(payload.len()).expect("room is below 4 GiB"),
            lsn,
            payload_checksum,
        };
        log.next_lsn = lsn.next();
        log.push(&header, payload, room, &self.salt);
        let wake = std::mem::take(&mut log.writer_sleeps);
        drop(guard);
        if wake {
            self.writer.wake();
        }
        Ok((lsn, result))
    }

    fn append_idle(&self, room: Room) {
        let nothing = |_: Lsn, _: i64, _: &mut Vec<u8>| Ok::<(), Infallible>(());
        match self.append_any(KIND_IDLE, Payload::Slice(&[]), room, nothing) {
            Ok(_) => {}
        }
    }

    /// Reserves space for a record with at most `bytes` of stamp and payload; `None` when there is
    /// none now, when others are waiting, or when the record would be too large.
    pub fn try_reserve(&self, bytes: usize) -> Option<Room> {
        self.space.try_reserve(bytes, Priority::Load)
    }

    /// Reserves space including the reserve for records that free space. Callers must limit how
    /// much of it they hold.
    pub fn try_reserve_privileged(&self, bytes: usize) -> Option<Room> {
        self.space.try_reserve(bytes, Priority::Privileged)
    }

    /// Reserves space for a record that publishes files, after which recycling can free more. Part
    /// of the reserve remains exclusive to ends of groups and barriers.
    pub fn try_reserve_publish(&self, bytes: usize) -> Option<Room> {
        self.space.try_reserve(bytes, Priority::Publish)
    }

    /// Reserves space for the first record of the term, while others are held.
    pub fn try_reserve_term(&self, bytes: usize) -> Option<Room> {
        self.space.try_reserve(bytes, Priority::Term)
    }

    /// Holds all records but the first of the term: nobody else gets space, and who can wait for it
    /// waits.
    pub fn hold(&self) {
        self.space.hold(true);
    }

    /// Lets in the records that [`Self::hold`] has held.
    ///
    /// # Panics
    /// When the term has no record yet.
    pub fn release(&self) {
        let next_lsn = self.log.lock().next_lsn;
        assert!(next_lsn > self.term.after.lsn.next(), "the first record of the term is appended");
        self.space.hold(false);
        // It may have put off an idle record.
        self.writer.wake();
    }

    /// Like [`Wal::try_reserve`], but waits until `deadline`.
    ///
    /// # Errors
    /// [`NoRoom::Never`] when the record would be too large, [`NoRoom::TimedOut`].
    pub async fn reserve(
        &self,
        bytes: usize,
        clock: &dyn freshet_base::clock::Clock,
        deadline: Deadline,
    ) -> Result<Room, NoRoom> {
        self.space.reserve(bytes, Priority::Load, clock, deadline).await
    }

    /// Like [`Wal::try_reserve_publish`], but waits until `deadline`. Meanwhile nothing that frees
    /// space may depend on the caller.
    ///
    /// # Errors
    /// Those of [`Wal::reserve`].
    pub async fn reserve_publish(
        &self,
        bytes: usize,
        clock: &dyn freshet_base::clock::Clock,
        deadline: Deadline,
    ) -> Result<Room, NoRoom> {
        self.space.reserve(bytes, Priority::Publish, clock, deadline).await
    }

    /// Whether a record with `bytes` of stamp and payload can be appended at all.
    pub fn takes_record_of(&self, bytes: usize) -> bool {
        charge_bytes(bytes) <= self.options.record_bytes_max()
    }

    /// Tracks up to where the log is durable.
    pub fn horizon(&self) -> &Horizon {
        &self.horizon
    }

    /// Adds a file made by [`crate::make_file`], once metadata lists it.
    ///
    /// # Errors
    /// A file that cannot be opened or has another length.
    pub fn offer_file(&self, file: LogFile) -> io::Result<()> {
        let open = self.open(file)?;
        let total = {
            let mut files = self.files.lock();
            files.add_ready(open);
            files.total()
        };
        self.world.metrics.wal_files.set(total as i64);
        self.space.add_files(1);
        Ok(())
    }

    /// Whether the owner should create another file now.
    pub fn needs_file(&self) -> bool {
        let files = self.files.lock();
        files.ready() < self.options.ready_files_min && files.total() < self.options.files_max()
    }

    /// Reuses files whose batches are all at or before `up_to`, and returns those marked as
    /// leaving. Metadata must already contain the recycled position.
    ///
    /// # Panics
    /// When `up_to` is not durable.
    pub fn recycle(&self, up_to: LogPosition) -> Recycled {
        assert!(up_to.lsn <= self.horizon.get(), "only what is durable is recycled");
        let recycled = self.files.lock().recycle(up_to);
        self.space.add_files(recycled.used_again);
        recycled
    }

    pub fn stats(&self) -> WalStats {
        let next_lsn = self.log.lock().next_lsn;
        let (live_files, full_to, ready_files) = {
            let files = self.files.lock();
            (files.live(), files.full_to(), files.ready())
        };
        let (last_bytes, full_bytes) = match live_files.split_last() {
            Some((last, full)) => (last.used_bytes, full.iter().map(|file| file.file.bytes).sum()),
            None => (0, 0),
        };
        WalStats {
            next_lsn,
            durable_lsn: self.horizon.get(),
            ready_files,
            files_max: self.options.files_max(),
            live_bytes: full_bytes + last_bytes,
            live_files,
            full_to,
            term_first: self.term.after.lsn.next(),
            free_bytes: self.space.free_bytes(),
            kept_bytes_left: self.space.kept_bytes_left(),
            room_waiters: self.space.waiting(),
        }
    }

    /// The end of the last batch written to a file.
    #[cfg(test)]
    pub(crate) fn position(&self) -> Option<LogPosition> {
        self.files.lock().live().last().map(|file| file.last)
    }

    /// Makes [`Wal::run`] end once everything appended is written. Later appends are never written.
    pub fn stop(&self) {
        self.log.lock().stopping = true;
        self.writer.wake();
    }

    /// Resolves once [`Wal::run`] has ended. After [`Wal::stop`] the log writes one more record,
    /// which records the last one as durable. Supports a single waiter.
    pub fn ended(&self) -> impl Future<Output = ()> + '_ {
        poll_fn(|context| {
            self.stopper.register(context.waker());
            if self.has_ended.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
    }
}

impl Log {
    /// Queues the record whose stamp has just been written.
    fn push(&mut self, header: &Header, payload: Payload<'_>, room: Room, salt: &Salt) {
        let stamp = &self.stamp[..];
        assert!(stamp.len() <= STAMP_BYTES_MAX, "a stamp of {} bytes is too long", stamp.len());
        let needed_bytes = charge_bytes(stamp.len() + payload.len());
        assert!(
            needed_bytes <= room.charge_bytes(),
            "a record of {needed_bytes} bytes has room for {} only",
            room.charge_bytes(),
        );
        let entry = Entry {
            lsn: header.lsn,
            time_micros: self.time_micros,
            charge_bytes: room.into_charge(),
            of_callers: header.kind != KIND_IDLE,
        };
        let raw_bytes = FRAME_HEADER_BYTES + stamp.len() + payload.len();
        let padding = frame_bytes(stamp.len(), payload.len()) - raw_bytes;
        let header = &header.encode(stamp, salt);
        self.queue.push(&entry, Frame { header, stamp, payload, padding });
    }
}

#[cfg(test)]
mod tests;
