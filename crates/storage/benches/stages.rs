//! Benchmarks of the stages between the log and files, on keys like lineitem's: push into a delta,
//! the sort of a memtable compared with alternatives, writing a segment, a merge.
//! `cargo bench -p freshet-storage`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
};
use criterion::{BatchSize, Criterion, Throughput};
use crossbeam_skiplist::SkipMap;
use freshet_base::budget::Budget;
use freshet_base::io::{FsRef, RealFs};
use freshet_base::task::{InlinePool, Lane};
use freshet_base::{
    ColumnId, Incarnation, Lsn, PartitionId, RowsetId, SchemaVersion, SegmentId, TableId, TabletId,
    TxnId, Version,
};
use freshet_schema::{Column, ColumnType, Distribution, Table, TableSchema, encode};
use freshet_storage::compaction::{self, MergeJob};
use freshet_storage::delta::{Delta, Payload};
use freshet_storage::flush::{Files, FlushInput, flush};
use freshet_storage::fold::{Base, Body, Event, Load, TableLog};
use freshet_storage::layout::DataDir;
use freshet_storage::merge::{Merge, Run};
use freshet_storage::segment::{SegmentAccess, SegmentSpec, SegmentWriter, Tier};
use freshet_storage::sort::Rows;
use futures::executor::block_on;

/// Rows to sort, write and merge.
const ROWS: usize = 1 << 18;
const BATCH_ROWS: usize = 8192;
const MERGED_RUNS: usize = 8;
const COMPACTED_RUNS: usize = 12;

type Key = (i64, i64, i64, i32);

/// Keys in the order of thirty concurrent writers: nearly ascending, interleaved.
fn lineitem_keys(count: usize) -> Vec<Key> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below) as i64
    };
    let key = |row: i64| {
        let order = (row / 4 + random(100_000)) * 4;
        (order, random(200_000), random(10_000), random(7) as i32 + 1)
    };
    (0..count as i64).map(key).collect()
}

fn schema() -> Arc<TableSchema> {
    let big = ColumnType::BigInt { unsigned: false };
    let int = ColumnType::Int { unsigned: false };
    let text = ColumnType::VarChar { len: 44 };
    let types = [big, big, big, int, text];
    let column = |(at, ty): (usize, ColumnType)| Column {
        nullable: false,
        ..Column::new(ColumnId(at as u32 + 1), format!("c{at}"), ty)
    };
    let columns = types.into_iter().enumerate().map(column).collect();
    Arc::new(TableSchema::new(SchemaVersion(1), columns, vec![0, 1, 2, 3]))
}

fn batch(schema: &TableSchema, keys: &[Key]) -> RecordBatch {
    let longs = |pick: fn(&Key) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(keys.iter().map(pick)))
    };
    let lines = Arc::new(Int32Array::from_iter_values(keys.iter().map(|key| key.3)));
    let text = |key: &Key| format!("carefully final deposits {}", key.1);
    let texts = Arc::new(StringViewArray::from_iter_values(keys.iter().map(text)));
    let columns = vec![longs(|key| key.0), longs(|key| key.1), longs(|key| key.2), lines, texts];
    RecordBatch::try_new(Arc::clone(schema.arrow()), columns).unwrap()
}

/// The memtable of earlier versions of Doris.
fn skip_list(keys: &[Key]) -> Vec<u32> {
    let map = SkipMap::new();
    for (key, row) in keys.iter().zip(0u32..) {
        map.insert((*key, row), ());
    }
    map.iter().map(|entry| entry.key().1).collect()
}

