//! The directories of the log: each one belongs to a store and is used by one server at a time.
//!
//! A directory contains a file `STORE` with the id of its store, and metadata lists the directory.
//! So a directory of another store, one whose disk is not mounted, and a log that is newer than the
//! metadata are detected before anything is written there.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use freshet_base::io::{Fs, FsRef};
use freshet_base::{Error, Result, Term, err};
use freshet_meta::{LogSecret, LogState, Meta};

use crate::config::EngineConfig;
use crate::layout::{LOCK_FILE, META_FILE, STORE_FILE};
use crate::world::World;

/// A lock that is held until dropped.
pub(crate) type Lock = Box<dyn Send + Sync>;

/// Why a log directory is unusable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirFault {
    Missing,
    /// It exists but has no file [`STORE_FILE`].
    Unmarked,
    /// It belongs to the store whose data directory is given.
    Others(String),
    /// It was never used by this store, and contains the given log file.
    Unknown(String),
    /// It contains the given log file, which is newer than the metadata.
    Newer(String),
}

/// A log directory with its metadata.
pub(crate) struct LogDir {
    pub path: PathBuf,
    /// The path as listed in metadata.
    pub name: String,
    is_listed: bool,
    /// Whether new files may be created in it.
    is_wanted: bool,
    /// Ids of its log files according to metadata.
    pub files: Vec<u64>,
}

/// An unusable log directory.
pub(crate) struct BadDir {
    pub dir: LogDir,
    pub fault: DirFault,
}

impl fmt::Display for BadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.dir.path.display();
        match &self.fault {
            DirFault::Missing => write!(f, "log directory {path} is missing"),
            DirFault::Unmarked => {
                write!(
                    f,
                    "log directory {path} has no file {STORE_FILE}, which says whose log it is"
                )
            }
            DirFault::Others(of) => {
                write!(f, "log directory {path} belongs to another store, that of {of}")
            }
            DirFault::Unknown(file) => {
                write!(f, "log directory {path} holds {file}, a log file of an unknown store")
            }
            DirFault::Newer(file) => {
                write!(f, "log directory {path} holds {file}, which metadata knows nothing of")
            }
        }?;
        match self.dir.files.len() {
            0 => Ok(()),
            count => write!(f, " ({count} log files of this store stood there)"),
        }
    }
}

impl BadDir {
    /// Advice to the operator.
    fn advice(&self) -> &'static str {
        match (&self.fault, self.dir.is_listed || !self.dir.files.is_empty()) {
            (DirFault::Missing | DirFault::Unmarked, _) => {
                "Is its disk mounted? If it is lost, `freshet repair --data-dir DIR` shows what is \
                 lost with it"
            }
            (DirFault::Others(_) | DirFault::Unknown(_), false) => {
                "Give this store a directory of its own with group_commit_wal_path"
            }
            (DirFault::Others(_) | DirFault::Unknown(_), true) => {
                "Put back what stood there and give each store directories of its own with \
                 group_commit_wal_path; if it is lost, `freshet repair --data-dir DIR` shows what \
                 was in it"
            }
            (DirFault::Newer(_), _) => {
                "Restore the metadata that belongs to the log, or move the file away"
            }
        }
    }

    pub fn into_error(self) -> Error {
        err!(Corruption, "{self}. {}", self.advice())
    }
}

/// The path of a log directory as listed in metadata: relative if it is below the data directory,
/// so that the data directory can be moved.
pub(crate) fn listed(data_dir: &Path, path: &Path) -> Result<String> {
    // Path components ignore a trailing slash.
    let path = path.strip_prefix(data_dir).unwrap_or(path).components().as_path();
    path.to_str().map(str::to_owned).ok_or_else(|| err!(Io, "{} is no text", path.display()))
}

