//! Reads a segment: skips what statistics exclude, and reads the rest in pieces.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use freshet_base::ColumnId;
use freshet_meta::SegmentMeta;
use freshet_schema::{TableSchema, history};
use futures::FutureExt;
use futures::lock::Mutex;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder};
use parquet::file::metadata::ParquetMetaData;

mod indexed;
mod keys;

pub use indexed::Probe;

use super::footers::{CachedFooter, WaitMode};
use super::index::{self, ColumnRange, Prune, Wanted};
use super::key_part::KeyPart;
use super::source::{self, Open};
use super::store::SegmentAccess;
use crate::error::{Error, Result};
use crate::marks::DeadRows;

/// Approximate number of bytes read and held at once.
const WINDOW_BYTES: u64 = 8 << 20;
/// A larger row group is read in pieces of a multiple of this number of rows: one batch, two pages.
const WINDOW_ROWS: usize = 8192;
/// Bytes read at once for verification.
const VERIFY_BYTES: u64 = 1 << 20;

/// Defines what to read.
#[derive(Clone)]
pub struct ScanRequest {
    /// The columns of the snapshot.
    pub schema: Arc<TableSchema>,
    /// The columns to read, as positions in the schema, in the order wanted. If empty, batches have
    /// rows without columns.
    pub projection: Vec<usize>,
    /// The pruning condition.
    pub prune: Option<Arc<dyn Prune>>,
    /// Maximum number of rows per batch.
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

/// One of several about equal shares of a segment: whole row groups, possibly none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The index of the share, from 0.
    pub at: usize,
    /// The number of shares.
    pub of: usize,
}

impl Share {
    /// The whole segment.
    pub const WHOLE: Self = Self { at: 0, of: 1 };

    fn groups(self, groups: usize) -> Range<usize> {
        self.at * groups / self.of..(self.at + 1) * groups / self.of
    }
}

/// The effect of pruning on a segment: numbers of checked and remaining parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pruned {
    pub row_groups: usize,
    /// Row groups of which at least one page is read.
    pub row_groups_left: usize,
    /// Pages of the row groups that remain after their own statistics were checked. A page here is
    /// a range of rows between positions where a page of any of the condition's columns begins.
    pub pages: usize,
    pub pages_left: usize,
}

/// The columns of an index, and its part of the file if there is one.
type OpenedIndex = (Vec<ColumnId>, Option<Arc<KeyPart>>);

/// A file of a rowset. Its footer is read when first needed, and cached.
pub struct Segment {
    access: Arc<SegmentAccess>,
    /// The key of its footer in the cache.
    number: u64,
    path: PathBuf,
    meta: SegmentMeta,
    schema: Arc<TableSchema>,
    /// Its keys, once somebody has looked one up.
    keys: OnceLock<Arc<KeyPart>>,
    /// Held by who reads them.
    opening: Mutex<()>,
    /// Its indexes, once somebody has asked for them; `None` for columns that it has none by.
    indexes: parking_lot::Mutex<Vec<OpenedIndex>>,
    /// The columns of each index that it has, once somebody has asked for them.
    indexed: OnceLock<Vec<Vec<ColumnId>>>,
}

impl Segment {
    /// The segment at `path`, written in `schema`. Nothing is read yet.
    pub fn new(
        access: &Arc<SegmentAccess>,
        path: PathBuf,
        meta: SegmentMeta,
        schema: Arc<TableSchema>,
    ) -> Self {
        let number = access.footers.number();
        let (access, keys, opening) = (Arc::clone(access), OnceLock::new(), Mutex::new(()));
        let (indexes, indexed) = (parking_lot::Mutex::default(), OnceLock::new());
        Self { access, number, path, meta, schema, keys, opening, indexes, indexed }
    }

