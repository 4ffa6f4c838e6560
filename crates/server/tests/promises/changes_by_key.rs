//! UPDATE and DELETE by key do what the ordinary road does, and answer with the same bytes.

use std::thread;
use std::time::Duration;

use freshet_base::ByteSize;
use freshet_wire::Param;
use freshet_wire::client::Encoding;

use super::points::{packets, text};
use crate::common::{Client, TestServer};

fn count(server: &TestServer) -> u64 {
    server.engine.metrics().point_changes.get()
}

/// The text as the ordinary road carries it out: a comment is not for changes by key.
fn ordinary(sql: &str) -> String {
    let at = "update".len();
    format!("{} /* */{}", &sql[..at], &sql[at..])
}

/// Two databases with the same table, of which one is changed by key and the other is not.
struct Pair {
    server: TestServer,
    fast: Client,
    slow: Client,
}

impl Pair {
    fn new() -> Self {
        let server = TestServer::start();
        let (fast, slow) = (server.database("d"), server.database("e"));
        Self { server, fast, slow }
    }

    fn both(&mut self, sql: &str) {
        self.fast.run(sql);
        self.slow.run(sql);
    }

    /// Checks that a text does the same on both roads, and goes by key if it should.
    #[track_caller]
    fn alike(&mut self, sql: &str, by_key: bool) {
        let before = count(&self.server);
        let expected = text(&mut self.slow, &ordinary(sql));
        assert_eq!(count(&self.server), before, "{sql}");
        let got = text(&mut self.fast, sql);
        assert_eq!(got, expected, "{sql}: {}", String::from_utf8_lossy(&got.concat()));
        assert_eq!(count(&self.server) - before, u64::from(by_key), "{sql}");
        for sql in ["show warnings", "select * from t order by id", "select row_count()"] {
            assert_eq!(self.fast.texts(sql), self.slow.texts(sql), "{sql}");
        }
    }
}

const TYPES: &str = "create table t (id int not null, b bigint unsigned, v varchar(20), c char(9), \
    d decimal(12,3), g double, dt datetime(3), da date, bi varbinary(9), tx text, js json, \
    ti tinyint not null default 3, mi mediumint, e enum('x', 'y'), y year, ts timestamp null, \
    gen int generated always as (ti + 1) stored, check (mi < 1000), primary key (id), key (ti))";

#[test]
fn both_roads_do_the_same() {
    let mut pair = Pair::new();
    pair.both(TYPES);
    let statements = [
        ("update t set v = 'new' where id = 1", true),
        ("update t set v = 'new' where id = 1", true),
        ("update t set b = b + 1, v = '7' where id = '1'", true),
        ("UPDATE d.t SET V='', C='c  ', bi='xy' WHERE ID = 2;", true),
        ("update t set ti = ti - 1 where id = 2", true),
        ("update t set ti = ti - 127, mi = mi+1 where id = 2", true),
        ("update t set ti = 1000 where id = 2", true),
        ("update t set ti = 'x' where id = 2", true),
        ("update t set ti = '12' where id = 2", true),
        ("update t set mi = 5000 where id = 2", true),
        ("update t set mi = mi + 5 where id = 3", true),
        ("update t set v = 'a text that is too long for it' where id = 3", true),
        (
            "update t set d = '1.23456', g = '1e10', dt = '2024-01-02 03:04:05.6789' where id = 3",
            true,
        ),
        ("update t set d = 7, g = -3, dt = 20240102, da = '2024-02-30' where id = 3", true),
        ("update t set d = 7, g = -3, y = 1999, e = 'y', js = '{\"a\": 1}' where id = 3", true),
        ("update t set e = 'z' where id = 3", true),
        ("update t set js = '{' where id = 3", true),
        ("update t set e = 1, ts = '2024-01-02 00:00:00' where id = 4", true),
        ("update t set v = 5, tx = 77 where id = 4", true),
        ("update t set v = 'x' where id = 99", true),
        ("update t set b = b - 1 where id = 5", false),
        ("update t set b = b + 1 where id = 6", false),
        ("update t set gen = 5 where id = 1", false),
        ("update t set id = 8 where id = 1", false),
        ("update t set ti = 4, mi = ti + 1 where id = 1", false),
        ("update t set mi = ti + 1, ti = 4 where id = 1", true),
        ("update t set ti = null where id = 1", false),
        ("update t set ti = default where id = 1", false),
        ("update t set v = concat(v, 'x') where id = 1", false),
        ("update t set v = 'x' where id = 1 and ti = 4", false),
        ("update t set v = 'x' where ti = 4", false),
        ("update t set v = 'y' where id = 1.0", false),
        ("update t set nothing = 1 where id = 1", false),
        ("update t set v = 'x' where id in (1, 2)", false),
        ("delete from t where id = 2", true),
        ("delete from t where id = 2", true),
        ("DELETE FROM t WHERE id=3 ; ", true),
        ("delete from t where v = 'x'", false),
    ];
    for mode in ["strict_trans_tables", ""] {
        pair.both(&format!("set sql_mode = '{mode}'"));
        for is_flushed in [false, true] {
            pair.both(
                "replace into t (id, b, v, ti, mi) values (1, 1, 'a', 1, 1), (2, 2, 'b', 2, 2), \
                 (3, 3, 'c', 3, null), (4, 4, 'd', 4, 4), (5, 0, 'e', 5, 5), \
                 (6, 18446744073709551615, 'f', 6, 6)",
            );
            if is_flushed {
                pair.both("flush tables");
            }
            for (sql, by_key) in statements {
                let sql = sql.replace("d.t", "t");
                pair.alike(&sql, by_key);
            }
        }
    }
}

