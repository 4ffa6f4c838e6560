//! Open snapshots, and the limit on what only they keep in memory.
//!
//! Rows above a table's flushed LSN are the memory of writes, whoever reads them. Once they are
//! in files, those that an open snapshot still sees are kept for it alone: they move from the
//! budget of writes, which must never wait for a reader, to the one of snapshots. Where that one
//! is exceeded, the oldest snapshot that keeps something is closed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use freshet_base::budget::Budget;
use freshet_base::{ByteSize, Error, ErrorCode, Retry, TableId};

use crate::delta::Chunk;
use crate::snapshot::{Reach, Snapshot};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// The snapshots that are open.
pub struct Pins {
    memory: Budget,
    open: Mutex<Open>,
    closed: AtomicU64,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// By age.
    pins: BTreeMap<u64, (Weak<Pin>, Weak<Mutex<Reach>>)>,
}

/// An open snapshot, and what it may still look at, unless only its tables are still read.
type Alive = (Arc<Pin>, Option<Arc<Mutex<Reach>>>);

/// One open snapshot: alive as long as anything of it is held, be it a single table by a scan.
pub struct Pin {
    number: u64,
    pins: Arc<Pins>,
    closed: AtomicBool,
    /// What it was handed of deltas, by address; what is in none of its tables any more is gone.
    chunks: Mutex<BTreeMap<usize, Weak<Chunk>>>,
}

/// Why a snapshot cannot be read: it was closed, because its memory was needed elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooOld {
    /// What all snapshots together may keep.
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
    /// None yet. Rows that only snapshots keep are counted in `memory`, also above its limit
    /// until those that are closed have let go.
    pub fn new(memory: Budget) -> Self {
        Self { memory, open: Mutex::default(), closed: AtomicU64::new(0) }
    }

    /// The memory of rows that are in files and that snapshots keep.
    pub fn memory(&self) -> &Budget {
        &self.memory
    }

    /// How many snapshots are open.
    pub fn count(&self) -> usize {
        self.open.lock().pins.len()
    }

    /// How many were closed because their memory was needed elsewhere.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Opens a snapshot of what `reach` finds. It is found under the lock: whoever swaps a view
    /// and then looks for open snapshots meets all that were opened on the one before.
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

    /// Takes tables of all open snapshots off their deltas.
    pub(crate) fn detach(&self, tables: &[TableId]) {
        for (pin, reach) in self.all() {
            let Some(reach) = reach else { continue };
            let mut reach = reach.lock();
            tables.iter().for_each(|table| reach.detach(*table, &pin));
        }
    }

    /// Closes the oldest snapshots until the others keep no more than may be.
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
            // One that was closed before and is still being read counts: it lets go soon.
            over = over.saturating_sub(bytes);
            if over == 0 {
                return;
            }
        }
    }

    /// All that are open, the oldest first, out of the lock: the last to hold one takes it.
    fn all(&self) -> Vec<Alive> {
        let open = self.open.lock();
        let alive = |(pin, reach): &(Weak<Pin>, Weak<Mutex<Reach>>)| {
            pin.upgrade().map(|pin| (pin, reach.upgrade()))
        };
        open.pins.values().filter_map(alive).collect()
    }
}

impl Pin {
    /// Whether it may still be read.
    ///
    /// # Errors
    /// [`TooOld`].
    pub(crate) fn check_open(&self) -> Result<(), TooOld> {
        match self.closed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(TooOld { limit_bytes: self.pins.memory.limit_bytes() }),
        }
    }

    /// Takes note of what it was handed.
    pub(crate) fn keeps<'a>(&self, chunks: impl Iterator<Item = &'a Arc<Chunk>>) {
        let mut known = self.chunks.lock();
        known.extend(chunks.map(|chunk| (Arc::as_ptr(chunk).addr(), Arc::downgrade(chunk))));
    }

    /// Memory of rows that are in files and that it keeps, perhaps with others.
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
