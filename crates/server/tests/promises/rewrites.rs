//! Changes of columns and keys that copy the rows of a table, beside others (RFC 0039).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Client, Failure, TestServer, failure};

fn tried(client: &mut Client, sql: &str) -> Result<(), Failure> {
    match failure(client.query(sql)) {
        Ok(failure) => Err(failure),
        Err(_) => Ok(()),
    }
}

#[test]
fn writers_do_not_notice_that_rows_are_copied() {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run("create table t (id int primary key, v varchar(20))");
    one.run("create table u (w int, n varchar(20))");
    let is_over = Arc::new(AtomicBool::new(false));
    let writers = (0..3).map(|writer| {
        let (mut client, is_over) = (server.database("d"), Arc::clone(&is_over));
        thread::spawn(move || {
            let mut id = writer;
            while !is_over.load(Ordering::Acquire) {
                let next = id + 3;
                match id % 3 {
                    0 => client.run(&format!("insert into t values ({id}, '{id}'), ({next}, '7')")),
                    1 => client.run(&format!("replace into t values ({id}, '{id}'), ({next}, 7)")),
                    _ => {
                        client.run("begin");
                        client.run(&format!("insert into t values ({id}, '{id}'), ({next}, '7')"));
                        client.run(&format!("insert into u (w, n) values ({writer}, '{id}')"));
                        client.run("commit")
                    }
                };
                client.run(&format!("update t set v = '-8' where id = {next}"));
                client.run(&format!("insert into u (w, n) values ({writer}, '{next}')"));
                id += 6;
            }
            id / 3
        })
    });
    let writers = writers.collect::<Vec<_>>();
    for _ in 0..6 {
        one.run("alter table t modify v int");
        one.run("alter table u modify n bigint");
        one.run("alter table t modify v varchar(20)");
        one.run("alter table u modify n varchar(20), add column x int not null default 5 first");
        one.run("alter table u drop column x");
        one.run("alter table t partition by hash(id) partitions 3");
        one.run(
            "alter table u partition by list (w) (partition a values in (0, 1), partition b \
             values in (2))",
        );
        one.run("alter table t add partition partitions 2");
        one.run("alter table t remove partitioning");
        one.run("alter table u remove partitioning");
    }
    is_over.store(true, Ordering::Release);
    let rows = writers.into_iter().map(|writer| writer.join().unwrap()).sum::<i32>();
    assert!(rows > 0);
    assert_eq!(one.one("select count(*) from t"), rows.to_string());
    assert_eq!(one.one("select count(distinct id) from t"), rows.to_string());
    assert_eq!(one.one("select count(*) from t where v = '-8'"), (rows / 2).to_string());
    assert_eq!(one.texts("show tables"), [["t"], ["u"]]);
}

/// Loads rows of keys of its own, and deletes some; returns by key the sum and the last text.
fn load_parts(mut client: Client, writer: i64, is_over: &AtomicBool) -> BTreeMap<i64, (i64, i64)> {
    let mut parts = BTreeMap::<i64, (i64, i64)>::new();
    for turn in 0.. {
        if is_over.load(Ordering::Acquire) {
            break;
        }
        let (key, other) = (writer + 3 * (turn % 20), writer + 3 * (turn % 7));
        client.run(&format!("insert into g values ({key}, 1, '{turn}', 1), ({other}, 2, '7', 0)"));
        for (key, one, text) in [(key, 1, turn), (other, 2, 7)] {
            let part = parts.entry(key).or_default();
            *part = (part.0 + one, text);
        }
        if turn % 200 == 150 {
            client.run(&format!("delete from g where k = {key}"));
            parts.remove(&key);
        }
    }
    parts
}

#[test]
fn parts_of_an_aggregate_key_are_copied_beside_writers() {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run(
        "create table g (k int, s int sum, r varchar(20) replace, m int max) aggregate key(k) \
         distributed by hash(k) buckets 3",
    );
    let is_over = Arc::new(AtomicBool::new(false));
    let writers = (0..3).map(|writer| {
        let (client, is_over) = (server.database("d"), Arc::clone(&is_over));
        thread::spawn(move || load_parts(client, writer, &is_over))
    });
    let writers = writers.collect::<Vec<_>>();
    let mut changes = 0;
    for turn in 0..24 {
        let sql = [
            "alter table g modify r int replace, modify s bigint sum",
            "alter table g partition by range (k) (partition a values less than ('20'), \
             partition b values less than maxvalue)",
            "alter table g modify r varchar(20) replace, modify m bigint max",
            "alter table g remove partitioning",
            "alter table g modify s int sum, modify m smallint max",
        ][turn % 5];
        match tried(&mut one, sql) {
            Ok(()) => changes += 1,
            // Keys were deleted again and again, or the change before was not done.
            Err(error) => assert!([1213, 1505].contains(&error.errno), "{sql}: {error:?}"),
        }
    }
    is_over.store(true, Ordering::Release);
    assert!(changes > 5, "{changes}");
    let parts = writers.into_iter().flat_map(|writer| writer.join().unwrap());
    let parts = parts.collect::<BTreeMap<_, _>>();
    let rows = one.texts("select k, s, r from g order by k");
    let rows = rows.iter().map(|row| {
        let number = |at: usize| row[at].parse::<i64>().unwrap();
        (number(0), (number(1), number(2)))
    });
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), parts);
}

