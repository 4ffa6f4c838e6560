mod keys;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::task::Context;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray, new_null_array,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int64Type};
use bytes::Bytes;
use freshet_base::budget::Budget;
use freshet_base::io::{FsRef, RealFs};
use freshet_base::metrics::Metrics;
use freshet_base::task::InlinePool;
use freshet_base::{ByteSize, ColumnId, Lsn, SchemaVersion, SegmentId, TabletId};
use freshet_meta::SegmentMeta;
use freshet_schema::{ColumnType, ColumnsBuilder, Layout, RowWriter, TableSchema};
use futures::FutureExt;
use futures::channel::oneshot;
use futures::executor::block_on;
use futures::future::{BoxFuture, Shared};
use futures::task::{ArcWake, waker};
use parking_lot::Mutex;
use proptest::prelude::*;
use tempfile::TempDir;

use super::footers::{CachedFooter, Footers, WaitMode};
use super::source::Open;
use super::*;
use crate::error::{Error, Result};
use crate::marks::DeadRows;
use crate::testing::{TABLE, batch, column, keys, schema};

struct Written {
    dir: TempDir,
    fs: FsRef,
    meta: SegmentMeta,
    schema: Arc<TableSchema>,
}

impl Written {
    fn new(schema: &Arc<TableSchema>, batches: &[RecordBatch], tier: Tier) -> Self {
        Self::with_keys(schema, batches, tier, false, false)
    }

    fn with_keys(
        schema: &Arc<TableSchema>,
        batches: &[RecordBatch],
        tier: Tier,
        has_keys: bool,
        stores_rows: bool,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fs: FsRef = Arc::new(RealFs);
        let (tablet, lsns) = (TabletId(9), (Lsn(3), Lsn(5)));
        let (table, indexes) = (TABLE, &[][..]);
        let spec =
            SegmentSpec { schema, table, tablet, lsns, tier, has_keys, stores_rows, indexes };
        let path = dir.path().join("a.parquet");
        let mut writer = SegmentWriter::create(fs.as_ref(), &path, &spec, &batches[0]).unwrap();
        for batch in batches {
            writer.write(batch).unwrap();
        }
        let meta = writer.finish(SegmentId(0)).unwrap();
        Self { dir, fs, meta, schema: Arc::clone(schema) }
    }

    fn open(&self) -> Segment {
        let path = self.dir.path().join(&self.meta.file);
        let access = SegmentAccess::of_files(&self.fs);
        Segment::new(&access, path, self.meta.clone(), Arc::clone(&self.schema))
    }

    fn read(&self, request: &ScanRequest) -> Vec<RecordBatch> {
        self.open()
            .scan(request, Share::WHOLE, &DeadRows::default())
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }
}

/// Without a sort key, so that rows come in any order.
fn all_types() -> Arc<TableSchema> {
    let mut types = vec![ColumnType::Boolean, ColumnType::LargeInt, ColumnType::Float];
    for unsigned in [false, true] {
        types.extend([
            ColumnType::TinyInt { unsigned },
            ColumnType::SmallInt { unsigned },
            ColumnType::MediumInt { unsigned },
            ColumnType::Int { unsigned },
            ColumnType::BigInt { unsigned },
        ]);
    }
    types.extend([
        ColumnType::Double,
        ColumnType::Decimal { precision: 9, scale: 2 },
        ColumnType::Decimal { precision: 18, scale: 4 },
        ColumnType::Decimal { precision: 38, scale: 10 },
        ColumnType::Date,
        ColumnType::DateTime { fsp: 6 },
        ColumnType::Timestamp { fsp: 0 },
        ColumnType::Time { fsp: 6 },
        ColumnType::Year,
        ColumnType::Char { len: 10 },
        ColumnType::VarChar { len: 100 },
        ColumnType::Text,
        ColumnType::VarBinary { len: 100 },
        ColumnType::Blob,
        ColumnType::Json,
    ]);
    let columns = types.into_iter().enumerate();
    let columns = columns.map(|(at, ty)| column(at as u32 + 1, &format!("c{at}"), ty)).collect();
    Arc::new(TableSchema::new(SchemaVersion(1), columns, Vec::new()))
}

