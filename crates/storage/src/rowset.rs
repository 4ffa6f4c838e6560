//! The files of one LSN range of one tablet.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat;
use freshet_base::{ColumnId, Lsn};
use freshet_meta::{RowsetMeta, SegmentMeta};
use freshet_schema::TableSchema;
use freshet_schema::key::{KeyBounds, leading_column};

use crate::error::Result;
use crate::marks::{DeadRows, SegmentMarks};
use crate::segment::{
    ColumnBounds, ColumnRange, Containers, Prune, Scan, ScanRequest, Segment, SegmentAccess, Share,
};

/// The files of one LSN range of one tablet; immutable.
pub struct Rowset {
    meta: RowsetMeta,
    schema: Arc<TableSchema>,
    access: Arc<SegmentAccess>,
    segments: Vec<Arc<Segment>>,
    /// The marks of each segment; `None` in tables whose rows do not die.
    marks: Option<Vec<Arc<SegmentMarks>>>,
}

/// A share of a segment, scanned by one thread.
#[derive(Clone)]
pub struct Slice {
    pub rowset: Arc<Rowset>,
    pub segment: Arc<Segment>,
    pub share: Share,
    /// The rows of the segment that are left out.
    pub dead: DeadRows,
    /// Approximate number of rows; the shares of a segment add up to the rows that are alive.
    pub rows: u64,
    /// The only rows to be read, ascending and alive, where an index has found them.
    pub found: Option<Arc<[u32]>>,
}

impl fmt::Debug for Rowset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rowset").field("id", &self.meta().id).finish_non_exhaustive()
    }
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
        let (schema, access) = (Arc::clone(schema), Arc::clone(access));
        Self { meta, schema, access, segments, marks: None }
    }

    /// The same files with these marks, one for each segment.
    ///
    /// # Panics
    /// When they are of other segments.
    #[must_use]
    pub fn with_marks(&self, marks: Vec<Arc<SegmentMarks>>) -> Self {
        let rows = self.segments.iter().map(|segment| segment.meta().rows);
        let marked = marks.iter().map(|marks| u64::from(marks.rows()));
        assert!(rows.eq(marked), "each segment of a rowset has its marks");
        Self {
            meta: self.meta.clone(),
            schema: Arc::clone(&self.schema),
            access: Arc::clone(&self.access),
            segments: self.segments.clone(),
            marks: Some(marks),
        }
    }

    /// The rowset of a large load in a keyed table, whose rows may die from its own LSN on; of one
    /// that is not in the log yet, which has no LSN, from the first on.
    #[must_use]
    pub fn with_new_marks(&self) -> Self {
        let before = Lsn(self.meta.lsn_first.get().saturating_sub(1));
        let marks = self.segments.iter().map(|segment| {
            let rows = u32::try_from(segment.meta().rows);
            let rows = rows.expect("the rows of a segment have numbers of 32 bits");
            Arc::new(SegmentMarks::new(rows, before, DeadRows::default()))
        });
        self.with_marks(marks.collect())
    }

    /// The marks of its segments; `None` in tables whose rows do not die.
    pub fn marks(&self) -> Option<&[Arc<SegmentMarks>]> {
        self.marks.as_deref()
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

    /// The number of rows in its files, dead or alive.
    pub fn rows(&self) -> u64 {
        self.meta.rows
    }

    /// The rows of each segment that are dead at the flushed LSN of its view.
    pub fn flushed_dead(&self) -> Vec<DeadRows> {
        match &self.marks {
            None => vec![DeadRows::default(); self.segments.len()],
            Some(marks) => marks.iter().map(|marks| marks.flushed_dead().clone()).collect(),
        }
    }

    /// The number of rows that are alive at the flushed LSN of its view.
    pub fn flushed_rows(&self) -> u64 {
        let dead = self.flushed_dead();
        self.meta.rows - dead.iter().map(|dead| u64::from(dead.count())).sum::<u64>()
    }

    /// The number of rows that are alive at `horizon`.
    pub fn rows_at(&self, horizon: Lsn) -> u64 {
        let dead = self.marks.iter().flatten().map(|marks| u64::from(marks.count_at(horizon)));
        self.meta.rows - dead.sum::<u64>()
    }

    /// Whether any of its rows has a mark.
    pub fn loses_rows(&self) -> bool {
        self.marks.iter().flatten().any(|marks| marks.has_any())
    }

    /// Total size of its files.
    pub fn bytes(&self) -> u64 {
        self.meta.bytes()
    }

    /// Reads all rows of the rowset, dead or alive, segment by segment; each is sorted.
    pub fn scan(&self, request: ScanRequest) -> RowsetScan {
        RowsetScan { segments: self.segments.clone().into_iter(), request, scan: None }
    }

    /// Whether its files have these indexes, as far as a merge of this rowset alone writes them: it
    /// keeps the columns, and in a keyed table indexes stand beside keys. `None` if files have to
    /// be read to know it.
    pub fn has_indexes(&self, indexes: &[Vec<ColumnId>], is_keyed: bool) -> Option<bool> {
        let lacks_keys = |segment: &Arc<Segment>| segment.meta().key_part.is_none();
        let is_possible = !is_keyed || !self.segments.iter().any(lacks_keys);
        let is_there = |id: &ColumnId| self.schema.position_of(*id).is_some();
        let wanted = indexes.iter().filter(|columns| is_possible && columns.iter().all(is_there));
        let wanted = wanted.collect::<Vec<_>>();
        for segment in self.segments.iter().filter(|_| !wanted.is_empty()) {
            let known = segment.known_indexed()?;
            if !wanted.iter().all(|columns| known.contains(*columns)) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// The same as [`Self::has_indexes`]; reads files, blocking.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`].
    pub fn read_has_indexes(&self, indexes: &[Vec<ColumnId>], is_keyed: bool) -> Result<bool> {
        self.segments.iter().try_for_each(|segment| segment.read_indexed().map(drop))?;
        Ok(self.has_indexes(indexes, is_keyed).unwrap_or(false))
    }

    /// Its segments as slices, without the rows that are dead at `horizon`.
    pub fn slices(self: &Arc<Self>, horizon: Lsn) -> impl Iterator<Item = Slice> {
        self.segments.iter().enumerate().map(move |(at, segment)| {
            let marks = self.marks.as_ref().map(|marks| marks[at].dead_at(horizon));
            let dead = marks.unwrap_or_default();
            Slice {
                rowset: Arc::clone(self),
                segment: Arc::clone(segment),
                share: Share::WHOLE,
                rows: segment.meta().rows - u64::from(dead.count()),
                dead,
                found: None,
            }
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
    /// The rows that are alive among these of its segment, which an index has found: those of them
    /// that are in its share are read.
    #[must_use]
    pub fn with_found(self, mut rows: Vec<u32>) -> Self {
        rows.retain(|row| !self.dead.contains(*row));
        Self { rows: rows.len() as u64, found: Some(rows.into()), ..self }
    }

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
        let Some(found) = &self.found else {
            return self.segment.scan_awaiting(request, self.share, &self.dead).await;
        };
        let rows = u32::try_from(self.segment.meta().rows);
        let rows = rows.expect("the rows of a segment have numbers of 32 bits");
        let others = DeadRows::all_but(rows, found);
        self.segment.scan_awaiting(request, self.share, &others).await
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
            match self.segments.next()?.scan(&self.request, Share::WHOLE, &DeadRows::default()) {
                Ok(scan) => self.scan = Some(scan),
                Err(error) => {
                    self.segments = Vec::new().into_iter();
                    return Some(Err(error));
                }
            }
        }
    }
}
