use freshet_schema::DeclaredKeyKind;

use super::*;
use crate::spec::{ColumnSpec, DeclaredKeySpec, DefaultSpec, KeyModelSpec, KeySpec, TableSpec};
use crate::test::{INT, meta, spec};

#[test]
fn a_doris_table_is_shown_in_the_form_of_doris() {
    let meta = meta();
    meta.create_database("d", None, None, false).unwrap();
    let mut spec = spec("t");
    spec.key =
        Some(KeySpec { model: KeyModelSpec::Duplicate, columns: vec!["id".into(), "name".into()] });
    spec.columns[0].nullable = false;
    spec.columns[1].comment = "it's".to_owned();
    spec.columns[2].default = DefaultSpec::Value(DefaultValue::Literal("-1".to_owned()));
    spec.columns.push(ColumnSpec::new("b", ColumnType::Boolean));
    spec.comment = "all \\ of it".to_owned();
    spec.properties = vec![("replication_num".to_owned(), "2".to_owned())];
    let table = meta.create_table("d", &spec).unwrap();
    let merges = "\n\"enable_unique_key_merge_on_write\" = \"true\",\n";
    assert!(!show_create_table(&table, None).contains(merges));
    let key = KeySpec { model: KeyModelSpec::Unique, columns: vec!["id".into(), "name".into()] };
    let unique = TableSpec { name: "u".to_owned(), key: Some(key), ..spec.clone() };
    let unique = meta.create_table("d", &unique).unwrap();
    assert!(show_create_table(&unique, None).contains(merges));
    let expected = "\
CREATE TABLE `t` (
  `id` int NOT NULL,
  `name` varchar(50) NULL COMMENT 'it''s',
  `score` int NULL DEFAULT '-1',
  `b` boolean NULL
) ENGINE=OLAP
DUPLICATE KEY(`id`, `name`)
COMMENT 'all \\\\ of it'
DISTRIBUTED BY HASH(`id`) BUCKETS 1
PROPERTIES (
\"replication_allocation\" = \"tag.location.default: 2\",
\"light_schema_change\" = \"true\",
\"group_commit_interval_ms\" = \"10000\",
\"group_commit_data_bytes\" = \"67108864\",
\"group_commit_mode\" = \"off_mode\"
)";
    assert_eq!(show_create_table(&table, None), expected);
}

#[test]
fn a_mysql_table_is_shown_in_the_form_of_mysql() {
    let meta = meta();
    meta.create_database("d", None, None, false).unwrap();
    let mut spec = spec("a`b");
    spec.form = TableForm::MySql;
    spec.distribution = None;
    spec.buckets = crate::BucketsSpec::Unset;
    let stamp = ColumnSpec {
        default: DefaultSpec::Value(DefaultValue::CurrentTimestamp),
        nullable: false,
        ..ColumnSpec::new("at", ColumnType::DateTime { fsp: 3 })
    };
    spec.columns.extend([
        stamp,
        ColumnSpec::new("body", ColumnType::Text),
        ColumnSpec::new("n", INT),
    ]);
    spec.comment = "c".to_owned();
    let key = |kind, name: Option<&str>, column: &str| DeclaredKeySpec {
        kind,
        name: name.map(str::to_owned),
        columns: vec![column.to_owned()],
        first: Vec::new(),
        descending: Vec::new(),
        is_btree: false,
        comment: String::new(),
        global: None,
    };
    spec.declared_keys = vec![
        key(DeclaredKeyKind::Unique, Some("u"), "name"),
        key(DeclaredKeyKind::Primary, None, "id"),
        key(DeclaredKeyKind::Index, None, "score"),
    ];
    let table = meta.create_table("d", &spec).unwrap();
    let expected = "\
CREATE TABLE `a``b` (
  `id` int NOT NULL,
  `name` varchar(50) DEFAULT NULL,
  `score` int DEFAULT NULL,
  `at` datetime(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  `body` text,
  `n` int DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `u` (`name`),
  KEY `score` (`score`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='c'";
    assert_eq!(show_create_table(&table, None), expected);
}
