use super::*;
use crate::Meta;
use crate::spec::DefaultSpec;
use crate::test::{INT, meta, spec};
use freshet_schema::{ColumnType, LengthUnit, LobSize, TableForm};

fn table(meta: &Meta) -> Arc<Table> {
    meta.create_database("d", None, None, true).unwrap();
    meta.create_table("d", &spec("t")).unwrap()
}

fn add(name: &str, place: ColumnPlace) -> SchemaChange {
    SchemaChange::AddColumn { column: ColumnSpec::new(name, INT), place }
}

fn drop_named(name: &str) -> SchemaChange {
    SchemaChange::DropColumn { name: name.to_owned() }
}

fn rename_to(from: &str, to: &str) -> SchemaChange {
    SchemaChange::RenameColumn { from: from.to_owned(), to: to.to_owned() }
}

fn refused(table: &Table, change: SchemaChange) -> (u16, String) {
    let error = changed(table, &[change]).unwrap_err();
    (error.code().errno(), error.message().to_owned())
}

fn names(schema: &TableSchema) -> Vec<&str> {
    schema.columns.iter().map(|column| column.name.as_str()).collect()
}

#[test]
fn columns_come_and_go_and_keep_their_ids() {
    let meta = meta();
    let mut spec = spec("t");
    spec.key = Some(crate::KeySpec {
        model: crate::KeyModelSpec::Duplicate,
        columns: vec!["id".to_owned()],
    });
    meta.create_database("d", None, None, true).unwrap();
    let table = meta.create_table("d", &spec).unwrap();
    let changes = [
        add("a", ColumnPlace::After("ID".to_owned())),
        add("z", ColumnPlace::Last),
        drop_named("name"),
        rename_to("score", "points"),
    ];
    let schema = changed(&table, &changes).unwrap();
    assert_eq!(names(&schema), ["id", "a", "points", "z"]);
    assert_eq!(schema.version, table.schema().version.next());
    assert_eq!(schema.columns[2].id, table.schema().columns[2].id);
    assert_eq!(schema.columns[1].id, table.next_column);
    assert_eq!(schema.columns[3].id, table.next_column.next());
    assert_eq!(schema.sort_key, [0]);
}

#[test]
fn refusals_have_the_numbers_of_mysql_and_the_words_of_doris() {
    let meta = meta();
    let table = table(&meta);
    let (errno, message) = refused(&table, add("Score", ColumnPlace::Last));
    assert_eq!(errno, 1060);
    assert!(message.contains("Can not add column which already exists in base table: Score"));
    let (errno, message) = refused(&table, drop_named("x"));
    assert_eq!(errno, 1091);
    assert!(message.contains("Column does not exists: x"), "{message}");
    assert!(refused(&table, drop_named("id")).1.contains("Can not drop key column"));
    assert_eq!(refused(&table, rename_to("x", "y")).0, 1054);
    assert_eq!(refused(&table, rename_to("id", "NAME")).0, 1060);
    assert_eq!(refused(&table, rename_to("id", "")).0, 1166);
    assert_eq!(refused(&table, add("a", ColumnPlace::After("x".to_owned()))).0, 1054);
    assert!(refused(&table, add("a", ColumnPlace::First)).1.contains("before key column 'id'"));
    let column = ColumnSpec {
        default: DefaultSpec::Value(DefaultValue::CurrentDate),
        ..ColumnSpec::new("a", freshet_schema::ColumnType::Date)
    };
    let today = SchemaChange::AddColumn { column, place: ColumnPlace::Last };
    assert_eq!(refused(&table, today).0, 1067);
    let column = ColumnSpec {
        default: DefaultSpec::Computed {
            default: DefaultValue::CurrentDate,
            before: Some("2024-02-29".to_owned()),
        },
        ..ColumnSpec::new("a", freshet_schema::ColumnType::Date)
    };
    let dated = SchemaChange::AddColumn { column, place: ColumnPlace::Last };
    let schema = changed(&table, &[dated]).unwrap();
    assert_eq!(schema.columns.last().unwrap().before.as_deref(), Some("2024-02-29"));
    // A rename may change only the case of a name.
    assert!(changed(&table, &[rename_to("score", "Score")]).is_ok());

    let mut single = spec("s");
    single.form = freshet_schema::TableForm::MySql;
    single.columns = vec![ColumnSpec::new("f", freshet_schema::ColumnType::Text)];
    single.distribution = None;
    let single = meta.create_table("d", &single).unwrap();
    assert_eq!(refused(&single, drop_named("f")).0, 1090);
}

#[test]
fn a_schema_is_the_tables_once_it_has_settled() {
    let meta = meta();
    let table = table(&meta);
    let planned = meta.catalog().altered(table.id, &[add("a", ColumnPlace::Last)]).unwrap();
    assert_eq!(meta.catalog().table_by_id(table.id), Some(&table));
    let schema = meta.alter(table.id, &[add("a", ColumnPlace::Last)]).unwrap();
    assert_eq!(schema, planned);
    let altered = Arc::clone(meta.catalog().table_by_id(table.id).unwrap());
    assert_eq!(altered.schema(), &schema);
    assert_eq!(altered.next_column, table.next_column.next());
    meta.checkpoint().unwrap();
    let reloaded = Catalog::load(meta.store.as_ref()).unwrap();
    assert_eq!(reloaded, *meta.catalog());
}

