//! The files of one LSN range of one tablet.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::io::FsRef;
use freshet_base::{ColumnId, Lsn};
use freshet_meta::RowsetMeta;
use freshet_schema::TableSchema;

use crate::error::Result;
use crate::segment::{ColumnRange, Scan, ScanRequest, Segment};

/// The files of one LSN range of one tablet; it never changes.
pub struct Rowset {
    meta: RowsetMeta,
    schema: Arc<TableSchema>,
    segments: Vec<Arc<Segment>>,
}

/// Row groups of one segment: what one thread scans.
#[derive(Clone)]
pub struct Slice {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Its row groups.
    pub groups: Range<usize>,
    /// Rows in them.
    pub rows: u64,
}

impl Rowset {
    /// The rowset whose files are in `dir` and were written in `schema`. Nothing is read yet.
    ///
    /// # Panics
    /// When `schema` is not of the version that `meta` names.
    pub fn new(fs: &FsRef, dir: &Path, meta: RowsetMeta, schema: &Arc<TableSchema>) -> Self {
        meta.check();
        assert_eq!(schema.version, meta.schema_version, "a rowset names its schema version");
        let segment = |segment: &freshet_meta::SegmentMeta| {
            let path = dir.join(&segment.file);
            Arc::new(Segment::new(Arc::clone(fs), path, segment.clone(), Arc::clone(schema)))
        };
        let segments = meta.segments.iter().map(segment).collect();
        Self { meta, schema: Arc::clone(schema), segments }
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

    /// Divides it into slices of about `rows` rows, at row groups.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`] of a footer.
    pub fn slices(&self, rows: u64) -> Result<Vec<Slice>> {
        let mut slices = Vec::new();
        for segment in &self.segments {
            let groups = segment.statistics(&[])?.rows;
            let mut start = 0;
            let mut held = 0;
            for (at, group_rows) in groups.iter().enumerate() {
                held += group_rows;
                if held >= rows || at + 1 == groups.len() {
                    let segment = Arc::clone(segment);
                    slices.push(Slice { segment, groups: start..at + 1, rows: held });
                    (start, held) = (at + 1, 0);
                }
            }
        }
        Ok(slices)
    }

    /// The bounds of a column; `None` where not known.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`] of a footer.
    pub fn column_range(&self, column: ColumnId) -> Result<Option<ColumnRange>> {
        let mut range: Option<ColumnRange> = None;
        for segment in &self.segments {
            let Some(next) = segment.column_range(column)? else { return Ok(None) };
            range = match range {
                None => Some(next),
                Some(before) => before.union(&next),
            };
            if range.is_none() {
                return Ok(None);
            }
        }
        Ok(range)
    }
}

impl Slice {
    /// Reads it.
    ///
    /// # Errors
    /// [`crate::Error::Io`], [`crate::Error::Corruption`]; also from the iterator.
    pub fn scan(&self, request: &ScanRequest) -> Result<Scan> {
        self.segment.scan(request, Some(self.groups.clone()))
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
            match self.segments.next()?.scan(&self.request, None) {
                Ok(scan) => self.scan = Some(scan),
                Err(error) => {
                    self.segments = Vec::new().into_iter();
                    return Some(Err(error));
                }
            }
        }
    }
}
