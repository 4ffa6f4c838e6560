use freshet_base::ColumnId;
use freshet_schema::{Aggregate, DefaultValue, LengthUnit, Step};

use super::*;
use crate::spec::{ColumnSpec, ComputedSpec, DefaultSpec, PlacementSpec};
use crate::test::{INT, spec};

fn refused(spec: &TableSpec) -> (u16, String) {
    let error = Planned::check(spec).unwrap_err();
    (error.code().errno(), error.message().to_owned())
}

fn duplicate_key(columns: &[&str]) -> Option<KeySpec> {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    Some(KeySpec { model: KeyModelSpec::Duplicate, columns })
}

fn declared(kind: DeclaredKeyKind, name: Option<&str>, columns: &[&str]) -> DeclaredKeySpec {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    DeclaredKeySpec {
        kind,
        name: name.map(str::to_owned),
        columns,
        first: Vec::new(),
        descending: Vec::new(),
        is_btree: false,
        comment: String::new(),
        global: None,
    }
}

#[test]
fn keys_must_be_a_prefix_of_the_columns() {
    let mut spec = spec("t");
    spec.key = duplicate_key(&["id", "score"]);
    let (_, message) = refused(&spec);
    assert_eq!(
        message,
        "Key columns should be a ordered prefix of the schema. KeyColumns[1] (starts from zero) \
         is score, but corresponding column is name in the previous columns declaration."
    );
    spec.columns[1].ty = ColumnType::Text;
    spec.key = duplicate_key(&["id", "name"]);
    assert!(refused(&spec).1.contains("String Type should not be used in key column[name]"));
    spec.columns[1].ty = INT;
    spec.key = duplicate_key(&["nope"]);
    assert_eq!(refused(&spec).1, "Key column[nope] doesn't exist.");
    spec.key = duplicate_key(&["ID", "name"]);
    assert_eq!(Planned::check(&spec).unwrap().key_columns, 2);
}

#[test]
fn values_of_an_aggregate_key_say_how_they_become_one() {
    let mut spec = spec("t");
    spec.key = Some(KeySpec { model: KeyModelSpec::Aggregate, columns: vec!["id".to_owned()] });
    assert!(refused(&spec).1.contains("should specify aggregate type for non-key column[name]"));
    for column in &mut spec.columns[1..] {
        column.aggregate = Some(Aggregate::Replace);
    }
    let planned = Planned::check(&spec).unwrap();
    assert_eq!((planned.key_model, planned.key_columns), (KeyModel::Aggregate, 1));
    assert_eq!(planned.distribution, Distribution::Hash(vec![ColumnId(1)]));
    spec.columns[1].ty = ColumnType::VarChar { len: 9 };
    spec.columns[1].aggregate = Some(Aggregate::Sum);
    assert!(refused(&spec).1.contains("SUM is not compatible with primitive type varchar(9)"));
    spec.columns[1].aggregate = Some(Aggregate::Max);
    spec.key = Some(KeySpec { model: KeyModelSpec::Unique, columns: vec!["id".to_owned()] });
    assert!(refused(&spec).1.contains("UNIQUE_KEYS table should not specify aggregate type"));
    spec.columns[0].aggregate = Some(Aggregate::Max);
    assert!(refused(&spec).1.contains("Key column[id] should not specify aggregate type."));
}

#[test]
fn rows_of_unique_key_tables_are_divided_by_their_key() {
    let mut spec = spec("t");
    let hashed = |names: &[&str]| {
        Some(DistributionSpec::Hash(names.iter().map(|name| (*name).to_owned()).collect()))
    };
    let columns = vec!["id".to_owned(), "name".to_owned()];
    spec.key = Some(KeySpec { model: KeyModelSpec::Unique, columns });
    let planned = Planned::check(&spec).unwrap();
    assert_eq!((planned.key_model, planned.key_columns), (KeyModel::Unique, 2));
    spec.distribution = None;
    let all = Distribution::Hash(vec![ColumnId(1), ColumnId(2)]);
    assert_eq!(Planned::check(&spec).unwrap().distribution, all);
    spec.distribution = Some(DistributionSpec::Random);
    assert!(refused(&spec).1.contains("Should not be distributed by random"));
    spec.distribution = hashed(&["name", "score"]);
    assert_eq!(refused(&spec).1, "Distribution column[score] is not key column");
    spec.distribution = hashed(&["name"]);
    spec.columns[1].ty = ColumnType::VarChar { len: 3069 };
    assert_eq!(refused(&spec).0, 1071);
    spec.columns[1].ty = ColumnType::VarChar { len: 3068 };
    assert!(Planned::check(&spec).is_ok());
}

