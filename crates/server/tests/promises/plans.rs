//! Cached plans of prepared statements while tables change.

use freshet_wire::client::{Outcome, Rows};

use super::common::{Client, TestServer, text};

fn rows(outcome: Outcome) -> Rows {
    match outcome {
        Outcome::Rows(rows) => rows,
        other => panic!("{other:?}"),
    }
}

fn cell(client: &mut Client, id: u32) -> String {
    text(&rows(client.execute(id, &[])).rows[0][0])
}

#[test]
fn a_plan_of_an_old_snapshot_is_not_bound_to_other_columns() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let mut other = server.database("d");
    one.run("create table t (a int, b int, c int) duplicate key (a)");
    one.run("insert into t values (1, 2, 3)");
    one.run("set session transaction isolation level repeatable read");
    let id = one.prepare("select b from t").unwrap().statement_id;
    one.run("begin");
    assert_eq!(cell(&mut one, id), "2");
    other.run("alter table t drop column b");
    // The snapshot still has the column, but the plan made for it must not be cached.
    assert_eq!(cell(&mut one, id), "2");
    assert_eq!(cell(&mut one, id), "2");
    one.run("commit");
    match one.execute(id, &[]) {
        Outcome::Err { errno, .. } => assert_eq!(errno, 1054),
        other => panic!("column b is gone: {other:?}"),
    }
    other.run("alter table t add column b int default '9'");
    assert_eq!(cell(&mut one, id), "9");
}

#[test]
fn a_plan_of_today_is_not_bound_to_an_old_snapshot() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let mut other = server.database("d");
    one.run("create table t (a int, b int, c int) duplicate key (a)");
    one.run("insert into t values (1, 2, 3)");
    one.run("set session transaction isolation level repeatable read");
    let id = one.prepare("select c from t").unwrap().statement_id;
    one.run("begin");
    assert_eq!(one.one("select count(*) from t"), "1");
    other.run("alter table t drop column b");
    // Prepared on the old snapshot, executed after it.
    let late = one.prepare("select c, a from t").unwrap().statement_id;
    assert_eq!(cell(&mut one, late), "3");
    one.run("commit");
    assert_eq!((cell(&mut one, late), cell(&mut one, id)), ("3".into(), "3".into()));
    one.run("begin");
    assert_eq!(cell(&mut one, id), "3");
    other.run("alter table t add column b int default '7' after a");
    assert_eq!((cell(&mut one, late), cell(&mut one, id)), ("3".into(), "3".into()));
    one.run("commit");
    assert_eq!((cell(&mut one, late), cell(&mut one, id)), ("3".into(), "3".into()));
    other.run("drop table t");
    match one.execute(id, &[]) {
        Outcome::Err { errno, .. } => assert_eq!(errno, 1146),
        other => panic!("the table is gone: {other:?}"),
    }
    other.run("create table t (c varchar(5), a int)");
    other.run("insert into t values ('x', 1)");
    assert_eq!(cell(&mut one, id), "x");
}

#[test]
fn a_plan_of_system_tables_reads_those_of_now() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (a int primary key)");
    let of_t = "from information_schema.tables where table_schema = 'd' and table_name = 't'";
    let id = client.prepare(&format!("select table_rows {of_t}")).unwrap().statement_id;
    let state = "select variable_value from performance_schema.session_status \
                 where variable_name = 'Questions'";
    let questions = client.prepare(state).unwrap().statement_id;
    assert_eq!(cell(&mut client, id), "0");
    let before = cell(&mut client, questions);
    client.run("insert into t values (1), (2)");
    assert_eq!(cell(&mut client, id), "2");
    assert_ne!(cell(&mut client, questions), before);
}

