//! Handling of a full disk (log.md 23): freeing space must not itself require space.
//!
//! A ballast file is kept beside metadata. When the disk is full, it is deleted, so that flushes
//! and their metadata commits can continue and free log space. Until it is recreated, no other
//! files may grow: no additional log files and no large loads. Reads continue, admission returns
//! errors to writers, and writing resumes automatically once there is space.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use freshet_base::task::Lane;
use freshet_base::{ByteSize, Error, ErrorCode, Result, Retry};
use freshet_meta::Ballast;
use parking_lot::Mutex;

use crate::config::EngineConfig;
use crate::job::Job;
use crate::world::World;

/// Rows that are not stored yet are not written where less than this would be left on the disk.
pub(crate) const LEFT_BYTES: u64 = 256 << 20;

/// Size of the ballast file.
const BALLAST_BYTES: u64 = 16 << 20;
/// Minimum interval between attempts to recreate the ballast.
const PAUSE: Duration = Duration::from_secs(1);

/// The disk of the data directory: its ballast, and whether that exists.
pub(crate) struct Disk {
    world: World,
    dir: PathBuf,
    ballast: Ballast,
    held: AtomicBool,
    due: Mutex<Duration>,
    job: Job,
}

impl Disk {
    /// The ballast of an earlier process is kept.
    pub fn new(world: World, config: &EngineConfig) -> Self {
        let path = config.data_dir.join("ballast");
        let bytes = BALLAST_BYTES.min(config.wal_file_bytes.bytes());
        let ballast = Ballast::new(Arc::clone(&world.fs), path, bytes);
        Self {
            world,
            dir: config.data_dir.clone(),
            held: AtomicBool::new(ballast.is_held()),
            ballast,
            due: Mutex::new(Duration::ZERO),
            job: Job::default(),
        }
    }

    /// Whether the ballast is being recreated.
    pub fn is_busy(&self) -> bool {
        self.job.is_running()
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

    /// Creates the ballast when the store is opened, if there is space.
    pub fn take_ballast(&self) {
        match self.ballast.make() {
            Ok(()) => self.held.store(true, Ordering::Release),
            Err(error) => tracing::warn!(%error, "no room for the ballast: the disk is full"),
        }
    }

    /// Checks that files may grow for work that does not free space.
    ///
    /// # Errors
    /// `DiskFull`, retryable.
    pub fn may_grow(&self) -> Result<()> {
        if self.held.load(Ordering::Acquire) {
            return Ok(());
        }
        let (dir, free) = (self.dir.display(), self.free_bytes());
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
    pub fn keep_ballast(self: &Arc<Self>) {
        if self.held.load(Ordering::Acquire) {
            return;
        }
        let now = self.world.clock.now();
        let mut due = self.due.lock();
        if now < *due {
            return;
        }
        let Some(running) = self.job.begin() else { return };
        *due = now.saturating_add(PAUSE);
        drop(due);
        let disk = Arc::clone(self);
        self.world.pool.execute(
            Lane::Background,
            Box::new(move || {
                if disk.free_bytes() >= 2 * BALLAST_BYTES && disk.ballast.make().is_ok() {
                    disk.held.store(true, Ordering::Release);
                    tracing::info!("the disk has room again");
                }
                drop(running);
            }),
        );
    }

    fn free_bytes(&self) -> u64 {
        self.world.fs.available_bytes(&self.dir).unwrap_or(0)
    }
}
