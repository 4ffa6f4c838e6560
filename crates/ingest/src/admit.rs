//! Admission: the only place that waits.
//!
//! A load that is let in holds the memory that its rows will take in the delta and the room
//! that its record will take in the log, so that nothing behind this point can run out.

use std::sync::Arc;
use std::time::Duration;

use freshet_base::budget::{Budget, NoRoom, Permit};
use freshet_base::clock::{ClockRef, Deadline};
use freshet_base::{ByteSize, Error, ErrorCode, Result, Retry};
use freshet_meta::LABEL_CHARS_MAX;
use freshet_wal::{Room, Wal};

use crate::record::LABEL_HEAD_BYTES;
use crate::transaction::Held;

/// What a load takes in memory besides its encoded rows: its place in the delta.
const LOAD_OVERHEAD_BYTES: u64 = 64;
/// What a record of one table takes besides its rows: the stamp, and the longest label that a
/// client may give. A room is whole blocks, so this is free for nearly all loads.
const STAMP_AND_LABEL_BYTES: usize = 64 + LABEL_HEAD_BYTES + LABEL_CHARS_MAX;

/// What a load holds once it is let in.
#[derive(Debug)]
pub struct Admitted {
    /// Its memory.
    pub permit: Permit,
    /// Its room in the log.
    pub room: Room,
}

/// Lets loads in.
pub struct Admission {
    memory: Budget,
    transactions: Budget,
    wal: Arc<Wal>,
    clock: ClockRef,
}

impl Admission {
    /// Lets in what fits `memory` and the room of `wal`; open transactions hold at most the part
    /// of it that `transactions` counts.
    pub fn new(memory: Budget, transactions: Budget, wal: Arc<Wal>, clock: ClockRef) -> Self {
        Self { memory, transactions, wal, clock }
    }

    /// The memory of all writes.
    pub fn memory(&self) -> &Budget {
        &self.memory
    }

    /// Lets a load of so many encoded bytes in at once, or not at all: the road of nearly all.
    pub fn try_admit(&self, payload_bytes: usize) -> Option<Admitted> {
        let permit = self.memory.try_acquire(payload_bytes as u64 + LOAD_OVERHEAD_BYTES)?;
        let room = self.wal.try_reserve(payload_bytes + STAMP_AND_LABEL_BYTES)?;
        Some(Admitted { permit, room })
    }

    /// Lets a load in, waiting until `deadline` for memory and log room.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable) saying what is full.
    pub async fn admit(&self, payload_bytes: usize, deadline: Deadline) -> Result<Admitted> {
        let bytes = payload_bytes as u64 + LOAD_OVERHEAD_BYTES;
        let permit = self.memory_until(bytes, deadline).await?;
        let room = self.room_until(payload_bytes + STAMP_AND_LABEL_BYTES, deadline).await?;
        Ok(Admitted { permit, room })
    }

    /// Lets a load in that has brought its memory; only if it must wait it asks until when.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable).
    pub async fn admit_paid(
        &self,
        payload_bytes: usize,
        mut permit: Permit,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<Admitted> {
        permit.resize_over(payload_bytes as u64 + LOAD_OVERHEAD_BYTES);
        let record_bytes = payload_bytes + STAMP_AND_LABEL_BYTES;
        let room = match self.wal.try_reserve(record_bytes) {
            Some(room) => room,
            None => self.room_until(record_bytes, deadline()).await?,
        };
        Ok(Admitted { permit, room })
    }

    /// Takes log room for a record of so many bytes, waiting until `deadline`.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable).
    pub async fn room_until(&self, record_bytes: usize, deadline: Deadline) -> Result<Room> {
        let room = self.wal.reserve(record_bytes, &*self.clock, deadline).await;
        room.map_err(|why| self.log_full(why))
    }

    /// Takes memory of writes, waiting until `deadline`.
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

    /// Takes memory for rows of an open transaction, waiting until `deadline`. Its client may be
    /// silent for minutes, so all transactions together leave others a part.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable).
    pub async fn hold(&self, bytes: u64, deadline: Deadline) -> Result<Held> {
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
        Ok(Held { memory, share })
    }

    fn log_full(&self, why: NoRoom) -> Error {
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
