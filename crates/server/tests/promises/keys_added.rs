//! Unique keys that a table gets and loses while others write (RFC 0026).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::TestServer;

#[test]
fn a_transaction_that_is_open_meanwhile_goes_by_the_new_key() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let mut two = server.database("d");
    one.run("create table t (id int primary key, u int)");
    one.run("begin");
    one.run("insert into t values (1, 7), (2, 8)");
    two.run("alter table t add unique key uk (u)");
    two.run("insert into t values (3, 7)");
    assert_eq!(one.fails("insert into t values (4, 8)").errno, 1062, "it has that itself");
    assert_eq!(one.fails("commit").errno, 1062, "another has it");
    assert_eq!(two.texts("select id, u from t"), [["3", "7"]]);
    one.run("begin");
    one.run("insert into t values (5, 9), (6, 10)");
    two.run("alter table t drop index uk");
    // What it has locked is of a key that is gone.
    two.run("insert into t values (7, 9)");
    one.run("insert into t values (8, 9)");
    one.run("update t set u = 9 where id = 6");
    one.run("commit");
    assert_eq!(two.one("select count(*) from t where u = 9"), "4");
    let refused = two.fails("alter table t add unique key uk (u)");
    assert_eq!(
        (refused.errno, refused.message.as_str()),
        (1062, "Duplicate entry '9' for key 't.uk'")
    );
}

#[test]
fn two_rows_of_a_transaction_may_not_share_a_value_of_a_new_key() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let mut two = server.database("d");
    one.run("create table t (id int primary key, u int)");
    one.run("begin");
    one.run("insert into t values (1, 7), (2, 7)");
    two.run("alter table t add unique key (u)");
    assert_eq!(one.fails("commit").errno, 1062);
    one.run("begin");
    one.run("insert into t values (1, 7)");
    two.run("alter table t add column c int not null default 5 unique");
    // Its row shows the default of the column.
    two.run("insert into t values (2, 8, 5)");
    one.run("insert into t values (3, 9, 6)");
    assert_eq!(one.fails("commit").errno, 1062);
    assert_eq!(two.one("select count(*) - count(distinct c) from t"), "0");
}

#[test]
fn writers_do_not_notice_that_keys_come_and_go() {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run("create table t (id int primary key, u int, w int)");
    let is_over = Arc::new(AtomicBool::new(false));
    let writers = (0..3).map(|writer| {
        let (mut client, is_over) = (server.database("d"), Arc::clone(&is_over));
        thread::spawn(move || {
            let mut id = writer;
            while !is_over.load(Ordering::Acquire) {
                let (a, b) = (id, id + 3);
                match id % 4 {
                    0 => client.run(&format!("insert into t values ({a}, {a}, 0), ({b}, {b}, 0)")),
                    1 => client.run(&format!("replace into t values ({a}, {a}, 0), ({b}, {b}, 0)")),
                    2 => {
                        client.run("begin");
                        client.run(&format!("insert into t values ({a}, {a}, 0), ({b}, {b}, 0)"));
                        client.run(&format!("update t set w = w + 1 where id = {a}"));
                        client.run("commit")
                    }
                    _ => client.run(&format!(
                        "insert into t values ({a}, {a}, 0), ({b}, {b}, 0) on duplicate key \
                         update w = 9"
                    )),
                };
                id += 6;
            }
            id / 3
        })
    });
    let writers = writers.collect::<Vec<_>>();
    for turn in 0..12 {
        one.run("create unique index uk on t (u)");
        let twice = one.texts("select u from t where u is not null order by u limit 1");
        if let Some(row) = twice.first() {
            let sql = format!("insert into t values (-1, {}, 0)", row[0]);
            assert_eq!(one.fails(&sql).errno, 1062, "turn {turn}");
        }
        if turn % 3 == 0 {
            one.run("flush tables t");
        }
        one.run("drop index uk on t");
        one.run("insert into t values (-1, -1, 0), (-2, -1, 0)");
        assert_eq!(one.fails("create unique index uk on t (u)").errno, 1062, "turn {turn}");
        one.run("delete from t where id < 0");
    }
    is_over.store(true, Ordering::Release);
    let rows = writers.into_iter().map(|writer| writer.join().unwrap()).sum::<i32>();
    assert!(rows > 0);
    let counted = one.texts("select count(*), count(distinct u), count(distinct id) from t");
    assert!(counted[0].iter().all(|count| *count == counted[0][0]), "{counted:?}");
}
