//! Partial updates: loads whose rows keep other columns of stored ones.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use serde_json::{Value, json};

use crate::client::ROOT;
use crate::columnar::{parquet, put};
use crate::mapped::{counts, into_unique, unique_table};
use crate::query::data;
use crate::site::Site;

fn message(reply: &Value) -> &str {
    assert_eq!(reply["Status"], "Fail", "{reply}");
    reply["Message"].as_str().unwrap()
}

const PARTIAL: &str = "partial_columns: true";
const FLEXIBLE: &str = "unique_key_update_mode: UPDATE_FLEXIBLE_COLUMNS";

#[test]
fn each_row_has_columns_of_its_own() {
    let site = Site::new();
    data(
        &site,
        "CREATE TABLE f (a INT NOT NULL, b INT NOT NULL, c VARCHAR(9) DEFAULT 'new', d INT, \
         s BITMAP) UNIQUE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 1",
    );
    data(&site, "ALTER TABLE f ENABLE FEATURE \"UPDATE_FLEXIBLE_COLUMNS\"");
    data(
        &site,
        "INSERT INTO f VALUES (1, 10, 'x', 1, TO_BITMAP(1)), (2, 20, 'y', 2, TO_BITMAP(2))",
    );
    let load = |headers: &[&str], body: &str| {
        put(&site, "f", &[&[FLEXIBLE, "format: json"], headers].concat(), body.as_bytes())
    };
    let rows = || {
        let sql = "SELECT a, b, c, d, BITMAP_TO_STRING(s) FROM f ORDER BY a";
        data(&site, sql)["data"].clone()
    };
    // Members in any order, NULL as a value, several rows of a key.
    let body = "{\"b\": 11, \"a\": 1}\n{\"a\": 2, \"c\": null, \"other\": 5}\n\
                {\"A\": 1, \"d\": 7}\n{\"a\": 3, \"b\": 30}\n{\"a\": 3, \"d\": 33}\n";
    let reply = load(&[], body);
    assert_eq!(counts(&reply), [5, 5, 0, 0], "{reply}");
    let wanted = json!([[1, 11, "x", 7, "1"], [2, 20, null, 2, "2"], [3, 30, "new", 33, ""]]);
    assert_eq!(rows(), wanted);
    // A row without its key is rejected, and so is one with another sign than 0 or 1.
    let body = "{\"b\": 1}\n{\"a\": 1, \"b\": 12}\n{\"a\": 2, \"__DORIS_DELETE_SIGN__\": 2}\n";
    let reply = load(&["max_filter_ratio: 0.7"], body);
    assert_eq!(counts(&reply), [3, 1, 2, 0], "{reply}");
    // A plain value is no BITMAP, in lax mode either.
    let reply = load(&["max_filter_ratio: 1"], "{\"a\": 1, \"s\": 5}\n");
    assert_eq!(counts(&reply), [1, 0, 1, 0], "{reply}");
    // A new key lacks a column without a default: nothing is written.
    let reply = load(&[], "{\"a\": 1, \"d\": 0}\n{\"a\": 4, \"d\": 0}\n");
    assert!(message(&reply).contains("key=[4] is new, and column 'b'"), "{reply}");
    let strict = "partial_update_new_key_behavior: ERROR";
    let reply = load(&[strict], "{\"a\": 4, \"b\": 0}\n");
    assert!(message(&reply).contains("Row with key=[4] is not in table"), "{reply}");
    let sql = "sql: INSERT INTO d.f (b) SELECT b FROM http_stream('format' = 'json')";
    let lines = [ROOT, sql, FLEXIBLE, "format: json"];
    let reply = site.client().request("PUT", "/api/_http_stream", &lines, b"{\"b\": 1}").json();
    assert!(message(&reply).contains("in an Http Stream"), "{reply}");
    let array = "[{\"a\": 2, \"c\": \"z\"}, {\"d\": 9, \"a\": 1}]";
    let reply = load(&["strip_outer_array: true", strict, "label: flex"], array);
    assert_eq!(counts(&reply), [2, 2, 0, 0], "{reply}");
    assert_eq!(load(&["label: flex"], "{\"a\": 1}")["Status"], "Label Already Exists");
    let wanted = json!([[1, 12, "x", 9, "1"], [2, 20, "z", 2, "2"], [3, 30, "new", 33, ""]]);
    assert_eq!(rows(), wanted);
    site.stop();
}

