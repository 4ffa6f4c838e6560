//! Parameters that clients send as DECIMAL.

use crate::common::{Client, TestServer, text};
use freshet_wire::client::{Outcome, Rows};
use freshet_wire::{ColumnType, Param};

fn executed(client: &mut Client, id: u32, params: &[Param<'_>]) -> Rows {
    match client.execute(id, params) {
        Outcome::Rows(rows) => rows,
        other => panic!("{params:?}: {other:?}"),
    }
}

/// The first cells of what a statement gives for a DECIMAL.
fn found(client: &mut Client, sql: &str, digits: &str) -> Vec<String> {
    let id = client.prepare(sql).unwrap().statement_id;
    let rows = executed(client, id, &[Param::Decimal(digits.as_bytes())]);
    rows.rows.iter().map(|row| text(&row[0])).collect()
}

#[test]
fn they_are_compared_digit_by_digit() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (id int primary key, d decimal(18,2), n bigint, g double)");
    client.run(
        "insert into t values (1, 9007199254740993.25, 9007199254740993, 1.5), \
         (2, 9007199254740993.00, 9007199254740992, 2.25), (3, 1.50, 1, 3), (4, -0.75, -1, 0)",
    );
    for (condition, digits, ids) in [
        ("d = ?", "9007199254740993.25", "1"),
        ("d = ?", "9007199254740993", "2"),
        ("d > ?", "9007199254740993.0", "1"),
        ("d = ?", "1.500", "3"),
        ("d = ?", "15E-1", "3"),
        ("d = ?", "-.75", "4"),
        ("d in (?, 1.5)", "-0.750", "3,4"),
        ("n = ?", "9007199254740993", "1"),
        ("n = ?", "9007199254740992.00", "2"),
        ("n = ?", "1.5", ""),
        ("g = ?", "2.250", "2"),
        ("id = ?", "3.0", "3"),
        ("id = ?", "3.5", ""),
        ("id > ?", "2.5", "3,4"),
    ] {
        let sql = format!("select id from t where {condition} order by id");
        let found = found(&mut client, &sql, digits).join(",");
        assert_eq!(found, ids, "{condition} with {digits}");
    }
    let first = "select id from t order by id limit ?";
    assert_eq!(found(&mut client, first, "2"), ["1", "2"]);
    assert_eq!(found(&mut client, first, "1.0"), ["1"]);
    let id = client.prepare(first).unwrap().statement_id;
    let refused = client.execute(id, &[Param::Decimal(b"1.5")]);
    assert!(matches!(refused, Outcome::Err { errno: 1210, .. }), "{refused:?}");
}

#[test]
fn they_are_decimals_in_expressions() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (id int primary key, d decimal(4,2))");
    client.run("insert into t values (1, null), (2, 2.00), (3, 7)");
    assert_eq!(found(&mut client, "select ?", "1.50"), ["1.50"]);
    assert_eq!(found(&mut client, "select ? * 2", "1.25"), ["2.50"]);
    assert_eq!(found(&mut client, "select concat(?, '!')", "-0.10"), ["-0.10!"]);
    let common = "select coalesce(d, ?) as p from t intersect select id from t order by p";
    assert_eq!(found(&mut client, common, "1.00"), ["1.00", "2.00"]);
    let largest = "99999999999999999999999999999999999999";
    assert_eq!(found(&mut client, "select ?", largest), [largest]);

    let id = client.prepare("select ?").unwrap().statement_id;
    let kind = |client: &mut Client, digits: &str| {
        executed(client, id, &[Param::Decimal(digits.as_bytes())]).types[0].0
    };
    assert_eq!(kind(&mut client, "1.5"), ColumnType::NewDecimal);
    assert_ne!(kind(&mut client, "no number"), ColumnType::NewDecimal, "it stays a text");
    assert_eq!(kind(&mut client, "-3"), ColumnType::NewDecimal);
}

#[test]
fn they_are_stored_as_their_texts_are() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(
        "create table t (id int primary key, i int, s tinyint unsigned, d decimal(10,2), \
         g double, f float, v varchar(10), x text, y year)",
    );
    let values = ["1", "1.5", "2.50", "-1.5", "0.005", "70.25", "-0.00", "1e2", "300", "2024"];
    for mode in ["strict_trans_tables", ""] {
        client.run(&format!("set sql_mode = '{mode}'"));
        for column in ["i", "s", "d", "g", "f", "v", "x", "y"] {
            let sql = format!("insert into t (id, {column}) values (?, ?)");
            let id = client.prepare(&sql).unwrap().statement_id;
            for value in values {
                client.run("truncate table t");
                let value = value.as_bytes();
                let mut done = Vec::new();
                for (key, param) in [(1, Param::Bytes(value)), (2, Param::Decimal(value))] {
                    let code = match client.execute(id, &[Param::Int(key), param]) {
                        Outcome::Ok { .. } => 0,
                        Outcome::Err { errno, .. } => errno,
                        other => panic!("{param:?}: {other:?}"),
                    };
                    let warnings = client.texts("show warnings");
                    let sql = format!("select {column} from t where id = {key}");
                    done.push((code, warnings, client.texts(&sql)));
                }
                assert_eq!(done[0], done[1], "{column} {mode:?} {}", value.escape_ascii());
            }
        }
    }
}
