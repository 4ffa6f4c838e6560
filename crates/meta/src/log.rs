//! What metadata keeps for the log: its secrets, its files, how far they are used again.

use freshet_base::{LogPosition, Lsn, Result, TableId, Term, Version, bail};
use serde::{Deserialize, Serialize};

use crate::fold::Fold;
use crate::keys;
use crate::meta::{Change, Meta};
use crate::store::MetaStore;

/// Most log files that metadata lists.
const FILES_MAX: usize = 65_536;

/// A secret of the store, from which the salts of its log's terms follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogSecret {
    /// The first term that it is for.
    pub from: Term,
    /// Random.
    pub key: [u64; 2],
}

/// A log file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogFileRecord {
    /// Never used again.
    pub id: u64,
    /// Where it stands, in the data directory if it is relative.
    pub path: String,
    /// What it was made with.
    pub bytes: u64,
}

/// A hole in the log that somebody accepted: replay passes it, versions skip it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AcceptedHole {
    /// The first LSN that is lost.
    pub first: Lsn,
    /// The last LSN that is lost.
    pub last: Lsn,
}

/// The state of the log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LogState {
    /// What each directory of the log says whose it is; 0 before the first start.
    pub store: u64,
    /// The secrets, in the order of their terms; the first comes with the number of the store.
    pub secrets: Vec<LogSecret>,
    /// The directories, in the data directory if they are relative. Each carries the number of
    /// the store.
    pub dirs: Vec<String>,
    /// All log files, ready ones included, in order of ids.
    pub files: Vec<LogFileRecord>,
    /// Files with this id or a higher one were never made.
    pub next_file: u64,
    /// Batches up to this one stand in tables' files, the side file or metadata: the log files
    /// that held them are used again.
    pub recycled: LogPosition,
    /// The file that holds what is unflushed up to `recycled`.
    pub side_file: Option<String>,
    /// Holes that somebody accepted.
    pub holes: Vec<AcceptedHole>,
}

/// What lets log files be used again. Metadata of barriers and large loads up to `recycled`
/// has been committed before; ids need no mark, since their blocks are reserved before use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecycleCommit {
    /// Up to where.
    pub recycled: LogPosition,
    /// The side file that takes the place of the last one.
    pub side_file: Option<String>,
    /// Versions of tables, counted over records up to `recycled`.
    pub versions: Vec<(TableId, Version)>,
}

pub(crate) fn load(store: &dyn MetaStore) -> Result<LogState> {
    match store.get(keys::LOG)? {
        Some(bytes) => keys::decode(keys::LOG, &bytes),
        None => Ok(LogState::default()),
    }
}

impl LogState {
    /// The id of the next file.
    pub fn next_file(&self) -> u64 {
        self.files.last().map_or(1, |file| file.id + 1).max(self.next_file)
    }
}

