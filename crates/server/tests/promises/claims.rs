//! A DELETE with a condition relies on nobody writing between its look and its record. Where
//! somebody does, it looks again.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use freshet_base::ByteSize;

use crate::common::TestServer;

/// Rows that two sessions claim at the same time.
const ROWS: u32 = 400;

#[test]
fn of_who_deletes_and_who_marks_a_row_one_gets_it() {
    let server = TestServer::start();
    let mut root = server.database("d");
    for table in ["p (id int primary key, v int, key (v))", "u (id int, v int) unique key (id)"] {
        root.run(&format!("create table {table}"));
        let table = &table[..1];
        let rows = (0..ROWS).map(|id| format!("({id}, 0)")).collect::<Vec<_>>().join(", ");
        root.run(&format!("insert into {table} values {rows}"));
        let (mut marking, mut removing) = (server.connect(), server.connect());
        marking.run("use d");
        removing.run("use d");
        let both = Barrier::new(2);
        let (marked, removed) = thread::scope(|scope| {
            let marked = scope.spawn(|| {
                let mark = |id| {
                    both.wait();
                    marking.run(&format!("update {table} set v = 1 where id = {id} and v = 0")).0
                };
                (0..ROWS).map(mark).collect::<Vec<_>>()
            });
            let remove = |id| {
                both.wait();
                removing.run(&format!("delete from {table} where id = {id} and v = 0")).0
            };
            let removed = (0..ROWS).map(remove).collect::<Vec<_>>();
            (marked.join().unwrap(), removed)
        });
        let left = root.texts(&format!("select id from {table} where v = 1 order by id"));
        let left = left.concat();
        let expected = (0..ROWS).filter(|&id| marked[id as usize] == 1).map(|id| id.to_string());
        assert_eq!(left, expected.collect::<Vec<_>>(), "{table}");
        for (id, counts) in marked.iter().zip(&removed).enumerate() {
            assert_eq!(counts.0 + counts.1, 1, "row {id} of {table}: {counts:?}");
        }
        assert_eq!(root.one(&format!("select count(*) from {table}")), left.len().to_string());
    }
}

#[test]
fn a_select_that_assigns_holds_its_rows() {
    let server = TestServer::start();
    let mut holder = server.database("d");
    holder.run("create table t (id int primary key, v int)");
    holder.run("insert into t values (1, 0), (2, 0)");
    holder.run("begin");
    let first = "select @id := id from t where v = 0 order by id limit 1 for update";
    assert_eq!(holder.one(first), "1");
    let mut other = server.connect();
    other.run("use d");
    assert_eq!(other.fails("select v from t where id = 1 for update nowait").errno, 3572);
    assert_eq!(other.one(&format!("{first} skip locked")), "2");
    holder.run("update t set v = 1 where id = @id");
    holder.run("commit");
    assert_eq!(other.one(first), "2");
}

#[test]
fn a_delete_waits_for_who_holds_one_of_its_rows() {
    let server = TestServer::start();
    let mut holder = server.database("d");
    holder.run("create table t (id int primary key, v int)");
    holder.run("insert into t values (1, 0), (2, 0), (3, 0)");
    holder.run("begin");
    assert_eq!(holder.one("select v from t where id = 2 for update"), "0");
    let mut other = server.connect();
    other.run("use d");
    other.run("set innodb_lock_wait_timeout = 1");
    assert_eq!(other.fails("delete from t where v = 0").errno, 1205);
    other.run("set innodb_lock_wait_timeout = 60");
    thread::scope(|scope| {
        let began = Instant::now();
        let waits = scope.spawn(|| other.run("delete from t where v = 0"));
        thread::sleep(Duration::from_millis(300));
        holder.run("update t set v = 1 where id = 2");
        holder.run("commit");
        assert_eq!(waits.join().unwrap().0, 2, "row 2 is another one now");
        assert!(began.elapsed() < Duration::from_secs(30));
    });
    assert_eq!(holder.texts("select * from t"), [["2", "1"]]);
}