/// The rows that a filter looked at, by EXPLAIN ANALYZE of a query that has only one.
fn rows_filtered(client: &mut Client, sql: &str) -> u64 {
    let lines = rows(client.query(&format!("explain analyze {sql}"))).rows;
    let lines = lines.iter().map(|row| text(&row[0])).collect::<Vec<_>>();
    let filter = lines.iter().find(|line| line.contains("FilterExec"));
    let looked = filter.and_then(|line| line.split("selectivity=").nth(1)).unwrap_or_else(|| {
        panic!("{lines:?}");
    });
    let of = looked.split(['/', ')']).nth(1).unwrap();
    of.parse().unwrap_or_else(|_| panic!("{looked}"))
}

#[test]
fn rows_of_system_tables_are_made_for_the_tables_that_are_asked_for() {
    let server = TestServer::start();
    let mut client = server.database("d");
    for database in ["d", "e"] {
        client.run(&format!("create database if not exists {database}"));
        for table in ["t", "u", "w"] {
            client.run(&format!("create table {database}.{table} (a int primary key, b int)"));
        }
        client.run(&format!("create view {database}.v as select a from {database}.t"));
    }
    for (condition, looked) in [
        ("table_schema = 'd' and table_name = 't'", 2),
        ("'d' = table_schema and table_name in ('t', 'v', 'missing')", 3),
        ("table_schema = database() and (table_name = 't' or table_name = 'u')", 4),
        ("table_schema in ('d', 'e') and table_name = 'w'", 4),
        ("table_schema = 'd' and column_name = 'b'", 7),
        (
            "(table_schema = 'd' and table_name = 't') \
             or (table_schema = 'e' and table_name = 'v')",
            6,
        ),
    ] {
        let sql = format!("select column_name from information_schema.columns where {condition}");
        assert_eq!(rows_filtered(&mut client, &sql), looked, "{condition}");
    }
}

/// The rows that the scan of a table read, by EXPLAIN ANALYZE of a query.
fn rows_read(client: &mut Client, table: &str, sql: &str) -> u64 {
    let lines = rows(client.query(&format!("explain analyze {sql}"))).rows;
    let lines = lines.iter().map(|row| text(&row[0])).collect::<Vec<_>>();
    let scan = lines.iter().find(|line| line.contains(&format!("ScanExec: d.{table},")));
    let read = scan.and_then(|line| line.split("rows_read=").nth(1)).unwrap_or_else(|| {
        panic!("{lines:?}");
    });
    let digits = read.chars().take_while(char::is_ascii_digit).collect::<String>();
    digits.parse().unwrap()
}

#[test]
fn few_rows_of_a_join_find_those_of_the_other_side_by_an_index() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table big (pk int primary key, v int, s varchar(20), key (v), key (s))");
    client.run(
        "insert into big with recursive n (i) as (select 0 union all select i + 1 from n \
         where i < 199), m (i) as (select 100 * a.i + b.i + 1 from n a join n b on b.i < 100) \
         select i, i * 7 mod 20011, concat('Name', i) from m",
    );
    client.run("flush tables");
    client.run("create table few (id int primary key, x int, s varchar(20))");
    client.run("insert into few values (1, 70, 'name5'), (2, 77, 'NAME6'), (3, null, 'none')");
    for (on, wanted) in [
        ("big.v = few.x", "10,11"),
        ("big.s = few.s", "5,6"),
        ("big.v = few.x and few.id = 2", "11"),
    ] {
        let of = format!("from few join big on {on}");
        let list = format!("select group_concat(pk order by pk) {of}");
        assert_eq!(client.one(&list), wanted, "{on}");
        let read = rows_read(&mut client, "big", &format!("select pk {of}"));
        assert!(read <= 2, "{on} read {read} rows");
    }
    // What others change and remove meanwhile counts, wherever it is.
    client.run("update big set v = 70 where pk = 19000");
    client.run("delete from big where pk = 11");
    let of = "select group_concat(pk order by pk) from few join big on big.v = few.x";
    assert_eq!(client.one(of), "10,19000");
    client.run("flush tables");
    assert_eq!(client.one(of), "10,19000");
    let half = "select count(*) from big a join big b on a.v = b.pk where a.pk + 0 <= 10000";
    assert_eq!(client.one(half), "9993");
}
