use freshet_base::{ColumnId, SchemaVersion};
use proptest::prelude::*;

use super::*;
use crate::key::{KeyComparator, KeyWords, first_of};
use crate::row::put_bytes;
use crate::{Column, ColumnsBuilder, RowWriter};

fn types() -> Vec<ColumnType> {
    let mut types = vec![
        ColumnType::Boolean,
        ColumnType::LargeInt,
        ColumnType::Float,
        ColumnType::Double,
        ColumnType::Decimal { precision: 9, scale: 2 },
        ColumnType::Decimal { precision: 38, scale: 10 },
        ColumnType::Date,
        ColumnType::DateTime { fsp: 6 },
        ColumnType::Timestamp { fsp: 0 },
        ColumnType::Char { len: 100 },
        ColumnType::VarChar { len: 100 },
        ColumnType::Text,
        ColumnType::VarBinary { len: 100 },
    ];
    for unsigned in [false, true] {
        types.extend([
            ColumnType::TinyInt { unsigned },
            ColumnType::SmallInt { unsigned },
            ColumnType::MediumInt { unsigned },
            ColumnType::Int { unsigned },
            ColumnType::BigInt { unsigned },
        ]);
    }
    types
}

/// A schema of these columns, sorted by all of them, the last one first.
fn schema(types: &[(ColumnType, bool)]) -> TableSchema {
    let column = |(at, &(ty, nullable)): (usize, &(ColumnType, bool))| Column {
        nullable,
        ..Column::new(ColumnId(at as u32), format!("c{at}"), ty)
    };
    let columns = types.iter().enumerate().map(column).collect();
    TableSchema::new(SchemaVersion(1), columns, (0..types.len()).rev().collect())
}

/// What a cell is made of.
type Seed = (Option<i128>, String);

fn cell(ty: ColumnType, (number, text): &Seed) -> Option<Vec<u8>> {
    let number = (*number)?;
    let number = match ty {
        ColumnType::Decimal { precision: 9, .. } => number % 10i128.pow(9),
        ColumnType::Decimal { .. } => number % 10i128.pow(38),
        _ => number,
    };
    Some(match ty.layout() {
        Layout::Fixed(width) => number.to_le_bytes()[..width].to_vec(),
        Layout::Bytes => text.as_bytes().to_vec(),
    })
}

type Cells = Vec<Option<Vec<u8>>>;

/// The encoded rows, and their cells.
fn rows(schema: &TableSchema, seeds: &[Vec<Seed>]) -> (Vec<u8>, Vec<Cells>) {
    let (mut bytes, mut all) = (Vec::new(), Vec::new());
    let mut writer = RowWriter::new(schema.columns.len(), &mut bytes);
    for seeds in seeds {
        writer.begin_row();
        let mut cells = Vec::new();
        for (column, seed) in schema.columns.iter().zip(seeds) {
            let found = cell(column.ty, seed);
            let found = match column.nullable {
                true => found,
                false => found.or_else(|| cell(column.ty, &(Some(0), seed.1.clone()))),
            };
            match (&found, column.ty.layout()) {
                (None, _) => writer.put_null(),
                (Some(cell), Layout::Fixed(_)) => writer.put_encoded(cell),
                (Some(cell), Layout::Bytes) => {
                    let mut encoded = Vec::new();
                    put_bytes(&mut encoded, cell);
                    writer.put_encoded(&encoded);
                }
            }
            cells.push(found);
        }
        writer.end_row();
        all.push(cells);
    }
    (bytes, all)
}

fn any_seed() -> impl Strategy<Value = Seed> {
    let number = prop_oneof![
        any::<i128>(),
        any::<i128>().prop_map(|number| number >> 64),
        any::<i128>().prop_map(|number| number >> 97),
        -3i128..3,
    ];
    (prop::option::weighted(0.8, number), "[\u{0}\u{1}\u{2}a\u{10ffff}]{0,4}")
}

