use freshet_base::{Lsn, SchemaVersion, Version};

use super::*;
use crate::fold::{MetaEvent, NewMarks, Publish};
use crate::test::{mark_file, meta, rowset, spec};

#[test]
fn databases_are_created_once_and_dropped_with_their_tables() {
    let meta = meta();
    let created = meta.create_database("d", None, None, false).unwrap();
    assert!(!created.existed);
    let error = meta.create_database("d", None, None, false).unwrap_err();
    assert_eq!(error.code().errno(), 1007);
    assert_eq!(error.message(), "Can't create database 'd'; database exists");
    let again = meta.create_database("d", None, None, true).unwrap();
    assert!(again.existed && again.warnings.len() == 1);
    assert!(meta.create_database("D", None, None, false).is_ok(), "case counts");
    assert_eq!(
        meta.create_database("information_schema", None, None, false).unwrap_err().code().errno(),
        1007
    );
    assert_eq!(meta.create_database("9", None, None, false).unwrap_err().code().errno(), 1102);

    let table = meta.create_table("d", &spec("t")).unwrap();
    assert!(meta.drop_database(created.object.id));
    assert!(meta.catalog().table_by_id(table.id).is_none());
    assert!(meta.flushed(table.id).is_none());
    assert!(!meta.drop_database(created.object.id));
    let catalog = meta.catalog();
    assert_eq!(catalog.database_to_drop("d", false).unwrap_err().code().errno(), 1008);
    assert!(catalog.database_to_drop("d", true).unwrap().is_none());
    assert!(catalog.database_to_drop("mysql", true).is_err());
}

#[test]
fn tables_are_found_by_name_and_by_id() {
    let meta = meta();
    meta.create_database("d", None, None, false).unwrap();
    let before = meta.catalog();
    let table = meta.create_table("d", &spec("t")).unwrap();
    assert!(before.table("d", "t").is_none(), "a catalog in hand never changes");
    let catalog = meta.catalog();
    assert_eq!(catalog.table("d", "t"), Some(&table));
    assert_eq!(catalog.table_by_id(table.id), Some(&table));
    assert_eq!(catalog.database_by_id(table.db).unwrap().name, "d");
    assert_eq!(catalog.require_table("e", "t").unwrap_err().code().errno(), 1049);
    let missing = catalog.require_table("d", "T").unwrap_err();
    assert_eq!(missing.message(), "Table 'd.T' doesn't exist");
    assert_eq!(missing.code().errno(), 1146);

    let twice = meta.create_table("d", &spec("t")).unwrap_err();
    assert_eq!((twice.code().errno(), twice.message()), (1050, "Table 't' already exists"));
    assert!(meta.new_table("d", &spec("t"), true).unwrap().existed);
    assert_eq!(meta.create_table("e", &spec("t")).unwrap_err().code().errno(), 1049);
    assert_eq!(meta.create_table("sys", &spec("t")).unwrap_err().code().errno(), 1044);
    let gone = catalog.table_to_drop("d", "x", false).unwrap_err();
    assert_eq!(gone.code().errno(), 1051);
    assert!(gone.message().contains("Unknown table 'x' in d"));
}

#[test]
fn a_dropped_table_leaves_nothing_and_its_id_never_comes_back() {
    let meta = meta();
    meta.create_database("d", None, None, false).unwrap();
    let table = meta.create_table("d", &spec("t")).unwrap();
    let tablet = table.tablets().next().unwrap();
    let publish = Publish {
        table: table.id,
        from: Lsn(0),
        to: Lsn(5),
        version: Version(2),
        schema_version: SchemaVersion(1),
        rowsets: vec![rowset(1, tablet, 1, 5)],
        marks: Some(NewMarks { file: mark_file(2, (0, 5)), is_whole: false }),
    };
    meta.publish(&publish);
    meta.checkpoint().unwrap();
    assert!(meta.drop_table(table.id));
    assert!(!meta.drop_table(table.id));
    meta.checkpoint().unwrap();
    let left = meta.store.scan("/").unwrap().into_iter().map(|(key, _)| key);
    let left = left.filter(|key| {
        !["/format", "/ids/", "/db/", "/user/", "/settled"].iter().any(|kept| key.starts_with(kept))
    });
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
    let next = meta.create_table("d", &spec("t")).unwrap();
    assert!(next.id > table.id && next.tablets().next().unwrap() > tablet);
}

#[test]
fn renames_and_properties_change_the_definition_only() {
    let meta = meta();
    meta.create_database("d", None, None, false).unwrap();
    let table = meta.create_table("d", &spec("t")).unwrap();
    meta.create_table("d", &spec("u")).unwrap();
    assert_eq!(meta.rename_table(table.id, "u").unwrap_err().code().errno(), 1050);
    meta.rename_table(table.id, "v").unwrap();
    let catalog = meta.catalog();
    assert!(catalog.table("d", "t").is_none());
    assert_eq!(catalog.table("d", "v").unwrap().id, table.id);
    assert_eq!(catalog.table("d", "v").unwrap().partitions[0].name, "v");

    let pairs = vec![("group_commit_interval_ms".to_owned(), "50".to_owned())];
    meta.set_properties(table.id, &pairs).unwrap();
    let changed = Arc::clone(meta.catalog().table_by_id(table.id).unwrap());
    assert_eq!(changed.properties.group_commit_interval_ms, 50);
    meta.checkpoint().unwrap();
    assert_eq!(Catalog::load(meta.store.as_ref()).unwrap(), *meta.catalog());
    assert_eq!(meta.rename_table(TableId(999), "x").unwrap_err().code().errno(), 1146);
}

