//! Large loads of which rows delete, and prepared ones: their removals are in files.

use std::collections::BTreeMap;
use std::fmt::Write;

use freshet_server::http::HttpConfig;
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::client::ROOT;
use crate::mapped::{counts, into_unique, unique_table};
use crate::query::data;
use crate::site::Site;

const DELETE: [&str; 2] = ["merge_type: DELETE", "columns: a"];
const MERGE: [&str; 2] = ["merge_type: MERGE", "delete: c = 'del'"];

fn load(site: &Site, headers: &[&str], body: &str) -> [i64; 4] {
    let reply = into_unique(site, headers, body);
    assert_eq!(reply["Status"], "Success", "{reply}");
    counts(&reply)
}

/// Lines of these keys, each with `rest` behind it.
fn lines(keys: impl Iterator<Item = u32>, rest: &str) -> String {
    let mut text = String::new();
    keys.for_each(|key| writeln!(text, "{key}{rest}").unwrap());
    text
}

/// `SELECT *`, row by row.
fn rows(site: &Site) -> BTreeMap<i64, (i64, String)> {
    let found = data(site, "SELECT a, b, IFNULL(c, 'none') FROM u ORDER BY a")["data"].clone();
    let row = |row: &Value| {
        let text = row[2].as_str().unwrap().to_owned();
        (row[0].as_i64().unwrap(), (row[1].as_i64().unwrap(), text))
    };
    let all = found.as_array().unwrap().iter().map(row).collect::<Vec<_>>();
    let count = data(site, "SELECT COUNT(*) FROM u")["data"][0][0].as_i64().unwrap();
    assert_eq!(count, all.len() as i64, "both count the same rows");
    let rows = all.iter().cloned().collect::<BTreeMap<_, _>>();
    assert_eq!(rows.len(), all.len(), "a key is there once");
    rows
}

fn flush(site: &Site) {
    let id = site.engine.target("d", "u").unwrap().id();
    block_on(site.engine.flush_table(id)).unwrap();
}

/// Applies a body of MERGE to what a table should have.
fn apply(model: &mut BTreeMap<i64, (i64, String)>, body: &str) {
    for line in body.lines() {
        let fields = line.split(',').collect::<Vec<_>>();
        let key = fields[0].parse().unwrap();
        match fields[2] {
            "del" => _ = model.remove(&key),
            text => _ = model.insert(key, (fields[1].parse().unwrap(), text.to_owned())),
        }
    }
}

/// Rows of any kind: their keys come again and again.
fn mixed(rows: u32, keys: u32, seed: u32) -> String {
    let (mut text, mut state) = (String::new(), seed);
    for row in 0..rows {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = (state >> 8) % keys;
        let deletes = (state >> 20) % 3 == 0;
        writeln!(text, "{key},{row},{}", if deletes { "del" } else { "x" }).unwrap();
    }
    text
}

/// All that a large load of rows that delete goes through, in `d.u`.
fn goes_through(site: Site) {
    let count = 60_000;
    load(&site, &[], &lines(0..count, ",1,old"));
    let half = (0..count).filter(|key| key % 2 == 0);
    assert_eq!(load(&site, &DELETE, &lines(half, ""))[..2], [30_000, 30_000]);
    let mut model = rows(&site);
    assert_eq!(model.len(), 30_000);
    assert!(model.keys().all(|key| key % 2 == 1));
    // Small ones beside it, in memory.
    let small = "0,7,new\n1,7,del\n2,7,new\n";
    load(&site, &MERGE, small);
    apply(&mut model, small);
    let body = mixed(70_000, 50_000, 1);
    let labelled = [&MERGE[..], &["label: large"]].concat();
    assert_eq!(load(&site, &labelled, &body)[1], 70_000);
    apply(&mut model, &body);
    assert!(rows(&site) == model, "the last row of a key counts");
    assert_eq!(into_unique(&site, &labelled, "1,1,del\n")["Status"], "Label Already Exists");
    flush(&site);
    assert!(rows(&site) == model, "a flush changes nothing");
    let again = mixed(70_000, 50_000, 2);
    load(&site, &MERGE, &again);
    apply(&mut model, &again);
    let site = Site::small_records_in(site.stop());
    assert!(rows(&site) == model, "a start finds the same rows");
    load(&site, &MERGE, "3,9,new\n5,9,del\n");
    apply(&mut model, "3,9,new\n5,9,del\n");
    flush(&site);
    assert!(rows(&site) == model);
    let site = Site::small_records_in(site.stop());
    assert!(rows(&site) == model);
    // A load that fails leaves everything.
    let mut bad = lines(0..count, "");
    bad.push_str("nonsense\n");
    let reply = into_unique(&site, &DELETE, &bad);
    assert_eq!(reply["Status"], "Fail", "{reply}");
    assert!(rows(&site) == model);
    let taken = [&DELETE[..], &["max_filter_ratio: 0.1"]].concat();
    assert_eq!(load(&site, &taken, &bad), [60_001, 60_000, 1, 0]);
    assert!(rows(&site).is_empty());
    load(&site, &[], "4,4,four\n");
    assert_eq!(rows(&site).into_iter().collect::<Vec<_>>(), [(4, (4, "four".to_owned()))]);
    site.stop();
}

