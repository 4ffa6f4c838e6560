//! Admission control: loads wait here for memory and log space.
//!
//! An admitted load holds a reservation for the memory of its rows in the delta and for the log
//! space of its record, so that no later step can run out of either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use freshet_base::budget::{Budget, NoRoom, Permit};
use freshet_base::clock::{ClockRef, Deadline};
use freshet_base::{ByteSize, Error, ErrorCode, Result, Retry};
use freshet_meta::LABEL_CHARS_MAX;
use freshet_wal::{Room, Wal};

use crate::record::LABEL_HEAD_BYTES;

/// Memory of a load in the delta besides its encoded rows.
const LOAD_OVERHEAD_BYTES: u64 = 64;
/// Bytes of a record with one table besides its rows: the stamp and the longest label a client may
/// give. Log space is reserved in whole blocks, so for nearly all loads this costs nothing.
const STAMP_AND_LABEL_BYTES: usize = 64 + LABEL_HEAD_BYTES + LABEL_CHARS_MAX;

/// The resources that an admitted load holds.
#[derive(Debug)]
pub struct Admitted {
    pub permit: Permit,
    /// Its space in the log.
    pub room: Room,
}

/// Memory that the rows of an open transaction hold until it ends.
#[derive(Debug)]
pub struct HeldMemory {
    /// Reserved from the memory for writes; passed on with the rows.
    pub memory: Permit,
    /// Reserved from the limit on all open transactions together.
    pub share: Permit,
}

impl HeldMemory {
    pub fn merge(&mut self, other: Self) {
        let agree = |held: &Self| held.memory.bytes() == held.share.bytes();
        assert!(agree(self) && agree(&other), "a transaction's share is of the memory it holds");
        self.memory.merge(other.memory);
        self.share.merge(other.share);
    }

    /// Gives back what is above `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        self.memory.shrink_to(bytes);
        self.share.shrink_to(bytes);
    }
}

/// How long a load waits for memory and log space: at most `load_patience` per wait, unless its
/// rows are already in files and it has a deadline of its own.
#[derive(Clone, Copy, Debug)]
pub enum WaitLimit {
    /// A duration from the start of each wait; the clock is read only when a wait begins.
    For(Duration),
    /// A deadline for all waits together.
    Until(Deadline),
}

impl WaitLimit {
    /// The deadline for resources that other loads release soon.
    pub(crate) fn soon(self, admission: &Admission) -> Deadline {
        let (clock, most) = (&*admission.clock, admission.patience);
        match self {
            Self::For(time) => Deadline::after(clock, most.min(time)),
            Self::Until(deadline) => Deadline::after(clock, most).min(deadline),
        }
    }

    /// The deadline of a load that has already written its files, which would be wasted if it
    /// failed.
    pub(crate) fn late(self, admission: &Admission) -> Deadline {
        match self {
            Self::For(_) => self.soon(admission),
            Self::Until(deadline) => deadline,
        }
    }
}

/// Grants loads memory and log space.
pub struct Admission {
    memory: Budget,
    transactions: Budget,
    wal: Arc<Wal>,
    clock: ClockRef,
    /// Maximum duration of one wait.
    patience: Duration,
    /// Writes that the log has had no room for in time, since the start.
    log_refusals: AtomicU64,
    /// Writes that have waited for look-ups of keys, since the start.
    key_waits: AtomicU64,
}

impl Admitted {
    /// Whether it is enough for a load of `payload_bytes`.
    pub(crate) fn is_for(&self, payload_bytes: usize) -> bool {
        let (memory, record) = (memory_of(payload_bytes), record_of(payload_bytes));
        self.permit.bytes() >= memory && self.room.charge_bytes() >= record as u64
    }
}

/// The memory of a load of `payload_bytes` encoded bytes.
fn memory_of(payload_bytes: usize) -> u64 {
    payload_bytes as u64 + LOAD_OVERHEAD_BYTES
}

/// The bytes of its record, at most.
fn record_of(payload_bytes: usize) -> usize {
    payload_bytes + STAMP_AND_LABEL_BYTES
}

impl Admission {
    /// `memory` limits all writes, `transactions` the part of it that open transactions may hold.
    pub fn new(
        (memory, transactions): (Budget, Budget),
        wal: Arc<Wal>,
        clock: ClockRef,
        patience: Duration,
    ) -> Self {
        let (log_refusals, key_waits) = Default::default();
        Self { memory, transactions, wal, clock, patience, log_refusals, key_waits }
    }

    /// The memory for all writes.
    pub fn memory(&self) -> &Budget {
        &self.memory
    }

    /// How many writes the log has had no room for in time, since the start.
    pub fn log_refusals(&self) -> u64 {
        self.log_refusals.load(Ordering::Relaxed)
    }

    /// How many writes have waited for look-ups of keys, since the start.
    pub fn key_waits(&self) -> u64 {
        self.key_waits.load(Ordering::Relaxed)
    }

