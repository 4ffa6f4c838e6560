use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use freshet_base::budget::Budget;
use freshet_base::io::{Fs, FsRef, Mode, RealFs};
use freshet_base::task::InlinePool;
use freshet_base::{ByteSize, ColumnId, SchemaVersion};
use freshet_meta::KeyPartMeta;
use freshet_schema::key::Keys;
use freshet_schema::{Column, ColumnType, TableSchema};
use futures::executor::block_on;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::Error;
use crate::segment::{FileStore, SegmentAccess, WaitMode};
use crate::sort::Rows;
use crate::testing::{batch, schema};

/// Something else stands in front of the keys.
const START: u64 = 1234;

struct Written {
    _dir: TempDir,
    path: PathBuf,
    meta: KeyPartMeta,
}

impl Written {
    fn new<'a>(keys: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self::with_indexes(keys, Vec::new())
    }

    fn with_indexes<'a>(
        keys: impl IntoIterator<Item = &'a [u8]>,
        indexes: Vec<IndexWriter>,
    ) -> Self {
        let mut writer = KeyPartWriter::default();
        keys.into_iter().for_each(|key| writer.push(key));
        Self::finished(writer, vec![7; START as usize], indexes)
    }

    /// Keys with rows, which are written whenever `places` says so.
    fn with_rows(rows: &[(Vec<u8>, Vec<u8>)], places: &[bool]) -> Self {
        let (mut writer, mut file) = (KeyPartWriter::default(), vec![7; START as usize]);
        for (at, (key, row)) in rows.iter().enumerate() {
            writer.push_row(key, row);
            if places[at % places.len()] {
                file.extend(writer.take_stored(file.len() as u64));
                // A row group stands between.
                file.extend([9; 5]);
            }
        }
        file.extend(writer.end_stored(file.len() as u64));
        Self::of(writer, file)
    }

    fn of(writer: KeyPartWriter, before: Vec<u8>) -> Self {
        Self::finished(writer, before, Vec::new())
    }

    fn finished(writer: KeyPartWriter, before: Vec<u8>, indexes: Vec<IndexWriter>) -> Self {
        let (bytes, meta) = writer.finish(before.len() as u64, indexes);
        Self::placed(before, bytes, meta)
    }

    fn placed(before: Vec<u8>, bytes: Vec<u8>, meta: KeyPartMeta) -> Self {
        assert_eq!(bytes.len() as u64, meta.bytes);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        RealFs.write_atomic(&path, &[before, bytes].concat()).unwrap();
        Self { _dir: dir, path, meta }
    }

    fn open(&self, with_filter: bool) -> Result<KeyPart, Error> {
        let fs: FsRef = Arc::new(RealFs);
        self.opened(&SegmentAccess::of_files(&fs), with_filter)
    }

    /// The part as look-ups keep it, with room for blocks.
    fn kept(&self) -> KeyPart {
        let store = Arc::new(FileStore::new(Arc::new(RealFs), Arc::new(InlinePool)));
        let footers = Budget::new("memory of footers", u64::MAX);
        let access = SegmentAccess::new(store, footers, ByteSize::mib(8), Arc::default());
        let mut part = self.opened(&access, false).unwrap();
        part.keep_open();
        part
    }

    fn opened(&self, access: &Arc<SegmentAccess>, with_filter: bool) -> Result<KeyPart, Error> {
        block_on(async {
            let mut part = KeyPart::open(access, &self.path, self.meta, WaitMode::Blocking).await?;
            if with_filter {
                part.load_filter(WaitMode::Blocking).await?;
            }
            Ok(part)
        })
    }
}

/// The rows of each key.
fn model(keys: &[Vec<u8>]) -> BTreeMap<Vec<u8>, Range<u32>> {
    let mut model = BTreeMap::new();
    for (key, row) in keys.iter().zip(0u32..) {
        model.entry(key.clone()).or_insert(row..row).end = row + 1;
    }
    model
}

