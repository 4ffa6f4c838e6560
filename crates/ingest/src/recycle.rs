//! Management of log space: log files are created ahead of need, and recycled in turns (log.md 20
//! to 23).
//!
//! A turn moves all unflushed rows up to an LSN out of the log: large tables are flushed, the rows
//! of small tables are written to one side file, one metadata commit refers to it, and only then
//! are the log files reused.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::io::FsRef;
use freshet_base::{Error, LogPosition, Lsn, Result, TableId, Version, task};
use freshet_meta::{LogFileRecord, Meta, RecycleCommit};
use freshet_storage::flush_policy::FlushReason;
use freshet_storage::side::{self, SideWriter};
use freshet_wal::{LogFile, Recycled, make_file};
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::layout::side_dir;
use crate::log_dirs;
use crate::record::GroupEndReason;
use crate::state::TableState;

/// A turn begins when this fraction of the log is in use, and frees about as much.
const TURN_PARTS: u64 = 4;
/// Maximum size of a side file as a fraction of the log, unless tables cannot be flushed.
const SIDE_FILE_PARTS: u64 = 8;

/// The retry delay after a failure.
const FAILED_PAUSE: Duration = Duration::from_millis(500);

/// State of the management of log space.
#[derive(Default)]
pub(crate) struct Recycler {
    turning: AtomicBool,
    making: AtomicBool,
    refilling: AtomicBool,
    saving: AtomicBool,
    /// The id of the next log file, from its reservation until the file is listed in metadata.
    next_file: Mutex<Option<u64>>,
    /// The LSN up to which the log is to be freed; zero if it is not.
    wanted: AtomicU64,
}

impl Recycler {
    /// The LSN up to which the log is to be freed, if it is.
    pub fn wanted(&self) -> Option<Lsn> {
        let lsn = self.wanted.load(Ordering::Acquire);
        (lsn > 0).then_some(Lsn(lsn))
    }

    /// Whether any of its tasks is running.
    pub fn is_busy(&self) -> bool {
        let flags = [&self.turning, &self.making, &self.refilling, &self.saving];
        flags.iter().any(|flag| flag.load(Ordering::Acquire))
    }
}

impl Engine {
    /// Starts work on log files, ids and turns if needed; called by the keeper at every tick.
    pub(crate) fn keep_log(self: &Arc<Self>) {
        if self.wal().needs_file() && !self.recycler.making.swap(true, Ordering::AcqRel) {
            self.run_once_in_background(|recycler| &recycler.making, Self::make_log_file);
        }
        let ids = self.meta().ids();
        if ids.needs_refill() && !self.recycler.refilling.swap(true, Ordering::AcqRel) {
            self.run_once_in_background(
                |recycler| &recycler.refilling,
                |engine| engine.meta().ids().refill(),
            );
        }
        if let Some(up_to) = self.turn_due()
            && !self.recycler.turning.swap(true, Ordering::AcqRel)
        {
            let engine = Arc::clone(self);
            let turn = async move {
                engine.recycler.wanted.store(up_to.lsn.get(), Ordering::Release);
                if let Err(error) = engine.turn(up_to).await {
                    engine.note_error(&error);
                    tracing::warn!(%error, "the log cannot be recycled yet");
                    engine.remove_unfinished_side_files();
                    engine.clock().sleep(FAILED_PAUSE).await;
                }
                engine.recycler.wanted.store(0, Ordering::Release);
                engine.recycler.turning.store(false, Ordering::Release);
                engine.keeper().wake();
            };
            self.pool().spawn("recycle", Box::pin(turn));
        }
    }

    /// Starts a checkpoint unless one is running.
    pub(crate) fn start_checkpoint(self: &Arc<Self>) {
        if !self.recycler.saving.swap(true, Ordering::AcqRel) {
            self.run_once_in_background(|recycler| &recycler.saving, Self::checkpoint);
        }
    }