    /// The segment's metadata.
    pub fn meta(&self) -> &SegmentMeta {
        &self.meta
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the footer into the cache, from which it may be evicted at any time.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn read_footer(&self) -> Result<()> {
        self.open(WaitMode::Awaiting).await.map(drop)
    }

    /// Reads a share of the segment without its dead rows, blocking.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`]; also from the iterator, which ends there.
    pub fn scan(&self, request: &ScanRequest, share: Share, dead: &DeadRows) -> Result<Scan> {
        at_once(self.scan_with(request, share, dead, WaitMode::Blocking))
    }

    /// Like [`Self::scan`] without blocking a thread, neither here nor in [`Scan::next_batch`].
    ///
    /// # Errors
    /// Those of [`Self::scan`].
    pub async fn scan_awaiting(
        &self,
        request: &ScanRequest,
        share: Share,
        dead: &DeadRows,
    ) -> Result<Scan> {
        self.scan_with(request, share, dead, WaitMode::Awaiting).await
    }

    /// Like [`Self::scan`], waiting as is said; the batches wait so as well.
    ///
    /// # Errors
    /// Those of [`Self::scan`].
    pub async fn scan_with(
        &self,
        request: &ScanRequest,
        share: Share,
        dead: &DeadRows,
        wait_mode: WaitMode,
    ) -> Result<Scan> {
        let footer = self.open(wait_mode).await?;
        let open = &footer.open;
        let groups = share.groups(open.parquet().num_row_groups());
        let mut pruned = Pruned::default();
        let wanted = match &request.prune {
            Some(prune) => self.prune(open, groups, prune.as_ref(), &mut pruned)?,
            None => groups.map(|group| (group, None)).collect(),
        };
        let read = self.columns_to_read(request);
        let places = read.iter().map(|&at| open.places[at]).collect::<Vec<_>>();
        let wanted = without_dead(open.parquet(), wanted, dead);
        let windows = wanted
            .into_iter()
            .flat_map(|(group, rows)| windows(open.parquet(), group, &places, rows));
        Ok(Scan {
            windows: windows.collect::<Vec<_>>().into_iter(),
            decoder: None,
            mask: ProjectionMask::leaves(open.arrow.parquet_schema(), places.iter().copied()),
            adapt: Adapt::new(&self.schema, read, &places, request),
            batch_rows: request.batch_rows,
            data: Data {
                access: Arc::clone(&self.access),
                wait_mode,
                path: self.path.clone(),
                bytes: self.meta.data_bytes,
                footer,
            },
            pruned,
            ended: false,
        })
    }

    /// The rows with these ascending numbers, with the columns of `schema`, dead or not.
    ///
    /// # Errors
    /// Those of [`Self::scan`].
    ///
    /// # Panics
    /// When a row is named twice, or the segment does not have it.
    pub async fn rows(
        &self,
        schema: &Arc<TableSchema>,
        rows: &[u32],
        wait_mode: WaitMode,
    ) -> Result<Vec<RecordBatch>> {
        self.rows_of(&ScanRequest::all(schema), rows, wait_mode).await
    }

    /// As [`Self::rows`], with the columns that are asked for.
    ///
    /// # Errors
    /// Those of [`Self::scan`].
    ///
    /// # Panics
    /// As [`Self::rows`].
    pub async fn rows_of(
        &self,
        request: &ScanRequest,
        rows: &[u32],
        wait_mode: WaitMode,
    ) -> Result<Vec<RecordBatch>> {
        let all = u32::try_from(self.meta.rows).expect("rows of a segment have numbers of 32 bits");
        let others = DeadRows::all_but(all, rows);
        let mut scan = self.scan_with(request, Share::WHOLE, &others, wait_mode).await?;
        let mut batches = Vec::new();
        while let Some(batch) = scan.next_batch().await {
            batches.push(batch?);
        }
        let read = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        assert_eq!(read, rows.len(), "the rows that are asked for are read");
        Ok(batches)
    }

    /// The bounds of these columns if the footer is cached; `None` for columns without bounds.
    pub fn known_ranges(&self, columns: &[ColumnId]) -> Option<Vec<Option<ColumnRange>>> {
        let footer = self.access.footers.known(self.number)?;
        let parquet = footer.open.parquet();
        let groups = 0..parquet.num_row_groups();
        let wanted = self.wanted(&footer.open, columns);
        let bounds = index::row_groups(parquet, groups, &wanted).ok()?;
        let range = |&id: &ColumnId| bounds.column(id).and_then(|bounds| bounds.range());
        Some(columns.iter().map(range).collect())
    }

    /// Reads the whole file, blocking, and verifies every byte.
    ///
    /// # Errors
    /// The first damage found.
    pub fn verify(&self) -> Result<()> {
        let footer = at_once(self.open(WaitMode::Blocking))?;
        let (access, path) = (Arc::clone(&self.access), self.path.clone());
        let bytes = self.meta.data_bytes;
        let data = Data { access, wait_mode: WaitMode::Blocking, path, bytes, footer };
        let mut at = 0;
        while at < bytes {
            let end = (at + VERIFY_BYTES).min(bytes);
            at_once(data.read(std::slice::from_ref(&(at..end))))?;
            at = end;
        }
        match at_once(self.keys(WaitMode::Blocking))? {
            None => Ok(()),
            Some(keys) => at_once(keys.verify()),
        }
    }

    /// The columns of its rows.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    async fn open(&self, wait_mode: WaitMode) -> Result<Arc<CachedFooter>> {
        self.access.footers.get(self.number, wait_mode, self.open_file(wait_mode)).await
    }

