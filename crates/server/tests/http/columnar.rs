//! Bodies of columns: Parquet files and Arrow streams.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::ipc::writer::StreamWriter;
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use crate::client::ROOT;
use crate::mapped::{counts, into_unique, unique_table};
use crate::site::Site;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

fn rows(range: std::ops::Range<i64>) -> RecordBatch {
    let texts = range.clone().map(|row| format!("t{}", row % 100));
    batch(vec![
        ("c", Arc::new(StringArray::from_iter_values(texts))),
        ("A", Arc::new(Int64Array::from_iter_values(range.clone()))),
        ("ms", Arc::new(Float64Array::from_iter_values(range.map(|row| row as f64 * 1.5)))),
    ])
}

pub fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    out
}

fn arrow_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = StreamWriter::try_new(&mut out, batches[0].schema_ref()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    drop(writer);
    out
}

pub fn put(site: &Site, table: &str, headers: &[&str], body: &[u8]) -> Value {
    let path = format!("/api/d/{table}/_stream_load");
    let lines = [&[ROOT], headers].concat();
    site.client().request("PUT", &path, &lines, body).json()
}

const PARQUET: &str = "format: parquet";
const ARROW: &str = "format: Arrow";

#[test]
fn columns_are_found_by_name() {
    let site = Site::new();
    let reply = put(&site, "t", &[PARQUET], &parquet(&rows(0..3)));
    assert_eq!(counts(&reply), [3, 3, 0, 0], "{reply}");
    let reply = put(&site, "t", &[ARROW, "group_commit: async_mode"], &arrow_stream(&[rows(3..5)]));
    assert_eq!((counts(&reply), &reply["GroupCommit"]), ([2, 2, 0, 0], &json!(true)), "{reply}");
    let expected = ["0,NULL,t0", "1,NULL,t1", "2,NULL,t2", "3,NULL,t3", "4,NULL,t4"];
    assert_eq!(site.rows(), expected);
    // Only these, by other names, with a condition.
    let computed = "columns: a, ms, b = ms * 2";
    let reply = put(&site, "t", &[PARQUET, computed, "where: b > 30"], &parquet(&rows(10..12)));
    assert_eq!(counts(&reply), [2, 1, 0, 1], "{reply}");
    assert_eq!(site.rows()[1..3], ["1,NULL,t1", "11,33,NULL"]);
    site.stop();
}

#[test]
fn rows_are_rejected_and_counted() {
    let site = Site::new();
    let body = parquet(&batch(vec![
        ("a", Arc::new(Int64Array::from(vec![Some(1), None, Some(1 << 40), Some(4)]))),
        ("c", Arc::new(StringArray::from(vec!["ok", "x", "y", "too long"]))),
    ]));
    let strict = [PARQUET, "strict_mode: true"];
    let refused = put(&site, "t", &strict, &body);
    assert_eq!((counts(&refused), &refused["Status"]), ([4, 0, 3, 0], &json!("Fail")));
    let path = refused["ErrorURL"].as_str().unwrap().strip_prefix("http://test.example").unwrap();
    let log = site.get(path, &[]).body;
    assert!(log.contains("src line [4,too long]"), "{log}");
    let lax = put(&site, "t", &[PARQUET, "max_filter_ratio: 0.5"], &body);
    assert_eq!(counts(&lax), [4, 2, 2, 0], "{lax}");
    assert_eq!(site.rows(), ["1,NULL,ok", "4,NULL,too "]);
    site.stop();
}

#[test]
fn large_bodies_go_to_files_and_leave_none_behind() {
    let site = Site::with_small_records();
    let body = parquet(&rows(0..1_200_000));
    assert!(body.len() > 5 << 20, "it is received to a file: {}", body.len());
    let reply = put(&site, "t", &[PARQUET, "label: one"], &body);
    assert_eq!(counts(&reply), [1_200_000, 1_200_000, 0, 0], "{reply}");
    assert_eq!(site.places(), (1_200_000, 0));
    let left = std::fs::read_dir(site.dir.path().join("store/spill")).unwrap().count();
    assert_eq!(left, 0);
    let stream = arrow_stream(&[rows(0..100_000), rows(100_000..300_000)]);
    let reply = put(&site, "t", &[ARROW, "two_phase_commit: true", "label: two"], &stream);
    assert_eq!(counts(&reply), [300_000, 300_000, 0, 0], "{reply}");
    assert_eq!(site.places(), (1_200_000, 0));
    site.stop();
}

