//! Reads a segment: open once, scan often, skip what statistics rule out.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::{RecordBatch, RecordBatchOptions};
use bytes::Bytes;
use freshet_base::ColumnId;
use freshet_base::io::{FileRef, FsRef};
use freshet_meta::SegmentMeta;
use freshet_schema::{Column, TableSchema, history};
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::errors::ParquetError;

use super::index::{self, ColumnRange, Containers, Prune, Wanted};
use super::source::{self, Chunk, Footer, Source};
use crate::error::{Error, Result};

/// Bytes read at once by a scan of everything.
const READ_AHEAD_BYTES: u64 = 1 << 20;
/// Bytes read at once where pages are skipped: one block.
const READ_AHEAD_PRUNED_BYTES: u64 = 1;

/// What to read.
#[derive(Clone)]
pub struct ScanRequest {
    /// The columns of the snapshot.
    pub schema: Arc<TableSchema>,
    /// Which of them to read, as positions in it, in the order wanted. May be empty: batches
    /// then have rows without columns.
    pub projection: Vec<usize>,
    /// What to skip.
    pub prune: Option<Arc<dyn Prune>>,
    /// Most rows of a batch.
    pub batch_rows: usize,
}

impl ScanRequest {
    /// All rows and columns, in batches of 8,192.
    pub fn all(schema: &Arc<TableSchema>) -> Self {
        Self {
            schema: Arc::clone(schema),
            projection: (0..schema.columns.len()).collect(),
            prune: None,
            batch_rows: 8192,
        }
    }
}

/// One file of a rowset. Its footer is read when first needed, and once.
pub struct Segment {
    fs: FsRef,
    path: PathBuf,
    meta: SegmentMeta,
    schema: Arc<TableSchema>,
    open: OnceLock<Open>,
}

struct Open {
    file: FileRef,
    footer: Arc<Footer>,
    arrow: ArrowReaderMetadata,
    /// The place in the file of each column of `schema`.
    places: Vec<usize>,
}

impl Segment {
    /// The segment at `path`, written in `schema`. Nothing is read yet.
    pub fn new(fs: FsRef, path: PathBuf, meta: SegmentMeta, schema: Arc<TableSchema>) -> Self {
        Self { fs, path, meta, schema, open: OnceLock::new() }
    }

