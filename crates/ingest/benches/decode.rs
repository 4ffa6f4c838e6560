//! Throughput of decoding bytes into rows, and rows into columns, on one core:
//! `cargo bench -p freshet-ingest --bench decode`.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::fmt::Write;
use std::sync::Arc;

use criterion::{Criterion, Throughput};
use freshet_base::{ColumnId, SchemaVersion};
use freshet_ingest::decode::csv::{CsvDecoder, CsvFormat};
use freshet_ingest::decode::json::{JsonDecoder, JsonFormat};
use freshet_ingest::decode::params::Params;
use freshet_ingest::decode::prepared::PreparedRows;
use freshet_ingest::decode::values::{Dialect, scan_rows};
use freshet_ingest::decode::{InsertPlan, SourcePlan};
use freshet_schema::{
    Collation, Column, ColumnType, ColumnsBuilder, LengthUnit, Rules, TableSchema, encode,
};

const LINEITEM_ROWS: usize = 100;
const TWO_INT_ROWS: usize = 1_000;
const LOG_ROWS: usize = 20_000;
const ROLL_ROWS: usize = 8_000;

const BIGINT: ColumnType = ColumnType::BigInt { unsigned: false };
const INT: ColumnType = ColumnType::Int { unsigned: false };
const MONEY: ColumnType = ColumnType::Decimal { precision: 15, scale: 2 };

fn schema(types: &[ColumnType]) -> Arc<TableSchema> {
    let column = |(at, &ty): (usize, &ColumnType)| Column {
        nullable: false,
        collation: Collation::Utf8mb4Bin,
        length_unit: LengthUnit::Characters,
        ..Column::new(ColumnId(at as u32), format!("c{at}"), ty)
    };
    let columns = types.iter().enumerate().map(column).collect();
    Arc::new(TableSchema::new(SchemaVersion(1), columns, vec![0]))
}

fn lineitem() -> Arc<TableSchema> {
    let (char, varchar) = (|len| ColumnType::Char { len }, |len| ColumnType::VarChar { len });
    schema(&[
        BIGINT,
        INT,
        INT,
        INT,
        MONEY,
        MONEY,
        MONEY,
        MONEY,
        char(1),
        char(1),
        ColumnType::Date,
        ColumnType::Date,
        ColumnType::Date,
        char(25),
        char(10),
        varchar(44),
    ])
}

/// A pseudorandom number generator with a fixed seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn word(&mut self) -> &'static str {
        const WORDS: [&str; 8] =
            ["carefully", "final", "deposits", "sleep", "quickly", "ironic", "the", "packages"];
        WORDS[self.below(8) as usize]
    }
}

/// The cells of a lineitem row as text.
fn lineitem_row(chance: &mut Chance) -> Vec<String> {
    let mut row: Vec<String> =
        [6_000_000, 200_000, 10_000, 7].map(|limit| chance.below(limit).to_string()).into();
    row.push(format!("{}.00", 1 + chance.below(50)));
    row.push(format!("{}.{:02}", chance.below(100_000), chance.below(100)));
    row.push(format!("0.0{}", chance.below(10)));
    row.push(format!("0.0{}", chance.below(9)));
    row.push(["R", "A", "N"][chance.below(3) as usize].into());
    row.push(["O", "F"][chance.below(2) as usize].into());
    for _ in 0..3 {
        let (month, day) = (1 + chance.below(12), 1 + chance.below(28));
        row.push(format!("199{}-{month:02}-{day:02}", 2 + chance.below(7)));
    }
    row.push(["DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"][chance.below(3) as usize].into());
    row.push(["TRUCK", "MAIL", "REG AIR", "SHIP"][chance.below(4) as usize].into());
    row.push(format!("{} {} {} {}", chance.word(), chance.word(), chance.word(), chance.word()));
    row
}

/// Benchmarks `work`, which processes `rows` rows per call.
fn measure(criterion: &mut Criterion, name: &str, rows: usize, mut work: impl FnMut()) {
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(rows as u64));
    group.bench_function(name, |bencher| bencher.iter(&mut work));
    group.finish();
}

fn values(
    criterion: &mut Criterion,
    name: &str,
    schema: &Arc<TableSchema>,
    text: &str,
    rows: usize,
) -> Vec<u8> {
    let rules = Rules::default();
    let plan = InsertPlan::new::<&str>(schema, None, 0, &rules).expect("all columns are given");
    let mut out = Vec::new();
    measure(criterion, name, rows, || {
        out.clear();
        let scanned = scan_rows(text.as_bytes(), &plan, &rules, Dialect::default(), &mut out);
        assert_eq!(scanned.expect("literals").encoded.rows, rows);
    });
    out
}

/// The text after VALUES; numbers are not quoted.
fn sql(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        text.push_str(if at == 0 { "(" } else { ",(" });
        for (at, cell) in row.iter().enumerate() {
            let (comma, quote) = (if at == 0 { "" } else { "," }, if at < 8 { "" } else { "'" });
            write!(text, "{comma}{quote}{cell}{quote}").expect("a String takes everything");
        }
        text.push(')');
    }
    text
}

