//! A store that no server uses: locked, with its metadata open. A start takes it, tools look into
//! it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use freshet_base::clock::ClockRef;
use freshet_base::io::FsRef;
use freshet_base::{Error, ErrorCode, Lsn, Result, Term, bail, err};
use freshet_meta::{AcceptedHole, LogFileRecord, Meta, RedbStore};
use freshet_storage::DataDir;
use freshet_wal::{
    FileState, Hole, LogFile, NewTerm, Scan, ScanError, ScanInput, Secret, TermFile, highest_term,
    read_term, scan, write_term,
};

use crate::config::EngineConfig;
use crate::layout::{
    LOCK_FILE, META_FILE, TERM_FILE, data_dir, events_dir, prepared_dir, side_dir,
};
use crate::log_dirs::{self, BadDir, Lock};
use crate::log_files::remove_log_file;
use crate::privacy;
use crate::world::World;

/// A stopped store: locked, with its metadata open.
pub(crate) struct StoppedStore {
    pub fs: FsRef,
    pub meta: Meta,
    pub data: DataDir,
    /// The highest term that may have written anything.
    pub term: TermFile,
    pub config: EngineConfig,
    pub locks: Vec<Lock>,
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
        for path in [data_dir(dir).root(), &side_dir(dir), &events_dir(dir), &prepared_dir(dir)] {
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
    pub fn files_to_continue_with(&self, scan: &Scan) -> Result<Vec<FileState>> {
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
    pub fn begin_term(&self, scan: &Scan) -> Result<NewTerm> {
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
        assert!(term > scan.highest_term, "a term is above all that stand in the log");
        self.write_term(term)?;
        let secrets = secrets(&self.meta);
        let (after, durable_recorded) = (scan.end, scan.durable_recorded);
        Ok(NewTerm { term, secrets, after, durable_recorded, clock })
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
    Meta::open(Arc::new(store), ClockRef::clone(&world.clock))
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