#[test]
fn prepared_changes_do_the_same() {
    let mut pair = Pair::new();
    pair.both(TYPES);
    pair.both("insert into t (id, ti, mi, v) values (1, 1, 1, 'a'), (2, 2, 2, 'b')");
    let sql = "update t set v = ?, mi = mi + ?, g = ?, ti = ? where id = ?";
    let fast = pair.fast.prepare(sql).unwrap().statement_id;
    let slow = pair.slow.prepare(&ordinary(sql)).unwrap().statement_id;
    let (text, id) = (Param::Bytes(b"text"), Param::Int(1));
    let rows = [
        ([text, Param::Int(1), Param::Double(1.5), Param::Int(5), id], true),
        (
            [Param::Int(7), Param::Int(-1), Param::Null, Param::Bytes(b"6"), Param::Bytes(b"2")],
            true,
        ),
        ([text, Param::Int(1), Param::Double(1e300), Param::Int(500), id], true),
        ([text, Param::Int(1), Param::Int(1), Param::Null, id], true),
        ([text, Param::Decimal(b"1"), Param::Int(2), Param::Int(6), Param::Decimal(b"1")], true),
        ([Param::Decimal(b"1.50"), Param::Int(1), Param::Int(1), Param::Int(5), id], false),
        ([text, Param::Int(1), Param::Decimal(b"1.25"), Param::Int(5), id], false),
        ([text, Param::Int(1), Param::Int(1), Param::Int(5), Param::Decimal(b"1.5")], false),
        ([text, Param::Int(i64::MAX), Param::Int(1), Param::Int(5), id], false),
        ([text, Param::Double(1.0), Param::Int(1), Param::Int(5), id], false),
        ([text, Param::Null, Param::Int(1), Param::Int(5), id], false),
        ([Param::Bytes(b"\xff"), Param::Int(1), Param::Int(1), Param::Int(5), id], false),
    ];
    for (params, by_key) in rows {
        let before = count(&pair.server);
        pair.slow.writer.command_execute(slow, &params, true);
        let expected = packets(&mut pair.slow, Encoding::Binary);
        pair.fast.writer.command_execute(fast, &params, true);
        assert_eq!(packets(&mut pair.fast, Encoding::Binary), expected, "{params:?}");
        assert_eq!(count(&pair.server) - before, u64::from(by_key), "{params:?}");
        let all = "select * from t order by id";
        assert_eq!(pair.fast.texts(all), pair.slow.texts(all), "{params:?}");
    }
}

