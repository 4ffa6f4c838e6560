//! E7: one file for 32 buckets, or 32 files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
use freshet_base::io::{FsRef, RealFs};
use freshet_base::task::{InlinePool, Lane};
use freshet_base::{ColumnId, Lsn, RowsetId, SchemaVersion, TableId, TabletId};
use freshet_schema::{Column, ColumnType, Distribution, Table, TableSchema, hash};
use freshet_storage::flush::{Files, FlushInput, flush};
use freshet_storage::layout::DataDir;
use freshet_storage::segment::SegmentAccess;
use futures::executor::block_on;

use crate::{Random, nanos_each, setting, timed};

const BUCKETS: u32 = 32;
const BATCH_ROWS: usize = 8192;

/// A key, the bucket of each row, and the other columns of sysbench's table.
fn batch(schema: &TableSchema, random: &mut Random) -> RecordBatch {
    let keys = (0..BATCH_ROWS).map(|_| random.below(1 << 24) as i32).collect::<Vec<_>>();
    let text = |random: &mut Random, groups: usize| {
        let group = |_| format!("{:011}-", random.below(100_000_000_000));
        (0..groups).map(group).collect::<String>()
    };
    let texts = |random: &mut Random, groups: usize| -> ArrayRef {
        let all = (0..BATCH_ROWS).map(|_| text(random, groups)).collect::<Vec<_>>();
        Arc::new(StringViewArray::from_iter_values(all))
    };
    let numbers = (0..BATCH_ROWS).map(|_| random.below(1 << 20) as i32).collect::<Vec<_>>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(keys)),
        Arc::new(Int32Array::from(vec![0; BATCH_ROWS])),
        Arc::new(Int32Array::from(numbers)),
        texts(random, 10),
        texts(random, 5),
    ];
    let batch = RecordBatch::try_new(Arc::clone(schema.arrow()), columns).unwrap();
    let by_key = Distribution::Hash(vec![ColumnId(1)]);
    let places = hash::Places::new(&batch, schema, &by_key, 0);
    let buckets = (0..BATCH_ROWS).map(|row| places.bucket(row, BUCKETS) as i32);
    let mut columns = batch.columns().to_vec();
    columns[1] = Arc::new(Int32Array::from_iter_values(buckets));
    RecordBatch::try_new(Arc::clone(schema.arrow()), columns).unwrap()
}

fn schema(sort_key: &[usize]) -> TableSchema {
    let int = ColumnType::Int { unsigned: false };
    let text = ColumnType::VarChar { len: 120 };
    let types = [int, int, int, text, text];
    let column = |(at, ty): (usize, ColumnType)| Column {
        nullable: false,
        ..Column::new(ColumnId(at as u32 + 1), format!("c{at}"), ty)
    };
    let columns = types.into_iter().enumerate().map(column).collect();
    TableSchema::new(SchemaVersion(1), columns, sort_key.to_vec())
}

fn table(schema: TableSchema, tablets: u64) -> Arc<Table> {
    let plain = Table::plain(TableId(1), schema, (1..=tablets).map(TabletId).collect());
    Arc::new(Table { distribution: Distribution::Hash(vec![ColumnId(1)]), ..plain })
}

/// The time of a flush up to the last sync, and the bytes of its files.
fn flushed(root: &Path, table: &Arc<Table>, batches: &[RecordBatch]) -> (Duration, u64) {
    let fs: FsRef = Arc::new(RealFs);
    let segments = SegmentAccess::of_files(&fs);
    let files = Files { fs, dir: DataDir::new(root), pool: Arc::new(InlinePool), segments };
    let input = FlushInput {
        lane: Lane::Background,
        table: Arc::clone(table),
        schema: Arc::clone(table.schema()),
        batches: batches.to_vec(),
        lsns: (Lsn(1), Lsn(2)),
        turn: 0,
    };
    let mut id = 0;
    let next_id = || {
        id += 1;
        RowsetId(id)
    };
    let (time, written) = timed(|| block_on(flush(&files, input, u64::MAX, next_id)).unwrap());
    let bytes = written.iter().map(|written| written.rowset.bytes()).sum();
    std::fs::remove_dir_all(root).unwrap();
    (time, bytes)
}

pub fn run() {
    let dir = tempfile::tempdir_in(std::env::var("DIR").unwrap_or("/var/tmp".into())).unwrap();
    let one_bucket = table(schema(&[0]), 1);
    // Sorted by bucket and key, as the file of all buckets will be.
    let one_file = table(schema(&[1, 0]), 1);
    let many_files = table(schema(&[0]), u64::from(BUCKETS));
    let ways = [("1 bucket", one_bucket), ("32 in one file", one_file), ("32 files", many_files)];
    for batches in [1, 8, 40] {
        let mut random = Random::new();
        let of = ways[0].1.schema();
        let batches = (0..batches).map(|_| batch(of, &mut random)).collect::<Vec<_>>();
        let rows = batches.len() * BATCH_ROWS;
        // One way after the other in each round: the device has good and bad moments.
        let mut best = [(Duration::MAX, 0); 3];
        for _ in 0..setting("ROUNDS", 5) * 2 {
            for ((_, table), best) in ways.iter().zip(&mut best) {
                *best = flushed(&dir.path().join("data"), table, &batches).min(*best);
            }
        }
        for ((name, _), (time, bytes)) in ways.iter().zip(best) {
            let ratio = time.as_secs_f64() / best[0].0.as_secs_f64();
            println!(
                "{rows:6} rows, {name:14}: {:6.2} ms, {:.0} ns a row, {:.1} bytes a row, \
                 {ratio:.2} times one bucket",
                time.as_secs_f64() * 1e3,
                nanos_each(time, rows),
                bytes as f64 / rows as f64,
            );
        }
    }
}