#[test]
fn large_loads_delete_by_unique_keys() {
    let site = Site::with_small_records();
    unique_table(&site);
    goes_through(site);
}

#[test]
fn large_loads_delete_by_primary_keys() {
    let site = Site::with_small_records();
    data(&site, "CREATE TABLE u (a INT PRIMARY KEY, b INT NOT NULL, c VARCHAR(4))");
    goes_through(site);
}

#[test]
fn large_loads_delete_in_partitions() {
    let site = Site::with_small_records();
    data(
        &site,
        "CREATE TABLE u (a INT NOT NULL, b INT NOT NULL, c VARCHAR(4)) UNIQUE KEY(a) \
         PARTITION BY RANGE(a) (PARTITION p VALUES LESS THAN (20000), \
         PARTITION q VALUES LESS THAN (1000000)) DISTRIBUTED BY HASH(a) BUCKETS 3",
    );
    goes_through(site);
}

#[test]
fn values_of_removed_rows_are_free() {
    let site = Site::with_small_records();
    data(&site, "CREATE TABLE u (a INT PRIMARY KEY, b INT NOT NULL UNIQUE, c VARCHAR(4))");
    let body = |from: u32, to: u32, by: u32| {
        let mut text = String::new();
        (from..to).for_each(|key| writeln!(text, "{key},{},x", key + by).unwrap());
        text
    };
    load(&site, &[], &body(0, 40_000, 0));
    // Each row goes, and another one takes its value of b.
    let moved = lines(0..40_000, ",0,del") + &body(40_000, 80_000, 0).replace(",x", ",y");
    let mut text = String::new();
    (0..40_000).for_each(|key| writeln!(text, "{},{key},y", key + 40_000).unwrap());
    load(&site, &MERGE, &(lines(0..40_000, ",0,del") + &text));
    let found = data(&site, "SELECT COUNT(*), MIN(a), MAX(a), MIN(b), MAX(b) FROM u");
    assert_eq!(found["data"], json!([[40_000, 40_000, 79_999, 0, 39_999]]));
    // One that stays keeps its value.
    let reply = into_unique(&site, &MERGE, &(moved + "1,5,z\n"));
    assert_eq!(reply["Status"], "Success", "{reply}");
    let mut taken = lines(100_000..140_000, ",0,del");
    taken.push_str("7,40007,z\n");
    let reply = into_unique(&site, &MERGE, &taken);
    assert!(reply["Message"].as_str().unwrap().contains("Duplicate entry '40007'"), "{reply}");
    site.stop();
}