#[test]
fn a_lost_schema_version_is_never_given_again() {
    let meta = meta();
    let table = table(&meta);
    // The record of an ALTER was given up; rows behind it have its version.
    let lost = table.schema().version.next();
    meta.skip_schemas(table.id, lost);
    meta.skip_schemas(table.id, lost);
    let table = Arc::clone(meta.catalog().table_by_id(table.id).unwrap());
    assert_eq!(table.history.at(lost), None);
    assert_eq!(table.schema().version, lost.next());
    let schema = meta.alter(table.id, &[add("a", ColumnPlace::Last)]).unwrap();
    assert_eq!(schema.version, lost.next().next());
}

fn modify(from: &str, column: ColumnSpec) -> SchemaChange {
    SchemaChange::ModifyColumn { from: from.to_owned(), column, place: None, is_key: false }
}

#[test]
fn a_type_becomes_one_that_holds_all_values_and_no_other() {
    let meta = meta();
    let table = table(&meta);
    let big = ColumnType::BigInt { unsigned: false };
    let schema = changed(&table, &[modify("score", ColumnSpec::new("points", big))]).unwrap();
    let at = table.schema().position("score").unwrap();
    let (old, new) = (&table.schema().columns[at], &schema.columns[at]);
    assert_eq!((new.id, new.ty, new.name.as_str()), (old.id, big, "points"));
    let small = ColumnType::TinyInt { unsigned: false };
    let (errno, why) = refused(&table, modify("score", ColumnSpec::new("score", small)));
    assert_eq!(errno, 1235);
    assert!(why.contains("'score' may have values") && why.contains("REPLACE WITH TABLE"), "{why}");
    let not_null = ColumnSpec { nullable: false, ..ColumnSpec::new("score", INT) };
    assert!(refused(&table, modify("score", not_null)).1.contains("may have NULL"));
    assert_eq!(refused(&table, modify("nope", ColumnSpec::new("nope", INT))).0, 1054);
    assert_eq!(refused(&table, modify("score", ColumnSpec::new("NAME", INT))).0, 1060);
}

#[test]
fn a_text_becomes_a_longer_one_without_a_copy() {
    use ColumnType::{Blob, Text, VarBinary, VarChar};
    use LobSize::{Long, Medium, Plain, Tiny};
    let meta = meta();
    let table = Table { form: TableForm::MySql, ..Table::clone(&table(&meta)) };
    let of = |ty, lob_size| ColumnSpec { lob_size, ..ColumnSpec::new("a", ty) };
    for (from, to, unit, is_done) in [
        ((Text, Plain), (Text, Medium), LengthUnit::Characters, true),
        ((Blob, Medium), (Blob, Long), LengthUnit::Characters, true),
        ((Text, Medium), (Text, Plain), LengthUnit::Characters, false),
        ((VarBinary { len: 255 }, Plain), (Blob, Tiny), LengthUnit::Characters, true),
        ((VarBinary { len: 256 }, Plain), (Blob, Tiny), LengthUnit::Characters, false),
        ((VarChar { len: 63 }, Plain), (Text, Tiny), LengthUnit::Characters, true),
        ((VarChar { len: 64 }, Plain), (Text, Tiny), LengthUnit::Characters, false),
        ((VarChar { len: 64 }, Plain), (Text, Tiny), LengthUnit::Bytes, true),
    ] {
        let column = of(from.0, from.1);
        let added = [SchemaChange::AddColumn { column, place: ColumnPlace::Last }];
        let mut added = changed(&table, &added).unwrap();
        added.columns.last_mut().unwrap().length_unit = unit;
        let later = Table { history: table.history.with(added), ..table.clone() };
        let done = changed(&later, &[modify("a", of(to.0, to.1))]);
        assert_eq!(done.is_ok(), is_done, "{from:?} to {to:?} of {unit:?}: {done:?}");
    }
}

#[test]
fn a_new_default_is_not_shown_by_rows_older_than_the_column() {
    let meta = meta();
    let table = table(&meta);
    let with = |text: &str| {
        let default = DefaultSpec::Value(DefaultValue::Literal(text.to_owned()));
        ColumnSpec { default, ..ColumnSpec::new("a", INT) }
    };
    let place = ColumnPlace::Last;
    let added = changed(&table, &[SchemaChange::AddColumn { column: with("7"), place }]).unwrap();
    let later = Table { history: table.history.with(added), ..Table::clone(&table) };
    let again = changed(&later, &[modify("a", with("8"))]).unwrap();
    let column = again.columns.last().unwrap();
    assert_eq!(column.default, Some(DefaultValue::Literal("8".to_owned())));
    assert_eq!(column.before.as_deref(), Some("7"));
}

#[test]
fn all_columns_are_ordered_at_once() {
    let meta = meta();
    let table = table(&meta);
    let mut names = names(table.schema()).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let reorder = |columns: &[String]| SchemaChange::Reorder { columns: columns.to_vec() };
    assert!(refused(&table, reorder(&names[1..])).1.contains("should contains all columns"));
    let last = names.len() - 1;
    names.swap(last, last - 1);
    let ordered = changed(&table, &[reorder(&names)]).unwrap();
    assert_eq!(ordered.columns.last().unwrap().name, names[last]);
    names[last] = names[last - 1].clone();
    assert_eq!(refused(&table, reorder(&names)).0, 1110);
}
