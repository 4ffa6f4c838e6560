//! Pruning must not change results: random conditions on files return the same rows as on memory,
//! where nothing is pruned. And EXPLAIN shows what pruning left.

use std::path::Path;
use std::sync::Arc;

use crate::common::Bench;
use crate::one_table::{One, empty};
use arrow::array::RecordBatch;
use freshet_base::io::{FsRef, RealFs};
use freshet_base::task::{InlinePool, Lane};
use freshet_base::{ColumnId, Lsn, RowsetId, SchemaVersion, TableId, TabletId};
use freshet_schema::{
    Collation, Column, ColumnType, ColumnsBuilder, Distribution, Layout, RowWriter, Table,
    TableSchema, Zone, row,
};
use freshet_storage::flush::{Files, FlushInput, flush};
use freshet_storage::layout::DataDir;
use freshet_storage::rowset::Rowset;
use freshet_storage::segment::SegmentAccess;
use futures::executor::block_on;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const BUCKETS: u64 = 8;
/// 2024-03-10 06:00 UTC, an hour before daylight saving time begins in New York.
const SPRING: i64 = 1_710_050_400;

/// Columns with few, unusual values.
const COLUMNS: [(&str, ColumnType); 12] = [
    ("id", ColumnType::Int { unsigned: false }),
    ("i", ColumnType::Int { unsigned: false }),
    ("u", ColumnType::BigInt { unsigned: true }),
    ("d", ColumnType::Decimal { precision: 10, scale: 2 }),
    ("w", ColumnType::Decimal { precision: 30, scale: 4 }),
    ("f", ColumnType::Double),
    ("s", ColumnType::VarChar { len: 100 }),
    ("ci", ColumnType::VarChar { len: 100 }),
    ("padded", ColumnType::VarChar { len: 100 }),
    ("b", ColumnType::VarBinary { len: 100 }),
    ("day", ColumnType::Date),
    ("at", ColumnType::Timestamp { fsp: 0 }),
];

fn collation(name: &str) -> Collation {
    match name {
        "ci" => Collation::Utf8mb40900AiCi,
        "padded" => Collation::Utf8mb4GeneralCi,
        _ => Collation::Binary,
    }
}

/// A text, encoded and as a SQL literal.
fn text(n: usize) -> (Vec<u8>, String) {
    let long = "the same for more bytes than statistics of a column keep of any of them";
    let text = ["", "a", "A", "a ", "ab", "abcdefgh", "abcdefghi", "\u{e9}\u{20ac}", "zzzzzzzzz"];
    let text = text
        .get(n % 11)
        .copied()
        .map_or_else(|| format!("{}{}", &long[..68], n % 11), str::to_owned);
    let mut cell = Vec::new();
    row::put_bytes(&mut cell, text.as_bytes());
    (cell, format!("'{text}'"))
}

/// A value of a column, encoded and as a SQL literal.
fn value(ty: ColumnType, n: usize) -> (Vec<u8>, String) {
    let number = |n: i128, width| n.to_le_bytes()[..width].to_vec();
    let width = match ty.layout() {
        Layout::Fixed(width) => width,
        Layout::Bytes => 0,
    };
    match ty {
        ColumnType::Int { .. } => {
            let n = [i32::MIN, -5, -1, 0, 1, 2, 7, 300, i32::MAX][n % 9];
            (number(n.into(), width), n.to_string())
        }
        ColumnType::BigInt { .. } => {
            let n = [0, 1, 2, 3, 1 << 40, u64::MAX - 1, u64::MAX][n % 7];
            (number(n.into(), width), n.to_string())
        }
        ColumnType::Decimal { precision: 10, .. } => {
            let (n, text) =
                [(-150, "-1.5"), (0, "0"), (1, "0.01"), (150, "1.50"), (151, "1.510")][n % 5];
            (number(n, width), text.to_owned())
        }
        ColumnType::Decimal { .. } => {
            let large = 10_i128.pow(24);
            let (n, text) = [
                (-large, "-100000000000000000000"),
                (-12_345, "-1.2345"),
                (0, "0.0"),
                (large, "100000000000000000000.0000"),
                (large + 1, "100000000000000000000.0001"),
            ][n % 5];
            (number(n, width), text.to_owned())
        }
        ColumnType::Double => {
            let (n, text) = [
                (f64::MIN, "-1.7976931348623157e308"),
                (-0.0, "-0.0e0"),
                (0.0, "0e0"),
                (1.5, "1.5"),
                (1e300, "1e300"),
            ][n % 5];
            (n.to_le_bytes().to_vec(), text.to_owned())
        }
        ColumnType::VarChar { .. } | ColumnType::VarBinary { .. } => text(n),
        ColumnType::Date => {
            let (n, text) =
                [(0, "'1970-01-01'"), (19_000, "'2022-01-08'"), (19_792, "'2024-03-10'")][n % 3];
            (number(n, width), text.to_owned())
        }
        ColumnType::Timestamp { .. } => {
            let hours = [-30 * 24, -2, 0, 1, 2, 30 * 24][n % 6];
            let micros = i128::from(SPRING + hours * 3600) * 1_000_000;
            // Local times on both sides of the change, and one that did not exist.
            let text = [
                "2024-03-10 01:00:00",
                "2024-03-10 02:30:00",
                "2024-03-10 03:00:00",
                "2024-03-10 06:00:00",
                "2024-02-09 06:00:00",
                "2024-03-10 11:30:00",
            ][n % 6];
            (number(micros, width), format!("'{text}'"))
        }
        _ => unreachable!("no column of the test"),
    }
}

