//! A store with a log on a simulated machine, for tests: its disk, a manual clock, what metadata
//! would know.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::clock::{Clock, ClockRef, LogClock};
use freshet_base::fail::Failpoints;
use freshet_base::io::{Fs, FsRef};
use freshet_base::metrics::Metrics;
use freshet_base::{LogPosition, Lsn, Term};
use freshet_testkit::SimFs;
use futures::channel::oneshot;
use futures::executor::{LocalPool, block_on};
use futures::future::BoxFuture;
use futures::task::LocalSpawnExt;
use parking_lot::Mutex;

use crate::damage::{Hole, ScanError};
use crate::scan::{FileState, Scan, ScanInput, scan};
use crate::{
    LogFile, NewTerm, Recycled, Secret, TermFile, Wal, WalOptions, WalWorld, make_file, read_term,
    write_term,
};

pub const BLOCK: usize = 4096;

/// The term file.
pub const TERM_FILE: &str = "/raft.state";

/// Sleeps end when [`TestClock::ring`] is called, and time passes only by [`TestClock::set`].
#[derive(Clone, Default)]
pub struct TestClock(Arc<TestTime>);

#[derive(Default)]
struct TestTime {
    sleepers: Mutex<Vec<oneshot::Sender<()>>>,
    now_micros: AtomicU64,
    wall_micros: AtomicI64,
}

impl TestClock {
    /// Sets the monotonic and the wall clock.
    pub fn set(&self, now_micros: u64, wall_micros: i64) {
        self.0.now_micros.store(now_micros, Ordering::Relaxed);
        self.0.wall_micros.store(wall_micros, Ordering::Relaxed);
    }

    /// Ends all sleeps; returns their number.
    pub fn ring(&self) -> usize {
        let sleepers = std::mem::take(&mut *self.0.sleepers.lock());
        sleepers.into_iter().filter_map(|sleeper| sleeper.send(()).ok()).count()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.now_micros.load(Ordering::Relaxed))
    }

    fn wall_micros(&self) -> i64 {
        self.0.wall_micros.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration.is_zero() {
            return Box::pin(std::future::ready(()));
        }
        let (sender, receiver) = oneshot::channel();
        self.0.sleepers.lock().push(sender);
        Box::pin(async move {
            let _ = receiver.await;
        })
    }
}

/// A record in the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    pub lsn: Lsn,
    pub kind: u8,
    pub stamp: Vec<u8>,
    pub payload: Vec<u8>,
}

/// A store with a log on the simulated machine, with the state that metadata would have, over many
/// terms.
pub struct Store {
    pub fs: SimFs,
    pub clock: TestClock,
    pub failpoints: Failpoints,
    pub options: WalOptions,
    pub files: Vec<LogFile>,
    pub secrets: Vec<Secret>,
    pub recycled: LogPosition,
    pub durable_known: Lsn,
    pub accepted: Vec<Hole>,
    pub fatal: Arc<Mutex<Option<String>>>,
    pub metrics: Arc<Metrics>,
}

/// A running log.
pub struct Running {
    pub wal: Arc<Wal>,
    pool: LocalPool,
    /// The ends of batches after which the test has observed the log.
    positions: Vec<LogPosition>,
}

impl Store {
    /// Files of 16 blocks, records of up to 4.
    pub fn small() -> Self {
        let options = WalOptions {
            file_bytes: 16 * BLOCK as u64,
            wal_bytes_max: 8 * 16 * BLOCK as u64,
            kept_bytes: 2 * BLOCK as u64,
            ready_files_min: 1,
            idle_after: Duration::from_millis(5),
        };
        Self::with(options)
    }

    pub fn with(options: WalOptions) -> Self {
        let secret = Secret { from: Term(1), key: [0xfeed, 0xbeef] };
        let fs = SimFs::default();
        fs.make_dir(Path::new("/log")).unwrap();
        Self {
            fs,
            clock: TestClock::default(),
            failpoints: Failpoints::default(),
            options,
            files: Vec::new(),
            secrets: vec![secret],
            recycled: LogPosition::default(),
            durable_known: Lsn::ZERO,
            accepted: Vec::new(),
            fatal: Arc::default(),
            metrics: Arc::new(Metrics::new()),
        }
    }

    pub fn make_file(&mut self) -> LogFile {
        self.try_make_file().unwrap()
    }

    pub fn try_make_file(&mut self) -> io::Result<LogFile> {
        let id = self.files.len() as u64;
        let bytes = self.options.file_bytes;
        let file = LogFile { id, path: PathBuf::from(format!("/log/{id}")), bytes };
        make_file(&self.fs, &file.path, bytes)?;
        self.files.push(file.clone());
        Ok(file)
    }

    /// The first start, with `files` files.
    pub fn first_start(&mut self, files: usize) -> Running {
        let state = |file| FileState { file, live: None, leaving: false };
        let files = (0..files).map(|_| state(self.make_file())).collect();
        self.start((LogPosition::default(), Lsn::ZERO), None, files).unwrap()
    }

