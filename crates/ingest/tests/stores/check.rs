//! Damaged stores: the damage is reported, and repaired only once an operator accepts the loss.

use std::path::{Path, PathBuf};

use freshet_ingest::check::{Loss, accept, check, next_loss};
use freshet_schema::GroupCommitMode;
use freshet_storage::delta::Freshness;
use futures::executor::block_on;

use crate::common::{Store, create_table, insert, rows_of};

fn flip(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}

fn files_under(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_under(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// A store whose table `t` has rows in files and in the log.
fn filled(store: &Store) -> freshet_base::TableId {
    let engine = store.open();
    let table = create_table(&engine, "t");
    insert(&engine, "t", GroupCommitMode::Off, &[(1, 10), (2, 20)]);
    block_on(engine.flush_table(table)).unwrap();
    for k in 3..10 {
        insert(&engine, "t", GroupCommitMode::Off, &[(k, 10 * k)]);
    }
    store.stop(engine);
    table
}

#[test]
fn a_sound_store_has_no_findings() {
    let store = Store::new();
    filled(&store);
    let report = check(&store.config(), &store.world()).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!((report.tables, report.rowsets > 0, report.log_records >= 7), (1, true, true));
    assert_eq!(next_loss(&store.config(), &store.world()).unwrap(), None);
}

#[test]
fn a_damaged_segment_is_named_and_the_rest_is_served() {
    let store = Store::new();
    let table = filled(&store);
    let segment = files_under(&store.config().data_dir.join("data")).remove(0);
    flip(&segment, 20);
    let report = check(&store.config(), &store.world()).unwrap();
    let named = report.findings.iter().map(|finding| finding.file.clone()).collect::<Vec<_>>();
    assert_eq!(named, [segment]);
    let engine = store.open();
    let snapshot = engine.snapshot(Freshness::Committed).table(table).unwrap().unwrap();
    assert_eq!(snapshot.delta_rows(), 7, "rows of the log are served");
    insert(&engine, "t", GroupCommitMode::Off, &[(99, 990)]);
    store.stop(engine);
}

#[test]
fn a_damaged_log_is_named_and_starts_only_when_the_loss_is_accepted() {
    let store = Store::new();
    let table = filled(&store);
    // The second record: the first block of the log contains flushed rows.
    let log = store.config().wal_dirs[0].join("00000001.log");
    let bytes = std::fs::read(&log).unwrap();
    let row = [0, 5, 0, 0, 0, 50, 0, 0, 0];
    let at = bytes.windows(row.len()).position(|window| window == row).unwrap();
    flip(&log, at + 1);
    let error = store.try_open().err().expect("a damaged log is not started on");
    assert!(error.message().contains("freshet repair"), "{error}");
    assert!(error.message().contains("00000001.log"), "{error}");
    let report = check(&store.config(), &store.world()).unwrap();
    assert_eq!(report.findings.len(), 1);
    let loss = next_loss(&store.config(), &store.world()).unwrap().expect("records are lost");
    let Loss::Records { tables, first, last, .. } = &loss else { panic!("{loss}") };
    assert_eq!((tables.as_slice(), first), (&["'d.t'".to_owned()][..], last));
    accept(&store.config(), &store.world(), &loss).unwrap();
    assert_eq!(next_loss(&store.config(), &store.world()).unwrap(), None);
    let engine = store.open();
    let rows = rows_of(&engine, table, Freshness::Committed);
    let keys = rows.iter().map(|(k, _)| *k).collect::<Vec<_>>();
    assert_eq!(keys, [1, 2, 3, 4, 6, 7, 8, 9], "exactly the damaged record is lost");
    store.stop(engine);
}

#[test]
fn a_missing_log_file_is_named_and_starts_only_when_the_loss_is_accepted() {
    let store = Store::new();
    filled(&store);
    let log = store.config().wal_dirs[0].join("00000001.log");
    std::fs::remove_file(&log).unwrap();
    let error = store.try_open().err().expect("a missing log file is not passed over");
    assert!(error.message().contains("00000001.log is missing"), "{error}");
    let mut accepted = 0;
    while let Some(loss) = next_loss(&store.config(), &store.world()).unwrap() {
        accept(&store.config(), &store.world(), &loss).unwrap();
        accepted += 1;
        assert!(accepted < 10, "repair comes to an end");
    }
    assert!(accepted >= 2, "the file, and the records that stood in it");
    store.stop(store.open());
}
