//! Management of log space: log files are created ahead of need, and recycled in turns (log.md 20
//! to 23).
//!
//! A turn moves all unflushed rows up to an LSN out of the log: large tables are flushed, the rows
//! of small tables are written to one side file, one metadata commit refers to it, and only then
//! are the log files reused.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use freshet_base::{Error, LogPosition, Lsn, Result, TableId, Version, task};
use freshet_meta::RecycleCommit;
use freshet_storage::flush_policy::FlushReason;
use freshet_storage::side::{self, SideWriter};
use freshet_wal::Recycled;

use crate::append::Appender;
use crate::compact::Compactor;
use crate::flush::Flusher;
use crate::job::{LogJobs, RunningJob};
use crate::layout::side_dir;
use crate::log_files::{LogFiles, remove_log_file};
use crate::metadata::Settler;
use crate::record::GroupEndReason;
use crate::state::TableState;
use crate::store::Store;
use crate::term::Term;

/// A turn begins when this fraction of the log is in use, and frees about as much.
const TURN_PARTS: u64 = 4;
/// Maximum size of a side file as a fraction of the log, unless tables cannot be flushed.
const SIDE_FILE_PARTS: u64 = 8;

/// The retry delay after a failure.
const FAILED_PAUSE: Duration = Duration::from_millis(500);

/// The position up to which a start frees the log before it appends. Each start takes up to two
/// blocks of the room that is kept back. If it did so whatever is left, many starts on a full log
/// would leave none for the next one, nor for a DROP that frees room. With no full file there is
/// nothing to free.
fn frees_first(
    full_to: Option<LogPosition>,
    kept_bytes_left: u64,
    kept_bytes: u64,
) -> Option<LogPosition> {
    full_to.filter(|_| kept_bytes_left < kept_bytes / 2)
}

/// Frees the log, and keeps its files and ids ahead of need.
pub(crate) struct Recycler {
    pub store: Arc<Store>,
    pub settler: Arc<Settler>,
    pub compactor: Arc<Compactor>,
    pub term: Arc<Term>,
    pub appender: Arc<Appender>,
    pub flusher: Arc<Flusher>,
    pub log_files: LogFiles,
    pub jobs: LogJobs,
}

impl Recycler {
    /// Starts work on log files, ids, checkpoints and turns if needed; called by the keeper at
    /// every tick.
    pub fn keep_log(self: &Arc<Self>) {
        let jobs = &self.jobs;
        if self.store.wal.needs_file()
            && let Some(running) = jobs.log_file.begin()
        {
            self.run_blocking(running, |recycler| recycler.log_files.make());
        }
        if self.term.has_begun()
            && let Some(ends) = self.store.meta().ids().refilled()
            && let Some(running) = jobs.ids.begin()
        {
            let settler = Arc::clone(&self.settler);
            self.run_in_background(running, async move { settler.reserve(ends).await });
        }
        if let Some(up_to) = self.turn_due()
            && let Some(running) = jobs.turn.begin()
        {
            self.start_turn(up_to, running);
        }
        if self.settler.checkpoint_due()
            && let Some(running) = jobs.checkpoint.begin()
        {
            self.run_blocking(running, |recycler| recycler.settler.checkpoint());
        }
    }

    fn start_turn(self: &Arc<Self>, up_to: LogPosition, running: RunningJob) {
        let recycler = Arc::clone(self);
        let turn = async move {
            recycler.store.keeper.want_log(Some(up_to.lsn));
            if let Err(error) = recycler.turn(up_to).await {
                recycler.store.disk.give_up_for(&error);
                tracing::warn!(%error, "the log cannot be recycled yet");
                recycler.remove_unfinished_side_files();
                recycler.store.clock().sleep(FAILED_PAUSE).await;
            }
            recycler.store.keeper.want_log(None);
            drop(running);
            recycler.store.keeper.wake();
        };
        self.store.pool().spawn("recycle", Box::pin(turn));
    }

    fn run_blocking(self: &Arc<Self>, running: RunningJob, work: fn(&Self) -> Result<()>) {
        let recycler = Arc::clone(self);
        let job = async move {
            let worker = Arc::clone(&recycler);
            task::run(recycler.store.pool(), move || work(&worker)).await
        };
        self.run_in_background(running, job);
    }

    /// Runs work in the background. After a failure its job goes on for a while, which delays the
    /// next attempt.
    fn run_in_background(
        self: &Arc<Self>,
        running: RunningJob,
        work: impl Future<Output = Result<()>> + Send + 'static,
    ) {
        let recycler = Arc::clone(self);
        let task = async move {
            if let Err(error) = work.await {
                recycler.store.disk.give_up_for(&error);
                tracing::warn!(%error, "the log's room cannot be kept up");
                recycler.store.clock().sleep(FAILED_PAUSE).await;
            }
            drop(running);
        };
        self.store.pool().spawn("log room", Box::pin(task));
    }