    /// What metadata knows of it.
    pub fn meta(&self) -> &SegmentMeta {
        &self.meta
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many row groups it has: the units that a scan may be divided by.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub fn row_groups(&self) -> Result<usize> {
        Ok(self.open()?.footer.parquet.num_row_groups())
    }

    /// Reads the row groups of `groups` (all of them: `None`).
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`]; also from the iterator, which ends there.
    pub fn scan(&self, request: &ScanRequest, groups: Option<Range<usize>>) -> Result<Scan> {
        let open = self.open()?;
        let parquet = &open.footer.parquet;
        let groups = groups.unwrap_or(0..parquet.num_row_groups());
        let (groups, selection) = match &request.prune {
            Some(prune) => self.prune(open, groups, prune.as_ref())?,
            None => (groups.collect(), None),
        };
        let read = self.columns_to_read(request);
        let places = read.iter().map(|&at| open.places[at]).collect::<Vec<_>>();
        let failure = Arc::new(Mutex::new(None));
        let source = self.source(open, &groups, &places, selection.is_some(), &failure);
        let mask = ProjectionMask::leaves(open.arrow.parquet_schema(), places.iter().copied());
        let mut builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(source, open.arrow.clone())
                .with_row_groups(groups)
                .with_projection(mask)
                .with_batch_size(request.batch_rows);
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        let reader = builder.build().map_err(|error| self.damaged(&error, &failure))?;
        let adapt = Adapt::new(&self.schema, read, &places, request);
        Ok(Scan { reader, adapt, failure, path: self.path.clone(), ended: false })
    }

    /// The statistics of these columns, one container a row group.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub fn statistics(&self, columns: &[ColumnId]) -> Result<Containers> {
        let open = self.open()?;
        let groups = 0..open.footer.parquet.num_row_groups();
        index::row_groups(&open.footer.parquet, groups, &self.wanted(open, columns))
            .map_err(|error| self.damaged(&error, &Mutex::new(None)))
    }

    /// The bounds of a column; `None` where not known.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub fn column_range(&self, column: ColumnId) -> Result<Option<ColumnRange>> {
        let statistics = self.statistics(&[column])?;
        Ok(statistics.column(column).and_then(|bounds| bounds.range()))
    }

    /// Reads the whole file and checks every byte.
    ///
    /// # Errors
    /// The first damage found.
    pub fn verify(&self) -> Result<()> {
        let open = self.open()?;
        let mut at = 0;
        while at < self.meta.data_bytes {
            let end = (at + READ_AHEAD_BYTES).min(self.meta.data_bytes);
            open.footer.read_data(&open.file, &self.path, at..end, self.meta.data_bytes)?;
            at = end;
        }
        Ok(())
    }

    fn open(&self) -> Result<&Open> {
        if let Some(open) = self.open.get() {
            return Ok(open);
        }
        // Two threads may both read the footer; they read the same.
        let open = self.read_footer()?;
        Ok(self.open.get_or_init(|| open))
    }

    fn read_footer(&self) -> Result<Open> {
        let file = source::open(&self.fs, &self.path)?;
        let footer = Arc::new(Footer::read(&file, &self.path, &self.meta)?);
        let at = self.meta.data_bytes;
        let damaged = |what: String| Error::corruption(&self.path, at, what);
        let rows = footer.parquet.file_metadata().num_rows().cast_unsigned();
        if rows != self.meta.rows {
            return Err(damaged(format!("it holds {rows} rows, metadata says {}", self.meta.rows)));
        }
        let parquet = Arc::clone(&footer.parquet);
        let arrow = ArrowReaderMetadata::try_new(parquet, ArrowReaderOptions::new())
            .map_err(|error| damaged(error.to_string()))?;
        let places = places(&arrow, &self.schema).map_err(damaged)?;
        Ok(Open { file, footer, arrow, places })
    }

    /// The row groups and the rows in them that may hold what is wanted.
    fn prune(
        &self,
        open: &Open,
        groups: Range<usize>,
        prune: &dyn Prune,
    ) -> Result<(Vec<usize>, Option<RowSelection>)> {
        let parquet = &open.footer.parquet;
        let wanted = self.wanted(open, prune.columns());
        let damaged = |error: ParquetError| self.damaged(&error, &Mutex::new(None));
        let containers = index::row_groups(parquet, groups.clone(), &wanted).map_err(damaged)?;
        let keep = prune.keep(&containers);
        assert_eq!(keep.len(), groups.len(), "pruning decides about every container");
        let kept = groups.zip(keep).filter(|(_, keep)| *keep).map(|(group, _)| group);
        let kept = kept.collect::<Vec<_>>();
        let mut selectors = Vec::new();
        for &group in &kept {
            let selection = index::select_pages(parquet, group, &wanted, prune).map_err(damaged)?;
            selectors.extend(Vec::from(selection));
        }
        let skips = selectors.iter().any(|selector| selector.skip);
        Ok((kept, skips.then(|| selectors.into())))
    }

    fn wanted(&self, open: &Open, columns: &[ColumnId]) -> Vec<Wanted<'_>> {
        let find = |&id: &ColumnId| {
            let at = self.schema.position_of(id)?;
            Some(Wanted { id, index: open.places[at], field: self.schema.arrow().field(at) })
        };
        columns.iter().filter_map(find).collect()
    }

    /// The columns of the file, as positions in its schema, that the request needs.
    fn columns_to_read(&self, request: &ScanRequest) -> Vec<usize> {
        let ids = request.projection.iter().map(|&at| request.schema.columns[at].id);
        ids.filter_map(|id| self.schema.position_of(id)).collect()
    }

    fn source(
        &self,
        open: &Open,
        groups: &[usize],
        places: &[usize],
        pruned: bool,
        failure: &Arc<Mutex<Option<Error>>>,
    ) -> Source {
        let mut chunks = Vec::with_capacity(groups.len() * places.len());
        for &group in groups {
            for (window, &place) in places.iter().enumerate() {
                let (start, length) =
                    open.footer.parquet.row_group(group).column(place).byte_range();
                chunks.push(Chunk { bytes: start..start + length, window });
            }
        }
        chunks.sort_by_key(|chunk| chunk.bytes.start);
        Source {
            file: Arc::clone(&open.file),
            path: self.path.clone(),
            footer: Arc::clone(&open.footer),
            data_bytes: self.meta.data_bytes,
            chunks,
            read_ahead_bytes: if pruned { READ_AHEAD_PRUNED_BYTES } else { READ_AHEAD_BYTES },
            windows: Mutex::new(vec![(0, Bytes::new()); places.len()]),
            failure: Arc::clone(failure),
        }
    }

    fn damaged(&self, error: &ParquetError, failure: &Mutex<Option<Error>>) -> Error {
        let kept = failure.lock().take();
        kept.unwrap_or_else(|| Error::corruption(&self.path, 0, error.to_string()))
    }
}

/// Where in the file each column of the schema is.
fn places(arrow: &ArrowReaderMetadata, schema: &TableSchema) -> Result<Vec<usize>, String> {
    let descriptor = arrow.parquet_schema();
    let mut by_id = HashMap::new();
    for (place, column) in descriptor.root_schema().get_fields().iter().enumerate() {
        let info = column.get_basic_info();
        if info.has_id() {
            by_id.insert(info.id(), place);
        }
    }
    let find = |column: &Column| {
        let id = column.id.get().cast_signed();
        let place = by_id.get(&id).copied();
        let place = place.ok_or_else(|| format!("column `{}` is not in it", column.name))?;
        let found = arrow.schema().field(place).data_type();
        let expected = column.ty.arrow();
        match *found == expected {
            true => Ok(place),
            false => Err(format!("column `{}` is {found}, not {expected}", column.name)),
        }
    };
    schema.columns.iter().map(find).collect()
}

/// From columns as they are in the file to columns as the snapshot has them.
struct Adapt {
    /// For each column read, in the order wanted, its place among those that Parquet returns.
    order: Vec<usize>,
    from: TableSchema,
    to: TableSchema,
}

impl Adapt {
    fn new(file: &TableSchema, read: Vec<usize>, places: &[usize], request: &ScanRequest) -> Self {
        // Parquet returns columns in the order of the file, whatever the order asked for.
        let rank = |place: &usize| places.iter().filter(|other| *other < place).count();
        let pick = |schema: &TableSchema, at: &[usize]| {
            let columns = at.iter().map(|&at| schema.columns[at].clone()).collect();
            TableSchema::new(schema.version, columns, Vec::new())
        };
        Self {
            order: places.iter().map(rank).collect(),
            from: pick(file, &read),
            to: pick(&request.schema, &request.projection),
        }
    }

    fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.order.iter().map(|&at| Arc::clone(batch.column(at))).collect();
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(self.from.arrow());
        let batch = RecordBatch::try_new_with_options(schema, columns, &rows)?;
        Ok(history::adapt(&batch, &self.from, &self.to))
    }
}

/// The batches of a segment.
pub struct Scan {
    reader: ParquetRecordBatchReader,
    adapt: Adapt,
    failure: Arc<Mutex<Option<Error>>>,
    path: PathBuf,
    ended: bool,
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = match self.reader.next()? {
            Ok(batch) => self.adapt.apply(&batch),
            Err(error) => {
                let kept = self.failure.lock().take();
                Err(kept.unwrap_or_else(|| Error::corruption(&self.path, 0, error.to_string())))
            }
        };
        self.ended = item.is_err();
        Some(item)
    }
}
