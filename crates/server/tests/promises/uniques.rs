//! Unique keys between sessions: a value that a transaction takes or gives up is decided when that
//! ends.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use freshet_wire::client::Outcome;

use crate::common::TestServer;
use crate::common::client::failure;

/// Long enough for a statement to wait.
const WHILE: Duration = Duration::from_millis(300);

#[test]
fn of_two_sessions_one_takes_a_value() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let mut two = server.database("d");
    one.run("create table t (id int primary key, u int, unique key (u))");
    two.run("set innodb_lock_wait_timeout = 1");
    one.run("begin");
    one.run("insert into t values (1, 7)");
    assert_eq!(two.fails("insert into t values (2, 7)").errno, 1205);
    assert_eq!(two.fails("replace into t values (2, 7)").errno, 1205);
    two.run("set innodb_lock_wait_timeout = 20");
    let waiting = thread::spawn(move || (two.run("insert into t values (2, 7)").0, two));
    thread::sleep(WHILE);
    one.run("rollback");
    let (inserted, mut two) = waiting.join().unwrap();
    assert_eq!(inserted, 1, "the value is free again");
    let waiting = {
        one.run("begin");
        one.run("delete from t where u = 7");
        thread::spawn(move || (two.run("insert into t values (3, 7)").0, two))
    };
    thread::sleep(WHILE);
    one.run("commit");
    let (inserted, mut two) = waiting.join().unwrap();
    assert_eq!(inserted, 1, "the row that had it is gone");
    one.run("begin");
    one.run("update t set u = 8 where id = 3");
    let waiting = thread::spawn(move || (two.fails("insert into t values (4, 7)").errno, two));
    thread::sleep(WHILE);
    one.run("rollback");
    let (refused, mut two) = waiting.join().unwrap();
    assert_eq!(refused, 1062, "the row that has it stays");
    assert_eq!(two.texts("select id, u from t"), [["3", "7"]]);
}

#[test]
fn a_row_that_another_holds_is_not_replaced() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let mut two = server.database("d");
    one.run("create table t (id int primary key, u int, v int, unique key (u))");
    one.run("insert into t values (1, 7, 0), (2, 8, 0)");
    two.run("set innodb_lock_wait_timeout = 1");
    one.run("begin");
    one.texts("select * from t where id = 1 for update");
    assert_eq!(two.fails("replace into t values (9, 7, 1)").errno, 1205);
    let update = "insert into t values (9, 7, 1) on duplicate key update v = v + 1";
    assert_eq!(two.fails(update).errno, 1205);
    one.run("update t set v = 5 where id = 1");
    two.run("set innodb_lock_wait_timeout = 20");
    let waiting = thread::spawn(move || (two.run(update).0, two));
    thread::sleep(WHILE);
    one.run("commit");
    let (affected, mut two) = waiting.join().unwrap();
    assert_eq!(affected, 2);
    assert_eq!(two.texts("select id, u, v from t order by id"), [["1", "7", "6"], ["2", "8", "0"]]);
}

#[test]
fn who_waits_for_values_in_a_circle_is_told() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let mut two = server.database("d");
    one.run("create table t (id int primary key, u int, unique key (u))");
    one.run("begin");
    two.run("begin");
    one.run("insert into t values (1, 1)");
    two.run("insert into t values (2, 2)");
    let waiting = thread::spawn(move || (one.run("insert into t values (3, 2)").0, one));
    thread::sleep(WHILE);
    assert_eq!(two.fails("insert into t values (4, 1)").errno, 1213);
    let (inserted, mut one) = waiting.join().unwrap();
    assert_eq!(inserted, 1, "the other one was rolled back");
    one.run("commit");
    assert_eq!(two.texts("select id, u from t order by id"), [["1", "1"], ["3", "2"]]);
}

#[test]
fn what_truncate_takes_away_is_free() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let mut two = server.database("d");
    one.run("create table t (id int primary key, u int, unique key (u))");
    one.run("insert into t values (1, 7), (2, 8)");
    one.run("flush tables t");
    one.run("insert into t values (3, 9)");
    two.run("begin");
    two.run("insert into t values (4, 10)");
    one.run("truncate table t");
    one.run("insert into t values (5, 7), (6, 8), (7, 9)");
    two.run("insert into t values (8, 11)");
    assert_eq!(two.fails("insert into t values (9, 7)").errno, 1062);
    two.run("commit");
    assert_eq!(one.fails("insert into t values (10, 10)").errno, 1062);
    assert_eq!(one.one("select count(*) from t"), "5");
}