/// A row for each seed, whose bits determine which cells are NULL and the values of the others.
fn rows(schema: &TableSchema, seeds: &[u64]) -> RecordBatch {
    let mut bytes = Vec::new();
    let mut rows = RowWriter::new(schema.columns.len(), &mut bytes);
    for &seed in seeds {
        rows.begin_row();
        for (at, column) in schema.columns.iter().enumerate() {
            let noise = (seed ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if noise >> 61 == 0 {
                rows.put_null();
                continue;
            }
            // Small numbers, so that decimals fit their precision and dates the calendar.
            let small = (noise >> 44) as i128 - (1 << 19);
            match column.ty.layout() {
                Layout::Fixed(width) => rows.put_encoded(&small.to_le_bytes()[..width]),
                Layout::Bytes => {
                    let mut cell = Vec::new();
                    let text = format!("{noise:x}").repeat((noise % 4) as usize);
                    freshet_schema::row::put_bytes(&mut cell, text.as_bytes());
                    rows.put_encoded(&cell);
                }
            }
        }
        rows.end_row();
    }
    ColumnsBuilder::batch_of(schema, &bytes, seeds.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_type_comes_back_as_it_was(
        seeds in prop::collection::vec(any::<u64>(), 1..300),
        copies in 1usize..60,
        cold in any::<bool>(),
    ) {
        let schema = all_types();
        let batch = rows(&schema, &seeds);
        let tier = if cold { Tier::Cold } else { Tier::Fresh };
        let written = Written::new(&schema, &vec![batch.clone(); copies], tier);
        let read = written.read(&ScanRequest::all(&schema));
        let expected = concat_batches(schema.arrow(), &vec![batch; copies]).unwrap();
        prop_assert_eq!(concat_batches(schema.arrow(), &read).unwrap(), expected);
        written.open().verify().unwrap();
    }
}

#[test]
fn columns_come_in_the_order_wanted_and_new_ones_have_their_default() {
    let written = Written::new(&schema(1), &[batch(&schema(1), &[1, 2, 3])], Tier::Fresh);
    let mut request = ScanRequest::all(&schema(2));
    request.projection = vec![2, 1, 0];
    let read = written.read(&request).remove(0);
    assert_eq!(read.num_columns(), 3);
    assert_eq!(read.column(0).as_ref(), new_null_array(&DataType::Int32, 3).as_ref());
    assert_eq!(read.column(2).as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    request.projection = vec![2];
    assert_eq!(written.read(&request)[0].column(0).null_count(), 3);
}

#[test]
fn rows_without_columns_are_counted() {
    let written = Written::new(&schema(1), &[batch(&schema(1), &[1, 2, 3])], Tier::Fresh);
    let mut request = ScanRequest::all(&schema(1));
    request.projection = Vec::new();
    let rows = written.read(&request).iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows, 3);
}

/// Keeps containers in which `k` may be this value.
struct KeyIs(i64, [ColumnId; 1]);

impl Prune for KeyIs {
    fn columns(&self) -> &[ColumnId] {
        &self.1
    }

    fn keep(&self, containers: &Containers) -> Vec<bool> {
        let bounds = containers.column(ColumnId(1)).unwrap();
        let min = bounds.min.as_primitive::<Int64Type>();
        let max = bounds.max.as_primitive::<Int64Type>();
        assert_eq!(containers.rows.len(), min.len());
        min.iter().zip(max).map(|(min, max)| min <= Some(self.0) && Some(self.0) <= max).collect()
    }
}

#[test]
fn only_pages_that_may_hold_the_key_are_read() {
    let all = (0..300_000).collect::<Vec<i64>>();
    let written = Written::new(&schema(1), &[batch(&schema(1), &all)], Tier::Fresh);
    let segment = written.open();
    let mut request = ScanRequest::all(&schema(1));
    for (key, pages) in [(0, 32), (4095, 32), (4096, 32), (131_072, 32), (299_999, 10)] {
        request.prune = Some(Arc::new(KeyIs(key, [ColumnId(1)])));
        let scan = segment.scan(&request, Share::WHOLE, &DeadRows::default()).unwrap();
        let left = Pruned { row_groups: 3, row_groups_left: 1, pages, pages_left: 1 };
        assert_eq!(scan.pruned(), left);
        let found = keys(&scan.map(Result::unwrap).collect::<Vec<_>>());
        assert!(found.contains(&key));
        assert_eq!(found.len() as i64, 4096.min(300_000 - key / 4096 * 4096));
    }
    request.prune = Some(Arc::new(KeyIs(300_000, [ColumnId(1)])));
    assert!(keys(&written.read(&request)).is_empty());
    let range = segment.known_ranges(&[ColumnId(1)]).unwrap().remove(0).unwrap();
    assert_eq!(range.min.as_primitive::<Int64Type>().value(0), 0);
    assert_eq!(range.max.as_primitive::<Int64Type>().value(0), 299_999);
    assert_eq!(range.null_count, Some(0));
}

/// Keeps everything, and records for which text columns there were bounds.
struct Told([ColumnId; 2], Mutex<Vec<bool>>);

impl Prune for Told {
    fn columns(&self) -> &[ColumnId] {
        &self.0
    }

    fn keep(&self, containers: &Containers) -> Vec<bool> {
        let known = |id: &ColumnId| containers.column(*id).unwrap().min.null_count() == 0;
        self.1.lock().extend(self.0.iter().map(known));
        vec![true; containers.rows.len()]
    }
}

#[test]
fn texts_in_no_order_have_no_bounds_and_are_read_all_the_same() {
    let text = |id, name| column(id, name, ColumnType::VarChar { len: 20 });
    let columns = vec![text(1, "near"), text(2, "far")];
    let schema = Arc::new(TableSchema::new(SchemaVersion(1), columns, vec![0]));
    let near = (0..20_000u64).map(|row| Some(format!("{row:06}")));
    let far = (0..20_000u64).map(|row| Some(format!("{}", row.wrapping_mul(0x9e37_79b9) % 9973)));
    let columns: [ArrayRef; 2] =
        [Arc::new(StringViewArray::from_iter(near)), Arc::new(StringViewArray::from_iter(far))];
    let batch = RecordBatch::try_new(Arc::clone(schema.arrow()), columns.to_vec()).unwrap();
    let written = Written::new(&schema, std::slice::from_ref(&batch), Tier::Fresh);
    let told = Arc::new(Told([ColumnId(1), ColumnId(2)], Mutex::default()));
    let request = ScanRequest { prune: Some(Arc::clone(&told) as _), ..ScanRequest::all(&schema) };
    let read = concat_batches(schema.arrow(), &written.read(&request)).unwrap();
    assert_eq!(read, batch);
    // For the row group, then for its pages.
    assert_eq!(*told.1.lock(), [true, false, true, false]);
    let segment = written.open();
    assert!(segment.known_ranges(&[ColumnId(1)]).is_none(), "nobody has read its footer");
    block_on(segment.read_footer()).unwrap();
    let ranges = segment.known_ranges(&[ColumnId(1), ColumnId(2)]).unwrap();
    assert!(ranges[0].is_some() && ranges[1].is_none());
}

#[test]
fn shares_are_read_apart() {
    let all = (0..300_000).collect::<Vec<i64>>();
    let written = Written::new(&schema(1), &[batch(&schema(1), &all)], Tier::Cold);
    let segment = written.open();
    let request = ScanRequest::all(&schema(1));
    let mut found = Vec::new();
    for of in [1, 2, 3, 5] {
        for at in 0..of {
            let scan = segment.scan(&request, Share { at, of }, &DeadRows::default()).unwrap();
            found.extend(keys(&scan.map(Result::unwrap).collect::<Vec<_>>()));
        }
        assert_eq!(found, all);
        found.clear();
    }
}

#[test]
fn any_flipped_byte_is_named_and_nothing_wrong_is_served() {
    let all = (0..40_000).map(|key| key * 7919 % 40_000).collect::<Vec<i64>>();
    let written = Written::new(&schema(1), &[batch(&schema(1), &all)], Tier::Fresh);
    let path = written.dir.path().join(&written.meta.file);
    let good = written.fs.read(&path).unwrap();
    let data = written.meta.data_bytes as usize;
    assert!(data > 3 * checksum::BLOCK_BYTES, "the test needs several blocks");
    let places = [0, 3, 4, 1000, checksum::BLOCK_BYTES, data - 1, data, data + 1, good.len() - 9];
    for at in places.into_iter().chain([good.len() - 1, (data + good.len()) / 2]) {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        written.fs.write_atomic(&path, &bad).unwrap();
        let error = written.open().verify().unwrap_err();
        let Error::Corruption { file, offset, .. } = &error else { panic!("{error}") };
        assert_eq!(file, &path);
        let expected = match at < data {
            true => at / checksum::BLOCK_BYTES * checksum::BLOCK_BYTES,
            false => data,
        };
        assert_eq!(*offset, expected as u64, "flipped at {at}");
        // The magic bytes at the start belong to no column, so a scan need not detect this.
        if at > 3 {
            let scan = written.open();
            let scan = scan.scan(&ScanRequest::all(&schema(1)), Share::WHOLE, &DeadRows::default());
            let first = scan.and_then(|scan| scan.collect::<Result<Vec<_>, _>>());
            assert!(matches!(first, Err(Error::Corruption { .. })), "flipped at {at}");
        }
    }
    written.fs.write_atomic(&path, &good[..good.len() - 1]).unwrap();
    let cut = block_on(written.open().read_footer());
    assert!(matches!(cut, Err(Error::Corruption { .. })));
    written.fs.write_atomic(&path, &good).unwrap();
    assert_eq!(keys(&written.read(&ScanRequest::all(&schema(1)))), all);
}

#[test]
fn a_column_of_few_values_gets_a_dictionary_and_a_key_does_not() {
    let schema = Arc::new(TableSchema::new(
        SchemaVersion(1),
        vec![
            column(1, "few", ColumnType::VarChar { len: 10 }),
            column(2, "many", ColumnType::VarChar { len: 10 }),
        ],
        vec![0],
    ));
    let few = (0..5000).map(|row| Some(["a", "b", "c"][row % 3])).collect::<Vec<_>>();
    let many = (0..5000).map(|row| Some(format!("{row}"))).collect::<Vec<_>>();
    let few = StringViewArray::from(few);
    let many = StringViewArray::from_iter(many);
    let batch =
        RecordBatch::try_new(Arc::clone(schema.arrow()), vec![Arc::new(few), Arc::new(many)]);
    assert_eq!(dictionary::choose(&batch.unwrap()).unwrap(), [true, false]);
}

/// A store that records reads and answers them when its gate is opened.
struct Gated {
    files: FileStore,
    reads: Mutex<Vec<Vec<Range<u64>>>>,
    gate: Shared<oneshot::Receiver<()>>,
}

impl SegmentStore for Gated {
    fn read(
        &self,
        path: &Path,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'static, io::Result<Vec<Bytes>>> {
        self.reads.lock().push(ranges.clone());
        let (gate, read) = (self.gate.clone(), self.files.read(path, ranges));
        Box::pin(gate.then(|_| read))
    }

    fn read_blocking(&self, path: &Path, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        self.reads.lock().push(ranges.to_vec());
        self.files.read_blocking(path, ranges)
    }
}

/// Access to segments with a gate, and what opens it.
struct GatedSegments {
    store: Arc<Gated>,
    access: Arc<SegmentAccess>,
    metrics: Arc<Metrics>,
    open: oneshot::Sender<()>,
}

impl GatedSegments {
    fn new(memory_bytes: u64) -> Self {
        let (open, gate) = oneshot::channel();
        let files = FileStore::new(Arc::new(RealFs), Arc::new(InlinePool));
        let store = Gated { files, reads: Mutex::default(), gate: gate.shared() };
        let (store, metrics) = (Arc::new(store), Arc::new(Metrics::new()));
        let memory = Budget::new("memory of footers", memory_bytes);
        let access = SegmentAccess::new(
            Arc::clone(&store) as _,
            memory,
            ByteSize::mib(4),
            Arc::clone(&metrics),
        );
        Self { store, access, metrics, open }
    }

    fn segment(&self, written: &Written) -> Segment {
        let path = written.dir.path().join(&written.meta.file);
        Segment::new(&self.access, path, written.meta.clone(), Arc::clone(&written.schema))
    }

    fn hits_and_misses(&self) -> (u64, u64) {
        (self.metrics.footer_hits.get(), self.metrics.footer_misses.get())
    }
}

#[test]
fn a_footer_is_read_once_however_many_ask_for_it() {
    let written = Written::new(&schema(1), &[batch(&schema(1), &[1, 2])], Tier::Fresh);
    let gated = GatedSegments::new(u64::MAX);
    let segment = gated.segment(&written);
    let mut first = Box::pin(segment.read_footer());
    let mut second = Box::pin(segment.read_footer());
    let mut third = Box::pin(segment.read_footer());
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    assert!(third.as_mut().now_or_never().is_none());
    assert_eq!(gated.store.reads.lock().len(), 1);
    // The reader gives up: one of the waiters reads the footer, and the last one waits for that.
    drop(first);
    assert!(second.as_mut().now_or_never().is_none());
    assert!(third.as_mut().now_or_never().is_none());
    assert_eq!(gated.store.reads.lock().len(), 2);
    gated.open.send(()).unwrap();
    block_on(second).unwrap();
    block_on(third).unwrap();
    assert_eq!(gated.store.reads.lock().len(), 2);
    let (hits, misses) = (&gated.metrics.footer_hits, &gated.metrics.footer_misses);
    assert_eq!((hits.get(), misses.get()), (1, 2));
}

/// A reader that is polled as soon as another one that it is the waker of could go on.
struct Next(Mutex<BoxFuture<'static, Result<Arc<CachedFooter>>>>);

impl ArcWake for Next {
    fn wake_by_ref(next: &Arc<Self>) {
        assert!(next.0.lock().as_mut().now_or_never().is_none());
    }
}

#[test]
fn a_footer_without_room_is_read_by_one_at_a_time() {
    let written = Written::new(&schema(1), &[batch(&schema(1), &[1, 2])], Tier::Fresh);
    let path = written.dir.path().join(&written.meta.file);
    let range = source::footer_range(&path, &written.meta).unwrap();
    let bytes = Bytes::from(written.fs.read(&path).unwrap());
    let bytes = bytes.slice(range.start as usize..range.end as usize);
    let open = Open::read(bytes, &path, &written.meta, &written.schema).unwrap();
    let (memory, metrics) = (Budget::new("memory of footers", 1), Arc::new(Metrics::new()));
    let footers = Arc::new(Footers::new(memory, Arc::clone(&metrics)));
    let number = footers.number();
    let get = |read: BoxFuture<'static, Result<Open>>| {
        let footers = Arc::clone(&footers);
        async move { footers.get(number, WaitMode::Awaiting, read).await }.boxed()
    };
    let never = || futures::future::pending().boxed();
    let (send, read) = oneshot::channel();
    let mut first = get(read.map(|open| open.unwrap()).boxed());
    assert!(first.as_mut().now_or_never().is_none());
    // The one who waits lets the next one read while the first one is about to return.
    let mut waiting = get(never());
    let waker = waker(Arc::new(Next(Mutex::new(get(never())))));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    send.send(Ok(open)).ok().unwrap();
    assert!(first.now_or_never().unwrap().is_ok());
    assert_eq!(metrics.footer_misses.get(), 2, "the next one reads");
    let mut late = get(never());
    assert!(late.as_mut().now_or_never().is_none());
    assert_eq!(metrics.footer_misses.get(), 2, "nobody else reads meanwhile");
    // Who blocks a thread that the reader may need waits for nobody.
    let own = futures::future::ready(Err(Error::corruption(&path, 0, "read by itself")));
    let blocking = footers.get(number, WaitMode::Blocking, own).now_or_never();
    assert!(blocking.expect("it does not wait").is_err());
    assert_eq!(metrics.footer_misses.get(), 3, "it reads itself");
}

#[test]
fn footers_stay_within_their_memory_and_the_least_used_goes() {
    let one = |key| Written::new(&schema(1), &[batch(&schema(1), &[key])], Tier::Fresh);
    let files = [one(1), one(2), one(3)];
    let gated = GatedSegments::new(u64::MAX);
    let first = gated.segment(&files[0]);
    first.verify().unwrap();
    let each = gated.access.footer_memory().used_bytes();
    assert!(each > 0);
    drop(first);
    assert_eq!(gated.access.footer_memory().used_bytes(), 0, "a segment takes its footer along");

    let gated = GatedSegments::new(2 * each + each / 2);
    let segments = files.each_ref().map(|file| gated.segment(file));
    let [a, b, c] = &segments;
    for segment in [a, b, a, c] {
        segment.verify().unwrap();
    }
    let known = segments.each_ref().map(|segment| segment.known_ranges(&[]).is_some());
    assert_eq!(known, [true, false, true]);
    assert_eq!(gated.hits_and_misses(), (1, 3));
    assert!(gated.access.footer_memory().used_bytes() <= 2 * each + each / 2);
    // A segment that is being read counts, although its footer is no longer in the cache.
    let scan = a.scan(&ScanRequest::all(&schema(1)), Share::WHOLE, &DeadRows::default()).unwrap();
    for segment in [b, c] {
        segment.verify().unwrap();
    }
    assert!(a.known_ranges(&[]).is_none());
    assert_eq!(scan.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 1);
    drop(segments);
    assert_eq!(gated.access.footer_memory().used_bytes(), 0);
}

#[test]
fn a_scan_reads_neighbours_at_once_and_large_row_groups_in_pieces() {
    let number = ColumnType::BigInt { unsigned: false };
    let text = ColumnType::VarChar { len: 400 };
    let columns = vec![column(1, "a", number), column(2, "b", text), column(3, "c", number)];
    let schema = Arc::new(TableSchema::new(SchemaVersion(1), columns, vec![0]));
    let noise = |row: u64, salt: u64| (row ^ salt << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
    let numbers = |salt| (0..60_000).map(move |row| noise(row, salt).cast_signed());
    let text = |row| (0..20).map(|at| format!("{:016x}", noise(row, at))).collect::<String>();
    let columns: [ArrayRef; 3] = [
        Arc::new(Int64Array::from_iter_values(numbers(1))),
        Arc::new(StringViewArray::from_iter_values((0..60_000).map(text))),
        Arc::new(Int64Array::from_iter_values(numbers(2))),
    ];
    let batch = RecordBatch::try_new(Arc::clone(schema.arrow()), columns.to_vec()).unwrap();
    let written = Written::new(&schema, std::slice::from_ref(&batch), Tier::Fresh);
    let gated = GatedSegments::new(u64::MAX);
    let segment = gated.segment(&written);
    gated.open.send(()).unwrap();
    for (projection, reads) in [(vec![0], 1), (vec![2, 0], 2), (vec![0, 1, 2], 2)] {
        gated.store.reads.lock().clear();
        let request = ScanRequest { projection, ..ScanRequest::all(&schema) };
        let read = block_on(async {
            let mut scan =
                segment.scan_awaiting(&request, Share::WHOLE, &DeadRows::default()).await.unwrap();
            let mut batches = Vec::new();
            while let Some(batch) = scan.next_batch().await {
                batches.push(batch.unwrap());
            }
            concat_batches(&batches[0].schema(), &batches).unwrap()
        });
        assert_eq!(read, batch.project(&request.projection).unwrap());
        let asked = gated.store.reads.lock().iter().map(|read| read.to_vec()).collect::<Vec<_>>();
        let columns = request.projection.len();
        // Two columns that are not adjacent are two ranges of one read; three are one range, in as
        // many windows as their bytes need.
        let data = asked.iter().filter(|ranges| ranges[0].start < written.meta.data_bytes);
        let data = data.collect::<Vec<_>>();
        match columns {
            3 => assert!(data.len() > 1, "{asked:?}"),
            _ => assert_eq!((data.len(), data[0].len()), (1, reads), "{asked:?}"),
        }
        let largest = data.iter().map(|ranges| ranges.iter().map(|r| r.end - r.start).sum::<u64>());
        assert!(largest.max() < Some(12 << 20), "{asked:?}");
    }
}
