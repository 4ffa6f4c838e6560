//! Handling of a full disk (log.md 23): freeing space must not itself require space.
//!
//! A ballast file is kept beside metadata. When the disk is full, it is deleted, so that flushes
//! and their metadata commits can continue and free log space. Until it is recreated, no other
//! files may grow: no additional log files and no large loads. Reads continue, admission returns
//! errors to writers, and writing resumes automatically once there is space.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use freshet_base::io::FsRef;
use freshet_base::task::Lane;
use freshet_base::{ByteSize, Error, ErrorCode, Result, Retry};
use freshet_meta::Ballast;
use parking_lot::Mutex;

use crate::engine::Engine;

/// Size of the ballast file.
const BALLAST_BYTES: u64 = 16 << 20;
/// Minimum interval between attempts to recreate the ballast.
const PAUSE: Duration = Duration::from_secs(1);

/// The ballast of a disk, and whether it exists.
pub(crate) struct Disk {
    ballast: Ballast,
    held: AtomicBool,
    busy: AtomicBool,
    due: Mutex<Duration>,
}

impl Disk {
    /// The disk of the data directory; the ballast of an earlier process is kept.
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

    /// Whether the ballast is being recreated.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Deletes the ballast if `error` says that the disk is full. Returns whether there was one, so
    /// that retrying is worthwhile.
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

    /// Performs `work`, with the space of the ballast if needed: for work that must succeed even on
    /// a full disk, such as a start.
    pub fn with_ballast<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        match work() {
            Err(error) if self.give_up_for(&error) => work(),
            done => done,
        }
    }
}

impl Engine {
    /// Creates the ballast when the store is opened, if there is space.
    pub(crate) fn take_ballast(&self) {
        match self.disk.ballast.make() {
            Ok(()) => self.disk.held.store(true, Ordering::Release),
            Err(error) => tracing::warn!(%error, "no room for the ballast: the disk is full"),
        }
    }

    /// Deletes the ballast if `error` says that the disk is full.
    pub(crate) fn note_error(&self, error: &Error) {
        self.release_ballast_on(error);
    }

    /// Like [`Self::note_error`]; returns whether there was a ballast, so that retrying is
    /// worthwhile.
    pub(crate) fn release_ballast_on(&self, error: &Error) -> bool {
        self.disk.give_up_for(error)
    }

    /// Checks that files may grow for work that does not free space.
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

    /// Recreates the ballast when there is space for twice its size; called by the keeper.
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
