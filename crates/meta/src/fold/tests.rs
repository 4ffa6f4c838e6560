use freshet_base::Incarnation;

use super::*;
use crate::Meta;
use crate::store::MemStore;
use crate::test::{begin, mark_file, meta, rowset, spec};

fn table(meta: &Meta, name: &str) -> (TableId, TabletId) {
    meta.create_database("d", None, None, true).unwrap();
    let table = meta.create_table("d", &spec(name)).unwrap();
    (table.id, table.tablets().next().unwrap())
}

fn publish(table: TableId, from: u64, to: u64, rowsets: Vec<RowsetMeta>) -> Publish {
    let schema_version = SchemaVersion(1);
    Publish {
        table,
        from: Lsn(from),
        to: Lsn(to),
        version: Version(to + 1),
        schema_version,
        rowsets,
        marks: None,
    }
}

#[test]
fn a_flush_applies_only_where_the_table_stands() {
    let meta = meta();
    let (id, tablet) = table(&meta, "t");
    let first = publish(id, 0, 10, vec![rowset(1, tablet, 3, 10)]);
    assert!(meta.publish(&first));
    // Retried after the answer was lost, or planned from an outdated flushed LSN.
    assert!(!meta.publish(&first));
    let gap = publish(id, 11, 20, vec![]);
    assert!(!meta.publish(&gap));
    let gone = publish(TableId(999), 0, 10, vec![]);
    assert!(!meta.publish(&gone));
    assert_eq!(meta.rowsets(tablet), [rowset(1, tablet, 3, 10)]);
    let flushed = meta.flushed(id).unwrap();
    assert_eq!((flushed.lsn, flushed.version), (Lsn(10), Version(11)));
}

#[test]
#[should_panic(expected = "writes rows of that range")]
fn a_flush_with_rows_of_another_range_is_a_broken_invariant() {
    let meta = meta();
    let (id, tablet) = table(&meta, "t");
    let _ = meta.publish(&publish(id, 0, 10, vec![rowset(1, tablet, 3, 11)]));
}

#[test]
fn a_compaction_replaces_adjacent_rowsets_or_nothing() {
    let meta = meta();
    let (id, tablet) = table(&meta, "t");
    let parts = [(1, 1, 5), (2, 6, 8), (3, 9, 9)].map(|(n, from, to)| rowset(n, tablet, from, to));
    meta.publish(&publish(id, 0, 9, parts.to_vec()));
    let merged = rowset(9, tablet, 1, 8);
    let replace = |old: &[RowsetMeta], new: &RowsetMeta| {
        let removed = old.iter().map(|rowset| rowset.id).collect();
        meta.replace(&Replacement { table: id, tablet, removed, added: new.clone(), marks: None })
    };
    assert!(!replace(&[parts[0].clone(), parts[2].clone()], &rowset(9, tablet, 1, 9)));
    assert!(replace(&parts[..2], &merged));
    assert!(!replace(&parts[..2], &rowset(10, tablet, 1, 8)), "its inputs are gone");
    assert_eq!(meta.rowsets(tablet), [merged, parts[2].clone()]);
    // A compaction of earlier rowsets does not affect a flush.
    let next = publish(id, 9, 12, vec![rowset(4, tablet, 10, 12)]);
    assert!(meta.publish(&next));
}

#[test]
fn a_truncate_swaps_tablets_and_makes_earlier_flushes_void() {
    let meta = meta();
    let (id, tablet) = table(&meta, "t");
    meta.publish(&publish(id, 0, 9, vec![rowset(1, tablet, 1, 9)]));
    let before = Arc::clone(meta.catalog().table_by_id(id).unwrap());
    let truncate = meta.truncate(&before, Version(12));
    let table = Arc::clone(meta.catalog().table_by_id(id).unwrap());
    let new = table.tablets().next().unwrap();
    assert_eq!(truncate.tablets, [new]);
    assert_ne!(new, tablet);
    assert_eq!(table.partitions[0].incarnation, Incarnation(2));
    assert!(meta.rowsets(tablet).is_empty());
    let flushed = meta.flushed(id).unwrap();
    assert_eq!((flushed.lsn, flushed.version), (Lsn(10), Version(12)));
    // A flush that began before it.
    assert!(!meta.publish(&publish(id, 9, 19, vec![rowset(3, tablet, 10, 19)])));
    assert!(meta.publish(&publish(id, 10, 30, vec![rowset(2, new, 21, 30)])));
    assert_eq!(meta.rowsets(new).len(), 1);
}

