//! Keys of texts that are compared by collations.
#![allow(clippy::unwrap_used)]

use std::cmp::Ordering;

use arrow::array::RecordBatch;
use freshet_base::{ColumnId, SchemaVersion};
use freshet_schema::collation::{COLLATIONS, weights};
use freshet_schema::key::{
    KEY_BYTES_MAX, KeyCodec, KeyComparator, KeyWords, Keys, WEIGHTS_BYTES_MAX, asked_text,
};
use freshet_schema::row::{put_bytes, validate};
use freshet_schema::{
    Collation, Column, ColumnType, ColumnsBuilder, Distribution, RowWriter, TableSchema, hash,
};
use proptest::prelude::*;

type Row = (Option<String>, i32);

/// `(a TEXT COLLATE .., b INT NOT NULL, KEY (a, b))`.
fn schema(collation: Collation, nullable: bool) -> TableSchema {
    let text = Column {
        nullable,
        collation,
        keyed_by_weights: true,
        ..Column::new(ColumnId(1), "a", ColumnType::VarChar { len: 700 })
    };
    let number = ColumnType::Int { unsigned: false };
    let number = Column { nullable: false, ..Column::new(ColumnId(2), "b", number) };
    TableSchema::new(SchemaVersion(1), vec![text, number], vec![0, 1])
}

fn encoded(rows: &[Row]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RowWriter::new(2, &mut bytes);
    for (text, number) in rows {
        writer.begin_row();
        match text {
            None => writer.put_null(),
            Some(text) => {
                let mut cell = Vec::new();
                put_bytes(&mut cell, text.as_bytes());
                writer.put_encoded(&cell);
            }
        }
        writer.put_encoded(&number.to_le_bytes());
        writer.end_row();
    }
    bytes
}

fn batch(schema: &TableSchema, bytes: &[u8], rows: usize) -> RecordBatch {
    ColumnsBuilder::batch_of(schema, bytes, rows)
}

/// As the collation orders them; NULL first.
fn order(collation: Collation, left: &Row, right: &Row) -> Ordering {
    let weighed = |row: &Row| {
        row.0.as_ref().map(|text| {
            let mut bytes = Vec::new();
            weights::put(collation, text, &mut bytes);
            bytes
        })
    };
    weighed(left).cmp(&weighed(right)).then(left.1.cmp(&right.1))
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[aAbB \u{e4}\u{c4}\u{df}s\u{0}\u{301}]{0,5}",
        "[a-cA-C]{6,12} {0,2}",
        ".{0,12}",
        "(\u{fdfa}|\u{e4}|a){0,60}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn keys_are_equal_and_ordered_as_their_collation_says(
        collation in prop::sample::select(&COLLATIONS[..]),
        nullable in any::<bool>(),
        rows in prop::collection::vec((prop::option::weighted(0.9, texts()), 0i32..2), 1..12),
    ) {
        let is_null = |row: &Row| !nullable && row.0.is_none();
        let rows = rows.into_iter().filter(|row| !is_null(row)).collect::<Vec<_>>();
        let schema = schema(collation, nullable);
        let bytes = encoded(&rows);
        let batch = batch(&schema, &bytes, rows.len());
        let keys = Keys::of_batch(&batch, &schema);
        let words = KeyWords::new(&batch, &schema);
        let comparator = KeyComparator::new(&batch, &batch, &schema);
        let codec = KeyCodec::of_sort_key(&schema);
        prop_assert_eq!(codec.has_weights(), !collation.is_by_bytes());
        let by_key = Distribution::Hash(vec![ColumnId(1)]);
        let places = hash::Places::new(&batch, &schema, &by_key, 0);
        let (index, _) = Keys::of_index(&batch, &schema, &[ColumnId(1), ColumnId(2)]).unwrap();
        let by_row = codec.of_rows(&bytes);
        for (left, row) in rows.iter().enumerate() {
            prop_assert_eq!(by_row.key(left), keys.key(left));
            prop_assert_eq!(index.key(left), keys.key(left));
            for (right, other) in rows.iter().enumerate() {
                let order = order(collation, row, other);
                let (one, two) = (keys.key(left), keys.key(right));
                prop_assert_eq!(one.cmp(two), order, "{:?} {:?}", row, other);
                prop_assert_eq!(comparator.compare(left, right), order);
                prop_assert!(words.row(left).cmp(words.row(right)).then(order) == order);
                let begins = keys.key(right).starts_with(keys.key(left));
                prop_assert_eq!(begins, order.is_eq());
                prop_assert!(order.is_ne() || places.place(left) == places.place(right));
            }
        }
    }

    #[test]
    fn a_row_that_removes_a_key_has_it(
        collation in prop::sample::select(&COLLATIONS[..]),
        text in prop::option::weighted(0.9, texts()),
        number in any::<i32>(),
    ) {
        let schema = schema(collation, true);
        let row = encoded(&[(text.clone(), number)]);
        let (codec, mut key) = (KeyCodec::of_sort_key(&schema), Vec::new());
        codec.put(&row, &mut key);
        let mut removal = Vec::new();
        codec.put_row(&schema, &key, &mut removal).unwrap();
        validate(&schema, &removal, 1).unwrap();
        let mut again = Vec::new();
        KeyCodec::of_sort_key(&schema).of_removals().put(&removal, &mut again);
        prop_assert_eq!(&again, &key);
        let shown = codec.row_text(&schema, &row);
        prop_assert_eq!(shown, format!("{}-{number}", text.as_deref().unwrap_or("NULL")));
        // What a condition asks for is found by the same bytes.
        let asked = text.map(|text| {
            let mut bytes = Vec::new();
            weights::put(collation, &text, &mut bytes);
            if collation.is_by_bytes() { text } else { asked_text(bytes) }
        });
        let asked = batch(&schema, &encoded(&[(asked, number)]), 1);
        let columns = [ColumnId(1), ColumnId(2)];
        let found = Keys::of_weighed_index(&asked, &schema, &columns).unwrap();
        prop_assert_eq!(found.key(0), &key[..]);
    }
}

