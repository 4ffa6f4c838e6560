//! INSERT OVERWRITE beside readers and writers (RFC 0049).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use freshet_base::ByteSize;

use crate::common::{Client, TestServer, failure};

const ROWS: u64 = 40;
const TURNS: u64 = 25;

/// A row that a writer has inserted, the turn of which the answer was there before it began, and
/// the turn that had begun when it was acknowledged.
struct Inserted {
    row: u64,
    after: u64,
    before: u64,
}

#[derive(Default)]
struct Turns {
    begun: AtomicU64,
    done: AtomicU64,
    is_over: AtomicBool,
}

fn insert(mut client: Client, table: &str, writer: u64, turns: &Turns) -> Vec<Inserted> {
    let mut rows = Vec::new();
    for at in 0.. {
        if turns.is_over.load(Ordering::Acquire) {
            break;
        }
        let (row, after) = (writer * 1_000_000 + at, turns.done.load(Ordering::Acquire));
        match at % 3 {
            0 => {
                client.run("begin");
                client.run(&format!("insert into {table} values (-1, {row})"));
                client.run("commit");
            }
            _ => {
                client.run(&format!("insert into {table} values (-1, {row})"));
            }
        }
        rows.push(Inserted { row, after, before: turns.begun.load(Ordering::Acquire) });
    }
    rows
}

/// Reads the rows of one turn, which are all there, until it is over; returns how often.
fn read(mut client: Client, place: &str, turns: &Arc<Turns>) -> thread::JoinHandle<u64> {
    let of = |from: &str| {
        format!("select count(*), count(distinct w), count(distinct n) from {from} where w > 0")
    };
    let (sqls, turns) = ([of("t"), of(&format!("t {place}"))], Arc::clone(turns));
    thread::spawn(move || {
        let mut looks = 0;
        while !turns.is_over.load(Ordering::Acquire) {
            for sql in &sqls {
                let all = [[ROWS.to_string(), "1".to_owned(), ROWS.to_string()]];
                assert_eq!(client.texts(sql), all, "{sql}");
            }
            looks += 1;
        }
        looks
    })
}

/// Overwrites a table beside others, who see all rows of one turn and none of another.
fn overwrite_beside_others(create: &str, place: &str, goes: bool) {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run(&format!("create table t (w int not null, n bigint not null) {create}"));
    one.run("create table s (n bigint)");
    let rows = (0..ROWS).map(|n| format!("({n})")).collect::<Vec<_>>().join(", ");
    one.run(&format!("insert into s values {rows}"));
    one.run(&format!("insert overwrite table t {place} select 1, n from s"));
    let turns = Arc::new(Turns::default());
    let writers = (1..3).map(|writer| {
        let (client, turns) = (server.database("d"), Arc::clone(&turns));
        thread::spawn(move || insert(client, "t", writer, &turns))
    });
    let writers = writers.collect::<Vec<_>>();
    let reader = read(server.database("d"), place, &turns);
    for turn in 2..TURNS {
        turns.begun.store(turn, Ordering::Release);
        one.run(&format!("insert overwrite table t {place} select {turn}, n from s"));
        turns.done.store(turn, Ordering::Release);
        assert_eq!(one.one("select max(w) from t"), turn.to_string());
        thread::sleep(Duration::from_millis(5));
    }
    turns.is_over.store(true, Ordering::Release);
    assert!(reader.join().unwrap() > 0);
    let inserted = writers.into_iter().flat_map(|one| one.join().unwrap()).collect::<Vec<_>>();
    let there = one.texts("select n from t where w = -1").concat();
    let there = there.iter().map(|n| n.parse().unwrap()).collect::<BTreeSet<u64>>();
    let (mut stayed, mut gone) = (0, 0);
    for Inserted { row, after, before } in inserted {
        if !goes || after == TURNS - 1 {
            assert!(there.contains(&row), "{row}, acknowledged behind turn {after}, is gone");
            stayed += 1;
        } else if before < TURNS - 1 {
            assert!(!there.contains(&row), "{row}, of before turn {before}, is there");
            gone += 1;
        }
    }
    assert!(stayed + gone > 0);
    assert_eq!(gone > 0, goes);
    assert_eq!(one.texts("show tables"), [["s"], ["t"]]);
}

#[test]
fn a_table_is_overwritten_as_a_whole() {
    overwrite_beside_others("duplicate key(w) distributed by hash(n) buckets 2", "", true);
}

#[test]
fn a_keyed_table_is_overwritten_as_a_whole() {
    overwrite_beside_others("unique key(w, n) distributed by hash(n) buckets 2", "", true);
}

#[test]
fn a_partition_is_overwritten_and_others_stay() {
    let divided = "unique key(w, n) partition by range (w) (partition a values less than (0), \
                   partition b values less than maxvalue) distributed by hash(n) buckets 2";
    overwrite_beside_others(divided, "partition (b)", false);
}

