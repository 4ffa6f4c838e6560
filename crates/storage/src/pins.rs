//! Open snapshots, and the limit on memory that only they need.
//!
//! Rows above a table's flushed LSN are accounted as write memory, whether or not they are read.
//! Once they are in files, those that an open snapshot still sees are kept only for it. They move
//! from the write budget, which must never wait for a reader, to the budget of snapshots. If that
//! is exceeded, the oldest snapshot that holds such rows is closed.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use freshet_base::TableId;
use freshet_base::budget::Budget;

use crate::pin::Pin;
use crate::snapshot::{Snapshot, SnapshotTables};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// All open snapshots.
pub struct Pins {
    memory: Budget,
    open: Mutex<Open>,
    /// Numbers of pins that were dropped since `open` was last used.
    dropped: Arc<Mutex<Vec<u64>>>,
    closed: AtomicU64,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// Ordered by age.
    pins: BTreeMap<u64, (Weak<Pin>, Weak<Mutex<SnapshotTables>>)>,
}

/// An open snapshot and its tables; `None` if only single tables of it are still in use.
type Alive = (Arc<Pin>, Option<Arc<Mutex<SnapshotTables>>>);

impl Pins {
    /// No snapshots. Rows that only snapshots need are accounted in `memory`, above its limit as
    /// well until closed snapshots have released theirs.
    pub fn new(memory: Budget) -> Self {
        let closed = AtomicU64::new(0);
        Self { memory, open: Mutex::default(), dropped: Arc::default(), closed }
    }

    /// The memory of rows that are in files and that only snapshots need.
    pub fn memory(&self) -> &Budget {
        &self.memory
    }

    /// The number of open snapshots.
    pub fn count(&self) -> usize {
        let mut open = self.open.lock();
        self.forget_dropped(&mut open);
        open.pins.len()
    }

    /// The number of snapshots closed to free memory.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Opens a snapshot of what `tables` returns. It is called under the lock, so that after a view
    /// is replaced, every snapshot of the previous one is found among the open ones.
    pub(crate) fn open(&self, tables: impl FnOnce() -> SnapshotTables) -> Snapshot {
        let mut open = self.open.lock();
        self.forget_dropped(&mut open);
        let number = open.next;
        open.next += 1;
        let pin = Arc::new(Pin::new(number, self.memory.clone(), Arc::clone(&self.dropped)));
        let snapshot = Snapshot::new(Arc::clone(&pin), tables());
        let entry = (Arc::downgrade(&pin), Arc::downgrade(snapshot.tables()));
        let before = open.pins.insert(number, entry);
        assert!(before.is_none(), "no two snapshots have one number");
        snapshot
    }

    /// Keeps snapshots from opening until the guard is dropped.
    pub(crate) fn hold(&self) -> impl Sized + '_ {
        self.open.lock()
    }

    /// Detaches tables of all open snapshots from their deltas.
    pub(crate) fn detach(&self, tables: &[TableId]) {
        for (pin, all) in self.all() {
            let Some(all) = all else { continue };
            let mut all = all.lock();
            tables.iter().for_each(|table| all.detach(*table, &pin));
        }
    }

    /// Closes the oldest snapshots until the memory is within its limit.
    pub(crate) fn keep_to_limit(&self) {
        let mut over = self.memory.used_bytes().saturating_sub(self.memory.limit_bytes());
        if over == 0 {
            return;
        }
        for (pin, tables) in self.all() {
            let bytes = pin.bytes();
            if bytes == 0 {
                continue;
            }
            if pin.close() {
                self.closed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    bytes,
                    limit = self.memory.limit_bytes(),
                    "closed the oldest snapshot: rows that only snapshots keep are over the limit"
                );
            }
            if let Some(tables) = tables {
                let closed = tables.lock().close();
                drop(closed);
            }
            // A snapshot that was closed before but is still being read counts as well: it will
            // release its memory soon.
            over = over.saturating_sub(bytes);
            if over == 0 {
                return;
            }
        }
    }

    fn forget_dropped(&self, open: &mut Open) {
        let dropped = std::mem::take(&mut *self.dropped.lock());
        dropped.iter().for_each(|number| drop(open.pins.remove(number)));
    }

    /// All open snapshots, oldest first.
    fn all(&self) -> Vec<Alive> {
        let open = self.open.lock();
        let alive = |(pin, tables): &(Weak<Pin>, Weak<Mutex<SnapshotTables>>)| {
            pin.upgrade().map(|pin| (pin, tables.upgrade()))
        };
        open.pins.values().filter_map(alive).collect()
    }
}
