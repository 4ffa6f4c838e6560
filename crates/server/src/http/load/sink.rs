//! Where decoded rows go: a load, its memory, and the limit on large loads.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freshet_base::budget::Permit;
use freshet_base::clock::{Deadline, until};
use freshet_base::{Result, TxnId, err};
use freshet_ingest::{Engine, Load, LoadBuffer, Loaded, UsedIds};
use freshet_meta::Claim;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::accounts::{AccountUsage, RequestMemory};

/// Memory is taken in steps of at least this size, so that few parts need to ask for it.
const MEMORY_STEP_BYTES: usize = 64 << 10;

/// Write memory of one load for its body and rows, taken before it is used.
pub(super) struct Memory<'a> {
    engine: &'a Engine,
    deadline: Deadline,
    receiving: RequestMemory,
}

impl<'a> Memory<'a> {
    fn new(engine: &'a Engine, usage: &Arc<AccountUsage>, deadline: Deadline) -> Self {
        Self { engine, deadline, receiving: RequestMemory::new(usage, engine) }
    }

    /// Holds at least `bytes` from now on; waits until they are free.
    ///
    /// # Errors
    /// `OutOfRoom`.
    pub(super) async fn cover(&mut self, bytes: usize) -> Result<()> {
        let held = self.receiving.bytes();
        let Some(missing) = (bytes as u64).checked_sub(held).filter(|&missing| missing > 0) else {
            return Ok(());
        };
        let step = missing.max(MEMORY_STEP_BYTES as u64);
        let patience = self.engine.config().load_patience;
        let soon = Deadline::after(&**self.engine.clock(), patience);
        self.receiving.grow(step, self.engine, soon.min(self.deadline)).await
    }

    /// Holds at least `bytes` from now on without waiting: they are in use already.
    pub(super) fn cover_now(&mut self, bytes: usize) {
        self.receiving.resize_over(self.receiving.bytes().max(bytes as u64));
    }

    pub(super) fn take(&mut self) -> Permit {
        self.receiving.hand_over(self.receiving.bytes())
    }

    /// Splits off `bytes` that are in use already, taking more if necessary.
    pub(super) fn split(&mut self, bytes: usize) -> Permit {
        self.cover_now(bytes);
        self.receiving.hand_over(bytes as u64)
    }
}

/// A load that receives decoded rows in order.
pub(super) struct Sink<'a> {
    engine: &'a Engine,
    usage: &'a Arc<AccountUsage>,
    load: Load<'a>,
    deadline: Deadline,
    /// Limits concurrent large loads, which hold much memory until their rows are in files.
    large: &'a Semaphore,
    slot: Option<SemaphorePermit<'a>>,
    last: LoadBuffer,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        usage: &'a Arc<AccountUsage>,
        load: Load<'a>,
        deadline: Deadline,
        large: &'a Semaphore,
    ) -> Self {
        Self { engine, usage, load, deadline, large, slot: None, last: LoadBuffer::default() }
    }

    /// Memory for rows of this load.
    pub(super) fn memory(&self) -> Memory<'a> {
        Memory::new(self.engine, self.usage, self.deadline)
    }

    /// Waits for a slot among the large loads; called before the load holds much memory.
    ///
    /// # Errors
    /// `OutOfRoom` when there is no slot within the load's timeout.
    pub(super) async fn become_large(&mut self) -> Result<()> {
        if self.slot.is_none() {
            let turn = until(&**self.engine.clock(), self.deadline, self.large.acquire()).await;
            let slot = turn.ok_or_else(|| {
                err!(OutOfRoom, "too many large loads run; the load waited as long as it may")
            })?;
            self.slot = Some(slot.expect("the semaphore is never closed"));
        }
        Ok(())
    }

    /// # Errors
    /// When files cannot be written, or the table was dropped.
    pub(super) async fn push(&mut self, rows: Bytes, count: usize, memory: Permit) -> Result<()> {
        self.become_large().await?;
        self.load.push(rows, count, memory).await
    }

    /// Says which ids all rows have, of an AUTO_INCREMENT column.
    pub(super) fn use_ids(&mut self, ids: Option<UsedIds>) {
        self.load.use_ids(ids);
    }

    /// Sets the last rows, in a buffer that can be written to the log without copying.
    pub(super) fn last(&mut self, buffer: LoadBuffer, memory: Permit) {
        self.load.add_memory(memory);
        self.last = buffer;
    }

    /// Prepares the load instead of committing it.
    ///
    /// # Errors
    /// Those of [`Engine::prepare`].
    pub(super) async fn prepare(
        mut self,
        claim: Option<Claim>,
        keep: Duration,
    ) -> Result<(TxnId, String)> {
        self.become_large().await?;
        self.engine.prepare(self.load, &mut self.last, (claim, keep)).await
    }

    /// Commits the load and releases its slot. A load of one buffer needs no slot, even if the
    /// buffer is too large for a log record, because it holds little memory.
    ///
    /// # Errors
    /// Those of [`Load::commit`].
    pub(super) async fn commit(mut self) -> Result<Loaded> {
        self.load.commit(&mut self.last).await
    }
}
