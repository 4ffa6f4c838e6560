//! A change of columns that copies rows: what it is of, how it is done, and whether it shall go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::{Result, bail};
use freshet_meta::NewForm;
use freshet_schema::{Rules, Table};

use crate::decode::Completion;
use crate::engine::Engine;
use crate::state::TableState;
use crate::target::LoadTarget;

/// What becomes of a table.
pub trait Rewriting: Send + Sync {
    /// The form that a table gets, which may have changed since the statement began.
    ///
    /// # Errors
    /// Those of its clauses.
    fn form(&self, table: &Table) -> Result<NewForm>;

    /// What rows of the new table get, and have to satisfy.
    ///
    /// # Errors
    /// Those of its expressions.
    fn completion(&self, target: &LoadTarget) -> Result<Completion>;

    /// How values become those of other columns, and the time of new defaults.
    fn rules(&self) -> (Rules, i64);
}

/// What it is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stage {
    /// Another change of the table runs.
    Pending = 0,
    /// It copies rows.
    Running = 1,
    /// It waits for those who write to the table.
    Waiting = 2,
}

/// How far it is, and whether it shall go on.
#[derive(Default, Debug)]
pub struct Progress {
    stage: AtomicU8,
    cancelled: AtomicBool,
    pub(super) rows: AtomicU64,
    pub(super) of: AtomicU64,
}

impl Progress {
    /// Lets it end; nothing has changed then, unless it was done already.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Pending,
            1 => Stage::Running,
            _ => Stage::Waiting,
        }
    }

    /// How many rows are copied, and about how many there are.
    pub fn rows(&self) -> (u64, u64) {
        let rows = self.rows.load(Ordering::Relaxed);
        (rows, self.of.load(Ordering::Relaxed).max(rows))
    }

    pub(super) fn set(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }
}

/// A change of one table.
pub(super) struct Job<'a> {
    pub engine: &'a Arc<Engine>,
    pub state: &'a Arc<TableState>,
    pub progress: &'a Progress,
}

impl Job<'_> {
    /// Waits.
    pub async fn pause(&self, time: Duration) -> Result<()> {
        self.check_running()?;
        self.engine.clock().sleep(time).await;
        self.check_running()
    }

    /// Checks that it shall go on.
    pub fn check_running(&self) -> Result<()> {
        if self.progress.cancelled.load(Ordering::Acquire) {
            bail!(
                Interrupted,
                "Query execution was interrupted: the change of table '{}' is cancelled",
                self.state.name()
            );
        }
        if self.engine.store.keeper.is_stopping() {
            bail!(ShuttingDown, "the server stops: table '{}' is as it was", self.state.name());
        }
        match self.state.is_dropped() {
            true => Err(self.state.gone()),
            false => Ok(()),
        }
    }
}
