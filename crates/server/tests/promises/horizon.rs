//! No byte of an OK is sent before the log is durable, and a session's next snapshot includes what
//! was acknowledged to it; with a slow or blocked log disk.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freshet_base::fail::Action;
use freshet_wire::client::{Encoding, Outcome};

use super::common::world::LogDisk;
use super::common::{Client, TestServer};

fn started() -> (TestServer, Arc<LogDisk>) {
    let mut disk = None;
    let server = TestServer::in_world(|_| {}, |world| disk = Some(LogDisk::install(world)));
    (server, disk.unwrap())
}

fn filled(server: &TestServer) -> Client {
    let mut client = server.database("d");
    client.run("create table big (a int, b varchar(1000))");
    let row = |a: usize| format!("({a}, '{}')", "x".repeat(900));
    let rows = (0..400).map(row).collect::<Vec<_>>().join(", ");
    client.run(&format!("insert into big values {rows}"));
    client.run("create table t (a int)");
    client
}

/// Whether the server sends nothing for a while.
fn is_silent(client: &mut Client) -> bool {
    client.socket.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    let mut byte = [0];
    let read = client.socket.peek(&mut byte);
    client.socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(!matches!(read, Ok(0)), "the server is still there");
    read.is_err()
}

fn ask(client: &mut Client, text: &str) {
    client.writer.command_query(text.as_bytes());
    client.send();
}

#[test]
fn no_byte_of_an_ok_leaves_before_the_log_covers_it() {
    let (server, disk) = started();
    let mut client = filled(&server);
    let texts = [
        // The reading statement goes through the fast path, the planner, and SHOW.
        "insert into t values (1); select * from big",
        "insert into t values (1 + 1); select * from big",
        "begin; insert into t values (3); commit; select * from big",
        "insert into t select 4; select a, b from big order by b, a",
        "set autocommit = 0; insert into t values (5); set autocommit = 1; select * from big",
        "insert into t values (6); select b from big union all select b from big",
        "insert into t select 7; show table status",
        "insert into t select 8; explain select * from big",
    ];
    for (at, text) in texts.iter().enumerate() {
        let held = disk.hold();
        ask(&mut client, text);
        assert!(is_silent(&mut client), "{text}: bytes left before the log was durable");
        drop(held);
        for outcome in client.outcomes(Encoding::Text) {
            assert!(!matches!(outcome, Outcome::Err { .. }), "{text}: {outcome:?}");
        }
        assert_eq!(client.one("select count(*) from t"), (at + 1).to_string(), "{text}");
    }
}

#[test]
fn own_commits_are_seen_by_the_next_statement_of_a_text() {
    let (server, disk) = started();
    let mut client = filled(&server);
    disk.slow(Duration::from_millis(20));
    let last = |client: &mut Client, text: &str| {
        let outcomes = client.query_all(text);
        let Some(Outcome::Rows(rows)) = outcomes.last() else { panic!("{text}: {outcomes:?}") };
        super::common::text(&rows.rows[0][0])
    };
    for round in 1..4 {
        let text =
            format!("create table u{round} as select * from big; select count(*) from u{round}");
        assert_eq!(last(&mut client, &text), "400");
        let text = "insert into t select 1; select count(*) from t";
        assert_eq!(last(&mut client, text), (2 * round - 1).to_string());
        let text = "begin; insert into t values (2); commit; select count(*) from t";
        assert_eq!(last(&mut client, text), (2 * round).to_string());
    }
    let text = "insert into t select a from t; insert into t select a from t; \
                select count(*) from t";
    assert_eq!(last(&mut client, text), "24");
    let text = "set @n = 0; insert into t select 1; set @n = (select count(*) from t); select @n";
    assert_eq!(last(&mut client, text), "25");
    let text = "insert into t select 1; show table status like 't'";
    let outcomes = client.query_all(text);
    let Some(Outcome::Rows(rows)) = outcomes.last() else { panic!("{outcomes:?}") };
    assert_eq!(super::common::text(&rows.rows[0][4]), "26");
    let text = "set transaction isolation level repeatable read; insert into t select 1; \
                set session transaction isolation level repeatable read; begin; \
                select count(*) from t";
    assert_eq!(last(&mut client, text), "27", "a transaction that keeps its snapshot too");
}