#[test]
fn a_sequence_decides_about_large_loads_too() {
    let site = Site::with_small_records();
    data(
        &site,
        "CREATE TABLE u (a INT NOT NULL, b INT NOT NULL, c VARCHAR(4)) UNIQUE KEY(a) \
         DISTRIBUTED BY HASH(a) BUCKETS 2 PROPERTIES ('function_column.sequence_col' = 'b')",
    );
    load(&site, &[], &lines(0..60_000, ",5,old"));
    let delete = ["merge_type: DELETE", "columns: a, b"];
    // Of these the second half comes too late.
    let body = lines(0..30_000, ",6") + &lines(30_000..60_000, ",4");
    load(&site, &delete, &body);
    assert_eq!(rows(&site).len(), 30_000);
    load(&site, &[], &lines(0..60_000, ",5,late"));
    let site = Site::small_records_in(site.stop());
    let found = data(&site, "SELECT COUNT(*), MIN(a), MIN(c) FROM u");
    assert_eq!(found["data"], json!([[30_000, 30_000, "late"]]));
    site.stop();
}

/// Ends a load.
fn end(site: &Site, label: &str, operation: &str) -> Value {
    let lines = [ROOT, &format!("label: {label}"), &format!("txn_operation: {operation}")];
    site.client().request("PUT", "/api/d/_stream_load_2pc", &lines, b"").json()
}

fn prepares_deletes(site: Site) {
    load(&site, &[], "1,1,a\n2,2,b\n3,3,c\n4,4,d\n");
    let prepared = |type_of: &[&str], label: &str, body: &str| {
        let label = format!("label: {label}");
        let headers = [type_of, &["two_phase_commit: true", &label]].concat();
        load(&site, &headers, body);
    };
    prepared(&MERGE, "one", "1,0,del\n5,5,e\n2,0,del\n2,9,new\n9,9,x\n9,0,del\n");
    prepared(&DELETE, "two", "3\n");
    prepared(&DELETE, "three", "4\n");
    assert_eq!(rows(&site).len(), 4);
    let site = Site::in_dir(site.stop(), HttpConfig::default());
    assert_eq!(rows(&site).len(), 4);
    // What is written before the commit is deleted by it, and what comes behind it stays.
    load(&site, &[], "1,10,late\n3,30,late\n");
    assert_eq!(end(&site, "one", "commit")["status"], "Success");
    assert_eq!(end(&site, "two", "abort")["status"], "Success");
    assert_eq!(end(&site, "three", "commit")["status"], "Success");
    let wanted = |texts: &[(i64, i64, &str)]| {
        let row = |&(a, b, c): &(i64, i64, &str)| (a, (b, c.to_owned()));
        texts.iter().map(row).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(rows(&site), wanted(&[(2, 9, "new"), (3, 30, "late"), (5, 5, "e")]));
    load(&site, &[], "4,44,back\n");
    flush(&site);
    let site = Site::in_dir(site.stop(), HttpConfig::default());
    let all = [(2, 9, "new"), (3, 30, "late"), (4, 44, "back"), (5, 5, "e")];
    assert_eq!(rows(&site), wanted(&all));
    assert_eq!(end(&site, "one", "commit")["status"], "Fail");
    site.stop();
}

#[test]
fn prepared_loads_delete_when_they_are_committed() {
    let site = Site::new();
    unique_table(&site);
    prepares_deletes(site);
    let site = Site::new();
    data(&site, "CREATE TABLE u (a INT PRIMARY KEY, b INT NOT NULL, c VARCHAR(4))");
    prepares_deletes(site);
}

#[test]
fn a_prepared_delete_may_be_older_than_the_sequence_column() {
    let site = Site::new();
    unique_table(&site);
    load(&site, &[], "1,1,a\n2,2,b\n");
    load(&site, &[&DELETE[..], &["two_phase_commit: true", "label: old"]].concat(), "1\n2\n7\n");
    data(
        &site,
        "ALTER TABLE u ENABLE FEATURE \"SEQUENCE_LOAD\" WITH PROPERTIES \
         (\"function_column.sequence_type\" = \"int\")",
    );
    load(&site, &["columns: a, b, c, s", "function_column.sequence_col: s"], "2,5,new,5\n");
    assert_eq!(end(&site, "old", "commit")["status"], "Success");
    let two = BTreeMap::from([(2, (5, "new".to_owned()))]);
    assert_eq!(rows(&site), two);
    flush(&site);
    let site = Site::in_dir(site.stop(), HttpConfig::default());
    assert_eq!(rows(&site), two);
    site.stop();
}