    async fn open_file(&self, wait_mode: WaitMode) -> Result<Open> {
        let path = self.path.as_path();
        let range = source::footer_range(path, &self.meta)?;
        let bytes = self.access.read(wait_mode, path, vec![range.clone()]).await;
        let bytes = bytes.map_err(|error| failed(path, range.start, error))?.swap_remove(0);
        Open::read(bytes, path, &self.meta, &self.schema)
    }

    /// The row groups, and the rows in them, that may match.
    fn prune(
        &self,
        open: &Open,
        groups: Range<usize>,
        prune: &dyn Prune,
        pruned: &mut Pruned,
    ) -> Result<Vec<GroupRows>> {
        let parquet = open.parquet();
        let wanted = self.wanted(open, prune.columns());
        let damaged = |error| damaged(&self.path, &error);
        let containers = index::row_groups(parquet, groups.clone(), &wanted).map_err(damaged)?;
        let keep = prune.keep(&containers);
        assert_eq!(keep.len(), groups.len(), "pruning decides about every container");
        pruned.row_groups = groups.len();
        let mut left = Vec::new();
        for (group, _) in groups.zip(keep).filter(|(_, keep)| *keep) {
            let selectors = index::select_pages(parquet, group, &wanted, prune).map_err(damaged)?;
            let selected = selectors.iter().filter(|selector| !selector.skip).count();
            pruned.pages += selectors.len();
            pruned.pages_left += selected;
            if selected > 0 {
                let all = selected == selectors.len();
                left.push((group, (!all).then(|| selectors.into())));
            }
        }
        pruned.row_groups_left = left.len();
        self.access.count_pruning("row_group", pruned.row_groups, pruned.row_groups_left);
        self.access.count_pruning("page", pruned.pages, pruned.pages_left);
        Ok(left)
    }

    fn wanted(&self, open: &Open, columns: &[ColumnId]) -> Vec<Wanted<'_>> {
        let find = |&id: &ColumnId| {
            let at = self.schema.position_of(id)?;
            Some(Wanted { id, index: open.places[at], field: self.schema.arrow().field(at) })
        };
        columns.iter().filter_map(find).collect()
    }

    /// The columns to read, as positions in the file's schema.
    fn columns_to_read(&self, request: &ScanRequest) -> Vec<usize> {
        let ids = request.projection.iter().map(|&at| request.schema.columns[at].id);
        ids.filter_map(|id| self.schema.position_of(id)).collect()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.access.footers.forget(self.number);
    }
}

/// The result of a future that only makes blocking calls.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("what blocks is done when it returns")
}

fn failed(path: &Path, at: u64, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            Error::corruption(path, at, "it is shorter than it was written")
        }
        _ => Error::io("read", path, error),
    }
}

fn damaged(path: &Path, error: &impl ToString) -> Error {
    Error::corruption(path, 0, error.to_string())
}

/// A row group to read, and the rows in it; `None` for all.
type GroupRows = (usize, Option<RowSelection>);

/// Leaves out dead rows, and row groups in which nothing is left.
fn without_dead(
    parquet: &ParquetMetaData,
    groups: Vec<GroupRows>,
    dead: &DeadRows,
) -> Vec<GroupRows> {
    let Some(bits) = dead.bits() else { return groups };
    let lengths = parquet.row_groups().iter().map(|group| group.num_rows().cast_unsigned());
    let lengths = lengths.map(|rows| rows as usize).collect::<Vec<_>>();
    assert_eq!(lengths.iter().sum::<usize>(), bits.len(), "marks are of this segment");
    let start = |group: usize| lengths[..group].iter().sum::<usize>();
    let left = groups.into_iter().filter_map(|(group, rows)| {
        let alive = alive(&bits.slice(start(group), lengths[group]));
        let Some(alive) = alive else { return Some((group, rows)) };
        let rows = match rows {
            Some(rows) => rows.intersection(&alive),
            None => alive,
        };
        rows.selects_any().then_some((group, Some(rows)))
    });
    left.collect()
}

/// The rows whose bit is not set; `None` if that is all of them.
fn alive(dead: &BooleanBuffer) -> Option<RowSelection> {
    let mut selectors = Vec::new();
    let mut at = 0;
    for (start, end) in dead.set_slices() {
        selectors.push(RowSelector::select(start - at));
        selectors.push(RowSelector::skip(end - start));
        at = end;
    }
    if selectors.is_empty() {
        return None;
    }
    selectors.push(RowSelector::select(dead.len() - at));
    Some(selectors.into())
}

/// Rows of a row group that are read at once.
struct Window {
    group: usize,
    /// `None` for all rows.
    rows: Option<RowSelection>,
}