    /// The position up to which the log should be freed now, if it should.
    fn turn_due(&self) -> Option<LogPosition> {
        if !self.term.has_begun() {
            return None;
        }
        let stats = self.store.wal.stats();
        let turn_bytes = self.store.config.wal_bytes_max.bytes() / TURN_PARTS;
        if stats.live_bytes < turn_bytes && stats.room_waiters == 0 {
            return None;
        }
        // The file being written cannot be reused.
        stats.full_to
    }

    /// Frees the log up to `position`.
    async fn turn(self: &Arc<Self>, position: LogPosition) -> Result<()> {
        let up_to = position.lsn;
        self.store.horizon().wait(up_to).await;
        self.settler.settle_due();
        let tables = self.flush_large(up_to).await?;
        self.put_aside(&tables, position).await
    }

    /// Frees the log before the first record of the term, if there may be too little room for that.
    /// No flush could say what it did, so everything goes to the side file, which holds no more
    /// than memory does. Groups go there open, and end with the term.
    ///
    /// # Errors
    /// When the side file or metadata cannot be written.
    pub async fn free_before_term(self: &Arc<Self>) -> Result<()> {
        assert!(!self.term.has_begun(), "behind the first record there are turns");
        let stats = self.store.wal.stats();
        let kept_bytes = self.store.config.wal_kept_bytes();
        let position = frees_first(stats.full_to, stats.kept_bytes_left, kept_bytes);
        let Some(position) = position else { return Ok(()) };
        let tables = self.tables_below(position.lsn).into_iter().map(|(_, state)| state);
        let freed = self.put_aside(&tables.collect::<Vec<_>>(), position).await;
        freed.inspect_err(|error| {
            self.store.disk.give_up_for(error);
            // Also a complete one that metadata does not name: another attempt writes as much.
            if let Err(error) = self.remove_side_files() {
                tracing::warn!(%error, "a side file of a start that could not free the log stays");
            }
        })
    }

    /// Writes what tables have in the log up to `position` to the side file, and frees the log.
    async fn put_aside(
        self: &Arc<Self>,
        tables: &[Arc<TableState>],
        position: LogPosition,
    ) -> Result<()> {
        self.store.failpoints().pass("put-aside").map_err(|e| Error::io("side file", e))?;
        let up_to = position.lsn;
        let mut versions = Vec::new();
        let mut side = None;
        for state in tables {
            let _flushing = state.flushing.lock().await;
            self.settler.events_settled(state).await;
            self.appender.end_group(state, GroupEndReason::Flush, |_| true)?;
            let (version, written) = self.write_to_side_file(state, up_to, side).await?;
            versions.push((state.id, version));
            side = written;
        }
        self.commit_turn(position, versions, side).await
    }

    /// Flushes tables with unflushed records up to `up_to`, largest first: those large enough for
    /// files of their own, and more if the side file would become too large. Returns the remaining
    /// tables for the side file, including those that failed to flush, so that one table with a
    /// broken disk does not prevent recycling.
    async fn flush_large(&self, up_to: Lsn) -> Result<Vec<Arc<TableState>>> {
        let config = &self.store.config;
        let own_files_min = config.flush_bytes_min.bytes();
        let side_bytes_max = config.wal_bytes_max.bytes() / SIDE_FILE_PARTS;
        let below = self.tables_below(up_to).iter().map(|(_, state)| state.id).collect::<Vec<_>>();
        self.compactor.let_catch_up(&below).await;
        let tables = self.tables_below(up_to);
        let mut side_bytes = tables.iter().map(|(bytes, _)| bytes).sum::<u64>();
        let mut small = Vec::new();
        for (bytes, state) in tables {
            let has_files = state.delta.stats().large_loads > 0;
            if !has_files && bytes < own_files_min && side_bytes <= side_bytes_max {
                small.push(state);
                continue;
            }
            match self.flusher.flush_now(&state, FlushReason::LogRoom).await {
                Ok(()) => side_bytes -= bytes,
                Err(error) => {
                    self.store.disk.give_up_for(&error);
                    tracing::warn!(table = state.name(), %error, "kept in the side file");
                    small.push(state);
                }
            }
        }
        Ok(small)
    }

    /// Tables with unflushed records up to `up_to`, and their sizes in memory, largest first.
    fn tables_below(&self, up_to: Lsn) -> Vec<(u64, Arc<TableState>)> {
        let states = self.store.tables.states().into_iter();
        let mut tables = states
            .map(|state| (state.delta.stats(), state))
            .filter(|(stats, _)| stats.oldest.is_some_and(|oldest| oldest <= up_to))
            .map(|(stats, state)| (stats.bytes, state))
            .collect::<Vec<_>>();
        tables.sort_by_key(|(bytes, _)| Reverse(*bytes));
        tables
    }

