//! Write memory exhausted by many writers, or held by a long-running reader.

use std::sync::{Arc, Barrier};
use std::thread;

use freshet_torture::client::{Client, Failure};

use crate::{count, insert, started, world};

const WRITERS: u64 = 500;
const LOADS: u64 = 6;
const ROWS: u64 = 40;

fn insert_of(writer: u64) -> String {
    let row = format!("(1, {writer}, '{}')", "m".repeat(190));
    let rows = [row.as_str(); ROWS as usize].join(",");
    format!("INSERT INTO torture.events_0 VALUES {rows}")
}

/// Fills a transaction, waits while memory is full, commits. Returns the number of committed rows,
/// and the refusals.
fn write(port: u16, writer: u64, full: &Barrier, go_on: &Barrier) -> (u64, Vec<Failure>) {
    let mut client = Client::connect(port).unwrap();
    client.query("BEGIN").unwrap();
    let sql = insert_of(writer);
    let (mut rows, mut refused) = (0, Vec::new());
    for _ in 0..LOADS {
        match client.query(&sql) {
            Ok(_) => rows += ROWS,
            Err(failure) => refused.push(failure),
        }
    }
    full.wait();
    go_on.wait();
    match client.query("COMMIT") {
        Ok(_) => (rows, refused),
        Err(failure) => {
            refused.push(failure);
            (0, refused)
        }
    }
}

/// Fills the remaining memory with transactions that end with their connections.
fn take_the_rest(port: u16) -> Vec<Client> {
    let sql = insert_of(WRITERS);
    let mut held = Vec::new();
    loop {
        let mut client = Client::connect(port).unwrap();
        client.query("BEGIN").unwrap();
        if client.query(&sql).is_err() {
            return held;
        }
        while client.query(&sql).is_ok() {}
        held.push(client);
    }
}

/// A statement for which there is no memory is refused, and the connection stays usable.
fn too_large_to_be_received(port: u16) {
    let mut client = Client::connect(port).unwrap();
    let refused = client.query(&format!("SELECT '{}'", "z".repeat(4 << 20))).unwrap_err();
    assert!(matches!(refused, Failure::Refused { errno: 1041, .. }), "{refused}");
    assert_eq!(client.number("SELECT 1").unwrap(), 1);
}

#[test]
fn memory_used_up_by_500_writers_is_retryable_and_passes() {
    let world = world();
    // Transactions may use all write memory here, so that these can take what the writers leave.
    let setup = world.setup.clone().with("load_patience", "300ms").with("write_memory", "16MiB");
    let setup = setup.with("transactions_memory", "16MiB");
    let (mut server, _client) = started(&setup);
    let port = server.mysql_port;
    let barriers = || Arc::new(Barrier::new(WRITERS as usize + 1));
    let (full, go_on) = (barriers(), barriers());
    let writers = (0..WRITERS).map(|writer| {
        let (full, go_on) = (Arc::clone(&full), Arc::clone(&go_on));
        thread::spawn(move || write(port, writer, &full, &go_on))
    });
    let writers = writers.collect::<Vec<_>>();
    full.wait();
    let rest = take_the_rest(port);
    too_large_to_be_received(port);
    drop(rest);
    go_on.wait();
    let ended = writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>();
    let refused = ended.iter().flat_map(|(_, refused)| refused).collect::<Vec<_>>();
    assert!(!refused.is_empty(), "the budget was reached");
    for failure in refused {
        assert!(matches!(failure, Failure::Refused { errno: 1041, .. }), "{failure}");
    }
    let rows = ended.iter().map(|(rows, _)| rows).sum::<u64>();
    let mut client = Client::connect(port).unwrap();
    assert_eq!(count(&mut client) as u64, rows);
    insert(&mut client, 1).unwrap();
    server.stop().unwrap();
}

/// A transaction that has read once and stays open, as a connection pool may leave it.
fn forgotten_reader(port: u16) -> Client {
    let mut reader = Client::connect(port).unwrap();
    reader.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").unwrap();
    reader.query("START TRANSACTION").unwrap();
    assert_eq!(count(&mut reader), 1);
    reader
}

/// Writes three times as many rows as the write memory holds.
fn write_beside_it(port: u16) -> i64 {
    let mut writer = Client::connect(port).unwrap();
    let sql = insert_of(1);
    let loads = (48 << 20) / sql.len();
    for _ in 0..loads {
        writer.query(&sql).unwrap();
    }
    1 + loads as i64 * ROWS as i64
}

#[test]
fn writers_do_not_wait_for_a_forgotten_transaction_which_still_reads_what_it_read() {
    let world = world();
    let setup = world.setup.clone().with("load_patience", "5s").with("write_memory", "16MiB");
    let (mut server, mut client) = started(&setup.with("flush_bytes", "2MiB"));
    insert(&mut client, 1).unwrap();
    let mut reader = forgotten_reader(server.mysql_port);
    let rows = write_beside_it(server.mysql_port);
    assert_eq!(count(&mut client), rows);
    assert_eq!(count(&mut reader), 1);
    reader.query("COMMIT").unwrap();
    assert_eq!(count(&mut reader), rows);
    server.stop().unwrap();
}

#[test]
fn a_transaction_whose_snapshot_keeps_too_much_is_told_so_and_reads_anew() {
    let world = world();
    let setup = world.setup.clone().with("load_patience", "5s").with("write_memory", "16MiB");
    let setup = setup.with("flush_bytes", "2MiB").with("snapshot_memory", "4KiB");
    let (mut server, mut client) = started(&setup);
    insert(&mut client, 1).unwrap();
    let mut reader = forgotten_reader(server.mysql_port);
    let rows = write_beside_it(server.mysql_port);
    let failure = reader.query("SELECT COUNT(*) FROM torture.events_0").unwrap_err();
    let Failure::Refused { errno: 1105, message } = &failure else { panic!("{failure}") };
    assert!(message.starts_with("snapshot too old") && message.contains("4 KiB"), "{message}");
    // Its own writes are unaffected.
    reader.query(&insert_of(2)).unwrap();
    reader.query("COMMIT").unwrap();
    // Flush first: a flush during the count could close its snapshot.
    client.query("FLUSH TABLES").unwrap();
    assert_eq!(count(&mut reader), rows + ROWS as i64);
    assert_eq!(count(&mut client), rows + ROWS as i64);
    server.stop().unwrap();
}
