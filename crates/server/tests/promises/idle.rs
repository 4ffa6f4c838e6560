//! The idle timeout of transactions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use freshet_wire::StatusFlags;
use freshet_wire::client::{Encoding, Outcome};

use super::common::world::TestClock;
use super::common::{Client, TestServer};

const LOST: u16 = 1205;

fn started() -> (TestServer, Arc<TestClock>) {
    let mut clock = None;
    let server = TestServer::in_world(|_| {}, |world| clock = Some(TestClock::install(world)));
    (server, clock.unwrap())
}

fn client(server: &TestServer) -> Client {
    let mut client = server.database("d");
    client.run("create table if not exists t (a int)");
    client.run("set idle_transaction_timeout = 5");
    client
}

/// Lets the session exceed its idle timeout; waits until its memory is released.
fn time_out(server: &TestServer, clock: &TestClock) {
    let memory = server.engine.memory();
    assert!(memory.used_bytes() > 0, "there is something to roll back");
    let before = memory.used_bytes();
    clock.advance(Duration::from_secs(7));
    let began = Instant::now();
    while memory.used_bytes() >= before {
        assert!(began.elapsed() < Duration::from_secs(20), "nothing was rolled back");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn in_transaction(client: &mut Client) -> bool {
    match client.query("set @x = 1") {
        Outcome::Ok { status, .. } => status.contains(StatusFlags::IN_TRANSACTION),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_commit_never_says_ok_for_rows_that_were_rolled_back() {
    let (server, clock) = started();
    let mut one = client(&server);
    one.run("begin");
    one.run("insert into t values (1)");
    assert!(in_transaction(&mut one));
    time_out(&server, &clock);
    assert!(!in_transaction(&mut one), "the flags say that nothing is open");
    let failure = one.fails("insert into t values (2)");
    assert_eq!((failure.errno, failure.sqlstate.as_str()), (LOST, "HY000"));
    assert!(failure.message.contains("idle_transaction_timeout"), "{}", failure.message);
    assert_eq!(one.fails("select count(*) from t").errno, LOST, "until the client ends it");
    assert_eq!(one.fails("insert into t values (1 + 1)").errno, LOST);
    assert_eq!(one.fails("commit").errno, LOST);
    assert_eq!(one.one("select count(*) from t"), "0");
    one.run("insert into t values (3)");
    one.run("begin");
    one.run("insert into t values (4)");
    one.run("commit");
    assert_eq!(one.texts("select a from t order by a"), [["3"], ["4"]]);
}

#[test]
fn a_rollback_ends_what_was_rolled_back_already() {
    let (server, clock) = started();
    let mut one = client(&server);
    one.run("set autocommit = 0");
    one.run("insert into t values (1)");
    time_out(&server, &clock);
    one.run("rollback");
    one.run("insert into t values (2)");
    one.run("commit");
    one.run("insert into t values (3)");
    time_out(&server, &clock);
    assert_eq!(one.fails("create table u (a int)").errno, LOST, "it would commit first");
    one.run("insert into t values (4)");
    one.run("set autocommit = 1");
    assert_eq!(one.texts("select a from t order by a"), [["2"], ["4"]]);
    one.run("set autocommit = 0");
    one.run("insert into t values (5)");
    time_out(&server, &clock);
    assert_eq!(one.fails("set autocommit = 1").errno, LOST);
    one.run("begin");
    one.run("insert into t values (6)");
    time_out(&server, &clock);
    assert_eq!(one.fails("begin").errno, LOST);
    one.run("begin");
    one.run("commit");
    assert_eq!(one.texts("select a from t order by a"), [["2"], ["4"]]);
}

#[test]
fn a_snapshot_is_not_lost_silently() {
    let (server, clock) = started();
    let mut one = client(&server);
    let mut other = client(&server);
    one.run("set session transaction isolation level repeatable read");
    one.run("begin");
    assert_eq!(one.one("select count(*) from t"), "0");
    other.run("insert into t values (1)");
    clock.advance(Duration::from_secs(7));
    std::thread::sleep(Duration::from_millis(300));
    let failure = one.fails("select count(*) from t");
    assert_eq!(failure.errno, LOST, "{}", failure.message);
    one.run("rollback");
    assert_eq!(one.one("select count(*) from t"), "1");
    // A transaction without rows or snapshot is not rolled back.
    one.run("set session transaction isolation level read committed");
    one.run("begin");
    clock.advance(Duration::from_secs(7));
    std::thread::sleep(Duration::from_millis(300));
    one.run("insert into t values (2)");
    one.run("commit");
    assert_eq!(one.one("select count(*) from t"), "2");
}

#[test]
fn a_step_of_the_wall_clock_rolls_nobody_back() {
    let (server, clock) = started();
    let mut one = client(&server);
    one.run("set wait_timeout = 60");
    one.run("begin");
    one.run("insert into t values (1)");
    clock.step_wall(365 * 86_400);
    clock.advance(Duration::from_secs(1));
    std::thread::sleep(Duration::from_millis(300));
    clock.step_wall(-2 * 365 * 86_400);
    clock.advance(Duration::from_secs(1));
    std::thread::sleep(Duration::from_millis(300));
    one.run("insert into t values (2)");
    one.run("commit");
    assert_eq!(one.one("select count(*) from t"), "2");
}

#[test]
fn a_commit_that_races_the_time_out_tells_the_truth() {
    let (server, clock) = started();
    let mut one = client(&server);
    let mut stored = 0;
    for round in 0..60 {
        one.run("begin");
        one.run(&format!("insert into t values ({round})"));
        // All commands are in flight when the timeout expires.
        let texts =
            ["commit", "rollback", "begin", &format!("insert into t values (-{round})"), "commit"];
        let lucky = round % 3;
        if lucky == 0 {
            clock.advance(Duration::from_secs(7));
        }
        let mut bytes = Vec::new();
        for text in texts {
            one.writer.command_query(text.as_bytes());
            bytes.extend_from_slice(one.writer.bytes());
            one.writer.clear();
        }
        std::io::Write::write_all(&mut one.socket, &bytes).unwrap();
        if lucky == 1 {
            clock.advance(Duration::from_secs(7));
        }
        for (at, _) in texts.iter().enumerate() {
            let outcome = one.outcomes(Encoding::Text).remove(0);
            match (at, outcome) {
                (_, Outcome::Ok { .. }) => stored += usize::from(at == 0 || at == 4),
                (0, Outcome::Err { errno, .. }) => assert_eq!(errno, LOST),
                (at, other) => panic!("round {round}: a new transaction was ended: {at} {other:?}"),
            }
        }
        assert_eq!(one.one("select count(*) from t"), stored.to_string(), "round {round}");
    }
}

#[test]
fn serializable_says_that_it_is_a_snapshot() {
    let server = TestServer::start();
    let mut one = server.connect();
    for set in [
        "set session transaction isolation level serializable",
        "set transaction isolation level serializable",
        "set global transaction isolation level serializable",
        "set transaction_isolation = 'SERIALIZABLE'",
        "set @@global.tx_isolation = 'SERIALIZABLE'",
    ] {
        let Outcome::Ok { warnings, .. } = one.query(set) else { panic!("{set}") };
        assert_eq!(warnings, 1, "{set}");
        let rows = one.texts("show warnings");
        assert!(rows[0][0] == "Warning" && rows[0][2].contains("snapshot"), "{rows:?}");
    }
    let Outcome::Ok { warnings, .. } =
        one.query("set session transaction isolation level repeatable read")
    else {
        panic!("it is taken")
    };
    assert_eq!(warnings, 0);
}
