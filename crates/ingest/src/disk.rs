//! A full disk (log.md 23): what frees room must not need the room it frees.
//!
//! A ballast is kept beside metadata. When the disk is full it is given up, so that flushes and
//! their metadata commits can go on and free log; until it is made again nothing else may grow
//! files: no further log file, no large load. Reads go on, writers are told by admission, and
//! writing resumes by itself when there is room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use freshet_base::io::FsRef;
use freshet_base::task::Lane;
use freshet_base::{ByteSize, Error, ErrorCode, Result, Retry};
use freshet_meta::Ballast;
use parking_lot::Mutex;

use crate::engine::Engine;

/// The room kept back.
const BALLAST_BYTES: u64 = 16 << 20;
/// How often a ballast that was given up is tried to be made again.
const PAUSE: Duration = Duration::from_secs(1);

/// The room kept back, and whether it is.
pub(crate) struct Disk {
    ballast: Ballast,
    held: AtomicBool,
    busy: AtomicBool,
    due: Mutex<Duration>,
}

impl Disk {
    /// The disk of the data directory; what an earlier process kept back is kept.
    pub fn new(fs: &FsRef, config: &crate::EngineConfig) -> Self {
        let path = config.data_dir.join("ballast");
        let bytes = BALLAST_BYTES.min(config.wal_file_bytes.bytes());
        let ballast = Ballast::new(Arc::clone(fs), path, bytes);
        Self {
            held: AtomicBool::new(ballast.is_held()),
            ballast,
            busy: AtomicBool::new(false),
            due: Mutex::new(Duration::ZERO),
        }
    }

    /// Whether it is being made.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Gives the ballast up when `error` says that the disk is full; returns whether there was
    /// one, so that it is worth trying again.
    pub fn give_up_for(&self, error: &Error) -> bool {
        if error.code() != ErrorCode::DiskFull || !self.held.swap(false, Ordering::AcqRel) {
            return false;
        }
        match self.ballast.give_up() {
            Ok(_) => tracing::warn!("the disk is full: room kept back for flushes is given up"),
            Err(error) => tracing::error!(%error, "the ballast cannot be given up"),
        }
        true
    }

    /// Does `work`, with the room of the ballast if it takes that: for what must be done even on
    /// a full disk, such as a start.
    pub fn with_ballast<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        match work() {
            Err(error) if self.give_up_for(&error) => work(),
            done => done,
        }
    }
}

impl Engine {
    /// Takes the ballast when the store opens, if there is room for it.
    pub(crate) fn take_ballast(&self) {
        match self.disk.ballast.make() {
            Ok(()) => self.disk.held.store(true, Ordering::Release),
            Err(error) => tracing::warn!(%error, "no room for the ballast: the disk is full"),
        }
    }

    /// Gives the ballast up when `error` says that the disk is full.
    pub(crate) fn note_error(&self, error: &Error) {
        self.disk_gave_room_for(error);
    }

    /// The same; returns whether there was a ballast, so that it is worth trying again.
    pub(crate) fn disk_gave_room_for(&self, error: &Error) -> bool {
        self.disk.give_up_for(error)
    }

    /// Whether files may grow that free nothing.
    ///
    /// # Errors
    /// `DiskFull`, retryable.
    pub(crate) fn may_grow(&self) -> Result<()> {
        if self.disk.held.load(Ordering::Acquire) {
            return Ok(());
        }
        let dir = self.config().data_dir.display();
        let free = self.fs().available_bytes(&self.config().data_dir).unwrap_or(0);
        Err(Error::new(
            ErrorCode::DiskFull,
            format!(
                "the disk of {dir} is full ({} free): free some space; writing resumes by itself",
                ByteSize(free)
            ),
        )
        .with_retry(Retry::After(PAUSE)))
    }

    /// Makes the ballast again when there is room for twice as much; called by the keeper.
    pub(crate) fn keep_ballast(self: &Arc<Self>) {
        if self.disk.held.load(Ordering::Acquire) {
            return;
        }
        let now = self.clock().now();
        {
            let mut due = self.disk.due.lock();
            if now < *due || self.disk.busy.swap(true, Ordering::AcqRel) {
                return;
            }
            *due = now.saturating_add(PAUSE);
        }
        let engine = Arc::clone(self);
        self.pool().execute(
            Lane::Background,
            Box::new(move || {
                let free = engine.fs().available_bytes(&engine.config().data_dir).unwrap_or(0);
                if free >= 2 * BALLAST_BYTES && engine.disk.ballast.make().is_ok() {
                    engine.disk.held.store(true, Ordering::Release);
                    tracing::info!("the disk has room again");
                }
                engine.disk.busy.store(false, Ordering::Release);
            }),
        );
    }
}
