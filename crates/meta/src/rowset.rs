//! Metadata of rowsets and segments.

use freshet_base::{Lsn, RowsetId, SchemaVersion, SegmentId, TabletId};

/// A file of a rowset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentMeta {
    /// Its position in the rowset.
    pub id: SegmentId,
    /// Its name in the tablet's directory.
    pub file: String,
    pub rows: u64,
    /// The length of the file.
    pub bytes: u64,
    /// Where its data ends; it is verified by checksums in the footer.
    pub data_bytes: u64,
    /// Where its keys are, behind the data, if they can be looked up.
    pub key_part: Option<KeyPartMeta>,
    /// CRC-32C of the footer, which follows the data and the keys.
    pub footer_checksum: u32,
    /// The bounds of its sort keys.
    pub keys: KeyRange,
    /// Whether its rows only remove their keys, in the files of a large load (keys.md K24).
    pub removes: bool,
}

/// Where the keys of a segment are in its file (RFC 0011).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPartMeta {
    /// Where the part begins.
    pub start: u64,
    /// Its length, of which the last `directory_bytes` are the directory.
    pub bytes: u64,
    pub directory_bytes: u32,
    /// CRC-32C of the directory.
    pub directory_checksum: u32,
}

impl SegmentMeta {
    /// Where its footer begins.
    pub fn footer_start(&self) -> u64 {
        self.key_part.map_or(self.data_bytes, |part| part.start + part.bytes)
    }
}

/// Inclusive bounds of the sort key, as normalized 8-byte prefixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRange {
    /// The prefix of the smallest key.
    pub min: u64,
    /// The prefix of the greatest key.
    pub max: u64,
}

/// A file with the rows of a table's segments that died in a range of LSNs (RFC 0011).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarkFileMeta {
    /// Its number, from the ids of rowsets; never reused.
    pub number: RowsetId,
    /// The LSNs at which its rows died: above the first, up to the last.
    pub lsns: (Lsn, Lsn),
    /// The length of the file.
    pub bytes: u64,
    /// CRC-32C of its head, which has the checksums of the sections.
    pub head_checksum: u32,
    /// The number of marks.
    pub marks: u64,
}

/// The files with the rows of one LSN range in one tablet. Immutable once published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowsetMeta {
    /// Never reused.
    pub id: RowsetId,
    pub tablet: TabletId,
    /// The first LSN whose rows it may contain.
    pub lsn_first: Lsn,
    /// The last LSN whose rows it may contain.
    pub lsn_last: Lsn,
    /// The schema version of all its files.
    pub schema_version: SchemaVersion,
    /// Its files, ordered by id.
    pub segments: Vec<SegmentMeta>,
    /// Number of rows in all segments.
    pub rows: u64,
}

impl KeyRange {
    /// The bounds of what both ranges cover.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl RowsetMeta {
    /// Size of all segments.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Checks the invariants of a rowset before it is added to metadata.
    ///
    /// # Panics
    /// When the LSN range is empty, or row counts or segment ids are inconsistent.
    pub fn check(&self) {
        assert!(self.lsn_first <= self.lsn_last, "a rowset covers at least one LSN: {self:?}");
        let rows = self.segments.iter().map(|segment| segment.rows).sum::<u64>();
        assert_eq!(rows, self.rows, "a rowset has the rows of its segments");
        assert!(
            self.segments.windows(2).all(|pair| pair[0].id < pair[1].id),
            "segment ids of a rowset rise: {self:?}"
        );
    }
}
