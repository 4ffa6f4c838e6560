//! UPDATE and DELETE of tables without a unique key: ended on the way, and beside ALTER TABLE.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use freshet_wire::client::Outcome;

use crate::common::TestServer;

#[test]
fn kill_query_ends_a_change_and_leaves_nothing_of_it() {
    let server = TestServer::start();
    let mut victim = server.database("d");
    let mut other = server.database("d");
    victim.run("create table t (a int, b varchar(20))");
    victim.run("insert into t values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')");
    for _ in 0..13 {
        victim.run("insert into t select a + 1, b from t");
    }
    let count = "select count(*) from t";
    let rows = victim.one(count).parse::<u64>().unwrap();
    let id = victim.one("select connection_id()");
    let from = Instant::now();
    assert_eq!(victim.run("update t set b = concat(b, '0')").0, rows);
    let took = from.elapsed();
    let mut ended = 0;
    for (statement, changed) in [
        ("update t set b = 'changed'", "select count(*) from t where b = 'changed'"),
        ("delete from t where a > 0", "select 32768 - count(*) from t"),
    ] {
        for quarter in 0..4 {
            let (kill, over) = (format!("kill query {id}"), Arc::new(AtomicBool::new(false)));
            let killer = thread::spawn({
                let over = Arc::clone(&over);
                move || {
                    thread::sleep(took * quarter / 4);
                    while !over.load(Ordering::Relaxed) {
                        other.run(&kill);
                        thread::sleep(Duration::from_millis(1));
                    }
                    other
                }
            });
            let outcome = victim.query(statement);
            over.store(true, Ordering::Relaxed);
            other = killer.join().unwrap();
            match outcome {
                Outcome::Err { errno, message, .. } => {
                    assert_eq!(errno, 1317, "{message}");
                    assert_eq!(victim.one(changed), "0", "{statement}");
                    ended += 1;
                }
                // It was done before.
                Outcome::Ok { .. } => break,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(ended > 0);
    victim.run("update t set b = 'changed' where a = 1");
}

#[test]
fn an_update_goes_on_with_the_columns_that_the_table_has_now() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (a int, b int)");
    root.run("insert into t values (1, 0), (2, 0), (3, 0)");
    let over = Arc::new(AtomicBool::new(false));
    let writers = [1, 2].map(|a| {
        let (mut client, over) = (server.database("d"), Arc::clone(&over));
        thread::spawn(move || {
            let mut times = 0;
            while !over.load(Ordering::Relaxed) {
                let (changed, _) = client.run(&format!("update t set b = b + 1 where a = {a}"));
                assert_eq!(changed, 1);
                times += 1;
            }
            times
        })
    });
    let from = Instant::now();
    while from.elapsed() < Duration::from_secs(3) {
        root.run("alter table t add column c int default 7");
        root.run("alter table t rename column c to e");
        root.run("alter table t drop column e");
    }
    over.store(true, Ordering::Relaxed);
    let times = writers.map(|writer| writer.join().unwrap().to_string());
    assert_eq!(
        root.texts("select b from t order by a"),
        [[times[0].clone()], [times[1].clone()], ["0".to_owned()]]
    );
    assert_eq!(root.fails("update t set b = c").errno, 1054);
}

/// A transaction that has read its snapshot would find there, again and again, what is gone.
#[test]
fn a_row_of_a_snapshot_that_others_have_changed_is_told_of_at_once() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.database("d"), server.database("d"));
    one.run("create table t (a int, b int)");
    one.run("create table k (id int primary key, b int)");
    one.run("insert into k values (1, 0)");
    for change in [
        "update t set b = b + 1 where a = 1",
        "delete from t where a = 1",
        "update k join t on t.a = k.id set k.b = 1, t.b = 1",
    ] {
        two.run("truncate table t");
        two.run("insert into t values (1, 0), (2, 0)");
        one.run("set transaction isolation level repeatable read");
        one.run("begin");
        assert_eq!(one.one("select count(*) from t"), "2");
        two.run("update t set b = 7 where a = 1");
        let from = Instant::now();
        assert_eq!(one.fails(change).errno, 1213, "{change}");
        assert!(from.elapsed() < Duration::from_secs(20), "{change}: {:?}", from.elapsed());
        one.run("rollback");
        // Where the statement is the first that reads, it reads what is there.
        one.run("set transaction isolation level repeatable read");
        one.run("begin");
        one.run(change);
        one.run("rollback");
    }
    assert_eq!(two.texts("select a, b from t order by a"), [["1", "7"], ["2", "0"]]);
}
