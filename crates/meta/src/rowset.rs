//! What metadata knows of files.

use freshet_base::{Lsn, RowsetId, SchemaVersion, SegmentId, TabletId};
use serde::{Deserialize, Serialize};

/// One file of a rowset.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SegmentMeta {
    /// Its place in the rowset.
    pub id: SegmentId,
    /// Its name under the tablet's directory.
    pub file: String,
    /// Its rows.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// Where its footer part begins; what stands before is checked by checksums in the footer.
    pub data_bytes: u64,
    /// CRC-32C of the footer part, from `data_bytes` to the end.
    pub footer_checksum: u32,
}

/// Where the sort key of rows lies, as normalised 8-byte prefixes, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeyRange {
    /// Of the least row.
    pub min: u64,
    /// Of the greatest row.
    pub max: u64,
}

/// The files of one LSN range of one tablet. Once published it never changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RowsetMeta {
    /// Never used again.
    pub id: RowsetId,
    /// Whose rows they are.
    pub tablet: TabletId,
    /// The first LSN whose rows may be in it.
    pub lsn_first: Lsn,
    /// The last LSN whose rows may be in it.
    pub lsn_last: Lsn,
    /// The one schema version it was written in.
    pub schema_version: SchemaVersion,
    /// Its files, in order of their ids.
    pub segments: Vec<SegmentMeta>,
    /// Rows of all segments.
    pub rows: u64,
    /// Where the sort key lies, if known.
    pub keys: Option<KeyRange>,
}

impl RowsetMeta {
    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Checks what every rowset must hold, before metadata takes it.
    ///
    /// # Panics
    /// When the range is empty, or counts and segment ids do not agree.
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
