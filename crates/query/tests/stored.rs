//! Tables of a snapshot: rows in memory, read in the session's zone, and where columns are from.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use common::{Bench, session};
use freshet_base::{ColumnId, DbId, Lsn, PartitionId, Result, SchemaVersion, TableId};
use freshet_base::{Incarnation, TabletId, Version};
use freshet_query::TableProvider;
use freshet_query::engine::Tables;
use freshet_query::parser::{self, Statement};
use freshet_query::provider::StoredTable;
use freshet_query::result::ResultType;
use freshet_query::zone::Zone;
use freshet_schema::{
    Collation, Column, ColumnType, Distribution, KeyModel, LengthUnit, Partition, Properties,
    SchemaHistory, Table, TableForm, TableSchema,
};
use freshet_storage::delta::{Delta, Freshness};
use freshet_storage::view::{Snapshot, StoreView, TableSnapshot, TableView};

fn column(id: u32, name: &str, ty: ColumnType) -> Column {
    Column {
        id: ColumnId(id),
        name: name.to_owned(),
        ty,
        nullable: true,
        default: None,
        comment: String::new(),
        collation: Collation::Binary,
        length_unit: LengthUnit::Bytes,
        before: None,
    }
}

fn table() -> Arc<Table> {
    let columns = vec![
        column(1, "Id", ColumnType::Int { unsigned: false }),
        column(2, "name", ColumnType::VarChar { len: 20 }),
        column(3, "at", ColumnType::Timestamp { fsp: 3 }),
    ];
    Arc::new(Table {
        id: TableId(1),
        db: DbId(1),
        name: "s".into(),
        form: TableForm::Olap,
        key_model: KeyModel::Duplicate,
        key_columns: 1,
        declared_keys: Vec::new(),
        history: SchemaHistory::new(TableSchema::new(SchemaVersion(1), columns, vec![0])),
        next_column: ColumnId(4),
        partitions: vec![Partition {
            id: PartitionId(1),
            name: "s".into(),
            incarnation: Incarnation(1),
            tablets: vec![TabletId(1)],
        }],
        distribution: Distribution::Random,
        buckets_auto: false,
        properties: Properties::default(),
        comment: String::new(),
        created_micros: 0,
    })
}

/// Rows of ids, named after them, at as many seconds past 1970.
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

struct One(TableSnapshot, Zone);

impl Tables for One {
    fn table(&self, database: &str, _name: &str) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(StoredTable::new(database, self.0.clone(), self.1)))
    }
}

fn snapshot(table: &Arc<Table>) -> TableSnapshot {
    let delta = Arc::new(Delta::new(table.id, table.history.versions()));
    let head = delta.head();
    let view = TableView {
        table: Arc::clone(table),
        schema: Arc::clone(table.schema()),
        flushed: Lsn(0),
        version: Version(1),
        tablets: Vec::new(),
        delta,
        head,
    };
    let mut store = StoreView { catalog: Default::default(), tables: Default::default() };
    store.tables.insert(table.id, Arc::new(view));
    let view = Arc::new(store);
    let pinned = Snapshot { view, horizon: Lsn(9), freshness: Freshness::Committed };
    pinned.table(table.id).unwrap()
}

fn query(bench: &Bench, tables: &One, sql: &str) -> Vec<Vec<String>> {
    let parsed = parser::parse(sql, Default::default()).unwrap().remove(0);
    let Statement::Query(query) = parsed.statement else { panic!("{sql}") };
    let plan = bench.engine.plan(query, &parsed.items, &session(), tables, &[]).unwrap();
    let batches = bench.runtime.block_on(async {
        bench.engine.execute(&plan, Vec::new(), Some(tables)).await.unwrap().collect().await
    });
    common::rows(&batches.unwrap(), &plan.columns)
}

#[test]
fn rows_in_memory_are_read_in_the_zone_of_the_session() {
    let bench = Bench::new();
    let table = table();
    let batch = rows(&table, 0..10_000);
    let tables = One(snapshot(&table).with_overlay([batch]), Zone::parse("+01:00").unwrap());
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
fn columns_say_where_they_are_from() {
    let bench = Bench::new();
    let table = table();
    let tables = One(snapshot(&table), Zone::UTC);
    let parsed = parser::parse("SELECT *, x.ID FROM s x", Default::default()).unwrap().remove(0);
    let Statement::Query(select) = parsed.statement else { panic!("no query") };
    let plan = bench.engine.plan(select, &parsed.items, &session(), &tables, &[]).unwrap();
    let [id, name, at, again] = &plan.columns[..] else { panic!("{:?}", plan.columns) };
    assert_eq!((id.name.as_str(), id.org_table.as_str(), id.table.as_str()), ("Id", "s", "x"));
    assert_eq!(
        (id.ty, name.ty, at.ty),
        (ResultType::Long, ResultType::VarString, ResultType::Timestamp,)
    );
    assert_eq!((at.length, at.decimals), (23, 3));
    assert_eq!((again.name.as_str(), again.org_name.as_str()), ("ID", "Id"));
    assert!(query(&bench, &tables, "SELECT id FROM s").is_empty());
    assert_eq!(query(&bench, &tables, "SELECT COUNT(*) FROM s"), [["0"]]);
}