/// The directories known to metadata and the configured ones, without duplicates.
fn all(state: &LogState, data_dir: &Path, wanted: &[PathBuf]) -> Result<Vec<LogDir>> {
    let file_dirs = state.files.iter().filter_map(|file| Path::new(&file.path).parent());
    let wanted = wanted.iter().map(|dir| listed(data_dir, dir)).collect::<Result<BTreeSet<_>>>()?;
    let file_dirs = file_dirs.filter_map(Path::to_str).map(str::to_owned);
    let names = file_dirs.chain(state.dirs.iter().cloned()).chain(wanted.iter().cloned());
    let dir = |name: String| {
        let is_in = |path: &str| Path::new(path).parent() == Some(Path::new(&name));
        let in_it = state.files.iter().filter(|file| is_in(&file.path));
        LogDir {
            path: data_dir.join(&name),
            is_listed: state.dirs.contains(&name),
            is_wanted: wanted.contains(&name),
            files: in_it.map(|file| file.id).collect(),
            name,
        }
    };
    Ok(names.collect::<BTreeSet<_>>().into_iter().map(dir).collect())
}

/// The unusable log directories of a stopped store. Changes nothing.
///
/// # Errors
/// When a directory cannot be read.
pub(crate) fn faults(fs: &dyn Fs, data_dir: &Path, state: &LogState) -> Result<Vec<BadDir>> {
    let mut bad = Vec::new();
    for dir in all(state, data_dir, &[])? {
        if let Some(fault) = dir.fault(fs, state)? {
            bad.push(BadDir { dir, fault });
        }
    }
    Ok(bad)
}

/// Acquires the log directories for a server: creates new ones, locks them, marks them with the
/// store's id, and releases those that are no longer used.
///
/// # Errors
/// When a directory belongs to another store, is missing, or is used by another server.
pub(crate) fn take(config: &EngineConfig, world: &World, meta: &Meta) -> Result<Vec<Lock>> {
    let fs = &world.fs;
    if meta.log_state().store == 0 {
        let store = (world.draw)().max(1);
        let secret = LogSecret { from: Term::ZERO, key: [(world.draw)(), (world.draw)()] };
        meta.update_log(|state| {
            state.store = store;
            state.secrets = vec![secret];
        })?;
    }
    let state = meta.log_state();
    let mut locks = Vec::new();
    let mut names = Vec::new();
    for dir in all(&state, &config.data_dir, &config.wal_dirs)? {
        if dir.is_wanted || !dir.files.is_empty() {
            names.push(dir.name.clone());
            locks.push(dir.take(fs, &state, &config.data_dir)?);
        } else {
            dir.let_go(&**fs, state.store)?;
        }
    }
    assert_eq!(locks.len(), names.len(), "each directory that is used is locked");
    assert!(!meta.log_state().secrets.is_empty(), "a store has a secret before its first term");
    meta.update_log(|state| state.dirs = names)?;
    Ok(locks)
}

/// Refuses to create a store beside the remains of a store without metadata, or in a log directory
/// of another store.
///
/// # Errors
/// When there is either.
pub(crate) fn check_new(fs: &dyn Fs, config: &EngineConfig) -> Result<()> {
    let data_dir = &config.data_dir;
    let own = [data_dir.join("wal").join(STORE_FILE), data_dir.join("ballast")];
    let mut remains = own.into_iter().filter(|path| fs.exists(path)).collect::<Vec<_>>();
    for dir in ["data", "side"].map(|name| data_dir.join(name)) {
        let entries = if fs.exists(&dir) { fs.list(&dir) } else { Ok(Vec::new()) };
        let entries = entries.map_err(|error| failed("read", &dir, error))?;
        remains.extend(entries.into_iter().map(|entry| entry.path));
    }
    if let Some(first) = remains.first() {
        return Err(err!(
            Corruption,
            "{} has no {} and holds {} of a store: restore the metadata from a backup. To begin a \
             new store, choose an empty directory",
            data_dir.display(),
            META_FILE,
            first.display()
        ));
    }
    for dir in all(&LogState::default(), data_dir, &config.wal_dirs)? {
        if let Some(fault) = dir.fault(fs, &LogState::default())? {
            return Err(BadDir { dir, fault }.into_error());
        }
    }
    Ok(())
}

