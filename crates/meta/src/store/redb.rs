//! The store of a server: a redb file.
//!
//! redb refuses every call after its first I/O error. If that error was a full disk while growing,
//! the file contains the last commit unmodified, and the database is reopened. Every other failure
//! of a commit is fatal, because a page that failed to sync may be dropped from the page cache
//! while later syncs succeed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use freshet_base::io::{FsRef, Mode};
use parking_lot::{Mutex, RwLock};
use redb::{Database, ReadableDatabase, TableDefinition};

use super::backend::{FileBackend, GrowthFailed};
use super::{Batch, MetaStore, Pair, StoreError};

/// All metadata is in one table with text keys.
const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
/// Metadata is read once at the start and then kept in memory, so the cache only serves commits.
const CACHE_BYTES: usize = 16 << 20;

/// Called with the reason why metadata can no longer be trusted; ends the process. In the
/// simulation it may return, and the failed call reports the error.
pub type OnFatal = Arc<dyn Fn(&str) + Send + Sync>;

type Answer = Arc<Mutex<Option<Result<(), StoreError>>>>;

/// Metadata in a redb file.
pub struct RedbStore {
    fs: FsRef,
    path: PathBuf,
    /// `None` only after reopening failed.
    database: RwLock<Option<Database>>,
    growth_failed: GrowthFailed,
    waiting: Mutex<Vec<(Batch, Answer)>>,
    /// Held during a commit; its holder commits all waiting batches.
    leader: Mutex<()>,
    on_fatal: OnFatal,
}

impl std::fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RedbStore({})", self.path.display())
    }
}

impl RedbStore {
    /// Opens or creates the file at `path`; its directory must exist.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a database.
    pub fn open(
        fs: FsRef,
        path: impl Into<PathBuf>,
        on_fatal: OnFatal,
    ) -> Result<Self, StoreError> {
        let path = path.into();
        let growth_failed = GrowthFailed::default();
        let database = open_database(&fs, &path, &growth_failed)?;
        Ok(Self {
            fs,
            path,
            database: RwLock::new(Some(database)),
            growth_failed,
            waiting: Mutex::default(),
            leader: Mutex::default(),
            on_fatal,
        })
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&redb::ReadOnlyTable<&str, &[u8]>) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let database = self.database.read();
        let database = database.as_ref().ok_or_else(|| self.closed())?;
        let table = || Ok::<_, redb::Error>(database.begin_read()?.open_table(TABLE)?);
        table().and_then(|table| read(&table)).map_err(|error| self.failed("read", error))
    }

    fn failed(&self, doing: &str, error: redb::Error) -> StoreError {
        StoreError::Io {
            doing: format!("{doing} metadata in {}", self.path.display()),
            source: error.into(),
        }
    }

    fn closed(&self) -> StoreError {
        StoreError::Io {
            doing: format!("use metadata in {}", self.path.display()),
            source: "the file could not be opened again after the disk was full".into(),
        }
    }

    /// Handles a failed commit.
    fn recover(&self, error: redb::Error) -> StoreError {
        if !self.growth_failed.take() {
            (self.on_fatal)(&format!("commit metadata in {}: {error}", self.path.display()));
            return self.failed("commit", error);
        }
        let mut database = self.database.write();
        // The old handle must be closed before the file is reopened.
        *database = None;
        match open_database(&self.fs, &self.path, &self.growth_failed) {
            Ok(reopened) => *database = Some(reopened),
            Err(error) => {
                (self.on_fatal)(&format!("reopen metadata after a full disk: {error}"));
                return error;
            }
        }
        StoreError::DiskFull(std::io::ErrorKind::StorageFull.into())
    }

    fn commit_together(&self, batches: &[Batch]) -> Vec<Result<(), StoreError>> {
        let result = {
            let database = self.database.read();
            let Some(database) = database.as_ref() else {
                return batches.iter().map(|_| Err(self.closed())).collect();
            };
            write(database, batches)
        };
        match result {
            Ok(results) => results,
            Err(error) => {
                let first = self.recover(error);
                let rest = (1..batches.len()).map(|_| Err(first.again()));
                let mut results = rest.collect::<Vec<_>>();
                results.push(Err(first));
                results
            }
        }
    }
}