    /// Runs blocking work in the background. `flag` was set by the caller to prevent concurrent
    /// runs, and is cleared at the end. After a failure it stays set for a while, which delays the
    /// next attempt.
    fn run_once_in_background(
        self: &Arc<Self>,
        flag: fn(&Recycler) -> &AtomicBool,
        work: fn(&Self) -> Result<()>,
    ) {
        let engine = Arc::clone(self);
        let task = async move {
            let worker = Arc::clone(&engine);
            if let Err(error) = task::run(&**engine.pool(), move || work(&worker)).await {
                engine.note_error(&error);
                tracing::warn!(%error, "the log's room cannot be kept up");
                engine.clock().sleep(FAILED_PAUSE).await;
            }
            flag(&engine.recycler).store(false, Ordering::Release);
        };
        self.pool().spawn("log room", Box::pin(task));
    }

    /// Creates another log file, lists it in metadata, and hands it to the log.
    ///
    /// # Errors
    /// When the disk is full.
    pub(crate) fn make_log_file(&self) -> Result<()> {
        self.may_grow()?;
        let mut next_file = self.recycler.next_file.lock();
        let id = match *next_file {
            Some(id) => id,
            None => *next_file.insert(self.meta().next_log_file()?),
        };
        let dir = self.roomiest_wal_dir();
        let path = dir.join(format!("{id:08}.log"));
        let bytes = self.config().wal_file_bytes.bytes();
        if let Err(error) = make_file(&**self.fs(), &path, bytes) {
            // On a full disk a partial file would occupy space that flushes need.
            let _ = self.fs().remove_file(&path);
            return Err(Error::io(format_args!("make log file {}", path.display()), error));
        }
        let listed = log_dirs::listed(&self.config().data_dir, &path)?;
        self.meta().add_log_file(LogFileRecord { id, path: listed, bytes })?;
        *next_file = None;
        drop(next_file);
        self.wal()
            .offer_file(LogFile { id, path: path.clone(), bytes })
            .map_err(|e| Error::io(format_args!("open log file {}", path.display()), e))
    }

    /// The position up to which the log should be freed now, if it should.
    fn turn_due(&self) -> Option<LogPosition> {
        let stats = self.wal().stats();
        let turn_bytes = self.config().wal_bytes_max.bytes() / TURN_PARTS;
        if stats.live_bytes < turn_bytes && stats.room_waiters == 0 {
            return None;
        }
        // The file being written cannot be reused.
        stats.full_to
    }

