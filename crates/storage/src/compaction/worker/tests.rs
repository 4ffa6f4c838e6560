use freshet_base::Lsn;
use freshet_base::task::Lane;
use futures::executor::block_on;
use proptest::prelude::*;

use super::*;
use crate::flush::{FlushInput, flush};
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
        let meta = metas.remove(0);
        let dir = files.dir.tablet(table.id, meta.tablet);
        Arc::new(Rowset::new(&files.segments, &dir, meta, table.schema()))
    };
    loads.iter().enumerate().map(write).collect()
}

fn job(rowsets: Vec<Arc<Rowset>>, segment_bytes_max: u64) -> MergeJob {
    MergeJob {
        table: crate::testing::TABLE,
        tablet: rowsets[0].meta().tablet,
        schema: schema(2),
        rowsets,
        id: RowsetId(1000),
        segment_bytes_max,
        cold_bytes_min: 1,
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
        let meta = merge(&files, &job, &mut || ControlFlow::Continue(())).unwrap().unwrap();
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
    assert_eq!(merge(&files, &job, &mut pace).unwrap(), None);
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
