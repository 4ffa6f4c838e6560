//! Calls every function with unusual values of every type: each call must return a result or an
//! error, and never panic.

use std::sync::Arc;

use crate::common::Bench;
use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    DurationMicrosecondArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow::datatypes::{Field, Schema};
use freshet_base::ErrorCode;
use freshet_query::functions;

/// Rows of the table: each value of a column is combined with many values of the others.
const ROWS: usize = 70;
/// Calls per function and number of arguments.
const CALLS: usize = 6;
const ARGUMENTS_MAX: usize = 5;

const INTEGERS: [i64; 15] = [
    0,
    1,
    -1,
    2,
    7,
    60,
    366,
    9999,
    20_240_229,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
    i32::MAX as i64,
    i32::MIN as i64 - 1,
    99_991_231_235_959,
];

const TEXTS: [&str; 41] = [
    "",
    " ",
    "a",
    "abc",
    "\u{e4}\u{1f600}\u{df}",
    "\u{0}",
    "%",
    "_%\\",
    "-",
    "-1",
    "1e400",
    "-9223372036854775808",
    "99999999999999999999999999999999999999999999999999",
    "0.00000000000000000000000000000000000000001",
    "2024-02-29",
    "9999-12-31 23:59:59.999999",
    "0000-00-00",
    "10000-01-01",
    "838:59:59",
    "-99999999999999999 99:99:99",
    "9223372036854775807 23:59:59",
    "12:34:56.7\u{e9}",
    "2024\u{e9}-01-02",
    "%X%V%W %j %U %u %f%p%r%T%#",
    "99991231 999 Sunday",
    "{\"a\": [1, {\"b\": null}], \"\": \"\u{e9}\"}",
    "[[[[1]]]]",
    "[1,2",
    "$",
    "$**.a[last-18446744073709551615]",
    "$[18446744073709551615]",
    "(",
    "(a*)*b{1,99}",
    "$1$99999999999999999999\\",
    "+14:00",
    "-99:99",
    "Europe/Berlin",
    "1.2.3.4",
    "ffff::1.2.3.4",
    "YEAR_MONTH",
    "SECOND_MICROSECOND",
];

fn cycled<T: Clone>(values: &[T], stride: usize) -> impl Iterator<Item = Option<T>> {
    // One position beyond the values stands for NULL.
    let at = move |row: usize| (row * stride + row / (values.len() + 1)) % (values.len() + 1);
    (0..ROWS).map(move |row| values.get(at(row)).cloned())
}

fn table() -> RecordBatch {
    let micros_max = 253_402_300_799_999_999_i64;
    let micros_min = -62_167_219_200_000_000_i64;
    let moments = [0, 1, -1, micros_max, micros_min, 951_825_600_000_000];
    let days = [0, 1, -1, 2_932_896, -719_528, 11_016];
    let times = [0, 1, -1, 3_020_399_000_000, -3_020_399_999_999];
    let doubles = [0.0, -0.0, 0.5, -1.5, 1e308, -1e308, 5e-324, 1e19, -1e19, 59.999_999_9];
    let decimals = [0, 1, -1, 5, 10_i128.pow(38) - 1, 1 - 10_i128.pow(38)];
    let bytes: [&[u8]; 6] = [b"", b"\xff", b"\x00", b"abc\xc3", b"\xf0\x9f", &[0x80; 70]];
    let unsigned = [0, 1, u64::MAX, 1 << 63];
    let decimal = cycled(&decimals, 5).collect::<Decimal128Array>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(cycled(&INTEGERS, 1).collect::<Int64Array>())),
        ("k", Arc::new(cycled(&INTEGERS, 7).collect::<Int64Array>())),
        ("h", Arc::new(cycled(&[0, -5, i32::MAX, i32::MIN], 1).collect::<Int32Array>())),
        ("u", Arc::new(cycled(&unsigned, 3).collect::<UInt64Array>())),
        ("f", Arc::new(cycled(&doubles, 3).collect::<Float64Array>())),
        ("n", Arc::new(decimal.with_precision_and_scale(38, 10).unwrap())),
        ("s", Arc::new(cycled(&TEXTS, 1).collect::<StringViewArray>())),
        ("t", Arc::new(cycled(&TEXTS, 11).collect::<StringViewArray>())),
        ("x", Arc::new(cycled(&bytes, 2).collect::<BinaryViewArray>())),
        ("dt", Arc::new(cycled(&moments, 1).collect::<TimestampMicrosecondArray>())),
        ("d", Arc::new(cycled(&days, 3).collect::<Date32Array>())),
        ("c", Arc::new(cycled(&times, 5).collect::<DurationMicrosecondArray>())),
        ("b", Arc::new(cycled(&[true, false], 1).collect::<BooleanArray>())),
    ];
    let fields =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