    /// Frees the log up to `position`.
    async fn turn(self: &Arc<Self>, position: LogPosition) -> Result<()> {
        let up_to = position.lsn;
        self.horizon().wait(up_to).await;
        self.settle_due();
        let mut versions = Vec::new();
        let mut side = None;
        for state in &self.flush_large(up_to).await? {
            let _settling = state.settling.lock().await;
            self.events_settled(state).await;
            self.end_group(state, GroupEndReason::Flush, |open| open.txn.get() > 0)?;
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
    async fn flush_large(self: &Arc<Self>, up_to: Lsn) -> Result<Vec<Arc<TableState>>> {
        let config = self.config();
        let own_files_min = config.flush_bytes_min.bytes();
        let side_bytes_max = config.wal_bytes_max.bytes() / SIDE_FILE_PARTS;
        let below = self.tables_below(up_to).iter().map(|(_, state)| state.id).collect::<Vec<_>>();
        self.let_merges_catch_up(&below).await;
        let tables = self.tables_below(up_to);
        let mut side_bytes = tables.iter().map(|(bytes, _)| bytes).sum::<u64>();
        let mut small = Vec::new();
        for (bytes, state) in tables {
            let has_files = state.delta.stats().large_loads > 0;
            if !has_files && bytes < own_files_min && side_bytes <= side_bytes_max {
                small.push(state);
                continue;
            }
            match self.settle(&state, FlushReason::LogRoom).await {
                Ok(()) => side_bytes -= bytes,
                Err(error) => {
                    self.note_error(&error);
                    tracing::warn!(table = state.name(), %error, "kept in the side file");
                    small.push(state);
                }
            }
        }
        Ok(small)
    }

    /// Tables with unflushed records up to `up_to`, and their sizes in memory, largest first.
    fn tables_below(&self, up_to: Lsn) -> Vec<(u64, Arc<TableState>)> {
        let states = self.table_states().into_iter();
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
        let view = self.views().load().tables.get(&state.id).cloned();
        // Locked only so that version and delta are consistent; appends wait for this lock.
        let (version, chunks) = {
            let table = state.lock();
            (table.log().version(), view.as_ref().map(|view| view.delta.chunks(&view.head)))
        };
        let Some((view, chunks)) = view.zip(chunks) else { return Ok((version, side)) };
        let engine = Arc::clone(self);
        let (versions_after, side) = task::run(&**self.pool(), move || {
            let (fs, path) = (&**engine.fs(), engine.side_path(&side_name(up_to)));
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
        Ok((Version(version.get() - versions_after), side))
    }

    async fn commit_turn(
        self: &Arc<Self>,
        position: LogPosition,
        versions: Vec<(TableId, Version)>,
        side: Option<SideWriter>,
    ) -> Result<()> {
        let up_to = position.lsn;
        let engine = Arc::clone(self);
        task::run(&**self.pool(), move || {
            let side_rows = side.map(|side| side.finish(&**engine.fs())).transpose()?;
            let side_file = side_rows.map(|_| side_name(up_to));
            let commit = RecycleCommit { recycled: position, side_file, versions };
            engine.settle_due();
            engine.meta().recycle_commit(&commit)?;
            let Recycled { used_again, left } = engine.wal().recycle(position);
            tracing::debug!(%up_to, used_again, side_rows = side_rows.unwrap_or(0), "log recycled");
            for file in left {
                remove_log_file(engine.fs(), engine.meta(), &file)?;
            }
            engine.remove_side_files()?;
            engine.remove_event_files()
        })
        .await
    }

    /// Removes all side files except the one in metadata: the previous one, and those of turns that
    /// never committed. Must not be called while one is being written.
    pub(crate) fn remove_side_files(&self) -> Result<()> {
        let failed = |error| Error::io("remove side file", error);
        let named = self.meta().log_state().side_file.map(|name| self.side_path(&name));
        for entry in self.fs().list(&side_dir(&self.config().data_dir)).map_err(failed)? {
            if Some(&entry.path) != named.as_ref() {
                self.fs().remove_file(&entry.path).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Removes incomplete side files of failed turns, which would occupy space that flushes need on
    /// a full disk. Complete ones remain until the next turn.
    fn remove_unfinished_side_files(&self) {
        let dir = side_dir(&self.config().data_dir);
        let is_unfinished = |file: &Path| file.extension() == Some(side::UNFINISHED.as_ref());
        let removed = self.fs().list(&dir).and_then(|entries| {
            let mut files = entries.iter().filter(|entry| is_unfinished(&entry.path));
            files.try_for_each(|entry| self.fs().remove_file(&entry.path))
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "the next turn removes an incomplete side file");
        }
    }

    /// The path of a side file.
    pub(crate) fn side_path(&self, name: &str) -> PathBuf {
        side_dir(&self.config().data_dir).join(name)
    }
}

/// Removes a log file without live records. A crash after the first step leaves an unlisted file,
/// which the next start removes.
pub(crate) fn remove_log_file(fs: &FsRef, meta: &Meta, file: &LogFile) -> Result<()> {
    meta.remove_log_file(file.id)?;
    fs.remove_file(&file.path)
        .map_err(|error| Error::io(format_args!("remove log file {}", file.path.display()), error))
}

/// The name of the side file of a turn up to `up_to`.
fn side_name(up_to: Lsn) -> String {
    format!("side-{up_to}.rows")
}