#[test]
fn a_prepared_change_is_of_a_table_a_user_and_a_time() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table t (id int primary key, n int, v varchar(9) default 'v')");
    root.run("insert into t (id, n) values (1, 1), (2, 2)");
    let sql = "update t set n = n + ? where id = ?";
    root.run("create user u");
    root.run("grant select, update on d.t to u");
    let mut other = Client::connect(server.address, "u", "", None).unwrap();
    other.run("use d");
    let (own, of_other) = (root.prepare(sql).unwrap(), other.prepare(sql).unwrap());
    let named = root.prepare("update t set v = 'w' where id = ?").unwrap().statement_id;
    let (own, of_other) = (own.statement_id, of_other.statement_id);
    let add = |client: &mut Client, statement, by: i64| {
        client.writer.command_execute(statement, &[Param::Int(by), Param::Int(1)], true);
        let answer = packets(client, Encoding::Binary).concat();
        assert_eq!(answer[0], 0, "{}", String::from_utf8_lossy(&answer));
    };
    for by in 1..=3 {
        add(&mut root, own, by);
        add(&mut other, of_other, by);
    }
    assert_eq!((root.one("select n from t where id = 1"), count(&server)), ("13".into(), 6));
    // What was kept is of the table before.
    root.run("alter table t drop column n");
    root.run("alter table t add column n bigint");
    root.run("update t set n = 40 where id = 1");
    add(&mut root, own, 1);
    add(&mut other, of_other, 1);
    assert_eq!(root.one("select n from t where id = 1"), "42");
    root.run("revoke update on d.t from u");
    other.writer.command_execute(of_other, &[Param::Int(1), Param::Int(1)], true);
    let refused = packets(&mut other, Encoding::Binary).concat();
    assert_eq!((refused[0], u16::from_le_bytes([refused[1], refused[2]])), (0xff, 1142));
    // The table of its name in another database is another one, and so is a temporary one.
    root.run("create database e");
    root.run("create table e.t (id int primary key, n int)");
    root.run("insert into e.t values (1, 1)");
    root.run("use e");
    add(&mut root, own, 1);
    assert_eq!(root.one("select n from e.t"), "1");
    assert_eq!(root.one("select max(n) from d.t"), "43");
    root.run("use d");
    root.run("create temporary table t (id int primary key, n int, v varchar(9))");
    add(&mut root, own, 1);
    root.run("drop temporary table t");
    assert_eq!(root.one("select max(n) from t"), "43");
    // A text that has values itself is read each time.
    let before = count(&server);
    for id in [1, 1, 2] {
        root.writer.command_execute(named, &[Param::Int(id)], true);
        packets(&mut root, Encoding::Binary);
    }
    assert_eq!(root.one("select count(*) from t where v = 'w'"), "2");
    assert_eq!(count(&server), before + 3);
}

#[test]
fn a_plan_is_of_a_table_a_user_and_a_time() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run(
        "create table t (id int primary key, n int, v varchar(9), \
         at timestamp null on update now())",
    );
    root.run("insert into t (id, n, v) values (1, 1, 'a'), (2, 2, 'b')");
    let sql = "update t set n = n + 1 where id = 1";
    root.run(sql);
    assert_eq!(root.one("select at is not null from t where id = 1"), "1");
    root.run("alter table t modify n varchar(9)");
    let before = count(&server);
    root.run(sql);
    assert_eq!(count(&server), before);
    assert_eq!(root.one("select n from t where id = 1"), "3");
    root.run("alter table t modify n int, rename column v to w");
    root.run(sql);
    assert_eq!(count(&server), before + 1);
    assert_eq!(root.fails("update t set v = 'x' where id = 1").errno, 1054);
    root.run("create user u");
    root.run("grant select, update (w) on d.t to u");
    let mut other = Client::connect(server.address, "u", "", None).unwrap();
    other.run("use d");
    other.run("update t set w = 'x' where id = 1");
    assert_eq!(count(&server), before + 2);
    assert_eq!(other.fails(sql).errno, 1143);
    assert_eq!(other.fails("delete from t where id = 1").errno, 1142);
    root.run("revoke update (w) on d.t from u");
    assert_eq!(other.fails("update t set w = 'y' where id = 1").errno, 1142);
    root.run("drop table t");
    assert_eq!(root.fails(sql).errno, 1146);
    root.run("create table t (id int primary key, n int) partition by hash (id) partitions 4");
    root.run("insert into t values (1, 41)");
    root.run(sql);
    root.run("create temporary table t (id int primary key, n int)");
    assert_eq!(root.run(sql).0, 0);
    root.run("drop temporary table t");
    assert_eq!(root.one("select n from t"), "42");
    root.run("set session transaction read only");
    assert_eq!(root.fails(sql).errno, 1792);
}