#[test]
fn a_truncate_a_drop_and_other_changes_beside_it_are_not_lost() {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run("create table t (id int primary key, v varchar(20))");
    let is_over = Arc::new(AtomicBool::new(false));
    let (mut altering, over) = (server.database("d"), Arc::clone(&is_over));
    let altering = thread::spawn(move || {
        let mut changes = 0;
        while !over.load(Ordering::Acquire) {
            for sql in ["alter table t modify v int", "alter table t modify v varchar(20)"] {
                match tried(&mut altering, sql) {
                    Ok(_) => changes += 1,
                    Err(error) => assert!([1146, 1213].contains(&error.errno), "{error:?}"),
                }
            }
        }
        changes
    });
    for turn in 0..30 {
        one.run("insert into t values (1, '1'), (2, '2')");
        match turn % 3 {
            0 => one.run("truncate table t"),
            1 => one.run("delete from t"),
            _ => {
                one.run("drop table t");
                one.run("create table t (id int primary key, v varchar(20))")
            }
        };
        assert_eq!(one.one("select count(*) from t"), "0", "turn {turn}");
        one.run(&format!("alter table t add column c{turn} int default {turn}"));
        one.run("create index by_v on t (v)");
        assert_eq!(one.texts(&format!("select c{turn} from t")), Vec::<Vec<String>>::new());
        one.run("drop index by_v on t");
        one.run(&format!("alter table t drop column c{turn}"));
    }
    is_over.store(true, Ordering::Release);
    assert!(altering.join().unwrap() > 0);
}

#[test]
fn it_waits_for_transactions_and_is_shown_and_cancelled_meanwhile() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let mut two = server.database("d");
    one.run("create table t (id int primary key, v varchar(20))");
    one.run("insert into t values (1, '1')");
    let altering = |sql: &'static str| {
        let mut three = server.database("d");
        thread::spawn(move || tried(&mut three, sql))
    };
    one.run("begin");
    one.run("insert into t values (2, '2')");
    let waiting = altering("alter table t modify v int");
    let began = Instant::now();
    let shown = "show alter table column";
    let state = |client: &mut Client| {
        client.texts(shown).last().map(|row| row[9].clone()).unwrap_or_default()
    };
    while state(&mut two) != "WAITING_TXN" {
        assert!(began.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(10));
    }
    // Others write meanwhile, and so does who is waited for.
    two.run("insert into t values (3, '3')");
    one.run("insert into t values (4, '4')");
    one.run("commit");
    waiting.join().unwrap().unwrap();
    assert_eq!(state(&mut two), "FINISHED");
    assert_eq!(two.one("select sum(v) from t"), "10");
    one.run("begin");
    one.run("delete from t where id = 4");
    let waiting = altering("alter table t modify v smallint");
    while state(&mut two) != "WAITING_TXN" {
        assert!(began.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(10));
    }
    two.run("cancel alter table column from t");
    assert_eq!(waiting.join().unwrap().unwrap_err().errno, 1317);
    assert_eq!(state(&mut two), "CANCELLED");
    one.run("rollback");
    assert_eq!(two.texts("show columns from t")[1][1], "int");
    assert_eq!(two.fails("cancel alter table column from t").errno, 1105);
}

