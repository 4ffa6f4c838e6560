//! Transactions may use only a part of the write memory.

use std::time::{Duration, Instant};

use freshet_base::ByteSize;

use super::common::{Client, TestServer};

const MIB: usize = 1 << 20;

fn small() -> TestServer {
    TestServer::sized(|config| {
        config.write_memory_bytes = ByteSize::mib(32);
        config.transaction_bytes_max = ByteSize::mib(8);
        config.transactions_memory_bytes = ByteSize::mib(16);
        config.flush_bytes = ByteSize::mib(2);
        // Who is refused has waited so long; a flush on a busy machine takes less.
        config.load_patience = Duration::from_secs(5);
    })
}

/// Inserts rows of this size until an INSERT fails, at most `most` of them; returns their number.
fn fill(client: &mut Client, row_bytes: usize, most: usize) -> usize {
    use freshet_wire::client::Outcome;
    let row = format!("insert into t values (1, '{}')", "x".repeat(row_bytes));
    for inserted in 0..most {
        match client.query(&row) {
            Outcome::Ok { .. } => {}
            Outcome::Err { errno, message, .. } => {
                assert_eq!(errno, 1041, "{message}");
                assert!(message.contains("transaction"), "it says what is full: {message}");
                return inserted;
            }
            other => panic!("{other:?}"),
        }
    }
    most
}

#[test]
fn idle_transactions_leave_room_for_everybody_else() {
    let server = small();
    let mut other = server.database("d");
    other.run("create table t (a int, b text)");
    let mut idle = Vec::new();
    let mut rows = Vec::new();
    for _ in 0..4 {
        let mut client = server.database("d");
        client.run("begin");
        rows.push(fill(&mut client, 500 << 10, 14));
        idle.push(client);
    }
    assert!(rows[0] == 14 && rows[1] == 14, "the first ones have their share: {rows:?}");
    let used = server.engine.memory().used_bytes();
    // Each connection has a receive buffer in addition.
    assert!(used <= 22 * MIB as u64, "transactions took {used} of 32 MiB");
    // Far more than the memory left beside the transactions: these loads are written to files.
    let large = format!("insert into t values (2, '{}')", "y".repeat(400 << 10));
    for _ in 0..60 {
        other.run(&large);
    }
    assert_eq!(other.one("select count(*) from t"), "60");
    // Refused statements had no effect, and accepted ones can be committed.
    let committed = rows.iter().zip(&mut idle).map(|(rows, client)| {
        client.run("commit");
        rows
    });
    let committed = committed.sum::<usize>();
    assert_eq!(other.one("select count(*) from t where a = 1"), committed.to_string());
    drop(idle);
    other.run("flush tables t");
    // The receive buffers go when the server has seen that their clients have left.
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.engine.memory().used_bytes() >= MIB as u64 {
        let used = server.engine.memory().used_bytes();
        assert!(Instant::now() < deadline, "all of it is given back: {used}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_alter_between_two_inserts_of_a_transaction_keeps_both() {
    let server = small();
    let mut one = server.database("d");
    let mut other = server.database("d");
    one.run("create table t (a int, b text)");
    one.run("begin");
    one.run("insert into t values (1, 'x')");
    other.run("alter table t add column c int default '7' after a");
    one.run("insert into t values (2, 8, 'y')");
    other.run("alter table t drop column b");
    one.run("insert into t values (3, 9)");
    let wanted = [["1", "7"], ["2", "8"], ["3", "9"]];
    assert_eq!(one.texts("select a, c from t order by a"), wanted);
    one.run("commit");
    assert_eq!(other.texts("select a, c from t order by a"), wanted);
}