#[test]
fn an_id_that_was_drawn_before_a_truncate_is_nobody_elses() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.database("d"), server.database("d"));
    let mut three = server.database("d");
    one.run("create table t (id int auto_increment primary key, u int, v int, unique key (u))");
    let update = "insert into t (u, v) values (1, 5) on duplicate key update v = v + 10";
    // It draws an id, and waits until the row is free that it would meet.
    one.run("insert into t (u, v) values (1, 0)");
    two.run("begin");
    two.texts("select * from t where u = 1 for update");
    let waiting = thread::spawn(move || (one.run(update).0, one));
    thread::sleep(WHILE);
    three.run("truncate table t");
    two.run("rollback");
    let (affected, mut one) = waiting.join().unwrap();
    assert_eq!(affected, 1);
    assert_eq!(one.texts("select * from t"), [["1", "1", "5"]], "it has drawn another one");
    assert_eq!(one.one("select last_insert_id()"), "1");
    // A transaction keeps the ids that it was told, unless others are given the same.
    one.run("begin");
    one.run("insert into t (u, v) values (2, 0) on duplicate key update v = 1");
    three.run("truncate table t");
    let insert = "insert into t (u, v) values (10, 0), (11, 0)";
    let waiting = thread::spawn(move || (three.run(insert).0, three));
    thread::sleep(WHILE);
    assert_eq!(one.fails("commit").errno, 1213);
    assert_eq!(waiting.join().unwrap().0, 2);
    assert_eq!(one.texts("select * from t order by id"), [["1", "10", "0"], ["2", "11", "0"]]);
}

#[test]
fn who_skips_locked_rows_takes_the_next_ones() {
    let server = TestServer::start();
    let mut workers = [server.database("d"), server.database("d"), server.database("d")];
    workers[0].run("create table jobs (id int primary key, done int not null default 0)");
    workers[0].run("insert into jobs (id) values (1), (2), (3), (4), (5)");
    let next = "select id from jobs where done = 0 order by id limit 2 for update skip locked";
    let mut taken = Vec::new();
    for worker in &mut workers {
        worker.run("begin");
        let rows = worker.texts(next);
        for id in rows.iter().flatten() {
            worker.run(&format!("update jobs set done = 1 where id = {id}"));
        }
        taken.push(rows.concat());
    }
    assert_eq!(taken, [vec!["1", "2"], vec!["3", "4"], vec!["5"]]);
    let [one, two, three] = &mut workers;
    assert_eq!(three.texts(next), Vec::<Vec<String>>::new(), "its own rows are done");
    one.run("rollback");
    assert_eq!(three.texts(next), [["1"], ["2"]], "they are free again");
    two.run("commit");
    three.run("commit");
    let all = "select id from jobs order by id for share skip locked";
    two.run("begin");
    assert_eq!(two.texts(all).len(), 5);
    one.run("begin");
    assert_eq!(one.texts(all).len(), 5, "they share the rows");
    let first = "select id from jobs order by id limit 1 for update skip locked";
    assert_eq!(one.texts(first), Vec::<Vec<String>>::new());
    two.run("rollback");
    assert_eq!(one.texts(first), [["1"]]);
    two.run("begin");
    assert_eq!(two.fails("select id from jobs where id = 1 for update nowait").errno, 3572);
}

/// What a table `t (id INT PRIMARY KEY, u INT UNIQUE, w INT UNIQUE)` has.
type Stored = BTreeMap<u8, [Option<u8>; 2]>;

type Row = (u8, [Option<u8>; 2]);

/// The rows that a new one meets.
fn rivals(stored: &Stored, (id, values): &Row) -> Vec<u8> {
    let meets = |(other, theirs): &(&u8, &[Option<u8>; 2])| {
        let shares = |at: usize| values[at].is_some() && values[at] == theirs[at];
        *other == id || shares(0) || shares(1)
    };
    stored.iter().filter(meets).map(|(id, _)| *id).collect()
}

/// What a statement answers: how many rows it has affected, or that it has failed.
type Answer = Result<u64, u16>;

fn insert(stored: &mut Stored, rows: &[Row], kind: usize) -> Answer {
    let (before, mut affected) = (stored.clone(), 0);
    for row in rows {
        let rivals = rivals(stored, row);
        match kind {
            0 if !rivals.is_empty() => {
                *stored = before;
                return Err(1062);
            }
            1 if !rivals.is_empty() => continue,
            _ => {}
        }
        rivals.iter().for_each(|id| _ = stored.remove(id));
        affected += 1 + rivals.len() as u64;
        stored.insert(row.0, row.1);
    }
    Ok(affected)
}

fn update(stored: &mut Stored, id: u8, value: Option<u8>) -> Answer {
    let Some(&[u, w]) = stored.get(&id) else { return Ok(0) };
    let takes = value.is_some() && u != value;
    if takes && stored.values().any(|[other, _]| *other == value) {
        return Err(1062);
    }
    stored.insert(id, [value, w]);
    // This client counts found rows.
    Ok(1)
}

fn text(value: Option<u8>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| value.to_string())
}