fn table(key: usize, distribution: &[usize]) -> Arc<Table> {
    let id = |at: usize| ColumnId(at as u32 + 1);
    let columns = COLUMNS.iter().enumerate();
    let columns = columns.map(|(at, (name, ty))| Column {
        collation: collation(name),
        ..Column::new(id(at), *name, *ty)
    });
    let columns = columns.collect();
    let sort_key = if key == 0 { vec![0] } else { vec![key, 0] };
    let schema = TableSchema::new(SchemaVersion(1), columns, sort_key);
    let tablets = (0..BUCKETS).map(|tablet| TabletId(100 + tablet)).collect();
    Arc::new(Table {
        name: "s".into(),
        distribution: Distribution::Hash(distribution.iter().map(|&at| id(at)).collect()),
        ..Table::plain(TableId(1), schema, tablets)
    })
}

/// Rows with the values that these numbers select, NULL for `None`; ids continue from `first`.
fn rows(table: &Table, first: usize, chosen: &[Vec<Option<usize>>]) -> RecordBatch {
    let mut bytes = Vec::new();
    let mut rows = RowWriter::new(COLUMNS.len(), &mut bytes);
    for (id, values) in (first..).zip(chosen) {
        rows.begin_row();
        rows.put_encoded(&(id as i32).to_le_bytes());
        for ((_, ty), chosen) in COLUMNS.iter().zip(values).skip(1) {
            match chosen {
                None => rows.put_null(),
                Some(n) => rows.put_encoded(&value(*ty, *n).0),
            }
        }
        rows.end_row();
    }
    ColumnsBuilder::batch_of(table.schema(), &bytes, chosen.len())
}

/// Flushes each batch to a rowset of its own.
fn rowsets(table: &Arc<Table>, root: &Path, loads: &[RecordBatch]) -> Vec<Arc<Rowset>> {
    let fs: FsRef = Arc::new(RealFs);
    let segments = SegmentAccess::of_files(&fs);
    let files = Files { fs, dir: DataDir::new(root), pool: Arc::new(InlinePool), segments };
    let mut ids = 0..;
    let mut rowsets = Vec::new();
    for (load, lsn) in loads.iter().zip(1..) {
        let input = FlushInput {
            lane: Lane::Background,
            table: Arc::clone(table),
            schema: Arc::clone(table.schema()),
            batches: vec![load.clone()],
            lsns: (Lsn(lsn), Lsn(lsn)),
            turn: 0,
        };
        let written = flush(&files, input, 1 << 20, || RowsetId(ids.next().unwrap()));
        for written in block_on(written).unwrap() {
            rowsets.push(Arc::new(files.rowset(table.id, written.rowset, table.schema())));
        }
    }
    rowsets
}

/// A literal to compare a column with.
fn literal(ty: ColumnType) -> BoxedStrategy<String> {
    let own = any::<usize>().prop_map(move |n| value(ty, n).1);
    let odd = match ty {
        ColumnType::Int { .. } | ColumnType::BigInt { .. } => {
            vec!["1.5", "'7'", "'x'", "-1", "1e0", "NULL", "2.00"]
        }
        ColumnType::Decimal { .. } => vec!["1.5", "1.505", "150e-2", "'1.5'", "NULL", "7"],
        ColumnType::Double => vec!["0", "'1.5'", "1.50", "NULL", "-1"],
        ColumnType::Date => vec!["'2022-01-08 10:00:00'", "20220108", "NULL"],
        ColumnType::Timestamp { .. } => vec!["'2024-03-10'", "20240310010000", "NULL"],
        _ => vec!["NULL", "'a%'", "0", "X'61'", "'ab\\0'", "'zzzzzzzz'", "'ABCDEFGH'", "'\u{c9}'"],
    };
    prop_oneof![4 => own, 1 => select(odd).prop_map(str::to_owned)].boxed()
}