#[test]
fn rows_of_columns_delete() {
    let site = Site::new();
    unique_table(&site);
    into_unique(&site, &[], "1,10,a\n2,20,b\n3,30,c\n");
    let reply = put(&site, "u", &[PARQUET, "merge_type: DELETE"], &parquet(&rows(2..3)));
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    let merge = ["format: arrow", "merge_type: MERGE", "delete: ms > 2"];
    let reply = put(&site, "u", &merge, &arrow_stream(&[rows(0..2), rows(3..4)]));
    assert_eq!(reply["Status"], "Fail", "a condition sees what is named: {reply}");
    let merge = [&merge[..], &["columns: a, c, ms, b = 1"]].concat();
    let reply = put(&site, "u", &merge, &arrow_stream(&[rows(0..2), rows(3..4)]));
    assert_eq!(counts(&reply), [3, 3, 0, 0], "{reply}");
    assert_eq!(site.rows_of("u"), ["0,1,t0", "1,1,t1"]);
    site.stop();
}

#[test]
fn an_http_stream_selects_of_columns() {
    let site = Site::new();
    let stream = |sql: &str, body: &[u8]| {
        let sql = format!("sql: {sql}");
        let lines = [ROOT, sql.as_str()];
        site.client().request("PUT", "/api/_http_stream", &lines, body).json()
    };
    let sql = "INSERT INTO d.t (a, b, c) SELECT a, ms + 1, upper(c) \
               FROM http_stream('format' = 'parquet') WHERE ms > 1";
    let reply = stream(sql, &parquet(&rows(0..3)));
    assert_eq!(counts(&reply), [3, 2, 0, 1], "{reply}");
    let sql = "INSERT INTO d.t (a, c) SELECT * FROM http_stream('format' = 'arrow')";
    let reply = stream(sql, &arrow_stream(&[rows(3..4)]));
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    assert_eq!(site.rows(), ["1,2,T1", "2,4,T2", "3,NULL,t3"]);
    let sql = "INSERT INTO d.t (a) SELECT nowhere FROM http_stream('format' = 'parquet')";
    let reply = stream(sql, &parquet(&rows(0..3)));
    assert!(reply["Message"].as_str().unwrap().contains("'nowhere' in the body"), "{reply}");
    site.stop();
}

#[test]
fn what_is_no_such_body_is_told() {
    let site = Site::new();
    let message = |headers: &[&str], body: &[u8]| {
        let reply = put(&site, "t", headers, body);
        assert_eq!(reply["Status"], "Fail", "{reply}");
        reply["Message"].as_str().unwrap().to_owned()
    };
    assert!(message(&[PARQUET], b"a,b\n1,2\n").contains("is no Parquet file"));
    assert!(message(&[PARQUET], b"").contains("is no Parquet file"));
    assert!(message(&[ARROW], b"a,b\n1,2\n").contains("Arrow stream"));
    assert!(message(&[ARROW], b"").contains("has no schema"));
    let file = parquet(&rows(0..1000));
    assert!(message(&[PARQUET], &file[..file.len() - 1]).contains("has no end"));
    let stream = arrow_stream(&[rows(0..1000)]);
    assert!(message(&[ARROW], &stream[..stream.len() / 2]).contains("End of Stream"));
    assert!(message(&[PARQUET, "columns: a, x"], &file).contains("Unknown column 'x'"));
    let other = batch(vec![("z", Arc::new(Int64Array::from(vec![1])))]);
    assert!(message(&[PARQUET], &parquet(&other)).contains("no column of table 't'"));
    assert!(message(&["format: orc"], b"").contains("no ORC file"));
    assert!(site.rows().is_empty());
    site.stop();
}
