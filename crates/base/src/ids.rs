//! Identifiers: no bare `u64` crosses a function.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The value that stands before every other.
            pub const ZERO: Self = Self(0);

            /// The number inside.
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

id!(
    /// A database.
    DbId(u64)
);
id!(
    /// A table; never used again after a drop.
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
id!(
    /// A user account.
    UserId(u64)
);
id!(
    /// The files of one LSN range of one tablet.
    RowsetId(u64)
);
id!(
    /// The place of a segment in its rowset, given at submit.
    SegmentId(u32)
);
id!(
    /// A column; survives renames, so rows of older schema versions still find their column.
    ColumnId(u32)
);
id!(
    /// A version of a table's columns, rising by one with every ALTER.
    SchemaVersion(u32)
);
id!(
    /// Raised by TRUNCATE: rows of an older incarnation are never seen again.
    Incarnation(u32)
);
id!(
    /// A transaction, as `txnId` in replies.
    TxnId(u64)
);
id!(
    /// A table's count of ended groups, as users see it in SHOW PARTITIONS.
    Version(u64)
);
id!(
    /// A place in the log; 0 is before the first record.
    Lsn(u64)
);
id!(
    /// A term of the log: one start of a server on a store. 0 is before the first.
    Term(u64)
);
id!(
    /// The number of a batch in its log, rising by one; 0 is before the first.
    BatchIndex(u64)
);
id!(
    /// A client connection, as SHOW PROCESSLIST and KILL name it.
    ConnectionId(u32)
);

/// The end of a batch: what the next one names as standing before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LogPosition {
    /// Its last record.
    pub lsn: Lsn,
    /// Its number.
    pub index: BatchIndex,
    /// The term that wrote it.
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
