//! Transactions that change stored rows of a table with a UNIQUE KEY, whose keys nobody locks.

use freshet_wire::client::Outcome;

use crate::common::{Client, TestServer};

fn table(server: &TestServer) -> Client {
    let mut client = server.database("d");
    client.run("create table u (id int not null, v int) unique key(id) distributed by hash(id)");
    client.run("insert into u values (1, 10), (2, 20), (3, 30)");
    client
}

fn errno(client: &mut Client, sql: &str) -> u16 {
    match client.query(sql) {
        Outcome::Err { errno, .. } => errno,
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn a_commit_fails_where_others_have_changed_a_row() {
    let server = TestServer::start();
    let (mut one, mut two) = (table(&server), server.database("d"));
    for other in ["insert into u values (1, 11)", "delete from u where id = 1"] {
        one.run("insert into u values (1, 10)");
        one.run("begin");
        one.run("update u set v = v + 1 where id = 1");
        two.run(other);
        assert_eq!(errno(&mut one, "commit"), 1213, "{other}");
    }
    assert_eq!(one.texts("select * from u order by id"), [["2", "20"], ["3", "30"]]);
    // Rows that it has not read do not matter, and neither do those that it has written blindly.
    one.run("begin");
    one.run("insert into u values (5, 50)");
    one.run("update u set v = v + 1 where id = 2");
    two.run("insert into u values (3, 31), (4, 40), (5, 51)");
    assert_eq!(one.one("select sum(v) from u"), "142", "it reads what others have committed");
    one.run("commit");
    assert_eq!(one.texts("select v from u order by id"), [["21"], ["31"], ["40"], ["50"]]);
}

#[test]
fn files_that_move_are_no_change() {
    let server = TestServer::start();
    let (mut one, mut two) = (table(&server), server.database("d"));
    one.run("begin");
    one.run("update u set v = v + 1 where id < 3");
    one.run("delete from u where id = 3");
    two.run("flush tables u");
    two.run("insert into u values (7, 70)");
    two.run("flush tables u");
    one.run("commit");
    let rows = [["1", "11"], ["2", "21"], ["7", "70"]];
    assert_eq!(one.texts("select * from u order by id"), rows);
    let server = server.restart();
    let mut one = server.database("d");
    assert_eq!(one.texts("select * from u order by id"), rows);
    one.run("flush tables u");
    assert_eq!(one.texts("select * from u order by id"), rows);
}

#[test]
fn no_update_is_lost_beside_loads() {
    const EACH: i32 = 20;
    let server = TestServer::start();
    let mut client = table(&server);
    client.run("truncate table u");
    client.run("insert into u values (0, 0)");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut other = server.database("d");
            scope.spawn(move || {
                let mut done = 0;
                while done < EACH {
                    other.run("begin");
                    other.run("update u set v = v + 1 where id = 0");
                    match other.query("commit") {
                        Outcome::Ok { .. } => done += 1,
                        Outcome::Err { errno: 1213, .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
        let mut loads = server.database("d");
        scope.spawn(move || {
            for key in 1..200 {
                loads.run(&format!("insert into u values ({key}, {key})"));
            }
        });
    });
    assert_eq!(client.one("select v from u where id = 0"), (3 * EACH).to_string());
    assert_eq!(client.one("select count(*) from u"), "200");
}
