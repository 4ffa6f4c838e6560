use std::path::Path;

use freshet_base::task::Lane;
use freshet_base::{Lsn, RowsetId};
use futures::executor::block_on;

use super::*;
use crate::check::check;
use crate::flush::{Files, FlushInput, flush};
use crate::segment::ScanRequest;
use crate::testing::{batch, files, keys, schema, table};

/// Three rowsets over two tablets.
fn store(root: &Path) -> (Files, Table, Vec<RowsetMeta>) {
    let files = files(root);
    let table = table(&[schema(1)], 2);
    let mut metas = Vec::new();
    let mut id = 0;
    for lsn in 1..=3 {
        let input = FlushInput {
            lane: Lane::Background,
            table: Arc::new(table.clone()),
            schema: schema(1),
            batches: vec![batch(&schema(1), &(lsn * 100..lsn * 100 + 50).collect::<Vec<_>>())],
            lsns: (Lsn(lsn as u64), Lsn(lsn as u64)),
            turn: 0,
        };
        let next_id = || {
            id += 1;
            RowsetId(id)
        };
        let written = block_on(flush(&files, input, 1 << 30, next_id)).unwrap();
        metas.extend(written.into_iter().map(|written| written.rowset));
    }
    (files, table, metas)
}

#[test]
fn a_store_that_is_whole_opens_and_checks_without_findings() {
    let dir = tempfile::tempdir().unwrap();
    let (files, table, metas) = store(dir.path());
    let (tablets, findings) =
        open_table(&files.fs, &files.segments, &files.dir, &table, metas).unwrap();
    assert_eq!((tablets.len(), findings), (2, Vec::new()));
    assert!(tablets.iter().all(|tablet| tablet.rowsets.len() == 3));
    assert_eq!(check(&tablets), Vec::new());
}

#[test]
fn damage_is_reported_by_file_and_the_rest_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let (files, table, metas) = store(dir.path());
    let path = |at: usize| {
        let tablet = files.dir.tablet(table.id, metas[at].tablet);
        tablet.join(&metas[at].segments[0].file)
    };
    files.fs.remove_file(&path(0)).unwrap();
    let mut bytes = files.fs.read(&path(2)).unwrap();
    bytes[5] ^= 1;
    files.fs.write_atomic(&path(2), &bytes).unwrap();
    let (tablets, findings) =
        open_table(&files.fs, &files.segments, &files.dir, &table, metas.clone()).unwrap();
    assert_eq!(findings.len(), 1);
    assert_eq!((&findings[0].file, findings[0].what.as_str()), (&path(0), "it is missing"));
    let found = check(&tablets).into_iter().map(|finding| finding.file).collect::<Vec<_>>();
    assert_eq!(found.len(), 2);
    assert!(found.contains(&path(0)) && found.contains(&path(2)));
    let rowsets = tablets.iter().flat_map(|tablet| &tablet.rowsets);
    let good = rowsets.filter(|rowset| !found.contains(&rowset.segments()[0].path().into()));
    for rowset in good {
        let batches = rowset.scan(ScanRequest::all(&schema(1))).map(Result::unwrap);
        assert_eq!(keys(&batches.collect::<Vec<_>>()).len() as u64, rowset.rows());
    }
}

#[test]
fn metadata_that_contradicts_itself_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (files, table, mut metas) = store(dir.path());
    metas[0].lsn_last = Lsn(3);
    let overlap =
        open_table(&files.fs, &files.segments, &files.dir, &table, metas.clone()).err().unwrap();
    assert!(overlap.to_string().contains("overlap"), "{overlap}");
    metas[0].lsn_last = metas[0].lsn_first;
    metas[0].tablet = TabletId(9999);
    let stranger = open_table(&files.fs, &files.segments, &files.dir, &table, metas).err().unwrap();
    assert!(stranger.to_string().contains("9999"), "{stranger}");
}