#[test]
fn rows_with_columns_of_their_own_may_delete() {
    let site = Site::with_small_records();
    unique_table(&site);
    into_unique(&site, &[], "1,10,a\n2,20,b\n3,30,c\n");
    let load = |headers: &[&str], body: &str| {
        put(&site, "u", &[&[FLEXIBLE, "format: json"], headers].concat(), body.as_bytes())
    };
    let sign = "\"__DORIS_DELETE_SIGN__\"";
    // Each row of a key acts on what the one before it has left; of two signs the last one counts.
    let body = format!(
        "{{\"a\": 1, {sign}: 1}}\n{{\"a\": 2, \"c\": \"x\"}}\n{{{sign}: true, \"a\": 2}}\n\
         {{\"a\": 2, \"b\": 22}}\n{{\"a\": 9, {sign}: \"1\"}}\n\
         {{\"a\": 3, \"c\": \"z\", {sign}: 1, {sign}: 0}}\n"
    );
    let reply = load(&[], &body);
    assert_eq!(counts(&reply), [6, 6, 0, 0], "{reply}");
    assert_eq!(site.rows_of("u"), ["2,22,NULL", "3,30,z"]);
    // Where nothing is there to delete, the label is taken all the same.
    let nothing = format!("{{\"a\": 9, {sign}: 1}}\n");
    assert_eq!(load(&["label: nothing"], &nothing)["Status"], "Success");
    assert_eq!(load(&["label: nothing"], &nothing)["Status"], "Label Already Exists");
    // So do rows that go to files.
    let many = (0..30_000).map(|a| format!("{{\"a\": {a}, \"b\": 1}}\n")).collect::<String>();
    let gone = (0..15_000).map(|a| format!("{{\"a\": {}, {sign}: 1}}\n", 2 * a));
    let reply = load(&[], &(nothing + &many + &gone.collect::<String>()));
    assert_eq!(counts(&reply), [45_001, 45_001, 0, 0], "{reply}");
    let sums = "SELECT COUNT(*), MIN(a % 2), MAX(c) FROM u";
    assert_eq!(data(&site, sums)["data"], json!([[15_000, 1, "z"]]));
    let site = Site::small_records_in(site.stop());
    assert_eq!(data(&site, sums)["data"], json!([[15_000, 1, "z"]]));
    site.stop();
}

#[test]
fn a_key_that_a_part_of_a_load_deletes_is_new_in_a_later_part() {
    let site = Site::with_small_records();
    data(
        &site,
        "CREATE TABLE w (a INT NOT NULL, b INT, c TEXT) UNIQUE KEY(a) DISTRIBUTED BY HASH(a) \
         BUCKETS 2",
    );
    data(&site, "INSERT INTO w VALUES (1, 10, 'old'), (2, 20, 'old'), (3, 30, 'old')");
    let sign = "\"__DORIS_DELETE_SIGN__\"";
    let long = "x".repeat(100_000);
    let between = (10..110).map(|a| format!("{{\"a\": {a}, \"c\": \"{long}\"}}\n"));
    // The rows between are more than what is looked up at once.
    let body = format!("{{\"a\": 1, {sign}: 1}}\n{{\"a\": 2, \"b\": 21}}\n")
        + &between.collect::<String>()
        + &format!("{{\"a\": 1, \"b\": 11}}\n{{\"a\": 2, {sign}: 1}}\n");
    let reply = put(&site, "w", &[FLEXIBLE, "format: json"], body.as_bytes());
    assert_eq!(counts(&reply), [104, 104, 0, 0], "{reply}");
    let rows = "SELECT a, b, c FROM w WHERE a < 10 ORDER BY a";
    let wanted = json!([[1, 11, null], [3, 30, "old"]]);
    assert_eq!(data(&site, rows)["data"], wanted);
    let site = Site::small_records_in(site.stop());
    assert_eq!(data(&site, rows)["data"], wanted);
    assert_eq!(data(&site, "SELECT COUNT(*) FROM w")["data"], json!([[102]]));
    site.stop();
}

