//! One open snapshot: what it keeps in memory, and whether it was closed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use freshet_base::budget::Budget;
use freshet_base::{ByteSize, Error, ErrorCode, Retry};

use crate::delta::Chunk;
use crate::sync::{AtomicBool, Mutex, Ordering};

/// An open snapshot, alive while any part of it is in use, even a single table by a scan.
pub struct Pin {
    number: u64,
    /// Of all snapshots.
    memory: Budget,
    /// Receives the number on drop.
    dropped: Arc<Mutex<Vec<u64>>>,
    closed: AtomicBool,
    /// The chunks of deltas that were given to it, by address; weak, as its tables own them.
    chunks: Mutex<BTreeMap<usize, Weak<Chunk>>>,
}

/// A snapshot cannot be read because it was closed to free memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooOld {
    /// The limit on memory of all snapshots.
    limit_bytes: u64,
}

impl fmt::Display for TooOld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "snapshot too old: rows that it reads went to files since, what only open snapshots \
             keep in memory came to more than {} (snapshot_memory), and this was the oldest; end \
             the transaction or run the query again, or raise snapshot_memory",
            ByteSize(self.limit_bytes)
        )
    }
}

impl std::error::Error for TooOld {}

impl From<TooOld> for Error {
    fn from(too_old: TooOld) -> Self {
        Self::new(ErrorCode::SnapshotTooOld, too_old.to_string()).with_retry(Retry::Now)
    }
}

impl Pin {
    pub(crate) fn new(number: u64, memory: Budget, dropped: Arc<Mutex<Vec<u64>>>) -> Self {
        let (closed, chunks) = (AtomicBool::new(false), Mutex::default());
        Self { number, memory, dropped, closed, chunks }
    }

    /// Closes the snapshot; false if it was closed before.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// Checks that the snapshot may still be read.
    ///
    /// # Errors
    /// [`TooOld`].
    pub(crate) fn check_open(&self) -> Result<(), TooOld> {
        match self.closed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(TooOld { limit_bytes: self.memory.limit_bytes() }),
        }
    }

    /// Records chunks given to the snapshot.
    pub(crate) fn keeps<'a>(&self, chunks: impl Iterator<Item = &'a Arc<Chunk>>) {
        let mut known = self.chunks.lock();
        known.extend(chunks.map(|chunk| (Arc::as_ptr(chunk).addr(), Arc::downgrade(chunk))));
    }

    /// The memory of rows that are in files and that it holds, possibly together with other
    /// snapshots.
    pub(crate) fn bytes(&self) -> u64 {
        let chunks = self.chunks.lock().values().filter_map(Weak::upgrade).collect::<Vec<_>>();
        chunks.iter().map(|chunk| chunk.kept_bytes()).sum()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.dropped.lock().push(self.number);
    }
}
