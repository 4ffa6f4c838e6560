//! The sizes and times of an engine. The binary fills them from its configuration.

use std::path::PathBuf;
use std::time::Duration;

use freshet_base::ByteSize;
use freshet_meta::LabelLimits;

/// The sizes and times of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Metadata and segments stand here.
    pub data_dir: PathBuf,
    /// Log files stand here; each new one where most room is.
    pub wal_dirs: Vec<PathBuf>,
    /// Bytes of one log file.
    pub wal_file_bytes: ByteSize,
    /// Bytes of all log files; also bounds recovery.
    pub wal_bytes_max: ByteSize,
    /// Loads with more bytes of rows go to files of their own, and their record names these.
    pub wal_load_bytes_max: ByteSize,
    /// Memory of all writes: decode, transactions, deltas, flush, replay.
    pub write_memory_bytes: ByteSize,
    /// Memory of rows that are in files and that only open snapshots keep.
    pub snapshot_memory_bytes: ByteSize,
    /// Memory of footers of segments.
    pub footer_memory_bytes: ByteSize,
    /// A table's delta goes to files at this size.
    pub flush_bytes: ByteSize,
    /// A table with less than this goes to the side file instead.
    pub flush_bytes_min: ByteSize,
    /// A segment is cut at this size in memory.
    pub segment_bytes_max: ByteSize,
    /// Encoded rows of a large load that gather before they are sorted and written.
    pub stretch_bytes: ByteSize,
    /// Rows of so many bytes, as they were encoded, are sorted and written at once. A delta that
    /// has grown larger becomes several rowsets: a flush takes about twice as much memory besides.
    pub sorted_bytes_max: ByteSize,
    /// Most encoded bytes of one transaction.
    pub transaction_bytes_max: ByteSize,
    /// Most encoded bytes of all open transactions: the rest of the memory of writes is left to
    /// loads that end.
    pub transactions_memory_bytes: ByteSize,
    /// How long a load waits for memory and log room.
    pub load_patience: Duration,
    /// Whether rowsets are merged in the background.
    pub compaction: bool,
    /// How long a file that nothing names is kept.
    pub orphan_grace: Duration,
    /// How long and how many labels are remembered.
    pub labels: LabelLimits,
}

impl EngineConfig {
    /// The defaults for a store in `data_dir`, with so much memory for writes.
    pub fn new(data_dir: impl Into<PathBuf>, write_memory_bytes: ByteSize) -> Self {
        let data_dir = data_dir.into();
        Self {
            wal_dirs: vec![data_dir.join("wal")],
            data_dir,
            wal_file_bytes: ByteSize::mib(64),
            wal_bytes_max: ByteSize::gib(4),
            wal_load_bytes_max: ByteSize::mib(16),
            write_memory_bytes,
            snapshot_memory_bytes: ByteSize(write_memory_bytes.bytes() / 4),
            footer_memory_bytes: ByteSize(write_memory_bytes.bytes() / 16),
            flush_bytes: ByteSize::mib(64),
            flush_bytes_min: ByteSize::mib(1),
            segment_bytes_max: ByteSize::mib(256),
            stretch_bytes: ByteSize::mib(32),
            sorted_bytes_max: ByteSize::mib(256),
            transaction_bytes_max: ByteSize(write_memory_bytes.bytes() / 4),
            transactions_memory_bytes: ByteSize(write_memory_bytes.bytes() / 2),
            load_patience: Duration::from_secs(30),
            compaction: true,
            orphan_grace: Duration::from_secs(600),
            labels: LabelLimits::default(),
        }
    }
}
