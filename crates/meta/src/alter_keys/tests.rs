use super::*;
use crate::Meta;
use crate::test::{meta, spec};

fn table(meta: &Meta) -> TableId {
    meta.create_database("d", None, None, true).unwrap();
    meta.create_table("d", &spec("t")).unwrap().id
}

fn add(kind: DeclaredKeyKind, name: Option<&str>, columns: &[&str]) -> KeyChange {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    KeyChange::Add(Box::new(DeclaredKeySpec {
        kind,
        name: name.map(str::to_owned),
        columns,
        first: Vec::new(),
        descending: Vec::new(),
        is_btree: false,
        comment: String::new(),
        global: None,
    }))
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
    let (keys, _) = meta.catalog().keys_with(id, changes).unwrap();
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

#[test]
fn a_foreign_key_leaves_an_index_and_a_warning() {
    let meta = meta();
    let id = table(&meta);
    let foreign = |name: Option<&str>, column: &str| {
        KeyChange::AddForeign(ForeignKeySpec {
            name: name.map(str::to_owned),
            columns: vec![column.to_owned()],
            references: "other".to_owned(),
        })
    };
    let all = [foreign(Some("f"), "score"), foreign(None, "score"), foreign(Some("F"), "name")];
    assert_eq!(names(&meta, id, &all), ["f", "name"], "a name or an index may be there already");
    let (_, warnings) = meta.catalog().keys_with(id, &all).unwrap();
    assert!(warnings[0].starts_with("FOREIGN KEY 'f' is not enforced"), "{warnings:?}");
    assert!(warnings[1].starts_with("FOREIGN KEY (score) is not enforced"), "{warnings:?}");
    assert_eq!(refused(&meta, id, &[foreign(None, "nope")]), 1072);
    let dropped = KeyChange::DropForeign { name: "f".to_owned() };
    assert_eq!(names(&meta, id, &[dropped]), [""; 0]);
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