#[test]
fn what_belongs_to_the_table_stays() {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run(
        "create table t (id int auto_increment primary key, u int unique, v varchar(20) \
         comment 'text', check (u > 0)) comment 'about'",
    );
    one.run("insert into t (u, v) values (1, '1'), (2, '2'), (3, '3')");
    one.run("delete from t where u = 3");
    one.run("create user reader");
    one.run("grant select on d.t to reader");
    one.run("create row policy p on d.t as restrictive to reader using (id = 1)");
    one.run("alter table t modify v int not null comment 'number'");
    one.run("insert into t (u, v) values (3, 4)");
    assert_eq!(one.one("select max(id) from t"), "4");
    assert_eq!(one.fails("insert into t (u, v) values (2, 4)").errno, 1062);
    assert_eq!(one.fails("insert into t (u, v) values (0, 4)").errno, 3819);
    let shown = one.texts("show create table t")[0][1].clone();
    for part in ["COMMENT='about'", "COMMENT 'number'", "UNIQUE KEY `u` (`u`)", "CHECK ((u > 0))"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(one.texts("show grants for reader").len(), 2);
    assert_eq!(one.texts("show row policy for reader").len(), 1);
    // A column that a policy names keeps its name.
    assert_eq!(one.fails("alter table t change id w smallint unsigned").errno, 1105);
}

/// The answer to a request of root.
pub fn put(server: &TestServer, path: &str, headers: &[&str], body: &str) -> String {
    let mut socket = TcpStream::connect(server.http_address()).unwrap();
    let length = format!("Content-Length: {}", body.len());
    let own = ["Host: x", "Authorization: Basic cm9vdDo=", "Connection: close", length.as_str()];
    let head = [&own, headers].concat().join("\r\n");
    write!(socket, "PUT {path} HTTP/1.1\r\n{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_waits_for_a_load_that_is_prepared() {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run("create table t (id int primary key, v varchar(20))");
    let headers = ["two_phase_commit: true", "column_separator: ,"];
    let prepared = put(&server, "/api/d/t/_stream_load", &headers, "1,10\n2,20\n");
    let txn = prepared.split("\"TxnId\":").nth(1).unwrap_or_else(|| panic!("{prepared}"));
    let txn = txn.trim_start().chars().take_while(char::is_ascii_digit).collect::<String>();
    let mut two = server.database("d");
    let altering = thread::spawn(move || tried(&mut two, "alter table t modify v int"));
    let began = Instant::now();
    while one.texts("show alter table column").last().is_none_or(|row| row[9] != "WAITING_TXN") {
        assert!(began.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(10));
    }
    one.run("insert into t values (3, '30')");
    let id = format!("txn_id: {txn}");
    let end = ["txn_operation: commit", id.as_str()];
    let committed = put(&server, "/api/d/_stream_load_2pc", &end, "");
    assert!(committed.contains("commit successfully"), "{committed}");
    altering.join().unwrap().unwrap();
    assert_eq!(one.one("select sum(v) from t"), "60");
}

/// Prepares a load of `d.t`; the header that names it.
fn prepared(server: &TestServer, body: &str) -> String {
    let headers = ["two_phase_commit: true", "column_separator: ,"];
    let reply = put(server, "/api/d/t/_stream_load", &headers, body);
    let txn = reply.split("\"TxnId\":").nth(1).unwrap_or_else(|| panic!("{reply}"));
    let digits = txn.trim_start().chars().take_while(char::is_ascii_digit);
    format!("txn_id: {}", digits.collect::<String>())
}

fn committed(server: &TestServer, id: &str) -> String {
    put(server, "/api/d/_stream_load_2pc", &["txn_operation: commit", id], "")
}

#[test]
fn what_is_prepared_before_other_columns_and_partitions_is_committed_behind_them() {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run(
        "create table t (id int, v varchar(20)) duplicate key (id) partition by range (id) \
         (partition p values less than (10), partition q values less than (20)) \
         distributed by hash (id) buckets 2",
    );
    let first = prepared(&server, "1,a\n15,b\n");
    let lost = prepared(&server, "16,c\n");
    one.run("alter table t add column w int default '7'");
    one.run("insert into t values (2, 'd', 8)");
    let told = committed(&server, &first);
    assert!(told.contains("commit successfully"), "{told}");
    let rows = one.texts("select id, v, w from t order by id");
    assert_eq!(rows, [["1", "a", "7"], ["2", "d", "8"], ["15", "b", "7"]]);
    one.run("alter table t drop partition q");
    let told = committed(&server, &lost);
    assert!(told.contains("is aborted") && told.contains("no partition"), "{told}");
    assert!(committed(&server, &lost).contains("already aborted"));
    assert_eq!(one.one("select count(*) from t"), "2");
}

#[test]
fn the_place_of_a_prepared_load_among_rows_of_its_key_is_its_commit() {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run("create table t (id int, v varchar(20)) unique key (id)");
    let early = prepared(&server, "1,early\n");
    let late = prepared(&server, "1,late\n1,last\n");
    one.run("insert into t values (1, 'between')");
    assert!(committed(&server, &late).contains("commit successfully"));
    assert_eq!(one.one("select v from t"), "last");
    assert!(committed(&server, &early).contains("commit successfully"));
    assert_eq!(one.texts("select id, v from t"), [["1", "early"]]);
}

#[test]
fn a_row_that_no_new_partition_takes_ends_a_division_and_the_table_stays() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let mut two = server.database("d");
    one.run("create table t (id int primary key, v int)");
    one.run("insert into t values (1, 1), (2, 2)");
    two.run("begin");
    two.run("insert into t values (3, 3)");
    let by_range = "alter table t partition by range (id) (partition p values less than (3))";
    let mut three = server.database("d");
    let dividing = thread::spawn(move || tried(&mut three, by_range));
    let began = Instant::now();
    while one.texts("show alter table column").last().is_none_or(|row| row[9] != "WAITING_TXN") {
        assert!(began.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(10));
    }
    // A row that comes while it waits is one of the table, and fits no partition.
    two.run("commit");
    assert_eq!(dividing.join().unwrap().unwrap_err().errno, 1526);
    assert_eq!(one.one("select count(*) from t"), "3");
    one.run("insert into t values (9, 9)");
    one.run("delete from t where id > 2");
    one.run(by_range);
    assert_eq!(one.one("select count(*) from t partition (p)"), "2");
    assert_eq!(one.fails("insert into t values (9, 9)").errno, 1526);
}
