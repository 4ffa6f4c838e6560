//! Queries of `information_schema` that clients run when they connect or browse.

use std::sync::{Arc, LazyLock};

use crate::common::{Bench, session};
use freshet_base::budget::Budget;
use freshet_base::{Lsn, Result};
use freshet_meta::{Account, Catalog, ColumnRights};
use freshet_query::engine::StatementContext;
use freshet_query::session::Session;
use freshet_query::system::{Cell, ServerTable, SystemSource, SystemTables, names};
use freshet_query::tables::{Table, Tables};
use freshet_schema::{Collation, Zone};
use freshet_storage::delta::Freshness;
use freshet_storage::snapshot::Snapshot;
use freshet_storage::view::StoreView;
use freshet_storage::views::Views;

struct Source;

impl SystemSource for Source {
    fn rows(&self, table: ServerTable) -> Result<Vec<Vec<Cell>>> {
        Ok(match table {
            ServerTable::Processlist => vec![vec![
                1_i64.into(),
                "root".into(),
                "localhost".into(),
                Cell::Null,
                "Query".into(),
                0_i64.into(),
                "".into(),
                "select 1".into(),
            ]],
            _ => Vec::new(),
        })
    }

    fn account(&self) -> &Account {
        static ROOT: LazyLock<Account> = LazyLock::new(|| Account::anywhere("root"));
        &ROOT
    }

    fn roles(&self) -> &[Account] {
        &[]
    }

    fn next_id(&self, _: freshet_base::TableId) -> Option<u64> {
        None
    }

    fn hides_rows_of(&self, _table: &freshet_schema::Table) -> bool {
        false
    }

    fn may_see_account(&self, _account: &Account) -> bool {
        true
    }

    fn may_see(&self, _database: &str) -> bool {
        true
    }

    fn collation_of(&self, _database: &str) -> Collation {
        Collation::DEFAULT
    }

    fn may_show_view(&self, _database: &str, _view: &str) -> bool {
        true
    }

    fn may_see_table(&self, _database: &str, _table: &str) -> bool {
        true
    }

    fn column_rights(&self, _database: &str, _table: &str) -> Option<ColumnRights> {
        Some(ColumnRights::All)
    }
}

struct System(Snapshot);

impl Tables for System {
    fn table(&self, database: &str, name: &str) -> Result<Table> {
        let (snapshot, version) = (self.0.clone(), "8.0.36".to_owned());
        let system = SystemTables { snapshot, source: Arc::new(Source), zone: Zone::UTC, version };
        system.table(database, name)
    }
}

impl StatementContext for System {
    fn session(&self) -> Session<'_> {
        session()
    }
}

fn empty() -> System {
    let view = StoreView { catalog: Arc::new(Catalog::default()), tables: Default::default() };
    let views = Views::new(view, Budget::new("memory of snapshots", 1 << 20));
    System(views.pin(Freshness::Committed, || Lsn(0)))
}

fn run(bench: &Bench, sql: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let (columns, rows) =
        bench.on(sql, Arc::new(empty())).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    (columns.into_iter().map(|column| column.name).collect(), rows)
}

#[test]
fn clients_are_answered() {
    let bench = Bench::new();
    for sql in [
        "SELECT DISTINCT TABLE_SCHEMA from information_schema.TABLES where TABLE_TYPE != \
         'SYSTEM VIEW' ORDER BY TABLE_SCHEMA",
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'db' ORDER BY \
         table_name",
        "select null as \"database\", table_name as name, table_schema as \"schema\", case when \
         table_type = 'BASE TABLE' then 'table' when table_type = 'VIEW' then 'view' else \
         table_type end as table_type from information_schema.tables where table_schema = 'd'",
        "with t as (select table_schema, table_name from information_schema.tables) select \
         c.column_name from t join information_schema.columns c using (table_schema, table_name)",
        "SELECT TABLE_SCHEMA AS TABLE_CAT, NULL AS TABLE_SCHEM, TABLE_NAME, CASE WHEN \
         TABLE_TYPE='BASE TABLE' THEN 'TABLE' WHEN TABLE_TYPE='TEMPORARY' THEN 'LOCAL_TEMPORARY' \
         ELSE TABLE_TYPE END AS TABLE_TYPE, TABLE_COMMENT AS REMARKS FROM \
         INFORMATION_SCHEMA.TABLES WHERE TABLE_NAME LIKE '%' HAVING TABLE_TYPE IN ('TABLE', \
         NULL) ORDER BY TABLE_TYPE, TABLE_SCHEMA, TABLE_NAME",
        "SELECT WORD FROM INFORMATION_SCHEMA.KEYWORDS WHERE RESERVED=1 ORDER BY WORD",
        "SELECT A.TABLE_SCHEMA, B.CONSTRAINT_NAME FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE A \
         JOIN INFORMATION_SCHEMA.TABLE_CONSTRAINTS B USING (TABLE_SCHEMA, TABLE_NAME) WHERE \
         B.CONSTRAINT_TYPE = 'FOREIGN KEY'",
        "SELECT * FROM information_schema.SCHEMATA",
        "SELECT * FROM mysql.user ORDER BY user",
        "SELECT UPPER(LEFT(table_name, 1)) u, LOCATE('A', table_name), IF(COUNT(*) > 1, 'x', 'y') \
         FROM information_schema.tables GROUP BY u, table_name HAVING u IS NOT NULL",
    ] {
        run(&bench, sql);
    }
}

#[test]
fn every_table_is_described_by_itself() {
    let bench = Bench::new();
    for database in ["information_schema", "mysql", "performance_schema", "sys"] {
        for table in names(database) {
            let (columns, _) = run(&bench, &format!("SELECT * FROM {database}.{table}"));
            assert!(!columns.is_empty(), "{database}.{table}");
        }
    }
    let (columns, rows) =
        run(&bench, "select id, info from information_schema.processlist where command = 'Query'");
    assert_eq!(columns, ["ID", "INFO"], "columns of the system are upper case");
    assert_eq!(rows, [["1", "select 1"]]);
    let (_, rows) = run(
        &bench,
        "SELECT COUNT(*) > 20 FROM information_schema.columns WHERE table_name = 'TABLES'",
    );
    assert_eq!(rows, [["1"]]);
}