impl LogDir {
    /// Why the directory is unusable, if it is.
    fn fault(&self, fs: &dyn Fs, state: &LogState) -> Result<Option<DirFault>> {
        let is_known = self.is_listed || !self.files.is_empty();
        if !fs.exists(&self.path) {
            return Ok(is_known.then_some(DirFault::Missing));
        }
        let strays = self.strays(fs)?;
        let newer = || strays.iter().find(|(id, _)| *id >= state.next_file());
        Ok(match self.mark(fs)? {
            Some((store, of)) if store != Some(state.store) => Some(DirFault::Others(of)),
            Some(_) => newer().map(|(_, name)| DirFault::Newer(name.clone())),
            None if self.is_listed => Some(DirFault::Unmarked),
            // An operator has accepted that the file is missing.
            None if is_known => None,
            None => strays.first().map(|(_, name)| DirFault::Unknown(name.clone())),
        })
    }

    /// The id in [`STORE_FILE`], and the data directory of that store.
    fn mark(&self, fs: &dyn Fs) -> Result<Option<(Option<u64>, String)>> {
        let path = self.path.join(STORE_FILE);
        let bytes = match fs.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path, error)),
        };
        let text = String::from_utf8_lossy(&bytes);
        let (number, of) = text.trim_end().split_once(' ').unwrap_or((&text, "?"));
        let number = u64::from_str_radix(number, 16).ok().filter(|number| *number > 0);
        Ok(Some((number, of.to_owned())))
    }

    /// Log files in it that metadata does not list, with their ids.
    fn strays(&self, fs: &dyn Fs) -> Result<Vec<(u64, String)>> {
        let entries = fs.list(&self.path).map_err(|error| failed("read", &self.path, error))?;
        let stray = |entry: freshet_base::io::Entry| {
            let name = entry.path.file_name()?.to_str()?;
            let id = name.strip_suffix(".log")?.parse::<u64>().ok()?;
            (!self.files.contains(&id)).then(|| (id, name.to_owned()))
        };
        Ok(entries.into_iter().filter_map(stray).collect())
    }

    /// Locks the directory, marks it with the store's id and removes unlisted log files.
    fn take(self, fs: &FsRef, state: &LogState, data_dir: &Path) -> Result<Lock> {
        let refused = |dir: Self, fault| Err(BadDir { dir, fault }.into_error());
        if !fs.exists(&self.path) {
            if let Some(fault) = self.fault(&**fs, state)? {
                return refused(self, fault);
            }
            fs.make_dir(&self.path).map_err(|error| failed("make", &self.path, error))?;
        }
        let lock = fs.lock(&self.path.join(LOCK_FILE));
        if let Some(fault) = self.fault(&**fs, state)? {
            return refused(self, fault);
        }
        let lock = lock.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => err!(
                Io,
                "another server has the log directory {}: stop it first, or give this store a \
                 directory of its own with group_commit_wal_path",
                self.path.display()
            ),
            _ => failed("lock", &self.path, error),
        })?;
        if self.mark(&**fs)?.is_none() {
            let mark = format!("{:016x} {}\n", state.store, data_dir.display());
            let path = self.path.join(STORE_FILE);
            fs.write_atomic(&path, mark.as_bytes()).map_err(|e| failed("write", &path, e))?;
        }
        self.remove_strays(&**fs)?;
        Ok(lock)
    }

    /// Removes log files that are no longer listed.
    fn remove_strays(&self, fs: &dyn Fs) -> Result<()> {
        for (_, name) in self.strays(fs)? {
            let path = self.path.join(name);
            fs.remove_file(&path).map_err(|error| failed("remove", &path, error))?;
        }
        Ok(())
    }

    /// Removes the mark, so that another store may use the directory. Log files are removed and
    /// synced first: without the mark nobody would know which store they belong to.
    fn let_go(&self, fs: &dyn Fs, store: u64) -> Result<()> {
        if !matches!(self.mark(fs), Ok(Some((of, _))) if of == Some(store)) {
            return Ok(());
        }
        self.remove_strays(fs)?;
        let mark = self.path.join(STORE_FILE);
        fs.sync_dir(&self.path)
            .and_then(|()| fs.remove_file(&mark))
            .and_then(|()| fs.sync_dir(&self.path))
            .map_err(|error| failed("remove", &mark, error))
    }
}

fn failed(doing: &str, path: &Path, error: io::Error) -> Error {
    Error::io(format_args!("{doing} {}", path.display()), error)
}
