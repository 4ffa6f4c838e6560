//! The rows of a delta as their records brought them.

use bytes::Bytes;
use freshet_base::{Lsn, TxnId};

/// The rows of one load, or of one transaction in one table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub lsn: Lsn,
    pub txn: TxnId,
    /// The number of rows of the chunk up to and including this entry.
    pub rows_end: u32,
    /// How many of its rows, the first ones, only remove their key.
    pub removals: u32,
    /// Index of the schema in the chunk that it was encoded under.
    pub schema: u16,
    /// Whether the record ends its own commit group.
    pub ends_group: bool,
    pub place: Place,
}

/// The position of an entry's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// In the arena, from the end of the previous entry in the arena.
    Arena { end: u32 },
    /// In pieces shared with the log, from the first one to the one before `end`.
    Shared { first: u32, end: u32 },
}

/// Encoded rows, before conversion to columns.
#[derive(Clone, Default)]
pub(super) struct EncodedRows {
    pub arena: Vec<u8>,
    pub shared: Vec<Bytes>,
}

impl EncodedRows {
    /// The pieces of an entry at [`Place::Shared`], each with whole rows.
    pub fn pieces(&self, first: u32, end: u32) -> &[Bytes] {
        &self.shared[first as usize..end as usize]
    }
}
