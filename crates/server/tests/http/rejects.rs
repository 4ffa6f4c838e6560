//! `information_schema.load_rejects`: rejected rows, for who has loaded them and who may read their
//! table.

use serde_json::{Value, json};

use crate::client::authorization;
use crate::query::data;
use crate::site::Site;

const REJECTS: &str = "SELECT LABEL, TABLE_NAME, STATUS, USER, `ROW_NUMBER`, COLUMN_NAME, LINE, \
                       ERROR_URL IS NOT NULL, REASON <> '', TXN_ID IS NULL, ENDED IS NOT NULL \
                       FROM information_schema.load_rejects WHERE TABLE_SCHEMA = 'd'";

/// The rows that an account sees.
fn seen(site: &Site, user: &str) -> Value {
    let body = json!({ "stmt": REJECTS }).to_string();
    let path = "/api/query/default_cluster/information_schema";
    let answer = site.client().request("POST", path, &[&authorization(user, "")], body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["data"]["data"].clone()
}

#[test]
fn rejected_rows_are_kept_for_who_may_read_them() {
    let site = Site::new();
    data(&site, "CREATE USER app, other, reader");
    data(&site, "GRANT INSERT ON d.t TO app");
    data(&site, "GRANT INSERT ON d.t TO other");
    data(&site, "GRANT SELECT ON d.t TO reader");
    let headers = [
        &authorization("app", ""),
        "column_separator: ,",
        "strict_mode: true",
        "label: bad",
        "max_filter_ratio: 0.5",
    ];
    let load = |body: &[u8]| {
        let answer = site.client().request("PUT", "/api/d/t/_stream_load", &headers, body);
        answer.json()["Status"].clone()
    };
    assert_eq!(load(b"1,1,a\nx,2,b\n3,3\n4,4,d\n"), "Success");
    let of_app = |row: u64, column: Value, line: &str| {
        json!(["bad", "t", "Success", "'app'@'%'", row, column, line, 1, 1, 0, 1])
    };
    let both = json!([of_app(2, json!("a"), "x,2,b"), of_app(3, Value::Null, "3,3")]);
    for user in ["app", "reader", "root"] {
        assert_eq!(seen(&site, user), both, "{user}");
    }
    assert_eq!(seen(&site, "other"), json!([]), "rows that others load are not shown to who loads");
    // One that failed is told of first; its label is free again.
    let failing = site.load(
        &["strict_mode: true", "label: worse", "format: json", "read_json_by_line: true"],
        "{\"a\": 1, \"b\": \"no\"}\n",
    );
    assert_eq!(failing["Status"], "Fail", "{failing}");
    let line = "{\"a\": 1, \"b\": \"no\"}";
    let first = json!(["worse", "t", "Fail", "'root'@'%'", 1, "b", line, 1, 1, 1, 1]);
    assert_eq!(seen(&site, "reader")[0], first);
    assert_eq!(seen(&site, "app"), both);
    // Row policies hide rows from who reads, but not what one has loaded.
    data(&site, "CREATE ROW POLICY p ON d.t AS RESTRICTIVE TO reader USING (a > 100)");
    assert_eq!(seen(&site, "reader"), json!([]));
    assert_eq!(seen(&site, "root").as_array().map(Vec::len), Some(3));
    site.stop();
}
