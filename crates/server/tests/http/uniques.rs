//! Loads into a table with a unique key beside its primary key.

use std::fmt::Write;

use freshet_meta::{ColumnSpec, DeclaredKeySpec, TableSpec};
use freshet_schema::{ColumnType, DeclaredKeyKind, TableForm};
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::client::ROOT;
use crate::query::data;
use crate::site::Site;

/// `d.q (a INT PRIMARY KEY, b INT UNIQUE, c VARCHAR(9))`.
fn create(site: &Site) {
    let int = ColumnType::Int { unsigned: false };
    let columns = vec![
        ColumnSpec::new("a", int),
        ColumnSpec::new("b", int),
        ColumnSpec::new("c", ColumnType::VarChar { len: 9 }),
    ];
    let key = |kind, column: &str| DeclaredKeySpec {
        kind,
        name: None,
        columns: vec![column.to_owned()],
        first: Vec::new(),
        descending: Vec::new(),
        is_btree: false,
        comment: String::new(),
        global: None,
    };
    let spec = TableSpec {
        declared_keys: vec![key(DeclaredKeyKind::Primary, "a"), key(DeclaredKeyKind::Unique, "b")],
        ..TableSpec::new("q", TableForm::MySql, columns)
    };
    block_on(site.engine.ddl().create_table("d", spec, false)).unwrap();
}

fn load(site: &Site, body: &str) -> Value {
    let lines = [ROOT, "column_separator: ,"];
    site.client().request("PUT", "/api/d/q/_stream_load", &lines, body.as_bytes()).json()
}

fn fails(site: &Site, body: &str, value: &str) {
    let (before, reply) = (site.rows_of("q"), load(site, body));
    assert_eq!(reply["Status"], json!("Fail"), "{reply}");
    let message = reply["Message"].as_str().unwrap();
    assert!(message.contains(&format!("Duplicate entry '{value}' for key 'q.b'")), "{message}");
    assert_eq!(site.rows_of("q"), before, "nothing was loaded");
}

#[test]
fn rows_replace_by_the_primary_key_and_meet_nobody_on_another() {
    let site = Site::new();
    create(&site);
    assert_eq!(load(&site, "1,10,x\n2,20,y\n3,\\N,z\n4,\\N,z\n")["Status"], json!("Success"));
    fails(&site, "5,20,n\n", "20");
    fails(&site, "5,50,n\n6,50,m\n", "50");
    // What it replaces gives its value up, in whatever order.
    assert_eq!(load(&site, "1,20,a\n2,10,b\n")["Status"], json!("Success"));
    assert_eq!(load(&site, "7,20,a\n1,70,b\n7,71,c\n")["Status"], json!("Success"));
    assert_eq!(site.rows_of("q"), ["1,70,b", "2,10,b", "3,NULL,z", "4,NULL,z", "7,71,c"]);
    site.stop();
}

/// Rows from `first` on, with the values that follow `value`.
fn rows(first: u32, value: u32, count: u32) -> String {
    let mut text = String::new();
    (0..count).for_each(|row| writeln!(text, "{},{},r", first + row, value + row).unwrap());
    text
}

#[test]
fn large_loads_do_the_same() {
    let site = Site::with_small_records();
    create(&site);
    let many = 60_000;
    assert_eq!(load(&site, &rows(0, 0, many))["Status"], json!("Success"));
    // Against files.
    fails(&site, &(rows(many, many, many) + "900000,59999,n\n"), "59999");
    fails(&site, "900000,17,n\n", "17");
    // Among themselves.
    fails(&site, &(rows(many, many, many) + "900000,60001,n\n"), "60001");
    // Against memory.
    assert_eq!(load(&site, "800000,800000,m\n")["Status"], json!("Success"));
    fails(&site, &(rows(many, many, many) + "900000,800000,n\n"), "800000");
    // All rows change their values, and each takes that of another one.
    assert_eq!(load(&site, &rows(0, 1, many))["Status"], json!("Success"));
    assert_eq!(load(&site, "900000,0,n\n")["Status"], json!("Success"));
    fails(&site, "900001,60000,n\n", "60000");
    site.stop();
}

#[test]
fn rows_that_a_hidden_column_names_come_without_it() {
    let site = Site::with_small_records();
    data(&site, "CREATE TABLE q (b INT UNIQUE, c VARCHAR(9))");
    let count = || data(&site, "SELECT COUNT(*), COUNT(DISTINCT b) FROM q")["data"][0].clone();
    let fails = |headers: &[&str], body: &str, wanted: &str| {
        let (before, lines) = (count(), [&[ROOT, "column_separator: ,"], headers].concat());
        let reply = site.client().request("PUT", "/api/d/q/_stream_load", &lines, body.as_bytes());
        let reply = reply.json();
        assert_eq!(reply["Status"], json!("Fail"), "{reply}");
        assert!(reply["Message"].as_str().unwrap().contains(wanted), "{reply}");
        assert_eq!(count(), before, "nothing was loaded");
    };
    assert_eq!(load(&site, "1,x\n\\N,y\n\\N,y\n")["Status"], json!("Success"));
    assert_eq!(count(), json!([3, 1]));
    fails(&[], "2,a\n1,b\n", "Duplicate entry '1' for key 'q.b'");
    fails(&[], "3,a\n3,b\n", "Duplicate entry '3' for key 'q.b'");
    fails(&["format: json"], r#"{"b": 1}"#, "Duplicate entry '1' for key 'q.b'");
    fails(&["merge_type: DELETE"], "1,x\n", "only supported in unique tables");
    fails(&["partial_columns: true", "columns: b"], "1\n", "no UNIQUE KEY");
    let many = |first: u32| {
        let mut text = String::new();
        (first..first + 60_000).for_each(|b| writeln!(text, "{b},r\n\\N,r").unwrap());
        text
    };
    assert_eq!(load(&site, &many(10))["Status"], json!("Success"));
    assert_eq!(count(), json!([120_003, 60_001]));
    fails(&[], &many(60_009), "Duplicate entry '60009' for key 'q.b'");
    data(&site, "DELETE FROM q WHERE b = 60009");
    assert_eq!(load(&site, &many(60_009))["Status"], json!("Success"));
    assert_eq!(count(), json!([240_002, 120_000]));
    site.stop();
}
