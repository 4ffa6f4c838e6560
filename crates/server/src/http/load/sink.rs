//! Where decoded rows go: a load, its memory, and the limit on large loads.
//!
//! Rows of which some delete, or that complete stored ones, are held back until it is known whether
//! they are few: then one record of the log has them.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::budget::Permit;
use freshet_base::clock::{Deadline, until};
use freshet_base::{Result, TxnId, err, task};
use freshet_ingest::decode::PartialColumns;
use freshet_ingest::{
    Engine, Load, LoadBuffer, Loaded, OnNewKey, PartialRows, SpooledRows, UsedIds, with_removals,
};
use freshet_meta::Claim;
use freshet_schema::Rules;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::body::{BodySize, INLINE_BYTES_MAX};
use super::deleting::marks;
use super::piece::{BodySummary, Decoded, Deletes};
use super::spooled::body_name;
use crate::accounts::{AccountUsage, RequestMemory};

/// Memory is taken in steps of at least this size, so that few parts need to ask for it.
const MEMORY_STEP_BYTES: usize = 64 << 10;

/// Rows that are held back may become so many times as long in their record.
const HELD_FACTOR: usize = 2;

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
    deletes: Deletes,
    /// Rows that complete stored ones, once they are many.
    partial: Partial,
    /// Whether its rows are held back, as long as they are few.
    holds: bool,
    held: Held,
}

/// Where many rows go that complete stored ones.
enum Partial {
    /// There are none.
    No,
    /// To a file, whose name has this number.
    ToFile(u64),
    InFile(SpooledRows),
}

