//! A query engine on tables in memory.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::StringViewArray;
use arrow::array::{Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use freshet_base::{Result, err};
use freshet_query::engine::{Plan, PlanRequest, QueryConfig, QueryEngine, StatementContext};
use freshet_query::evaluation::Losses;
use freshet_query::limits::Limits;
use freshet_query::parser::{self, Statement};
use freshet_query::result::{Cells, ResultColumn};
use freshet_query::session::{Scope, Session, SqlMode, Value, Variables};
use freshet_query::tables::{Table, Tables};
use freshet_query::temporal::parse_datetime;
use freshet_schema::Zone;

pub struct NoVariables;

impl Variables for NoVariables {
    fn system(&self, _scope: Scope, name: &str) -> Option<Value> {
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        match name {
            "version_comment" => text("Freshet"),
            "sql_mode" => text("STRICT_TRANS_TABLES"),
            "time_zone" => text("+00:00"),
            "max_allowed_packet" => Some(Value::Int(67_108_864)),
            _ => None,
        }
    }

    fn user(&self, _name: &str) -> Value {
        Value::Null
    }
}

#[derive(Default)]
pub struct MemoryTables(pub HashMap<String, Arc<dyn TableProvider>>);

impl Tables for MemoryTables {
    fn table(&self, database: &str, name: &str) -> Result<Table> {
        if database != "d" {
            return Err(err!(UnknownDatabase, "Unknown database '{database}'"));
        }
        let found = self.0.get(name).cloned().map(Table::new);
        found.ok_or_else(|| err!(NoSuchTable, "Table '{database}.{name}' doesn't exist"))
    }
}

impl StatementContext for MemoryTables {
    fn session(&self) -> Session<'_> {
        session()
    }
}

pub struct Bench {
    pub engine: QueryEngine,
    pub tables: Arc<MemoryTables>,
    pub runtime: tokio::runtime::Runtime,
    _spill: tempfile::TempDir,
}

pub fn session() -> Session<'static> {
    Session {
        database: Some("d"),
        user: "root@localhost",
        current_user: "root@%",
        current_role: "NONE",
        version: "8.0.36-freshet",
        connection_id: 7,
        last_insert_id: 0,
        row_count: -1,
        found_rows: 0,
        now_micros: parse_datetime("2024-06-01 12:00:00").unwrap(),
        clock_micros: parse_datetime("2024-06-01 12:00:00").unwrap(),
        zone: Zone::UTC,
        zone_name: "+00:00",
        mode: SqlMode::default(),
        limits: Limits::default(),
        variables: &NoVariables,
    }
}

impl Bench {
    pub fn new() -> Self {
        let spill = tempfile::tempdir().unwrap();
        let config = QueryConfig {
            memory_bytes: 1 << 30,
            spill_dir: spill.path().to_path_buf(),
            threads: 2,
            plan_threads: 1,
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let mut bench = Self {
            engine: QueryEngine::new(&config).unwrap(),
            tables: Arc::default(),
            runtime,
            _spill: spill,
        };
        bench.add("t", small_table());
        bench
    }

    pub fn add(&mut self, name: &str, batches: Vec<RecordBatch>) {
        let schema = batches[0].schema();
        let table = MemTable::try_new(schema, vec![batches]).unwrap();
        let tables = Arc::get_mut(&mut self.tables).expect("no query runs");
        tables.0.insert(name.to_owned(), Arc::new(table));
    }

    /// A planning request for this text.
    pub fn asked(
        sql: &str,
        types: &[Option<DataType>],
        origin: Arc<dyn StatementContext>,
    ) -> Result<PlanRequest> {
        let parsed = parser::parse(sql, SqlMode::default())?.remove(0);
        let Statement::Query(query) = parsed.statement else { panic!("no query: {sql}") };
        assert_eq!(types.len(), parsed.parameters);
        let losses = Losses::default();
        Ok(PlanRequest { query, texts: parsed.items, parameters: types.to_vec(), origin, losses })
    }

    pub fn plan(&self, sql: &str, types: &[Option<DataType>]) -> Result<Plan> {
        let origin = Arc::clone(&self.tables) as Arc<dyn StatementContext>;
        self.runtime.block_on(self.engine.plan(Self::asked(sql, types, origin)?))
    }

    /// The columns and rows of a query on other tables.
    pub fn on(
        &self,
        sql: &str,
        tables: Arc<dyn StatementContext>,
    ) -> Result<(Vec<ResultColumn>, Vec<Vec<String>>)> {
        let asked = Self::asked(sql, &[], tables)?;
        let (columns, batches) = self.runtime.block_on(async {
            let (columns, mut rows) = self.engine.select(asked, Vec::new()).await?;
            Ok::<_, freshet_base::Error>((columns, rows.collect().await?))
        })?;
        let rows = rows(&batches, &columns)?;
        Ok((columns, rows))
    }

    pub fn columns(&self, sql: &str) -> Vec<ResultColumn> {
        self.plan(sql, &[]).unwrap().columns
    }

    pub fn query(&self, sql: &str) -> Result<Vec<Vec<String>>> {
        self.prepared(sql, &[], Vec::new())
    }

    pub fn prepared(
        &self,
        sql: &str,
        types: &[Option<DataType>],
        values: Vec<ScalarValue>,
    ) -> Result<Vec<Vec<String>>> {
        let plan = self.plan(sql, types)?;
        let batches = self
            .runtime
            .block_on(async { self.engine.execute(&plan, values).await?.collect().await })?;
        rows(&batches, &plan.columns)
    }
}

pub fn rows(batches: &[RecordBatch], columns: &[ResultColumn]) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for batch in batches {
        let cells = Cells::of(batch, columns)?;
        for row in 0..batch.num_rows() {
            rows.push(cells.iter().map(|cells| shown(cells, row)).collect());
        }
    }
    Ok(rows)
}

fn shown(cells: &Cells, row: usize) -> String {
    if cells.is_null(row) {
        return "NULL".to_owned();
    }
    let mut out = Vec::new();
    cells.text(row, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn small_table() -> Vec<RecordBatch> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int32, false),
        Field::new("name", DataType::Utf8View, true),
        Field::new("score", DataType::Int64, true),
        Field::new("day", DataType::Date32, true),
        Field::new("price", DataType::Decimal128(15, 2), true),
    ]));
    let day = |day: i32| 19_722 + day;
    let prices = Decimal128Array::from(vec![Some(150), Some(250), Some(250), None]);
    let batch = RecordBatch::try_new(
        schema,
        vec![
            Arc::new(Int32Array::from(vec![1, 2, 3, 4])),
            Arc::new(StringViewArray::from(vec!["a", "b", "c", "d"])),
            Arc::new(Int64Array::from(vec![Some(20), Some(30), Some(50), None])),
            Arc::new(Date32Array::from(vec![day(1), day(2), day(3), day(4)])),
            Arc::new(prices.with_precision_and_scale(15, 2).unwrap()),
        ],
    );
    vec![batch.unwrap()]
}
