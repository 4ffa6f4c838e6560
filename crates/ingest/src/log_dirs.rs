//! The directories of the log: each says whose it is, and one server at a time has it.
//!
//! A directory carries a file `STORE` with the number of the store whose log stands in it, and
//! metadata lists the directory. So a directory of another store, one whose disk is not mounted,
//! and a log that is newer than the metadata are told before anything is written there.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use freshet_base::io::{Fs, FsRef};
use freshet_base::{Error, Result, Term, err};
use freshet_meta::{LogSecret, LogState, Meta};

use crate::config::EngineConfig;
use crate::engine::World;

/// Says whose log a directory holds.
pub const STORE_FILE: &str = "STORE";
/// The lock that keeps a second server off a directory.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// A lock, held until it is dropped.
pub(crate) type Lock = Box<dyn Send + Sync>;

/// What keeps a directory of the log from being used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirFault {
    /// It is not there.
    Missing,
    /// It is there, and nothing says that it is the one that it was.
    Unmarked,
    /// It holds the log of another store, whose data stands there.
    Others(String),
    /// It was never of this store and holds this log file.
    Unknown(String),
    /// It holds this log file, made after the metadata that is there.
    Newer(String),
}

/// A directory of the log, and what metadata knows of it.
pub(crate) struct LogDir {
    /// Where it is.
    pub path: PathBuf,
    /// As metadata lists it.
    pub name: String,
    /// Whether metadata lists it.
    is_listed: bool,
    /// Whether new files are to stand there.
    is_wanted: bool,
    /// The files that metadata has there.
    pub files: Vec<u64>,
}

/// A directory that cannot be used, and why.
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
    /// What somebody who wants to start the server can do.
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

/// The file that a directory of this name is in metadata: relative below the data directory, so
/// that that can be moved.
pub(crate) fn listed(data_dir: &Path, path: &Path) -> Result<String> {
    // Components have no slash at the end, which is no other directory.
    let path = path.strip_prefix(data_dir).unwrap_or(path).components().as_path();
    path.to_str().map(str::to_owned).ok_or_else(|| err!(Io, "{} is no text", path.display()))
}

/// The directories that metadata knows and those that are wanted, each once.
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

/// The directories of a stopped store that cannot be used as they are; nothing is changed.
///
/// # Errors
/// One that cannot be read.
pub(crate) fn faults(fs: &dyn Fs, data_dir: &Path, state: &LogState) -> Result<Vec<BadDir>> {
    let mut bad = Vec::new();
    for dir in all(state, data_dir, &[])? {
        if let Some(fault) = dir.fault(fs, state)? {
            bad.push(BadDir { dir, fault });
        }
    }
    Ok(bad)
}

/// Takes the directories of the log for a server: makes those that are new, locks and marks
/// them, and lets those go that it has no use for any more.
///
/// # Errors
/// A directory that is not this store's, that is missing, or that another server has.
pub(crate) fn take(config: &EngineConfig, world: &World, meta: &Meta) -> Result<Vec<Lock>> {
    let fs = &world.fs;
    if meta.log_state().store == 0 {
        let store = (world.draw)().max(1);
        let secret = LogSecret { from: Term::ZERO, key: [(world.draw)(), (world.draw)()] };
        meta.settle_log(|state| {
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
    meta.settle_log(|state| state.dirs = names)?;
    Ok(locks)
}

/// Refuses to begin a store beside the remains of one whose metadata is gone, and in the log
/// directory of another.
///
/// # Errors
/// When there are any.
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
            crate::META_FILE,
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
    /// What keeps it from being used, if anything does.
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
            // Somebody has accepted that it is not marked.
            None if is_known => None,
            None => strays.first().map(|(_, name)| DirFault::Unknown(name.clone())),
        })
    }

    /// The store that it says it is of, and where that had its data.
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

    /// Log files in it that metadata does not list, by id.
    fn strays(&self, fs: &dyn Fs) -> Result<Vec<(u64, String)>> {
        let entries = fs.list(&self.path).map_err(|error| failed("read", &self.path, error))?;
        let stray = |entry: freshet_base::io::Entry| {
            let name = entry.path.file_name()?.to_str()?;
            let id = name.strip_suffix(".log")?.parse::<u64>().ok()?;
            (!self.files.contains(&id)).then(|| (id, name.to_owned()))
        };
        Ok(entries.into_iter().filter_map(stray).collect())
    }

    /// Makes it this server's.
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

    /// Removes files that are listed no more.
    fn remove_strays(&self, fs: &dyn Fs) -> Result<()> {
        for (_, name) in self.strays(fs)? {
            let path = self.path.join(name);
            fs.remove_file(&path).map_err(|error| failed("remove", &path, error))?;
        }
        Ok(())
    }

    /// Takes the mark off, so that another store may have it. Files go before it, also for the
    /// device: without the mark nobody would know whose they are.
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