#[test]
fn columns_are_checked() {
    let mut twice = spec("t");
    twice.columns.push(ColumnSpec::new("ID", INT));
    assert_eq!(refused(&twice), (1060, "Duplicate column name 'ID'".to_owned()));

    let mut first = spec("t");
    first.columns.insert(0, ColumnSpec::new("f", ColumnType::Double));
    let expected = "The olap table first column could not be float, double, string or array, \
                    struct, map, please use decimal or varchar instead.";
    assert_eq!(refused(&first).1, expected);
    first.form = TableForm::MySql;
    assert_eq!(Planned::check(&first).unwrap().key_columns, 0);

    let mut long = spec("t");
    long.columns.push(ColumnSpec::new("c", ColumnType::Char { len: 256 }));
    assert_eq!(refused(&long).0, 1074);
    long.columns.pop();
    long.columns.push(ColumnSpec::new("d", ColumnType::Decimal { precision: 39, scale: 0 }));
    assert!(refused(&long).1.contains("Too-big precision 39 specified for 'd'. Maximum is 38."));
    long.columns.pop();
    long.columns.push(ColumnSpec::new("d", ColumnType::Decimal { precision: 9, scale: 10 }));
    assert_eq!(refused(&long).0, 1074);

    let mut many = spec("t");
    many.columns.extend((0..COLUMNS_MAX).map(|n| ColumnSpec::new(format!("c{n}"), INT)));
    assert!(refused(&many).1.contains("limit 1024"));
    let mut none = spec("t");
    none.columns.clear();
    assert!(refused(&none).1.contains("at least one"));
}

#[test]
fn distribution_and_buckets_are_checked() {
    let mut spec = spec("t");
    spec.distribution = Some(DistributionSpec::Hash(vec!["nope".to_owned()]));
    assert_eq!(refused(&spec).1, "Distribution column(nope) doesn't exist");
    spec.distribution = Some(DistributionSpec::Random);
    spec.buckets = BucketsSpec::Count(0);
    assert!(refused(&spec).1.contains("number of hash distribution should be greater than zero"));
    spec.buckets = BucketsSpec::Count(4096);
    assert!(refused(&spec).1.contains("limit 1024"));
    spec.buckets = BucketsSpec::Auto;
    let planned = Planned::check(&spec).unwrap();
    assert_eq!((planned.buckets, planned.buckets_auto), (1, true));
    assert_eq!(planned.distribution, Distribution::Random);
}

#[test]
fn defaults_must_fit_their_column() {
    let with = |ty, nullable, default| {
        let mut spec = spec("t");
        spec.columns.push(ColumnSpec { nullable, default, ..ColumnSpec::new("c", ty) });
        Planned::check(&spec).map_err(|error| error.code().errno())
    };
    let literal = |text: &str| DefaultSpec::Value(DefaultValue::Literal(text.to_owned()));
    assert!(with(INT, false, literal("-1")).is_ok());
    assert_eq!(with(INT, false, literal("x")).unwrap_err(), 1067);
    assert_eq!(with(INT, false, literal("3000000000")).unwrap_err(), 1067);
    assert_eq!(with(ColumnType::Char { len: 2 }, true, literal("abc")).unwrap_err(), 1067);
    assert_eq!(with(ColumnType::Date, true, literal("2024-02-30")).unwrap_err(), 1067);
    assert!(with(ColumnType::Date, true, literal("2024-02-29")).is_ok());
    assert_eq!(with(INT, false, DefaultSpec::Null).unwrap_err(), 1067);
    assert!(with(INT, true, DefaultSpec::Null).is_ok());
    let now = DefaultSpec::Value(DefaultValue::CurrentTimestamp);
    assert_eq!(with(INT, true, now.clone()).unwrap_err(), 1067);
    assert!(with(ColumnType::DateTime { fsp: 0 }, true, now).is_ok());
    let today = DefaultSpec::Value(DefaultValue::CurrentDate);
    assert_eq!(with(ColumnType::DateTime { fsp: 0 }, true, today).unwrap_err(), 1067);
}

