//! Bodies that are ORC files. Those in `orc` were written by the C++ library of Apache ORC (pyorc):
//! 40 rows in each packing, 1,100 in several stripes, and 700 with times of New York.

use serde_json::{Value, json};

use crate::client::ROOT;
use crate::columnar::put;
use crate::mapped::counts;
use crate::query::data;
use crate::site::Site;

const ORC: &str = "format: orc";
const ZLIB: &[u8] = include_bytes!("orc/zlib.orc");
const ZSTD: &[u8] = include_bytes!("orc/zstd.orc");

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
    let reply = put(&site, "o", &[ORC, "columns: list, b = list"], ZSTD);
    let message = reply["Message"].as_str().unwrap();
    assert!(message.contains("column 'list' of the body"), "{message}");
    let packed = put(&site, "o", &[ORC, "columns: b, a"], ZLIB);
    assert_eq!(counts(&packed), [1100, 1100, 0, 0], "{packed}");
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
