//! Temporary tables: whose they are, and when they end.

use std::time::{Duration, Instant};

use freshet_wire::Param;
use freshet_wire::client::Outcome;

use super::common::TestServer;
use super::{Client, as_user};

/// Waits until the server has so many tables, listed or not.
#[track_caller]
fn until_tables(server: &TestServer, count: usize) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let tables = server.engine.catalog().tables().count();
        if tables == count {
            return;
        }
        assert!(Instant::now() < until, "{tables} tables, and not {count}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn temporary_tables_are_seen_by_nobody_else() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int)");
    root.run("insert into t values (1)");
    root.run("create user app");
    root.run("grant create on d.* to app");
    let mut app = as_user(&server, "app");
    assert_eq!(app.fails("select * from d.t").errno, 1142);
    app.run("create temporary table d.t (a int, b int, primary key (a))");
    app.run("insert into d.t values (7, 7)");
    app.run("update d.t set b = 8 where a = 7");
    assert_eq!(app.texts("select * from d.t"), [["7", "8"]]);
    assert!(app.texts("show create table d.t")[0][1].starts_with("CREATE TEMPORARY TABLE `t` ("));
    assert_eq!(root.texts("select * from t"), [["1"]]);
    assert_eq!(
        root.one("select count(*) from information_schema.columns where table_name = 't'"),
        "1"
    );
    assert_eq!(app.fails("rename table d.t to d.u").errno, 1235);
    assert_eq!(app.fails("drop database d").errno, 1044);
    // A plan that is kept reads the table that has the name now.
    app.run("use d");
    let prepared = app.prepare("select count(*) from t where a > ?").unwrap();
    let insert = app.prepare("insert into t values (?, ?)").unwrap();
    let inserted =
        |app: &mut Client, a| app.execute(insert.statement_id, &[Param::Int(a), Param::Int(a)]);
    assert!(matches!(app.execute(prepared.statement_id, &[Param::Int(0)]), Outcome::Rows(_)));
    assert!(matches!(inserted(&mut app, 1), Outcome::Ok { .. }));
    app.run("drop table d.t");
    let read = app.execute(prepared.statement_id, &[Param::Int(0)]);
    assert!(matches!(read, Outcome::Err { errno: 1142, .. }), "{read:?}");
    assert!(matches!(inserted(&mut app, 2), Outcome::Err { errno: 1142, .. }));
    until_tables(&server, 1);
    assert_eq!(root.texts("select * from t"), [["1"]]);
    // A view never reads one, whoever asks.
    root.run("create sql security invoker view v as select * from t");
    root.run("create temporary table t (a int, b int)");
    assert_eq!(root.texts("select * from v"), [["1"]]);
    assert_eq!(root.texts("select * from t"), Vec::<Vec<String>>::new());
}

#[test]
fn a_point_read_looks_at_the_temporary_table() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table k (a int, b int, primary key (a))");
    root.run("insert into k values (1, 1)");
    let mut other = server.database("d");
    // The second one is answered by what the first has taught.
    for _ in 0..2 {
        assert_eq!(other.one("select b from k where a = 1"), "1");
    }
    root.run("create temporary table k (a int, b varchar(9), primary key (a))");
    root.run("insert into k values (1, 'mine')");
    for _ in 0..2 {
        assert_eq!(root.one("select b from k where a = 1"), "mine");
        assert_eq!(other.one("select b from k where a = 1"), "1");
    }
    root.run("drop table k");
    assert_eq!(root.one("select b from k where a = 1"), "1");
}

#[test]
fn temporary_tables_end_with_their_session() {
    let server = TestServer::start();
    let mut root = server.database("d");
    let create = "create temporary table t (a int auto_increment primary key)";
    root.run(create);
    root.run("insert into t values (null), (null)");
    root.writer.command_reset_connection();
    root.send();
    let reset = root.outcomes(freshet_wire::client::Encoding::Text);
    assert!(matches!(reset[..], [Outcome::Ok { .. }]));
    assert_eq!(root.fails("select * from d.t").errno, 1146);
    root.run("use d");
    root.run(create);
    root.run("insert into t values (null)");
    let mut other = server.database("d");
    other.run("create temporary table t as select 1 as a");
    assert_eq!(other.fails("create temporary table u as select nothing").errno, 1054);
    until_tables(&server, 2);
    drop(root);
    until_tables(&server, 1);
    assert_eq!(other.one("select a from t"), "1");
    for at in 1..64 {
        other.run(&format!("create temporary table t{at} (a int)"));
    }
    assert_eq!(other.fails("create temporary table one_more (a int)").errno, 1041);
    let server = server.restart();
    until_tables(&server, 0);
    let mut root = server.database("d");
    assert_eq!(root.fails("select * from t").errno, 1146);
}
