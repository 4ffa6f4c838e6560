//! How a load treats the keys of its rows, and what it decides about them.

use std::time::Duration;

use freshet_base::clock::Deadline;
use freshet_storage::resolver::Resolver;

use crate::engine::Engine;
use crate::target::LoadTarget;

/// A row that meets another, and the number of the key on which it does.
pub(crate) type Conflict = (u32, usize);

/// What a load does with a row whose key exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnExisting {
    /// The load fails: INSERT.
    Refuse,
    /// The row is left out with a warning: INSERT IGNORE.
    Skip,
    /// It replaces the others, on whatever key it meets them: REPLACE.
    Replace,
    /// It replaces the one with its primary key, and the load fails if in the end a row shares
    /// the value of another key with another one: Stream Load.
    #[default]
    Overwrite,
}

/// How a load treats the keys of its rows.
#[derive(Clone, Copy, Debug)]
pub struct KeyRules {
    pub on_existing: OnExisting,
    /// How long it waits for keys that others hold.
    pub lock_wait: Duration,
    /// The connection whose statement it is, for who asks who waits for whom; 0 for none.
    pub connection: u32,
}

impl Default for KeyRules {
    fn default() -> Self {
        Self {
            on_existing: OnExisting::default(),
            lock_wait: Duration::from_secs(50),
            connection: 0,
        }
    }
}

impl KeyRules {
    pub(crate) fn deadline(self, engine: &Engine) -> Deadline {
        Deadline::after(engine.store.clock(), self.lock_wait)
    }
}

/// What becomes of the rows of a load.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Decided {
    /// The rows that are written, ascending.
    pub kept: Vec<u32>,
    /// The first row that fails the load.
    pub refused: Option<Conflict>,
    /// Rows that are left out, ascending.
    pub skipped: Vec<Conflict>,
    /// How many rows others replace.
    pub replaced: u64,
    /// The primary keys of rows that are removed for others, of other keys.
    pub removed: Vec<Vec<u8>>,
}

pub(crate) fn resolver(target: &LoadTarget) -> &Resolver {
    target.state.resolver.as_ref().expect("a table with keys has a resolver")
}
