//! Open snapshots, and the limit on memory that only they need.
//!
//! Rows above a table's flushed LSN are accounted as write memory, whether or not they are read.
//! Once they are in files, those that an open snapshot still sees are kept only for it. They move
//! from the write budget, which must never wait for a reader, to the budget of snapshots. If that
//! is exceeded, the oldest snapshot that holds such rows is closed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use freshet_base::budget::Budget;
use freshet_base::{ByteSize, Error, ErrorCode, Retry, TableId};

use crate::delta::Chunk;
use crate::snapshot::{Reach, Snapshot};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// All open snapshots.
pub struct Pins {
    memory: Budget,
    open: Mutex<Open>,
    closed: AtomicU64,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// Ordered by age.
    pins: BTreeMap<u64, (Weak<Pin>, Weak<Mutex<Reach>>)>,
}

/// An open snapshot and its reach; `None` if only single tables of it are still in use.
type Alive = (Arc<Pin>, Option<Arc<Mutex<Reach>>>);

/// An open snapshot, alive while any part of it is in use, even a single table by a scan.
pub struct Pin {
    number: u64,
    pins: Arc<Pins>,
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

impl Pins {
    /// No snapshots. Rows that only snapshots need are accounted in `memory`, above its limit as
    /// well until closed snapshots have released theirs.
    pub fn new(memory: Budget) -> Self {
        Self { memory, open: Mutex::default(), closed: AtomicU64::new(0) }
    }

    /// The memory of rows that are in files and that only snapshots need.
    pub fn memory(&self) -> &Budget {
        &self.memory
    }

    /// The number of open snapshots.
    pub fn count(&self) -> usize {
        self.open.lock().pins.len()
    }

    /// The number of snapshots closed to free memory.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Opens a snapshot of what `reach` returns. It is called under the lock, so that after a view
    /// is replaced, every snapshot of the previous one is found among the open ones.
    pub(crate) fn open(self: &Arc<Self>, reach: impl FnOnce() -> Reach) -> Snapshot {
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        let pin = Arc::new(Pin {
            number,
            pins: Arc::clone(self),
            closed: AtomicBool::new(false),
            chunks: Mutex::default(),
        });
        let snapshot = Snapshot::new(Arc::clone(&pin), reach());
        let entry = (Arc::downgrade(&pin), Arc::downgrade(snapshot.reach()));
        let before = open.pins.insert(number, entry);
        assert!(before.is_none(), "no two snapshots have one number");
        snapshot
    }

    /// Detaches tables of all open snapshots from their deltas.
    pub(crate) fn detach(&self, tables: &[TableId]) {
        for (pin, reach) in self.all() {
            let Some(reach) = reach else { continue };
            let mut reach = reach.lock();
            tables.iter().for_each(|table| reach.detach(*table, &pin));
        }
    }

    /// Closes the oldest snapshots until the memory is within its limit.
    pub(crate) fn keep_to_limit(&self) {
        let mut over = self.memory.used_bytes().saturating_sub(self.memory.limit_bytes());
        if over == 0 {
            return;
        }
        for (pin, reach) in self.all() {
            let bytes = pin.bytes();
            if bytes == 0 {
                continue;
            }
            if !pin.closed.swap(true, Ordering::AcqRel) {
                self.closed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    bytes,
                    limit = self.memory.limit_bytes(),
                    "closed the oldest snapshot: rows that only snapshots keep are over the limit"
                );
            }
            if let Some(reach) = reach {
                let tables = reach.lock().close();
                drop(tables);
            }
            // A snapshot that was closed before but is still being read counts as well: it will
            // release its memory soon.
            over = over.saturating_sub(bytes);
            if over == 0 {
                return;
            }
        }
    }

    /// All open snapshots, oldest first. They are returned out of the lock, since dropping the last
    /// reference to a pin takes it.
    fn all(&self) -> Vec<Alive> {
        let open = self.open.lock();
        let alive = |(pin, reach): &(Weak<Pin>, Weak<Mutex<Reach>>)| {
            pin.upgrade().map(|pin| (pin, reach.upgrade()))
        };
        open.pins.values().filter_map(alive).collect()
    }
}

impl Pin {
    /// Checks that the snapshot may still be read.
    ///
    /// # Errors
    /// [`TooOld`].
    pub(crate) fn check_open(&self) -> Result<(), TooOld> {
        match self.closed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(TooOld { limit_bytes: self.pins.memory.limit_bytes() }),
        }
    }

    /// Records chunks given to the snapshot.
    pub(crate) fn keeps<'a>(&self, chunks: impl Iterator<Item = &'a Arc<Chunk>>) {
        let mut known = self.chunks.lock();
        known.extend(chunks.map(|chunk| (Arc::as_ptr(chunk).addr(), Arc::downgrade(chunk))));
    }

    /// The memory of rows that are in files and that it holds, possibly together with other
    /// snapshots.
    fn bytes(&self) -> u64 {
        let chunks = self.chunks.lock().values().filter_map(Weak::upgrade).collect::<Vec<_>>();
        chunks.iter().map(|chunk| chunk.kept_bytes()).sum()
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.pins.open.lock().pins.remove(&self.number);
    }
}
