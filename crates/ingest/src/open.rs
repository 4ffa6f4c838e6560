//! Opens a store: first metadata, then the log in order; then it serves requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use freshet_base::budget::Budget;
use freshet_base::clock::ClockRef;
use freshet_base::io::FsRef;
use freshet_base::{Error, ErrorCode, Lsn, Result, Term, bail, err};
use freshet_meta::{AcceptedHole, LogFileRecord, Meta, MetaConfig, RedbStore, StoredTable};
use freshet_storage::flush::Files;
use freshet_storage::segment::{FileStore, SegmentAccess};
use freshet_storage::side::SideReader;
use freshet_storage::view::{StoreView, TableView};
use freshet_storage::views::Views;
use freshet_storage::{DataDir, Rowset};
use freshet_wal::{
    FileState, Hole, LogFile, NewTerm, Scan, ScanError, ScanInput, Secret, TermFile, Wal,
    WalOptions, WalWorld, highest_term, read_term, scan, write_term,
};
use imbl::HashMap;

use crate::admit::Admission;
use crate::check::unreadable;
use crate::compact::Compactor;
use crate::config::EngineConfig;
use crate::ddl::database_name;
use crate::disk::Disk;
use crate::engine::{Engine, World};
use crate::history::History;
use crate::keeper::{self, Keeper};
use crate::log_dirs::{self, BadDir, LOCK_FILE, Lock};
use crate::metadata::{Settling, events_dir};
use crate::privacy;
use crate::recycle::{Recycler, remove_log_file, side_dir};
use crate::replay::{Replay, Replayed};
use crate::state::TableState;
use crate::sweep::Sweeper;

/// The file name of the metadata store.
pub const META_FILE: &str = "meta.redb";
/// The file name of the term, which counts the starts of the store.
pub const TERM_FILE: &str = "raft.state";

impl Engine {
    /// Opens the store in `config.data_dir`, or creates it, replays the log into memory, and starts
    /// the log thread and the keeper.
    ///
    /// # Errors
    /// When another server uses the store, when the log or metadata is damaged or has a newer
    /// version, or when the disk is full.
    pub async fn open(config: EngineConfig, world: World) -> Result<Arc<Self>> {
        let disk = Disk::new(&world.fs, &config);
        let store = disk.with_ballast(|| StoppedStore::take(&config, &world))?;
        let scan = store.scan().map_err(|error| unreadable(&store.meta.catalog(), error))?;
        disk.with_ballast(|| store.drop_unlisted())?;
        step(&world, "recovery-scanned")?;
        let files = store.files_to_continue_with(&scan)?;
        let term = disk.with_ballast(|| store.begin_term(&scan))?;
        step(&world, "recovery-term-begun")?;
        let event_files = store.settle(&scan).map_err(|lost| match lost.is_damage() {
            true => damaged(lost.error),
            false => lost.error,
        })?;
        let wal = start_wal(&config, &world, files, term)?;
        let engine = Arc::new(Self::assemble(store, world, wal, disk)?);
        let started = engine.clock().now();
        let mut replay = Replay::new(&engine);
        replay_side(&engine, &mut replay)?;
        step(&engine.world, "recovery-side-file-replayed")?;
        for hole in &scan.without_head {
            let (first, last) = (hole.first, hole.last);
            tracing::warn!(%first, %last, "the head of log records is damaged; they are read");
        }
        let mut records = scan.records();
        while let Some(record) = records.next_record().map_err(damaged)? {
            replay.record(&record).await?;
        }
        let replayed = replay.finish();
        step(&engine.world, "recovery-log-replayed")?;
        engine.show_catalog();
        tell(&engine, replayed, engine.clock().now().saturating_sub(started));
        engine.remove_side_files()?;
        engine.adopt_event_files(event_files)?;
        engine.start()?;
        step(&engine.world, "recovery-log-started")?;
        Ok(engine)
    }

