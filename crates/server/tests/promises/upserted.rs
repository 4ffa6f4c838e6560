//! Transactions that change and lock stored rows of a table with a UNIQUE KEY, whose keys loads do
//! not look at.

use std::thread;
use std::time::Duration;

use freshet_wire::client::Outcome;

use crate::common::{Client, TestServer};

fn table(server: &TestServer) -> Client {
    let mut client = server.database("d");
    client.run("create table u (id int not null, v int) unique key(id) distributed by hash(id)");
    client.run("insert into u values (1, 10), (2, 20), (3, 30)");
    client
}

#[test]
fn a_commit_fails_where_others_have_changed_a_row() {
    let server = TestServer::start();
    let (mut one, mut two) = (table(&server), server.database("d"));
    for change in ["update u set v = v + 1 where id = 1", "delete from u where id = 1"] {
        one.run("insert into u values (1, 10)");
        one.run("begin");
        one.run(change);
        two.run("insert into u values (1, 11)");
        assert_eq!(one.fails("commit").errno, 1213, "{change}");
    }
    one.run("delete from u where id = 1");
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

#[test]
fn who_changes_a_row_waits_for_who_holds_it() {
    let server = TestServer::start();
    let (mut one, mut two) = (table(&server), server.database("d"));
    two.run("set innodb_lock_wait_timeout = 1");
    for holds in [
        "select v from u where id = 1 for update",
        "select * from u for share",
        "select * from u where id = 1 lock in share mode",
    ] {
        one.run("begin");
        one.texts(holds);
        for sql in [
            "update u set v = 0 where id = 1",
            "delete from u where id = 1",
            "select * from u where id = 1 for update",
        ] {
            two.run("begin");
            assert_eq!(two.fails(sql).errno, 1205, "{holds}: {sql}");
            two.run("rollback");
        }
        two.run("begin");
        let share = "select v from u where id = 1 LOCK IN SHARE MODE ";
        match holds.contains("update") {
            true => assert_eq!(two.fails(share).errno, 1205, "{holds}"),
            false => assert_eq!(two.texts(share).len(), 1, "{holds}: they share it"),
        }
        two.run("rollback");
        assert_eq!(two.fails("update u set v = 0").errno, 1205, "a statement of its own");
        two.run("begin");
        let at_once = "select * from u where id = 1 for update nowait";
        assert_eq!(two.fails(at_once).errno, 3572);
        two.run("rollback");
        one.run("update u set v = v + 1 where id = 1");
        one.run("commit");
    }
    assert_eq!(one.one("select v from u where id = 1"), "13");
    // It goes on once the row is free, with what the row is by then.
    two.run("set innodb_lock_wait_timeout = 20");
    one.run("begin");
    assert_eq!(one.one("select v from u where id = 2 for update"), "20");
    let waiting = thread::spawn(move || {
        two.run("begin");
        let seen = two.one("select v from u where id = 2 for update");
        two.run("update u set v = v + 1 where id = 2");
        two.run("commit");
        (seen, two)
    });
    thread::sleep(Duration::from_millis(300));
    one.run("update u set v = 200 where id = 2");
    one.run("commit");
    let (seen, mut two) = waiting.join().unwrap();
    assert_eq!((seen.as_str(), two.one("select v from u where id = 2").as_str()), ("200", "201"));
}

#[test]
fn loads_lock_nothing_and_a_commit_tells() {
    let server = TestServer::start();
    let (mut one, mut two) = (table(&server), server.database("d"));
    one.run("begin");
    assert_eq!(one.one("select v from u where id = 1 for update"), "10");
    two.run("insert into u values (1, 11)");
    one.run("update u set v = v + 1 where id = 2");
    assert_eq!(one.fails("commit").errno, 1213, "a row that it has locked is another one");
    assert_eq!(one.texts("select v from u order by id"), [["11"], ["20"], ["30"]]);
    // Rows of its own are locked with the others, and nothing is written for them.
    one.run("begin");
    one.run("insert into u values (4, 40), (1, 12)");
    let all = [["1", "12"], ["2", "20"], ["3", "30"], ["4", "40"]];
    assert_eq!(one.texts("select * from u order by id for update"), all);
    one.run("commit");
    assert_eq!(one.texts("select * from u order by id"), all);
    one.run("begin");
    assert_eq!(one.texts("select * from u where id = 1000 for update"), Vec::<Vec<String>>::new());
    one.texts("select * from u for update");
    two.run("insert into u values (1, 13)");
    one.run("commit");
}

#[test]
fn rows_are_held_behind_a_rollback_to_before_they_were_locked() {
    let server = TestServer::start();
    let (mut one, mut two) = (table(&server), server.database("d"));
    for (change, value) in
        [("insert into u values (9, 90)", 11), ("delete from u where id = 3", 12)]
    {
        one.run("begin");
        one.run("insert into u values (8, 80)");
        one.run("savepoint a");
        assert_eq!(one.texts("select id from u where id in (1, 8) for update"), [["1"], ["8"]]);
        one.run("update u set v = 0 where id = 2");
        one.run("rollback to a");
        assert_eq!(one.one("select v from u where id = 2"), "20");
        two.run(&format!("insert into u values (1, {value})"));
        one.run(change);
        assert_eq!(one.fails("commit").errno, 1213, "{change}");
    }
    // It has changed nothing, and nothing was changed.
    for (read, write) in [("id = 1", "(1, 13)"), ("id = 2", "(3, 31)")] {
        one.run("begin");
        one.run("savepoint a");
        one.texts(&format!("select id from u where {read} for update"));
        one.run("rollback to a");
        if read == "id = 2" {
            one.run("insert into u values (2, 21)");
            one.run("savepoint b");
            one.run("delete from u where id = 1");
            one.run("rollback to b");
        }
        two.run(&format!("insert into u values {write}"));
        one.run("commit");
    }
    let rows = [["1", "13"], ["2", "21"], ["3", "31"]];
    assert_eq!(one.texts("select * from u order by id"), rows);
}

#[test]
fn workers_share_the_rows_of_a_table() {
    let server = TestServer::start();
    let mut one = table(&server);
    let mut two = server.database("d");
    let next = "select id from u order by id limit 1 for update skip locked";
    one.run("begin");
    two.run("begin");
    assert_eq!(one.one(next), "1");
    assert_eq!(two.one(next), "2");
    assert_eq!(two.texts("select id from u order by id for update skip locked"), [["2"], ["3"]]);
    one.run("delete from u where id = 1");
    one.run("commit");
    two.run("delete from u where id = 2");
    two.run("rollback");
    assert_eq!(two.texts("select id from u order by id"), [["2"], ["3"]]);
}

#[test]
fn by_a_sequence_column_a_commit_fails_where_others_have_changed_a_row() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.database("d"), server.database("d"));
    one.run(
        "create table s (id int not null, v int, t int) unique key(id) distributed by hash(id) \
         properties ('function_column.sequence_col' = 'v')",
    );
    one.run("insert into s values (1, 10, 1), (2, 20, 2), (3, 30, 3)");
    // A late load is none; another one, also of a row that was only compared, is.
    for (load, errno_of_commit) in [("1, 9", 0), ("1, 10", 1213), ("2, 21", 1213), ("3, 31", 0)] {
        one.run("begin");
        one.run("insert into s values (2, 1, 0)");
        one.run("update s set t = t + 1 where id = 1");
        two.run(&format!("insert into s values ({load}, 100)"));
        match one.query("commit") {
            Outcome::Ok { .. } => assert_eq!(errno_of_commit, 0, "{load}"),
            Outcome::Err { errno, .. } => assert_eq!(errno, errno_of_commit, "{load}"),
            other => panic!("{other:?}"),
        }
    }
    let rows = [["1", "10", "101"], ["2", "21", "100"], ["3", "31", "100"]];
    assert_eq!(one.texts("select * from s order by id"), rows);
    one.run("begin");
    one.run("delete from s where id < 3");
    one.run("commit");
    let server = server.restart();
    let mut one = server.database("d");
    assert_eq!(one.texts("select * from s order by id"), [["3", "31", "100"]]);
    one.run("insert into s values (1, 10, 7), (2, 20, 8)");
    assert_eq!(one.texts("select * from s order by id"), [["1", "10", "7"], ["3", "31", "100"]]);
}

