//! Bodies that are ORC files. Those in `orc` were written by the C++ library of Apache ORC (pyorc):
//! 40 rows in each packing, 1,100 in several stripes, and 700 with times of New York; the nested
//! ones by that of pyarrow: 60 rows, 3,000 in two stripes with dictionaries, and one with an
//! instant and a type that is too deep.

use serde_json::{Value, json};

use crate::client::ROOT;
use crate::columnar::put;
use crate::mapped::counts;
use crate::query::data;
use crate::site::Site;

const ORC: &str = "format: orc";
const ZLIB: &[u8] = include_bytes!("orc/zlib.orc");
const ZSTD: &[u8] = include_bytes!("orc/zstd.orc");
const NESTED: &[u8] = include_bytes!("orc/nested.orc");

fn table(site: &Site) {
    data(site, "DROP TABLE IF EXISTS o");
    data(
        site,
        "CREATE TABLE o (b BIGINT, a INT, t VARCHAR(9), c VARCHAR(40), f BOOLEAN, s TINYINT, \
         x FLOAT, d DOUBLE, m DECIMAL(12,2), day DATE, at DATETIME(6), big DECIMAL(30,4), \
         wild BIGINT) DUPLICATE KEY(b) DISTRIBUTED BY HASH(b) BUCKETS 1",
    );
}

/// What the row of this number was written with, as text where JSON has no such numbers.
fn row(i: i64) -> Value {
    let a = if i % 7 == 0 { Value::Null } else { json!(i) };
    let t = if i % 3 == 0 { Value::Null } else { json!(format!("t{}", i % 5)) };
    let c = format!("value {i}").repeat((i % 4) as usize);
    let wild = if i % 50 == 0 { (1 << 40) + i } else { i * i * i };
    let m = format!("{}.{:02}", i / 100, i % 100);
    let big = i128::from(i) * 10_i128.pow(20) + i128::from(i);
    let big = format!("{}.{:04}", big / 10_000, big % 10_000);
    // 2024-01-01 is day 19,723.
    let day = 19_723 + i % 4000 - 2000;
    let at = (i - 500) * 7_777_777 * 1_000_000 + i * 1000;
    json!([
        i * 1_000_003 - 500,
        a,
        t,
        c,
        i64::from(i % 2 == 0),
        i % 200 - 100,
        (i as f64 * 0.25 * 4.0) as i64,
        i * 10_000_000_000,
        m,
        day,
        at,
        big,
        wild
    ])
}

fn stored(site: &Site) -> Value {
    let sql = "SELECT b, a, t, c, f, s, CAST(x * 4 AS SIGNED), CAST(d AS SIGNED), CAST(m AS CHAR), \
               DATEDIFF(day, '1970-01-01'), TIMESTAMPDIFF(MICROSECOND, '2015-01-01', at), \
               CAST(big AS CHAR), wild FROM o ORDER BY b";
    data(site, sql)["data"].clone()
}

fn wanted(rows: i64) -> Value {
    (0..rows).map(row).collect()
}

#[test]
fn rows_of_all_packings_are_what_was_written() {
    let site = Site::new();
    let files: [(&[u8], i64); 6] = [
        (include_bytes!("orc/none.orc"), 40),
        (include_bytes!("orc/snappy.orc"), 40),
        (include_bytes!("orc/lz4.orc"), 40),
        (ZSTD, 40),
        (ZLIB, 1100),
        (include_bytes!("orc/zone.orc"), 700),
    ];
    for (file, rows) in files {
        table(&site);
        let reply = put(&site, "o", &[ORC], file);
        assert_eq!(counts(&reply), [rows, rows, 0, 0], "{reply}");
        let (stored, wanted) = (stored(&site), wanted(rows));
        for (at, (stored, wanted)) in
            stored.as_array().unwrap().iter().zip(wanted.as_array().unwrap()).enumerate()
        {
            assert_eq!(stored, wanted, "row {at} of {rows}");
        }
        assert_eq!(stored.as_array().unwrap().len() as i64, rows);
    }
    site.stop();
}

