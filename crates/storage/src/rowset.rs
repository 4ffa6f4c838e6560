//! The files of one LSN range of one tablet.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat;
use freshet_base::{ColumnId, Lsn};
use freshet_meta::{RowsetMeta, SegmentMeta};
use freshet_schema::TableSchema;
use freshet_schema::key::{KeyBounds, leading_column};

use crate::error::Result;
use crate::segment::{
    ColumnBounds, ColumnRange, Containers, Prune, Scan, ScanRequest, Segment, SegmentAccess, Share,
};

/// The files of one LSN range of one tablet; immutable.
pub struct Rowset {
    meta: RowsetMeta,
    schema: Arc<TableSchema>,
    access: Arc<SegmentAccess>,
    segments: Vec<Arc<Segment>>,
}

/// A share of a segment, scanned by one thread.
#[derive(Clone)]
pub struct Slice {
    pub rowset: Arc<Rowset>,
    pub segment: Arc<Segment>,
    pub share: Share,
    /// Approximate number of rows; the shares of a segment add up to its rows.
    pub rows: u64,
}

impl Rowset {
    /// A rowset with files in `dir` written in `schema`. Nothing is read yet.
    ///
    /// # Panics
    /// When the version of `schema` is not that in `meta`.
    pub fn new(
        access: &Arc<SegmentAccess>,
        dir: &Path,
        meta: RowsetMeta,
        schema: &Arc<TableSchema>,
    ) -> Self {
        meta.check();
        assert_eq!(schema.version, meta.schema_version, "a rowset names its schema version");
        let segment = |segment: &freshet_meta::SegmentMeta| {
            let path = dir.join(&segment.file);
            Arc::new(Segment::new(access, path, segment.clone(), Arc::clone(schema)))
        };
        let segments = meta.segments.iter().map(segment).collect();
        Self { meta, schema: Arc::clone(schema), access: Arc::clone(access), segments }
    }

    /// The rowset's metadata.
    pub fn meta(&self) -> &RowsetMeta {
        &self.meta
    }

    /// The first and last LSN whose rows may be in it.
    pub fn lsns(&self) -> (Lsn, Lsn) {
        (self.meta.lsn_first, self.meta.lsn_last)
    }

    /// The columns it was written in.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Its files, ordered by id.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// The access through which its files are read.
    pub fn access(&self) -> &Arc<SegmentAccess> {
        &self.access
    }

    pub fn rows(&self) -> u64 {
        self.meta.rows
    }

    /// Total size of its files.
    pub fn bytes(&self) -> u64 {
        self.meta.bytes()
    }

    /// Reads the whole rowset segment by segment; each is sorted.
    pub fn scan(&self, request: ScanRequest) -> RowsetScan {
        RowsetScan { segments: self.segments.clone().into_iter(), request, scan: None }
    }

    /// Its segments as slices.
    pub fn slices(self: &Arc<Self>) -> impl Iterator<Item = Slice> {
        self.segments.iter().map(|segment| Slice {
            rowset: Arc::clone(self),
            segment: Arc::clone(segment),
            share: Share::WHOLE,
            rows: segment.meta().rows,
        })
    }
}

/// The segments of these slices of one table as containers for pruning: bounds of the sort key's
/// leading column, known by metadata.
pub fn key_bounds<'a>(slices: impl Iterator<Item = &'a Slice> + Clone) -> Containers {
    let rows = slices.clone().map(|slice| slice.segment.meta().rows).collect();
    let Some(id) = slices.clone().find_map(|slice| leading_column(slice.rowset.schema())) else {
        return Containers::new(rows, Vec::new());
    };
    let of = |slice: &Slice| {
        let SegmentMeta { keys, rows, .. } = slice.segment.meta();
        KeyBounds::of_words(slice.rowset.schema(), (keys.min, keys.max), *rows)
    };
    let bounds = slices.map(of).collect::<Vec<_>>();
    let all = |end: fn(&KeyBounds) -> &ArrayRef| {
        let ends = bounds.iter().map(|bounds| end(bounds).as_ref()).collect::<Vec<_>>();
        concat(&ends).expect("a column keeps its type for life")
    };
    let null_counts = bounds.iter().map(|bounds| bounds.null_count).collect();
    let bounds = ColumnBounds { min: all(|b| &b.min), max: all(|b| &b.max), null_counts };
    Containers::new(rows, vec![(id, bounds)])
}

/// The bounds of these columns over all segments; `None` where not all footers are cached or
/// contain bounds.
pub fn known_ranges<'a>(
    segments: impl Iterator<Item = &'a Arc<Segment>>,
    columns: &[ColumnId],
) -> Vec<Option<ColumnRange>> {
    let known = segments.map(|segment| segment.known_ranges(columns));
    let joined = known.reduce(|all, next| {
        let pairs = all?.into_iter().zip(next?);
        Some(pairs.map(|(all, next)| all?.union(&next?)).collect())
    });
    joined.flatten().unwrap_or_else(|| vec![None; columns.len()])
}

impl Slice {
    /// Divides a whole segment into slices of about `rows` rows, using only metadata.
    pub fn divide(self, rows: u64) -> impl Iterator<Item = Self> {
        assert_eq!(self.share, Share::WHOLE, "a segment is divided once");
        let all = self.rows;
        let of = all.div_ceil(rows).max(1);
        (0..of).map(move |at| Self {
            share: Share { at: at as usize, of: of as usize },
            rows: (at + 1) * all / of - at * all / of,
            ..self.clone()
        })
    }

    /// Whether by metadata its segment may contain matching rows.
    pub fn may_hold(&self, prune: &dyn Prune) -> bool {
        prune.keep(&key_bounds(std::iter::once(self)))[0]
    }

    /// Opens a scan without blocking a thread.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`]; also from the scan.
    pub async fn scan(&self, request: &ScanRequest) -> Result<Scan> {
        self.segment.scan_awaiting(request, self.share).await
    }
}

/// Iterates over the batches of a rowset.
pub struct RowsetScan {
    segments: std::vec::IntoIter<Arc<Segment>>,
    request: ScanRequest,
    scan: Option<Scan>,
}

impl Iterator for RowsetScan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.scan.as_mut().and_then(Iterator::next) {
                return Some(batch);
            }
            match self.segments.next()?.scan(&self.request, Share::WHOLE) {
                Ok(scan) => self.scan = Some(scan),
                Err(error) => {
                    self.segments = Vec::new().into_iter();
                    return Some(Err(error));
                }
            }
        }
    }
}
