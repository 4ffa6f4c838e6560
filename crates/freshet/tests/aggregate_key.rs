//! The rows of an AGGREGATE KEY become one, through flushes, merges and crashes: each key has every
//! acknowledged row once, the values of its last one, and sets of all.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use freshet_torture::client::{Client, Failure};
use freshet_torture::server::{Server, Setup};

const WRITERS: u64 = 3;
const KEYS_OF_WRITER: u64 = 5;
const CRASHES: usize = 5;

/// Inserts from this row of its writer on until the server dies: row `n` is of key `n % 5` of the
/// writer. Returns the first row that is not acknowledged.
fn write(port: u16, writer: u64, first: u64, stop: &AtomicBool) -> u64 {
    let Ok(mut client) = Client::connect(port) else { return first };
    for n in first.. {
        if stop.load(Ordering::Relaxed) {
            return n;
        }
        let key = writer * KEYS_OF_WRITER + n % KEYS_OF_WRITER;
        let text = if n % 3 == 0 { "NULL".to_owned() } else { n.to_string() };
        let sql = format!(
            "INSERT INTO d.t VALUES ({key}, 0, {n}, {n}, 0, {n}, TO_BITMAP({n}), HLL_HASH({n})), \
             ({key}, 1, {n}, {n}, {n}, {text}, BITMAP_EMPTY(), HLL_HASH({n}))"
        );
        match client.query(&sql) {
            Ok(_) => {}
            Err(Failure::Refused { errno, message }) => panic!("{errno} {message}"),
            Err(_) => return n,
        }
        if n % 16 == 0 && client.query("FLUSH TABLES d.t").is_err() {
            return n + 1;
        }
    }
    unreachable!("rows do not end")
}

fn merges(server: &Server) -> u64 {
    let stream = TcpStream::connect(("127.0.0.1", server.http_port));
    let mut stream = stream.unwrap_or_else(|_| panic!("it ended: {}", server.said()));
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find(|line| line.starts_with("freshet_compactions_total ")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Checks every key of a writer, whose rows below `acknowledged` are acknowledged; returns the
/// row with which it goes on.
fn check(client: &mut Client, writer: u64, acknowledged: u64) -> u64 {
    let first = writer * KEYS_OF_WRITER;
    let sql = format!(
        "SELECT k, rows_in, oldest, newest, last, known, BITMAP_COUNT(ids), BITMAP_MAX(ids), \
         HLL_CARDINALITY(seen) FROM d.t WHERE k >= {first} AND k < {}",
        first + KEYS_OF_WRITER
    );
    let mut next = acknowledged;
    for row in client.query(&sql).unwrap() {
        let numbers = row.iter().map(|cell| cell.parse::<u64>().unwrap()).collect::<Vec<_>>();
        let [key, rows, oldest, newest, last, known, ids, id_max, seen] = numbers[..] else {
            panic!("{row:?}")
        };
        assert_eq!((ids, id_max), (rows, newest), "{row:?}");
        assert!(seen.abs_diff(rows) * 20 <= rows, "{row:?}");
        let of_key = key - first;
        assert_eq!((oldest, rows), (of_key, (newest - of_key) / KEYS_OF_WRITER + 1), "{row:?}");
        // The second row of each INSERT is the last one.
        assert_eq!((last, known), (newest, newest), "{row:?}");
        next = next.max(newest + 1);
    }
    assert!(next <= acknowledged + 1, "one INSERT was under way at {acknowledged}: {next}");
    let stored = client.number("SELECT COALESCE(SUM(rows_in), 0) FROM d.t").unwrap() as u64;
    assert!(stored >= next, "each row up to {next} is there: {stored}");
    next
}

#[test]
fn keys_have_each_row_once_and_the_last_values() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    let create = "CREATE TABLE d.t (k INT, rows_in BIGINT SUM, oldest BIGINT MIN, \
         newest BIGINT MAX, \
         last BIGINT REPLACE, known VARCHAR(20) REPLACE_IF_NOT_NULL, ids BITMAP BITMAP_UNION, \
         seen HLL HLL_UNION) AGGREGATE KEY(k) \
         DISTRIBUTED BY HASH(k) BUCKETS 2";
    client.query(create).unwrap();
    let (mut next, mut merged) = ([0; WRITERS as usize], 0);
    for round in 0..CRASHES {
        let (port, stop) = (server.mysql_port, Arc::new(AtomicBool::new(false)));
        let writers = (0..WRITERS).zip(next).map(|(writer, first)| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || write(port, writer, first, &stop))
        });
        let writers = writers.collect::<Vec<_>>();
        thread::sleep(Duration::from_millis(500 + 200 * round as u64));
        merged += merges(&server);
        server.kill();
        stop.store(true, Ordering::Relaxed);
        let acknowledged = writers.into_iter().map(|writer| writer.join().unwrap());
        let acknowledged = acknowledged.collect::<Vec<_>>();
        server = setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        for (writer, acknowledged) in (0..WRITERS).zip(acknowledged) {
            next[writer as usize] = check(&mut client, writer, acknowledged);
        }
    }
    assert!(merged > 0, "files were merged");
    server.stop().unwrap();
    setup.check_files().unwrap();
}