#[test]
fn outside_of_a_transaction_a_locking_query_waits_and_holds_nothing_when_it_ends() {
    let server = TestServer::start();
    let mut holder = server.database("d");
    for table in ["t (id int primary key, v int)", "u (id int, v int) unique key (id)"] {
        holder.run(&format!("create table {table}"));
        let table = &table[..1];
        holder.run(&format!("insert into {table} values (1, 0), (2, 0), (3, 0)"));
        let mut other = server.connect();
        other.run("use d");
        holder.run("begin");
        holder.run(&format!("update {table} set v = 1 where id = 2"));
        let two = format!("select v from {table} where id = 2 for update");
        assert_eq!(other.fails(&format!("{two} nowait")).errno, 3572, "{table}");
        let free = format!("select id from {table} order by id for update skip locked");
        assert_eq!(other.texts(&free), [["1"], ["3"]], "{table}");
        other.run("set innodb_lock_wait_timeout = 1");
        assert_eq!(other.fails(&two).errno, 1205, "{table}");
        other.run("set innodb_lock_wait_timeout = 60");
        thread::scope(|scope| {
            let waits = scope.spawn(|| other.one(&two));
            thread::sleep(Duration::from_millis(300));
            holder.run("commit");
            assert_eq!(waits.join().unwrap(), "1", "{table}: it reads what the row is now");
        });
        assert_eq!(holder.one(&format!("{two} nowait")), "1", "{table}: nobody holds the row");
    }
}

#[test]
fn who_reads_for_share_waits_for_writers_alone_and_writers_wait_for_all_of_them() {
    let server = TestServer::start();
    let (mut one, mut two, mut writer) =
        (server.database("d"), server.database("d"), server.database("d"));
    writer.run("set innodb_lock_wait_timeout = 1");
    for table in ["t (id int primary key, v int)", "u (id int, v int) unique key (id)"] {
        one.run(&format!("create table {table}"));
        let table = &table[..1];
        one.run(&format!("insert into {table} values (1, 0), (2, 0)"));
        let shared = format!("select v from {table} where id = 1 for share nowait");
        let update = format!("update {table} set v = v + 1 where id = 1");
        for reader in [&mut one, &mut two] {
            reader.run("begin");
            assert_eq!(reader.one(&shared), "0", "{table}");
        }
        assert_eq!(writer.fails(&update).errno, 1205, "{table}");
        assert_eq!(writer.run(&format!("update {table} set v = 9 where id = 2")).0, 1);
        one.run("commit");
        assert_eq!(writer.fails(&update).errno, 1205, "{table}: the other one still reads it");
        // Who is alone with its share may write.
        assert_eq!(two.run(&update).0, 1, "{table}");
        assert_eq!(one.fails(&shared).errno, 3572, "{table}: nobody shares what is written");
        two.run("commit");
        assert_eq!(writer.run(&update).0, 1, "{table}");
        assert_eq!(one.one(&format!("select v from {table} where id = 1")), "2", "{table}");
    }
}

#[test]
fn of_two_that_share_a_row_and_want_to_write_it_one_is_undone() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.database("d"), server.database("d"));
    one.run("create table t (id int primary key, v int)");
    one.run("insert into t values (1, 0)");
    let update = "update t set v = v + 1 where id = 1";
    for reader in [&mut one, &mut two] {
        reader.run("begin");
        assert_eq!(reader.one("select v from t where id = 1 lock in share mode"), "0");
    }
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let changed = one.run(update).0;
            one.run("commit");
            changed
        });
        thread::sleep(Duration::from_millis(300));
        assert_eq!(two.fails(update).errno, 1213);
        assert_eq!(waits.join().unwrap(), 1);
    });
    assert_eq!(two.one("select v from t where id = 1"), "1");
}

/// A transaction takes the keys that it removes as its record does, and reads no row again.
#[test]
fn a_transaction_removes_many_rows_by_their_keys() {
    let server = TestServer::sized(|config| config.wal_load_bytes_max = ByteSize::kib(64));
    let mut one = server.database("d");
    one.run("create table t (id int primary key, v int not null, w varchar(10), unique key (w))");
    let rows = (0..4000).map(|id| format!("({id}, {}, '{id}')", id % 2)).collect::<Vec<_>>();
    for rows in rows.chunks(500) {
        one.run(&format!("insert into t values {}", rows.join(", ")));
    }
    for end in ["rollback", "commit"] {
        one.run("begin");
        one.run("insert into t values (5000, 0, 'a')");
        assert_eq!(one.run("delete from t where v = 0").0, 2001, "with its own row");
        assert_eq!(one.one("select count(*) from t"), "2000");
        one.run("insert into t values (0, 2, '0')");
        one.run(end);
    }
    assert_eq!(one.texts("select count(*), sum(v), min(id) from t"), [["2001", "2002", "0"]]);
    assert_eq!(one.run("delete from t where v = 2").0, 1);
    assert_eq!(one.run("delete from t where v < 2").0, 2000);
    assert_eq!(one.one("select count(*) from t"), "0");
}

