//! A cache of footers with a memory budget and least-recently-used eviction.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use freshet_base::budget::{Budget, Permit};
use freshet_base::metrics::Metrics;
use futures::channel::oneshot;
use parking_lot::Mutex;

use super::source::Open;
use crate::error::Result;

/// How the reader of a segment waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitMode {
    /// Asynchronously, without blocking a thread.
    Awaiting,
    /// By blocking its thread; its futures are ready when first polled.
    Blocking,
}

/// The cache of footers. Concurrent requests for a footer wait for a single read, except for those
/// that block a thread: the task that reads may need that very thread to go on.
pub(super) struct Footers {
    memory: Budget,
    state: Mutex<State>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct State {
    /// The last number given to a segment.
    numbers: u64,
    slots: HashMap<u64, Slot>,
    /// The numbers of cached segments, ordered by last use.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

enum Slot {
    /// Being read; dropping the senders wakes the waiters.
    Reading(Vec<oneshot::Sender<()>>),
    Cached {
        open: Arc<CachedFooter>,
        used: u64,
    },
}

/// A cached footer, whose memory is accounted for as long as it is in use.
pub(super) struct CachedFooter {
    pub open: Open,
    memory: Permit,
}

/// The state of a footer.
enum Found<'a> {
    Cached(Arc<CachedFooter>),
    /// Being read by another caller, until the sender is dropped.
    Read(oneshot::Receiver<()>),
    /// To be read by the caller.
    Missing(Reading<'a>),
}

/// The right to read a footer. If dropped without a result, a waiter gets it.
struct Reading<'a> {
    footers: &'a Footers,
    number: u64,
    /// Whether the slot is no longer its own: it may be that of the next reader.
    has_result: bool,
}

impl Footers {
    pub fn new(memory: Budget, metrics: Arc<Metrics>) -> Self {
        Self { memory, state: Mutex::default(), metrics }
    }

    pub fn memory(&self) -> &Budget {
        &self.memory
    }

    /// A new number for a segment, the key of its footer.
    pub fn number(&self) -> u64 {
        let mut state = self.state.lock();
        state.numbers += 1;
        state.numbers
    }

    /// The footer of a segment, read by `read` if it is not cached.
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn get(
        &self,
        number: u64,
        wait_mode: WaitMode,
        read: impl Future<Output = Result<Open>>,
    ) -> Result<Arc<CachedFooter>> {
        loop {
            match self.find(number) {
                Found::Cached(footer) => {
                    self.metrics.footer_hits.inc();
                    return Ok(footer);
                }
                Found::Read(ended) if wait_mode == WaitMode::Awaiting => {
                    // Nothing is ever sent; the sender is dropped.
                    let _ = ended.await;
                }
                Found::Read(_) => {
                    self.metrics.footer_misses.inc();
                    return Ok(self.counted(read.await?));
                }
                Found::Missing(reading) => {
                    self.metrics.footer_misses.inc();
                    return Ok(reading.keep(read.await?));
                }
            }
        }
    }

    /// The footer of a segment if it is cached. This does not count as a use.
    pub fn known(&self, number: u64) -> Option<Arc<CachedFooter>> {
        match self.state.lock().slots.get(&number) {
            Some(Slot::Cached { open, .. }) => Some(Arc::clone(open)),
            _ => None,
        }
    }

    /// Removes the footer of a segment that was dropped.
    pub fn forget(&self, number: u64) {
        let mut state = self.state.lock();
        let slot = state.slots.remove(&number);
        if let Some(Slot::Cached { used, .. }) = &slot {
            state.by_use.remove(used);
        }
        drop(state);
        drop(slot);
    }

    /// Accounts for a footer beyond the limit, since it is already in memory.
    fn counted(&self, open: Open) -> Arc<CachedFooter> {
        let memory = self.memory.acquire_over(open.memory_bytes());
        Arc::new(CachedFooter { open, memory })
    }

    fn find(&self, number: u64) -> Found<'_> {
        let mut state = self.state.lock();
        let State { slots, by_use, uses, .. } = &mut *state;
        match slots.get_mut(&number) {
            Some(Slot::Cached { open, used }) => {
                let before = by_use.remove(used);
                assert_eq!(before, Some(number), "a cached footer stands where it was last used");
                *uses += 1;
                *used = *uses;
                by_use.insert(*used, number);
                Found::Cached(Arc::clone(open))
            }
            Some(Slot::Reading(waiting)) => {
                let (sender, ended) = oneshot::channel();
                waiting.push(sender);
                Found::Read(ended)
            }
            None => {
                slots.insert(number, Slot::Reading(Vec::new()));
                Found::Missing(Reading { footers: self, number, has_result: false })
            }
        }
    }
}

impl Reading<'_> {
    /// Caches a footer, and evicts others if the budget is exceeded.
    fn keep(mut self, open: Open) -> Arc<CachedFooter> {
        let footer = self.footers.counted(open);
        let mut gone = Vec::new();
        let mut state = self.footers.state.lock();
        state.uses += 1;
        let (used, number) = (state.uses, self.number);
        state.by_use.insert(used, number);
        let slot = state.slots.insert(number, Slot::Cached { open: Arc::clone(&footer), used });
        assert!(matches!(slot, Some(Slot::Reading(_))), "one reader at a time reads a footer");
        gone.extend(slot);
        self.has_result = true;
        let memory = &self.footers.memory;
        let mut over = memory.used_bytes().saturating_sub(memory.limit_bytes());
        while over > 0 {
            let Some((_, oldest)) = state.by_use.pop_first() else { break };
            let slot = state.slots.remove(&oldest);
            assert!(matches!(slot, Some(Slot::Cached { .. })), "what was used is cached");
            if let Some(Slot::Cached { open, .. }) = &slot {
                // A footer in use counts as freed too: its memory will be released soon.
                over = over.saturating_sub(open.memory.bytes());
            }
            gone.extend(slot);
        }
        drop(state);
        drop(gone);
        footer
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if !self.has_result {
            let slot = self.footers.state.lock().slots.remove(&self.number);
            // Wakes the waiters, without the lock.
            drop(slot);
        }
    }
}