#[test]
fn a_record_that_does_not_fit_changes_nothing() {
    let meta = meta();
    let (id, _) = table(&meta, "t");
    let table = Arc::clone(meta.catalog().table_by_id(id).unwrap());
    let other = Arc::new(Table { id: TableId(999), ..Table::clone(&table) });
    let before = (meta.catalog(), meta.fold().tables());
    let lost = Arc::new(Table { db: DbId(77), ..Table::clone(&other) });
    let change = Definition::Name("x".to_owned());
    let old = Definition::Schema(Arc::clone(table.schema()));
    for event in [
        MetaEvent::Create(Arc::clone(&table)),
        MetaEvent::Create(Arc::clone(&other)),
        MetaEvent::Create(lost),
        MetaEvent::Define { table: TableId(999), change },
        MetaEvent::Define { table: id, change: old },
        MetaEvent::Drop(vec![TableId(999)]),
        MetaEvent::DropDatabase(DbId(77)),
    ] {
        assert!(!meta.settle_next(&event), "{event:?}");
    }
    assert_eq!((meta.catalog(), meta.fold().tables()), before);
    // Behind a hole the table in the way may have been dropped or renamed by a lost record.
    meta.settle_behind_hole(meta.settled().next(), &MetaEvent::Create(other));
    let catalog = meta.catalog();
    assert_eq!(catalog.table("d", "t").unwrap().id, TableId(999));
    assert_eq!(catalog.table("d", "t_1").unwrap().id, id);
}

#[test]
fn the_store_has_what_was_settled_at_its_checkpoint_and_nothing_newer() {
    let store = Arc::new(MemStore::new());
    let open = || crate::test::open(store.clone());
    let meta = begin(store.clone());
    let (id, tablet) = table(&meta, "t");
    meta.publish(&publish(id, 0, 10, vec![rowset(1, tablet, 3, 10)]));
    meta.settled_to(Lsn(12));
    assert!(meta.is_ahead());
    assert_eq!(open().rowsets(tablet), [], "nothing was written");
    meta.checkpoint().unwrap();
    assert!(!meta.is_ahead());
    assert_eq!(meta.saved_lsn(), Lsn(12));
    let next = publish(id, 10, 20, vec![rowset(2, tablet, 11, 20)]);
    assert!(meta.publish(&next));
    let again = open();
    assert_eq!(again.fold().tables(), meta.saved().tables());
    assert_eq!(again.saved_lsn(), Lsn(12));
    // Replaying newer records gives the same result.
    assert!(again.publish(&next));
    assert_eq!(again.fold().tables(), meta.fold().tables());
    // An immediate commit includes everything settled so far.
    meta.settled_to(Lsn(25));
    meta.create_database("e", None, None, false).unwrap();
    assert_eq!(open().fold().tables(), meta.fold().tables());
    assert_eq!(open().saved_lsn(), Lsn(25));
    let merged = rowset(9, tablet, 3, 20);
    let removed = vec![RowsetId(1), RowsetId(2)];
    meta.replace(&Replacement { table: id, tablet, removed, added: merged.clone(), marks: None });
    meta.checkpoint().unwrap();
    assert_eq!(open().rowsets(tablet), [merged]);
    meta.drop_table(id);
    meta.checkpoint().unwrap();
    assert_eq!(store.scan("/rowset/").unwrap(), []);
    assert_eq!(store.scan("/flushed/").unwrap(), []);
}

#[test]
fn mark_files_stay_until_one_has_all_marks_or_the_rows_are_gone() {
    let meta = meta();
    let (id, tablet) = table(&meta, "t");
    let numbers = |meta: &crate::Meta| {
        let files = meta.fold().tables().into_iter().flat_map(|stored| stored.marks);
        files.map(|file| file.number.get()).collect::<Vec<_>>()
    };
    let with = |publish: Publish, file, is_whole| Publish {
        marks: Some(NewMarks { file, is_whole }),
        ..publish
    };
    assert!(meta.publish(&publish(id, 0, 10, vec![rowset(1, tablet, 3, 10)])));
    assert!(meta.publish(&with(publish(id, 10, 20, vec![]), mark_file(2, (10, 20)), false)));
    assert!(meta.publish(&with(publish(id, 20, 30, vec![]), mark_file(3, (20, 30)), false)));
    assert_eq!(numbers(&meta), [2, 3]);
    let (removed, added) = (vec![RowsetId(1)], rowset(4, tablet, 3, 10));
    let marks = Some(mark_file(5, (10, 30)));
    assert!(meta.replace(&Replacement { table: id, tablet, removed, added, marks }));
    assert_eq!(numbers(&meta), [2, 3, 5]);
    meta.checkpoint().unwrap();
    let saved = crate::Fold::load(meta.store.as_ref()).unwrap();
    assert_eq!(saved.tables(), meta.fold().tables());
    assert!(meta.publish(&with(publish(id, 30, 40, vec![]), mark_file(6, (0, 40)), true)));
    assert_eq!(numbers(&meta), [6]);
    let catalog = meta.catalog();
    meta.truncate(catalog.table_by_id(id).unwrap(), Version(50));
    assert!(numbers(&meta).is_empty());
    meta.checkpoint().unwrap();
    assert!(meta.store.scan(keys::MARKS).unwrap().is_empty());
}