fn atom() -> BoxedStrategy<String> {
    let column = select(COLUMNS.to_vec());
    column
        .prop_flat_map(|(name, ty)| {
            let one = literal(ty);
            let compared = (select(vec!["=", "<>", "<", "<=", ">", ">=", "<=>"]), one.clone());
            let compared = compared.prop_map(move |(op, lit)| format!("{name} {op} {lit}"));
            let list = prop::collection::vec(one.clone(), 1..4);
            let list = (any::<bool>(), list).prop_map(move |(not, list)| {
                format!("{name} {}IN ({})", if not { "NOT " } else { "" }, list.join(", "))
            });
            let null = any::<bool>()
                .prop_map(move |not| format!("{name} IS {}NULL", if not { "NOT " } else { "" }));
            let between =
                (one.clone(), one).prop_map(move |(a, b)| format!("{name} BETWEEN {a} AND {b}"));
            let like =
                select(vec!["a%", "ab%", "%", "a_", "abcdefgh%", "A%"]).prop_map(move |pattern| {
                    match ty {
                        ColumnType::VarChar { .. } => format!("{name} LIKE '{pattern}'"),
                        _ => format!("{name} IS NOT NULL"),
                    }
                });
            prop_oneof![6 => compared, 3 => list, 1 => null, 1 => between, 1 => like]
        })
        .boxed()
}

fn condition() -> impl Strategy<Value = String> {
    atom().prop_recursive(2, 6, 3, |inner| {
        let both = (inner.clone(), select(vec!["AND", "OR"]), inner.clone());
        prop_oneof![
            3 => both.prop_map(|(a, op, b)| format!("({a}) {op} ({b})")),
            1 => inner.prop_map(|a| format!("NOT ({a})")),
        ]
    })
}