#[test]
fn some_rows_of_a_partial_update_may_delete() {
    let site = Site::with_small_records();
    unique_table(&site);
    into_unique(&site, &[], "1,10,a\n2,20,b\n3,30,c\n4,40,d\n");
    let load = |headers: &[&str], body: &str| {
        let reply = into_unique(&site, &[&[PARTIAL], headers].concat(), body);
        assert_eq!(reply["Status"], "Success", "{reply}");
        counts(&reply)
    };
    let merge = ["columns: a, b, op", "merge_type: MERGE", "delete: op = 'd'"];
    assert_eq!(load(&merge, "1,11,u\n2,0,d\n3,0,d\n3,33,u\n9,0,d\n"), [5, 5, 0, 0]);
    assert_eq!(site.rows_of("u"), ["1,11,a", "3,33,NULL", "4,40,d"]);
    let sign = ["columns: a, c, __DORIS_DELETE_SIGN__"];
    assert_eq!(load(&sign, "1,x,0\n4,y,1\n"), [2, 2, 0, 0]);
    assert_eq!(site.rows_of("u"), ["1,11,x", "3,33,NULL"]);
    // Where all rows delete, only their keys count.
    assert_eq!(load(&["columns: a, c", "merge_type: DELETE"], "3,x\n"), [1, 1, 0, 0]);
    assert_eq!(site.rows_of("u"), ["1,11,x"]);
    let stream = |headers: &[&str], body: &str| {
        let sql = "sql: INSERT INTO d.u (a, b, __DORIS_DELETE_SIGN__) SELECT c1, c2, c3 = 'd' \
                   FROM http_stream('format' = 'csv', 'column_separator' = ',')";
        let lines = [&[ROOT, sql], headers].concat();
        site.client().request("PUT", "/api/_http_stream", &lines, body.as_bytes()).json()
    };
    let reply = stream(&[PARTIAL], "1,12,u\n2,22,u\n7,0,d\n");
    assert_eq!(counts(&reply), [3, 3, 0, 0], "{reply}");
    assert_eq!(site.rows_of("u"), ["1,12,x", "2,22,NULL"]);
    let reply = stream(&[], "1,13,u\n2,0,d\n");
    assert_eq!(counts(&reply), [2, 2, 0, 0], "{reply}");
    assert_eq!(site.rows_of("u"), ["1,13,NULL"]);
    // More than a record takes.
    let (many, gone) = ((0..30_000).map(|a| format!("{a},1,u\n")), (0..15_000).map(|a| 2 * a));
    let body = many.chain(gone.map(|a| format!("{a},0,d\n"))).collect::<String>();
    assert_eq!(load(&merge, &body), [45_000, 45_000, 0, 0]);
    let sums = "SELECT COUNT(*), MIN(a % 2), MAX(b) FROM u";
    assert_eq!(data(&site, sums)["data"], json!([[15_000, 1, 1]]));
    let reply = stream(&[], &body);
    assert_eq!(counts(&reply), [45_000, 45_000, 0, 0], "{reply}");
    let site = Site::small_records_in(site.stop());
    assert_eq!(data(&site, sums)["data"], json!([[15_000, 1, 1]]));
    site.stop();
}

#[test]
fn columns_that_are_not_given_keep_their_values() {
    let site = Site::new();
    unique_table(&site);
    into_unique(&site, &[], "1,10,a\n2,20,b\n");
    let load = |headers: &[&str], body: &str| {
        let reply = into_unique(&site, &[&[PARTIAL], headers].concat(), body);
        assert_eq!(reply["Status"], "Success", "{reply}");
        counts(&reply)
    };
    assert_eq!(load(&["columns: a, c"], "1,x\n2,\\N\n1,y\n"), [3, 3, 0, 0]);
    assert_eq!(site.rows_of("u"), ["1,10,y", "2,20,NULL"]);
    // A new key gets defaults.
    assert_eq!(load(&["columns: b, a"], "30,3\n11,1\n31,3\n"), [3, 3, 0, 0]);
    assert_eq!(site.rows_of("u"), ["1,11,y", "2,20,NULL", "3,31,NULL"]);
    // Computed, with a condition, under a label that is used once.
    let computed = ["columns: a, t, b = t * 2", "where: a < 3", "label: once"];
    assert_eq!(load(&computed, "1,1\n2,2\n3,3\n"), [3, 2, 0, 1]);
    let again = into_unique(&site, &[&[PARTIAL], &computed[..]].concat(), "1,9\n");
    assert_eq!(again["Status"], "Label Already Exists", "{again}");
    assert_eq!(site.rows_of("u"), ["1,2,y", "2,4,NULL", "3,31,NULL"]);
    // A body of columns has what it has.
    let (a, b): (ArrayRef, ArrayRef) =
        (Arc::new(Int64Array::from(vec![3, 4])), Arc::new(Int64Array::from(vec![33, 44])));
    let file = parquet(&RecordBatch::try_from_iter([("b", b), ("a", a)]).unwrap());
    let mode = "unique_key_update_mode: UPDATE_FIXED_COLUMNS";
    let reply = put(&site, "u", &["format: parquet", mode], &file);
    assert_eq!(counts(&reply), [2, 2, 0, 0], "{reply}");
    assert_eq!(site.rows_of("u"), ["1,2,y", "2,4,NULL", "3,33,NULL", "4,44,NULL"]);
    let dir = site.stop();
    let site = Site::in_dir(dir, freshet_server::http::HttpConfig::default());
    assert_eq!(site.rows_of("u"), ["1,2,y", "2,4,NULL", "3,33,NULL", "4,44,NULL"]);
    site.stop();
}

