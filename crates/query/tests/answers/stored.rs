//! Tables of a snapshot: rows in memory, time zones, origins of columns.

use std::path::Path;
use std::sync::Arc;

use crate::common::Bench;
use crate::one_table::{One, empty, views};
use arrow::array::{Int32Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use freshet_base::io::{FsRef, RealFs};
use freshet_base::{ColumnId, Lsn, SchemaVersion, TableId};
use freshet_base::{RowsetId, SegmentId, TabletId};
use freshet_meta::RowsetMeta;
use freshet_query::engine::{Plan, StatementContext};
use freshet_query::result::ResultType;
use freshet_schema::Zone;
use freshet_schema::{Column, ColumnType, Table, TableSchema};
use freshet_storage::delta::Freshness;
use freshet_storage::rowset::Rowset;
use freshet_storage::segment::{SegmentAccess, SegmentSpec, SegmentWriter, Tier};

fn table() -> Arc<Table> {
    let columns = vec![
        Column::new(ColumnId(1), "Id", ColumnType::Int { unsigned: false }),
        Column::new(ColumnId(2), "name", ColumnType::VarChar { len: 20 }),
        Column::new(ColumnId(3), "at", ColumnType::Timestamp { fsp: 3 }),
    ];
    let schema = TableSchema::new(SchemaVersion(1), columns, vec![0]);
    let plain = Table::plain(TableId(1), schema, vec![TabletId(1)]);
    Arc::new(Table { name: "s".into(), ..plain })
}

/// Rows with these ids, whose names and times (in seconds since 1970) are derived from them.
fn rows(table: &Table, ids: std::ops::Range<i32>) -> RecordBatch {
    let names = ids.clone().map(|id| format!("n{id}")).collect::<Vec<_>>();
    let times = ids.clone().map(|id| i64::from(id) * 1_000_000);
    RecordBatch::try_new(
        Arc::clone(table.schema().arrow()),
        vec![
            Arc::new(Int32Array::from_iter_values(ids)),
            Arc::new(StringViewArray::from_iter_values(names)),
            Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("+00:00")),
        ],
    )
    .unwrap()
}

/// Writes rows with these ids to files, ordered by id.
fn rowset(table: &Table, dir: &Path, ids: std::ops::Range<i32>) -> Arc<Rowset> {
    let fs: FsRef = Arc::new(RealFs);
    let segments = SegmentAccess::of_files(&fs);
    let batch = rows(table, ids);
    let spec = SegmentSpec {
        schema: table.schema(),
        table: table.id,
        tablet: TabletId(1),
        lsns: (Lsn(1), Lsn(2)),
        tier: Tier::Cold,
        has_keys: false,
        stores_rows: false,
        indexes: &[],
    };
    let path = dir.join("a.parquet");
    let mut writer = SegmentWriter::create(fs.as_ref(), &path, &spec, &batch).unwrap();
    writer.write(&batch).unwrap();
    let segment = writer.finish(SegmentId(0)).unwrap();
    let meta = RowsetMeta {
        id: RowsetId(1),
        tablet: TabletId(1),
        lsn_first: Lsn(1),
        lsn_last: Lsn(2),
        schema_version: SchemaVersion(1),
        rows: segment.rows,
        segments: vec![segment],
    };
    Arc::new(Rowset::new(&segments, dir, meta, table.schema()))
}

/// The rows of a query, and the number of rows that its scans read.
fn read(bench: &Bench, tables: &Arc<One>, sql: &str) -> (Vec<Vec<String>>, usize) {
    let asked = Bench::asked(sql, &[], Arc::clone(tables) as _).unwrap();
    let lines = bench.runtime.block_on(bench.engine.analyze(asked, Vec::new())).unwrap();
    let rows_read = lines.iter().filter_map(|line| line.split("rows_read=").nth(1)).map(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ' ' && c != 'K');
        let shown = digits.into_iter().next().unwrap().trim().to_owned();
        match shown.strip_suffix('K') {
            Some(thousands) => (thousands.trim().parse::<f64>().unwrap() * 1000.0) as usize,
            None => shown.parse().unwrap(),
        }
    });
    (query(bench, tables, sql), rows_read.sum())
}