/// Rows as binary parameters: numbers as BIGINT, the others as strings.
fn prepared(
    criterion: &mut Criterion,
    name: &str,
    schema: &Arc<TableSchema>,
    rows: &[Vec<String>],
    numbers: usize,
) {
    let width = schema.columns.len();
    let count = rows.len() * width;
    let mut block = vec![0; count.div_ceil(8)];
    block.push(1);
    for at in 0..count {
        block.extend_from_slice(if at % width < numbers { &[0x08, 0] } else { &[0xfd, 0] });
    }
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            if at < numbers {
                let number: i64 = cell.parse().expect("a number");
                block.extend_from_slice(&number.to_le_bytes());
            } else {
                block.push(cell.len() as u8);
                block.extend_from_slice(cell.as_bytes());
            }
        }
    }
    let group = format!("({})", vec!["?"; width].join(","));
    let statement =
        PreparedRows::new(vec![group; rows.len()].join(",").as_bytes(), Dialect::default());
    let rules = Rules::default();
    let plan = InsertPlan::new::<&str>(schema, None, 0, &rules).expect("all columns are given");
    let (mut out, mut types) = (Vec::new(), Vec::new());
    measure(criterion, name, rows.len(), || {
        out.clear();
        let params = Params::parse(count, &block, &mut types, &[]).expect("a whole block");
        let scanned = statement.rows(params, &plan, &rules, &mut out).expect("good values");
        assert_eq!(scanned.encoded.rows, rows.len());
    });
}

fn logs() -> (Arc<TableSchema>, String, String) {
    let varchar = ColumnType::VarChar { len: 500 };
    let schema =
        schema(&[ColumnType::DateTime { fsp: 0 }, varchar, varchar, varchar, INT, BIGINT, varchar]);
    let (mut chance, mut csv, mut json) = (Chance(7), String::new(), String::new());
    for _ in 0..LOG_ROWS {
        let time = format!(
            "2024-03-{:02} 12:{:02}:{:02}",
            1 + chance.below(28),
            chance.below(60),
            chance.below(60)
        );
        let ip = format!("10.{}.{}.{}", chance.below(256), chance.below(256), chance.below(256));
        let (path, status, size) =
            (chance.below(9_999), 200 + chance.below(300), chance.below(90_000));
        let (path, agent) = (
            format!("/images/{}/{path}.gif", chance.word()),
            "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101",
        );
        writeln!(csv, "{time}\t{ip}\tGET\t{path}\t{status}\t{size}\t{agent}")
            .expect("a String takes everything");
        writeln!(
            json,
            "{{\"c0\":\"{time}\",\"c1\":\"{ip}\",\"c2\":\"GET\",\
             \"c3\":\"{path}\",\"c4\":{status},\"c5\":{size},\"c6\":\"{agent}\"}}"
        )
        .expect("a String takes everything");
    }
    (schema, csv, json)
}

fn streams(criterion: &mut Criterion) {
    let (schema, csv, json) = logs();
    let rules = Rules::default();
    let source = Arc::new(SourcePlan::new::<&str>(&schema, None, 0, &rules).expect("all columns"));
    let mut out = Vec::new();
    measure(criterion, "httplogs csv", LOG_ROWS, || {
        out.clear();
        let mut decoder = CsvDecoder::new(CsvFormat::default(), &source, &rules);
        decoder.feed(csv.as_bytes(), &mut out).expect("a good body");
        decoder.finish(&mut out).expect("a good body");
        assert_eq!(decoder.rows(), LOG_ROWS);
    });
    measure(criterion, "httplogs json", LOG_ROWS, || {
        out.clear();
        let mut decoder = JsonDecoder::new(JsonFormat::default(), &source, &rules);
        decoder.feed(json.as_bytes(), &mut out).expect("a good body");
        decoder.finish(&mut out).expect("a good body");
        assert_eq!(decoder.rows(), LOG_ROWS);
    });
}

fn columns(criterion: &mut Criterion, schema: &TableSchema, rows: &[u8], count: usize) {
    let copies = ROLL_ROWS / count;
    let bytes = rows.repeat(copies);
    measure(criterion, "lineitem rows to columns", ROLL_ROWS, || {
        let mut builder = ColumnsBuilder::new(schema, ROLL_ROWS);
        builder.append(&bytes, copies * count);
        std::hint::black_box(builder.finish());
    });
    let mut builder = ColumnsBuilder::new(schema, ROLL_ROWS);
    builder.append(&bytes, copies * count);
    let (batch, mut out) = (builder.finish(), Vec::new());
    measure(criterion, "lineitem columns to rows", ROLL_ROWS, || {
        out.clear();
        encode(&batch, schema, &mut out);
    });
}

fn main() {
    let criterion = &mut Criterion::default().configure_from_args();
    let mut chance = Chance(42);
    let rows: Vec<_> = (0..LINEITEM_ROWS).map(|_| lineitem_row(&mut chance)).collect();
    let lineitem = lineitem();
    let encoded = values(criterion, "lineitem text, 100 rows", &lineitem, &sql(&rows), rows.len());
    prepared(criterion, "lineitem prepared, 100 rows", &lineitem, &rows, 4);
    columns(criterion, &lineitem, &encoded, rows.len());
    let two_ints = schema(&[INT, INT]);
    let pairs: Vec<Vec<String>> = (0..TWO_INT_ROWS)
        .map(|_| [2_000_000_000, 1_000_000].map(|limit| chance.below(limit).to_string()).into())
        .collect();
    values(criterion, "two ints text, 1000 rows", &two_ints, &sql(&pairs), pairs.len());
    prepared(criterion, "two ints prepared, 1000 rows", &two_ints, &pairs, 2);
    prepared(criterion, "two ints prepared, 1 row", &two_ints, &pairs[..1], 2);
    streams(criterion);
    criterion.final_summary();
}
