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
