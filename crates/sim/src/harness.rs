//! A store through its lives: opened, used, ended in various ways, reopened and compared.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use freshet_base::fail::Failpoints;
use freshet_base::metrics::Metrics;
use freshet_base::{ByteSize, ErrorCode, Lsn, Result};
use freshet_ingest::{Engine, EngineConfig, STORE_FILE, World};
use freshet_meta::MarkFileMeta;
use freshet_storage::delta::Freshness;
use freshet_testkit::{Faults, SimFs};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::executor::Executor;
use crate::loads::Client;
use crate::model::{Model, versions};

/// The path of the store on the simulated disk.
pub const STORE: &str = "/store";
/// More steps than any run needs; exceeding them is a livelock.
const STEPS_MAX: u64 = 20_000_000;

/// The directory of data files, which may fail without affecting the log.
pub fn data_files() -> PathBuf {
    Path::new(STORE).join("data")
}

/// How a life of the store ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// A power failure: unsynced data may be lost.
    PowerCut,
    /// The end of the process: written data stays in the page cache.
    ProcessEnd,
}

/// A simulated disk and thread with a store.
pub struct Sim {
    pub fs: SimFs,
    pub executor: Executor,
    /// The configuration of the store.
    pub config: EngineConfig,
    /// The expected contents of the log.
    pub model: Arc<Mutex<Model>>,
    /// Failpoints of the next life.
    pub failpoints: Failpoints,
    /// Random numbers for actors and crashes.
    pub chance: StdRng,
    /// Client tasks, which are dropped before an orderly stop.
    pub clients: Vec<u64>,
    fatal: Arc<Mutex<Option<String>>>,
    engine: Option<Arc<Engine>>,
}

impl Sim {
    /// An independent simulation for `seed`, with a store of tiny limits.
    pub fn new(seed: u64) -> Self {
        let mut chance = StdRng::seed_from_u64(seed);
        let fs = SimFs::new(StdRng::from_rng(&mut chance), 1 << 40);
        let executor = Executor::new(StdRng::from_rng(&mut chance));
        Self {
            fs,
            executor,
            config: tiny_config(),
            model: Arc::default(),
            failpoints: Failpoints::default(),
            chance,
            clients: Vec::new(),
            fatal: Arc::default(),
            engine: None,
        }
    }

    /// The engine of the current life.
    ///
    /// # Panics
    /// When the store is not open.
    pub fn engine(&self) -> &Arc<Engine> {
        self.engine.as_ref().expect("the store is open")
    }

    /// A client of the current engine.
    pub fn client(&self, disk_fails: bool) -> Client {
        Client {
            engine: Arc::clone(self.engine()),
            executor: self.executor.clone(),
            fs: self.fs.clone(),
            model: Arc::clone(&self.model),
            disk_fails,
        }
    }

    /// Whether this life is over: the process died in a call or ended itself.
    pub fn is_dead(&self) -> bool {
        self.fs.has_crashed() || self.fatal.lock().is_some()
    }

    /// The reason why the process ended itself, if it did.
    pub fn fatal(&self) -> Option<String> {
        self.fatal.lock().clone()
    }