fn query(bench: &Bench, tables: &Arc<One>, sql: &str) -> Vec<Vec<String>> {
    bench.on(sql, Arc::clone(tables) as _).unwrap().1
}

#[test]
fn rows_in_memory_are_read_in_the_zone_of_the_session() {
    let bench = Bench::new();
    let table = table();
    let batch = rows(&table, 0..10_000);
    let zone = Zone::parse("+01:00").unwrap();
    let tables = Arc::new(One(empty(&table).with_overlay([batch]), zone));
    let answer = query(&bench, &tables, "SELECT COUNT(*), MIN(id), MAX(ID) FROM s");
    assert_eq!(answer, [["10000", "0", "9999"]]);
    let sql = "SELECT * FROM s WHERE id = 7 AND at = '1970-01-01 01:00:07'";
    assert_eq!(query(&bench, &tables, sql), [["7", "n7", "1970-01-01 01:00:07.000"]]);
    let sql = "SELECT name FROM s ORDER BY id DESC LIMIT 2";
    assert_eq!(query(&bench, &tables, sql), [["n9999"], ["n9998"]]);
    let sql = "SELECT a.id FROM s a JOIN s b ON a.id = b.id + 9998 ORDER BY 1";
    assert_eq!(query(&bench, &tables, sql), [["9998"], ["9999"]]);
}

#[test]
fn a_plan_that_is_kept_holds_no_snapshot_and_reads_the_next_one() {
    let bench = Bench::new();
    let table = table();
    let views = views(&table);
    let pinned = |ids| {
        let snapshot = views.pin(Freshness::Committed, || Lsn(9)).table(table.id).unwrap().unwrap();
        Arc::new(One(snapshot.with_overlay([rows(&table, ids)]), Zone::UTC))
            as Arc<dyn StatementContext>
    };
    let sql = "SELECT COUNT(*) FROM s WHERE id IN (SELECT id + 1 FROM s)";
    let asked = Bench::asked(sql, &[], pinned(0..5)).unwrap();
    let plan = bench.runtime.block_on(bench.engine.plan(asked)).unwrap();
    assert_eq!(views.pins().count(), 1, "a plan holds what it was made on");
    let plan = plan.unbound().unwrap();
    assert_eq!(views.pins().count(), 0);
    let run = |plan: &Plan| {
        let rows = bench.engine.execute(plan, Vec::new());
        bench.runtime.block_on(async { rows.await?.collect().await })
    };
    assert!(run(&plan).is_err(), "it has nothing to read");
    let answer = run(&plan.bound(&*pinned(0..100)).unwrap().unwrap()).unwrap();
    assert_eq!(crate::common::rows(&answer, &plan.columns).unwrap(), [["99"]]);
    assert_eq!(views.pins().count(), 0);
}