    /// The highest term that may have written anything.
    pub fn term(&self) -> Term {
        match read_term(&self.fs, Path::new(TERM_FILE)).unwrap() {
            TermFile::Missing => Term::ZERO,
            other => other.term().expect("one block of the term is whole"),
        }
    }

    fn start(
        &self,
        (after, durable_recorded): (LogPosition, Lsn),
        time_micros: Option<i64>,
        files: Vec<FileState>,
    ) -> io::Result<Running> {
        let term = self.term().next();
        write_term(&self.fs, Path::new(TERM_FILE), term)?;
        let clock: ClockRef = Arc::new(self.clock.clone());
        let clock = Arc::new(LogClock::new(clock, time_micros));
        let secrets = self.secrets.clone();
        let term = NewTerm { term, secrets, after, durable_recorded, clock };
        let fatal = Arc::clone(&self.fatal);
        let world = WalWorld {
            fs: Arc::new(self.fs.clone()),
            clock: Arc::new(self.clock.clone()),
            metrics: Arc::clone(&self.metrics),
            failpoints: self.failpoints.clone(),
            on_fatal: Box::new(move |message| *fatal.lock() = Some(message.to_owned())),
        };
        let wal = Wal::start(self.options.clone(), world, term, files).unwrap();
        let pool = LocalPool::new();
        pool.spawner().spawn_local(Arc::clone(&wal).run()).unwrap();
        Ok(Running { wal, pool, positions: vec![self.recycled, after] })
    }

    /// Scans as a start does.
    pub fn scan(&self) -> Result<Scan, ScanError> {
        let fs: FsRef = Arc::new(self.fs.clone());
        let scan = scan(ScanInput {
            fs,
            files: &self.files,
            secrets: &self.secrets,
            recycled: self.recycled,
            durable_known: self.durable_known,
            accepted_holes: &self.accepted,
        })?;
        scan.secure()?;
        Ok(scan)
    }

    /// Recovers and starts the next term.
    pub fn recover(&mut self) -> (Running, Vec<Kept>, Scan) {
        let scan = self.scan().unwrap();
        let records = read_all(&scan);
        (self.start_after(&scan), records, scan)
    }

    /// Starts the next term after a scan.
    pub fn start_after(&self, scan: &Scan) -> Running {
        self.try_start_after(scan).unwrap()
    }

    /// Like [`Self::start_after`]; the power may fail.
    pub fn try_start_after(&self, scan: &Scan) -> io::Result<Running> {
        self.start((scan.end, scan.durable_recorded), scan.time_micros, scan.files.clone())
    }

    /// Recovers with another file size.
    pub fn recover_with(&mut self, options: WalOptions) -> (Running, Vec<Kept>) {
        let scan = self.scan().unwrap();
        self.options = options;
        let leaves = |file: &LogFile| file.bytes != self.options.file_bytes;
        let states = scan.files.iter().filter(|state| !leaves(&state.file) || state.live.is_some());
        let states =
            states.map(|state| FileState { leaving: leaves(&state.file), ..state.clone() });
        let end = (scan.end, scan.durable_recorded);
        (self.start(end, scan.time_micros, states.collect()).unwrap(), read_all(&scan))
    }
}

pub fn read_all(scan: &Scan) -> Vec<Kept> {
    let mut records = scan.records();
    let mut all = Vec::new();
    while let Some(record) = records.next_record().unwrap() {
        let (stamp, payload) = (record.stamp.to_vec(), record.payload.to_vec());
        all.push(Kept { lsn: record.lsn, kind: record.kind, stamp, payload });
    }
    all
}

impl Running {
    /// Appends a record with its LSN as stamp; the writer does not run meanwhile.
    pub fn append(&self, kind: u8, payload: &[u8]) -> Kept {
        let room = self.wal.try_reserve(payload.len() + 8).expect("there is room");
        let stamp = |lsn: Lsn, stamp: &mut Vec<u8>| {
            stamp.extend_from_slice(&lsn.get().to_be_bytes());
            Ok::<(), ()>(())
        };
        let (lsn, ()) = self.wal.append(kind, payload, room, stamp).unwrap();
        let stamp = lsn.get().to_be_bytes().to_vec();
        Kept { lsn, kind, stamp, payload: payload.to_vec() }
    }

    /// Runs the writer until it has nothing to do.
    pub fn drive(&mut self) {
        self.pool.run_until_stalled();
        self.positions.extend(self.wal.position());
    }

    /// The end of the last batch at or below `lsn`.
    pub fn position(&self, lsn: Lsn) -> LogPosition {
        let below = self.positions.iter().filter(|position| position.lsn <= lsn);
        below.max_by_key(|position| position.lsn).copied().unwrap_or_default()
    }

    /// Recycles the batches that end at or below `lsn`.
    pub fn recycle(&self, store: &mut Store, lsn: Lsn) -> Recycled {
        store.recycled = self.position(lsn);
        self.wal.recycle(store.recycled)
    }

    pub fn durable(&self) -> Lsn {
        self.wal.horizon().get()
    }

    /// Stops the writer once everything is written.
    pub fn stop(mut self) {
        self.wal.stop();
        self.pool.run();
        block_on(self.wal.horizon().wait(self.wal.horizon().get()));
    }
}