#[test]
fn a_transaction_does_not_change_a_table_that_got_the_name_of_the_one_it_reads() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.database("d"), server.database("d"));
    for table in ["t", "n"] {
        one.run(&format!("create table {table} (id int primary key, v int)"));
    }
    one.run("insert into t values (1, 0), (2, 0)");
    one.run("insert into n values (1, 1), (2, 1)");
    one.run("set session transaction isolation level repeatable read");
    for change in ["delete from t where v = 0", "update t set v = 2 where v = 0"] {
        one.run("begin");
        assert_eq!(one.one("select count(*) from t where v = 0"), "2");
        other.run("rename table t to o, n to t");
        assert_eq!(one.fails(change).errno, 1213, "{change}");
        one.run("rollback");
        assert_eq!(one.texts("select id, v from t order by id"), [["1", "1"], ["2", "1"]]);
        other.run("rename table t to n, o to t");
        assert_eq!(one.one("select count(*) from t where v = 0"), "2");
    }
}

/// What waits for a row reads it in the columns that it has then.
#[test]
fn who_waits_over_an_added_column_keeps_what_others_put_there() {
    let server = TestServer::start();
    let (mut holder, mut other, mut root) =
        (server.database("d"), server.database("d"), server.database("d"));
    holder.run("create table t (id int primary key, a int, b int)");
    holder.run("insert into t values (5, 0, 0)");
    let waiting = [
        ("c0", "update t set b = b + 1 where id = 5"),
        ("c1", "update t set b = b + 1 where a < 9"),
        ("c2", "insert into t (id, a, b) values (5, 0, 0) on duplicate key update b = b + 1"),
    ];
    for (column, change) in waiting {
        holder.run("begin");
        holder.run("update t set a = a + 1 where id = 5");
        thread::scope(|scope| {
            let waits = scope.spawn(|| other.run(change));
            thread::sleep(Duration::from_millis(300));
            root.run(&format!("alter table t add column {column} int default 0"));
            holder.run(&format!("update t set {column} = 7 where id = 5"));
            holder.run("commit");
            waits.join().unwrap();
        });
    }
    assert_eq!(holder.texts("select * from t"), [["5", "3", "3", "7", "7", "7"]]);
}

#[test]
fn ids_from_a_table_without_keys_are_given_once() {
    const SESSIONS: usize = 4;
    const IDS: usize = 25;
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("create table ids (next_val bigint)");
    root.run("insert into ids values (1)");
    let mut given = thread::scope(|scope| {
        let take = || {
            let mut session = server.connect();
            session.run("use d");
            let mut next = || {
                session.run("begin");
                let id = session.one("select next_val from ids for update");
                let next = format!("update ids set next_val = {id} + 1 where next_val = {id}");
                assert_eq!(session.run(&next).0, 1);
                session.run("commit");
                id.parse::<usize>().unwrap()
            };
            (0..IDS).map(|_| next()).collect::<Vec<_>>()
        };
        let taken = [(); SESSIONS].map(|()| scope.spawn(take));
        taken.into_iter().flat_map(|taken| taken.join().unwrap()).collect::<Vec<_>>()
    });
    given.sort_unstable();
    assert_eq!(given, (1..=SESSIONS * IDS).collect::<Vec<_>>());
}

#[test]
fn a_table_without_keys_is_locked_until_the_end_of_the_transaction() {
    let server = TestServer::start();
    let mut holder = server.database("d");
    holder.run("create table t (a int)");
    holder.run("insert into t values (1)");
    let mut other = server.connect();
    other.run("use d");
    other.run("begin");
    holder.run("begin");
    assert_eq!(holder.one("select a from t for update"), "1");
    assert_eq!(other.fails("select a from t for update nowait").errno, 3572);
    other.run("set innodb_lock_wait_timeout = 1");
    assert_eq!(other.fails("select a from t for update").errno, 1205);
    holder.run("rollback");
    assert_eq!(other.one("select a from t for update nowait"), "1");
    // Who holds the table reads what is in it now, whatever snapshot its transaction has.
    holder.run("set transaction_isolation = 'REPEATABLE-READ'");
    other.run("rollback");
    holder.run("begin");
    assert_eq!(holder.one("select a from t"), "1");
    other.run("update t set a = 51");
    assert_eq!(holder.one("select a from t"), "1");
    assert_eq!(holder.one("select a from t for update"), "51");
}
