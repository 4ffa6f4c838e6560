//! One file of a rowset: plain Parquet that any tool can read, tuned for short scans and point
//! reads, with checksums of our own over every byte.

mod bounds;
mod checksum;
mod dictionary;
mod footers;
mod index;
mod reader;
mod source;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use index::{ColumnBounds, ColumnRange, Containers, Prune};
pub use reader::{Pruned, Scan, ScanRequest, Segment, Share};
pub use store::{FileStore, SegmentAccess, SegmentStore};
pub use writer::{SegmentSpec, SegmentWriter, Tier, Unsynced};

/// Keys of the file's key-value metadata.
mod keys {
    /// The version of this layout.
    pub const FORMAT: &str = "freshet.format";
    /// Table id.
    pub const TABLE: &str = "freshet.table";
    /// Tablet id.
    pub const TABLET: &str = "freshet.tablet";
    /// First and last LSN, with a dash between.
    pub const LSNS: &str = "freshet.lsns";
    /// The schema version the rows were written in.
    pub const SCHEMA_VERSION: &str = "freshet.schema_version";
    /// CRC-32C of each block of the data, 8 hex digits each.
    pub const BLOCKS: &str = "freshet.crc32c_64k";
}

/// What [`keys::FORMAT`] says today. A newer one is refused.
const FORMAT_VERSION: u32 = 1;
