//! Partial updates of two phases (RFC 0050).

use freshet_server::http::HttpConfig;
use serde_json::{Value, json};

use crate::client::ROOT;
use crate::query::data;
use crate::site::Site;
use crate::two_phase::{done, end, notes_left, refused, spoil, state};

/// A table whose rows are updated in part, and a row in it.
fn partial_table(site: &Site) {
    data(
        site,
        "CREATE TABLE u (a INT NOT NULL, b INT, c VARCHAR(9) DEFAULT 'new', d INT NOT NULL) \
         UNIQUE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 2",
    );
    data(site, "INSERT INTO u VALUES (1, 10, 'x', 1), (2, 20, 'y', 2)");
}

/// Prepares a partial update of `d.u`; the reply.
fn prepare_partial(site: &Site, headers: &[&str], body: &str) -> Value {
    let all = [ROOT, "two_phase_commit: true", "column_separator: ,"];
    let all = [&all[..], headers].concat();
    site.client().request("PUT", "/api/d/u/_stream_load", &all, body.as_bytes()).json()
}

/// Rows of JSON with these keys, of which each second one names a column more.
fn own_columns(keys: std::ops::Range<u32>) -> String {
    let row = |a: u32| match a % 2 {
        0 => format!("{{\"a\": {a}, \"d\": 5}}\n"),
        _ => format!("{{\"a\": {a}, \"c\": \"odd\", \"d\": {a}}}\n"),
    };
    keys.map(row).collect()
}

fn partial_rows(site: &Site) -> Value {
    data(site, "SELECT * FROM u ORDER BY a")["data"].clone()
}

#[test]
fn a_partial_update_keeps_what_is_stored_at_its_commit() {
    let site = Site::new();
    partial_table(&site);
    let columns = ["partial_columns: true", "columns: a, b", "label: one"];
    let reply = prepare_partial(&site, &columns, "1,11\n2,21\n1,12\n");
    assert_eq!(reply["Status"], "Success", "{reply}");
    assert_eq!(partial_rows(&site), json!([[1, 10, "x", 1], [2, 20, "y", 2]]));
    assert_eq!(state(&site, "one"), "PRECOMMITTED");
    // Others change the rows meanwhile, and the server starts again.
    data(&site, "INSERT INTO u VALUES (1, 0, 'later', 7)");
    let site = Site::in_dir(site.stop(), HttpConfig::default());
    assert_eq!(state(&site, "one"), "PRECOMMITTED");
    let told = format!("transaction [{}] commit successfully.", reply["TxnId"]);
    let commit = ["label: one", "txn_operation: commit"];
    assert_eq!(end(&site, &commit), done(&told));
    assert_eq!(partial_rows(&site), json!([[1, 12, "later", 7], [2, 21, "y", 2]]));
    let visible =
        format!("transaction [{}] is already visible, not pre-committed.", reply["TxnId"]);
    assert_eq!(end(&site, &commit), refused(&visible));
    let again = prepare_partial(&site, &columns, "1,13\n");
    assert_eq!(again["ExistingJobStatus"], "FINISHED", "{again}");
    assert_eq!(notes_left(&site), 0, "the note of an ended load is gone");
    site.stop();
}

#[test]
fn rows_of_a_prepared_partial_update_have_columns_of_their_own() {
    let site = Site::new();
    partial_table(&site);
    let headers = [
        "unique_key_update_mode: UPDATE_FLEXIBLE_COLUMNS",
        "format: json",
        "read_json_by_line: true",
        "label: one",
    ];
    let body = "{\"a\": 1, \"b\": 5}\n{\"a\": 2, \"d\": 6}\n{\"a\": 3, \"d\": 7}\n";
    let reply = prepare_partial(&site, &headers, body);
    assert_eq!(reply["Status"], "Success", "{reply}");
    let site = Site::in_dir(site.stop(), HttpConfig::default());
    let told = format!("transaction [{}] commit successfully.", reply["TxnId"]);
    assert_eq!(end(&site, &["label: one", "txn_operation: commit"]), done(&told));
    let expected = json!([[1, 5, "x", 1], [2, 20, "y", 6], [3, null, "new", 7]]);
    assert_eq!(partial_rows(&site), expected);
    site.stop();
}