fn answer(bench: &Bench, tables: &Arc<One>, sql: &str) -> std::result::Result<String, String> {
    match bench.on(sql, Arc::clone(tables) as _) {
        Ok((_, rows)) => Ok(format!("{rows:?}")),
        Err(error) => Err(error.to_string()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn files_answer_as_memory_does(
        key in 0..COLUMNS.len(),
        distribution in prop::sample::subsequence((0..COLUMNS.len()).collect::<Vec<_>>(), 1..3),
        chosen in prop::collection::vec(
            prop::collection::vec(
                prop::option::weighted(0.85, any::<Index>().prop_map(|at| at.index(990))),
                COLUMNS.len(),
            ),
            1..40,
        ),
        copies in select(vec![1_usize, 1, 300]),
        loads in 1_usize..5,
        zone in select(vec!["+00:00", "+05:30", "America/New_York"]),
        conditions in prop::collection::vec(condition(), 24),
    ) {
        let bench = Bench::new();
        let table = table(key, &distribution);
        let dir = tempfile::tempdir().unwrap();
        let mut batches = Vec::new();
        let mut first = 0;
        for load in chosen.chunks(chosen.len().div_ceil(loads)) {
            let copied = load.iter().flat_map(|row| vec![row.clone(); copies]).collect::<Vec<_>>();
            batches.push(rows(&table, first, &copied));
            first += copied.len();
        }
        let zone = Zone::parse(zone).unwrap();
        let memory = Arc::new(One(empty(&table).with_overlay(batches.clone()), zone));
        let mut flushed = empty(&table);
        flushed.loaded = rowsets(&table, dir.path(), &batches);
        let files = Arc::new(One(flushed, zone));
        for condition in conditions {
            let sql = format!("SELECT COUNT(*), SUM(id), MIN(id) FROM s WHERE {condition}");
            prop_assert_eq!(
                answer(&bench, &files, &sql),
                answer(&bench, &memory, &sql),
                "{}",
                sql
            );
        }
    }
}

/// The total and remaining numbers of a pruning level in EXPLAIN ANALYZE.
fn level(lines: &[String], name: &str) -> (usize, usize) {
    let line = lines.iter().find(|line| line.contains("ScanExec")).unwrap();
    let shown = line.split(&format!("{name}=")).nth(1).unwrap();
    let mut numbers = shown.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let mut next = || numbers.next().unwrap().parse().unwrap();
    (next(), next())
}

#[test]
fn a_condition_by_a_collation_skips_files() {
    let bench = Bench::new();
    let table = table(0, &[0]);
    let dir = tempfile::tempdir().unwrap();
    // "abcdefgh" and "zzzzzzzzz".
    let batches = [5, 8].map(|text| rows(&table, text, &vec![vec![Some(text); COLUMNS.len()]; 9]));
    let mut flushed = empty(&table);
    flushed.loaded = rowsets(&table, dir.path(), &batches);
    let tables = Arc::new(One(flushed, Zone::UTC));
    let analyzed = |condition: &str| {
        let sql = format!("SELECT COUNT(*) FROM s WHERE {condition}");
        let asked = Bench::asked(&sql, &[], Arc::clone(&tables) as _).unwrap();
        bench.runtime.block_on(bench.engine.analyze(asked, Vec::new())).unwrap()
    };
    for condition in
        ["ci = 'ABCDEFGH'", "padded = 'ABCDEFGH '", "ci IN ('A', 'AbCdefgh', '\u{e9}')"]
    {
        let lines = analyzed(condition);
        let (groups, left) = level(&lines, "row_groups");
        assert!(groups > left && left > 0, "{condition}: {lines:?}");
    }
    for condition in ["ci < 'AA'", "ci = 'B'", "padded > 'zzzzzzzz{'", "ci BETWEEN 'q' AND 'X'"] {
        let lines = analyzed(condition);
        assert_eq!(level(&lines, "row_groups").1, 0, "{condition}: {lines:?}");
    }
}

#[test]
fn explain_says_what_each_level_left() {
    let bench = Bench::new();
    let table = table(0, &[0]);
    let dir = tempfile::tempdir().unwrap();
    let nothing = vec![vec![None; COLUMNS.len()]; 40_000];
    let batches = [0, 40_000].map(|first| rows(&table, first, &nothing));
    let mut flushed = empty(&table);
    flushed.loaded = rowsets(&table, dir.path(), &batches);
    let metrics = Arc::clone(flushed.loaded[0].access());
    let tables = Arc::new(One(flushed, Zone::UTC));
    let explained = |sql: &str| {
        let asked = Bench::asked(sql, &[], Arc::clone(&tables) as _).unwrap();
        bench.runtime.block_on(bench.engine.explain(asked, Vec::new())).unwrap().lines().join("\n")
    };
    let analyzed = |sql: &str| {
        let asked = Bench::asked(sql, &[], Arc::clone(&tables) as _).unwrap();
        bench.runtime.block_on(bench.engine.analyze(asked, Vec::new())).unwrap()
    };
    assert!(metrics.footer_memory().used_bytes() == 0, "nothing has read a footer");
    let lines = explained("SELECT u FROM s WHERE id = 41234");
    assert!(
        lines.contains("1 of 1 partitions, 1 of 8 tablets, 1 of 16 rowsets, 1 of 16 segments"),
        "{lines}"
    );
    let lines = explained("SELECT u FROM s WHERE id >= 40000");
    assert!(lines.contains("8 of 8 tablets, 8 of 16 rowsets"), "{lines}");
    let lines = explained("SELECT u FROM s WHERE id IN (5, 41234) AND u IS NULL");
    assert!(lines.contains("of 8 tablets") && !lines.contains("8 of 8"), "{lines}");
    let lines = explained("SELECT u FROM s WHERE id = 90000");
    assert!(lines.contains("1 of 8 tablets, 0 of 16 rowsets"), "{lines}");
    let lines = analyzed("SELECT u FROM s WHERE id = 41234");
    assert_eq!(level(&lines, "slices"), (1, 1));
    assert_eq!(level(&lines, "row_groups"), (1, 1));
    let (pages, left) = level(&lines, "pages");
    assert!(pages > 1 && left == 1, "{lines:?}");
}

#[test]
fn what_a_join_learns_skips_tablets_and_files() {
    let bench = Bench::new();
    let table = table(0, &[0]);
    let dir = tempfile::tempdir().unwrap();
    let nothing = vec![vec![None; COLUMNS.len()]; 40_000];
    let batches = [0, 40_000].map(|first| rows(&table, first, &nothing));
    let mut flushed = empty(&table);
    flushed.loaded = rowsets(&table, dir.path(), &batches);
    let tables = Arc::new(One(flushed, Zone::UTC));
    // Nothing is known of `b` before the rows of `a` are there.
    let sql = "SELECT COUNT(*) FROM s a JOIN s b ON b.id = a.id WHERE a.id + 0 = 41234";
    let asked = Bench::asked(sql, &[], Arc::clone(&tables) as _).unwrap();
    let lines = bench.runtime.block_on(bench.engine.analyze(asked, Vec::new())).unwrap();
    let learning = lines.into_iter().filter(|line| line.contains("learns")).collect::<Vec<_>>();
    assert_eq!(level(&learning, "slices"), (16, 1), "{learning:?}");
    let (pages, left) = level(&learning, "pages");
    assert!(pages > left && left == 1, "{learning:?}");
    assert_eq!(bench.on(sql, Arc::clone(&tables) as _).unwrap().1, [["1"]]);
}