/// Rows that are held back.
#[derive(Default)]
struct Held {
    steps: Vec<Decoded>,
    bytes: usize,
    /// Whether they have been too many.
    is_over: bool,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        usage: &'a Arc<AccountUsage>,
        load: Load<'a>,
        deadline: Deadline,
        large: &'a Semaphore,
    ) -> Self {
        let (slot, last, deletes) = (None, LoadBuffer::default(), Deletes::None);
        let (holds, held) = (false, Held::default());
        let partial = Partial::No;
        Self { engine, usage, load, deadline, large, slot, last, deletes, partial, holds, held }
    }

    /// Says that rows will complete stored ones; `number` is for a file.
    pub(super) fn expect_partial(&mut self, number: u64) {
        (self.partial, self.holds) = (Partial::ToFile(number), true);
    }

    /// Says that rows will delete.
    pub(super) fn expect_deleting(&mut self, deletes: Deletes) {
        (self.deletes, self.holds) = (deletes, deletes != Deletes::None);
    }

    /// Memory for rows of this load.
    pub(super) fn memory(&self) -> Memory<'a> {
        Memory::new(self.engine, self.usage, self.deadline)
    }

    /// Waits for flushes that have fallen behind, if a body of this size adds much to what waits
    /// for them; before it takes a slot, so that loads into other tables go on.
    pub(super) async fn let_flushes_catch_up(&self, size: BodySize) {
        // What is larger goes to files at once.
        let of_log = INLINE_BYTES_MAX + 1..=self.engine.config().wal_load_bytes_max.bytes();
        if !matches!(size, BodySize::Known(bytes) if !of_log.contains(&bytes)) {
            self.load.let_flushes_catch_up(self.deadline).await;
        }
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

    /// Adds rows.
    ///
    /// # Errors
    /// When files cannot be written, or the table was dropped.
    pub(super) async fn push(&mut self, step: Decoded) -> Result<()> {
        if self.holds {
            return self.hold(step).await;
        }
        self.become_large().await?;
        self.load.push(step.rows.into(), step.count, step.permit).await
    }

    /// Adds the last rows.
    ///
    /// # Errors
    /// Those of [`Self::push`].
    pub(super) async fn push_last(&mut self, step: Decoded) -> Result<()> {
        if self.holds {
            return self.hold(step).await;
        }
        let mut buffer = LoadBuffer::default();
        buffer.begin().extend_from_slice(&step.rows);
        buffer.count(step.count)?;
        self.set_last(buffer, step.permit);
        Ok(())
    }

    /// Holds rows back as long as they are few.
    async fn hold(&mut self, mut step: Decoded) -> Result<()> {
        step.deletes = marks(self.deletes, step.deletes, step.count)?;
        self.held.bytes += step.rows.len();
        self.held.steps.push(step);
        let is_over = self.held.is_over || !self.is_record(HELD_FACTOR * self.held.bytes);
        if is_over { self.let_go().await } else { Ok(()) }
    }

    fn is_record(&self, bytes: usize) -> bool {
        self.engine.takes_record_of(bytes)
    }

    /// Writes the rows that were held back to files, and those that follow.
    async fn let_go(&mut self) -> Result<()> {
        self.held.is_over = true;
        self.become_large().await?;
        if let Partial::ToFile(number) = self.partial {
            let spooled = SpooledRows::create(self.engine, &body_name(number)).await?;
            self.partial = Partial::InFile(spooled);
        }
        for step in std::mem::take(&mut self.held.steps) {
            let Partial::InFile(spooled) = &mut self.partial else {
                let Decoded { rows, permit, deletes, .. } = step;
                self.load.push_deleting(rows.into(), deletes, permit).await?;
                continue;
            };
            let Decoded { rows, count, given, permit: _permit, .. } = step;
            spooled.push(self.engine, (rows, &given), count).await?;
        }
        Ok(())
    }

    /// All rows that complete stored ones, if they are many.
    pub(super) fn take_spooled(&mut self) -> Option<SpooledRows> {
        match std::mem::replace(&mut self.partial, Partial::No) {
            Partial::InFile(spooled) => Some(spooled),
            Partial::No | Partial::ToFile(_) => None,
        }
    }

    /// All rows, if they were held back and are few.
    pub(super) fn take_held(&mut self) -> Option<Decoded> {
        if !self.holds || self.held.is_over {
            return None;
        }
        let mut whole = Decoded {
            rows: Vec::with_capacity(self.held.bytes),
            count: 0,
            summary: BodySummary::default(),
            permit: self.memory().take(),
            deletes: Vec::new(),
            given: Vec::new(),
        };
        for Decoded { rows, count, permit, deletes, given, .. } in self.held.steps.drain(..) {
            whole.rows.extend_from_slice(&rows);
            whole.count += count;
            whole.permit.merge(permit);
            whole.deletes.extend(deletes);
            whole.given.extend(given);
        }
        Some(whole)
    }

    /// Sets rows that were held back, of which some delete, as those of one record; in files, if
    /// they are too large for that.
    ///
    /// # Errors
    /// Those of [`Self::push`].
    pub(super) async fn set_deleting(&mut self, held: Decoded) -> Result<()> {
        let Decoded { rows, permit, deletes, .. } = held;
        let target = self.load.target().clone();
        let order = move || {
            let ordered = with_removals(&target, &rows, &deletes);
            ordered.map(|buffer| (buffer, rows, deletes))
        };
        let (buffer, rows, deletes) = task::run(&**self.engine.pool(), order).await?;
        if self.is_record(buffer.payload_bytes()) {
            self.set_last(buffer, permit);
            return Ok(());
        }
        self.become_large().await?;
        self.load.push_deleting(rows.into(), deletes, permit).await
    }

    /// Gives the load its label.
    pub(super) fn label(&mut self, claim: Option<Claim>) {
        if let Some(claim) = claim {
            self.load.label(claim);
        }
    }

    /// Says which ids all rows have, of an AUTO_INCREMENT column.
    pub(super) fn use_ids(&mut self, ids: Option<UsedIds>) {
        self.load.use_ids(ids);
    }

    /// Sets the last rows, in a buffer that can be written to the log without copying; `given` says
    /// of rows of a flexible partial update which columns each has.
    ///
    /// # Errors
    /// Those of [`Self::push`].
    pub(super) async fn last(
        &mut self,
        mut buffer: LoadBuffer,
        permit: Permit,
        given: Vec<bool>,
    ) -> Result<()> {
        if !self.holds {
            self.set_last(buffer, permit);
            return Ok(());
        }
        let (rows, count) = buffer.take();
        let (rows, count) = (rows.into(), count as usize);
        let (summary, deletes) = (BodySummary::default(), Vec::new());
        self.hold(Decoded { rows, count, summary, permit, deletes, given }).await
    }

    fn set_last(&mut self, buffer: LoadBuffer, memory: Permit) {
        self.load.add_memory(memory);
        self.last = buffer;
    }

    /// Prepares the load instead of committing it.
    ///
    /// # Errors
    /// Those of [`Engine::prepare`].
    pub(super) async fn prepare(
        mut self,
        ending: (Option<Claim>, Duration),
    ) -> Result<(TxnId, String)> {
        self.let_go().await?;
        self.engine.prepare(self.load, &mut self.last, ending).await
    }

    /// Prepares a partial update; without rows it is as any load.
    ///
    /// # Errors
    /// Those of [`Engine::prepare_partial`].
    pub(super) async fn prepare_partial(
        mut self,
        (columns, on_new_key, rules): (&PartialColumns, OnNewKey, &Rules),
        ending: (Option<Claim>, Duration),
    ) -> Result<(TxnId, String)> {
        let held_bytes = |step: &Decoded| step.rows.len() + step.given.len();
        if !self.is_record(HELD_FACTOR * self.held.steps.iter().map(held_bytes).sum::<usize>()) {
            self.let_go().await?;
        }
        if let Some(rows) = self.take_spooled() {
            let of = (columns, on_new_key);
            return self.engine.prepare_spooled_partial(self.load, rows, of, ending).await;
        }
        let held = self.take_held().expect("rows that complete others are held or in a file");
        let Decoded { rows, count, permit, given, .. } = held;
        if count == 0 {
            return self.engine.prepare(self.load, &mut self.last, ending).await;
        }
        let target = self.load.target().clone();
        let (target, bytes, given) = (&target, &rows[..], &given[..]);
        let rows = PartialRows { target, bytes, count, columns, given, on_new_key, rules };
        self.engine.prepare_partial(self.load, rows, permit, ending).await
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