#[test]
fn rows_of_a_prepared_partial_update_may_delete() {
    let site = Site::with_small_records();
    partial_table(&site);
    many_rows(&site, 3..6, "kept");
    let flexible = ["unique_key_update_mode: UPDATE_FLEXIBLE_COLUMNS", "format: json"];
    let waits = |label: &str, body: &str| {
        let reply = prepare_partial(&site, &[&flexible[..], &[label]].concat(), body);
        assert_eq!(reply["Status"], "Success", "{reply}");
    };
    let deletes = |a: u32| format!("{{\"a\": {a}, \"__DORIS_DELETE_SIGN__\": 1}}\n");
    waits("label: few", &(deletes(1) + "{\"a\": 2, \"b\": 21}\n" + &deletes(9)));
    waits("label: none", &deletes(9));
    let many = own_columns(10..30_000) + &(3..15_000).map(deletes).collect::<String>();
    waits("label: many", &many);
    data(&site, "INSERT INTO u VALUES (1, 0, 'later', 7)");
    let site = Site::small_records_in(site.stop());
    let commit = |label: &str| end(&site, &[label, "txn_operation: commit"]);
    assert_eq!(commit("label: few").0, "Success");
    let mut wanted = vec![json!([2, 21, "y", 2])];
    wanted.extend((3..6).map(|a| json!([a, 1, "kept", a])));
    assert_eq!(partial_rows(&site), json!(wanted));
    // A load that finds nothing to delete is committed as well.
    assert_eq!(commit("label: none").0, "Success");
    assert_eq!(state(&site, "none"), "VISIBLE");
    assert_eq!(partial_rows(&site), json!(wanted));
    assert_eq!(commit("label: many").0, "Success");
    let sums = "SELECT COUNT(*), MIN(a), COUNT(IF(a < 15000, 1, NULL)) FROM u";
    assert_eq!(data(&site, sums)["data"], json!([[15_001, 2, 1]]));
    let site = Site::small_records_in(site.stop());
    assert_eq!(data(&site, sums)["data"], json!([[15_001, 2, 1]]));
    site.stop();
}

/// Rows of `d.u`, of which each update has the first two columns.
fn many_rows(site: &Site, rows: std::ops::Range<u32>, text: &str) {
    let all = rows.map(|a| format!("({a}, 1, '{text}', {a})")).collect::<Vec<_>>();
    for rows in all.chunks(5000) {
        data(site, &format!("INSERT INTO u VALUES {}", rows.join(", ")));
    }
}

#[test]
fn a_partial_update_that_a_smaller_log_does_not_take_is_committed_by_files() {
    let site = Site::new();
    partial_table(&site);
    many_rows(&site, 3..20_000, "kept");
    let columns = ["partial_columns: true", "columns: a, b"];
    let body = (1..20_001).map(|a| format!("{a},{}\n", a + 7)).collect::<String>();
    let flexible = [
        "unique_key_update_mode: UPDATE_FLEXIBLE_COLUMNS",
        "format: json",
        "read_json_by_line: true",
    ];
    let own = own_columns(1..20_001);
    let label = |name: &str| format!("label: {name}");
    let waits = |label: &str, headers: &[&str], body: &str| {
        let reply = prepare_partial(&site, &[headers, &[label]].concat(), body);
        assert_eq!(reply["Status"], "Success", "{reply}");
        reply["TxnId"].as_i64().unwrap()
    };
    // A key that is new when it is committed lacks a column.
    waits(&label("new"), &columns, &body);
    data(&site, "INSERT INTO u VALUES (20000, 1, 'kept', 20000)");
    let txn = waits(&label("fixed"), &columns, &body);
    waits(&label("own"), &flexible, &own);
    waits(&label("cut"), &columns, &body);
    data(&site, "DELETE FROM u WHERE a = 20000");
    let site = Site::small_log_in(site.stop());
    let commit = |label: &str| end(&site, &[&format!("label: {label}"), "txn_operation: commit"]);
    let (status, message) = commit("new");
    assert!(status == "Fail" && message.contains("is aborted"), "{message}");
    data(&site, "INSERT INTO u VALUES (20000, 1, 'later', 20000)");
    let told = format!("transaction [{txn}] commit successfully.");
    assert_eq!(commit("fixed"), done(&told));
    let sums = |of: &str| {
        let sql =
            format!("SELECT {of}, c, COUNT(*) FROM u WHERE a > 5 GROUP BY 1, 2 ORDER BY 3, 2");
        data(&site, &sql)["data"].clone()
    };
    assert_eq!(sums("b = a + 7 AND d = a"), json!([[1, "later", 1], [1, "kept", 19_994]]));
    assert_eq!(state(&site, "fixed"), "VISIBLE");
    assert_eq!(commit("own").0, "Success");
    let expected = json!([[5, "later", 1], [5, "kept", 9_997], [0, "odd", 9_997]]);
    assert_eq!(sums("IF(b = a + 7 AND d = 5, 5, 0)"), expected);
    data(&site, "TRUNCATE TABLE u");
    let (status, message) = commit("cut");
    assert!(status == "Fail" && message.contains("truncated"), "{message}");
    let site = Site::small_log_in(site.stop());
    assert_eq!(partial_rows(&site), json!([]));
    assert_eq!((state(&site, "own"), state(&site, "cut")), ("VISIBLE".into(), "UNKNOWN".into()));
    site.stop();
}