#[test]
fn a_savepoint_is_from_before_a_column_that_was_added() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.database("d"), server.database("d"));
    for (number, later) in ["update u set v = 3 where id = 3", ""].into_iter().enumerate() {
        one.run("drop table if exists u");
        table(&server);
        one.run("begin");
        one.run("update u set v = 1 where id = 1");
        one.run("savepoint s");
        two.run("alter table u add column c int not null default 7");
        one.run("update u set v = 2 where id = 2");
        one.run("rollback to s");
        if !later.is_empty() {
            one.run(later);
        }
        one.run("commit");
        let third = if number == 0 { "3" } else { "30" };
        let rows = [["1", "1", "7"], ["2", "20", "7"], ["3", third, "7"]];
        assert_eq!(two.texts("select * from u order by id"), rows);
    }
}

/// By the sequence column a row may come too late: then the UPDATE has matched it, and changed
/// none.
#[test]
fn an_update_that_is_too_late_has_changed_nothing() {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run(
        "create table s (id int, v int, t varchar(9)) unique key (id) \
         properties ('function_column.sequence_col' = 'v')",
    );
    one.run("insert into s values (1, 10, 'a'), (2, 20, 'b')");
    for begin in ["do 1", "begin"] {
        one.run(begin);
        for late in ["id = 2", "v = 20"] {
            let (_, info) = one.run(&format!("update s set v = 5, t = 'late' where {late}"));
            assert_eq!(info, "Rows matched: 1  Changed: 0  Warnings: 0", "{begin}, {late}");
        }
        let (_, info) = one.run("update s set v = 20, t = 'B' where v = 20 and t = 'b'");
        assert_eq!(info, "Rows matched: 1  Changed: 1  Warnings: 0", "{begin}");
        assert_eq!(one.texts("select t from s where id = 2"), [["B"]]);
        one.run("update s set t = 'b' where id = 2");
        one.run("commit");
    }
}
