//! Transactions of more rows than memory holds: their rows go to files, and are committed or gone
//! as a whole (RFC 0042).

use freshet_base::ByteSize;

use super::common::{Client, TestServer};

const ROWS_AT_ONCE: usize = 500;

/// A transaction holds 256 KiB, and a record of the log 64 KiB.
fn small() -> TestServer {
    TestServer::sized(|config| {
        config.write_memory_bytes = ByteSize::mib(32);
        config.transaction_bytes_max = ByteSize::kib(256);
        config.wal_load_bytes_max = ByteSize::kib(64);
    })
}

/// Inserts rows `(id, v, 300 bytes)` with these ids.
fn fill(client: &mut Client, table: &str, ids: std::ops::Range<usize>, v: usize) {
    let pad = "x".repeat(300);
    for first in ids.clone().step_by(ROWS_AT_ONCE) {
        let last = ids.end.min(first + ROWS_AT_ONCE);
        let row = |id: usize| format!("({id},{v},'{pad}')");
        let rows = (first..last).map(row).collect::<Vec<_>>().join(",");
        client.run(&format!("insert into {table} values {rows}"));
    }
}

fn tables(client: &mut Client) {
    for (table, key) in [("t", "duplicate"), ("u", "unique")] {
        client.run(&format!(
            "create table {table} (id int, v int, pad varchar(300)) {key} key(id) distributed by \
             hash(id) buckets 2"
        ));
    }
}

#[test]
fn rows_that_are_locked_are_more_than_a_record_takes() {
    let server = small();
    let (mut one, mut other) = (server.database("d"), server.database("d"));
    tables(&mut one);
    fill(&mut one, "u", 0..500, 0);
    one.run("begin");
    // 150 KB, of which nothing enters the record of the COMMIT.
    assert_eq!(one.texts("select id from u for update").len(), 500);
    one.run("update u set v = 1 where id < 50");
    other.run("begin");
    assert_eq!(other.fails("select id from u where id = 400 for update nowait").errno, 3572);
    one.run("commit");
    assert_eq!(one.one("select count(*) from u where v = 1"), "50");
    assert_eq!(other.texts("select id from u where id = 400 for update nowait"), [["400"]]);
}

#[test]
fn rows_of_several_tables_are_there_at_once() {
    let server = small();
    let (mut one, mut other) = (server.database("d"), server.database("d"));
    tables(&mut one);
    one.run("begin");
    for v in 0..3 {
        fill(&mut one, "u", 0..4000, v);
        fill(&mut one, "t", v * 4000..(v + 1) * 4000, v);
    }
    // Twenty times of what it may have, and the buffers of connections.
    let used = server.engine.memory().used_bytes();
    assert!(used < 2 << 20, "{used} bytes of memory");
    assert_eq!(other.one("select count(*) from t"), "0");
    for refused in ["select count(*) from t", "update t set v = 1", "delete from t where id = 1"] {
        let failure = one.fails(refused);
        assert_eq!(failure.errno, 1235, "{refused}: {}", failure.message);
        assert!(failure.message.contains("transaction_bytes_max"), "{}", failure.message);
    }
    one.run("commit");
    let of_all = |table: &str| format!("select count(*), sum(v), max(id) from {table}");
    assert_eq!(other.texts(&of_all("t")), [["12000", "12000", "11999"]]);
    // The last row of each key.
    assert_eq!(other.texts(&of_all("u")), [["4000", "8000", "3999"]]);
    let used = server.engine.memory().used_bytes();
    assert!(used < 1 << 20, "all of it is given back: {used}");
    let server = server.restart();
    let mut other = server.database("d");
    assert_eq!(other.texts(&of_all("t")), [["12000", "12000", "11999"]]);
    assert_eq!(other.texts(&of_all("u")), [["4000", "8000", "3999"]]);
}

