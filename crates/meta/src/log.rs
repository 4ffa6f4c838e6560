//! Changes of the state of the log, each committed at once.

use freshet_base::{Result, bail};

use crate::fold::Fold;
use crate::keys;
use crate::log_state::{AcceptedHole, LogFileRecord, LogSecret, LogState, RecycleCommit};
use crate::meta::{Change, Meta};

/// Maximum number of log files.
const FILES_MAX: usize = 65_536;

impl Meta {
    /// The checkpoint of an orderly stop. It also stores the label clock, so that the stop does not
    /// prolong the retention of labels.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn checkpoint_of_stop(&self) -> Result<()> {
        self.commit(Change { batch: self.labels().clock_batch(), ..Change::default() })
    }

    pub fn log_state(&self) -> LogState {
        self.log.lock().clone()
    }

    /// Updates directories and files according to what a start has found; writes nothing if nothing
    /// changes.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn update_log(&self, edit: impl FnOnce(&mut LogState)) -> Result<()> {
        let mut updated = self.log_state();
        edit(&mut updated);
        if updated == self.log_state() {
            return Ok(());
        }
        self.change_log(|state| {
            *state = updated;
            Ok(())
        })
    }

    /// Assigns the id of a log file before it is created. An unlisted file with a lower id in a log
    /// directory is therefore the remainder of a file that was abandoned or never completed.
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

    /// Removes a directory from the list, with those of its files that an operator has given up.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn remove_log_dir(&self, dir: &str, files: &[u64]) -> Result<()> {
        self.update_log(|state| {
            state.dirs.retain(|listed| listed != dir);
            state.files.retain(|file| !files.contains(&file.id));
        })
    }

    /// Adds a log file that was created and synced together with its directory.
    ///
    /// # Errors
    /// When the disk is full, or there are too many files.
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

    /// Removes a log file from the list, before the file is deleted.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn remove_log_file(&self, id: u64) -> Result<()> {
        self.change_log(|state| {
            state.files.retain(|file| file.id != id);
            Ok(())
        })
    }

    /// Removes the side file from metadata, since an operator has given up its rows.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn remove_side_file(&self) -> Result<()> {
        self.change_log(|state| {
            state.side_file = None;
            Ok(())
        })
    }

    /// Records that an operator has accepted the loss of these records.
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

    /// Sets another secret for terms from `secret.from` on. Earlier terms keep theirs, so that
    /// their records remain readable.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn add_log_secret(&self, secret: LogSecret) -> Result<()> {
        self.update_log(|state| {
            state.secrets.retain(|before| before.from < secret.from);
            state.secrets.push(secret);
        })
    }

    /// A checkpoint that refers to the new side file, stores labels and versions up to `recycled`,
    /// and sets `recycled`; afterwards the log files below it can be reused.
    ///
    /// # Errors
    /// When the disk is full; it can be retried.
    ///
    /// # Panics
    /// When `recycled` goes back, or something up to it has not settled.
    pub fn recycle_commit(&self, recycle: &RecycleCommit) -> Result<()> {
        let (to, versions) = (recycle.recycled.lsn, recycle.versions.clone());
        let labels = self.labels().save(to);
        let edit = move |fold: &mut Fold| {
            assert!(fold.settled >= to, "what is recycled has settled");
            for &(table, version) in &versions {
                // Tables dropped since need no version.
                if let Some(flushed) = fold.flushed.get(&table).copied() {
                    fold.set_flushed(table, flushed.with_version(to, version));
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