    fn assemble(store: StoppedStore, world: World, wal: Arc<Wal>, disk: Disk) -> Result<Self> {
        let StoppedStore { meta, data, config, locks, .. } = store;
        let catalog = meta.catalog();
        let (fs, pool) = (Arc::clone(&world.fs), Arc::clone(&world.pool));
        let footers = Budget::new("memory of footers", config.footer_memory_bytes.bytes());
        let files = FileStore::new(Arc::clone(&fs), Arc::clone(&pool));
        let segments = SegmentAccess::new(Arc::new(files), footers, Arc::clone(&world.metrics));
        let mut views = HashMap::new();
        let mut states = HashMap::new();
        for table in meta.fold().tables() {
            let view = table_view(&segments, &data, &table)?;
            let db = database_name(&catalog, &table.table);
            let state = TableState::new(&view, &db, table.flushed.version_lsn);
            states.insert(table.table.id, Arc::new(state));
            views.insert(table.table.id, Arc::new(view));
        }
        let memory = Budget::new("memory for writes", config.write_memory_bytes.bytes());
        let kept = Budget::new("memory of snapshots", config.snapshot_memory_bytes.bytes());
        let open = config.transactions_memory_bytes.bytes();
        let open = Budget::new("memory of open transactions", open);
        let (clock, patience) = (Arc::clone(&world.clock), config.load_patience);
        let admission = Admission::new((memory, open), Arc::clone(&wal), clock, patience);
        let files = Files { fs, dir: data, pool, segments };
        Ok(Self {
            meta,
            wal,
            admission,
            views: Views::new(StoreView { catalog, tables: views }, kept),
            tables: ArcSwap::from_pointee(states),
            files,
            keeper: Keeper::default(),
            settling: Settling::default(),
            recycler: Recycler::default(),
            compactor: Compactor::default(),
            sweeper: Sweeper::new(config.orphan_grace),
            disk,
            history: History::default(),
            names: futures::lock::Mutex::new(()),
            dropped_databases: parking_lot::Mutex::default(),
            appending: std::sync::atomic::AtomicUsize::new(0),
            catalog_generation: std::sync::atomic::AtomicU64::new(1),
            config,
            world,
            _locks: locks,
        })
    }

    /// Creates the metrics of all reasons, so that they start at zero instead of appearing with the
    /// first event.
    fn show_reasons(&self) {
        use crate::record::GroupEndReason as End;
        use freshet_storage::flush_policy::FlushReason as Flush;
        let metrics = self.metrics();
        for why in [Flush::Bytes, Flush::LogRoom, Flush::Memory, Flush::Manual] {
            metrics.flushes.with_label_values(&[why.name()]);
        }
        for why in [End::Interval, End::Bytes, End::Barrier, End::Flush, End::Shutdown] {
            metrics.groups_ended.with_label_values(&[why.name()]);
        }
    }