    /// Writes the unflushed rows of a small table up to `up_to` to the side file, which is created
    /// with the first row. Returns the table's version at that point.
    async fn write_to_side_file(
        self: &Arc<Self>,
        state: &TableState,
        up_to: Lsn,
        side: Option<SideWriter>,
    ) -> Result<(Version, Option<SideWriter>)> {
        let view = self.store.tables.view(state.id);
        // Locked only so that version and delta are consistent; appends wait for this lock.
        let (version, chunks) = {
            let table = state.lock();
            (table.log().version(), view.as_ref().map(|view| view.delta.chunks(&view.head)))
        };
        let Some((view, chunks)) = view.zip(chunks) else { return Ok((version, side)) };
        let recycler = Arc::clone(self);
        let (versions_after, side) = task::run(self.store.pool(), move || {
            let fs = recycler.store.fs();
            let path = recycler.side_path(&side_name(up_to));
            let mut side = side;
            let versions_after = view.side_rows(&chunks, up_to, |entry| {
                let mut writer = match side.take() {
                    Some(writer) => writer,
                    None => SideWriter::create(fs, &path)?,
                };
                writer.push(&entry)?;
                side = Some(writer);
                Ok(())
            })?;
            Ok::<_, Error>((versions_after, side))
        })
        .await?;
        let version = version.get().checked_sub(versions_after);
        let version = version.expect("the end of the log counts all versions of the delta");
        Ok((Version(version), side))
    }

    async fn commit_turn(
        self: &Arc<Self>,
        position: LogPosition,
        versions: Vec<(TableId, Version)>,
        side: Option<SideWriter>,
    ) -> Result<()> {
        let up_to = position.lsn;
        let recycler = Arc::clone(self);
        task::run(self.store.pool(), move || {
            let side_rows = side.map(|side| side.finish(recycler.store.fs())).transpose()?;
            let side_file = side_rows.map(|_| side_name(up_to));
            let commit = RecycleCommit { recycled: position, side_file, versions };
            recycler.settler.settle_due();
            recycler.check_turn(&commit);
            recycler.store.meta().recycle_commit(&commit)?;
            let is_saved = recycler.store.meta().saved_lsn() >= up_to;
            assert!(is_saved, "log is used again when the disk has what it says of metadata");
            let Recycled { used_again, left } = recycler.store.wal.recycle(position);
            tracing::debug!(%up_to, used_again, side_rows = side_rows.unwrap_or(0), "log recycled");
            for file in left {
                remove_log_file(&recycler.store.world.fs, recycler.store.meta(), &file)?;
            }
            recycler.remove_side_files()?;
            recycler.settler.remove_event_files()
        })
        .await
    }

    /// Checks that nothing is lost with the log that a turn frees.
    fn check_turn(&self, turn: &RecycleCommit) {
        let up_to = turn.recycled.lsn;
        assert!(up_to <= self.store.horizon().get(), "only what is durable is recycled");
        assert!(up_to <= self.store.meta().settled(), "what is recycled has settled");
        let kept = turn.versions.iter().map(|(table, _)| *table).collect::<BTreeSet<_>>();
        let left = self.tables_below(up_to);
        let are_kept = left.iter().all(|(_, state)| kept.contains(&state.id));
        assert!(are_kept, "rows that leave the log are in files, or in the side file");
    }

    /// Removes all side files except the one in metadata: the previous one, and those of turns that
    /// never committed. Must not be called while one is being written.
    pub fn remove_side_files(&self) -> Result<()> {
        let failed = |error| Error::io("remove side file", error);
        let named = self.store.meta().log_state().side_file.map(|name| self.side_path(&name));
        for entry in self.store.fs().list(&side_dir(&self.store.config.data_dir)).map_err(failed)? {
            if Some(&entry.path) != named.as_ref() {
                self.store.fs().remove_file(&entry.path).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Removes incomplete side files of failed turns, which would occupy space that flushes need on
    /// a full disk. Complete ones remain until the next turn.
    fn remove_unfinished_side_files(&self) {
        let dir = side_dir(&self.store.config.data_dir);
        let is_unfinished = |file: &Path| file.extension() == Some(side::UNFINISHED.as_ref());
        let removed = self.store.fs().list(&dir).and_then(|entries| {
            let mut files = entries.iter().filter(|entry| is_unfinished(&entry.path));
            files.try_for_each(|entry| self.store.fs().remove_file(&entry.path))
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "the next turn removes an incomplete side file");
        }
    }

    /// The path of a side file.
    pub fn side_path(&self, name: &str) -> PathBuf {
        side_dir(&self.store.config.data_dir).join(name)
    }
}

/// The name of the side file of a turn up to `up_to`.
fn side_name(up_to: Lsn) -> String {
    format!("side-{up_to}.rows")
}

#[cfg(test)]
mod tests {
    use freshet_base::{BatchIndex, Term};

    use super::*;

    #[test]
    fn a_start_that_finds_less_than_half_of_the_kept_room_frees_log_first() {
        let position = Some(LogPosition { lsn: Lsn(9), index: BatchIndex(3), term: Term(1) });
        assert_eq!(frees_first(position, 49, 100), position);
        assert_eq!(frees_first(position, 50, 100), None);
        assert_eq!(frees_first(None, 0, 100), None);
    }
}