    /// Runs `task` until it ends; `None` if the process died first.
    ///
    /// # Panics
    /// When no task can make progress, or the run does not end.
    pub fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let slot = Arc::new(Mutex::new(None));
        let result = Arc::clone(&slot);
        self.executor.start(async move {
            let value = task.await;
            *result.lock() = Some(value);
        });
        let first_step = self.executor.steps();
        let ended = self.executor.run_until(|| {
            assert!(self.executor.steps() - first_step < STEPS_MAX, "the run does not end");
            self.is_dead() || slot.lock().is_some()
        });
        assert!(ended, "everybody waits for somebody else");
        if self.is_dead() { None } else { slot.lock().take() }
    }

    /// The external dependencies of the next life.
    pub fn world(&mut self) -> World {
        let draws = Mutex::new(StdRng::from_rng(&mut self.chance));
        let fatal = Arc::clone(&self.fatal);
        World {
            fs: Arc::new(self.fs.clone()),
            clock: Arc::new(self.executor.clone()),
            pool: Arc::new(self.executor.clone()),
            metrics: Arc::new(Metrics::new()),
            failpoints: self.failpoints.clone(),
            on_fatal: Arc::new(move |message| {
                fatal.lock().get_or_insert_with(|| message.to_owned());
            }),
            draw: Arc::new(move || draws.lock().random()),
        }
    }

    /// Opens the store; `None` if the process died meanwhile.
    ///
    /// # Errors
    /// Those of [`Engine::open`].
    pub fn try_open(&mut self) -> Option<Result<()>> {
        let world = self.world();
        let opened = self.run(Engine::open(self.config.clone(), world))?;
        Some(opened.map(|engine| self.engine = Some(engine)))
    }

    /// Opens the store, retrying after crashes, and compares it with the model, before its term
    /// begins and after that.
    ///
    /// # Panics
    /// When it cannot be opened, or differs.
    pub fn open(&mut self) {
        loop {
            self.open_to_read();
            let engine = Arc::clone(self.engine());
            // On a full log it begins later.
            if self.run(async move { engine.begun().await }).is_some() {
                self.model.lock().check_staged(self.engine());
                self.check_again();
                // It may die of what goes on behind that.
                if !self.is_dead() {
                    break;
                }
            }
            assert!(self.fs.has_crashed(), "the term began with {:?}", self.fatal());
            self.end_life(Death::PowerCut);
        }
    }

    /// Like [`Self::open`], but does not wait until the term begins.
    ///
    /// # Panics
    /// When it cannot be opened, or differs.
    pub fn open_to_read(&mut self) {
        loop {
            match self.try_open() {
                Some(Ok(())) => break,
                Some(Err(error)) => panic!("the store does not open: {error}"),
                None => {
                    // A crash while it opened, which also explains a fatal message.
                    assert!(self.fs.has_crashed(), "opening ended in {:?}", self.fatal());
                    self.end_life(Death::PowerCut);
                }
            }
        }
        let log_end = self.log_end();
        self.model.lock().reopened(self.engine(), log_end);
        self.check_again();
    }

    /// The end of the log before this life.
    pub fn log_end(&self) -> Lsn {
        Lsn(self.engine().log_stats().term_first.get() - 1)
    }

    /// Compares current snapshots with the model; reads all files.
    ///
    /// # Panics
    /// When they differ.
    pub fn check(&self) {
        self.model.lock().forget_files();
        self.check_again();
    }

    /// Like [`Self::check`], but reads no file of which this life has read the same rows.
    ///
    /// # Panics
    /// When they differ.
    fn check_again(&self) {
        for freshness in [Freshness::Committed, Freshness::Published] {
            let snapshot = Arc::new(self.engine().snapshot(freshness));
            let (client, own) = (self.client(false), Arc::clone(&snapshot));
            self.run(async move { client.resolved(&own).await });
            self.model.lock().check_again(&snapshot);
        }
    }

    /// A copy of the disk, opened with a second engine.
    fn copy(&self) -> Self {
        let mut chance = StdRng::seed_from_u64(self.executor.steps());
        let mut copy = Self {
            fs: self.fs.copy(StdRng::from_rng(&mut chance)),
            executor: Executor::new(StdRng::from_rng(&mut chance)),
            config: self.config.clone(),
            model: Arc::default(),
            failpoints: Failpoints::default(),
            chance,
            clients: Vec::new(),
            fatal: Arc::default(),
            engine: None,
        };
        // So that it does not flush before the comparison.
        copy.config.write_memory_bytes = ByteSize::gib(1);
        let opened = copy.try_open().expect("nobody dies there");
        opened.unwrap_or_else(|error| panic!("a copy of the store does not open: {error}"));
        copy
    }

    /// Opens a copy of the disk with a second engine and compares the state of all tables, and of
    /// all metadata when nothing is under way: replaying the log on top of metadata and files gives
    /// the state of the running engine, at any time.
    ///
    /// # Panics
    /// When they differ.
    pub fn check_replay(&self) {
        let live = self.engine().digests().expect("rows fit their columns");
        let mut copy = self.copy();
        let replayed = copy.engine().digests().expect("rows fit their columns");
        let log_end = copy.log_end();
        let settled = self.engine().meta().settled();
        let is_level = settled == log_end && self.engine().log_stats().next_lsn == log_end.next();
        if is_level {
            check_metadata(self.engine(), copy.engine());
        }
        copy.end_life(Death::ProcessEnd);
        for table in replayed.keys().filter(|table| !live.contains_key(table)) {
            // Either its DROP is not in the log yet, or its CREATE has not settled yet.
            let is_due = match self.model.lock().dropped_at(*table) {
                Some(dropped_at) => dropped_at > log_end,
                // Of copies of tables nobody is told.
                None => settled < log_end || !self.model.lock().knows(*table),
            };
            assert!(is_due, "only replay up to {log_end} has table {table}");
        }
        for (table, live) in live.iter().filter(|(_, live)| live.applied <= log_end) {
            let Some(replayed) = replayed.get(table) else {
                // A table that is copied loses its name to the copy, of which nobody is told.
                let is_due = settled < log_end && !self.model.lock().knows(*table);
                assert!(is_due, "replay lacks table {table}");
                continue;
            };
            assert_eq!(
                live.in_log, replayed.in_log,
                "table {table} at {log_end} here and in replay"
            );
            if let Some(contents) = &live.contents {
                assert_eq!(Some(contents), replayed.contents.as_ref(), "table {table}");
                self.model.lock().counts.replays += 1;
            }
        }
    }

    /// Ends this life abruptly.
    pub fn end_life(&mut self, death: Death) {
        self.executor.kill_all();
        self.clients.clear();
        self.engine = None;
        match death {
            Death::PowerCut => self.fs.crash(),
            Death::ProcessEnd => self.fs.end_process(),
        }
        *self.fatal.lock() = None;
    }

    /// Ends this life and begins the next.
    pub fn crash(&mut self, death: Death) {
        self.end_life(death);
        self.open();
    }

    /// Reopens the store after another crash and compares: repeating recovery changes nothing.
    ///
    /// # Panics
    /// When it does.
    pub fn replay_again(&mut self) {
        let before = versions(self.engine());
        let death = if self.chance.random() { Death::PowerCut } else { Death::ProcessEnd };
        self.crash(death);
        assert_eq!(before, versions(self.engine()), "a second replay counts other versions");
    }

    /// Schedules the death of the process in one of the next `calls_max` calls of the disk.
    pub fn die_within_calls(&mut self, calls_max: u64) {
        let crash_in_calls = self.chance.random_range(1..=calls_max);
        self.fs.set_faults(Faults { crash_in_calls, ..Faults::default() });
    }

    /// Lets simulated time pass.
    pub fn pass(&self, time: Duration) {
        let clock = self.executor.clone();
        self.run(async move { freshet_base::clock::Clock::sleep(&clock, time).await });
    }

    /// Stops the store in order; its clients are dropped first, wherever they are.
    ///
    /// # Panics
    /// When it cannot be stopped, or part of the log is not durable afterwards.
    pub fn stop(&mut self) {
        self.executor.kill(&std::mem::take(&mut self.clients));
        let engine = Arc::clone(self.engine());
        let stopped = self.run(async move { engine.stop().await });
        if let Some(stopped) = stopped {
            let failed = stopped.is_err_and(|error| error.code() != ErrorCode::OutOfRoom);
            assert!(!failed, "stopping fails for want of log room only");
            let last = self.engine().log_stats().next_lsn.get() - 1;
            assert_eq!(self.engine().horizon().get().get(), last, "all is durable at the end");
        }
        self.end_life(Death::ProcessEnd);
    }

    /// Flushes everything; then no load may hold memory any more, and metadata must refer to every
    /// file on the disk.
    ///
    /// # Panics
    /// When there is a leak.
    pub fn flush_and_check_leaks(&mut self) {
        let engine = Arc::clone(self.engine());
        let flushed = self.run(async move {
            for state in engine.table_states() {
                engine.flush_table(state.id).await?;
            }
            Ok::<_, freshet_base::Error>(())
        });
        flushed.expect("nobody dies here").expect("everything can be flushed at the end");
        self.pass_to_rest();
        self.check();
        self.check_contents();
        let used = self.engine().memory().used_bytes();
        assert_eq!(used, 0, "memory of writes that nobody gave back");
        let pins = self.engine().views().pins();
        assert_eq!(pins.count(), 0, "snapshots that nobody closed");
        assert_eq!(pins.memory().used_bytes(), 0, "memory of snapshots that nobody gave back");
        self.check_files();
    }

    /// Lets time pass until nothing is written any more and all is removed that nothing names:
    /// tables at rest are merged one after the other, and what the recycle bin has kept expires.
    ///
    /// # Panics
    /// When that takes too long.
    fn pass_to_rest(&self) {
        // Replaced rowsets are deleted after a second, orphans after two sweeps a grace period
        // apart.
        let pause = self.config.orphan_grace * 4 + Duration::from_secs(10);
        for _ in 0..RESTS_MAX {
            let before = self.engine().log_stats().next_lsn;
            self.pass(pause);
            if self.engine().log_stats().next_lsn == before {
                return;
            }
        }
        panic!("records are appended all the time, though nobody writes");
    }

    /// Keys and indexes of files have what their rows have.
    fn check_contents(&self) {
        let snapshot = self.engine().snapshot(Freshness::Committed);
        for state in self.engine().table_states() {
            let Ok(Some(table)) = snapshot.table(state.id) else { continue };
            let findings = freshet_storage::check::check(&table.tablets);
            assert!(findings.is_empty(), "{findings:?}");
        }
    }

    fn check_files(&self) {
        let meta = self.engine().meta();
        let data = freshet_storage::DataDir::new(self.config.data_dir.join("data"));
        let mut named = vec![
            self.config.data_dir.join(freshet_ingest::META_FILE),
            self.config.data_dir.join(freshet_ingest::TERM_FILE),
            self.config.data_dir.join("LOCK"),
        ];
        for stored in meta.fold().tables() {
            for rowset in &stored.rowsets {
                let dir = data.tablet(stored.table.id, rowset.tablet);
                named.extend(rowset.segments.iter().map(|segment| dir.join(&segment.file)));
            }
            let marks = |file: &MarkFileMeta| data.marks(stored.table.id, file.number);
            named.extend(stored.marks.iter().map(marks));
        }
        for one in meta.fold().resting() {
            let table = one.resting.table;
            for rowset in &one.rowsets {
                let dir = data.tablet(table, rowset.tablet);
                named.extend(rowset.segments.iter().map(|segment| dir.join(&segment.file)));
            }
            named.extend(one.resting.marks.iter().map(|file| data.marks(table, file.number)));
        }
        let log = meta.log_state();
        let owners = log.dirs.iter().map(|dir| self.config.data_dir.join(dir).join(STORE_FILE));
        named.extend(owners);
        named.extend(log.files.iter().map(|file| self.config.data_dir.join(&file.path)));
        let side = self.config.data_dir.join("side");
        named.extend(log.side_file.iter().map(|name| side.join(name)));
        let is_ballast = |path: &Path| path.to_string_lossy().contains("ballast");
        for (path, _) in self.fs.files() {
            assert!(named.contains(&path) || is_ballast(&path), "nothing names {path:?}");
        }
    }
}