/// Keys that begin alike, some of them several times, some long.
fn any_keys(count: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = prop_oneof![
        8 => any::<u16>().prop_map(|number| [&b"key/"[..], &number.to_be_bytes()].concat()),
        8 => (0u8..2, any::<u16>())
            .prop_map(|(byte, number)| [&[byte; 94][..], &number.to_be_bytes()].concat()),
        1 => (any::<u8>(), 1usize..3000).prop_map(|(byte, length)| vec![byte; length]),
        1 => prop::collection::vec(any::<u8>(), 1..20),
    ];
    prop::collection::vec((key, 1usize..4), 1..count).prop_map(|keys| {
        let mut keys = keys
            .into_iter()
            .flat_map(|(key, times)| std::iter::repeat_n(key, times))
            .collect::<Vec<_>>();
        keys.sort_unstable();
        keys
    })
}

/// Blocks that were read come from memory, and only those that were whole.
#[test]
fn blocks_are_read_and_checked_once() {
    let keys = (0u32..5000).map(|number| number.to_be_bytes()).collect::<Vec<_>>();
    let written = Written::new(keys.iter().map(<[u8; 4]>::as_slice));
    let part = written.kept();
    assert!(part.blocks() > 3);
    let look_up = |key: usize| block_on(part.look_up(&[&keys[key][..]], WaitMode::Blocking));
    let first = look_up(0).unwrap();
    assert_eq!(first[0].rows, 0..1);
    // Only what a look-up needs is read from here on, and all of it is damaged.
    let mut bytes = RealFs.read(&written.path).unwrap();
    let blocks = START as usize..(START + part.directory.blocks_end()) as usize;
    bytes[blocks].iter_mut().for_each(|byte| *byte ^= 1);
    let file = RealFs.open(&written.path, Mode::Write).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    assert_eq!(look_up(0).unwrap(), first);
    for _ in 0..2 {
        assert!(matches!(look_up(4999), Err(Error::Corruption { .. })));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_key_is_found_and_no_other(
        keys in any_keys(3000),
        others in any_keys(300),
        with_filter in any::<bool>(),
    ) {
        let model = model(&keys);
        let written = Written::new(keys.iter().map(Vec::as_slice));
        let part = written.open(with_filter).unwrap();
        prop_assert_eq!(part.rows() as usize, keys.len());
        let mut wanted = model.keys().chain(&others).map(Vec::as_slice).collect::<Vec<_>>();
        wanted.sort_unstable();
        let expected = wanted.iter().enumerate().filter_map(|(at, key)| {
            model.get(*key).map(|rows| Found { at, rows: rows.clone(), stored: None })
        });
        let expected = expected.collect::<Vec<_>>();
        let found = block_on(part.look_up(&wanted, WaitMode::Blocking)).unwrap();
        prop_assert_eq!(&found, &expected);
        for (at, key) in wanted.iter().enumerate().take(100) {
            let found = block_on(part.look_up(&[*key], WaitMode::Blocking)).unwrap();
            let found = found.into_iter().map(|found| found.rows).collect::<Vec<_>>();
            let rows = expected.iter().filter(|found| found.at == at);
            prop_assert_eq!(found, rows.map(|found| found.rows.clone()).collect::<Vec<_>>());
            prop_assert!(!model.contains_key(*key) || part.may_have_key(key));
        }
        let kept = written.kept();
        for _ in 0..2 {
            let found = block_on(kept.look_up(&wanted, WaitMode::Blocking)).unwrap();
            prop_assert_eq!(&found, &expected);
        }
    }

    /// The last row of each key is found as it was stored, wherever row groups stand between.
    #[test]
    fn the_last_row_of_a_key_is_stored(
        keys in any_keys(2000),
        places in prop::collection::vec(prop::bool::weighted(0.05), 1..300),
        change in prop::option::of((any::<prop::sample::Index>(), 1u8..)),
    ) {
        let row = |(at, key): (usize, Vec<u8>)| (key, vec![at as u8; 1 + at % 70]);
        let rows = keys.into_iter().enumerate().map(row).collect::<Vec<_>>();
        let written = Written::with_rows(&rows, &places);
        let mut bytes = RealFs.read(&written.path).unwrap();
        let stored = START as usize..written.meta.start as usize;
        if let Some((at, change)) = change {
            bytes[stored.start + at.index(stored.len())] ^= change;
            RealFs.write_atomic(&written.path, &bytes).unwrap();
        }
        let part = written.open(true).unwrap();
        prop_assert!(part.stores_rows());
        let last = rows.iter().cloned().collect::<BTreeMap<_, _>>();
        let wanted = last.keys().map(Vec::as_slice).collect::<Vec<_>>();
        let found = block_on(part.look_up(&wanted, WaitMode::Blocking)).unwrap();
        prop_assert_eq!(found.len(), last.len());
        let mut damaged = 0;
        for (found, row) in found.iter().zip(last.values()) {
            let stored = found.stored.expect("the last row is stored");
            match block_on(part.stored_rows(&[stored], WaitMode::Blocking)) {
                Ok(read) => prop_assert_eq!(&read[0][..], row),
                Err(Error::Corruption { .. }) => damaged += 1,
                Err(other) => return Err(TestCaseError::fail(other.to_string())),
            }
        }
        prop_assert!(damaged <= usize::from(change.is_some()));
    }

    /// A byte is changed, or the file ends early: then a look-up of all keys says so.
    #[test]
    fn damage_is_noticed(
        keys in any_keys(2000),
        at in any::<prop::sample::Index>(),
        change in 1u8..,
        cut in any::<bool>(),
        with_filter in any::<bool>(),
    ) {
        let model = model(&keys);
        let written = Written::new(keys.iter().map(Vec::as_slice));
        let mut bytes = RealFs.read(&written.path).unwrap();
        let at = START as usize + at.index(bytes.len() - START as usize);
        if cut { bytes.truncate(at) } else { bytes[at] ^= change }
        RealFs.write_atomic(&written.path, &bytes).unwrap();
        let wanted = model.keys().map(Vec::as_slice).collect::<Vec<_>>();
        let look_up = |part: KeyPart| block_on(part.look_up(&wanted, WaitMode::Blocking));
        let found = written.open(with_filter).and_then(look_up);
        match found {
            Err(Error::Corruption { file, offset, .. }) => {
                prop_assert_eq!(file, written.path);
                prop_assert!(offset >= START && (cut || offset <= at as u64));
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
            // Padding, or a page of the filter that no key needed.
            Ok(found) => {
                prop_assert!(!cut);
                prop_assert_eq!(found.len(), model.len());
                let end = START + written.meta.bytes;
                let directory = end - u64::from(written.meta.directory_bytes);
                prop_assert!((at as u64) < directory);
            }
        }
    }

    /// Row numbers are those of the sort that segments are written in.
    #[test]
    fn rows_are_those_of_the_sort(
        keys in prop::collection::vec(-2000i64..2000, 1..1500),
        by_text in any::<bool>(),
    ) {
        let mut schema = schema(1).as_ref().clone();
        if by_text {
            schema.sort_key = vec![1, 0];
        }
        let rows = Rows::new(&schema, &[batch(&schema, &keys)]).unwrap();
        let order = rows.keys(&schema).sort(&(0..keys.len() as u32).collect::<Vec<_>>());
        let sorted = rows.gather(&order).unwrap();
        let encoded = Keys::of_batch(&sorted, &schema);
        let encoded = (0..encoded.len()).map(|row| encoded.key(row).to_vec()).collect::<Vec<_>>();
        let written = Written::new(encoded.iter().map(Vec::as_slice));
        let part = written.open(true).unwrap();
        for (key, rows) in model(&encoded) {
            let found = block_on(part.look_up(&[&key], WaitMode::Blocking)).unwrap();
            prop_assert_eq!(found, [Found { at: 0, rows, stored: None }]);
        }
    }
}

#[test]
fn rising_numbers_take_four_bytes_in_blocks_and_two_in_the_filter() {
    let keys = (0..100_000u64).map(|key| (key << 1).to_be_bytes().to_vec()).collect::<Vec<_>>();
    let mut writer = KeyPartWriter::default();
    keys.iter().for_each(|key| writer.push(key));
    let about = writer.bytes();
    let (_, meta) = writer.finish(0, Vec::new());
    assert!((600_000..650_000).contains(&meta.bytes), "{} bytes", meta.bytes);
    assert!(meta.bytes.abs_diff(about) < 20_000, "{about} bytes were expected");
    assert!(meta.directory_bytes < 2000);
    let written = Written::new(keys.iter().map(Vec::as_slice));
    let part = written.open(true).unwrap();
    assert!(part.memory_bytes() < 210_000, "{} bytes", part.memory_bytes());
    let others = (0..100_000u64).map(|key| (key << 1 | 1).to_be_bytes()).collect::<Vec<_>>();
    let others = others.iter().map(<[u8; 8]>::as_slice).collect::<Vec<_>>();
    assert!(block_on(part.look_up(&others, WaitMode::Blocking)).unwrap().is_empty());
    let may_be = block_on(part.candidates_of(&others));
    assert!(may_be < 300, "{may_be} of {} keys pass the filter", others.len());
}

#[test]
fn of_many_keys_a_block_that_are_mostly_there_the_filter_is_not_asked() {
    let key = |number: u64| number.to_be_bytes().to_vec();
    let keys = (0..5000).map(|number| key(2 * number)).collect::<Vec<_>>();
    let written = Written::new(keys.iter().map(Vec::as_slice));
    let part = written.open(true).unwrap();
    let look_up = |is_asked: fn(&u64) -> bool| {
        let numbers = (0..10_000u64).filter(is_asked).collect::<Vec<_>>();
        let asked = numbers.iter().map(|&number| key(number)).collect::<Vec<_>>();
        let asked = asked.iter().map(Vec::as_slice).collect::<Vec<_>>();
        let found = block_on(part.look_up(&asked, WaitMode::Blocking)).unwrap();
        for found in &found {
            let row = (numbers[found.at] / 2) as u32;
            assert_eq!(found.rows, row..row + 1);
        }
        let even = numbers.iter().filter(|number| *number % 2 == 0).count();
        assert_eq!(found.len(), even, "all that are there are found, and no others");
        (numbers.len(), block_on(part.candidates_of(&asked)))
    };
    let (asked, candidates) = look_up(|number| number % 2 == 0 || number % 10 == 1);
    assert_eq!(asked, candidates, "five of six are there");
    let (asked, candidates) = look_up(|number| number % 2 == 1 || number % 10 == 0);
    assert!(candidates < asked / 4, "one of six is there, and {candidates} of {asked} pass");
    let (asked, candidates) = look_up(|number| number % 1000 < 2);
    assert!(candidates < asked, "of few keys a block each is looked for in the filter");
}

#[test]
#[should_panic(expected = "in the order of their keys")]
fn keys_come_in_their_order() {
    let mut writer = KeyPartWriter::default();
    writer.push(b"b");
    writer.push(b"a");
}

#[test]
fn a_hash_stays_what_it_is() {
    let hashes = [hash(b""), hash(b"a"), hash(b"a key of more than eight bytes")];
    assert_eq!(hashes, [0xc9d8_74ca_57d9_e055, 0xc3f2_6dfc_449f_5d6e, 0x8cfa_3754_ca53_b787]);
}

#[test]
fn another_version_is_refused_by_name() {
    let bytes = [9; 40];
    let error = directory::Directory::decode(&bytes, 100).unwrap_err();
    assert_eq!(error, "keys of version 9 are newer");
}

#[test]
fn a_key_that_begins_otherwise_than_all_before_it_begins_a_block() {
    let name = |byte: u8, number: u32| [&[byte; 96][..], &number.to_be_bytes()].concat();
    let keys = (0..800).map(|number| name(b'a', number)).chain([name(b'b', 0)]);
    let keys = keys.collect::<Vec<_>>();
    let written = Written::new(keys.iter().map(Vec::as_slice));
    let part = written.open(true).unwrap();
    for (at, key) in keys.iter().enumerate() {
        let found = block_on(part.look_up(&[key.as_slice()], WaitMode::Blocking)).unwrap();
        assert_eq!(found, [Found { at: 0, rows: at as u32..at as u32 + 1, stored: None }]);
    }
}

/// An index by these numbers, and its columns.
fn index_of(numbers: &[Option<i32>]) -> (IndexWriter, Vec<ColumnId>) {
    let columns = vec![ColumnId(7)];
    let int = ColumnType::Int { unsigned: false };
    let schema =
        TableSchema::new(SchemaVersion(1), vec![Column::new(columns[0], "u", int)], vec![]);
    let values: ArrayRef = Arc::new(Int32Array::from(numbers.to_vec()));
    let batch = RecordBatch::try_new(Arc::clone(schema.arrow()), vec![values]).unwrap();
    let mut index = IndexWriter::new(columns.clone());
    index.push(&batch, &schema);
    (index, columns)
}

/// A part with one row for each of these numbers, and an index by them.
fn with_index(numbers: &[Option<i32>]) -> (Written, Vec<ColumnId>) {
    let (index, columns) = index_of(numbers);
    let keys = (0..numbers.len() as u32).map(|row| row.to_be_bytes()).collect::<Vec<_>>();
    let keys = keys.iter().map(<[u8; 4]>::as_slice);
    (Written::with_indexes(keys, vec![index]), columns)
}

fn value_of(number: Option<i32>) -> Vec<u8> {
    match number {
        None => vec![0],
        Some(number) => {
            let ordered = number.cast_unsigned() ^ 1 << 31;
            [&[1][..], &ordered.to_be_bytes()].concat()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_index_finds_all_rows_of_a_value(
        few in prop::collection::vec(prop::option::of(-40..40), 1..40),
        scale in prop_oneof![Just(1), Just(3), Just(500)],
        with_filter in any::<bool>(),
    ) {
        // Some values have more rows than a block has entries.
        let numbers = few.iter().flat_map(|number| vec![*number; scale]).collect::<Vec<_>>();
        let (written, columns) = with_index(&numbers);
        let part = written.open(with_filter).unwrap();
        block_on(part.verify()).unwrap();
        let mut index =
            block_on(part.index(&columns, WaitMode::Blocking)).unwrap().unwrap();
        if with_filter {
            block_on(index.load_filter(WaitMode::Blocking)).unwrap();
        }
        let wanted = std::iter::once(None).chain((-45..45).map(Some));
        let values = wanted.clone().map(value_of).collect::<Vec<_>>();
        let values = values.iter().map(Vec::as_slice).collect::<Vec<_>>();
        let found = block_on(index.look_up_values(&values, WaitMode::Blocking)).unwrap();
        let mut expected = Vec::new();
        for (at, wanted) in wanted.enumerate() {
            let rows = (0..).zip(&numbers).filter(|(_, number)| **number == wanted);
            let rows = rows.map(|(row, _)| row).collect::<Vec<u32>>();
            if !rows.is_empty() {
                expected.push(FoundValue { at, rows });
            }
        }
        prop_assert_eq!(found, expected);
        let other = block_on(part.index(&[ColumnId(8)], WaitMode::Blocking)).unwrap();
        prop_assert!(other.is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// With keys beside it, or alone.
    #[test]
    fn an_index_finds_the_rows_of_ranges(
        few in prop::collection::vec(prop::option::of(-40..40), 1..40),
        scale in prop_oneof![Just(1), Just(3), Just(500)],
        bounds in prop::collection::vec(
            (prop::option::of(-45..45), prop::option::of(-45..45)),
            1..5,
        ),
        is_alone in any::<bool>(),
    ) {
        let numbers = few.iter().flat_map(|number| vec![*number; scale]).collect::<Vec<_>>();
        let (written, columns) = match is_alone {
            true => alone(&numbers),
            false => with_index(&numbers),
        };
        let part = written.open(false).unwrap();
        prop_assert_eq!(part.has_keys(), !is_alone);
        prop_assert_eq!(part.rows() as usize, numbers.len());
        block_on(part.verify()).unwrap();
        let index = block_on(part.index(&columns, WaitMode::Blocking)).unwrap().unwrap();
        // None stands for NULL below, and for no end above.
        let range = |(from, to): &(Option<i32>, Option<i32>)| ValueRange {
            from: value_of(*from),
            to: if to.is_some() { value_of(*to) } else { Vec::new() },
        };
        let ranges = bounds.iter().map(range).collect::<Vec<_>>();
        let is_within = |number: &Option<i32>| {
            let is_in = |(from, to): &(Option<i32>, Option<i32>)| {
                number >= from && (to.is_none() || number <= to)
            };
            bounds.iter().any(is_in)
        };
        let expected = (0..).zip(&numbers).filter(|(_, number)| is_within(number));
        let expected = expected.map(|(row, _)| row).collect::<Vec<u32>>();
        let find = |rows_max| {
            block_on(index.rows_within(&ranges, (rows_max, true), WaitMode::Blocking))
        };
        prop_assert!(index.rows_within_at_most(&ranges) >= expected.len() as u64);
        if let Some(fewer) = expected.len().checked_sub(1) {
            prop_assert_eq!(find(fewer).unwrap().filter(|rows| rows.len() > fewer), None);
        }
        prop_assert_eq!(find(numbers.len() * bounds.len()).unwrap(), Some(expected));
    }
}

/// A part of a segment without keys, with an index by these numbers.
fn alone(numbers: &[Option<i32>]) -> (Written, Vec<ColumnId>) {
    let (index, columns) = index_of(numbers);
    let (bytes, meta) = indexes_alone(START, vec![index]);
    (Written::placed(vec![7; START as usize], bytes, meta), columns)
}

/// These bytes are on disk: they change only with the version of the part.
#[test]
fn a_part_of_indexes_alone_stays_what_it_is() {
    let (written, _) = alone(&[Some(2), None, Some(1)]);
    let bytes = RealFs.read(&written.path).unwrap().split_off(START as usize);
    let (part, directory) = bytes.split_at(bytes.len() - written.meta.directory_bytes as usize);
    let block =
        "6745b40d030000000300000005000e0017000000000001018000000100000002018000000200000000";
    assert_eq!(hex(&part[..41]), block);
    let expected = "0503000000010001000700000000000000000000005b1b0000000000002d00000043b86096";
    assert_eq!(hex(directory), expected);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_damaged_index_is_found() {
    let numbers = (0..2000).map(Some).collect::<Vec<_>>();
    let (written, _) = with_index(&numbers);
    let intact = RealFs.read(&written.path).unwrap();
    let end = intact.len() - written.meta.directory_bytes as usize;
    for at in [end - 1, end - 2000, end - 6000, end - 12_000] {
        let mut damaged = intact.clone();
        damaged[at] ^= 1;
        RealFs.write_atomic(&written.path, &damaged).unwrap();
        let found = written.open(false).and_then(|part| block_on(part.verify()));
        assert!(matches!(found, Err(Error::Corruption { .. })), "byte {at}: {found:?}");
    }
}
