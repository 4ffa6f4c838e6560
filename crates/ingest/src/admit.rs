//! Admission: where loads wait for memory and for room in the log.
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

/// What rows of a transaction hold until it ends.
#[derive(Debug)]
pub struct Held {
    /// Their memory, which goes with them.
    pub memory: Permit,
    /// Their part of what all open transactions may hold.
    pub share: Permit,
}

impl Held {
    pub fn merge(&mut self, other: Self) {
        let agree = |held: &Self| held.memory.bytes() == held.share.bytes();
        assert!(agree(self) && agree(&other), "a transaction's share is of the memory it holds");
        self.memory.merge(other.memory);
        self.share.merge(other.share);
    }
}

/// How long a load waits for memory and log room: at most `load_patience` at a time, unless its
/// rows are in files already and it has a deadline of its own.
#[derive(Clone, Copy, Debug)]
pub enum WaitLimit {
    /// So long, from when it begins to wait: the clock is asked only then.
    For(Duration),
    /// Until then, all in all.
    Until(Deadline),
}

impl WaitLimit {
    /// Until when to wait for what others give back soon.
    pub(crate) fn soon(self, admission: &Admission) -> Deadline {
        let (clock, most) = (&*admission.clock, admission.patience);
        match self {
            Self::For(time) => Deadline::after(clock, most.min(time)),
            Self::Until(deadline) => Deadline::after(clock, most).min(deadline),
        }
    }

    /// Until when a load waits that has written its files: those would be for nothing.
    pub(crate) fn late(self, admission: &Admission) -> Deadline {
        match self {
            Self::For(_) => self.soon(admission),
            Self::Until(deadline) => deadline,
        }
    }
}

/// Lets loads in.
pub struct Admission {
    memory: Budget,
    transactions: Budget,
    wal: Arc<Wal>,
    clock: ClockRef,
    /// How long a load waits at a time.
    patience: Duration,
}

impl Admission {
    /// Lets in what fits `memory` and the room of `wal`; open transactions hold at most the part
    /// of it that `transactions` counts.
    pub fn new(
        (memory, transactions): (Budget, Budget),
        wal: Arc<Wal>,
        clock: ClockRef,
        patience: Duration,
    ) -> Self {
        Self { memory, transactions, wal, clock, patience }
    }

    /// The memory of all writes.
    pub fn memory(&self) -> &Budget {
        &self.memory
    }

    /// Lets a load of so many encoded bytes in, with the memory that its rows may have brought.
    /// Nearly always there is room for both; else it waits, and only then asks until when.
    ///
    /// # Errors
    /// `OutOfRoom` (1041, retryable) saying what is full.
    pub async fn admit(
        &self,
        payload_bytes: usize,
        brought: Option<Permit>,
        patience: WaitLimit,
    ) -> Result<Admitted> {
        let mut deadline = None;
        let mut until = || *deadline.get_or_insert_with(|| patience.soon(self));
        let bytes = payload_bytes as u64 + LOAD_OVERHEAD_BYTES;
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
        let record_bytes = payload_bytes + STAMP_AND_LABEL_BYTES;
        let room = match self.wal.try_reserve(record_bytes) {
            Some(room) => room,
            None => self.room_until(record_bytes, until()).await?,
        };
        assert!(permit.bytes() >= bytes, "what is let in has the memory of its rows");
        assert!(room.charge_bytes() >= record_bytes as u64, "and the room of its record");
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