/// Compares metadata and labels of an engine with those of a replay.
fn check_metadata(live: &Engine, replayed: &Engine) {
    let (here, there) = (live.meta().fold(), replayed.meta().fold());
    assert_eq!(here.tables(), there.tables(), "tables in metadata here and in replay");
    assert_eq!(here.reserved_ids(), there.reserved_ids(), "reserved ids here and in replay");
    let (here, there) = (live.meta().catalog(), replayed.meta().catalog());
    assert_eq!(here, there, "databases, tables and users here and in replay");
    for database in here.databases() {
        let (here, there) =
            (live.finished_labels(database.id), replayed.finished_labels(database.id));
        assert_eq!(here, there, "labels of {} here and in replay", database.name);
    }
}

/// For how many pauses a store that nobody writes to may go on writing.
const RESTS_MAX: usize = 50;

/// How long dropped tables can be recovered.
pub const KEEP: Duration = Duration::from_secs(60);

/// Limits so small that a run of a second reaches all code paths.
pub fn tiny_config() -> EngineConfig {
    let mut config = EngineConfig::new(STORE, ByteSize::kib(512));
    config.wal_file_bytes = ByteSize::kib(256);
    config.wal_bytes_max = ByteSize::mib(2);
    config.flush_bytes = ByteSize::kib(16);
    config.flush_bytes_min = ByteSize::kib(4);
    config.segment_bytes_max = ByteSize::kib(64);
    config.stretch_bytes = ByteSize::kib(2);
    config.sorted_bytes_max = ByteSize::kib(16);
    config.load_patience = Duration::from_secs(5);
    config.orphan_grace = Duration::from_secs(2);
    config.recycle_bin_keep = KEEP;
    config.deleted_rows_keep = Duration::from_millis(20);
    // Who asks for it tells the model.
    config.forgets_by_itself = false;
    config
}
