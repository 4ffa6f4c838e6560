use std::sync::Arc;

use arrow::array::ArrayRef;
use freshet_base::{ColumnId, SchemaVersion};
use proptest::prelude::*;

use super::*;
use crate::row::{Put, RowWriter};
use crate::value::put;
use crate::{Column, ColumnType, ColumnsBuilder, Literal, Rules};

fn schema(types: &[(ColumnType, bool)]) -> TableSchema {
    let column = |(at, &(ty, nullable)): (usize, &(ColumnType, bool))| Column {
        nullable,
        ..Column::new(ColumnId(at as u32), format!("c{at}"), ty)
    };
    let columns = types.iter().enumerate().map(column).collect();
    TableSchema::new(SchemaVersion(1), columns, (0..types.len()).collect())
}

/// Rows of texts, each parsed as its column's type; `None` is NULL.
fn batch(schema: &TableSchema, rows: &[Vec<Option<String>>]) -> RecordBatch {
    let mut bytes = Vec::new();
    let mut writer = RowWriter::new(schema.columns.len(), &mut bytes);
    for row in rows {
        writer.begin_row();
        for (column, text) in schema.columns.iter().zip(row) {
            let text = text.as_deref().or((!column.nullable).then_some("0"));
            let written = writer.cell(|out| match text {
                Some(text) => put(column, Literal::Text(text.as_bytes()), &Rules::default(), out),
                None => Ok(Put::Null),
            });
            written.unwrap();
        }
        writer.end_row();
    }
    ColumnsBuilder::batch_of(schema, &bytes, rows.len())
}

/// Asserts that words order as the comparator does, and that equal exact words are equal keys.
fn check(types: &[(ColumnType, bool)], rows: &[Vec<Option<String>>]) -> bool {
    let schema = schema(types);
    let batch = batch(&schema, rows);
    let keys = KeyWords::new(&batch, &schema);
    let exact = keys.is_exact();
    let comparator = KeyComparator::new(&batch, &batch, &schema);
    for left in 0..rows.len() {
        for right in 0..rows.len() {
            let (short, full) =
                (keys.row(left).cmp(keys.row(right)), comparator.compare(left, right));
            assert!(short == full || short.is_eq() && !exact, "{:?} {:?}", rows[left], rows[right]);
        }
    }
    exact
}

const INT: ColumnType = ColumnType::Int { unsigned: false };
const BIG: ColumnType = ColumnType::BigInt { unsigned: false };
const TINY: ColumnType = ColumnType::TinyInt { unsigned: false };

#[test]
fn keys_of_numbers_are_exact_and_others_say_that_they_are_not() {
    let row = |a: &str, b: &str| vec![Some(a.into()), Some(b.into())];
    let rows = [row("-1", "5"), row("0", "-5"), row("0", "5"), row("7", "0")];
    assert!(check(&[(INT, false), (INT, false)], &rows));
    assert!(check(&[(INT, true), (TINY, true)], &rows));
    assert!(check(&[(BIG, true), (INT, true)], &rows));
    assert!(!check(&[(ColumnType::Text, false), (TINY, false)], &rows));
    assert!(!check(&[(INT, true), (ColumnType::Text, true)], &rows));
}

#[test]
fn a_key_has_as_many_words_as_it_needs_up_to_four() {
    let width = |types: &[(ColumnType, bool)]| {
        let schema = schema(types);
        let keys = KeyWords::new(&batch(&schema, &[vec![None; types.len()]]), &schema);
        (keys.width(), keys.is_exact())
    };
    assert_eq!(width(&[(INT, false), (INT, false)]), (1, true));
    assert_eq!(width(&[(INT, false), (INT, true)]), (2, true));
    assert_eq!(width(&[(BIG, true), (BIG, true), (BIG, true), (INT, true)]), (4, true));
    assert_eq!(width(&[(BIG, false); 5]), (4, false));
    assert_eq!(width(&[(INT, false), (ColumnType::Text, true), (INT, false)]), (2, false));
    // Metadata keeps the first word as the key range of a file.
    let schema = schema(&[(TINY, true), (BIG, false)]);
    let keys = KeyWords::new(&batch(&schema, &[vec![Some("1".into()), Some("2".into())]]), &schema);
    assert_eq!(keys.row(0), [0b1_1000_0001 << 55 | 1 << 54, 2 << 55]);
}

#[test]
fn no_sort_key_is_one_key() {
    let schema = TableSchema::new(SchemaVersion(1), schema(&[(INT, false)]).columns, vec![]);
    let array: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![2, 1]));
    let batch = RecordBatch::try_new(Arc::clone(schema.arrow()), vec![array]).unwrap();
    let keys = KeyWords::new(&batch, &schema);
    assert_eq!((keys.row(0), keys.row(1), keys.is_exact()), (&[0][..], &[0][..], true));
}

proptest! {
    #[test]
    fn words_order_like_keys(
        first in 0usize..9,
        second in 0usize..9,
        nullable in any::<(bool, bool)>(),
        rows in prop::collection::vec(
            prop::collection::vec(prop::option::of("-?[0-9]{1,2}"), 2..3), 0..12),
    ) {
        let types = [
            TINY, INT, ColumnType::BigInt { unsigned: false }, ColumnType::LargeInt,
            ColumnType::Double, ColumnType::Decimal { precision: 12, scale: 3 },
            ColumnType::Decimal { precision: 30, scale: 20 }, ColumnType::Float,
            ColumnType::VarChar { len: 9 },
        ];
        check(&[(types[first], nullable.0), (types[second], nullable.1)], &rows);
    }
}