#[test]
fn whole_rows_that_a_record_does_not_take_are_committed_by_files() {
    let site = Site::with_small_records();
    data(
        &site,
        "CREATE TABLE u (a INT NOT NULL, b INT, c TEXT) UNIQUE KEY(a) DISTRIBUTED BY HASH(a) \
         BUCKETS 2",
    );
    for a in 0..10 {
        data(&site, &format!("INSERT INTO u VALUES ({a}, 1, REPEAT('{a}', 30000))"));
    }
    let columns = ["partial_columns: true", "columns: a, b", "label: one"];
    let body = (0..10).map(|a| format!("{a},2\n")).collect::<String>();
    let reply = prepare_partial(&site, &columns, &body);
    assert_eq!(reply["Status"], "Success", "{reply}");
    assert_eq!(end(&site, &["label: one", "txn_operation: commit"]).0, "Success");
    let sums = "SELECT MIN(b), MIN(LENGTH(c)), COUNT(*) FROM u";
    assert_eq!(data(&site, sums)["data"], json!([[2, 30_000, 10]]));
    site.stop();
}

#[test]
fn a_partial_update_that_can_never_be_committed_is_aborted() {
    let site = Site::new();
    partial_table(&site);
    let commit = |label: &str| {
        let (status, message) = end(&site, &[&format!("label: {label}"), "txn_operation: commit"]);
        assert_eq!(status, "Fail", "{message}");
        message
    };
    let columns = ["partial_columns: true", "columns: a, b"];
    // A new row lacks a column that has no default.
    let label = "label: new";
    prepare_partial(&site, &[&columns[..], &[label]].concat(), "9,90\n");
    let message = commit("new");
    assert!(message.contains("is aborted") && message.contains("'d'"), "{message}");
    let label = "label: altered";
    prepare_partial(&site, &[&columns[..], &[label]].concat(), "1,90\n");
    data(&site, "ALTER TABLE u ADD COLUMN e INT");
    let message = commit("altered");
    assert!(message.contains("other columns"), "{message}");
    let label = "label: truncated";
    prepare_partial(&site, &[&columns[..], &[label]].concat(), "1,90\n");
    data(&site, "TRUNCATE TABLE u");
    let message = commit("truncated");
    assert!(message.contains("is aborted"), "{message}");
    assert_eq!(partial_rows(&site), json!([]));
    assert_eq!(state(&site, "truncated"), "UNKNOWN");
    site.stop();
}

#[test]
fn a_prepared_partial_update_may_be_larger_than_a_record() {
    let site = Site::with_small_records();
    partial_table(&site);
    many_rows(&site, 3..30_001, "kept");
    let columns = ["partial_columns: true", "columns: a, b", "label: fixed"];
    let body = (1..30_001).map(|a| format!("{a},{}\n", a + 7)).collect::<String>();
    let flexible = [
        "unique_key_update_mode: UPDATE_FLEXIBLE_COLUMNS",
        "format: json",
        "read_json_by_line: true",
        "label: own",
    ];
    let own = own_columns(1..30_001);
    let prepared = |headers: &[&str], body: &str| {
        let reply = prepare_partial(&site, headers, body);
        assert_eq!(reply["Status"], "Success", "{reply}");
        reply["TxnId"].as_i64().unwrap()
    };
    let txn = prepared(&columns, &body);
    prepared(&flexible, &own);
    let cut = [&columns[..2], &["label: cut"]].concat();
    prepared(&cut, &body);
    data(&site, "UPDATE u SET c = 'later' WHERE a = 20000");
    let site = Site::small_records_in(site.stop());
    let commit = |label: &str| end(&site, &[label, "txn_operation: commit"]);
    let file = site.dir.path().join(format!("store/prepared/{txn}.partial"));
    spoil(&file);
    let (status, message) = commit("label: fixed");
    assert!(status == "Fail" && message.contains("damaged; abort it"), "{message}");
    spoil(&file);
    assert_eq!(commit("label: fixed"), done(&format!("transaction [{txn}] commit successfully.")));
    let sums = |of: &str| {
        let sql =
            format!("SELECT {of}, c, COUNT(*) FROM u WHERE a > 5 GROUP BY 1, 2 ORDER BY 3, 2");
        data(&site, &sql)["data"].clone()
    };
    assert_eq!(sums("b = a + 7 AND d = a"), json!([[1, "later", 1], [1, "kept", 29_994]]));
    assert_eq!(commit("label: own").0, "Success");
    let expected = json!([[5, "later", 1], [5, "kept", 14_997], [0, "odd", 14_997]]);
    assert_eq!(sums("IF(b = a + 7 AND d = 5, 5, 0)"), expected);
    data(&site, "TRUNCATE TABLE u");
    let (status, message) = commit("label: cut");
    assert!(status == "Fail" && message.contains("truncated"), "{message}");
    assert_eq!(notes_left(&site), 0, "a note is left");
    site.stop();
}