    pub(crate) fn note_key_wait(&self) {
        self.key_waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Admits a load of `payload_bytes` encoded bytes; `brought` is memory already reserved for its
    /// rows. It waits only if memory or log space is short, and reads the clock only then.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable), with what is full.
    pub async fn admit(
        &self,
        payload_bytes: usize,
        brought: Option<Permit>,
        patience: WaitLimit,
    ) -> Result<Admitted> {
        let mut deadline = None;
        let mut until = || *deadline.get_or_insert_with(|| patience.soon(self));
        let bytes = memory_of(payload_bytes);
        let permit = match brought {
            Some(mut permit) => {
                permit.resize_over(bytes);
                permit
            }
            None => match self.memory.try_acquire(bytes) {
                Some(permit) => permit,
                None => self.memory_until(bytes, until()).await?,
            },
        };
        let record_bytes = record_of(payload_bytes);
        let room = match self.wal.try_reserve(record_bytes) {
            Some(room) => room,
            None => self.room_until(record_bytes, until()).await?,
        };
        let admitted = Admitted { permit, room };
        assert!(admitted.is_for(payload_bytes), "what is let in has memory and log space");
        Ok(admitted)
    }

    /// Admits a load of `payload_bytes` encoded bytes if it need not wait.
    pub fn try_admit(&self, payload_bytes: usize) -> Option<Admitted> {
        let permit = self.memory.try_acquire(memory_of(payload_bytes))?;
        let room = self.wal.try_reserve(record_of(payload_bytes))?;
        Some(Admitted { permit, room })
    }

    /// Reserves log space for a record of `record_bytes`, waiting until `deadline`.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable).
    pub async fn room_until(&self, record_bytes: usize, deadline: Deadline) -> Result<Room> {
        let room = self.wal.reserve(record_bytes, &*self.clock, deadline).await;
        room.map_err(|why| self.log_full(why))
    }

    /// Like [`Self::room_until`], for a statement that waits as long as a load.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable).
    pub async fn room_soon(&self, record_bytes: usize) -> Result<Room> {
        self.room_until(record_bytes, Deadline::after(&*self.clock, self.patience)).await
    }

    /// Reserves memory for writes, waiting until `deadline`.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable).
    pub async fn memory_until(&self, bytes: u64, deadline: Deadline) -> Result<Permit> {
        let limit = ByteSize(self.memory.limit_bytes());
        match self.memory.acquire(bytes, &*self.clock, deadline).await {
            Ok(permit) => Ok(permit),
            Err(NoRoom::Never) => Err(Error::new(
                ErrorCode::OutOfRoom,
                format!(
                    "the statement needs {} of memory for writes, all there is is {limit}; \
                     send it in smaller parts or raise write_memory",
                    ByteSize(bytes)
                ),
            )),
            Err(NoRoom::TimedOut) => Err(Error::new(
                ErrorCode::OutOfRoom,
                format!(
                    "memory for writes is full ({} of {limit}, {} loads waiting); flushes are \
                     running, retry in a moment",
                    ByteSize(self.memory.used_bytes()),
                    self.memory.waiting()
                ),
            )
            .with_retry(Retry::After(Duration::from_millis(400)))),
        }
    }

    /// Reserves memory for rows of an open transaction, waiting until `deadline`. A client may be
    /// idle for minutes within a transaction, so all transactions together leave part of the memory
    /// to other writes.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable).
    pub async fn hold(&self, bytes: u64, deadline: Deadline) -> Result<HeldMemory> {
        let limit = ByteSize(self.transactions.limit_bytes());
        let share = self.transactions.acquire(bytes, &*self.clock, deadline).await;
        let share = share.map_err(|_| {
            Error::new(
                ErrorCode::OutOfRoom,
                format!(
                    "open transactions hold {} of the {limit} that they may all together, and {} \
                     more are wanted; COMMIT smaller ones, retry when others have ended, or raise \
                     transactions_memory",
                    ByteSize(self.transactions.used_bytes()),
                    ByteSize(bytes)
                ),
            )
            .with_retry(Retry::After(Duration::from_secs(1)))
        })?;
        let memory = self.memory_until(bytes, deadline).await?;
        let agree = memory.bytes() == share.bytes();
        assert!(agree, "a transaction's share is of the memory it holds");
        Ok(HeldMemory { memory, share })
    }

    fn log_full(&self, why: NoRoom) -> Error {
        self.log_refusals.fetch_add(1, Ordering::Relaxed);
        let stats = self.wal.stats();
        let (free, live) = (ByteSize(stats.free_bytes), ByteSize(stats.live_bytes));
        match why {
            NoRoom::Never => Error::new(
                ErrorCode::OutOfRoom,
                "the load is larger than a record of the log may be; send it in smaller parts",
            ),
            NoRoom::TimedOut => Error::new(
                ErrorCode::OutOfRoom,
                format!(
                    "the log has no room ({free} free, {live} not yet in files, {} loads \
                     waiting); if a disk is full free some space, then retry",
                    stats.room_waiters
                ),
            )
            .with_retry(Retry::After(Duration::from_secs(1))),
        }
    }
}
