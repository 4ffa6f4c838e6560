//! Identifier types, so that a table id cannot be passed for a tablet id.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// Less than every id that was given out.
            pub const ZERO: Self = Self(0);

            pub const fn get(self) -> $inner {
                self.0
            }

            /// The id after this one.
            ///
            /// # Panics
            /// When the numbers are used up, which no real store reaches.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

id!(DbId(u64));
id!(
    /// A table; not reused after a drop.
    TableId(u64)
);
id!(
    /// A partition of a table; a table without partitions has exactly one.
    PartitionId(u64)
);
id!(
    /// A bucket of a partition, the unit that files belong to.
    TabletId(u64)
);
id!(UserId(u64));
id!(
    /// A rowset: the files of one LSN range of one tablet.
    RowsetId(u64)
);
id!(
    /// The number of a segment within its rowset.
    SegmentId(u32)
);
id!(
    /// A column; it survives renames, so rows of older schema versions still find their column.
    ColumnId(u32)
);
id!(
    /// A version of a table's columns; ALTER increments it.
    SchemaVersion(u32)
);
id!(
    /// Incremented by TRUNCATE: rows of an older incarnation are invisible.
    Incarnation(u32)
);
id!(
    /// A transaction; `txnId` in replies.
    TxnId(u64)
);
id!(
    /// The number of groups committed to a table, as SHOW PARTITIONS shows it.
    Version(u64)
);
id!(
    /// A log sequence number: the position of a record in the log; 0 is before the first record.
    Lsn(u64)
);
id!(
    /// A term of the log: one start of a server on a store; 0 is before the first.
    Term(u64)
);
id!(
    /// The number of a batch in its log, increasing by one; 0 is before the first.
    BatchIndex(u64)
);
id!(
    /// A client connection; the id in SHOW PROCESSLIST and KILL.
    ConnectionId(u32)
);

/// The end of a batch, which the next batch's header repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogPosition {
    /// The last record of the batch.
    pub lsn: Lsn,
    pub index: BatchIndex,
    /// The term in which it was written.
    pub term: Term,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_order_and_print_as_numbers() {
        assert!(Lsn(9) < Lsn(10));
        assert_eq!(Lsn(9).next(), Lsn(10));
        assert_eq!(TableId(7).to_string(), "7");
        assert_eq!(format!("{:?}", TabletId(7)), "TabletId(7)");
    }
}
