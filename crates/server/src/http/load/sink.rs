//! What a body becomes: a load, its memory and its turn among large ones.

use std::sync::Arc;

use bytes::Bytes;
use freshet_base::budget::Permit;
use freshet_base::clock::{Deadline, until};
use freshet_base::{Result, err};
use freshet_ingest::{Engine, Load, LoadBuffer, Loaded};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::accounts::{Holdings, Receiving};

/// Memory is taken in steps of at least this, so that few parts ask for it.
const MEMORY_STEP_BYTES: usize = 64 << 10;

/// Memory of writes that one load holds for what has come of it, taken before it is needed.
pub(super) struct Memory<'a> {
    engine: &'a Engine,
    deadline: Deadline,
    receiving: Receiving,
}

impl<'a> Memory<'a> {
    fn new(engine: &'a Engine, holdings: &Arc<Holdings>, deadline: Deadline) -> Self {
        Self { engine, deadline, receiving: Receiving::nothing(holdings, engine) }
    }

    /// Holds at least `bytes` from here on; waits for them where it must.
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

    /// Holds at least `bytes` from here on, which are in use already.
    pub(super) fn cover_now(&mut self, bytes: usize) {
        self.receiving.resize_over(self.receiving.bytes().max(bytes as u64));
    }

    /// Hands over what it holds.
    pub(super) fn take(&mut self) -> Permit {
        self.receiving.hand_over(self.receiving.bytes())
    }

    /// Hands over `bytes` of what it holds, which it takes if it must: they are in use.
    pub(super) fn split(&mut self, bytes: usize) -> Permit {
        self.cover_now(bytes);
        self.receiving.hand_over(bytes as u64)
    }
}

/// A load whose rows come out of a body, in order.
pub(super) struct Sink<'a> {
    engine: &'a Engine,
    holdings: &'a Arc<Holdings>,
    load: Load<'a>,
    deadline: Deadline,
    /// Large loads at the same time: each holds much memory until its rows are in files.
    large: &'a Semaphore,
    place: Option<SemaphorePermit<'a>>,
    last: LoadBuffer,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        holdings: &'a Arc<Holdings>,
        load: Load<'a>,
        deadline: Deadline,
        large: &'a Semaphore,
    ) -> Self {
        Self { engine, holdings, load, deadline, large, place: None, last: LoadBuffer::default() }
    }

    /// Memory for rows that come here.
    pub(super) fn memory(&self) -> Memory<'a> {
        Memory::new(self.engine, self.holdings, self.deadline)
    }

    /// Waits for its turn among large loads: before it holds much memory.
    ///
    /// # Errors
    /// `OutOfRoom` when the turn does not come in the load's time.
    pub(super) async fn become_large(&mut self) -> Result<()> {
        if self.place.is_none() {
            let turn = until(&**self.engine.clock(), self.deadline, self.large.acquire()).await;
            let place = turn.ok_or_else(|| {
                err!(OutOfRoom, "too many large loads run; the load waited as long as it may")
            })?;
            self.place = Some(place.expect("the semaphore is never closed"));
        }
        Ok(())
    }

    /// Adds rows.
    ///
    /// # Errors
    /// When files cannot be written, or the table is gone.
    pub(super) async fn push(&mut self, rows: Bytes, count: usize, memory: Permit) -> Result<()> {
        self.become_large().await?;
        self.load.push(rows, count, memory).await
    }

    /// Adds the last rows, in a buffer that can become a record as it is.
    pub(super) fn last(&mut self, buffer: LoadBuffer, memory: Permit) {
        self.load.pay(memory);
        self.last = buffer;
    }

    /// Loads what came. Its turn is over then. A load of one buffer takes none, even where that is
    /// too large for a record: it holds its little memory already.
    ///
    /// # Errors
    /// Those of [`Load::commit`].
    pub(super) async fn commit(mut self) -> Result<Loaded> {
        self.load.commit(&mut self.last).await
    }
}
