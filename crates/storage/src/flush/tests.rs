use freshet_base::task::Lane;
use freshet_schema::KeyModel;
use freshet_testkit::{Faults, SimFs};
use futures::executor::block_on;
use proptest::prelude::*;

use super::*;
use crate::rowset::Rowset;
use crate::segment::ScanRequest;
use crate::testing::{batch, files, files_on, keys, schema, table};

fn read(files: &Files, table: &Table, rowset: &RowsetMeta) -> Vec<i64> {
    let dir = files.dir.tablet(table.id, rowset.tablet);
    let rowset = Rowset::new(&files.segments, &dir, rowset.clone(), table.schema());
    let batches = rowset.scan(ScanRequest::all(table.schema())).map(Result::unwrap);
    keys(&batches.collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A flush writes each tablet's rows sorted, however they are divided into segments.
    #[test]
    fn files_hold_the_rows_sorted(
        loads in prop::collection::vec(prop::collection::vec(any::<i64>(), 1..300), 1..6),
        tablets in 1u64..4,
        segment_bytes_max in prop_oneof![Just(1u64 << 30), 4096u64..40_000],
        key_model in prop_oneof![Just(KeyModel::Duplicate), Just(KeyModel::Unique)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let table = Arc::new(Table { key_model, ..table(&[schema(1)], tablets) });
        let is_unique = key_model == KeyModel::Unique;
        let input = FlushInput {
            lane: Lane::Background,
            table: Arc::clone(&table),
            schema: schema(1),
            batches: loads.iter().map(|keys| batch(&schema(1), keys)).collect(),
            lsns: (Lsn(1), Lsn(loads.len() as u64)),
            turn: 0,
        };
        let mut id = 0;
        let next_id = || { id += 1; RowsetId(id) };
        let rowsets = block_on(flush(&files, input, segment_bytes_max, next_id)).unwrap();
        let mut found = Vec::new();
        let mut expected = loads.concat();
        for Written { rowset, rows } in &rowsets {
            rowset.check();
            let keys = read(&files, &table, rowset);
            prop_assert!(keys.is_sorted());
            let come_from = rows.iter().map(|&row| expected[row as usize]).collect::<Vec<_>>();
            prop_assert_eq!(&come_from, &keys);
            let has_keys = |segment: &SegmentMeta| segment.key_part.is_some() == is_unique;
            prop_assert!(rowset.segments.iter().all(has_keys));
            found.extend(keys);
        }
        expected.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_flush_that_cannot_write_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let table = Arc::new(table(&[schema(1)], 2));
    // A file stands in the place of one tablet's directory.
    let blocked = files.dir.tablet(table.id, table.partitions[0].tablets[1]);
    files.fs.create_dir_all(&files.dir.table(table.id)).unwrap();
    files.fs.write_atomic(&blocked, b"in the way").unwrap();
    let input = FlushInput {
        lane: Lane::Background,
        table: Arc::clone(&table),
        schema: schema(1),
        batches: vec![batch(&schema(1), &(0..100).collect::<Vec<_>>())],
        lsns: (Lsn(1), Lsn(1)),
        turn: 0,
    };
    let error = block_on(flush(&files, input, 1 << 30, || RowsetId(1))).unwrap_err();
    assert!(matches!(error, Error::Io { .. }));
    let other = files.dir.tablet(table.id, table.partitions[0].tablets[0]);
    assert!(files.fs.list(&other).map_or(true, |entries| entries.is_empty()));
}

fn flush_with_failing_syncs(failing_syncs: u64) -> (Files, Result<Vec<Written>>) {
    let fs = SimFs::default();
    fs.set_faults(Faults { failing_syncs, ..Faults::default() });
    let files = files_on(Arc::new(fs), Path::new("/"));
    let input = FlushInput {
        lane: Lane::Background,
        table: Arc::new(table(&[schema(1)], 1)),
        schema: schema(1),
        batches: vec![batch(&schema(1), &[3, 1, 2])],
        lsns: (Lsn(1), Lsn(1)),
        turn: 0,
    };
    let written = block_on(flush(&files, input, 1 << 30, || RowsetId(4)));
    (files, written)
}

#[test]
fn a_file_that_could_not_be_synced_is_written_anew_under_another_name() {
    let (files, written) = flush_with_failing_syncs(1);
    let rowset = &written.unwrap()[0].rowset;
    assert_eq!(rowset.segments[0].file, "4-0-1.parquet");
    let table = table(&[schema(1)], 1);
    assert_eq!(read(&files, &table, rowset), [1, 2, 3]);
    let entries = files.fs.list(&files.dir.tablet(table.id, rowset.tablet)).unwrap();
    assert_eq!(entries.len(), 1, "the first file is gone");
}

#[test]
fn a_device_that_goes_on_failing_fails_the_flush() {
    let (files, written) = flush_with_failing_syncs(2);
    assert!(matches!(written, Err(Error::Io { .. })));
    let table = table(&[schema(1)], 1);
    let tablet = files.dir.tablet(table.id, table.partitions[0].tablets[0]);
    assert!(files.fs.list(&tablet).unwrap().is_empty());
}