/// Asks for so many INSERTs while nothing is written to the log, until all their records wait for
/// it; lets writes pass for a moment whenever no more records come, since then the server waits for
/// them. So what is written is counted on a slow machine as on a fast one.
fn write_what_is_appended(
    server: &TestServer,
    disk: &Arc<LogDisk>,
    inserts: u64,
    ask: impl FnOnce(),
) {
    disk.slow(Duration::from_millis(20));
    let mut held = disk.hold();
    let next = || server.engine.log_stats().next_lsn.get();
    let (mut seen, last) = (next(), next() + inserts);
    ask();
    let began = Instant::now();
    while next() < last {
        assert!(began.elapsed() < Duration::from_secs(120), "{} records are missing", last - seen);
        std::thread::sleep(Duration::from_millis(500));
        if next() == seen {
            drop(held);
            std::thread::sleep(Duration::from_millis(50));
            held = disk.hold();
        }
        seen = next();
    }
    drop(held);
}

#[test]
fn pipelined_inserts_share_one_write_of_the_log() {
    let (server, disk) = started();
    let mut client = filled(&server);
    let before = disk.writes();
    for round in 0..100 {
        client.writer.command_query(format!("insert into t values ({round})").as_bytes());
    }
    write_what_is_appended(&server, &disk, 100, || client.send());
    for _ in 0..100 {
        let outcome = client.outcomes(Encoding::Text).remove(0);
        assert!(matches!(outcome, Outcome::Ok { .. }), "{outcome:?}");
    }
    let writes = disk.writes() - before;
    assert!(writes < 50, "{writes} writes of the log");
    // The INSERTs of one text also wait only once, whether or not the planner computes their
    // values.
    let before = disk.writes();
    let text = vec!["insert into t values (1), (1 + 1)"; 50].join("; ");
    write_what_is_appended(&server, &disk, 50, || ask(&mut client, &text));
    assert_eq!(client.outcomes(Encoding::Text).len(), 50);
    let writes = disk.writes() - before;
    assert!(writes < 25, "{writes} writes of the log");
    let mut rest = [0; 1];
    client.socket.set_nonblocking(true).unwrap();
    assert!(client.socket.read(&mut rest).is_err(), "nothing was said twice");
}

#[test]
fn a_load_is_visible_in_lists_once_its_record_is_durable() {
    let (server, disk) = started();
    let mut client = filled(&server);
    let mut other = server.database("d");
    let status = |client: &mut Client| {
        let rows = client.rows("show transaction").rows;
        rows.first().map(|row| (super::common::text(&row[3]), super::common::text(&row[9])))
    };
    let held = disk.hold();
    ask(&mut client, "insert into t with label l values (1)");
    assert!(is_silent(&mut client));
    let listed = status(&mut other).expect("the load is in the log");
    assert_eq!(listed, ("PREPARE".to_owned(), "NULL".to_owned()), "it has no time of its end yet");
    drop(held);
    let outcome = client.outcomes(Encoding::Text).remove(0);
    assert!(matches!(outcome, Outcome::Ok { .. }), "{outcome:?}");
    let (listed, finished) = status(&mut other).expect("it is remembered");
    assert_eq!(listed, "VISIBLE");
    assert_ne!(finished, "NULL");
}

#[test]
fn a_panic_costs_a_statement_and_its_transaction_but_no_connection() {
    let server = TestServer::start();
    let mut client = filled(&server);
    client.run("begin");
    client.run("insert into t values (1)");
    server.engine.failpoints().arm("statement", 0, Action::Panic);
    let failure = client.fails("select count(*) from t");
    assert_eq!(failure.errno, 1815, "{}", failure.message);
    server.engine.failpoints().disarm("statement");
    client.run("commit");
    assert_eq!(client.one("select count(*) from t"), "0", "the transaction was rolled back");
}
