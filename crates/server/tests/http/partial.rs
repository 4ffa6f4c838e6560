//! Partial updates: loads whose rows keep other columns of stored ones.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use serde_json::{Value, json};

use crate::columnar::{parquet, put};
use crate::mapped::{counts, into_unique, unique_table};
use crate::site::Site;

fn message(reply: &Value) -> &str {
    assert_eq!(reply["Status"], "Fail", "{reply}");
    reply["Message"].as_str().unwrap()
}

const PARTIAL: &str = "partial_columns: true";

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
    let site = Site::with_small_records();
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
    let reply = load(&[PARTIAL, "columns: a, c", "merge_type: DELETE"], "1,x\n");
    assert!(message(&reply).contains("merge_type"), "{reply}");
    let reply = load(&[PARTIAL, "two_phase_commit: true"], "1,1,x\n");
    assert!(message(&reply).contains("two_phase_commit"), "{reply}");
    let reply = load(&["unique_key_update_mode: UPDATE_FLEXIBLE_COLUMNS"], "1,1,x\n");
    assert!(message(&reply).contains("UPDATE_FLEXIBLE_COLUMNS"), "{reply}");
    let reply = load(&["unique_key_update_mode: SOME"], "1,1,x\n");
    assert!(message(&reply).contains("must be one of"), "{reply}");
    let rows = (0..40_000).map(|row| format!("{row},1\n")).collect::<String>();
    let reply = load(&[PARTIAL, "columns: a, b"], &rows);
    assert!(message(&reply).contains("wal_load_bytes_max"), "{reply}");
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