fn renaming(from: &str, to: &str) -> Renaming {
    Renaming::within("d", from, to)
}

#[test]
fn a_rename_of_several_tables_happens_whole_or_not_at_all() {
    let meta = meta();
    meta.create_database("d", None, None, false).unwrap();
    let [t, u] = ["t", "u"].map(|name| meta.create_table("d", &spec(name)).unwrap().id);
    let id = |name: &str| meta.catalog().table("d", name).map(|table| table.id);
    // An exchange, in which `x` is no name that a table has behind it.
    let pairs = [renaming("t", "x"), renaming("u", "t"), renaming("x", "u")];
    let renamed = meta.catalog().renamed(&pairs).unwrap().unwrap();
    assert_eq!(renamed, MetaEvent::Rename(vec![(u, "t".to_owned()), (t, "u".to_owned())]));
    assert!(meta.settle_next(&renamed));
    assert_eq!((id("t"), id("u"), id("x")), (Some(u), Some(t), None));
    meta.checkpoint().unwrap();
    assert_eq!(Catalog::load(meta.store.as_ref()).unwrap(), *meta.catalog());
    // There and back is no change.
    let pairs = [renaming("t", "x"), renaming("x", "t")];
    assert_eq!(meta.catalog().renamed(&pairs).unwrap(), None);
    let errno = |pairs: &[Renaming]| meta.catalog().renamed(pairs).unwrap_err().code().errno();
    assert_eq!(errno(&[renaming("t", "x"), renaming("t", "y")]), 1146, "t has gone");
    assert_eq!(errno(&[renaming("t", "x"), renaming("u", "x")]), 1050, "x has come");
    assert_eq!(errno(&[renaming("t", "t")]), 1050);
    assert_eq!(errno(&[renaming("t", "a/b")]), 1103);
    // What does not fit changes nothing, also of the tables that it would fit.
    let before = meta.catalog();
    for tables in [
        vec![(t, "new".to_owned()), (TableId(999), "x".to_owned())],
        vec![(t, "new".to_owned()), (u, "new".to_owned())],
        vec![(u, "u".to_owned())],
    ] {
        assert!(!meta.settle_next(&MetaEvent::Rename(tables.clone())), "{tables:?}");
        assert_eq!(*meta.catalog(), *before);
    }
    // Behind a hole in the log the table in the way gets another name.
    meta.settle_behind_hole(meta.settled().next(), &MetaEvent::Rename(vec![(u, "u".to_owned())]));
    assert_eq!(id("u"), Some(u));
    assert!(meta.catalog().table_by_id(t).unwrap().name != "u");
}

#[test]
fn a_table_goes_to_another_database_with_its_name_free_there() {
    let meta = meta();
    let [d, e] =
        ["d", "e"].map(|name| meta.create_database(name, None, None, false).unwrap().object.id);
    let [t, u] = ["t", "u"].map(|name| meta.create_table("d", &spec(name)).unwrap().id);
    let there = meta.create_table("e", &spec("t")).unwrap().id;
    let to = |from: &str, to_database: &str, to: &str| Renaming {
        to_database: to_database.to_owned(),
        ..renaming(from, to)
    };
    let errno = |pairs: &[Renaming]| meta.catalog().renamed(pairs).unwrap_err().code().errno();
    assert_eq!(errno(&[to("t", "e", "t")]), 1050);
    assert_eq!(errno(&[to("t", "none", "t")]), 1049);
    // One goes, and another one takes its name.
    let pairs = [to("t", "e", "t2"), renaming("u", "t")];
    let event = meta.catalog().renamed(&pairs).unwrap().unwrap();
    assert!(matches!(&event, MetaEvent::Move(moved) if moved.len() == 2), "{event:?}");
    assert!(meta.settle_next(&event));
    let id = |database: &str, name: &str| meta.catalog().table(database, name).map(|one| one.id);
    assert_eq!((id("d", "t"), id("e", "t2"), id("e", "t")), (Some(u), Some(t), Some(there)));
    assert_eq!(meta.catalog().tables_of(e).len(), 2);
    meta.checkpoint().unwrap();
    assert_eq!(Catalog::load(meta.store.as_ref()).unwrap(), *meta.catalog());
    // A record of a database that is gone changes nothing; behind a hole names make way there.
    assert!(meta.drop_database(d));
    let moved = |database: DbId| Moved { table: t, database, name: "t".to_owned() };
    let before = meta.catalog();
    assert!(!meta.settle_next(&MetaEvent::Move(vec![moved(d)])));
    assert!(!meta.settle_next(&MetaEvent::Move(vec![moved(e)])), "the name is taken");
    assert_eq!(*meta.catalog(), *before);
    meta.settle_behind_hole(meta.settled().next(), &MetaEvent::Move(vec![moved(e)]));
    assert_eq!(id("e", "t"), Some(t));
}