fn row_wise(keys: &[Key]) -> Vec<u32> {
    let mut rows = keys.iter().copied().zip(0u32..).collect::<Vec<_>>();
    rows.sort_unstable();
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The memtable sort of current versions of Doris.
fn column_first(keys: &[Key]) -> Vec<u32> {
    let mut rows = (0..keys.len() as u32).collect::<Vec<_>>();
    let key = |row: &u32| keys[*row as usize];
    rows.sort_unstable_by_key(|row| (key(row).0, *row));
    for ties in rows.chunk_by_mut(|a, b| key(a).0 == key(b).0) {
        if ties.len() > 1 {
            ties.sort_unstable_by_key(|row| (key(row), *row));
        }
    }
    rows
}

fn prefix_by_comparison(keys: &[Key]) -> Vec<u32> {
    let mut rows = keys.iter().map(|key| key.0).zip(0u32..).collect::<Vec<_>>();
    rows.sort_unstable();
    for ties in rows.chunk_by_mut(|a, b| a.0 == b.0) {
        if ties.len() > 1 {
            ties.sort_unstable_by_key(|(_, row)| (keys[*row as usize], *row));
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

fn sort(criterion: &mut Criterion, schema: &TableSchema, keys: &[Key]) {
    let rows = Rows::new(schema, &[batch(schema, keys)]).unwrap();
    let all = (0..keys.len() as u32).collect::<Vec<_>>();
    let radix = || rows.keys(schema).sort(&all);
    let ways: [(&str, &dyn Fn() -> Vec<u32>); 5] = [
        ("skip list", &|| skip_list(keys)),
        ("whole rows by comparison", &|| row_wise(keys)),
        ("first column, ties by the others", &|| column_first(keys)),
        ("8-byte prefix by comparison", &|| prefix_by_comparison(keys)),
        ("8-byte prefix by radix, ours", &radix),
    ];
    let expected = radix();
    let mut group = criterion.benchmark_group("memtable sort");
    group.throughput(Throughput::Elements(keys.len() as u64)).sample_size(10);
    for (name, way) in ways {
        assert_eq!(way(), expected, "{name}: all ways give one order");
        group.bench_function(name, |bencher| bencher.iter(way));
    }
    group.finish();
}

fn delta_push(criterion: &mut Criterion, schema: &Arc<TableSchema>, keys: &[Key]) {
    let budget = Budget::new("bench", u64::MAX);
    let mut group = criterion.benchmark_group("delta push");
    for rows in [1, 100] {
        let mut bytes = Vec::new();
        encode(&batch(schema, &keys[..rows]), schema, &mut bytes);
        let enter = |log: &mut TableLog, lsn: u64| {
            let body = Body::Rows {
                schema_version: schema.version,
                rows: rows as u32,
                removals: 0,
                payload: Payload::Copied(&bytes),
                permit: budget.acquire_over(bytes.len() as u64),
            };
            let (incarnation, txn) = (Incarnation(0), TxnId(1));
            let load = Load { incarnation, txn, ends_with: None, ended: None, body };
            log.enter(Lsn(lsn), Event::Load(load))
        };
        let new = || {
            let delta = Delta::new(TableId(1), std::slice::from_ref(schema));
            let base = Base {
                partition: PartitionId(1),
                incarnation: Incarnation(0),
                schema_version: schema.version,
                version: Version(1),
                flushed: Lsn(0),
                counted: Lsn(0),
            };
            TableLog::new(Arc::new(delta), base)
        };
        group.throughput(Throughput::Elements(1000 * rows as u64));
        group.bench_function(format!("1000 records of {rows} rows"), |bencher| {
            bencher.iter_batched(
                new,
                |mut log| {
                    (1..=1000).for_each(|lsn| drop(enter(&mut log, lsn)));
                    log
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// Sorted keys, divided into batches.
fn sorted(schema: &TableSchema, keys: &[Key]) -> Vec<RecordBatch> {
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    keys.chunks(BATCH_ROWS).map(|keys| batch(schema, keys)).collect()
}

fn segment_write(criterion: &mut Criterion, schema: &Arc<TableSchema>, keys: &[Key]) {
    let batches = sorted(schema, keys);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("segment");
    let mut group = criterion.benchmark_group("segment write");
    group.throughput(Throughput::Elements(keys.len() as u64)).sample_size(10);
    for tier in [Tier::Fresh, Tier::Cold] {
        group.bench_function(format!("{tier:?}"), |bencher| {
            bencher.iter(|| {
                let spec = SegmentSpec {
                    schema,
                    table: TableId(1),
                    tablet: TabletId(1),
                    lsns: (Lsn(1), Lsn(2)),
                    tier,
                    has_keys: false,
                    stores_rows: false,
                    indexes: &[],
                };
                let mut writer = SegmentWriter::create(&RealFs, &path, &spec, &batches[0]).unwrap();
                batches.iter().for_each(|batch| writer.write(batch).unwrap());
                writer.finish(SegmentId(1)).unwrap();
                std::fs::remove_file(&path).unwrap();
            });
        });
    }
    group.finish();
}

/// Sixteen columns with values like lineitem's, in the order of thirty concurrent writers.
fn lineitem(rows: usize) -> (Arc<Table>, Vec<RecordBatch>) {
    let int = ColumnType::Int { unsigned: false };
    let big = ColumnType::BigInt { unsigned: false };
    let amount = ColumnType::Decimal { precision: 15, scale: 2 };
    let text = |len| ColumnType::VarChar { len };
    let types = [big, int, int, int, amount, amount, amount, amount, text(1), text(1)];
    let rest = [ColumnType::Date, ColumnType::Date, ColumnType::Date, text(25), text(10), text(44)];
    let column = |(at, ty): (usize, ColumnType)| Column {
        nullable: false,
        ..Column::new(ColumnId(at as u32 + 1), format!("c{at}"), ty)
    };
    let columns = types.into_iter().chain(rest).enumerate().map(column).collect();
    let schema = TableSchema::new(SchemaVersion(1), columns, vec![0, 1, 2, 3]);
    let keys = lineitem_keys(rows);
    let batches = keys.chunks(BATCH_ROWS).map(|keys| lineitem_batch(&schema, keys)).collect();
    (Arc::new(table(schema)), batches)
}

fn lineitem_batch(schema: &TableSchema, keys: &[Key]) -> RecordBatch {
    let number = |key: &Key, below: i64| (key.0 * 31 + key.1 * 17 + key.2) % below;
    let ints = |below: i64| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(keys.iter().map(|key| number(key, below) as i32)))
    };
    let amounts = |below: i64| -> ArrayRef {
        let values = keys.iter().map(|key| i128::from(number(key, below)));
        let values = Decimal128Array::from_iter_values(values);
        Arc::new(values.with_precision_and_scale(15, 2).unwrap())
    };
    let dates = |first: i32| -> ArrayRef {
        let values = keys.iter().map(|key| first + number(key, 2500) as i32);
        Arc::new(Date32Array::from_iter_values(values))
    };
    let words = |words: &[&str]| -> ArrayRef {
        let values = keys.iter().map(|key| words[number(key, words.len() as i64) as usize]);
        Arc::new(StringViewArray::from_iter_values(values))
    };
    let comment = |key: &Key| format!("ly final deposits {}", number(key, 1 << 40));
    let instructions = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
    let modes = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(keys.iter().map(|key| key.0))),
        ints(200_000),
        ints(10_000),
        ints(7),
        amounts(5000),
        amounts(10_000_000),
        amounts(11),
        amounts(9),
        words(&["N", "R", "A"]),
        words(&["O", "F"]),
        dates(8036),
        dates(8066),
        dates(8096),
        words(&instructions),
        words(&modes),
        Arc::new(StringViewArray::from_iter_values(keys.iter().map(comment))),
    ];
    RecordBatch::try_new(Arc::clone(schema.arrow()), columns).unwrap()
}

fn table(schema: TableSchema) -> Table {
    let plain = Table::plain(TableId(1), schema, (1..=10).map(TabletId).collect());
    Table { distribution: Distribution::Hash(vec![ColumnId(1)]), ..plain }
}

/// Flush of ten tablets, from columns to synced files.
fn files(root: &Path) -> Files {
    let fs: FsRef = Arc::new(RealFs);
    let segments = SegmentAccess::of_files(&fs);
    Files { fs, dir: DataDir::new(root), pool: Arc::new(InlinePool), segments }
}

fn flushed(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let mut group = criterion.benchmark_group("flush of lineitem");
    group.sample_size(10);
    for rows in [ROWS, 8 * ROWS] {
        let (table, batches) = lineitem(rows);
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_function(format!("{rows} rows"), |bencher| {
            bencher.iter(|| {
                let mut id = 0;
                let input = FlushInput {
                    lane: Lane::Background,
                    table: Arc::clone(&table),
                    schema: Arc::clone(table.schema()),
                    batches: batches.clone(),
                    lsns: (Lsn(1), Lsn(2)),
                    turn: 0,
                };
                let next_id = || {
                    id += 1;
                    RowsetId(id)
                };
                let written = block_on(flush(&files, input, u64::MAX, next_id)).unwrap();
                assert_eq!(written.len(), 10);
                std::fs::remove_dir_all(dir.path()).unwrap();
            });
        });
    }
    group.finish();
}

/// Compaction of one tablet's rowsets from file to file, including verification.
fn compacted(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let (table, batches) = lineitem(COMPACTED_RUNS * ROWS);
    let mut id = 0;
    let mut next_id = || {
        id += 1;
        RowsetId(id)
    };
    let mut rowsets = Vec::new();
    for (batches, lsn) in batches.chunks(batches.len() / COMPACTED_RUNS).zip(1..) {
        let input = FlushInput {
            lane: Lane::Background,
            table: Arc::clone(&table),
            schema: Arc::clone(table.schema()),
            batches: batches.to_vec(),
            lsns: (Lsn(lsn), Lsn(lsn)),
            turn: lsn,
        };
        let written = block_on(flush(&files, input, u64::MAX, &mut next_id)).unwrap();
        let meta = written[0].rowset.clone();
        rowsets.push(Arc::new(files.rowset(table.id, meta, table.schema())));
    }
    let job = MergeJob {
        table: table.id,
        tablet: rowsets[0].meta().tablet,
        schema: Arc::clone(table.schema()),
        rowsets,
        id: next_id(),
        segment_bytes_max: u64::MAX,
        cold_bytes_min: u64::MAX,
        is_keyed: false,
        stores_rows: false,
        indexes: Vec::new(),
        aging: None,
    };
    let rows = job.rowsets.iter().map(|rowset| rowset.rows()).sum::<u64>();
    let mut group = criterion.benchmark_group("compaction of lineitem");
    group.sample_size(10).throughput(Throughput::Elements(rows));
    group.bench_function(format!("{rows} rows in {COMPACTED_RUNS} rowsets"), |bencher| {
        bencher.iter(|| {
            let mut pace = || ControlFlow::Continue(());
            let merged = compaction::merge(&files, &job, &mut pace).unwrap().unwrap();
            assert_eq!(merged.rowset.rows, rows);
            let folder = files.dir.tablet(job.table, job.tablet);
            std::fs::remove_file(folder.join(&merged.rowset.segments[0].file)).unwrap();
        });
    });
    group.finish();
}

fn merge(criterion: &mut Criterion, schema: &Arc<TableSchema>, keys: &[Key]) {
    let runs: Vec<_> =
        keys.chunks(keys.len() / MERGED_RUNS).map(|keys| sorted(schema, keys)).collect();
    let mut group = criterion.benchmark_group("merge");
    group.throughput(Throughput::Elements(keys.len() as u64)).sample_size(10);
    group.bench_function(format!("{MERGED_RUNS} runs"), |bencher| {
        bencher.iter(|| {
            let run = |batches: &Vec<RecordBatch>| -> Run {
                Box::new(batches.clone().into_iter().map(Ok))
            };
            let merge = Merge::new(runs.iter().map(run).collect(), schema, BATCH_ROWS).unwrap();
            let rows: usize = merge.map(|batch| batch.unwrap().num_rows()).sum();
            assert_eq!(rows, keys.len());
        });
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let (schema, keys) = (schema(), lineitem_keys(ROWS));
    delta_push(&mut criterion, &schema, &keys);
    sort(&mut criterion, &schema, &keys);
    segment_write(&mut criterion, &schema, &keys);
    flushed(&mut criterion);
    merge(&mut criterion, &schema, &keys);
    compacted(&mut criterion);
    criterion.final_summary();
}