#[test]
fn the_files_of_a_transaction_have_a_limit() {
    let server = TestServer::sized(|config| {
        config.write_memory_bytes = ByteSize::mib(32);
        config.transaction_bytes_max = ByteSize::kib(256);
        config.transaction_file_bytes_max = ByteSize::mib(1);
    });
    let mut client = server.database("d");
    tables(&mut client);
    client.run("begin");
    fill(&mut client, "t", 0..2000, 1);
    let pad = "x".repeat(300);
    let row = |id: usize| format!("({id},1,'{pad}')");
    let rows = (2000..5000).map(row).collect::<Vec<_>>().join(",");
    // In one statement, of any of its tables.
    for table in ["t", "u"] {
        let failure = client.fails(&format!("insert into {table} values {rows}"));
        assert_eq!(failure.errno, 1041, "{table}: {}", failure.message);
        let names = ["transaction_file_bytes_max", "COMMIT"];
        assert!(names.iter().all(|name| failure.message.contains(name)), "{}", failure.message);
    }
    fill(&mut client, "t", 2000..2200, 1);
    client.run("commit");
    assert_eq!(client.texts("select count(*), max(id) from t"), [["2200", "2199"]]);
    assert_eq!(client.one("select count(*) from u"), "0");
    // What has ended holds no file.
    client.run("begin");
    fill(&mut client, "u", 0..2000, 1);
    client.run("commit");
    assert_eq!(client.one("select count(*) from u"), "2000");
}

#[test]
fn what_is_rolled_back_is_gone() {
    let server = small();
    let mut client = server.database("d");
    tables(&mut client);
    client.run("begin");
    fill(&mut client, "t", 0..9000, 1);
    client.run("rollback");
    assert_eq!(client.one("select count(*) from t"), "0");
    // Savepoints: in memory, in the middle of what is in the file by now, and at its end.
    client.run("begin");
    fill(&mut client, "t", 0..300, 1);
    client.run("savepoint a");
    fill(&mut client, "t", 1000..3700, 1);
    client.run("savepoint b");
    fill(&mut client, "t", 5000..9000, 1);
    client.run("rollback to savepoint b");
    fill(&mut client, "t", 20_000..24_000, 1);
    client.run("rollback to savepoint a");
    fill(&mut client, "t", 30_000..33_000, 1);
    client.run("commit");
    let seen = "select count(*), count(distinct id), min(id), max(id) from t";
    assert_eq!(client.texts(seen), [["3300", "3300", "0", "32999"]]);
    assert_eq!(client.one("select count(*) from t where id between 300 and 29999"), "0");
}

#[test]
fn a_statement_that_fails_leaves_none_of_its_rows() {
    let server = small();
    let mut client = server.database("d");
    tables(&mut client);
    fill(&mut client, "u", 0..6000, 5);
    client.run("flush tables u");
    client.run("begin");
    fill(&mut client, "t", 0..100, 1);
    // More than the transaction holds by itself; one of the last rows has no INT.
    let failing = "insert into t select id + 100000, if(id = 5990, 'x', v), pad from u order by id";
    client.fails(failing);
    client.run("insert into t select id + 1000, v, pad from u");
    client.fails(failing);
    fill(&mut client, "t", 100..200, 1);
    client.run("commit");
    let seen = "select count(*), count(distinct id), max(id), sum(v) from t";
    assert_eq!(client.texts(seen), [["6200", "6200", "6999", "30200"]]);
}

#[test]
fn others_truncate_and_alter_meanwhile() {
    let server = small();
    let (mut one, mut other) = (server.database("d"), server.database("d"));
    tables(&mut one);
    one.run("begin");
    fill(&mut one, "t", 0..3000, 1);
    other.run("alter table t add column w int default '7' after v");
    let pad = "x".repeat(300);
    for id in 3000..5000 {
        one.run(&format!("insert into t values ({id}, 1, 8, '{pad}')"));
    }
    one.run("commit");
    let seen = "select count(*), sum(w), sum(length(pad)) from t";
    assert_eq!(other.texts(seen), [["5000", "37000", "1500000"]]);
    one.run("begin");
    fill(&mut one, "u", 0..3000, 1);
    other.run("truncate table u");
    one.fails("commit");
    assert_eq!(other.one("select count(*) from u"), "0");
}