#[test]
fn a_partition_is_there_while_temporary_ones_take_its_place() {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run(
        "create table t (w int not null, n bigint not null) duplicate key(w) partition by \
         range (w) (partition a values less than (0), partition b values less than (1000)) \
         distributed by hash(n) buckets 2",
    );
    let rows = |turn: u64| {
        let rows = (0..ROWS).map(|n| format!("({turn}, {n})")).collect::<Vec<_>>();
        rows.join(", ")
    };
    one.run(&format!("insert into t values {}", rows(1)));
    let turns = Arc::new(Turns::default());
    let reader = read(server.database("d"), "partition (b)", &turns);
    for turn in 2..TURNS {
        one.run("alter table t add temporary partition c values [(0), (1000))");
        one.run(&format!("insert into t temporary partition (c) values {}", rows(turn)));
        one.run("alter table t replace partition (b) with temporary partition (c)");
        assert_eq!(one.one("select max(w) from t partition (b)"), turn.to_string());
    }
    turns.is_over.store(true, Ordering::Release);
    assert!(reader.join().unwrap() > 0);
}

/// A large load writes its files to the tablets that a TRUNCATE has made, which a snapshot from
/// before does not know: it has ended by then, or reads nothing of the load.
#[test]
fn a_partition_has_the_rows_of_its_table_beside_truncates_and_large_loads() {
    let server = TestServer::sized(|config| config.wal_load_bytes_max = ByteSize::kib(64));
    let mut one = server.database("d");
    one.run(
        "create table t (w int not null, n bigint not null) duplicate key(w) partition by \
         range (w) (partition a values less than (0), partition b values less than (1000)) \
         distributed by hash(n) buckets 2",
    );
    one.run("create table s (n bigint)");
    one.run("insert into s values (1), (2), (3), (4), (5), (6), (7), (8)");
    (0..11).for_each(|_| drop(one.run("insert into s select n + 8 from s")));
    let is_over = Arc::new(AtomicBool::new(false));
    let readers = (0..2).map(|_| {
        let (mut client, is_over) = (server.database("d"), Arc::clone(&is_over));
        thread::spawn(move || {
            let (mut looks, mut sizes) = (0, BTreeSet::new());
            while !is_over.load(Ordering::Acquire) {
                let both = "select (select count(*) from t), \
                            (select count(*) from t partition (b))";
                let counts = client.texts(both).concat();
                assert_eq!(counts[0], counts[1], "rows of the table, and of its only partition");
                sizes.insert(counts[0].clone());
                looks += 1;
            }
            (looks, sizes)
        })
    });
    let readers = readers.collect::<Vec<_>>();
    for _ in 0..TURNS {
        one.run("truncate table t");
        one.run("insert into t select 1, n from s");
    }
    is_over.store(true, Ordering::Release);
    for reader in readers {
        let (looks, sizes) = reader.join().unwrap();
        assert!(looks > 0 && sizes.iter().all(|size| ["0", "16384"].contains(&size.as_str())));
    }
}

#[test]
fn it_ends_with_its_transaction_in_the_way() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.database("d"), server.database("d"));
    one.run("create table t (id int primary key)");
    one.run("insert into t values (1)");
    one.run("begin");
    one.run("insert into t values (2)");
    assert_eq!(failure(one.query("insert overwrite table t values (3)")).unwrap().errno, 1235);
    two.run("set insert_timeout = 1");
    let refused = failure(two.query("insert overwrite table t values (4)")).unwrap();
    assert_eq!(refused.errno, 3024, "{refused:?}");
    one.run("commit");
    assert_eq!(two.texts("select id from t order by id"), [["1"], ["2"]]);
    two.run("set insert_timeout = 60");
    two.run("insert overwrite table t values (4)");
    assert_eq!(one.texts("select id from t"), [["4"]]);
}

#[test]
fn its_label_is_that_of_its_record() {
    let server = TestServer::start();
    let mut one = server.database("d");
    one.run(
        "create table t (k int not null) duplicate key(k) partition by range (k) \
         (partition a values less than (10), partition b values less than (20)) \
         distributed by hash(k) buckets 1",
    );
    one.run("insert into t values (1), (11)");
    let heads = [("whole", "t"), ("part", "t partition (b)")];
    for (label, into) in heads {
        let sql = format!("insert overwrite table {into} with label {label} select 15");
        let (affected, info) = one.run(&sql);
        assert_eq!(affected, 1);
        let told = format!("{{'label':'{label}', 'status':'VISIBLE', 'txnId':'");
        let txn = info.strip_prefix(&told).and_then(|rest| rest.strip_suffix("'}"));
        let txn = txn.unwrap_or_else(|| panic!("{info}")).to_owned();
        let last = &one.texts("show last insert")[0];
        let named = [&txn, label, "d", "t", "VISIBLE", "1", "0"].map(str::to_owned);
        assert_eq!(*last, named);
        let known = one.texts(&format!("show transaction where id = {txn}"));
        assert_eq!(
            (known.len(), known[0][1].as_str(), known[0][3].as_str()),
            (1, label, "VISIBLE")
        );
        let load = one.texts(&format!("show load where label = '{label}'"));
        assert_eq!(load[0][15], txn);
        assert!(load[0][14].contains("\"ScannedRows\":1"), "{load:?}");
    }
    // Behind the first start it is known by the log, behind the second by metadata.
    let mut server = server;
    for start in 0..3 {
        for (label, into) in heads {
            let sql = format!("insert overwrite table {into} with label {label} values (16)");
            let refused = one.fails(&sql).message;
            assert!(refused.contains("has already been used"), "start {start}: {refused}");
        }
        assert_eq!(one.texts("select k from t"), [["15"]], "start {start}");
        one.run("flush tables");
        drop(one);
        server = server.restart();
        one = server.connect();
        one.run("use d");
    }
}