#[test]
fn what_is_no_partial_update_is_refused() {
    let site = Site::new();
    unique_table(&site);
    into_unique(&site, &[], "1,10,a\n");
    let load = |headers: &[&str], body: &str| into_unique(&site, headers, body);
    let reply = load(&[PARTIAL, "columns: b, c"], "1,x\n");
    assert!(message(&reply).contains("all key columns, missing: a"), "{reply}");
    // Nothing of a load is written that has one row too many.
    let new = [PARTIAL, "columns: a, b", "partial_update_new_key_behavior: error"];
    let reply = load(&new, "1,11\n5,50\n");
    assert!(message(&reply).contains("Row with key=[5] is not in table"), "{reply}");
    let reply = load(&[PARTIAL, "columns: a, c"], "1,z\n5,z\n");
    assert!(message(&reply).contains("column 'b'"), "{reply}");
    let reply = load(&["columns: b", "merge_type: DELETE"], "1\n");
    assert!(message(&reply).contains("too many filtered rows"), "{reply}");
    assert!(reply["FirstErrorMsg"].as_str().unwrap().contains("column(a)"), "{reply}");
    let reply = load(&[FLEXIBLE], "1,1,x\n");
    assert!(message(&reply).contains("only support json format"), "{reply}");
    for name in ["columns: a, b", "jsonpaths: [\"$.a\"]", "where: a > 1"] {
        let reply = load(&[FLEXIBLE, "format: json", name], "{\"a\": 1}\n");
        let wanted = format!("Don't support flexible partial update when '{}'", &name[..5]);
        assert!(message(&reply).contains(&wanted[..wanted.len() - 1]), "{reply}");
    }
    let reply = load(&[FLEXIBLE, "format: json", "merge_type: DELETE"], "{\"a\": 1}\n");
    assert!(message(&reply).contains("rows that delete"), "{reply}");
    let reply = load(&["unique_key_update_mode: SOME"], "1,1,x\n");
    assert!(message(&reply).contains("must be one of"), "{reply}");
    assert_eq!(site.rows_of("u"), ["1,10,a"]);
    let reply = site.load(&[PARTIAL, "columns: a, b"], "1,1\n");
    assert!(message(&reply).contains("Only unique key"), "{reply}");
    site.stop();
}

#[test]
fn updates_of_several_clients_all_count() {
    let site = Site::new();
    unique_table(&site);
    into_unique(&site, &[], "1,0,a\n");
    // Each of them changes a column of its own, with blind writes of other keys between.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=40 {
                let reply =
                    into_unique(&site, &[PARTIAL, "columns: a, b"], &format!("1,{round}\n"));
                assert_eq!(reply["Status"], "Success", "{reply}");
            }
        });
        scope.spawn(|| {
            for round in 1..=40 {
                let reply =
                    into_unique(&site, &[PARTIAL, "columns: a, c"], &format!("1,{round}\n"));
                assert_eq!(reply["Status"], "Success", "{reply}");
            }
        });
        for round in 0..40 {
            let reply = into_unique(&site, &[], &format!("{},5,x\n", 100 + round));
            assert_eq!(reply["NumberLoadedRows"], json!(1));
        }
    });
    assert_eq!(site.rows_of("u")[0], "1,40,40");
    site.stop();
}

/// Sums and counts of `u`, which tell all its rows apart that the tests below can make.
fn summary(site: &Site) -> Value {
    let sql = "SELECT COUNT(*), COUNT(DISTINCT a), CAST(SUM(b) AS SIGNED), \
               CAST(SUM(c) AS SIGNED), COUNT(c) FROM u";
    data(site, sql)["data"].clone()
}

