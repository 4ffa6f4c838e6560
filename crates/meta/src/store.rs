//! Key-value stores for metadata, with ordered keys and atomic, durable batches.

use std::fmt;

mod backend;
mod mem;
mod redb;

pub use mem::MemStore;
pub use redb::{OnFatal, RedbStore};

/// A change of metadata that is applied atomically.
///
/// Values are compared bytewise. A key may be in only one of `put` and `delete`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// The required current values for the batch to be applied; `None` means no value.
    pub expect: Vec<(String, Option<Vec<u8>>)>,
    /// Keys with their new values.
    pub put: Vec<(String, Vec<u8>)>,
    /// Keys to delete; missing ones are ignored.
    pub delete: Vec<String>,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.delete.is_empty()
    }

    /// Adds the contents of `other`, to be applied together.
    pub fn append(&mut self, other: Self) {
        self.expect.extend(other.expect);
        self.put.extend(other.put);
        self.delete.extend(other.delete);
    }
}

/// Why a batch was not applied, or a key could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// This key has another value than the batch expected; nothing changed.
    #[error("metadata at '{0}' is not what was expected")]
    Conflict(String),
    /// The file could not grow; nothing changed, and the store continues to work.
    #[error("no room for metadata: {0}")]
    DiskFull(std::io::Error),
    /// The file could not be opened or read.
    #[error("{doing}: {source}")]
    Io {
        /// The failed operation with the path of the file.
        doing: String,
        /// The underlying error.
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

pub type Pair = (String, Vec<u8>);

/// A durable map with ordered keys.
///
/// A failed sync is not reported as an error of a call: it ends the process, since the contents of
/// the device are then unknown (see [`OnFatal`]).
pub trait MetaStore: Send + Sync + fmt::Debug + 'static {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// All pairs whose key begins with `prefix`, in key order.
    fn scan(&self, prefix: &str) -> Result<Vec<Pair>, StoreError>;

    /// Applies batches in order, each atomically, with one sync for all of them; durable on return.
    /// A batch that fails does not affect the others.
    fn commit_all(&self, batches: &[Batch]) -> Vec<Result<(), StoreError>>;

    /// Applies one batch; durable on return. Concurrent calls share a sync.
    fn commit(&self, batch: Batch) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests;