fn any_rows() -> impl Strategy<Value = (Vec<(ColumnType, bool)>, Vec<Vec<Seed>>)> {
    let types = prop::collection::vec((prop::sample::select(types()), any::<bool>()), 1..4);
    types.prop_flat_map(|types| {
        let row = prop::collection::vec(any_seed(), types.len());
        (Just(types), prop::collection::vec(row, 1..12))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn keys_are_ordered_as_rows_are_sorted_and_none_begins_another((types, seeds) in any_rows()) {
        let schema = schema(&types);
        let (bytes, _) = rows(&schema, &seeds);
        let batch = ColumnsBuilder::batch_of(&schema, &bytes, seeds.len());
        let (words, keys) = (KeyWords::new(&batch, &schema), Keys::of_batch(&batch, &schema));
        let comparator = KeyComparator::new(&batch, &batch, &schema);
        prop_assert_eq!(keys.len(), seeds.len());
        for left in 0..keys.len() {
            for right in 0..keys.len() {
                let order = keys.key(left).cmp(keys.key(right));
                prop_assert_eq!(order, comparator.compare(left, right));
                prop_assert!(words.row(left).cmp(words.row(right)).then(order) == order);
                let begins = keys.key(right).starts_with(keys.key(left));
                prop_assert_eq!(begins, order.is_eq());
            }
        }
    }

    #[test]
    fn a_key_of_a_row_is_that_of_its_columns_and_becomes_its_cells((types, seeds) in any_rows()) {
        let schema = schema(&types);
        let (bytes, cells) = rows(&schema, &seeds);
        let batch = ColumnsBuilder::batch_of(&schema, &bytes, seeds.len());
        let of_columns = Keys::of_batch(&batch, &schema);
        let codec = KeyCodec::of_sort_key(&schema);
        let of_rows = codec.of_rows(&bytes);
        prop_assert_eq!(of_rows.len(), seeds.len());
        for (row, cells) in cells.iter().enumerate() {
            prop_assert_eq!(of_rows.key(row), of_columns.key(row));
            let mut decoded = codec.decode(of_rows.key(row)).unwrap();
            decoded.reverse();
            prop_assert_eq!(&decoded, cells);
            let (mut keys, mut alone) = (KeyRows::new(&codec, &schema), Vec::new());
            keys.put(of_rows.key(row), &mut alone).unwrap();
            let (beside, times) = keys.bytes_max();
            prop_assert!(alone.len() <= beside + times * of_rows.key(row).len());
            let found = RowCells::new(&schema);
            let found = (0..cells.len()).map(|at| found.cell(&alone, at).map(<[u8]>::to_vec));
            prop_assert_eq!(&found.collect::<Vec<_>>(), cells);
        }
    }

    #[test]
    fn of_first_characters_a_value_is_that_of_a_text_that_has_no_more(
        (types, seeds) in any_rows(),
        length in 1..4_u32,
    ) {
        let mut schema = schema(&types);
        for column in &mut schema.columns {
            column.collation = Collation::Utf8mb40900AiCi;
            column.keyed_by_weights = column.nullable;
        }
        let whole = schema.columns.iter().map(|column| column.id).collect::<Vec<_>>();
        let part = |column: &Column| match column.ty.is_collated() {
            true => first_of(column.id, length).unwrap(),
            false => column.id,
        };
        let parts = schema.columns.iter().map(part).collect::<Vec<_>>();
        let cut = |(seed, (ty, _)): (&Seed, &(ColumnType, bool))| {
            let count = if ty.is_collated() { length as usize } else { usize::MAX };
            (seed.0, seed.1.chars().take(count).collect())
        };
        let cut = seeds.iter().map(|row| row.iter().zip(&types).map(cut).collect());
        let cut = cut.collect::<Vec<Vec<Seed>>>();
        let (bytes, cut) = (rows(&schema, &seeds).0, rows(&schema, &cut).0);
        let [parts, whole] = [parts, whole].map(|ids| KeyCodec::of_index(&schema, &ids).unwrap());
        prop_assert_eq!(parts.row_text(&schema, &bytes), whole.row_text(&schema, &cut));
        let ((first, nulls), (of_cut, of_none)) =
            (parts.values_of_rows(&bytes), whole.values_of_rows(&cut));
        prop_assert_eq!(nulls, of_none);
        for row in 0..seeds.len() {
            prop_assert_eq!(first.key(row), of_cut.key(row));
        }
    }

    #[test]
    fn bytes_that_are_no_key_are_refused(
        (types, seeds) in any_rows(),
        noise in prop::collection::vec(any::<u8>(), 0..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let schema = schema(&types);
        let codec = KeyCodec::of_sort_key(&schema);
        let _ = codec.decode(&noise);
        let keys = codec.of_rows(&rows(&schema, &seeds).0);
        let key = keys.key(0);
        prop_assert!(codec.decode(&key[..cut.index(key.len())]).is_err());
        prop_assert!(codec.decode(&[key, &[7]].concat()).is_err());
    }
}

#[test]
fn the_bytes_of_a_key_are_these() {
    let big = ColumnType::BigInt { unsigned: false };
    let schema = schema(&[(big, true), (ColumnType::VarChar { len: 9 }, false)]);
    let codec = KeyCodec::of_sort_key(&schema);
    let key = |number: Option<i128>, text: &str| {
        let seeds = vec![(number, text.to_owned()), (Some(0), text.to_owned())];
        codec.of_rows(&rows(&schema, &[seeds]).0).key(0).to_vec()
    };
    assert_eq!(key(Some(-2), "a\0b"), b"a\0\x01b\0\0\x01\x7f\xff\xff\xff\xff\xff\xff\xfe");
    assert_eq!(key(Some(2), ""), b"\0\0\x01\x80\0\0\0\0\0\0\x02");
    assert_eq!(key(None, "z"), b"z\0\0\0");
}

#[test]
#[should_panic(expected = "longer than DDL allows")]
fn a_key_has_a_limit() {
    let schema = schema(&[(ColumnType::Text, false)]);
    let seeds = vec![(Some(0), "x".repeat(KEY_BYTES_MAX + 1))];
    KeyCodec::of_sort_key(&schema).of_rows(&rows(&schema, &[seeds]).0);
}