#[test]
fn long_weights_end_with_their_hash() {
    let schema = schema(Collation::Utf8mb4GeneralCi, false);
    let key = |text: &str| {
        let mut key = Vec::new();
        let row = encoded(&[(Some(text.to_owned()), 0)]);
        KeyCodec::of_sort_key(&schema).put(&row, &mut key);
        // Behind the text are its end and the number.
        key.truncate(key.len() - 6);
        key
    };
    let long = "A".repeat(WEIGHTS_BYTES_MAX);
    // As if a space followed, and ended by two zeros.
    assert_eq!(key(&long[1..]), [&long.as_bytes()[1..], &b" "[..]].concat());
    let keys = [key(&long), key(&format!("{long}a")), key(&format!("{long}b"))];
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
    assert_eq!(key(&format!("{long}A")), keys[1]);
    assert_eq!(hex(&keys[0][WEIGHTS_BYTES_MAX - 16..]), HASH_ON_DISK);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const HASH_ON_DISK: &str = "bd1d885a9e5e4779cbc31ae8a8d2b594";

#[test]
fn the_longest_keys_fit_blocks() {
    // Of all characters this one has the most weights.
    let text = "\u{fdfa}".repeat(768);
    for collation in COLLATIONS {
        let schema = schema(collation, false);
        let mut key = Vec::new();
        KeyCodec::of_sort_key(&schema).put(&encoded(&[(Some(text.clone()), 1)]), &mut key);
        assert!(key.len() <= 2 * KEY_BYTES_MAX, "{} bytes by {}", key.len(), collation.name());
    }
}

/// Weights are in files: no character, known to Unicode or not, may ever get others.
#[test]
fn weights_are_those_on_disk() {
    let sums = COLLATIONS.map(|collation| {
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        for sign in '\u{1}'..='\u{2ffff}' {
            let mut bytes = Vec::new();
            weights::put(collation, sign.encode_utf8(&mut [0; 4]), &mut bytes);
            for byte in bytes {
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        sum
    });
    assert_eq!(sums, WEIGHTS_ON_DISK);
}

/// In the order of `COLLATIONS`.
const WEIGHTS_ON_DISK: [u64; 8] = [
    4_073_848_664_223_599_718,
    11_942_516_630_846_379_911,
    1_949_921_404_817_356_404,
    1_949_921_404_817_356_404,
    14_987_003_476_730_438_022,
    15_772_452_860_446_889_072,
    9_070_450_574_608_466_316,
    11_942_516_630_846_379_911,
];
