use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    AsArray, BinaryViewArray, Decimal128Array, Int32Array, Int64Array, StringViewArray,
};
use freshet_base::SchemaVersion;
use freshet_schema::ColumnType;
use freshet_schema::sketch::{Bitmap, Hll, hll_hash};
use proptest::prelude::*;

use super::*;
use crate::testing::column;

const INT: ColumnType = ColumnType::Int { unsigned: false };
const BIGINT: ColumnType = ColumnType::BigInt { unsigned: false };

/// A key of two columns, and a column for each function.
fn schema() -> TableSchema {
    let of = |id, name, ty, function| {
        let mut column = column(id, name, ty);
        column.aggregate = function;
        column
    };
    let decimal = ColumnType::Decimal { precision: 38, scale: 2 };
    let columns = vec![
        of(1, "k", BIGINT, None),
        of(2, "t", ColumnType::VarChar { len: 100 }, None),
        of(3, "sum", INT, Some(Aggregate::Sum)),
        of(4, "money", decimal, Some(Aggregate::Sum)),
        of(5, "min", ColumnType::VarChar { len: 9 }, Some(Aggregate::Min)),
        of(6, "max", INT, Some(Aggregate::Max)),
        of(7, "last", INT, Some(Aggregate::Replace)),
        of(8, "known", INT, Some(Aggregate::ReplaceIfNotNull)),
        of(9, "set", ColumnType::Bitmap, Some(Aggregate::BitmapUnion)),
        of(10, "seen", ColumnType::Hll, Some(Aggregate::HllUnion)),
    ];
    TableSchema::new(SchemaVersion(1), columns, vec![0, 1])
}

type Row = (i64, Option<i32>);

/// The key is told apart behind its words, too.
fn text(key: i64) -> String {
    format!("{:-<60}{}", "", key % 3)
}

fn set(value: i32) -> Vec<u8> {
    Bitmap::from_iter([value as u64]).to_bytes()
}

fn seen(value: i32) -> Vec<u8> {
    let mut one = Hll::default();
    one.insert(hll_hash(&value.to_le_bytes()));
    one.to_bytes()
}

fn batch(schema: &TableSchema, rows: &[Row]) -> RecordBatch {
    let values = || rows.iter().map(|(_, value)| *value);
    let numbers = || Arc::new(values().collect::<Int32Array>()) as ArrayRef;
    let texts = values().map(|value| value.map(|value| format!("{value:09}")));
    let money = values().map(|value| value.map(i128::from)).collect::<Decimal128Array>();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|(key, _)| key / 3).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|(key, _)| Some(text(*key))).collect::<StringViewArray>()),
        numbers(),
        Arc::new(money.with_precision_and_scale(38, 2).unwrap()),
        Arc::new(texts.collect::<StringViewArray>()),
        numbers(),
        numbers(),
        numbers(),
        Arc::new(values().map(|value| Some(set(value?))).collect::<BinaryViewArray>()),
        Arc::new(values().map(|value| Some(seen(value?))).collect::<BinaryViewArray>()),
    ];
    RecordBatch::try_new(Arc::clone(schema.arrow()), columns).unwrap()
}

/// What a key's values become, computed one by one.
fn expected(schema: &TableSchema, rows: &[Row]) -> RecordBatch {
    let mut keys = BTreeMap::<i64, Vec<Option<i32>>>::new();
    for (key, value) in rows {
        keys.entry(*key).or_default().push(*value);
    }
    let each = |f: &dyn Fn(&[Option<i32>]) -> Option<i32>| {
        let rows = keys.iter().map(|(key, values)| (*key, f(values))).collect::<Vec<_>>();
        batch(schema, &rows)
    };
    let present = |values: &[Option<i32>]| values.iter().flatten().copied().collect::<Vec<_>>();
    let sum = each(&|values| present(values).into_iter().reduce(i32::wrapping_add));
    let min = each(&|values| present(values).into_iter().min());
    let max = each(&|values| present(values).into_iter().max());
    let last = each(&|values| values[values.len() - 1]);
    let known = each(&|values| present(values).last().copied());
    let from = [&sum, &sum, &sum, &sum, &min, &max, &last, &known];
    let columns = from.iter().enumerate().map(|(at, batch)| Arc::clone(batch.column(at)));
    let joined = |kind: SketchKind, of: fn(i32) -> Vec<u8>| {
        let each = keys.values().map(|values| {
            let sketches = present(values).into_iter().map(of).collect::<Vec<_>>();
            let all = kind.union(sketches.iter().map(|sketch| &sketch[..])).unwrap();
            (!sketches.is_empty()).then_some(all)
        });
        Arc::new(each.collect::<BinaryViewArray>()) as ArrayRef
    };
    let sketches = [joined(SketchKind::Bitmap, set), joined(SketchKind::Hll, seen)];
    let columns = columns.chain(sketches);
    RecordBatch::try_new(Arc::clone(schema.arrow()), columns.collect()).unwrap()
}

fn combine(schema: &TableSchema, rows: &[Row], batch_rows: usize) -> RecordBatch {
    let mut combiner = Combiner::new(schema).unwrap();
    let pieces = rows.chunks(batch_rows).map(|rows| combiner.push(&batch(schema, rows)).unwrap());
    let mut pieces = pieces.collect::<Vec<_>>();
    pieces.extend(combiner.end());
    concat_batches(schema.arrow(), &pieces).unwrap()
}

proptest! {
    /// Whatever part of the rows has become one before, and wherever batches end.
    #[test]
    fn rows_of_a_key_become_one(
        rows in prop::collection::vec((0i64..12, prop::option::of(0i32..1000)), 0..60),
        batch_rows in 1usize..9,
        combined_before in 0usize..60,
    ) {
        let schema = schema();
        let sorted = |rows: &[Row]| {
            let mut rows = rows.to_vec();
            rows.sort_by_key(|(key, _)| *key);
            rows
        };
        let whole = combine(&schema, &sorted(&rows), batch_rows);
        prop_assert_eq!(&whole, &expected(&schema, &rows));

        let (older, newer) = rows.split_at(combined_before.min(rows.len()));
        let parts = [older, newer].map(|part| combine(&schema, &sorted(part), batch_rows));
        let both = concat_batches(schema.arrow(), &parts).unwrap();
        let words = KeyWords::new(&both, &schema);
        prop_assert!(!words.is_exact(), "some keys are longer than their words");
        let compare = KeyComparator::new(&both, &both, &schema);
        let mut order = (0..both.num_rows() as u32).collect::<Vec<_>>();
        order.sort_by(|a, b| compare.compare(*a as usize, *b as usize));
        let both = arrow::compute::take_record_batch(&both, &UInt32Array::from(order)).unwrap();
        let mut combiner = Combiner::new(&schema).unwrap();
        let mut pieces = vec![combiner.push(&both).unwrap()];
        pieces.extend(combiner.end());
        prop_assert_eq!(concat_batches(schema.arrow(), &pieces).unwrap(), whole);
    }
}

#[test]
fn a_sum_beyond_its_range_wraps_around() {
    let schema = schema();
    let rows = [(1, Some(i32::MAX)), (1, Some(1))];
    let sums = combine(&schema, &rows, 5);
    let values = sums.column(2).as_primitive::<arrow::datatypes::Int32Type>();
    assert_eq!(values.value(0), i32::MIN);
}

#[test]
fn other_tables_combine_nothing() {
    assert!(Combiner::new(&crate::testing::schema(2)).is_none());
}