#[test]
fn columns_are_chosen_computed_and_filtered() {
    let site = Site::new();
    table(&site);
    let computed = "columns: a, wild, b = a * 2, c = concat('x', wild)";
    let reply = put(&site, "o", &[ORC, computed, "where: wild < 9"], ZSTD);
    assert_eq!(counts(&reply), [40, 2, 0, 38], "{reply}");
    let sql = "SELECT b, c, t FROM o ORDER BY b";
    assert_eq!(data(&site, sql)["data"], json!([[2, "x1", null], [4, "x8", null]]));
    let sql = "sql: INSERT INTO d.o (b, t) SELECT wild, upper(c) \
               FROM http_stream('format' = 'orc') WHERE A = 3";
    let lines = [ROOT, sql];
    let reply = site.client().request("PUT", "/api/_http_stream", &lines, ZSTD).json();
    assert_eq!(counts(&reply), [40, 1, 0, 39], "{reply}");
    let packed = put(&site, "o", &[ORC, "columns: b, a"], ZLIB);
    assert_eq!(counts(&packed), [1100, 1100, 0, 0], "{packed}");
    site.stop();
}

/// `n (id, tags, counts, place, steps, deep, flags, f)`, with the columns of `nested.orc`.
fn nested_table(site: &Site) {
    data(site, "DROP TABLE IF EXISTS n");
    data(
        site,
        "CREATE TABLE n (id BIGINT, tags ARRAY<VARCHAR(9)>, counts MAP<STRING,INT>, \
         place STRUCT<zip:INT,city:STRING>, \
         steps ARRAY<STRUCT<page:STRING,ms:ARRAY<INT>,at:DATETIME(6)>>, \
         deep ARRAY<MAP<STRING,STRUCT<x:DECIMAL(12,2),d:DATE>>>, flags ARRAY<BOOLEAN>, \
         f ARRAY<DOUBLE>) DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1",
    );
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// The text of a value, or NULL.
fn unless(is_null: bool, text: impl FnOnce() -> String) -> Value {
    if is_null { Value::Null } else { json!(text()) }
}

fn or_null(is_null: bool, text: String) -> String {
    if is_null { "null".to_owned() } else { text }
}

/// What the row of this number of `nested.orc` was written with.
fn nested_row(i: i64) -> Value {
    let tag = |j: i64| or_null((i + j) % 5 == 0, format!("\"t{}\"", (i + j) % 4));
    let count = |j: i64| format!("\"k{j}\":{}", or_null(j == 2, (i * j).to_string()));
    let place = || {
        let zip = or_null(i % 9 == 3, (i * 3).to_string());
        let city = or_null(i % 4 == 1, format!("\"c{i}\""));
        format!("{{\"zip\":{zip}, \"city\":{city}}}")
    };
    let step = |j: i64| {
        let fraction = if j % 2 == 1 { ".500000" } else { "" };
        let at = format!("2024-01-01 00:00:{:02}{fraction}", i % 60);
        let page = i + j;
        let step = format!("{{\"page\":\"/{page}\", \"ms\":[{i}, null, {j}], \"at\":\"{at}\"}}");
        or_null((i + j) % 6 == 5, step)
    };
    let day = 1 + i % 28;
    let x = format!("{}.{:02}", i / 100, i % 100);
    let first = format!("{{\"a\":{{\"x\":{x}, \"d\":\"2024-01-{day:02}\"}}, \"b\":null}}");
    let deep = [first, "{}".to_owned(), "null".to_owned()].into_iter().take((i % 4) as usize);
    json!([
        i,
        unless(i % 7 == 0, || format!("[{}]", joined((0..i % 4).map(tag)))),
        unless(i % 5 == 1, || format!("{{{}}}", joined((0..i % 4).map(count)))),
        unless(i % 6 == 2, place),
        unless(i % 8 == 3, || format!("[{}]", joined((0..i % 3).map(step)))),
        format!("[{}]", joined(deep)),
        if i % 2 == 1 { "[0, null, 1]" } else { "[]" },
        format!("[{}]", i as f64 / 4.0),
    ])
}

#[test]
fn lists_maps_and_structs_are_what_was_written() {
    let site = Site::new();
    let files: [(&[u8], i64); 2] = [(NESTED, 60), (include_bytes!("orc/nested_many.orc"), 3000)];
    for (file, rows) in files {
        nested_table(&site);
        let reply = put(&site, "n", &[ORC], file);
        assert_eq!(counts(&reply), [rows, rows, 0, 0], "{reply}");
        let stored = data(&site, "SELECT * FROM n ORDER BY id")["data"].clone();
        let stored = stored.as_array().unwrap();
        assert_eq!(stored.len() as i64, rows);
        for (at, stored) in stored.iter().enumerate() {
            assert_eq!(*stored, nested_row(at as i64), "row {at} of {rows}");
        }
    }
    // Into columns that are no such types: as text, or not at all.
    nested_table(&site);
    data(&site, "CREATE TABLE nt (id BIGINT, tags STRING, counts JSON) DUPLICATE KEY(id)");
    let reply = put(&site, "nt", &[ORC, "strict_mode: true"], NESTED);
    assert_eq!(counts(&reply), [60, 60, 0, 0], "{reply}");
    let found = data(&site, "SELECT tags, counts FROM nt WHERE id = 2")["data"].clone();
    assert_eq!(found, json!([["[\"t2\", \"t3\"]", "{\"k0\": 0, \"k1\": 2}"]]));
    let swapped = ["columns: id, counts, tags = counts", "strict_mode: true", ORC];
    let reply = put(&site, "n", &swapped, NESTED);
    assert_eq!(reply["Status"], "Fail", "a map is no array: {reply}");
    site.stop();
}

#[test]
fn instants_inside_are_those_of_the_load_and_deep_types_are_named() {
    let site = Site::new();
    data(&site, "CREATE TABLE z (id BIGINT, at ARRAY<DATETIME>) DUPLICATE KEY(id)");
    let file: &[u8] = include_bytes!("orc/nested_zone.orc");
    let reply = put(&site, "z", &[ORC, "timezone: +02:00"], file);
    assert_eq!(counts(&reply), [1, 1, 0, 0], "{reply}");
    let found = data(&site, "SELECT * FROM z")["data"].clone();
    assert_eq!(found, json!([[1, "[\"2024-01-01 02:00:00\"]"]]));
    data(&site, "CREATE TABLE zd (id BIGINT, deep STRING) DUPLICATE KEY(id)");
    let reply = put(&site, "zd", &[ORC], file);
    let message = reply["Message"].as_str().unwrap();
    assert!(message.contains("column 'deep' of the body has"), "{message}");
    site.stop();
}

/// The server lives, whatever byte is wrong; a row may then be another one.
#[test]
fn damaged_nested_files_end_a_load_alone() {
    let site = Site::new();
    nested_table(&site);
    let mut refused = 0;
    for at in (0..NESTED.len()).step_by(5) {
        let mut file = NESTED.to_vec();
        file[at] ^= 1 << (at % 8);
        let reply = put(&site, "n", &[ORC], &file);
        refused += u32::from(reply["Status"] == "Fail");
    }
    assert!(refused > 200, "{refused}");
    nested_table(&site);
    let reply = put(&site, "n", &[ORC], NESTED);
    assert_eq!(counts(&reply), [60, 60, 0, 0], "{reply}");
    site.stop();
}

#[test]
fn damage_ends_a_load_alone() {
    let site = Site::new();
    table(&site);
    let message = |file: &[u8]| {
        let reply = put(&site, "o", &[ORC], file);
        assert_eq!(reply["Status"], "Fail", "{reply}");
        reply["Message"].as_str().unwrap().to_owned()
    };
    for file in [&b""[..], b"ORC", b"ORC\x00\x03", &ZSTD[..ZSTD.len() - 7], &ZSTD[3..]] {
        assert!(message(file).contains("ORC file"));
    }
    // The server lives, whatever byte is wrong; a row may then be another one.
    let mut refused = 0;
    for at in (0..ZSTD.len()).step_by(7) {
        let mut file = ZSTD.to_vec();
        file[at] ^= 0x5a;
        let reply = put(&site, "o", &[ORC], &file);
        refused += u32::from(reply["Status"] == "Fail");
    }
    assert!(refused > 100, "{refused}");
    let reply = put(&site, "o", &[ORC], ZSTD);
    assert_eq!(counts(&reply), [40, 40, 0, 0], "{reply}");
    site.stop();
}
