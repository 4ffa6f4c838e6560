//! Loads into tables with generated columns.

use freshet_meta::{ColumnSpec, GeneratedSpec, TableSpec};
use freshet_schema::{ColumnType, TableForm};
use freshet_server::http::HttpConfig;
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::client::ROOT;
use crate::mapped::{counts, into_unique, unique_key};
use crate::site::Site;

/// `d.u (a INT, b INT, s INT AS (a + b), c VARCHAR(9))`.
fn create(site: &Site, form: TableForm, adds: impl FnOnce(&mut TableSpec)) {
    let int = ColumnType::Int { unsigned: false };
    let text = ColumnType::VarChar { len: 9 };
    let generated = GeneratedSpec {
        text: "a + b".to_owned(),
        columns: vec!["a".to_owned(), "b".to_owned()],
        is_stored: true,
    };
    let columns = vec![
        ColumnSpec::new("a", int),
        ColumnSpec::new("b", int),
        ColumnSpec { generated: Some(generated), ..ColumnSpec::new("s", int) },
        ColumnSpec::new("c", text),
    ];
    let mut spec = TableSpec::new("u", form, columns);
    adds(&mut spec);
    block_on(site.engine.ddl().create_table("d", spec, false)).unwrap();
}

fn stream(site: &Site, sql: &str, body: &str) -> Value {
    let sql = format!("sql: {sql}");
    site.client().request("PUT", "/api/_http_stream", &[ROOT, &sql], body.as_bytes()).json()
}

#[test]
fn values_are_computed_and_those_of_a_body_are_ignored() {
    let site = Site::new();
    create(&site, TableForm::Olap, |_| {});
    let load = |headers: &[&str], body: &str| into_unique(&site, headers, body);
    // As a dump of all columns has them.
    assert_eq!(counts(&load(&[], "1,2,99,x\n2,\\N,99,y\n")), [2, 2, 0, 0]);
    assert_eq!(counts(&load(&["columns: b, a"], "4,3\n")), [1, 1, 0, 0]);
    assert_eq!(counts(&load(&["columns: b, s, a"], "5,99,4\n")), [1, 1, 0, 0]);
    assert_eq!(counts(&load(&["columns: a, t, s, b = t * 2"], "5,3,99\n")), [1, 1, 0, 0]);
    let lines = ["format: json", "read_json_by_line: true"];
    assert_eq!(counts(&load(&lines, "{\"s\": 99, \"b\": 1, \"a\": 6}\n")), [1, 1, 0, 0]);
    let reply = load(&["columns: a, b, s = a * 2"], "1,1\n");
    let message = reply["Message"].as_str().unwrap();
    assert!(message.contains("'s' in table 'u' is not allowed"), "{message}");
    let csv = "http_stream('format' = 'csv', 'column_separator' = ',')";
    let reply = stream(&site, &format!("INSERT INTO d.u SELECT c1, c2, c3 FROM {csv}"), "7,1,z\n");
    assert_eq!(reply["Status"], "Success", "{reply}");
    let reply = stream(&site, &format!("INSERT INTO d.u (a, s) SELECT c1, c2 FROM {csv}"), "7,1\n");
    assert_eq!(reply["Status"], "Fail", "{reply}");
    let rows = [
        "1,2,3,x",
        "2,NULL,NULL,y",
        "3,4,7,NULL",
        "4,5,9,NULL",
        "5,6,11,NULL",
        "6,1,7,NULL",
        "7,1,8,z",
    ];
    assert_eq!(site.rows_of("u"), rows);
    // A value that does not fit.
    let reply =
        load(&["strict_mode: true", "max_filter_ratio: 0.5"], "2147483647,1,0,x\n8,1,0,x\n");
    assert_eq!(counts(&reply), [2, 1, 1, 0], "{reply}");
    let site = Site::in_dir(site.stop(), HttpConfig::default());
    assert_eq!(site.rows_of("u").len(), 8);
    site.stop();
}

#[test]
fn partial_updates_compute_whole_rows() {
    let site = Site::new();
    create(&site, TableForm::Olap, |spec| spec.key = Some(unique_key()));
    let partial = ["partial_columns: true"];
    let load = |headers: &[&str], body: &str| {
        let reply = into_unique(&site, headers, body);
        assert_eq!(reply["Status"], "Success", "{reply}");
    };
    load(&["columns: a, b, c"], "1,10,x\n2,20,y\n");
    load(&[&partial[..], &["columns: a, c"]].concat(), "1,p\n3,q\n");
    load(&[&partial[..], &["columns: a, b"]].concat(), "2,21\n2,22\n");
    assert_eq!(site.rows_of("u"), ["1,10,11,p", "2,22,24,y", "3,NULL,NULL,q"]);
    load(&["merge_type: DELETE", "columns: a"], "2\n");
    load(&["merge_type: MERGE", "delete: b = 0", "columns: a, b"], "1,0\n4,1\n");
    assert_eq!(site.rows_of("u"), ["3,NULL,NULL,q", "4,1,5,NULL"]);
    site.stop();
}

#[test]
fn large_and_prepared_loads_compute_as_well() {
    let site = Site::with_small_records();
    create(&site, TableForm::MySql, |_| {});
    let body: String = (0..30_000).map(|a| format!("{a},{a},0,x\n")).collect();
    assert_eq!(counts(&into_unique(&site, &[], &body)), [30_000, 30_000, 0, 0]);
    let prepared = into_unique(&site, &["two_phase_commit: true"], "50000,1,0,y\n");
    let txn = format!("txn_id: {}", prepared["TxnId"]);
    let end = |site: &Site| {
        let lines = [ROOT, txn.as_str(), "txn_operation: commit"];
        site.client().request("PUT", "/api/d/_stream_load_2pc", &lines, b"").json()
    };
    assert_eq!(end(&site)["status"], json!("Success"));
    let rows = site.rows_of("u");
    let is_right = |row: &String| {
        let cells = row.split(',').map(|cell| cell.parse().unwrap_or(0)).collect::<Vec<i64>>();
        cells[0] + cells[1] == cells[2]
    };
    assert_eq!(rows.iter().filter(|row| is_right(row)).count(), 30_001);
    site.stop();
}
