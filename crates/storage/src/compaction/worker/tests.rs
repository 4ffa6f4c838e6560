use freshet_base::Lsn;
use freshet_base::task::Lane;
use futures::executor::block_on;
use proptest::prelude::*;

use super::*;
use crate::flush::{FlushInput, flush};
use crate::marks::{Mark, SegmentMarks};
use crate::testing::{batch, files, keys, schema, table};

/// A rowset for each load, at LSNs from 1.
fn rowsets(files: &Files, loads: &[(u32, Vec<i64>)]) -> Vec<Arc<Rowset>> {
    let write = |(at, (version, keys)): (usize, &(u32, Vec<i64>))| {
        let versions = (1..=*version).map(schema).collect::<Vec<_>>();
        let table = Arc::new(table(&versions, 1));
        let lsn = Lsn(at as u64 + 1);
        let input = FlushInput {
            lane: Lane::Background,
            table: Arc::clone(&table),
            schema: schema(*version),
            batches: vec![batch(&schema(*version), keys)],
            lsns: (lsn, lsn),
            turn: 0,
        };
        let mut metas = block_on(flush(files, input, 1 << 30, || RowsetId(at as u64))).unwrap();
        let meta = metas.remove(0).rowset;
        let dir = files.dir.tablet(table.id, meta.tablet);
        Arc::new(Rowset::new(&files.segments, &dir, meta, table.schema()))
    };
    loads.iter().enumerate().map(write).collect()
}

fn job(rowsets: Vec<Arc<Rowset>>, segment_bytes_max: u64) -> MergeJob {
    let is_keyed = rowsets.iter().all(|rowset| rowset.marks().is_some());
    MergeJob {
        table: crate::testing::TABLE,
        tablet: rowsets[0].meta().tablet,
        schema: schema(2),
        rowsets,
        id: RowsetId(1000),
        segment_bytes_max,
        cold_bytes_min: 1,
        is_keyed,
        stores_rows: false,
        indexes: Vec::new(),
        aging: None,
    }
}

