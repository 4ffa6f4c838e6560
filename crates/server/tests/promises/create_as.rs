//! CREATE TABLE .. AS SELECT: the table appears with its rows, or not at all.

use std::time::{Duration, Instant};

use super::common::{Client, TestServer};

fn tables(client: &mut Client) -> Vec<Vec<String>> {
    client.texts("show tables")
}

fn filled(server: &TestServer) -> Client {
    let mut client = server.database("d");
    client.run("create table t (a int, b varchar(10))");
    let rows = (0..400).map(|a| format!("({a}, 'x{a}')")).collect::<Vec<_>>().join(", ");
    client.run(&format!("insert into t values {rows}"));
    client
}

#[test]
fn its_rows_belong_to_no_transaction() {
    let server = TestServer::start();
    let mut client = filled(&server);
    let mut other = server.database("d");
    for isolation in ["read committed", "repeatable read"] {
        client.run(&format!("set session transaction isolation level {isolation}"));
        client.run("set autocommit = 0");
        client.run("create table u as select * from t");
        assert_eq!(other.one("select count(*) from u"), "400");
        assert_eq!(client.one("select count(*) from u"), "400", "{isolation}");
        client.run("rollback");
        assert_eq!(other.one("select count(*) from u"), "400");
        client.run("insert into u select * from t");
        client.run("rollback");
        assert_eq!(client.one("select count(*) from u"), "400");
        client.run("set autocommit = 1");
        client.run("drop table u");
    }
}

#[test]
fn one_that_fails_leaves_nothing_and_says_why() {
    let server = TestServer::start();
    let mut root = filled(&server);
    root.run("create user maker identified by 'x'");
    root.run("grant select, insert, create on d.* to maker");
    let mut maker = Client::connect(server.address, "maker", "x", Some("d")).unwrap();
    let failure = maker.fails(
        "create table u (a int, b varchar(2)) engine = innodb \
                               as select * from t",
    );
    assert_eq!(failure.errno, 1406, "{}", failure.message);
    assert_eq!(tables(&mut root), [["t"]]);
    // The name is free again.
    let (rows, _) = maker.run("create table u as select * from t");
    assert_eq!(rows, 400);
    assert_eq!(maker.fails("create table u as select 1 as a").errno, 1050);
    maker.run("create table if not exists u as select 1 as a");
    assert_eq!(root.one("select count(*) from u"), "400");
    root.run("create user reader identified by 'x'");
    root.run("grant select, create on d.* to reader");
    let mut reader = Client::connect(server.address, "reader", "x", Some("d")).unwrap();
    assert_eq!(reader.fails("create table v as select 1 as a").errno, 1142);
    assert_eq!(tables(&mut root), [["t"], ["u"]]);
}

/// Waits until metadata has only this many tables, including those without a name.
fn wait_for_tables(server: &TestServer, count: usize) {
    let began = Instant::now();
    while server.engine.meta().catalog().tables().count() > count {
        assert!(began.elapsed() < Duration::from_secs(20), "a table stays behind");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Drops the connection while a slow statement runs.
#[test]
fn a_lost_connection_leaves_nothing() {
    let server = TestServer::start();
    let mut client = filled(&server);
    let mut other = server.database("d");
    for wait in [50, 400] {
        client.writer.command_query(
            b"create table u as select x.a, y.b from t x, t y, t z where x.a + y.a + z.a > 10",
        );
        client.send();
        std::thread::sleep(Duration::from_millis(wait));
        assert_eq!(tables(&mut other), [["t"]], "nobody sees it before it has its rows");
        drop(client);
        wait_for_tables(&server, 1);
        assert_eq!(tables(&mut other), [["t"]]);
        other.run("create table u (a int)");
        other.run("drop table u");
        client = server.database("d");
    }
}

#[test]
fn two_at_once_make_one_table() {
    let server = TestServer::start();
    let mut client = filled(&server);
    let others = (0..4).map(|_| server.database("d")).collect::<Vec<_>>();
    let made = std::thread::scope(|scope| {
        let run = |mut client: Client| {
            let sql = "create table u as select x.a from t x, t y";
            scope.spawn(move || match client.query(sql) {
                freshet_wire::client::Outcome::Ok { affected_rows, .. } => affected_rows,
                freshet_wire::client::Outcome::Err { errno, message, .. } => {
                    assert_eq!(errno, 1050, "{message}");
                    0
                }
                other => panic!("{other:?}"),
            })
        };
        let threads = others.into_iter().map(run).collect::<Vec<_>>();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    });
    assert_eq!(made, 160_000);
    assert_eq!(client.one("select count(*) from u"), "160000");
    wait_for_tables(&server, 2);
}

#[test]
fn a_dropped_database_takes_it_along() {
    let server = TestServer::start();
    let mut client = filled(&server);
    client.run("create database e");
    let mut other = server.database("d");
    client.writer.command_query(b"create table e.u as select x.a from t x, t y, t z");
    client.send();
    std::thread::sleep(Duration::from_millis(300));
    other.run("drop database e");
    other.run("create database e");
    let outcome = client.outcomes(freshet_wire::client::Encoding::Text).remove(0);
    assert!(matches!(outcome, freshet_wire::client::Outcome::Err { .. }), "{outcome:?}");
    assert_eq!(other.texts("show tables from e").len(), 0);
    assert_eq!(client.one("select count(*) from t"), "400");
}
