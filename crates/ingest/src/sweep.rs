//! Garbage collection of files: those of replaced rowsets are deleted when their last reader is
//! gone, and unreferenced ones left by crashes and failures after a grace period (log.md 15).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use freshet_base::task::Lane;
use freshet_base::{Result, RowsetId};
use freshet_meta::{Fold, MarkFileMeta, StoredResting};
use freshet_storage::gc::Sweep;
use parking_lot::Mutex;

use crate::job::Job;
use crate::store::Store;

/// How often the files of replaced rowsets are checked.
const RETIRED_PAUSE: Duration = Duration::from_secs(1);

/// Deletes files that nothing refers to any more.
pub(crate) struct Sweeper {
    store: Arc<Store>,
    /// Rowsets that are being written, or are written but not referenced yet.
    in_flight: Arc<Mutex<HashSet<RowsetId>>>,
    state: Mutex<State>,
    job: Job,
}

struct State {
    sweep: Sweep,
    retired_due: Duration,
    sweep_due: Duration,
}

/// Protects rowsets from deletion, from before their first file is created until they are
/// referenced elsewhere: a flush on a busy disk may take longer than the grace period.
pub struct InFlight {
    all: Arc<Mutex<HashSet<RowsetId>>>,
    mine: Vec<RowsetId>,
}

impl InFlight {
    /// Protects the files of a rowset from deletion.
    pub(crate) fn add(&mut self, rowset: RowsetId) {
        let is_new = self.all.lock().insert(rowset);
        assert!(is_new, "the id of a rowset is given once");
        self.mine.push(rowset);
    }

    /// Protects what another writer has written as its own.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.mine.append(&mut other.mine);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        for rowset in &self.mine {
            assert!(all.remove(rowset), "a rowset is protected until its writer ends");
        }
    }
}

/// Referenced files and rowsets.
struct Named {
    in_flight: HashSet<RowsetId>,
    files: HashSet<PathBuf>,
}

impl Named {
    fn has(&self, file: &Path) -> bool {
        let rowset = || rowset_of(file).is_some_and(|rowset| self.in_flight.contains(&rowset));
        self.files.contains(file) || rowset()
    }
}

/// Parses the id at the start of the name of a segment or mark file.
fn rowset_of(file: &Path) -> Option<RowsetId> {
    let (rowset, _) = file.file_name()?.to_str()?.split_once(['-', '.'])?;
    rowset.parse().ok().map(RowsetId)
}

impl Sweeper {
    pub fn new(store: Arc<Store>) -> Self {
        let (retired_due, sweep_due) = (Duration::ZERO, Duration::ZERO);
        let state = State { sweep: Sweep::new(store.config.orphan_grace), retired_due, sweep_due };
        Self { store, in_flight: Arc::default(), state: Mutex::new(state), job: Job::default() }
    }

    pub fn is_busy(&self) -> bool {
        self.job.is_running()
    }

    pub fn in_flight(&self) -> InFlight {
        InFlight { all: Arc::clone(&self.in_flight), mine: Vec::new() }
    }

    /// Starts garbage collection if it is due; called by the keeper.
    pub fn plan(self: &Arc<Self>) {
        let now = self.store.clock().now();
        let mut state = self.state.lock();
        if now < state.retired_due {
            return;
        }
        let Some(running) = self.job.begin() else { return };
        state.retired_due = now.saturating_add(RETIRED_PAUSE);
        drop(state);
        let sweeper = Arc::clone(self);
        self.store.pool().execute(
            Lane::Background,
            Box::new(move || {
                if let Err(error) = sweeper.sweep(now) {
                    tracing::warn!(%error, "files that nothing names could not be removed");
                }
                drop(running);
            }),
        );
    }

    fn sweep(&self, now: Duration) -> Result<()> {
        self.store.tables.retired.remove_free(self.store.fs(), self.store.meta().saved_lsn())?;
        if now < self.state.lock().sweep_due {
            return Ok(());
        }
        let named = self.named_files();
        let is_named = |file: &Path| named.has(file) || self.store.tables.retired.holds(file);
        let mut state = self.state.lock();
        state.sweep_due = now.saturating_add(self.store.config.orphan_grace);
        let root = self.store.files.dir.root();
        if self.store.fs().exists(root) {
            for file in state.sweep.run(self.store.fs(), root, now, &is_named)? {
                tracing::info!(file = %file.display(), "removed, nothing names it");
            }
        }
        Ok(())
    }

    /// All files referenced by work in progress, the log, metadata or its checkpoint. They are read
    /// in this order, since references move in the same order. Records beyond the horizon count as
    /// well, and so do large loads before a TRUNCATE or DROP until metadata has been updated; from
    /// then on they are retired.
    fn named_files(&self) -> Named {
        let in_flight = self.in_flight.lock().clone();
        let mut files = HashSet::new();
        for table in self.store.tables.views.load().tables.values() {
            let rowsets = table.rowsets();
            let segments = rowsets.iter().flat_map(|rowset| rowset.segments());
            files.extend(segments.map(|segment| segment.path().to_path_buf()));
        }
        let folds = [self.store.meta().fold(), self.store.meta().saved()];
        for stored in folds.iter().flat_map(Fold::tables) {
            for rowset in &stored.rowsets {
                let dir = self.store.files.dir.tablet(stored.table.id, rowset.tablet);
                files.extend(rowset.segments.iter().map(|segment| dir.join(&segment.file)));
            }
            let marks =
                |file: &MarkFileMeta| self.store.files.dir.marks(stored.table.id, file.number);
            files.extend(stored.marks.iter().map(marks));
        }
        for StoredResting { resting, rowsets } in folds.iter().flat_map(Fold::resting) {
            for rowset in &rowsets {
                let dir = self.store.files.dir.tablet(resting.table, rowset.tablet);
                files.extend(rowset.segments.iter().map(|segment| dir.join(&segment.file)));
            }
            let dir = &self.store.files.dir;
            files.extend(resting.marks.iter().map(|file| dir.marks(resting.table, file.number)));
        }
        Named { in_flight, files }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rowset_in_flight_has_a_name_until_it_lands() {
        let all = Arc::<Mutex<HashSet<RowsetId>>>::default();
        let named = |file: &str| {
            let in_flight = all.lock().clone();
            Named { in_flight, files: HashSet::new() }.has(Path::new(file))
        };
        let mut flight = InFlight { all: Arc::clone(&all), mine: Vec::new() };
        flight.add(RowsetId(7));
        assert!(named("/data/1/2/7-0.parquet") && named("/data/1/2/7-3-1.parquet"));
        assert!(named("/data/1/marks/7.marks") && !named("/data/1/marks/70.marks"));
        assert!(!named("/data/1/2/70-0.parquet") && !named("/data/1/2/notes"));
        drop(flight);
        assert!(!named("/data/1/2/7-0.parquet"));
    }
}