fn pair(b: impl Fn(u32) -> u32, keys: std::ops::Range<u32>) -> String {
    keys.map(|key| format!("{key},{}\n", b(key))).collect()
}

#[test]
fn many_rows_keep_their_columns() {
    let site = Site::with_small_records();
    unique_table(&site);
    let load = |headers: &[&str], body: &str| {
        let reply = into_unique(&site, headers, body);
        assert_eq!(reply["Status"], "Success", "{reply}");
        counts(&reply)
    };
    let whole = (0..60_000).map(|key| format!("{key},1,{}\n", key % 10)).collect::<String>();
    load(&[], &whole);
    let labelled = [PARTIAL, "columns: a, b", "label: many"];
    assert_eq!(load(&labelled, &pair(|_| 7, 0..60_000)), [60_000, 60_000, 0, 0]);
    assert_eq!(summary(&site), json!([[60_000, 60_000, 420_000, 270_000, 60_000]]));
    assert_eq!(into_unique(&site, &labelled, "1,1\n")["Status"], "Label Already Exists");
    // Several rows of a key, far from each other; keys that are new.
    let body = pair(|_| 0, 0..50_000) + &pair(|key| key % 3, 0..90_000);
    load(&[PARTIAL, "columns: a, b"], &body);
    let sum = (0..90_000).map(|key| key % 3).sum::<i32>();
    assert_eq!(summary(&site), json!([[90_000, 90_000, sum, 270_000, 60_000]]));
    // A row that is too much, or a new key that may not be, and nothing is written.
    let strict = [PARTIAL, "columns: a, b", "partial_update_new_key_behavior: ERROR"];
    let reply = into_unique(&site, &strict, &pair(|_| 9, 0..90_001));
    assert!(message(&reply).contains("Row with key=[90000] is not in table"), "{reply}");
    let reply = into_unique(&site, &strict, &(pair(|_| 9, 0..80_000) + "nonsense\n"));
    assert_eq!(reply["NumberFilteredRows"], 1, "{reply}");
    assert_eq!(summary(&site), json!([[90_000, 90_000, sum, 270_000, 60_000]]));
    // Rows with columns of their own.
    let row = |key: u32| match key % 2 {
        0 => format!("{{\"a\": {key}, \"b\": 5}}\n"),
        _ => format!("{{\"c\": \"1\", \"a\": {key}}}\n"),
    };
    let body = (0..60_000).map(row).collect::<String>();
    let reply = put(&site, "u", &[FLEXIBLE, "format: json"], body.as_bytes());
    assert_eq!(counts(&reply), [60_000, 60_000, 0, 0], "{reply}");
    let even = "SELECT COUNT(*), MIN(b), MAX(b), CAST(SUM(c) AS SIGNED) FROM u \
                WHERE a < 60000 AND a % 2 = 0";
    assert_eq!(data(&site, even)["data"], json!([[30_000, 5, 5, 120_000]]));
    let odd = "SELECT COUNT(*), CAST(SUM(b) AS SIGNED), MIN(c), MAX(c) FROM u \
               WHERE a < 60000 AND a % 2 = 1";
    let sum = (0..60_000).filter(|key| key % 2 == 1).map(|key| key % 3).sum::<i32>();
    assert_eq!(data(&site, odd)["data"], json!([[30_000, sum, "1", "1"]]));
    let before = summary(&site);
    let site = Site::small_records_in(site.stop());
    assert_eq!(summary(&site), before);
    site.stop();
}

