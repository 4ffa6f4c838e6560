use freshet_base::TableId;
use freshet_schema::ReferenceAction;

use crate::test::{meta, spec};
use crate::{
    Definition, ForeignChange, ForeignKeySpec, KeyChange, Meta, MetaEvent, Renaming, SchemaChange,
};

fn table(meta: &Meta, name: &str) -> TableId {
    meta.create_database("d", None, None, true).unwrap();
    meta.create_table("d", &spec(name)).unwrap().id
}

/// The foreign key `name` of column `score`.
fn key(name: &str, table: &str) -> KeyChange {
    KeyChange::AddForeign(ForeignKeySpec {
        is_copied: false,
        name: Some(name.to_owned()),
        columns: vec!["score".to_owned()],
        database: None,
        table: table.to_owned(),
        referenced: vec!["id".to_owned()],
        on_delete: ReferenceAction::NoAction,
        on_update: ReferenceAction::NoAction,
    })
}

/// The record of a change of foreign keys.
fn change(meta: &Meta, id: TableId, changes: &[KeyChange]) -> Definition {
    let catalog = meta.catalog();
    let ((_, after), _) = catalog.keys_with(id, changes).unwrap();
    let before = &catalog.require(id).unwrap().foreign_keys;
    Definition::Keys(Vec::new(), ForeignChange::between(before, &after))
}

/// Each foreign key of a table, with the table that it references.
fn references(meta: &Meta, id: TableId) -> Vec<String> {
    let table = std::sync::Arc::clone(meta.catalog().require(id).unwrap());
    table.foreign_keys.iter().map(|key| format!("{}:{}", key.name, key.table)).collect()
}

fn rename(meta: &Meta, pairs: &[(&str, &str)]) {
    let pairs = pairs.iter().map(|(from, to)| Renaming::within("d", from, to));
    let event = meta.catalog().renamed(&pairs.collect::<Vec<_>>()).unwrap().unwrap();
    assert!(meta.settle_next(&event));
}

#[test]
fn a_change_of_keys_leaves_a_rename_that_came_meanwhile() {
    let meta = meta();
    let (child, _, _) = (table(&meta, "c"), table(&meta, "p"), table(&meta, "q"));
    let first = change(&meta, child, &[key("f", "p"), key("g", "q"), key("h", "p")]);
    meta.define(child, first);
    let drop = KeyChange::DropForeign { name: "G".to_owned() };
    let planned = change(&meta, child, &[drop, key("i", "q")]);
    rename(&meta, &[("p", "p1")]);
    meta.define(child, planned);
    assert_eq!(references(&meta, child), ["f:p1", "h:p1", "i:q"]);
    // Of one name, the new one takes the place of the other.
    let drop = KeyChange::DropForeign { name: "i".to_owned() };
    let planned = change(&meta, child, &[drop, key("I", "p1")]);
    meta.define(child, planned);
    assert_eq!(references(&meta, child), ["f:p1", "h:p1", "I:p1"]);
}

#[test]
fn a_reference_stays_with_a_name_that_another_table_takes() {
    let meta = meta();
    let [child, p, new] = ["c", "p", "p_new"].map(|name| table(&meta, name));
    for (id, keys) in [
        (child, vec![key("f", "p"), key("g", "p_new")]),
        (p, vec![key("own", "p"), key("other", "p_new")]),
        (new, vec![key("own", "p_new"), key("other", "p")]),
    ] {
        let change = change(&meta, id, &keys);
        meta.define(id, change);
    }
    // As REPLACE WITH TABLE does.
    rename(&meta, &[("p", "x"), ("p_new", "p"), ("x", "p_new")]);
    assert_eq!(references(&meta, child), ["f:p", "g:p_new"]);
    assert_eq!(references(&meta, p), ["own:p_new", "other:p_new"]);
    assert_eq!(references(&meta, new), ["own:p", "other:p"]);
    // A name that is left is followed.
    rename(&meta, &[("p_new", "old")]);
    assert_eq!(references(&meta, child), ["f:p", "g:old"]);
    assert_eq!(references(&meta, p), ["own:old", "other:old"]);
    // What nobody references changes no table.
    let before = meta.catalog().require(child).cloned().unwrap();
    table(&meta, "z");
    rename(&meta, &[("z", "zz")]);
    assert!(std::sync::Arc::ptr_eq(&before, meta.catalog().require(child).unwrap()));
}

#[test]
fn a_foreign_key_goes_with_its_columns() {
    let meta = meta();
    let child = table(&meta, "c");
    let first = change(&meta, child, &[key("f", "p")]);
    meta.define(child, first);
    // The record that drops it lies in a hole of the log, that of the column behind it.
    let late = change(&meta, child, &[key("g", "p")]);
    let clone = crate::test::meta();
    assert_eq!(table(&clone, "c"), child);
    let column = SchemaChange::DropColumn { name: "score".to_owned() };
    let schema = clone.alter(child, &[column]).unwrap();
    meta.define(child, Definition::Schema(schema));
    assert_eq!(references(&meta, child), [""; 0]);
    // Nor does one come for a column that is gone.
    assert!(meta.settle_next(&MetaEvent::Define { table: child, change: late }));
    assert_eq!(references(&meta, child), [""; 0]);
}
