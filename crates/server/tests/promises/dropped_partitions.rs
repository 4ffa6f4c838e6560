//! Statements beside partitions that are dropped and come again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{Client, TestServer, failure};

const NO_PARTITION: u16 = 1526;

/// Runs statements in turn on a table of one partition that stays and one that comes and goes, and
/// counts those that were done, and those whose rows had no place.
fn write(mut client: Client, statements: &[&str], is_over: &AtomicBool) -> (u64, u64) {
    let (mut done, mut refused) = (0, 0);
    for turn in 0.. {
        if is_over.load(Ordering::Acquire) {
            break;
        }
        let statement = statements[turn % statements.len()];
        let sql = statement.replace("{n}", &(turn % 5).to_string());
        match failure(client.query(&sql)) {
            Err(_) => done += 1,
            Ok(failure) if failure.errno == NO_PARTITION => refused += 1,
            Ok(failure) => panic!("{sql}: {failure:?}"),
        }
    }
    (done, refused)
}

#[test]
fn statements_find_their_place_behind_a_dropped_partition() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let parts = "partition by list (p) (partition a values in (1), partition b values in (2))";
    one.run(&format!("create table t (id int, p int, v int, primary key (id, p)) {parts}"));
    one.run(&format!("create table u (p int, v int) {parts}"));
    let is_over = Arc::new(AtomicBool::new(false));
    let statements: [&[&str]; 4] = [
        &[
            "insert into t values ({n}, 1, 0), ({n}, 2, 0) on duplicate key update v = v + 1",
            "update t set v = v + 1 where id = {n} and p = 2",
        ],
        &[
            "insert ignore into t values ({n}, 1, 7), ({n}, 2, 7)",
            "update t set v = v + 1 where v >= {n}",
            "delete from t where id = {n}",
        ],
        &["replace into t values ({n}, 2, 3)", "delete from t where id = {n} and p = 2"],
        &[
            "insert into u values (1, {n}), (2, {n})",
            "update t join u on t.id = u.v set t.v = 9, u.v = u.v + 1 where u.v = {n}",
            "update u set v = v + 1 where v = {n}",
            "delete from u where v >= {n}",
        ],
    ];
    let writers = statements.map(|statements| {
        let (client, is_over) = (server.database("d"), Arc::clone(&is_over));
        thread::spawn(move || write(client, statements, &is_over))
    });
    for _ in 0..100 {
        for table in ["t", "u"] {
            one.run(&format!("alter table {table} drop partition b"));
            one.run(&format!("alter table {table} add partition (partition b values in (2))"));
        }
    }
    is_over.store(true, Ordering::Release);
    let counts = writers.map(|writer| writer.join().unwrap());
    assert!(counts.iter().all(|(done, _)| *done > 0), "{counts:?}");
    assert!(counts.iter().any(|(_, refused)| *refused > 0), "{counts:?}");
    one.run("alter table t drop partition b");
    assert_eq!(one.one("select count(*) from t where p = 2"), "0");
    assert_eq!(failure(one.query("insert into t values (1, 2, 3)")).unwrap().errno, NO_PARTITION);
}
