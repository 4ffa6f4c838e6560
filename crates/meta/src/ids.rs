//! Ids from blocks that are reserved ahead: never assigned twice, not even after a crash.
//!
//! The ends of the blocks are in the fold. Blocks only count, below ends that are durable.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdKind {
    Database,
    Table,
    Partition,
    Tablet,
    Rowset,
    Txn,
}

impl IdKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Database, Self::Table, Self::Partition, Self::Tablet, Self::Rowset, Self::Txn];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Database => "db",
            Self::Table => "table",
            Self::Partition => "partition",
            Self::Tablet => "tablet",
            Self::Rowset => "rowset",
            Self::Txn => "txn",
        }
    }

    /// The number of ids reserved at once. A crash skips the unused ones, so blocks of ids that
    /// users see are small; that of transactions is large enough for seconds of loads.
    const fn block(self) -> u64 {
        match self {
            Self::Database | Self::Table | Self::Partition => 100,
            Self::Tablet => 1_000,
            Self::Rowset => 10_000,
            Self::Txn => 1_000_000,
        }
    }
}

/// Ids of each kind below these may have been assigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdEnds([u64; 6]);

impl Default for IdEnds {
    /// Nothing is reserved, and ids begin with 1.
    fn default() -> Self {
        Self([1; 6])
    }
}

impl IdEnds {
    pub fn of(self, kind: IdKind) -> u64 {
        self.0[kind as usize]
    }

    pub(crate) fn with(mut self, kind: IdKind, end: u64) -> Self {
        self.0[kind as usize] = end;
        self
    }

    /// The higher end of each kind.
    pub(crate) fn max(self, other: Self) -> Self {
        IdKind::ALL
            .into_iter()
            .fold(self, |ends, kind| ends.with(kind, ends.of(kind).max(other.of(kind))))
    }

    /// The ends this many blocks further on.
    pub(crate) fn further(self, blocks: u64) -> Self {
        IdKind::ALL
            .into_iter()
            .fold(self, |ends, kind| ends.with(kind, ends.of(kind) + kind.block() * blocks))
    }
}

/// The reserved ids of one kind.
#[derive(Debug)]
pub(crate) struct IdBlock {
    kind: IdKind,
    next: AtomicU64,
    /// Ids below this are reserved, which is durable.
    end: AtomicU64,
    /// Held while the next block is reserved at once, so that several callers that need it make
    /// one commit.
    pub reserving: Mutex<()>,
}

impl IdBlock {
    /// The next id; it may be used only if it is reserved. This is a single atomic addition.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub fn is_reserved(&self, id: u64) -> bool {
        id < self.end.load(Ordering::Acquire)
    }

    /// The end of a block that begins with `id`.
    pub fn end_from(&self, id: u64) -> u64 {
        id + self.kind.block()
    }

    /// Where the next block ends, once more than half of the last one is used.
    fn refilled(&self) -> Option<u64> {
        let end = self.end.load(Ordering::Acquire);
        let left = end.saturating_sub(self.next.load(Ordering::Relaxed));
        (left < self.kind.block() / 2).then(|| self.end_from(end))
    }
}

/// The reserved ids of all kinds.
#[derive(Debug)]
pub(crate) struct IdBlocks([IdBlock; 6]);

impl IdBlocks {
    /// Assigns ids from `from` on, which are reserved up to `to`.
    pub fn new(from: IdEnds, to: IdEnds) -> Self {
        Self(IdKind::ALL.map(|kind| IdBlock {
            kind,
            next: AtomicU64::new(from.of(kind)),
            end: AtomicU64::new(to.of(kind)),
            reserving: Mutex::default(),
        }))
    }

    pub fn of(&self, kind: IdKind) -> &IdBlock {
        &self.0[kind as usize]
    }

    /// Notes that ids up to `ends` are reserved, which is durable.
    pub fn raise(&self, ends: IdEnds) {
        for block in &self.0 {
            block.end.fetch_max(ends.of(block.kind), Ordering::Release);
        }
    }

    /// The ends of the next blocks of all kinds that need one, if any does.
    pub fn refilled(&self) -> Option<IdEnds> {
        let mut ends: Option<IdEnds> = None;
        for block in &self.0 {
            if let Some(end) = block.refilled() {
                ends = Some(ends.unwrap_or_default().with(block.kind, end));
            }
        }
        ends
    }
}