impl Meta {
    /// The checkpoint of a stop; it also says how long labels have been remembered, so that a stop
    /// does not lengthen it.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn checkpoint_of_stop(&self) -> Result<()> {
        self.commit(Change { batch: self.labels().clock_batch(), ..Change::default() })
    }

    /// The state of the log.
    pub fn log_state(&self) -> LogState {
        self.log.lock().clone()
    }

    /// Brings up to date what a start has found out about directories and files; writes nothing
    /// when that changes nothing.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn settle_log(&self, edit: impl FnOnce(&mut LogState)) -> Result<()> {
        let mut settled = self.log_state();
        edit(&mut settled);
        if settled == self.log_state() {
            return Ok(());
        }
        self.change_log(|state| {
            *state = settled;
            Ok(())
        })
    }

    /// Gives a log file its id before it is made. So what stands in a directory of the log under
    /// a lower id and is not listed is the rest of a file that was given up or never finished.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn next_log_file(&self) -> Result<u64> {
        self.change_log(|state| {
            state.next_file = state.next_file() + 1;
            Ok(())
        })?;
        Ok(self.log_state().next_file - 1)
    }

    /// Takes a directory off the list, with all files in it where somebody has given them up.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn remove_log_dir(&self, dir: &str, files: &[u64]) -> Result<()> {
        self.settle_log(|state| {
            state.dirs.retain(|listed| listed != dir);
            state.files.retain(|file| !files.contains(&file.id));
        })
    }

    /// Lists a log file that was made and synced with its directory.
    ///
    /// # Errors
    /// When the disk is full, or there are too many.
    ///
    /// # Panics
    /// When its id is not the highest.
    pub fn add_log_file(&self, file: LogFileRecord) -> Result<()> {
        self.change_log(|state| {
            let highest = state.files.last().is_none_or(|last| last.id < file.id);
            assert!(highest, "ids of log files rise: {file:?}");
            if state.files.len() >= FILES_MAX {
                bail!(OutOfRoom, "the log has {FILES_MAX} files, which is the limit");
            }
            state.files.push(file);
            Ok(())
        })
    }

    /// Takes a log file off the list, before it is removed.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn remove_log_file(&self, id: u64) -> Result<()> {
        self.change_log(|state| {
            state.files.retain(|file| file.id != id);
            Ok(())
        })
    }

    /// Takes the side file off, whose rows somebody gave up.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn remove_side_file(&self) -> Result<()> {
        self.change_log(|state| {
            state.side_file = None;
            Ok(())
        })
    }

    /// Records that somebody accepted the loss of these records.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn accept_hole(&self, hole: AcceptedHole) -> Result<()> {
        self.change_log(|state| {
            if !state.holes.contains(&hole) {
                state.holes.push(hole);
            }
            Ok(())
        })
    }

    /// Gives the log another secret from a term on. Terms before it keep theirs, so that what
    /// they wrote can still be read.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn add_log_secret(&self, secret: LogSecret) -> Result<()> {
        self.settle_log(|state| {
            state.secrets.retain(|before| before.from < secret.from);
            state.secrets.push(secret);
        })
    }

    /// A checkpoint that names the side file, brings labels and versions up to `recycled`, and
    /// sets it; after that the log files below it may be used again.
    ///
    /// # Errors
    /// When the disk is full; then it may be tried again.
    ///
    /// # Panics
    /// When it would go back, or something up to there has not settled.
    pub fn recycle_commit(&self, recycle: &RecycleCommit) -> Result<()> {
        let (to, versions) = (recycle.recycled.lsn, recycle.versions.clone());
        let labels = self.labels().save(to);
        let edit = move |fold: &mut Fold| {
            assert!(fold.settled >= to, "what is recycled has settled");
            for &(table, version) in &versions {
                // A table that was dropped since needs no version.
                if let Some(flushed) = fold.flushed.get(&table).copied() {
                    fold.set_flushed(table, flushed.counted(to, version));
                }
            }
        };
        let change = Change { batch: labels.batch(), ..Change::of_fold(edit) };
        self.change_log_with(change, |state| {
            assert!(to >= state.recycled.lsn, "recycling moves forward");
            state.recycled = recycle.recycled;
            state.side_file.clone_from(&recycle.side_file);
            state.holes.retain(|hole| hole.last > to);
            Ok(())
        })?;
        self.labels().saved(&labels);
        Ok(())
    }

    /// Changes the state of the log.
    fn change_log(&self, edit: impl FnOnce(&mut LogState) -> Result<()>) -> Result<()> {
        self.change_log_with(Change::default(), edit)
    }

    fn change_log_with(
        &self,
        mut change: Change,
        edit: impl FnOnce(&mut LogState) -> Result<()>,
    ) -> Result<()> {
        let mut log = self.log.lock();
        let mut state = log.clone();
        edit(&mut state)?;
        change.batch.put.push((keys::LOG.to_owned(), keys::encode(&state)));
        self.commit(change)?;
        *log = state;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
