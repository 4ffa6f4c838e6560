//! The state of the log: its secrets, its files, and up to where it is recycled.

use freshet_base::{LogPosition, Lsn, Result, TableId, Term, Version};

use crate::keys;
use crate::store::MetaStore;

/// A secret of the store, from which the salts of the log's terms are derived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSecret {
    /// The first term that uses it.
    pub from: Term,
    pub key: [u64; 2],
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFileRecord {
    /// Never reused.
    pub id: u64,
    /// The path, relative to the data directory unless it is absolute.
    pub path: String,
    /// The size with which it was created.
    pub bytes: u64,
}

/// A hole in the log that an operator has accepted: replay skips it, and versions are not counted
/// in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptedHole {
    /// The first lost LSN.
    pub first: Lsn,
    /// The last lost LSN.
    pub last: Lsn,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogState {
    /// The id of the store, which each directory of the log contains; 0 before the first start.
    pub store: u64,
    /// The secrets, ordered by term; the first one is created with the id of the store.
    pub secrets: Vec<LogSecret>,
    /// The directories, relative to the data directory unless absolute. Each contains the id of the
    /// store.
    pub dirs: Vec<String>,
    /// All log files, including those ready to be written, ordered by id.
    pub files: Vec<LogFileRecord>,
    /// Files with this id or a higher one were never created.
    pub next_file: u64,
    /// Batches up to this position are in tables' files, the side file or metadata; the log files
    /// that contained them are reused.
    pub recycled: LogPosition,
    /// The side file with unflushed rows up to `recycled`.
    pub side_file: Option<String>,
    /// Holes that an operator has accepted.
    pub holes: Vec<AcceptedHole>,
}

/// The commit that allows log files to be reused. Metadata of barriers and large loads up to
/// `recycled` was committed before; ids need nothing, since their blocks are reserved before use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecycleCommit {
    /// The position up to which the log is recycled.
    pub recycled: LogPosition,
    /// The side file that replaces the previous one.
    pub side_file: Option<String>,
    /// Versions of tables at `recycled`.
    pub versions: Vec<(TableId, Version)>,
}

impl LogState {
    pub(crate) fn load(store: &dyn MetaStore) -> Result<Self> {
        match store.get(keys::LOG)? {
            Some(bytes) => keys::decode(keys::LOG, &bytes),
            None => Ok(Self::default()),
        }
    }

    /// The id of the next file.
    pub fn next_file(&self) -> u64 {
        self.files.last().map_or(1, |file| file.id + 1).max(self.next_file)
    }
}