#[test]
fn files_are_read_where_they_may_hold_what_is_asked() {
    const ROWS: i32 = 300_000;
    /// Rows per page, the unit of pruning.
    const PAGE: usize = 4096;
    let bench = Bench::new();
    let table = table();
    let dir = tempfile::tempdir().unwrap();
    let mut flushed = empty(&table);
    flushed.loaded.push(rowset(&table, dir.path(), 0..ROWS));
    let tables = Arc::new(One(flushed, Zone::UTC));
    for (condition, wanted, pages) in [
        ("id = 7", 1, 1),
        ("id = 299999", 1, 1),
        ("id = 300000", 0, 0),
        ("id BETWEEN 4000 AND 4200", 201, 2),
        ("id < 100", 100, 1),
        ("id >= 299990", 10, 1),
        ("id IN (5, 150000, 299000)", 3, 3),
        ("id = 5 OR id = 6", 2, 1),
        ("id = '77'", 1, 1),
        ("at = '1970-01-01 00:00:09'", 1, 1),
        ("at < '1970-01-01 00:01:00'", 60, 1),
    ] {
        let sql = format!("SELECT id, name FROM s WHERE {condition}");
        let (answer, rows_read) = read(&bench, &tables, &sql);
        assert_eq!(answer.len(), wanted, "{condition}");
        // The plan displays three digits of the number.
        assert!(rows_read <= pages * PAGE * 101 / 100, "{condition} read {rows_read} rows");
    }
    for literals in [21, 99, 100, 1000] {
        let list = (0..literals).map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT id, name FROM s WHERE id IN ({list})");
        let (answer, rows_read) = read(&bench, &tables, &sql);
        assert_eq!(answer.len(), literals);
        assert!(rows_read <= PAGE * 101 / 100, "{literals} literals read {rows_read} rows");
    }
    let (answer, rows_read) = read(&bench, &tables, "SELECT COUNT(name) FROM s WHERE name <> 'x'");
    assert_eq!((&answer[0][0][..], rows_read), ("300000", 300_000));
}

#[test]
fn a_join_leaves_out_files_that_its_other_side_does_not_ask_for() {
    let bench = Bench::new();
    let table = table();
    let dir = tempfile::tempdir().unwrap();
    let mut flushed = empty(&table);
    flushed.loaded.push(rowset(&table, dir.path(), 0..300_000));
    let tables = Arc::new(One(flushed, Zone::UTC));
    let sql = "SELECT COUNT(*), MAX(b.name) FROM s a JOIN s b ON a.id = b.id \
               WHERE a.id BETWEEN 1000 AND 1009 AND a.name <> 'n1003'";
    let (answer, rows_read) = read(&bench, &tables, sql);
    assert_eq!(answer, [["9", "n1009"]]);
    assert!(rows_read < 300_000, "{rows_read} rows read");
}

#[test]
fn columns_say_where_they_are_from() {
    let bench = Bench::new();
    let table = table();
    let tables = Arc::new(One(empty(&table), Zone::UTC));
    let columns = |sql: &str| {
        let asked = Bench::asked(sql, &[], Arc::clone(&tables) as _).unwrap();
        bench.runtime.block_on(bench.engine.plan(asked)).unwrap().columns
    };
    let all = columns("SELECT *, x.ID FROM s x");
    let [id, name, at, again] = &all[..] else { panic!("{all:?}") };
    assert_eq!((id.name.as_str(), id.org_table.as_str(), id.table.as_str()), ("Id", "s", "x"));
    assert_eq!(
        (id.ty, name.ty, at.ty),
        (ResultType::Long, ResultType::VarString, ResultType::Timestamp,)
    );
    assert_eq!((at.length, at.decimals), (23, 3));
    assert_eq!((again.name.as_str(), again.org_name.as_str()), ("ID", "Id"));
    let digits = |sql: &str| columns(sql).iter().map(|c| (c.ty, c.decimals)).collect::<Vec<_>>();
    assert_eq!(
        digits(
            "SELECT COALESCE(at, NOW()), MIN(CAST(at AS DATETIME(6))), \
             IFNULL(CAST(at AS DATETIME), CURDATE()), DATE_ADD('2024-01-31', INTERVAL 1 DAY) \
             FROM s GROUP BY at"
        ),
        [
            (ResultType::DateTime, 3),
            (ResultType::DateTime, 6),
            (ResultType::DateTime, 0),
            (ResultType::VarString, 0),
        ]
    );
    for operation in ["UNION", "INTERSECT", "EXCEPT ALL"] {
        let both = columns(&format!("SELECT id FROM s x {operation} SELECT id FROM s y"));
        assert_eq!((both[0].name.as_str(), both[0].table.as_str()), ("id", "s"), "{operation}");
    }
    assert!(query(&bench, &tables, "SELECT id FROM s").is_empty());
    assert_eq!(query(&bench, &tables, "SELECT COUNT(*) FROM s"), [["0"]]);
}