fn count_files(files: &Files, job: &MergeJob) -> usize {
    files.fs.list(&files.dir.tablet(job.table, job.tablet)).unwrap().len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn compaction_is_the_identity_on_rows(
        loads in prop::collection::vec(
            (1u32..3, prop::collection::vec(any::<i64>(), 1..3000)), 2..5),
        segment_bytes_max in prop_oneof![Just(1u64 << 30), Just(100_000)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let job = job(rowsets(&files, &loads), segment_bytes_max);
        let Merged { rowset: meta, rows, .. } = merge_all(&files, &job);
        prop_assert!(rows.is_none(), "rows of these tables do not die");
        prop_assert_eq!((meta.lsn_first, meta.lsn_last), (Lsn(1), Lsn(loads.len() as u64)));
        let tablet = files.dir.tablet(job.table, job.tablet);
        let merged = Rowset::new(&files.segments, &tablet, meta, &job.schema);
        let batches = merged.scan(ScanRequest::all(&job.schema)).map(Result::unwrap);
        let found = keys(&batches.collect::<Vec<_>>());
        let mut expected = loads.into_iter().flat_map(|(_, keys)| keys).collect::<Vec<_>>();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}

fn merge_all(files: &Files, job: &MergeJob) -> Merged {
    merge(files, job, &mut || ControlFlow::Continue(())).unwrap().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Rows that were dead are left out; marks made while the merge ran follow their rows.
    #[test]
    fn a_merge_leaves_out_dead_rows_and_carries_later_marks(
        loads in prop::collection::vec(prop::collection::vec(0u8..4, 1..3000), 2..5),
        segment_bytes_max in prop_oneof![Just(1u64 << 30), Just(50_000)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        // Keys that rise, so that a row of a load is a row of its segment.
        let count = loads.len() as i64;
        let key = |load: usize, row: usize| row as i64 * count + load as i64;
        let written = loads.iter().enumerate().map(|(load, fates)| {
            (2, (0..fates.len()).map(|row| key(load, row)).collect())
        });
        let rowsets = rowsets(&files, &written.collect::<Vec<_>>());
        let (dead, marked) = (0, 1);
        let of = |load: usize, is: u8| {
            let rows = loads[load].iter().zip(0u32..).filter(move |(fate, _)| **fate == is);
            rows.map(|(_, row)| row)
        };
        let flushed = Lsn(loads.len() as u64);
        let marks = rowsets.iter().enumerate().map(|(load, rowset)| {
            let rows = loads[load].len() as u32;
            let marks = SegmentMarks::new(rows, flushed, DeadRows::new(rows, of(load, dead)));
            Arc::new(rowset.with_marks(vec![Arc::new(marks)]))
        });
        let rowsets = marks.collect::<Vec<_>>();
        let job = job(rowsets.clone(), segment_bytes_max);
        let merged = merge_all(&files, &job);
        for (load, rowset) in rowsets.iter().enumerate() {
            let later = of(load, marked).zip(100..).map(|(row, lsn)| Mark { row, lsn: Lsn(lsn) });
            rowset.marks().unwrap()[0].push(&later.collect::<Vec<_>>());
        }
        let later = rowsets.iter().map(|rowset| rowset.marks().unwrap()[0].above(flushed));
        let carried = merged.rows.unwrap().carry(&later.collect::<Vec<_>>());
        let tablet = files.dir.tablet(job.table, job.tablet);
        let rowset = Rowset::new(&files.segments, &tablet, merged.rowset, &job.schema);
        let keys_of = |is: &dyn Fn(u8) -> bool| {
            let rows = loads.iter().enumerate().flat_map(|(load, fates)| {
                let rows = fates.iter().enumerate().filter(|(_, fate)| is(**fate));
                rows.map(move |(row, _)| key(load, row)).collect::<Vec<_>>()
            });
            let mut keys = rows.collect::<Vec<_>>();
            keys.sort_unstable();
            keys
        };
        let read = rowset.scan(ScanRequest::all(&job.schema)).map(Result::unwrap);
        let read = keys(&read.collect::<Vec<_>>());
        prop_assert_eq!(&read, &keys_of(&|fate| fate != dead));
        let mut first = 0;
        let mut died = Vec::new();
        for (segment, (id, marks)) in rowset.segments().iter().zip(carried) {
            prop_assert_eq!(segment.meta().id, id);
            died.extend(marks.iter().map(|mark| read[first + mark.row as usize]));
            first += segment.meta().rows as usize;
        }
        died.sort_unstable();
        prop_assert_eq!(died, keys_of(&|fate| fate == marked));
    }
}

#[test]
fn a_merge_of_dead_rows_alone_has_no_segment() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let rowsets = rowsets(&files, &[(2, vec![1, 2]), (2, vec![3])]);
    let dead = rowsets.iter().map(|rowset| {
        let rows = rowset.rows() as u32;
        let marks = SegmentMarks::new(rows, Lsn(2), DeadRows::new(rows, 0..rows));
        Arc::new(rowset.with_marks(vec![Arc::new(marks)]))
    });
    let job = job(dead.collect(), 1 << 20);
    let merged = merge_all(&files, &job);
    assert_eq!((merged.rowset.rows, merged.rowset.segments.len()), (0, 0));
    assert_eq!(count_files(&files, &job), 2, "the files of the inputs");
}

#[test]
fn a_merge_that_is_broken_off_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let job = job(rowsets(&files, &[(1, vec![1]), (1, (0..20_000).collect())]), 10_000);
    let before = count_files(&files, &job);
    let mut batches = 2;
    let mut pace = || {
        batches -= 1;
        if batches > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    assert!(merge(&files, &job, &mut pace).unwrap().is_none());
    assert_eq!(count_files(&files, &job), before);
}

#[test]
fn a_damaged_rowset_is_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let files = files(dir.path());
    let job = job(rowsets(&files, &[(1, vec![1, 2]), (1, vec![3])]), 1 << 20);
    let path = job.rowsets[1].segments()[0].path().to_path_buf();
    let mut bytes = files.fs.read(&path).unwrap();
    bytes[10] ^= 1;
    files.fs.write_atomic(&path, &bytes).unwrap();
    let before = count_files(&files, &job);
    let error = merge(&files, &job, &mut || ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(&error, Error::Corruption { file, .. } if *file == path), "{error}");
    assert_eq!(count_files(&files, &job), before);
}