#[test]
fn a_key_that_nobody_wrote_is_short_and_ends_behind_text() {
    let keys = |types: &[ColumnType]| {
        let columns = types.iter().enumerate().map(|(n, &ty)| ColumnSpec::new(format!("c{n}"), ty));
        let spec = TableSpec { columns: columns.collect(), distribution: None, ..spec("t") };
        Planned::check(&spec).unwrap().key_columns
    };
    let text = |len| ColumnType::VarChar { len };
    assert_eq!(keys(&[INT, INT, INT, INT]), 3);
    assert_eq!(keys(&[INT, ColumnType::Double]), 1);
    assert_eq!(keys(&[INT, text(10), INT]), 2);
    assert_eq!(keys(&[text(200), INT]), 1);
    assert_eq!(keys(&[INT, text(200), INT]), 1);
    assert_eq!(keys(&[ColumnType::LargeInt, ColumnType::LargeInt, ColumnType::LargeInt]), 2);
    assert_eq!(keys(&[INT]), 1);
}

#[test]
fn keys_of_the_mysql_form_are_kept_and_enforced_beside_a_primary_key() {
    let mut spec = spec("t");
    spec.form = TableForm::MySql;
    spec.distribution = None;
    spec.declared_keys = vec![
        declared(DeclaredKeyKind::Unique, None, &["name", "score"]),
        declared(DeclaredKeyKind::Index, None, &["name"]),
        declared(DeclaredKeyKind::Primary, None, &["id"]),
    ];
    let planned = Planned::check(&spec).unwrap();
    let names = planned.declared_keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["PRIMARY", "name", "name_2"]);
    assert!(!planned.schema.columns[0].nullable, "a primary key takes no NULL");
    assert_eq!(planned.warnings, [""; 0]);
    assert_eq!(planned.declared_keys[1].kind, DeclaredKeyKind::Unique);
    assert_eq!(planned.key_model, KeyModel::Primary);
    assert_eq!(planned.schema.sort_key, [0]);
    assert_eq!(planned.schema.columns[1].length_unit, LengthUnit::Characters);

    let primary = spec.declared_keys.pop().unwrap();
    let planned = Planned::check(&spec).unwrap();
    assert_eq!(planned.warnings, [""; 0]);
    assert_eq!(planned.declared_keys[0].kind, DeclaredKeyKind::Unique);
    assert_eq!((planned.key_model, &planned.schema.sort_key[..]), (KeyModel::Primary, &[3][..]));
    assert_eq!((planned.schema.row_id(), planned.schema.shown().len()), (Some(3), 3));
    assert_eq!(planned.distribution, Distribution::Hash(vec![ColumnId(4)]));
    spec.declared_keys.push(primary);

    let before = spec.clone();
    spec.columns.push(ColumnSpec::new("note", ColumnType::Text));
    spec.declared_keys.push(declared(DeclaredKeyKind::Unique, None, &["note"]));
    assert_eq!(refused(&spec).0, 1170);
    spec = before;

    spec.declared_keys.push(declared(DeclaredKeyKind::Primary, None, &["score"]));
    assert_eq!(refused(&spec), (1068, "Multiple primary key defined".to_owned()));
    spec.declared_keys = vec![declared(DeclaredKeyKind::Index, Some("k"), &["nope"])];
    assert_eq!(refused(&spec).0, 1072);
}

#[test]
fn rows_without_a_name_get_one_where_a_unique_key_needs_it() {
    let mut spec = TableSpec { form: TableForm::MySql, distribution: None, ..spec("t") };
    let row_id = |spec: &TableSpec| Planned::check(spec).unwrap().schema.row_id();
    let unique = |column| declared(DeclaredKeyKind::Unique, None, &[column]);
    assert_eq!(row_id(&spec), None, "nobody asks for it");
    spec.declared_keys = vec![declared(DeclaredKeyKind::UniqueHint, None, &["name"])];
    assert_eq!(row_id(&spec), None, "it is only shown");
    spec.declared_keys = vec![unique("name")];
    assert_eq!(row_id(&spec), Some(3));
    // Columns that divide the rows stand before it in the key.
    spec.distribution = Some(DistributionSpec::Hash(vec!["score".to_owned()]));
    let planned = Planned::check(&spec).unwrap();
    assert_eq!(planned.schema.sort_key, [2, 3]);
    assert_eq!(planned.distribution, Distribution::Hash(vec![ColumnId(3)]));
    spec.distribution = Some(DistributionSpec::Random);
    assert_eq!(row_id(&spec), Some(3));
    // It has the counter of a column that users see.
    spec.columns[2].auto_increment = true;
    spec.declared_keys.push(declared(DeclaredKeyKind::Index, None, &["score"]));
    let planned = Planned::check(&spec).unwrap();
    assert_eq!((planned.schema.row_id_beside(), planned.warnings.len()), (Some(3), 0));
    spec.columns[2].auto_increment = false;
    assert_eq!(Planned::check(&spec).unwrap().schema.row_id_beside(), None);
    // A table has an end.
    let more = (3..COLUMNS_MAX).map(|n| ColumnSpec::new(format!("c{n}"), INT));
    spec.columns.extend(more);
    assert_eq!(row_id(&spec), None);
    spec.columns.pop();
    assert_eq!(row_id(&spec), Some(COLUMNS_MAX - 1));
    spec.columns[3].name = freshet_schema::ROW_ID.to_owned();
    assert_eq!(refused(&spec).0, 1166);
}