/// Divides the wanted rows of a row group into windows with a limited number of bytes in the
/// columns at `places`.
fn windows(
    parquet: &ParquetMetaData,
    group: usize,
    places: &[usize],
    rows: Option<RowSelection>,
) -> Vec<Window> {
    let meta = parquet.row_group(group);
    let all = meta.num_rows().cast_unsigned() as usize;
    let bytes = places.iter().map(|&place| meta.column(place).byte_range().1).sum::<u64>();
    let wanted = rows.as_ref().map_or(all, RowSelection::row_count);
    let count = (bytes * wanted as u64 / all.max(1) as u64).div_ceil(WINDOW_BYTES).max(1);
    if count == 1 {
        return vec![Window { group, rows }];
    }
    let step = all.div_ceil(count as usize).next_multiple_of(WINDOW_ROWS);
    let mut rest = rows.unwrap_or_else(|| vec![RowSelector::select(all)].into());
    let window = |start: usize| {
        let part = rest.split_off(step);
        let before = (start > 0).then(|| RowSelector::skip(start));
        let rows = before.into_iter().chain(Vec::from(part.clone())).collect::<Vec<_>>();
        part.selects_any().then(|| Window { group, rows: Some(rows.into()) })
    };
    (0..all).step_by(step).filter_map(window).collect()
}

/// Converts columns from the file's schema to that of the snapshot.
struct Adapt {
    /// For each wanted column, its position among the columns that Parquet returns.
    order: Vec<usize>,
    from: TableSchema,
    to: TableSchema,
}

impl Adapt {
    fn new(file: &TableSchema, read: Vec<usize>, places: &[usize], request: &ScanRequest) -> Self {
        // Parquet returns columns in the order of the file.
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

/// The data of a segment, verified before use.
struct Data {
    access: Arc<SegmentAccess>,
    wait_mode: WaitMode,
    path: PathBuf,
    bytes: u64,
    footer: Arc<CachedFooter>,
}

impl Data {
    /// The bytes of each range.
    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let outside = || {
            let what = format!("the footer names bytes {ranges:?} of {}", self.bytes);
            Error::corruption(&self.path, self.bytes, what)
        };
        let reads = source::reads(ranges, self.bytes).ok_or_else(outside)?;
        let read = self.access.read(self.wait_mode, &self.path, reads.clone()).await;
        let read = read.map_err(|error| failed(&self.path, self.bytes, error))?;
        for (range, bytes) in reads.iter().zip(&read) {
            self.footer.open.footer.check(&self.path, range.start, bytes)?;
        }
        let of = |range: &Range<u64>| {
            let at = reads.partition_point(|read| read.start <= range.start) - 1;
            let start = reads[at].start;
            read[at].slice((range.start - start) as usize..(range.end - start) as usize)
        };
        Ok(ranges.iter().map(of).collect())
    }
}

/// The batches of a share of a segment; an iterator if reads block.
pub struct Scan {
    windows: std::vec::IntoIter<Window>,
    decoder: Option<ParquetPushDecoder>,
    mask: ProjectionMask,
    adapt: Adapt,
    batch_rows: usize,
    data: Data,
    pruned: Pruned,
    ended: bool,
}

impl Scan {
    /// The effect of pruning.
    pub fn pruned(&self) -> Pruned {
        self.pruned
    }

    /// The next batch; nothing follows an error.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Corruption`].
    pub async fn next_batch(&mut self) -> Option<Result<RecordBatch>> {
        if self.ended {
            return None;
        }
        let item = self.decoded().await.transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }

    async fn decoded(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some(decoder) = &mut self.decoder else {
                let Some(window) = self.windows.next() else { return Ok(None) };
                self.decoder = Some(self.decoder_of(window)?);
                continue;
            };
            let path = &self.data.path;
            match decoder.try_decode().map_err(|error| damaged(path, &error))? {
                DecodeResult::Data(batch) => return self.adapt.apply(&batch).map(Some),
                DecodeResult::Finished => self.decoder = None,
                DecodeResult::NeedsData(ranges) => {
                    let bytes = self.data.read(&ranges).await?;
                    decoder.push_ranges(ranges, bytes).map_err(|error| damaged(path, &error))?;
                }
            }
        }
    }

    fn decoder_of(&self, window: Window) -> Result<ParquetPushDecoder> {
        let arrow = self.data.footer.open.arrow.clone();
        let mut builder = ParquetPushDecoderBuilder::new_with_metadata(arrow)
            .with_row_groups(vec![window.group])
            .with_projection(self.mask.clone())
            .with_batch_size(self.batch_rows);
        if let Some(rows) = window.rows {
            builder = builder.with_row_selection(rows);
        }
        builder.build().map_err(|error| damaged(&self.data.path, &error))
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        at_once(self.next_batch())
    }
}
