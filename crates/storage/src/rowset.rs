//! The files of one LSN range of one tablet.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat;
use freshet_base::{ColumnId, Lsn};
use freshet_meta::RowsetMeta;
use freshet_schema::TableSchema;
use freshet_schema::key::{KeyBounds, leading_column};

use crate::error::Result;
use crate::segment::{
    ColumnBounds, ColumnRange, Containers, Prune, Scan, ScanRequest, Segment, SegmentAccess, Share,
};

/// The files of one LSN range of one tablet; it never changes.
pub struct Rowset {
    meta: RowsetMeta,
    schema: Arc<TableSchema>,
    access: Arc<SegmentAccess>,
    segments: Vec<Arc<Segment>>,
}

/// A share of one segment: what one thread scans.
#[derive(Clone)]
pub struct Slice {
    /// The rowset it is of.
    pub rowset: Arc<Rowset>,
    /// The segment.
    pub segment: Arc<Segment>,
    /// Its share.
    pub share: Share,
    /// About how many rows are in it; all shares of a segment together have its rows.
    pub rows: u64,
}

impl Rowset {
    /// The rowset whose files are in `dir` and were written in `schema`. Nothing is read yet.
    ///
    /// # Panics
    /// When `schema` is not of the version that `meta` names.
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

    /// What metadata knows of it.
    pub fn meta(&self) -> &RowsetMeta {
        &self.meta
    }

    /// The first and the last LSN whose rows may be in it.
    pub fn lsns(&self) -> (Lsn, Lsn) {
        (self.meta.lsn_first, self.meta.lsn_last)
    }

    /// The columns it was written in.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Its files, in order of their ids.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// What it is read through.
    pub fn access(&self) -> &Arc<SegmentAccess> {
        &self.access
    }

    /// Its rows.
    pub fn rows(&self) -> u64 {
        self.meta.rows
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.meta.bytes()
    }

    /// Reads all of it, segment by segment, each sorted.
    pub fn scan(&self, request: ScanRequest) -> RowsetScan {
        RowsetScan { segments: self.segments.clone().into_iter(), request, scan: None }
    }

    /// Divides it into slices of about `rows` rows, by what metadata knows.
    pub fn slices(self: &Arc<Self>, rows: u64) -> impl Iterator<Item = Slice> {
        self.segments.iter().flat_map(move |segment| {
            let all = segment.meta().rows;
            let of = all.div_ceil(rows).max(1);
            (0..of).map(move |at| Slice {
                rowset: Arc::clone(self),
                segment: Arc::clone(segment),
                share: Share { at: at as usize, of: of as usize },
                rows: (at + 1) * all / of - at * all / of,
            })
        })
    }
}

/// What metadata knows of rowsets of one table, one container each: bounds of the leading column of
/// the sort key.
pub fn key_bounds<'a>(rowsets: impl Iterator<Item = &'a Arc<Rowset>> + Clone) -> Containers {
    let rows = rowsets.clone().map(|rowset| rowset.rows()).collect();
    let Some((id, ty)) = rowsets.clone().find_map(|rowset| leading_column(&rowset.schema)) else {
        return Containers::new(rows, Vec::new());
    };
    let of = |rowset: &Arc<Rowset>| match rowset.meta.keys {
        Some(keys) => KeyBounds::of_words(&rowset.schema, (keys.min, keys.max), rowset.rows()),
        None => KeyBounds::unknown(&ty),
    };
    let bounds = rowsets.map(of).collect::<Vec<_>>();
    let all = |end: fn(&KeyBounds) -> &ArrayRef| {
        let ends = bounds.iter().map(|bounds| end(bounds).as_ref()).collect::<Vec<_>>();
        concat(&ends).expect("a column keeps its type for life")
    };
    let null_counts = bounds.iter().map(|bounds| bounds.null_count).collect();
    let bounds = ColumnBounds { min: all(|b| &b.min), max: all(|b| &b.max), null_counts };
    Containers::new(rows, vec![(id, bounds)])
}

/// The bounds of these columns over all rowsets, as far as all their footers are in memory and know
/// them.
pub fn known_ranges(rowsets: &[Arc<Rowset>], columns: &[ColumnId]) -> Vec<Option<ColumnRange>> {
    let segments = rowsets.iter().flat_map(|rowset| &rowset.segments);
    let known = segments.map(|segment| segment.known_ranges(columns));
    let joined = known.reduce(|all, next| {
        let pairs = all?.into_iter().zip(next?);
        Some(pairs.map(|(all, next)| all?.union(&next?)).collect())
    });
    joined.flatten().unwrap_or_else(|| vec![None; columns.len()])
}

impl Slice {
    /// Whether metadata lets its rowset hold a row that is wanted.
    pub fn may_hold(&self, prune: &dyn Prune) -> bool {
        prune.keep(&key_bounds(std::iter::once(&self.rowset)))[0]
    }

    /// Reads it, without holding up a thread.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`]; also from the scan.
    pub async fn scan(&self, request: &ScanRequest) -> Result<Scan> {
        self.segment.scan_awaiting(request, self.share).await
    }
}

/// The batches of a rowset.
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
