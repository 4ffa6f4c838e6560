//! A file of a rowset: plain Parquet that any tool can read, optimized for short scans and point
//! reads, with our own checksums over every byte.

mod blocks;
mod bounds;
pub(crate) mod checksum;
mod dictionary;
mod footers;
mod index;
pub mod key_part;
mod reader;
mod source;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use footers::WaitMode;
pub use index::{ColumnBounds, ColumnRange, Containers, Prune};
pub use key_part::ValueRange;
pub use reader::{Probe, Pruned, Scan, ScanRequest, Segment, Share, at_once};
pub use store::{FileStore, SegmentAccess, SegmentStore};
pub use writer::{SegmentSpec, SegmentWriter, Tier, Unsynced};

/// Keys in the file's key-value metadata.
mod keys {
    /// The version of this layout.
    pub const FORMAT: &str = "freshet.format";
    pub const TABLE: &str = "freshet.table";
    pub const TABLET: &str = "freshet.tablet";
    /// First and last LSN, separated by a dash.
    pub const LSNS: &str = "freshet.lsns";
    /// The schema version of the rows.
    pub const SCHEMA_VERSION: &str = "freshet.schema_version";
    /// CRC-32C of each block of the data, 8 hex digits each.
    pub const BLOCKS: &str = "freshet.crc32c_64k";
}

/// The current value of [`keys::FORMAT`]. Newer versions are rejected.
const FORMAT_VERSION: u32 = 1;