impl StoreError {
    /// The same error, for another batch of the commit.
    fn again(&self) -> Self {
        match self {
            Self::Conflict(key) => Self::Conflict(key.clone()),
            Self::DiskFull(error) => Self::DiskFull(error.kind().into()),
            Self::Io { doing, source } => {
                Self::Io { doing: doing.clone(), source: source.to_string().into() }
            }
        }
    }
}

fn open_database(
    fs: &FsRef,
    path: &Path,
    growth_failed: &GrowthFailed,
) -> Result<Database, StoreError> {
    let io = |doing: &str, source: std::io::Error| StoreError::Io {
        doing: format!("{doing} {}", path.display()),
        source: source.into(),
    };
    let file = if fs.exists(path) {
        let file = fs.open(path, Mode::Write).map_err(|error| io("open", error))?;
        // Recovery must read what is on the device, not only in the page cache.
        file.drop_cache().map_err(|error| io("sync", error))?;
        file
    } else {
        let file = fs.open(path, Mode::CreateNew).map_err(|error| io("create", error))?;
        let parent = path.parent().unwrap_or(Path::new("."));
        fs.sync_dir(parent).map_err(|error| io("sync the directory of", error))?;
        file
    };
    let backend = FileBackend::new(file, growth_failed.clone());
    let opened = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend);
    let database = opened.map_err(redb::Error::from).and_then(|database| {
        // The table must exist before the first read.
        write(&database, &[])?;
        Ok(database)
    });
    database.map_err(|error| match growth_failed.take() {
        true => StoreError::DiskFull(std::io::ErrorKind::StorageFull.into()),
        false => StoreError::Io { doing: format!("open {}", path.display()), source: error.into() },
    })
}

fn write(
    database: &Database,
    batches: &[Batch],
) -> Result<Vec<Result<(), StoreError>>, redb::Error> {
    let transaction = database.begin_write()?;
    let results = {
        let mut table = transaction.open_table(TABLE)?;
        let results = batches.iter().map(|batch| apply(&mut table, batch));
        results.collect::<Result<Vec<_>, redb::Error>>()?
    };
    transaction.commit()?;
    Ok(results)
}

fn apply(
    table: &mut redb::Table<'_, &str, &[u8]>,
    batch: &Batch,
) -> Result<Result<(), StoreError>, redb::Error> {
    use redb::ReadableTable;
    for (key, expected) in &batch.expect {
        let stands = table.get(key.as_str())?;
        if stands.as_ref().map(|value| value.value()) != expected.as_deref() {
            return Ok(Err(StoreError::Conflict(key.clone())));
        }
    }
    for (key, value) in &batch.put {
        table.insert(key.as_str(), value.as_slice())?;
    }
    for key in &batch.delete {
        table.remove(key.as_str())?;
    }
    Ok(Ok(()))
}

impl MetaStore for RedbStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|table| Ok(table.get(key)?.map(|value| value.value().to_vec())))
    }

    fn scan(&self, prefix: &str) -> Result<Vec<Pair>, StoreError> {
        self.read(|table| {
            let mut pairs = Vec::new();
            for pair in table.range(prefix..)? {
                let (key, value) = pair?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                pairs.push((key.value().to_owned(), value.value().to_vec()));
            }
            Ok(pairs)
        })
    }

    fn commit_all(&self, batches: &[Batch]) -> Vec<Result<(), StoreError>> {
        let _leader = self.leader.lock();
        self.commit_together(batches)
    }

    fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let answer = Answer::default();
        self.waiting.lock().push((batch, answer.clone()));
        let _leader = self.leader.lock();
        if let Some(result) = answer.lock().take() {
            return result;
        }
        let (batches, answers): (Vec<_>, Vec<_>) =
            std::mem::take(&mut *self.waiting.lock()).into_iter().unzip();
        for (answer, result) in answers.iter().zip(self.commit_together(&batches)) {
            *answer.lock() = Some(result);
        }
        answer.lock().take().expect("a leader commits every batch that waits, its own included")
    }
}
