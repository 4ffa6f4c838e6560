//! `negative: true`: a load is taken back, by sums of what it has.

use serde_json::{Value, json};

use crate::client::ROOT;
use crate::mapped::counts;
use crate::query::data;
use crate::site::Site;

fn load(site: &Site, table: &str, headers: &[&str], body: &str) -> Value {
    let lines = [&[ROOT, "column_separator: ,"], headers].concat();
    let path = format!("/api/d/{table}/_stream_load");
    site.client().request("PUT", &path, &lines, body.as_bytes()).json()
}

fn sums(site: &Site) -> Value {
    let columns = "k, day, n, CAST(d AS CHAR), CAST(f AS CHAR)";
    data(site, &format!("SELECT {columns} FROM s ORDER BY k, day"))["data"].clone()
}

fn table() -> Site {
    let site = Site::new();
    data(
        &site,
        "CREATE TABLE s (k INT NOT NULL, day DATE NOT NULL, n BIGINT SUM, d DECIMAL(30, 4) SUM, \
         f DOUBLE SUM DEFAULT '9') AGGREGATE KEY(k, day) DISTRIBUTED BY HASH(k) \
         BUCKETS 2",
    );
    site
}

const NEGATIVE: &str = "negative: true";

#[test]
fn what_was_loaded_is_subtracted() {
    let site = table();
    let first = "1,2026-01-01,9007199254740993,0.0001,0.5\n";
    let second = "1,2026-01-01,10,12345678901234567890.1234,2.25\n2,2026-01-02,7,1,\\N\n";
    for body in [first, second] {
        assert_eq!(load(&site, "s", &[], body)["Status"], "Success");
    }
    let reply = load(&site, "s", &[NEGATIVE, "label: back"], second);
    assert_eq!((counts(&reply), &reply["Status"]), ([2, 2, 0, 0], &json!("Success")), "{reply}");
    let left = json!([
        [1, "2026-01-01", 9_007_199_254_740_993_i64, "0.0001", "0.5"],
        [2, "2026-01-02", 0, "0.0000", null],
    ]);
    assert_eq!(sums(&site), left);
    // `where` and expressions see what the body has; a default is subtracted, too.
    let columns = "columns: k, day, t, n = t * 2, d = t";
    let headers = [NEGATIVE, columns, "where: n > 5", "group_commit: async_mode"];
    let reply = load(&site, "s", &headers, "3,2026-01-03,3\n3,2026-01-03,2\n");
    assert_eq!(counts(&reply), [2, 1, 0, 1], "{reply}");
    assert_eq!(sums(&site)[2], json!([3, "2026-01-03", -6, "-3.0000", "-9"]));
    let json = [NEGATIVE, "format: json", "read_json_by_line: true", "two_phase_commit: true"];
    let body = "{\"k\": 4, \"day\": \"2026-01-04\", \"n\": 5, \"f\": -1.5}\n";
    let reply = load(&site, "s", &json, body);
    assert_eq!(reply["Status"], "Success", "{reply}");
    let id = format!("txn_id: {}", reply["TxnId"]);
    let lines = [ROOT, &id, "txn_operation: commit"];
    let ended = site.client().request("PUT", "/api/d/_stream_load_2pc", &lines, b"").json();
    assert_eq!(ended["status"], "Success", "{ended}");
    assert_eq!(sums(&site)[3], json!([4, "2026-01-04", -5, null, "1.5"]));
    // A value that is none rejects its row.
    let strict = [NEGATIVE, "strict_mode: true", "max_filter_ratio: 0.5"];
    let reply = load(&site, "s", &strict, "5,2026-01-05,x,1,1\n5,2026-01-05,1,1,1\n");
    assert_eq!((counts(&reply), &reply["Status"]), ([2, 1, 1, 0], &json!("Success")), "{reply}");
    assert_eq!(sums(&site)[4], json!([5, "2026-01-05", -1, "-1.0000", "-1"]));
    site.stop();
}

#[test]
fn the_default_of_a_sum_that_is_not_named_is_taken_back() {
    let site = table();
    let columns = "columns: k, day, n";
    for headers in [&[columns][..], &[columns, NEGATIVE]] {
        assert_eq!(load(&site, "s", headers, "1,2026-01-01,5\n")["Status"], "Success");
    }
    assert_eq!(sums(&site), json!([[1, "2026-01-01", 0, null, "0"]]));
    // A member that an object lacks has its default in both.
    let json = ["format: json", "read_json_by_line: true"];
    for headers in [&json[..], &[NEGATIVE, json[0], json[1]]] {
        let body = "{\"k\": 2, \"day\": \"2026-01-02\", \"n\": 5}\n";
        assert_eq!(load(&site, "s", headers, body)["Status"], "Success");
    }
    assert_eq!(sums(&site)[1], json!([2, "2026-01-02", 0, null, "0"]));
    site.stop();
}

#[test]
fn texts_that_columns_are_computed_of_are_subtracted_exactly() {
    let site = table();
    let columns = "columns: k, day, t, u, f, n = t, d = u";
    let body = "1,2026-01-01,9007199254740993,12345678901234567890.1234,0.5\n";
    for headers in [&[columns][..], &[columns, NEGATIVE]] {
        assert_eq!(load(&site, "s", headers, body)["Status"], "Success");
    }
    assert_eq!(sums(&site), json!([[1, "2026-01-01", 0, "0.0000", "0"]]));
    site.stop();
}

#[test]
fn only_sums_are_taken_back() {
    let site = table();
    data(
        &site,
        "CREATE TABLE m (k INT, n INT SUM, last INT MAX) AGGREGATE KEY(k) DISTRIBUTED BY HASH(k) \
         BUCKETS 1",
    );
    for (table, column) in [("m", "last"), ("t", "b")] {
        let reply = load(&site, table, &[NEGATIVE], "1,1,1\n");
        let wanted = format!("Column is not SUM AggregateType. column:{column}");
        let message = reply["Message"].as_str().unwrap();
        assert!(reply["Status"] == "Fail" && message.contains(&wanted), "{reply}");
    }
    let wrong = load(&site, "s", &["negative: maybe"], "1,2026-01-01,1,1,1\n");
    assert!(wrong["Message"].as_str().unwrap().contains("Invalid negative format"), "{wrong}");
    let sql = "sql: INSERT INTO d.s SELECT * FROM http_stream(\"negative\" = \"true\")";
    let stream = site.client().request("PUT", "/api/_http_stream", &[ROOT, sql], b"1").json();
    assert!(stream["Message"].as_str().unwrap().contains("'negative'"), "{stream}");
    assert_eq!(sums(&site), json!([]));
    site.stop();
}
