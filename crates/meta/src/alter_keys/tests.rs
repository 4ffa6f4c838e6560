use freshet_schema::ReferenceAction;

use super::*;
use crate::Meta;
use crate::test::{meta, spec};

fn table(meta: &Meta) -> TableId {
    meta.create_database("d", None, None, true).unwrap();
    meta.create_table("d", &spec("t")).unwrap().id
}

fn add(kind: DeclaredKeyKind, name: Option<&str>, columns: &[&str]) -> KeyChange {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    let name = name.map(str::to_owned);
    KeyChange::Add(Box::new(DeclaredKeySpec { name, ..DeclaredKeySpec::new(kind, columns) }))
}

fn index(name: &str, columns: &[&str]) -> KeyChange {
    add(DeclaredKeyKind::Index, Some(name), columns)
}

fn drop_named(name: &str) -> KeyChange {
    KeyChange::Drop { name: name.to_owned() }
}

fn rename_to(from: &str, to: &str) -> KeyChange {
    KeyChange::Rename { from: from.to_owned(), to: to.to_owned() }
}

fn names(meta: &Meta, id: TableId, changes: &[KeyChange]) -> Vec<String> {
    let ((keys, _), _) = meta.catalog().keys_with(id, changes).unwrap();
    keys.into_iter().map(|key| key.name).collect()
}

fn refused(meta: &Meta, id: TableId, changes: &[KeyChange]) -> u16 {
    meta.catalog().keys_with(id, changes).unwrap_err().code().errno()
}

#[test]
fn keys_come_and_go_and_unique_ones_stand_first() {
    let meta = meta();
    let id = table(&meta);
    let unique = add(DeclaredKeyKind::Unique, None, &["name"]);
    let all = [index("k", &["score"]), unique, add(DeclaredKeyKind::Index, None, &["name"])];
    assert_eq!(names(&meta, id, &all), ["name", "k", "name_2"]);
    let (_, warnings) = meta.catalog().keys_with(id, &all).unwrap();
    assert_eq!(warnings.len(), 1, "the unique key is not enforced: {warnings:?}");
    let changed = [&all[..], &[drop_named("NAME"), rename_to("k", "l")]].concat();
    assert_eq!(names(&meta, id, &changed), ["l", "name_2"]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let meta = meta();
    let id = table(&meta);
    let k = index("k", &["score"]);
    assert_eq!(refused(&meta, id, &[k.clone(), index("K", &["id"])]), 1061);
    assert_eq!(refused(&meta, id, &[index("l", &["nope"])]), 1072);
    assert_eq!(refused(&meta, id, &[index("l", &["id", "ID"])]), 1060);
    assert_eq!(refused(&meta, id, &[index("", &["id"])]), 1166);
    assert_eq!(refused(&meta, id, &[drop_named("l")]), 1091);
    assert_eq!(refused(&meta, id, &[rename_to("l", "m")]), 1176);
    let both = [k.clone(), index("l", &["id"]), rename_to("k", "L")];
    assert_eq!(refused(&meta, id, &both), 1061);
    assert_eq!(refused(&meta, id, &[k, rename_to("k", "primary")]), 1166);
    assert_eq!(refused(&meta, id, &[add(DeclaredKeyKind::Primary, None, &["id"])]), 1235);
    let many = (0..65).map(|n| index(&format!("k{n}"), &["id"])).collect::<Vec<_>>();
    assert_eq!(refused(&meta, id, &many), 1105);
    assert_eq!(refused(&meta, TableId(999), &[]), 1146);
}

fn foreign(name: Option<&str>, column: &str) -> KeyChange {
    KeyChange::AddForeign(ForeignKeySpec {
        is_copied: false,
        name: name.map(str::to_owned),
        columns: vec![column.to_owned()],
        database: None,
        table: "other".to_owned(),
        referenced: vec!["id".to_owned()],
        on_delete: ReferenceAction::Cascade,
        on_update: ReferenceAction::NoAction,
    })
}

fn drop_foreign(name: &str) -> KeyChange {
    KeyChange::DropForeign { name: name.to_owned() }
}

#[test]
fn a_foreign_key_is_kept_with_an_index_and_a_warning() {
    let meta = meta();
    let id = table(&meta);
    let all = [
        foreign(Some("f"), "score"),
        foreign(None, "score"),
        index("g", &["id"]),
        foreign(Some("G"), "name"),
    ];
    assert_eq!(names(&meta, id, &all), ["f", "g", "name"], "an index or its name may be there");
    let ((_, kept), warnings) = meta.catalog().keys_with(id, &all).unwrap();
    let automatic = format!("{}_ibfk_1", meta.catalog().require(id).unwrap().name);
    assert_eq!(kept.iter().map(|key| &*key.name).collect::<Vec<_>>(), ["f", &automatic, "G"]);
    assert_eq!(kept[0].on_delete, ReferenceAction::Cascade);
    assert!(warnings[0].contains("'f' is kept as information and not enforced"), "{warnings:?}");
    let dropped = [&all[..], &[drop_foreign("F"), drop_foreign(&automatic)]].concat();
    let ((keys, kept), _) = meta.catalog().keys_with(id, &dropped).unwrap();
    assert_eq!((keys.len(), kept.len()), (3, 1), "indexes stay, as in MySQL");
}

#[test]
fn foreign_keys_that_do_not_fit_are_refused() {
    let meta = meta();
    let id = table(&meta);
    let twice = [foreign(Some("f"), "score"), foreign(Some("F"), "name")];
    assert_eq!(refused(&meta, id, &twice), 1826);
    assert_eq!(refused(&meta, id, &[foreign(None, "nope")]), 1072);
    assert_eq!(refused(&meta, id, &[drop_foreign("f")]), 1091);
    let KeyChange::AddForeign(written) = foreign(None, "score") else { unreachable!() };
    let more = ForeignKeySpec { referenced: vec!["a".to_owned(), "b".to_owned()], ..written };
    assert_eq!(refused(&meta, id, &[KeyChange::AddForeign(more)]), 1239);
}

#[test]
fn keys_and_columns_are_checked_in_the_order_in_which_they_change() {
    let meta = meta();
    let id = table(&meta);
    let new = SchemaChange::AddColumn {
        column: crate::ColumnSpec::new("new", crate::test::INT),
        place: crate::ColumnPlace::Last,
    };
    let catalog = meta.catalog();
    catalog.check_alteration(id, &[index("k", &["new"])], std::slice::from_ref(&new)).unwrap();
    assert!(catalog.check_alteration(id, &[drop_named("new")], &[new]).is_err());
}
