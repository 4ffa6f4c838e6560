//! Limits, sizes and durations of an engine. The binary fills them in from its configuration.

use std::path::PathBuf;
use std::time::Duration;

use freshet_base::ByteSize;
use freshet_meta::LabelLimits;

#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The directory of metadata and segments.
    pub data_dir: PathBuf,
    /// Directories of log files; a new file is created where most space is free.
    pub wal_dirs: Vec<PathBuf>,
    pub wal_file_bytes: ByteSize,
    /// Total size of all log files; also bounds recovery time.
    pub wal_bytes_max: ByteSize,
    /// Loads with more bytes of rows are written to files, and their record refers to these.
    pub wal_load_bytes_max: ByteSize,
    /// Memory for all writes: decoding, transactions, deltas, flushes and replay.
    pub write_memory_bytes: ByteSize,
    /// Memory of rows that are already in files and are only kept for open snapshots.
    pub snapshot_memory_bytes: ByteSize,
    /// Memory for cached segment footers.
    pub footer_memory_bytes: ByteSize,
    /// Memory for filters of the keys in segments, and a quarter of it for blocks of keys.
    pub key_memory_bytes: ByteSize,
    /// With more rows than this in memory whose keys are not looked up yet, who writes to their
    /// table without a look waits.
    pub unresolved_rows_max: u64,
    /// The delta of a table is flushed at this size.
    pub flush_bytes: ByteSize,
    /// When the log is recycled, smaller deltas go to the side file instead of files of their own.
    pub flush_bytes_min: ByteSize,
    /// Maximum size of a segment, measured in memory.
    pub segment_bytes_max: ByteSize,
    /// Encoded rows of a large load are sorted and written whenever this many bytes have
    /// accumulated.
    pub stretch_bytes: ByteSize,
    /// Maximum encoded bytes that are sorted and written at once. A larger delta becomes several
    /// rowsets. A flush needs about twice this much memory in addition.
    pub sorted_bytes_max: ByteSize,
    /// Maximum encoded bytes of one transaction.
    pub transaction_bytes_max: ByteSize,
    /// Maximum bytes of the files of one transaction, with what was taken back of it.
    pub transaction_file_bytes_max: ByteSize,
    /// Maximum encoded bytes of all open transactions together. The remaining memory for writes is
    /// reserved for loads outside of transactions.
    pub transactions_memory_bytes: ByteSize,
    /// How long a load waits for memory, for log space, and for look-ups of earlier keys.
    pub load_patience: Duration,
    pub compaction: bool,
    /// How long an unreferenced file is kept.
    pub orphan_grace: Duration,
    /// How long and how many labels are kept.
    pub labels: LabelLimits,
    /// How long dropped tables can be recovered; 0 drops them at once.
    pub recycle_bin_keep: Duration,
    /// How long a row that deletes its key is kept in a table with a sequence column, at least; 0
    /// keeps it for ever.
    pub deleted_rows_keep: Duration,
    /// Whether such rows are forgotten in the background; else [`crate::Engine::forget_some`] does
    /// it.
    pub forgets_by_itself: bool,
}

impl EngineConfig {
    /// The part of the log that is kept back for records that free room.
    pub(crate) fn wal_kept_bytes(&self) -> u64 {
        self.wal_file_bytes.bytes() / 4
    }

    /// The defaults for a store in `data_dir` with this much memory for writes.
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
            key_memory_bytes: ByteSize(write_memory_bytes.bytes() / 16),
            unresolved_rows_max: 256 << 10,
            flush_bytes: ByteSize::mib(64),
            flush_bytes_min: ByteSize::mib(1),
            segment_bytes_max: ByteSize::mib(256),
            stretch_bytes: ByteSize::mib(32),
            sorted_bytes_max: ByteSize::mib(256),
            transaction_bytes_max: ByteSize(write_memory_bytes.bytes() / 4),
            transaction_file_bytes_max: ByteSize::gib(64),
            transactions_memory_bytes: ByteSize(write_memory_bytes.bytes() / 2),
            load_patience: Duration::from_secs(30),
            compaction: true,
            orphan_grace: Duration::from_secs(600),
            labels: LabelLimits::default(),
            recycle_bin_keep: Duration::ZERO,
            deleted_rows_keep: Duration::from_secs(86_400),
            forgets_by_itself: true,
        }
    }
}
