//! UPDATE and DELETE of several tables at once.

use freshet_wire::client::Outcome;

use crate::common::{Client, TestServer};

const KEYED: &str = "update a, b set a.x = a.x + 1, b.y = b.y + 1 where a.id = b.id";
const UNKEYED: &str = "update a join k on a.id = k.id set a.x = a.x + 1, k.v = k.v + 1";

fn filled(server: &TestServer) -> Client {
    let mut client = server.database("d");
    client.run("create table a (id int primary key, x int)");
    client.run("create table b (id int primary key, y int)");
    client.run("create table k (id int, v int)");
    for table in ["a", "b", "k"] {
        client.run(&format!("insert into {table} values (1, 0), (2, 0), (3, 0)"));
    }
    client
}

/// Runs a statement until it is done, and says how often it was.
fn again(client: &mut Client, sql: &str) {
    loop {
        match client.query(sql) {
            Outcome::Ok { affected_rows, .. } => return assert_eq!(affected_rows, 6, "{sql}"),
            Outcome::Err { errno: 1205 | 1213, .. } => {}
            other => panic!("{sql}: {other:?}"),
        }
    }
}

#[test]
fn others_see_all_of_a_change_of_several_tables_or_nothing() {
    let server = TestServer::start();
    let mut client = filled(&server);
    let clients = (0..4).map(|_| server.database("d")).collect::<Vec<_>>();
    let sums = "select (select sum(x) from a) - (select sum(y) from b) - (select sum(v) from k)";
    std::thread::scope(|scope| {
        for (at, mut other) in clients.into_iter().enumerate() {
            let sql = if at % 2 == 0 { KEYED } else { UNKEYED };
            scope.spawn(move || (0..15).for_each(|_| again(&mut other, sql)));
        }
        for _ in 0..50 {
            assert_eq!(client.one(sums), "0");
        }
    });
    assert_eq!(client.one(sums), "0");
    assert_eq!(
        client.texts("select (select sum(x) from a), (select sum(v) from k)"),
        [["180", "90"]]
    );
    let server = server.restart();
    assert_eq!(server.database("d").one(sums), "0");
}

#[test]
fn a_statement_that_waits_for_a_row_has_changed_nothing_yet() {
    let server = TestServer::start();
    let mut client = filled(&server);
    let mut other = server.database("d");
    other.run("set innodb_lock_wait_timeout = 1");
    client.run("begin");
    client.run("update b set y = 7 where id = 3");
    assert_eq!(other.fails(KEYED).errno, 1205);
    assert_eq!(other.one("select sum(x) from a"), "0");
    // The first rows were locked by the statement, and are free again.
    client.run("update a set x = 5 where id = 1");
    client.run("commit");
    again(&mut other, KEYED);
    assert_eq!(
        other.texts("select x, y from a join b using (id) order by id").concat().join(" "),
        "6 1 1 1 1 8"
    );
    // No transaction is left open by a statement that failed.
    assert_eq!(other.fails("update a, b set a.x = 1, b.id = 2").errno, 1062);
    other.run("insert into k values (9, 9)");
    assert_eq!(client.one("select count(*) from k"), "4");
}

#[test]
fn a_truncate_beside_it_is_before_or_behind_it() {
    let server = TestServer::start();
    let mut client = filled(&server);
    let mut other = server.database("d");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..20 {
                other.run("truncate table b");
                other.run("insert into b values (1, 0), (2, 0), (3, 0)");
            }
        });
        for _ in 0..40 {
            match client.query(KEYED) {
                Outcome::Ok { affected_rows: 0 | 6, .. } => {}
                Outcome::Err { errno: 1205 | 1213, .. } => {}
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(client.one("select count(*) from b"), "3");
    assert_eq!(client.one("select count(distinct x) from a"), "1");
}
