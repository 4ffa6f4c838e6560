//! SELECT .. FOR UPDATE and FOR SHARE of joined tables, by sessions that meet.

use std::thread;
use std::time::Duration;

use freshet_wire::client::Outcome;

use crate::common::{Client, TestServer};

const JOINED: &str = "select j.id, q.id from jobs j join queues q on q.id = j.queue_id";

/// Tables with a PRIMARY KEY and with a UNIQUE KEY.
fn filled(server: &TestServer) -> Client {
    let mut client = server.database("d");
    client.run("create table jobs (id int primary key, queue_id int, v int)");
    client
        .run("create table queues (id int not null, v int) unique key(id) distributed by hash(id)");
    client.run("insert into jobs values (1, 1, 0), (2, 1, 0), (3, 2, 0), (4, null, 0)");
    client.run("insert into queues values (1, 0), (2, 0), (3, 0)");
    client
}

/// Whether another session may lock these rows at once.
fn is_free(client: &mut Client, rows: &str) -> bool {
    match client.query(&format!("select 1 from {rows} for update nowait")) {
        Outcome::Err { errno: 3572, .. } => false,
        Outcome::Err { message, .. } => panic!("{rows}: {message}"),
        _ => true,
    }
}

#[test]
fn the_rows_of_all_tables_are_locked_or_of_those_that_are_named() {
    let server = TestServer::start();
    let (mut one, mut two) = (filled(&server), server.database("d"));
    for (clause, jobs, queues) in [
        ("for update", false, false),
        ("for update of j", false, true),
        ("for update of q", true, false),
        ("for update of j, q nowait", false, false),
        ("for share of q for update of j", false, false),
        ("for update skip locked", false, false),
    ] {
        one.run("begin");
        assert_eq!(one.texts(&format!("{JOINED} where j.id = 1 {clause}")), [["1", "1"]]);
        assert_eq!(is_free(&mut two, "jobs where id = 1"), jobs, "{clause}");
        assert_eq!(is_free(&mut two, "queues where id = 1"), queues, "{clause}");
        for free in ["jobs where id = 2", "queues where id = 2"] {
            assert!(is_free(&mut two, free), "{clause}: {free}");
        }
        one.run("commit");
        assert!(is_free(&mut two, "jobs") && is_free(&mut two, "queues"), "{clause}");
    }
    one.run("begin");
    one.texts(&format!("{JOINED} for share"));
    assert_eq!(two.texts(&format!("{JOINED} where j.id = 3 for share nowait")), [["3", "2"]]);
    assert!(!is_free(&mut two, "jobs where id = 3"), "a share is one");
    one.run("commit");
    one.run("begin");
    assert_eq!(
        one.texts(
            "select queue_id, count(*) from jobs j join queues q on q.id = queue_id \
         group by 1 having count(*) > 1 for update"
        ),
        [["1", "2"]]
    );
    assert!(!is_free(&mut two, "queues where id = 2"), "a group that is left out was read");
    one.run("commit");
}

#[test]
fn who_waited_reads_what_the_rows_are_by_then() {
    let server = TestServer::start();
    let (mut one, mut two) = (filled(&server), server.database("d"));
    two.run("set session transaction isolation level repeatable read");
    two.run("begin");
    two.texts("select * from jobs");
    one.run("begin");
    one.run("update jobs set queue_id = 3, v = 7 where id = 1");
    let waiting = thread::spawn(move || {
        let rows = two.texts(
            "select j.id, q.id, j.v from jobs j join queues q on q.id = j.queue_id \
             where j.id = 1 for update",
        );
        (rows, two)
    });
    thread::sleep(Duration::from_millis(300));
    one.run("commit");
    let (rows, mut two) = waiting.join().unwrap();
    assert_eq!(rows, [["1", "3", "7"]], "by the snapshot it would be queue 1");
    assert!(!is_free(&mut one, "queues where id = 3"), "the row that it is joined to now");
    // What it locks is read as it is now, and nothing else is.
    one.run("insert into jobs values (9, 2, 0)");
    assert_eq!(two.one("select count(*) from jobs"), "4");
    assert_eq!(
        two.one("select count(*) from jobs j join queues q on q.id = 3 for update of j"),
        "5"
    );
    assert_eq!(
        two.one("select count(*) from jobs j join queues q on q.id = 3 for update of q"),
        "4"
    );
    two.run("commit");
}

#[test]
fn workers_take_different_jobs_of_a_join() {
    let server = TestServer::start();
    let (mut one, mut two, mut three) =
        (filled(&server), server.database("d"), server.database("d"));
    let next = format!("{JOINED} order by j.id limit 1 for update of j skip locked");
    one.run("begin");
    two.run("begin");
    assert_eq!(one.texts(&next), [["1", "1"]]);
    assert_eq!(two.texts(&next), [["2", "1"]]);
    // With the queue, too: queue 1 is held by nobody, its jobs are.
    let both = format!("{JOINED} order by j.id limit 1 for update skip locked");
    three.run("begin");
    assert_eq!(three.texts(&both), [["3", "2"]]);
    two.run("rollback");
    assert_eq!(one.texts(&both), [["1", "1"]]);
    two.run("begin");
    assert_eq!(two.texts(&both), Vec::<Vec<String>>::new(), "job 2 is free, and its queue is not");
    assert_eq!(two.fails(&format!("{JOINED} for update nowait")).errno, 3572);
    two.run("rollback");
    one.run("rollback");
    three.run("rollback");
}

#[test]
fn opposite_orders_end() {
    let server = TestServer::start();
    let mut client = filled(&server);
    let clients = (0..4).map(|_| server.database("d")).collect::<Vec<_>>();
    let done = thread::scope(|scope| {
        let running = clients.into_iter().enumerate().map(|(at, mut client)| {
            scope.spawn(move || {
                client.run("set innodb_lock_wait_timeout = 20");
                let (mut done, order) = (0, if at % 2 == 0 { "asc" } else { "desc" });
                for _ in 0..10 {
                    client.run("begin");
                    let first = if at % 2 == 0 { "jobs" } else { "queues" };
                    let steps = [
                        format!("select v from {first} where id = 1 for update"),
                        format!("{JOINED} order by j.id {order} for update"),
                        "update jobs set v = v + 1".to_owned(),
                        "commit".to_owned(),
                    ];
                    let failed = steps.iter().any(|sql| match client.query(sql) {
                        Outcome::Err { errno: 1205 | 1213, .. } => true,
                        Outcome::Err { message, .. } => panic!("{sql}: {message}"),
                        _ => false,
                    });
                    match failed {
                        true => {
                            client.run("rollback");
                        }
                        false => done += 1,
                    }
                }
                done
            })
        });
        let running = running.collect::<Vec<_>>();
        running.into_iter().map(|client| client.join().unwrap()).sum::<u64>()
    });
    assert!(done > 0, "somebody gets through");
    assert_eq!(client.one("select min(v) from jobs"), done.to_string());
    assert_eq!(client.one("select max(v) from jobs"), done.to_string());
}

#[test]
fn a_commit_compares_what_a_join_has_locked() {
    let server = TestServer::start();
    let (mut one, mut two) = (filled(&server), server.database("d"));
    one.run("begin");
    one.texts(&format!("{JOINED} where j.id = 1 for update"));
    two.run("insert into queues values (1, 5)");
    one.run("update queues set v = 1 where id = 2");
    assert_eq!(one.fails("commit").errno, 1213, "a load has replaced a row that it has locked");
    assert_eq!(one.one("select group_concat(v order by id) from queues"), "5,0,0");
}
