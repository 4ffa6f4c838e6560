//! Statements over HTTP, in the form of Doris.

use serde_json::{Value, json};

use crate::client::{Answer, ROOT};
use crate::site::Site;

fn ask(site: &Site, database: &str, statement: &str) -> Answer {
    let body = json!({ "stmt": statement }).to_string();
    let path = format!("/api/query/default_cluster/{database}");
    site.client().request("POST", &path, &[ROOT], body.as_bytes())
}

pub fn data(site: &Site, statement: &str) -> Value {
    let answer = ask(site, "d", statement);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer = answer.json();
    assert_eq!((&answer["msg"], &answer["code"]), (&json!("success"), &json!(0)), "{answer}");
    answer["data"].clone()
}

#[test]
fn a_result_has_its_columns_and_rows() {
    let site = Site::new();
    site.load(&[], "1,10,a\n2,\\N,\"\n");
    let result = data(&site, "SELECT a, b, c FROM t ORDER BY a");
    assert_eq!(result["type"], "result_set");
    assert_eq!(result["data"], json!([[1, 10, "a"], [2, null, "\""]]));
    let columns = json!([
        { "name": "a", "type": "INT" }, { "name": "b", "type": "INT" },
        { "name": "c", "type": "VARCHAR" }
    ]);
    assert_eq!(result["meta"], columns);
    assert!(result["time"].is_u64(), "{result}");
    let none = data(&site, "SELECT a FROM t WHERE a > 2");
    assert_eq!(none["data"], json!([]));
    let values = "SELECT TRUE, -1.50, 1e100, DATE '2026-01-02', x'FF00', CAST('{}' AS JSON)";
    let row = json!([[1, -1.5, 1e100, "2026-01-02", "0xFF00", "{}"]]);
    assert_eq!(data(&site, values)["data"], row);
    let shown = data(&site, "SHOW TABLES");
    assert_eq!(shown["data"], json!([["t"]]));
    site.stop();
}

#[test]
fn a_change_is_acknowledged_with_its_counts() {
    let site = Site::new();
    let done = data(&site, "INSERT INTO t VALUES (7, 7, 'x'), (8, 8, 'y')");
    assert_eq!(
        (&done["type"], &done["status"]["affected_rows"]),
        (&json!("exec_status"), &json!(2))
    );
    assert_eq!(site.rows(), ["7,7,x", "8,8,y"]);
    let set = data(&site, "SELECT @v := 5");
    assert_eq!(set["data"], json!([[5]]));
    site.stop();
}

#[test]
fn a_transaction_that_is_left_open_is_rolled_back() {
    let site = Site::new();
    data(&site, "BEGIN");
    data(&site, "INSERT INTO t VALUES (1, 1, 'a')");
    assert_eq!(data(&site, "SELECT a FROM t")["data"], json!([[1]]));
    data(&site, "SET autocommit = 0");
    data(&site, "ROLLBACK");
    assert_eq!(data(&site, "SELECT a FROM t")["data"], json!([[1]]));
    site.stop();
}

#[test]
fn statements_are_counted_by_their_digests() {
    let site = Site::new();
    data(&site, "INSERT INTO t VALUES (1, 1, 'a')");
    data(&site, "INSERT INTO t VALUES (2, 2, 'b')");
    data(&site, "SELECT a FROM t WHERE a < 9");
    ask(&site, "d", "SELECT nothing FROM t");
    let digests = "SELECT DIGEST_TEXT, COUNT_STAR, SUM_ERRORS, SUM_ROWS_AFFECTED, SUM_ROWS_SENT \
                   FROM performance_schema.events_statements_summary_by_digest \
                   WHERE SCHEMA_NAME = 'd' ORDER BY 1";
    let counted = json!([
        ["INSERT INTO `t` VALUES (...)", 2, 0, 2, 0],
        ["SELECT `a` FROM `t` WHERE `a` < ?", 1, 0, 0, 2],
        ["SELECT `nothing` FROM `t`", 1, 1, 0, 0]
    ]);
    assert_eq!(data(&site, digests)["data"], counted);
    site.stop();
}

#[test]
fn what_is_refused_says_why() {
    let site = Site::new();
    let refused = |answer: Answer, status: u16, says: &str| {
        assert_eq!(answer.status, status, "{}", answer.body);
        let json = answer.json();
        assert_eq!(json["data"], Value::Null);
        assert!(json["msg"].as_str().unwrap().contains(says), "{json}");
    };
    refused(ask(&site, "d", "SELECT nothing FROM t"), 400, "Unknown column 'nothing'");
    refused(ask(&site, "d", "SELECT 1e400"), 400, "Illegal double '1e400'");
    let sum = "SELECT SUM(x) FROM (SELECT 1e308 x UNION ALL SELECT 1.1e308) v";
    refused(ask(&site, "d", sum), 400, "DOUBLE value is out of range in 'SUM(x)'");
    refused(ask(&site, "d", "SELECT 1; SELECT 2"), 400, "several statements");
    refused(ask(&site, "d", ""), 400, "Query was empty");
    refused(ask(&site, "none", "SELECT 1"), 404, "Unknown database 'none'");
    let infile = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t";
    refused(ask(&site, "d", infile), 501, "use _stream_load");
    let path = "/api/query/default_cluster/d";
    let send = |headers: &[&str], body: &[u8]| site.client().request("POST", path, headers, body);
    refused(send(&[ROOT], b"SELECT 1"), 400, "in JSON");
    refused(send(&[ROOT], b"{}"), 400, "in JSON");
    refused(send(&[], br#"{"stmt":"SELECT 1"}"#), 401, "no valid Basic authorization");
    refused(send(&[ROOT], &vec![b' '; 2 << 20]), 413, "up to 1048576 bytes");
    assert_eq!(site.get(path, &[ROOT]).status, 405);
    site.stop();
}
