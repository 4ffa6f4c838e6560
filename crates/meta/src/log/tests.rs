use std::sync::Arc;

use freshet_base::{DbId, LogPosition, Lsn, SchemaVersion, TableId, Term, TxnId, Version};

use super::*;
use crate::UsedLabel;
use crate::fold::Publish;
use crate::label::{ClaimOutcome, LabelKind};
use crate::store::MemStore;
use crate::test::{begin, spec};

fn open(store: &Arc<MemStore>) -> Meta {
    begin(store.clone())
}

fn use_label(meta: &Meta, label: &str, lsn: u64) {
    match meta.labels().claim(DbId(1), label, LabelKind::Statement).unwrap() {
        ClaimOutcome::New(claim) => claim.appended(TxnId(lsn), Lsn(lsn), 0),
        ClaimOutcome::Used(used) => panic!("{used:?}"),
    }
}

fn label(meta: &Meta, label: &str) -> Option<UsedLabel> {
    meta.labels().get(DbId(1), label)
}

#[test]
fn a_secret_is_for_its_term_and_those_behind_it() {
    let store = Arc::new(MemStore::new());
    let secret = |from| LogSecret { from: Term(from), key: [from, 7] };
    for from in [1, 5, 5] {
        open(&store).add_log_secret(secret(from)).unwrap();
    }
    assert_eq!(open(&store).log_state().secrets, [secret(1), secret(5)]);
}

fn position(lsn: u64) -> LogPosition {
    LogPosition { lsn: Lsn(lsn), ..LogPosition::default() }
}

#[test]
fn log_files_are_listed_across_starts() {
    let store = Arc::new(MemStore::new());
    let meta = open(&store);
    let file = |id| LogFileRecord { id, path: format!("/wal/{id}"), bytes: id << 20 };
    for id in 1..=3 {
        meta.add_log_file(file(id)).unwrap();
    }
    meta.remove_log_file(2).unwrap();
    meta.accept_hole(AcceptedHole { first: Lsn(5), last: Lsn(6) }).unwrap();
    meta.accept_hole(AcceptedHole { first: Lsn(5), last: Lsn(6) }).unwrap();
    let state = open(&store).log_state();
    assert_eq!(state, meta.log_state());
    assert_eq!((meta.next_log_file().unwrap(), meta.next_log_file().unwrap()), (4, 5));
    assert_eq!(open(&store).next_log_file().unwrap(), 6, "also of a file that was never listed");
    assert_eq!(state.files, [file(1), file(3)]);
    assert_eq!(state.holes.len(), 1);
}

#[test]
fn recycling_brings_labels_and_versions_and_names_the_side_file() {
    let store = Arc::new(MemStore::new());
    let meta = open(&store);
    meta.create_database("d", None, None, false).unwrap();
    let table = meta.create_table("d", &spec("t")).unwrap().id;
    meta.accept_hole(AcceptedHole { first: Lsn(5), last: Lsn(6) }).unwrap();
    use_label(&meta, "early", 10);
    use_label(&meta, "late", 30);
    let recycle = RecycleCommit {
        recycled: position(20),
        side_file: Some("side-1".to_owned()),
        versions: vec![(table, Version(4)), (TableId(99), Version(9))],
    };
    meta.settled_to(Lsn(20));
    meta.recycle_commit(&recycle).unwrap();
    let again = open(&store);
    assert_eq!(again.log_state().recycled, position(20));
    assert_eq!(again.log_state().side_file.as_deref(), Some("side-1"));
    assert!(again.log_state().holes.is_empty());
    assert_eq!(label(&again, "early").unwrap().lsn, Some(Lsn(10)));
    assert!(label(&again, "late").is_none(), "replay of the log brings it");
    let flushed = again.flushed(table).unwrap();
    assert_eq!((flushed.version, flushed.version_lsn), (Version(4), Lsn(20)));
    // A flush of earlier records has counted fewer versions; the higher count remains.
    let (schema_version, rowsets) = (SchemaVersion(1), vec![]);
    let (from, to, version) = (Lsn(0), Lsn(15), Version(3));
    let publish = Publish { table, from, to, version, schema_version, rowsets, marks: None };
    assert!(again.publish(&publish));
    let flushed = again.flushed(table).unwrap();
    assert_eq!((flushed.lsn, flushed.version), (Lsn(15), Version(4)));
}

#[test]
fn a_dropped_database_takes_its_labels_along() {
    let store = Arc::new(MemStore::new());
    let meta = open(&store);
    let db = meta.create_database("d", None, None, false).unwrap().object.id;
    assert_eq!(db, DbId(1));
    use_label(&meta, "a", 1);
    meta.settled_to(Lsn(1));
    meta.recycle_commit(&RecycleCommit { recycled: position(1), ..RecycleCommit::default() })
        .unwrap();
    meta.drop_database(db);
    assert!(label(&meta, "a").is_none());
    meta.checkpoint().unwrap();
    assert!(label(&open(&store), "a").is_none());
}