#[test]
fn changes_by_key_wait_for_locks_and_are_part_of_transactions() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.database("d"), server.database("d"));
    one.run("create table t (id int primary key, n int not null, unique key (n))");
    one.run("insert into t values (1, 10), (2, 20)");
    one.run("begin");
    one.run("update t set n = n + 1 where id = 1");
    assert_eq!(one.one("select n from t where id = 1"), "11");
    assert_eq!(two.one("select n from t where id = 1"), "10");
    two.run("set innodb_lock_wait_timeout = 1");
    let by_key = count(&server);
    assert_eq!(two.fails("update t set n = 5 where id = 1").errno, 1205);
    assert_eq!(count(&server), by_key);
    one.run("update t set n = n + 1 where id = 1");
    one.run("delete from t where id = 2");
    assert_eq!(one.run("update t set n = 5 where id = 2").0, 0);
    one.run("insert into t values (2, 21)");
    one.run("update t set n = n + 1 where id = 2");
    two.run("set innodb_lock_wait_timeout = 50");
    let waiting = thread::spawn(move || {
        two.run("update t set n = n + 100 where id = 1");
        two
    });
    thread::sleep(Duration::from_millis(100));
    one.run("commit");
    let mut two = waiting.join().unwrap();
    assert_eq!(two.texts("select * from t order by id"), [["1", "112"], ["2", "22"]]);
    let refused = one.fails("update t set n = 22 where id = 1");
    let wanted = (1062, "Duplicate entry '22' for key 't.n'");
    assert_eq!((refused.errno, refused.message.as_str()), wanted);
    one.run("begin");
    assert_eq!(one.fails("update t set n = 22 where id = 1").errno, 1062);
    one.run("delete from t where id = 2");
    one.run("update t set n = 22 where id = 1");
    one.run("rollback");
    assert_eq!(one.texts("select * from t order by id"), [["1", "112"], ["2", "22"]]);
}

#[test]
fn many_sessions_count_one_row_up() {
    let server = TestServer::start();
    server.database("d").run("create table t (id int primary key, n int)");
    server.database("d").run("insert into t values (1, 0), (2, 0)");
    let sessions = (0..8).map(|_| server.database("d")).map(|mut client| {
        thread::spawn(move || {
            for _ in 0..50 {
                client.run("update t set n = n + 1 where id = 1");
            }
        })
    });
    let sessions = sessions.collect::<Vec<_>>();
    sessions.into_iter().for_each(|session| session.join().unwrap());
    // Those that met another one went the ordinary road.
    assert!(count(&server) > 0);
    let server = server.restart();
    assert_eq!(server.database("d").one("select n from t where id = 1"), "400");
}

#[test]
fn a_statement_that_waits_has_a_time_limit_of_its_own() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.database("d"), server.database("d"));
    one.run("create table t (id int primary key, n int)");
    two.run("set query_timeout = 1");
    assert_eq!(two.one("select count(*) from t"), "0");
    thread::sleep(Duration::from_millis(1100));
    for sql in ["insert into t values (1, 1)", "update t set n = 2 where id = 1"] {
        one.run("begin");
        one.run("insert into t values (1, 1) on duplicate key update n = 7");
        let waiting = thread::spawn(move || {
            two.run(sql);
            two
        });
        thread::sleep(Duration::from_millis(100));
        one.run("rollback");
        two = waiting.join().unwrap();
    }
    assert_eq!(one.one("select n from t"), "2");
}

#[test]
fn a_delete_that_is_longer_than_a_record_is_refused_and_removes_nothing() {
    let server = TestServer::sized(|config| config.wal_load_bytes_max = ByteSize::kib(256));
    let mut client = server.database("d");
    client.run("create table t (id int primary key, v char(20) not null)");
    client.run("insert into t select number, 'x' from numbers(\"number\" = \"60000\")");
    let refused = client.fails("delete from t where id % 6 <> 5");
    assert_eq!(refused.errno, 1041);
    assert!(refused.message.contains("changes 50000 rows"), "{}", refused.message);
    assert_eq!(client.one("select count(*) from t"), "60000");
    assert_eq!(client.run("delete from t where id % 3 = 1").0, 20_000);
    assert_eq!(client.one("select count(*) from t"), "40000");
}