/// Arguments: columns, and literals for functions that require constants.
const ARGUMENTS: [&str; 22] = [
    "i",
    "k",
    "h",
    "u",
    "f",
    "n",
    "s",
    "t",
    "x",
    "dt",
    "d",
    "c",
    "b",
    "s",
    "t",
    "NULL",
    "-1",
    "'%Y-%m-%d %H'",
    "'9999-12-31'",
    "'DAY_MICROSECOND'",
    "9223372036854775807",
    "''",
];

/// Deterministic pseudo-random numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn no_value_makes_a_function_panic() {
    let mut bench = Bench::new();
    bench.add("odd", vec![table()]);
    let mut draw = Draw(1);
    // A query with LOAD_FILE becomes another statement, which reads the files before it is planned.
    let is_planned = |name: &&str| *name != "load_file";
    let mut names = functions::names().filter(is_planned).collect::<Vec<_>>();
    names.sort_unstable();
    let mut broken = Vec::new();
    let (mut answered, mut calls) = (0, 0);
    for name in names {
        for count in 0..=ARGUMENTS_MAX {
            for _ in 0..CALLS {
                let arguments = (0..count).map(|_| ARGUMENTS[draw.below(ARGUMENTS.len())]);
                let arguments = arguments.collect::<Vec<_>>().join(", ");
                let sql = format!("SELECT {name}({arguments}) FROM odd");
                calls += 1;
                match bench.query(&sql) {
                    Ok(_) => answered += 1,
                    Err(error) if error.code() == ErrorCode::Internal => {
                        broken.push(format!("{sql}: {error}"));
                    }
                    Err(error) if error.code() == ErrorCode::ParameterCount => break,
                    Err(_) => {}
                }
            }
        }
    }
    println!("{answered} of {calls} calls answered");
    assert!(broken.is_empty(), "{} calls: {broken:#?}", broken.len());
    assert!(answered > calls / 4, "{answered} of {calls}");
}

#[test]
fn dates_end_with_the_year_9999() {
    let bench = Bench::new();
    for (sql, wanted) in [
        ("SELECT WEEK(CONVERT_TZ('9999-12-31 23:00:00', '+00:00', '+05:30'))", "52"),
        ("SELECT ADDTIME('9999-12-31 23:00:00', '02:00:00')", "NULL"),
        ("SELECT ADDTIME(TIMESTAMP'9999-12-31 23:00:00', '02:00:00')", "NULL"),
        ("SELECT TIMESTAMP('9999-12-31', '24:00:00')", "NULL"),
        ("SELECT DATE_ADD('9999-12-31', INTERVAL 1 DAY)", "NULL"),
        ("SELECT SUBTIME('0000-01-01 00:00:00', '00:00:01')", "NULL"),
        ("SELECT CAST(TIMESTAMP'9999-12-31 23:59:59.9' AS DATETIME)", "NULL"),
        ("SELECT MAKEDATE(9999, 366)", "NULL"),
        ("SELECT MAKEDATE(9999, 9223372036854775807)", "NULL"),
        ("SELECT LAST_DAY('9999-12-31')", "9999-12-31"),
        ("SELECT YEARWEEK('9999-12-31', 3)", "999952"),
        ("SELECT STR_TO_DATE('9999 60 Sunday', '%Y %U %W')", "NULL"),
    ] {
        match bench.query(sql) {
            Ok(rows) => assert_eq!(rows[0][0], wanted, "{sql}"),
            Err(error) => panic!("{sql}: {error}"),
        }
    }
}
