//! Files that lost their names: those of replaced rowsets go when their last reader has gone,
//! what crashes and failures left behind goes after a grace (log.md 15).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use freshet_base::Result;
use freshet_meta::RowsetMeta;
use freshet_storage::Rowset;
use freshet_storage::delta::Freshness;
use freshet_storage::gc::{Retired, Sweep};
use parking_lot::Mutex;

use crate::engine::Engine;

/// How often the files of replaced rowsets are looked at.
const RETIRED_PAUSE: Duration = Duration::from_secs(1);

/// What the sweep remembers.
pub(crate) struct Sweeper {
    retired: Retired,
    /// Files that large loads have written and no record names yet.
    in_flight: Arc<Mutex<HashSet<PathBuf>>>,
    state: Mutex<State>,
}

struct State {
    sweep: Sweep,
    retired_due: Duration,
    sweep_due: Duration,
    running: bool,
}

impl Sweeper {
    pub fn new(grace: Duration) -> Self {
        let state = State {
            sweep: Sweep::new(grace),
            retired_due: Duration::ZERO,
            sweep_due: Duration::ZERO,
            running: false,
        };
        Self { retired: Retired::default(), in_flight: Arc::default(), state: Mutex::new(state) }
    }

    /// Takes note of rowsets that the view no longer has.
    pub fn retire<'a>(&self, rowsets: impl IntoIterator<Item = &'a Arc<Rowset>>) {
        for rowset in rowsets {
            self.retired.add(rowset);
        }
    }

    /// Whether a sweep runs.
    pub fn is_busy(&self) -> bool {
        self.state.lock().running
    }
}

/// Keeps the sweep off files that are being written for one load.
pub struct InFlight {
    all: Arc<Mutex<HashSet<PathBuf>>>,
    mine: Vec<PathBuf>,
}

impl InFlight {
    /// Takes the segments of a rowset in `dir` under its wing.
    pub(crate) fn add(&mut self, dir: &Path, rowset: &RowsetMeta) {
        for segment in &rowset.segments {
            let path = dir.join(&segment.file);
            self.all.lock().insert(path.clone());
            self.mine.push(path);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        for path in &self.mine {
            all.remove(path);
        }
    }
}

impl Engine {
    pub(crate) fn in_flight(&self) -> InFlight {
        InFlight { all: Arc::clone(&self.sweeper.in_flight), mine: Vec::new() }
    }

    /// Starts a look when one is due; called by the keeper.
    pub(crate) fn plan_sweep(self: &Arc<Self>) {
        let now = self.clock().now();
        {
            let mut state = self.sweeper.state.lock();
            if state.running || now < state.retired_due {
                return;
            }
            state.running = true;
            state.retired_due = now.saturating_add(RETIRED_PAUSE);
        }
        let engine = Arc::clone(self);
        self.pool().execute(Box::new(move || {
            if let Err(error) = engine.sweep(now) {
                tracing::warn!(%error, "files that nothing names could not be removed");
            }
            engine.sweeper.state.lock().running = false;
        }));
    }

    fn sweep(&self, now: Duration) -> Result<()> {
        self.sweeper.retired.remove_free(&**self.fs())?;
        if now < self.sweeper.state.lock().sweep_due {
            return Ok(());
        }
        let named = self.named_files()?;
        let is_named = |file: &Path| named.contains(file) || self.sweeper.retired.holds(file);
        let mut state = self.sweeper.state.lock();
        state.sweep_due = now.saturating_add(self.config().orphan_grace);
        let root = self.data_dir().root();
        if self.fs().exists(root) {
            for file in state.sweep.run(&**self.fs(), root, now, &is_named)? {
                tracing::info!(file = %file.display(), "removed, nothing names it");
            }
        }
        Ok(())
    }

    /// All files that work in flight, the log or metadata names, looked at in this order, which
    /// is the one in which names move.
    fn named_files(&self) -> Result<HashSet<PathBuf>> {
        let mut named = self.sweeper.in_flight.lock().clone();
        let snapshot = self.snapshot(Freshness::Committed);
        for id in snapshot.view.tables.keys() {
            let Some(table) = snapshot.table(*id) else { continue };
            let segments = table.rowsets.iter().flat_map(|rowset| rowset.segments());
            named.extend(segments.map(|segment| segment.path().to_path_buf()));
        }
        for stored in self.meta().tables_on_open()? {
            for rowset in &stored.rowsets {
                let dir = self.data_dir().tablet(stored.table.id, rowset.tablet);
                named.extend(rowset.segments.iter().map(|segment| dir.join(&segment.file)));
            }
        }
        Ok(named)
    }
}
