//! A clock and a log disk that tests control: time can be advanced, and writes delayed or blocked.
#![allow(clippy::disallowed_methods)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::clock::{Clock, SystemClock};
use freshet_base::io::{File, FileRef, Mode, RealFs};
use freshet_ingest::World;
use freshet_testkit::ThroughFs;
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

/// The system clock plus an offset set by the test.
pub struct TestClock {
    real: SystemClock,
    ahead: Mutex<Duration>,
    wall_step_micros: AtomicI64,
    moved: Arc<Notify>,
}

impl TestClock {
    /// Replaces the clock in `world`.
    pub fn install(world: &mut World) -> Arc<Self> {
        let clock = Arc::new(Self {
            real: SystemClock::new(),
            ahead: Mutex::default(),
            wall_step_micros: AtomicI64::new(0),
            moved: Arc::default(),
        });
        world.clock = Arc::new(Shared(Arc::clone(&clock)));
        clock
    }

    /// Advances the clock and wakes sleepers whose time has come.
    pub fn advance(&self, time: Duration) {
        *self.ahead.lock() += time;
        self.moved.notify_waiters();
    }

    /// Steps the wall clock; monotonic time is unchanged.
    pub fn step_wall(&self, seconds: i64) {
        self.wall_step_micros.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }

    fn now(&self) -> Duration {
        self.real.now() + *self.ahead.lock()
    }
}

struct Shared(Arc<TestClock>);

impl Clock for Shared {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn wall_micros(&self) -> i64 {
        let ahead = i64::try_from(self.0.ahead.lock().as_micros()).unwrap();
        self.0.real.wall_micros() + ahead + self.0.wall_step_micros.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let clock = Arc::clone(&self.0);
        let until = clock.now().saturating_add(duration);
        Box::pin(async move {
            loop {
                let moved = Arc::clone(&clock.moved).notified_owned();
                let mut moved = std::pin::pin!(moved);
                moved.as_mut().enable();
                let left = until.saturating_sub(clock.now());
                if left.is_zero() {
                    return;
                }
                futures::future::select(moved, clock.real.sleep(left)).await;
            }
        })
    }
}

/// Controls writes to the log, which are durable when they return.
#[derive(Default)]
pub struct LogDisk {
    held: Mutex<bool>,
    released: Condvar,
    delay: Mutex<Duration>,
    writes: AtomicU64,
}

impl LogDisk {
    /// Wraps the file system in `world`; writes pass through until they are blocked.
    pub fn install(world: &mut World) -> Arc<Self> {
        let disk = Arc::new(Self::default());
        let log = Arc::clone(&disk);
        world.fs = Arc::new(ThroughFs::new(Arc::new(RealFs), move |inner, path, mode| {
            let inner = inner.open(path, mode)?;
            // Only the log writes past the page cache.
            Ok(match mode {
                Mode::Direct => Arc::new(HeldFile { inner, disk: Arc::clone(&log) }),
                _ => inner,
            })
        }));
        disk
    }

    /// Delays every write.
    pub fn slow(&self, delay: Duration) {
        *self.delay.lock() = delay;
    }

    /// The number of writes so far.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Blocks writes until the guard is dropped.
    pub fn hold(self: &Arc<Self>) -> Held {
        *self.held.lock() = true;
        Held(Arc::clone(self))
    }

    fn pass(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let delay = *self.delay.lock();
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let mut held = self.held.lock();
        self.released.wait_while(&mut held, |held| *held);
    }
}

/// Writes to the log are blocked.
pub struct Held(Arc<LogDisk>);

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.held.lock() = false;
        self.0.released.notify_all();
    }
}

struct HeldFile {
    inner: FileRef,
    disk: Arc<LogDisk>,
}

impl File for HeldFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(buffer, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.pass();
        self.inner.write_all_at(bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.pass();
        self.inner.sync()
    }
    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.inner.set_len(len_bytes)
    }
    fn len_bytes(&self) -> io::Result<u64> {
        self.inner.len_bytes()
    }
    fn drop_cache(&self) -> io::Result<()> {
        self.inner.drop_cache()
    }
}
