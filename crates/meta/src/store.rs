//! Where metadata is kept: ordered keys, atomic and durable batches.

use std::fmt;

mod backend;
#[cfg(test)]
pub(crate) mod crash_fs;
mod mem;
mod redb;

pub use mem::MemStore;
pub use redb::{OnFatal, RedbStore};

/// A change of metadata: applied whole, or not at all.
///
/// Values are compared by their bytes. A key may stand in only one of `put` and `delete`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// What must stand in the store for the batch to apply; `None` means no value.
    pub expect: Vec<(String, Option<Vec<u8>>)>,
    /// Keys and their new values.
    pub put: Vec<(String, Vec<u8>)>,
    /// Keys that go; one that is not there is no error.
    pub delete: Vec<String>,
}

impl Batch {
    /// Whether the batch would change nothing.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.delete.is_empty()
    }

    /// Adds all of `other`, to be applied together.
    pub fn append(&mut self, other: Self) {
        self.expect.extend(other.expect);
        self.put.extend(other.put);
        self.delete.extend(other.delete);
    }
}

/// Why a batch did not apply, or a key could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another value stands at this key than the batch expected; nothing changed.
    #[error("metadata at '{0}' is not what was expected")]
    Conflict(String),
    /// The file could not grow; nothing changed, and the store goes on working.
    #[error("no room for metadata: {0}")]
    DiskFull(std::io::Error),
    /// The file could not be opened or read.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done to which file.
        doing: String,
        /// What the layer below said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<StoreError> for freshet_base::Error {
    fn from(error: StoreError) -> Self {
        let (code, hint) = match &error {
            StoreError::Conflict(_) => (freshet_base::ErrorCode::LockWaitTimeout, "; try again"),
            StoreError::DiskFull(_) => {
                (freshet_base::ErrorCode::DiskFull, "; free space under the data directory")
            }
            StoreError::Io { .. } => (freshet_base::ErrorCode::Io, ""),
        };
        Self::new(code, format!("{error}{hint}")).with_source(error)
    }
}

/// A key and its value.
pub type Pair = (String, Vec<u8>);

/// A durable map of ordered keys.
///
/// A failed sync is not an error of a call: it ends the process, since nobody can know what
/// the device holds (see [`OnFatal`]).
pub trait MetaStore: Send + Sync + fmt::Debug + 'static {
    /// The value at `key`.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// All pairs whose key begins with `prefix`, in key order.
    fn scan(&self, prefix: &str) -> Result<Vec<Pair>, StoreError>;

    /// Applies batches in order, each whole or not at all, with one sync for all; durable at
    /// return. One that does not apply leaves the others alone.
    fn commit_all(&self, batches: &[Batch]) -> Vec<Result<(), StoreError>>;

    /// Applies one batch; durable at return. Calls at the same time share a sync.
    fn commit(&self, batch: Batch) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests;