    /// Starts the log thread and the keeper. Log files exist before the first load.
    fn start(self: &Arc<Self>) -> Result<()> {
        self.show_reasons();
        self.take_ballast();
        while self.wal().needs_file() {
            match self.make_log_file() {
                Ok(()) => {}
                // Reads work, and loads wait for log space as usual.
                Err(error) if error.code() == ErrorCode::DiskFull => {
                    self.note_error(&error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.pool().dedicate("wal", Box::pin(Arc::clone(self.wal()).run()));
        self.pool().spawn("keeper", Box::pin(keeper::run(Arc::clone(self))));
        Ok(())
    }
}

/// A failpoint of the recovery.
fn step(world: &World, name: &str) -> Result<()> {
    world.failpoints.pass(name).map_err(|error| Error::io("open the store", error))
}

fn lock_store(fs: &FsRef, dir: &Path) -> Result<Lock> {
    fs.lock(&dir.join(LOCK_FILE)).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => err!(
            Io,
            "another server has the store in {}; stop it first or choose another --data-dir",
            dir.display()
        ),
        _ => Error::io(format_args!("lock {}", dir.display()), error),
    })
}

fn make_dir(fs: &FsRef, path: &Path) -> Result<()> {
    fs.make_dir(path)
        .map_err(|error| Error::io(format_args!("make directory {}", path.display()), error))
}

fn open_meta(config: &EngineConfig, world: &World) -> Result<Meta> {
    let on_fatal = Arc::clone(&world.on_fatal);
    let path = config.data_dir.join(META_FILE);
    let store = RedbStore::open(
        Arc::clone(&world.fs),
        path,
        Arc::new(move |message: &str| on_fatal(message)),
    )?;
    let meta_config = MetaConfig { labels: config.labels };
    Meta::open(Arc::new(store), ClockRef::clone(&world.clock), meta_config)
}

fn table_view(
    segments: &Arc<SegmentAccess>,
    data: &DataDir,
    stored: &StoredTable,
) -> Result<TableView> {
    let table = Arc::clone(&stored.table);
    let mut tablets = TableView::empty_tablets(&table);
    for meta in &stored.rowsets {
        let schema = table.history.at(meta.schema_version).ok_or_else(|| {
            err!(
                Corruption,
                "files of '{}' name schema version {}",
                table.name,
                meta.schema_version
            )
        })?;
        let Some(tablet) = tablets.iter_mut().find(|tablet| tablet.id == meta.tablet) else {
            bail!(Corruption, "files of '{}' are of unknown tablet {}", table.name, meta.tablet);
        };
        let dir = data.tablet(table.id, meta.tablet);
        tablet.rowsets.push(Arc::new(Rowset::new(segments, &dir, meta.clone(), schema)));
    }
    Ok(TableView::new(table, stored.flushed.lsn, stored.flushed.version, tablets))
}

/// A stopped store: locked, with its metadata open.
pub(crate) struct StoppedStore {
    pub fs: FsRef,
    pub meta: Meta,
    pub data: DataDir,
    /// The highest term that may have written anything.
    pub term: TermFile,
    pub config: EngineConfig,
    locks: Vec<Lock>,
}

impl StoppedStore {
    /// Opens the store in `config.data_dir` for a server, including its log directories; creates
    /// what is missing.
    ///
    /// # Errors
    /// When another server uses it, when a directory belongs to another store, or when metadata
    /// cannot be read.
    pub fn take(config: &EngineConfig, world: &World) -> Result<Self> {
        let (fs, dir) = (&world.fs, &config.data_dir);
        make_dir(fs, dir)?;
        let lock = lock_store(fs, dir)?;
        if !fs.exists(&dir.join(META_FILE)) {
            log_dirs::check_new(&**fs, config)?;
        }
        privacy::close(world, std::iter::once(dir.as_path()))?;
        for path in [data_dir(dir).root(), &side_dir(dir), &events_dir(dir)] {
            make_dir(fs, path)?;
        }
        let mut store = Self::with(config, world, lock)?;
        store.locks.extend(log_dirs::take(config, world, &store.meta)?);
        let log = store.meta.log_state().dirs.into_iter().map(|name| dir.join(name));
        privacy::close(world, log.collect::<Vec<_>>().iter().map(PathBuf::as_path))?;
        Ok(store)
    }

    /// Opens the store in `config.data_dir` for a tool. Creates nothing, and takes the log's
    /// directories and sizes from metadata instead of the configuration.
    ///
    /// # Errors
    /// When it does not exist, a server uses it, or metadata cannot be read.
    pub fn open(config: &EngineConfig, world: &World) -> Result<Self> {
        let dir = &config.data_dir;
        if !world.fs.exists(&dir.join(META_FILE)) {
            bail!(Io, "there is no store in {}: {META_FILE} is not there", dir.display());
        }
        Self::with(config, world, lock_store(&world.fs, dir)?)
    }

    fn with(config: &EngineConfig, world: &World, lock: Lock) -> Result<Self> {
        let meta = open_meta(config, world)?;
        Ok(Self {
            fs: Arc::clone(&world.fs),
            term: term_file(config, world, &meta)?,
            data: data_dir(&config.data_dir),
            config: config.clone(),
            meta,
            locks: vec![lock],
        })
    }

    /// The unusable log directories.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub fn bad_log_dirs(&self) -> Result<Vec<BadDir>> {
        log_dirs::faults(&*self.fs, &self.config.data_dir, &self.meta.log_state())
    }

    /// Scans the log for its end.
    ///
    /// # Errors
    /// [`ScanError`]: why the store cannot be started.
    pub fn scan(&self) -> Result<Scan, ScanError> {
        self.read_log(scan)
    }

    /// The highest term that has written anything, according to the log and the term file.
    ///
    /// # Errors
    /// When a log file is missing or cannot be read.
    pub fn highest_term(&self) -> Result<Term, ScanError> {
        let of_log = self.read_log(|input| highest_term(&input))?;
        Ok(of_log.max(self.term.term().unwrap_or_default()))
    }

    fn read_log<T>(
        &self,
        read: impl FnOnce(ScanInput<'_>) -> Result<T, ScanError>,
    ) -> Result<T, ScanError> {
        let state = self.meta.log_state();
        let files = state.files.iter().map(|file| self.log_file(file)).collect::<Vec<_>>();
        let hole = |hole: &AcceptedHole| Hole { first: hole.first, last: hole.last };
        let holes = state.holes.iter().map(hole).collect::<Vec<_>>();
        read(ScanInput {
            fs: Arc::clone(&self.fs),
            files: &files,
            secrets: &secrets(&self.meta),
            recycled: state.recycled,
            durable_known: self.durable_known(),
            accepted_holes: &holes,
        })
    }

    fn log_file(&self, record: &LogFileRecord) -> LogFile {
        // Relative paths are relative to the data directory, which may have been moved.
        let path = self.config.data_dir.join(&record.path);
        LogFile { id: record.id, path, bytes: record.bytes }
    }

    /// The files that the log continues with. Files with another size than new ones, or in a
    /// directory without new ones, are only read: they are removed when their records are recycled,
    /// or at once if they have none.
    fn files_to_continue_with(&self, scan: &Scan) -> Result<Vec<FileState>> {
        let is_kept = |file: &LogFile| {
            let dir = file.path.parent().expect("a log file is in a directory");
            file.bytes == self.config.wal_file_bytes.bytes()
                && self.config.wal_dirs.iter().any(|wanted| wanted == dir)
        };
        let mut files = Vec::new();
        for FileState { file, live, .. } in scan.files.iter().cloned() {
            match (is_kept(&file), live) {
                (false, None) => {
                    // Removal may fail on a full disk; the next start retries it.
                    if let Err(error) = remove_log_file(&self.fs, &self.meta, &file) {
                        tracing::warn!(%error, "a log file that is not used any more stays");
                    }
                }
                (is_kept, live) => files.push(FileState { file, live, leaving: !is_kept }),
            }
        }
        Ok(files)
    }

    /// The highest LSN in metadata; everything up to it was durable.
    fn durable_known(&self) -> Lsn {
        let tables = self.meta.saved().tables();
        let flushed = tables.iter().map(|t| t.flushed.lsn.max(t.flushed.version_lsn));
        let known = [self.meta.log_state().recycled.lsn, self.meta.saved_lsn()];
        flushed.chain(known).max().unwrap_or(Lsn::ZERO)
    }

    /// The path of the term file if it is unusable, and why. `highest` is the highest term in the
    /// log.
    pub fn bad_term_file(&self, highest: Term) -> Option<(PathBuf, String)> {
        let what = match self.term {
            TermFile::Term(term) | TermFile::OneBlock(term) if term < highest => {
                format!("knows {term} of them and the log has something of {highest}")
            }
            TermFile::Term(_) | TermFile::OneBlock(_) => return None,
            TermFile::Missing => "is missing".to_owned(),
            TermFile::Damaged => "cannot be read: both of its blocks are damaged".to_owned(),
        };
        let path = self.config.data_dir.join(TERM_FILE);
        let what = format!("{}, which counts the starts of the store, {what}", path.display());
        Some((path, what))
    }

    /// Begins a new term after the end found by the scan. Its number is durable before anything is
    /// written in it.
    fn begin_term(&self, scan: &Scan) -> Result<NewTerm> {
        if let Some((_, what)) = self.bad_term_file(scan.highest_term) {
            return Err(damaged(err!(Corruption, "{what}")));
        }
        if let TermFile::OneBlock(term) = self.term {
            tracing::warn!(%term, "one block of {TERM_FILE} was damaged; it is written again");
        }
        scan.secure().map_err(damaged)?;
        let clock = Arc::clone(self.meta.labels().clock());
        scan.time_micros.inspect(|micros| clock.has_shown(*micros));
        let term = self.term.term().expect("the file of terms can be used").next();
        self.write_term(term)?;
        let secrets = secrets(&self.meta);
        Ok(NewTerm {
            term,
            secrets,
            after: scan.end,
            durable_recorded: scan.durable_recorded,
            clock,
        })
    }

    /// Writes the term file: terms up to `term` may have written something.
    pub fn write_term(&self, term: Term) -> Result<()> {
        let path = self.config.data_dir.join(TERM_FILE);
        write_term(&*self.fs, &path, term)
            .map_err(|error| Error::io(format_args!("write {}", path.display()), error))
    }

    /// The path of the current side file according to metadata.
    pub fn side_file(&self) -> Option<PathBuf> {
        let name = self.meta.log_state().side_file?;
        Some(side_dir(&self.config.data_dir).join(name))
    }
}

/// The directory of table files.
fn data_dir(store: &Path) -> DataDir {
    DataDir::new(store.join("data"))
}

pub(crate) fn damaged(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let message = format!(
        "{error}. The server does not start on it; `freshet repair --data-dir DIR` shows what \
         would be lost"
    );
    Error::new(ErrorCode::Corruption, message).with_source(error)
}

/// The term file, with term zero for a new store without log files.
fn term_file(config: &EngineConfig, world: &World, meta: &Meta) -> Result<TermFile> {
    let path = config.data_dir.join(TERM_FILE);
    let term = read_term(&*world.fs, &path)
        .map_err(|error| Error::io(format_args!("read {}", path.display()), error))?;
    let log = meta.log_state();
    let is_new = log.files.is_empty() && log.recycled.lsn == Lsn::ZERO;
    Ok(match term {
        TermFile::Missing | TermFile::Damaged if is_new => TermFile::Term(Term::ZERO),
        term => term,
    })
}

fn secrets(meta: &Meta) -> Vec<Secret> {
    let secrets = meta.log_state().secrets;
    secrets.iter().map(|secret| Secret { from: secret.from, key: secret.key }).collect()
}

fn start_wal(
    config: &EngineConfig,
    world: &World,
    files: Vec<FileState>,
    term: NewTerm,
) -> Result<Arc<Wal>> {
    let file_bytes = config.wal_file_bytes.bytes();
    let options = WalOptions {
        file_bytes,
        wal_bytes_max: config.wal_bytes_max.bytes(),
        kept_bytes: file_bytes / 4,
        ..WalOptions::default()
    };
    let on_fatal = Arc::clone(&world.on_fatal);
    let wal_world = WalWorld {
        fs: Arc::clone(&world.fs),
        clock: Arc::clone(&world.clock),
        metrics: Arc::clone(&world.metrics),
        failpoints: world.failpoints.clone(),
        on_fatal: Box::new(move |message: &str| on_fatal(message)),
    };
    Wal::start(options, wal_world, term, files).map_err(|error| Error::io("open the log", error))
}

fn replay_side(engine: &Arc<Engine>, replay: &mut Replay<'_>) -> Result<()> {
    if let Some(name) = engine.meta().log_state().side_file {
        let mut side =
            SideReader::open(&**engine.fs(), &engine.side_path(&name)).map_err(damaged)?;
        while let Some(entry) = side.next_entry().map_err(damaged)? {
            replay.side(&entry)?;
        }
    }
    Ok(())
}

fn tell(engine: &Engine, replayed: Replayed, took: std::time::Duration) {
    if replayed.records > 0 {
        let gib = replayed.bytes as f64 / (1u64 << 30) as f64;
        tracing::info!(
            records = replayed.records,
            rows = replayed.rows,
            seconds = took.as_secs_f64(),
            seconds_per_gib = took.as_secs_f64() / gib.max(f64::MIN_POSITIVE),
            tables = engine.table_states().len(),
            "log replayed"
        );
    }
}