#[test]
fn a_clause_of_polardbx_divides_rows_by_its_columns_or_by_the_key() {
    let mut spec = TableSpec { distribution: None, ..spec("t") };
    let (id, score) = (ColumnId(1), ColumnId(3));
    let placed = |columns: &[&str]| {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        let text = "as written".to_owned();
        Some(PlacementSpec { text, columns, parts: Vec::new(), computed: None })
    };
    spec.placement = placed(&["score"]);
    let planned = Planned::check(&spec).unwrap();
    assert_eq!(planned.distribution, Distribution::Hash(vec![score]));
    assert_eq!(planned.placement.unwrap().columns, [score]);
    spec.placement = placed(&[]);
    assert_eq!(Planned::check(&spec).unwrap().distribution, Distribution::Random);
    spec.declared_keys = vec![declared(DeclaredKeyKind::Primary, None, &["id"])];
    for (columns, warned) in [(&["id"][..], 0), (&[], 0), (&["score"], 1), (&["id", "score"], 1)] {
        spec.placement = placed(columns);
        let planned = Planned::check(&spec).unwrap();
        assert_eq!(planned.distribution, Distribution::Hash(vec![id]), "{columns:?}");
        assert_eq!(planned.warnings.len(), warned, "{columns:?}");
    }
    spec.placement = placed(&["nope"]);
    assert_eq!(refused(&spec).0, 1072);
    let (columns, parts) = (Vec::new(), Vec::new());
    let text = "x".repeat(5000);
    spec.placement = Some(PlacementSpec { text, columns, parts, computed: None });
    assert_eq!(refused(&spec).0, 1406);
}

#[test]
fn a_clause_of_polardbx_divides_rows_by_the_number_of_an_expression() {
    let steps = vec![Step::Value, Step::Number(100), Step::Modulo];
    let computed = ComputedSpec { text: "`score` % 100".to_owned(), steps };
    let placed = |columns: &[&str]| {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        let (text, computed) = ("as written".to_owned(), Some(computed.clone()));
        Some(PlacementSpec { text, columns, parts: Vec::new(), computed })
    };
    let mut spec = TableSpec { distribution: None, ..spec("t") };
    spec.columns[2].ty = INT;
    spec.placement = placed(&["score"]);
    let Distribution::Computed(expr) = Planned::check(&spec).unwrap().distribution else {
        panic!("it is divided by its expression");
    };
    assert_eq!((expr.numbers.id, expr.of, expr.text.as_str()), (ColumnId(3), INT, "`score` % 100"));
    // Beside another column, and of another type, it makes no difference.
    spec.placement = placed(&["score", "id"]);
    assert!(matches!(Planned::check(&spec).unwrap().distribution, Distribution::Hash(_)));
    spec.columns[2].ty = ColumnType::VarChar { len: 9 };
    spec.placement = placed(&["score"]);
    let hashed = Distribution::Hash(vec![ColumnId(3)]);
    assert_eq!(Planned::check(&spec).unwrap().distribution, hashed);
    // The key divides the rows where it lacks the column.
    spec.columns[2].ty = INT;
    spec.declared_keys = vec![declared(DeclaredKeyKind::Primary, None, &["id"])];
    let by_key = Distribution::Hash(vec![ColumnId(1)]);
    assert_eq!(Planned::check(&spec).unwrap().distribution, by_key);
}
