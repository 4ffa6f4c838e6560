use std::sync::Arc;

use freshet_base::TableId;
use freshet_schema::ColumnType;

use super::*;
use crate::Meta;
use crate::spec::{KeyModelSpec, KeySpec};
use crate::test::{INT, meta, spec};

const TEXT: ColumnType = ColumnType::VarChar { len: 5 };

fn mysql() -> TableSpec {
    let columns = vec![
        ColumnSpec { nullable: false, ..ColumnSpec::new("id", INT) },
        ColumnSpec::new("a", INT),
        ColumnSpec { default: DefaultSpec::Null, ..ColumnSpec::new("s", TEXT) },
    ];
    TableSpec::new("t", TableForm::MySql, columns)
}

fn made(meta: &Meta, spec: &TableSpec) -> Arc<Table> {
    meta.create_database("d", None, None, true).unwrap();
    meta.create_table("d", spec).unwrap()
}

fn modified(from: &str, column: ColumnSpec) -> SchemaChange {
    SchemaChange::ModifyColumn { from: from.to_owned(), column, place: None, is_key: false }
}

fn primary(columns: &[&str]) -> KeyChange {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    KeyChange::Add(Box::new(DeclaredKeySpec::new(DeclaredKeyKind::Primary, columns)))
}

fn form(spec: &TableSpec, columns: &[SchemaChange], keys: &[KeyChange]) -> Result<NewForm> {
    let meta = meta();
    let table = made(&meta, spec);
    Ok(NewForm::of(&table, spec.clone(), columns, keys, None)?.expect("it can be copied"))
}

fn refused(spec: &TableSpec, columns: &[SchemaChange], keys: &[KeyChange]) -> u16 {
    form(spec, columns, keys).map(|_| ()).unwrap_err().code().errno()
}

fn names(form: &NewForm) -> Vec<&str> {
    form.spec.columns.iter().map(|column| column.name.as_str()).collect()
}

#[test]
fn columns_remember_where_they_come_from() {
    let changes = [
        SchemaChange::AddColumn {
            column: ColumnSpec::new("n", INT),
            place: ColumnPlace::After("id".to_owned()),
        },
        modified("a", ColumnSpec::new("b", TEXT)),
        SchemaChange::DropColumn { name: "s".to_owned() },
        SchemaChange::Reorder { columns: ["b", "n", "id"].map(str::to_owned).to_vec() },
    ];
    let form = form(&mysql(), &changes, &[]).unwrap();
    assert_eq!(names(&form), ["b", "n", "id"]);
    let of = |id| Source::Column(ColumnId(id));
    assert_eq!(form.sources, [of(2), Source::New(None), of(1)]);
}

#[test]
fn a_primary_key_makes_its_columns_not_null() {
    let form = form(&mysql(), &[], &[primary(&["s"])]).unwrap();
    let column = &form.spec.columns[2];
    assert!(!column.nullable);
    assert_eq!(column.default, DefaultSpec::Unset);
    assert_eq!(form.spec.declared_keys.len(), 1);
    let mut keyed = mysql();
    keyed.declared_keys = form.spec.declared_keys.clone();
    keyed.columns[2] = form.spec.columns[2].clone();
    assert_eq!(refused(&keyed, &[], &[primary(&["id"])]), 1068);
    assert_eq!(refused(&mysql(), &[], &[primary(&["nope"])]), 1072);
    let drop = KeyChange::Drop { name: "PRIMARY".to_owned() };
    assert_eq!(refused(&mysql(), &[], std::slice::from_ref(&drop)), 1091);
    let other = self::form(&keyed, &[], &[primary(&["id"]), drop]).unwrap();
    assert_eq!(other.spec.declared_keys[0].columns, ["id"]);
}

#[test]
fn refusals_have_the_numbers_of_mysql() {
    let is = |changes: &[SchemaChange]| refused(&mysql(), changes, &[]);
    assert_eq!(is(&[modified("nope", ColumnSpec::new("nope", INT))]), 1054);
    assert_eq!(is(&[modified("a", ColumnSpec::new("s", INT))]), 1060);
    assert_eq!(is(&[SchemaChange::DropColumn { name: "nope".to_owned() }]), 1091);
    let all = ["id", "a", "s"].map(|name| SchemaChange::DropColumn { name: name.to_owned() });
    assert_eq!(is(&all), 1090);
    let twice = SchemaChange::Reorder { columns: ["a", "a", "s"].map(str::to_owned).to_vec() };
    assert_eq!(is(&[twice]), 1110);
}

#[test]
fn key_columns_of_doris_follow_the_order_of_columns() {
    let mut olap = spec("t");
    let columns = vec!["id".to_owned()];
    olap.key = Some(KeySpec { model: KeyModelSpec::Duplicate, columns });
    let column = ColumnSpec::new("k", INT);
    let add = SchemaChange::AddKeyColumn { column, place: Some(ColumnPlace::First) };
    let form = form(&olap, &[add], &[]).unwrap();
    assert_eq!(form.spec.key.as_ref().unwrap().columns, ["k", "id"]);
    let drop = SchemaChange::DropColumn { name: "id".to_owned() };
    olap.key.as_mut().unwrap().model = KeyModelSpec::Unique;
    assert_eq!(refused(&olap, &[drop], &[]), 1235);
}

#[test]
fn tables_are_exchanged_under_one_name() {
    let meta = meta();
    let old = made(&meta, &mysql());
    let new = meta.new_temporary("d", &mysql()).unwrap().object;
    let new = Arc::new(Table { unlisted: true, ..Table::clone(&new) });
    assert!(meta.settle_next(&crate::MetaEvent::Create(Arc::clone(&new))));
    let exchange = crate::MetaEvent::Exchange { old: old.id, new: new.id };
    assert!(meta.settle_next(&exchange));
    let catalog = meta.catalog();
    assert_eq!(catalog.require_table("d", "t").unwrap().id, new.id);
    assert!(catalog.require(old.id).unwrap().unlisted);
    assert!(!catalog.require(new.id).unwrap().unlisted);
    // The old one is not listed any more.
    assert!(!meta.settle_next(&exchange));
    let back = crate::MetaEvent::Exchange { old: new.id, new: TableId(99) };
    assert!(!meta.settle_next(&back));
}
