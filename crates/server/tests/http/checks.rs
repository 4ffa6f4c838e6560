//! Loads into a table with CHECK constraints.

use freshet_meta::{CheckSpec, ColumnSpec, DeclaredKeySpec, TableSpec};
use freshet_schema::{ColumnType, DeclaredKeyKind, TableForm};
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::client::ROOT;
use crate::mapped::counts;
use crate::site::Site;

/// `d.k (a INT PRIMARY KEY, b INT, c VARCHAR(9), CONSTRAINT rises CHECK (b > a))`.
fn create(site: &Site) {
    let int = ColumnType::Int { unsigned: false };
    let key = DeclaredKeySpec {
        kind: DeclaredKeyKind::Primary,
        name: None,
        columns: vec!["a".to_owned()],
        first: Vec::new(),
        descending: Vec::new(),
        is_btree: false,
        comment: String::new(),
        global: None,
    };
    let check = CheckSpec {
        name: Some("rises".to_owned()),
        text: "b > a".to_owned(),
        columns: vec!["a".to_owned(), "b".to_owned()],
        is_enforced: true,
    };
    let columns = vec![
        ColumnSpec::new("a", int),
        ColumnSpec::new("b", int),
        ColumnSpec::new("c", ColumnType::VarChar { len: 9 }),
    ];
    let spec = TableSpec {
        declared_keys: vec![key],
        checks: vec![check],
        ..TableSpec::new("k", TableForm::MySql, columns)
    };
    block_on(site.engine.ddl().create_table("d", spec, false)).unwrap();
}

fn load(site: &Site, headers: &[&str], body: &str) -> Value {
    let lines = [&[ROOT, "column_separator: ,"], headers].concat();
    site.client().request("PUT", "/api/d/k/_stream_load", &lines, body.as_bytes()).json()
}

#[test]
fn rows_that_violate_a_constraint_are_filtered() {
    let site = Site::new();
    create(&site);
    let body = "1,2\n2,2\n3,\\N\n4,5\n";
    let reply = load(&site, &["columns: a, b"], body);
    assert_eq!((counts(&reply), &reply["Status"]), ([4, 0, 1, 0], &json!("Fail")), "{reply}");
    let message = reply["Message"].as_str().unwrap();
    assert!(message.contains("too many filtered rows"), "{message}");
    let reply = load(&site, &["columns: a, b", "max_filter_ratio: 0.5"], body);
    assert_eq!((counts(&reply), &reply["Status"]), ([4, 3, 1, 0], &json!("Success")), "{reply}");
    assert_eq!(site.rows_of("k"), ["1,2,NULL", "3,NULL,NULL", "4,5,NULL"]);
    // Computed rows, and members of JSON in any order.
    let columns = ["columns: a, t, b = t * 2", "max_filter_ratio: 0.5"];
    let reply = load(&site, &columns, "10,6\n11,5\n");
    assert_eq!(counts(&reply), [2, 1, 1, 0], "{reply}");
    let json_lines = ["format: json", "read_json_by_line: true", "max_filter_ratio: 0.5"];
    let reply = load(&site, &json_lines, "{\"b\": 30, \"a\": 20}\n{\"b\": 1, \"a\": 20}\n");
    assert_eq!(counts(&reply), [2, 1, 1, 0], "{reply}");
    assert_eq!(site.rows_of("k")[1..3], ["10,12,NULL", "20,30,NULL"]);
    site.stop();
}

#[test]
fn large_loads_are_checked_as_well() {
    let site = Site::with_small_records();
    create(&site);
    let body: String = (0..60_000).map(|a| format!("{a},{}\n", a + 1 - (a % 1000) / 999)).collect();
    let reply = load(&site, &["columns: a, b", "max_filter_ratio: 0.01"], &body);
    assert_eq!(counts(&reply), [60_000, 59_940, 60, 0], "{reply}");
    site.stop();
}

#[test]
fn rows_that_delete_need_not_satisfy_a_constraint() {
    let site = Site::new();
    create(&site);
    load(&site, &[], "1,2,a\n4,5,b\n");
    let merge = ["merge_type: MERGE", "delete: c = 'del'", "max_filter_ratio: 0.5"];
    let reply = load(&site, &merge, "1,0,del\n4,9,new\n7,8,x\n");
    assert_eq!((counts(&reply), &reply["Status"]), ([3, 3, 0, 0], &json!("Success")), "{reply}");
    assert_eq!(site.rows_of("k"), ["4,9,new", "7,8,x"]);
    // The others still do.
    let reply = load(&site, &merge, "4,0,del\n7,1,y\n");
    assert_eq!(counts(&reply), [2, 1, 1, 0], "{reply}");
    assert_eq!(site.rows_of("k"), ["7,8,x"]);
    site.stop();
}
