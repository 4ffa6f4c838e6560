//! How fast a memtable's rows get sorted, way by way, over a million keys like lineitem's
//! (order, part, supplier, line): `cargo run --release -p freshet-storage --example sort_speed`.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use crossbeam_skiplist::SkipMap;
use freshet_base::clock::{Clock, SystemClock};
use freshet_base::{ColumnId, SchemaVersion};
use freshet_schema::{Collation, Column, ColumnType, LengthUnit, TableSchema};
use freshet_storage::sort::Rows;

const ROWS: usize = 1 << 20;
const REPEATS: usize = 3;

type Key = (i64, i64, i64, i32);

/// Keys in the order in which thirty writers would bring them: nearly rising, interleaved.
fn lineitem_keys() -> Vec<Key> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below) as i64
    };
    (0..ROWS as i64)
        .map(|row| {
            let order = (row / 4 + random(100_000)) * 4;
            (order, random(200_000), random(10_000), random(7) as i32 + 1)
        })
        .collect()
}

fn schema() -> TableSchema {
    let big = ColumnType::BigInt { unsigned: false };
    let int = ColumnType::Int { unsigned: false };
    let names = [("l_orderkey", big), ("l_partkey", big), ("l_suppkey", big), ("l_line", int)];
    let column = |(at, (name, ty)): (usize, (&str, ColumnType))| Column {
        id: ColumnId(at as u32 + 1),
        name: name.to_owned(),
        ty,
        nullable: false,
        default: None,
        comment: String::new(),
        collation: Collation::Binary,
        length_unit: LengthUnit::Bytes,
        before: None,
    };
    let columns = names.into_iter().enumerate().map(column).collect();
    TableSchema::new(SchemaVersion(1), columns, vec![0, 1, 2, 3])
}

fn batch(schema: &TableSchema, keys: &[Key]) -> RecordBatch {
    let longs = |pick: fn(&Key) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(keys.iter().map(pick)))
    };
    let lines = Arc::new(Int32Array::from_iter_values(keys.iter().map(|key| key.3)));
    let columns = vec![longs(|key| key.0), longs(|key| key.1), longs(|key| key.2), lines];
    RecordBatch::try_new(Arc::clone(schema.arrow()), columns).expect("columns of the schema")
}

fn skip_list(keys: &[Key]) -> Vec<u32> {
    let map = SkipMap::new();
    for (key, row) in keys.iter().zip(0u32..) {
        map.insert((*key, row), ());
    }
    map.iter().map(|entry| entry.key().1).collect()
}

fn rows_by_comparison(keys: &[Key]) -> Vec<u32> {
    let mut rows = keys.iter().copied().zip(0u32..).collect::<Vec<_>>();
    rows.sort_unstable();
    rows.into_iter().map(|(_, row)| row).collect()
}

fn column_by_column(keys: &[Key]) -> Vec<u32> {
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

fn time(clock: &dyn Clock, name: &str, sort: &dyn Fn() -> Vec<u32>) -> Vec<u32> {
    let mut best = Duration::MAX;
    let mut sorted = Vec::new();
    for _ in 0..REPEATS {
        let start = clock.now();
        sorted = sort();
        best = best.min(clock.now() - start);
    }
    println!("{name:<42} {:>7.1} ns a row", best.as_secs_f64() * 1e9 / ROWS as f64);
    sorted
}

fn main() {
    let clock = SystemClock::new();
    let keys = lineitem_keys();
    let schema = schema();
    let rows = Rows::new(vec![batch(&schema, &keys)]);
    let all = (0..ROWS as u32).collect::<Vec<_>>();
    let radix = || rows.sort(&all, &schema).expect("columns of the schema").rows;
    let ways: [(&str, &dyn Fn() -> Vec<u32>); 5] = [
        ("skip list", &|| skip_list(&keys)),
        ("whole rows, by comparison", &|| rows_by_comparison(&keys)),
        ("first column, ties by the others", &|| column_by_column(&keys)),
        ("8-byte prefix and index, by comparison", &|| prefix_by_comparison(&keys)),
        ("8-byte prefix and index, by radix (ours)", &radix),
    ];
    let results = ways.map(|(name, sort)| time(&clock, name, sort));
    assert!(results.iter().all(|result| *result == results[0]), "all ways give one order");
}