#[test]
fn many_rows_meet_those_of_others() {
    let site = Site::with_small_records();
    unique_table(&site);
    into_unique(&site, &[], &(0..60_000).map(|key| format!("{key},0,0\n")).collect::<String>());
    // One changes all of b again and again, others c of few rows, with blind writes and deletes.
    std::thread::scope(|scope| {
        let many = scope.spawn(|| {
            for round in 1..=3 {
                let body = pair(|_| round, 0..60_000);
                let reply = into_unique(&site, &[PARTIAL, "columns: a, b"], &body);
                assert_eq!(reply["Status"], "Success", "{reply}");
            }
        });
        let mut round = 0;
        while !many.is_finished() {
            round += 1;
            let body = format!("17,{round}\n40017,{round}\n");
            let reply = into_unique(&site, &[PARTIAL, "columns: a, c"], &body);
            assert_eq!(reply["Status"], "Success", "{reply}");
            let reply = into_unique(&site, &[], &format!("{},1,1\n", 100_000 + round));
            assert_eq!(reply["Status"], "Success", "{reply}");
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        many.join().unwrap();
        let few = data(&site, "SELECT a, b, c FROM u WHERE a IN (17, 40017) ORDER BY a");
        let last = round.to_string();
        assert_eq!(few["data"], json!([[17, 3, last], [40_017, 3, last]]));
    });
    let all = "SELECT COUNT(*), COUNT(DISTINCT a), MIN(b), MAX(b) FROM u WHERE a < 60000";
    assert_eq!(data(&site, all)["data"], json!([[60_000, 60_000, 3, 3]]));
    site.stop();
}

#[test]
fn many_rows_go_by_their_sequence() {
    let site = Site::with_small_records();
    data(
        &site,
        "CREATE TABLE u (a INT NOT NULL, b INT, c INT) UNIQUE KEY(a) DISTRIBUTED BY HASH(a) \
         BUCKETS 2 PROPERTIES ('function_column.sequence_col' = 'b')",
    );
    into_unique(&site, &[], &(0..60_000).map(|key| format!("{key},5,1\n")).collect::<String>());
    let load = |columns: &str, body: &str| {
        let reply = into_unique(&site, &[PARTIAL, columns], body);
        assert_eq!(reply["Status"], "Success", "{reply}");
    };
    load("columns: a, c", &pair(|_| 2, 0..60_000));
    assert_eq!(summary(&site), json!([[60_000, 60_000, 300_000, 120_000, 60_000]]));
    // Half of them come too late.
    load("columns: a, b", &pair(|key| if key < 30_000 { 4 } else { 6 }, 0..60_000));
    assert_eq!(summary(&site), json!([[60_000, 60_000, 330_000, 120_000, 60_000]]));
    site.stop();
}

#[test]
fn a_key_that_no_partition_takes_is_deleted_by_doing_nothing() {
    let site = Site::with_small_records();
    data(
        &site,
        "CREATE TABLE p (day DATE NOT NULL, a INT NOT NULL, b INT, c INT) UNIQUE KEY(day, a) \
         AUTO PARTITION BY RANGE (date_trunc(day, 'day')) () DISTRIBUTED BY HASH(a) BUCKETS 2",
    );
    let merge = ["columns: day, a, b, op", "merge_type: MERGE", "delete: op = 'd'"];
    let load = |headers: &[&str], body: &str| {
        let csv = [PARTIAL, "column_separator: ,"];
        put(&site, "p", &[&csv[..], &merge[..], headers].concat(), body.as_bytes())
    };
    let partitions = "SELECT COUNT(*) FROM information_schema.partitions \
                      WHERE table_schema = 'd' AND table_name = 'p'";
    // More than a record takes; the last two rows come behind what deletes their keys.
    let new = (0..20_000).map(|a| format!("2024-05-05,{a},1,u\n"));
    let gone = (0..10_000).map(|a| format!("2024-05-05,{},0,d\n", 2 * a));
    let old = (0..20_000).map(|n| format!("{}-01-{:02},{n},0,d\n", 1950 + n % 40, 1 + n % 28));
    let again = "1950-01-01,0,5,u\n2024-05-05,0,6,u\n";
    let body = new.chain(gone).chain(old.clone()).collect::<String>() + again;
    let reply = load(&[], &body);
    assert_eq!(counts(&reply), [50_002, 50_002, 0, 0], "{reply}");
    assert_eq!(data(&site, partitions)["data"], json!([[2]]));
    let sums = "SELECT COUNT(*), CAST(SUM(b) AS SIGNED), MIN(day) FROM p";
    assert_eq!(data(&site, sums)["data"], json!([[10_002, 10_011, "1950-01-01"]]));
    // Where nothing is left to be written the label is taken all the same.
    let old = old.filter(|row| !row.starts_with("1950-01-01,")).collect::<String>();
    assert_eq!(load(&["label: old"], &old)["Status"], "Success");
    assert_eq!(load(&["label: old"], &old)["Status"], "Label Already Exists");
    let site = Site::small_records_in(site.stop());
    assert_eq!(data(&site, partitions)["data"], json!([[2]]));
    assert_eq!(data(&site, sums)["data"], json!([[10_002, 10_011, "1950-01-01"]]));
    site.stop();
}