/// A statement and what it does to a model.
fn statement(random: &mut impl FnMut(u8) -> u8, stored: &mut Stored) -> (String, Answer) {
    let kind = usize::from(random(6));
    if kind < 3 {
        let mut value = |of: u8| Some(random(of)).filter(|value| *value > 0);
        let rows = (0..3).map(|_| (value(9).unwrap_or(0), [value(12), value(12)]));
        let rows = rows.take(usize::from(stored.len() as u8 % 3) + 1).collect::<Vec<_>>();
        let texts = rows.iter().map(|(id, [u, w])| format!("({id}, {}, {})", text(*u), text(*w)));
        let word = ["INSERT", "INSERT IGNORE", "REPLACE"][kind];
        let sql = format!("{word} INTO t VALUES {}", texts.collect::<Vec<_>>().join(", "));
        return (sql, insert(stored, &rows, kind));
    }
    let (id, value) = (random(9), Some(random(12)).filter(|value| *value > 0));
    if kind < 5 {
        let sql = format!("UPDATE t SET u = {} WHERE id = {id}", text(value));
        return (sql, update(stored, id, value));
    }
    let (before, found) = (stored.len(), format!("DELETE FROM t WHERE u = {}", text(value)));
    stored.retain(|_, [u, _]| value.is_none() || *u != value);
    (found, Ok((before - stored.len()) as u64))
}

#[test]
fn statements_do_what_a_plain_model_does() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run("create table t (id int primary key, u int unique, w int unique)");
    let mut state = 20_261_126_u64;
    let mut random = |below: u8| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        ((state >> 40) % u64::from(below)) as u8
    };
    let (mut stored, mut before) = (Stored::new(), None::<Stored>);
    for step in 0..300 {
        match random(40) {
            0 if before.is_none() => _ = client.run("flush tables t"),
            1 if before.is_none() => {
                client.run("begin");
                before = Some(stored.clone());
            }
            2 | 3 if before.is_some() => {
                client.run("commit");
                before = None;
            }
            4 => {
                client.run("rollback");
                stored = before.take().unwrap_or(stored);
            }
            _ => {
                let (sql, expected) = statement(&mut random, &mut stored);
                let answer = match client.query(&sql) {
                    Outcome::Ok { affected_rows, .. } => Ok(affected_rows),
                    other => Err(failure(other).unwrap().errno),
                };
                assert_eq!(answer, expected, "step {step}: {sql}");
            }
        }
        let rows = client.texts("select id, u, w from t order by id");
        let expected = stored.iter().map(|(id, [u, w])| [id.to_string(), text(*u), text(*w)]);
        assert_eq!(rows, expected.collect::<Vec<_>>(), "step {step}");
    }
}

/// `t`, divided by a column that its unique key has not.
const DIVIDED: &str = "create table t (id int, d int, u int, primary key (id, d), \
                       unique global index g (u) partition by hash(u) partitions 4) \
                       partition by range (d) (partition p0 values less than (1), \
                       partition p1 values less than maxvalue)";

#[test]
fn a_global_value_is_of_one_partition() {
    let server = TestServer::start();
    let mut one = server.database("d");
    let mut two = server.database("d");
    one.run(DIVIDED);
    two.run("set innodb_lock_wait_timeout = 1");
    one.run("begin");
    one.run("insert into t values (1, 0, 7)");
    assert_eq!(two.fails("insert into t values (2, 1, 7)").errno, 1205);
    two.run("set innodb_lock_wait_timeout = 20");
    let waiting = thread::spawn(move || (two.fails("insert into t values (2, 1, 7)").errno, two));
    thread::sleep(WHILE);
    one.run("commit");
    let (refused, mut two) = waiting.join().unwrap();
    assert_eq!(refused, 1062);
    one.run("flush tables t");
    // Neither partition gives it back before its row goes.
    one.run("begin");
    one.run("update t set d = 1 where id = 1");
    let waiting = thread::spawn(move || (two.fails("insert into t values (2, 0, 7)").errno, two));
    thread::sleep(WHILE);
    one.run("commit");
    let (refused, mut two) = waiting.join().unwrap();
    assert_eq!(refused, 1062);
    assert_eq!(two.texts("select id, d, u from t"), [["1", "1", "7"]]);
}

#[test]
fn sessions_race_for_global_values_and_a_restart_keeps_them() {
    let server = TestServer::start();
    let mut client = server.database("d");
    client.run(DIVIDED);
    const VALUES: u32 = 40;
    let sessions = (0..4).map(|session| {
        let mut client = server.database("d");
        thread::spawn(move || {
            let mut won = 0;
            for u in 0..VALUES {
                let (id, d) = (u * 10 + session, session % 2);
                match client.query(&format!("insert into t values ({id}, {d}, {u})")) {
                    Outcome::Ok { .. } => won += 1,
                    other => assert_eq!(failure(other).unwrap().errno, 1062),
                }
            }
            won
        })
    });
    let sessions = sessions.collect::<Vec<_>>();
    let won = sessions.into_iter().map(|session| session.join().unwrap()).sum::<u32>();
    assert_eq!(won, VALUES, "each value is taken once");
    assert_eq!(client.one("select count(distinct u) from t"), VALUES.to_string());
    let shown = client.texts("show create table t");
    let server = server.restart();
    let mut client = server.database("d");
    assert_eq!(client.texts("show create table t"), shown);
    assert_eq!(client.fails("insert into t values (999, 0, 3)").errno, 1062);
    assert_eq!(client.fails("insert into t values (999, 1, 3)").errno, 1062);
    client.run("flush tables t");
    let server = server.restart();
    let mut client = server.database("d");
    assert_eq!(client.fails("insert into t values (999, 0, 3)").errno, 1062);
    assert_eq!(client.one("select count(*) from t where u = 3"), "1");
}
