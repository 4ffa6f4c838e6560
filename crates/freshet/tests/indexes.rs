//! Indexes through a real server: of files from before CREATE INDEX, and under writers and crashes;
//! a query that goes by an index gives what a scan gives.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use freshet_torture::client::{Client, Failure};
use freshet_torture::server::Setup;

const CRASHES: usize = 3;
const VALUES: u64 = 8;

/// What FORMAT=TRADITIONAL calls the key of a query of one table.
fn key_of(client: &mut Client, query: &str) -> String {
    let rows = client.query(&format!("EXPLAIN FORMAT=TRADITIONAL {query}")).unwrap();
    rows[0][6].clone()
}

#[test]
fn files_from_before_an_index_are_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    client.query("CREATE TABLE d.p (id INT PRIMARY KEY, a INT)").unwrap();
    client.query("CREATE TABLE d.l (id INT, a INT)").unwrap();
    let rows = (0..1000).map(|id| format!("({id}, {})", id % 100)).collect::<Vec<_>>().join(",");
    for table in ["p", "l"] {
        client.query(&format!("INSERT INTO d.{table} VALUES {rows}")).unwrap();
        client.query(&format!("FLUSH TABLES d.{table}")).unwrap();
        client.query(&format!("CREATE INDEX k ON d.{table} (a)")).unwrap();
    }
    let patience = Instant::now() + Duration::from_secs(120);
    for table in ["p", "l"] {
        let query = format!("SELECT * FROM d.{table} WHERE a = 7");
        while key_of(&mut client, &query) != "k" {
            assert!(Instant::now() < patience, "the files of {table} have no index");
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(client.query(&query).unwrap().len(), 10);
    }
    server.kill();
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    for table in ["p", "l"] {
        let query = format!("SELECT * FROM d.{table} WHERE a = 7");
        assert_eq!(key_of(&mut client, &query), "k");
        assert_eq!(client.query(&query).unwrap().len(), 10);
    }
    server.kill();
    setup.check_files().unwrap();
}

/// Changes rows of `d.p` until the server dies.
fn write(port: u16, writer: u64, stop: &AtomicBool) {
    let Ok(mut client) = Client::connect(port) else { return };
    for n in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let (id, a) = (writer * 1000 + n * 7 % 300, n * 13 % VALUES);
        let statement = match n % 5 {
            0 | 1 => format!("REPLACE INTO d.p VALUES ({id}, {a}, {n}), ({}, {n}, 0)", id + 1),
            2 => format!("UPDATE d.p SET a = {a}, b = {n} WHERE b = {}", n / 2),
            3 => format!("DELETE FROM d.p WHERE a = {a} AND id > {id}"),
            _ => "FLUSH TABLES d.p".to_owned(),
        };
        match client.query(&statement) {
            Ok(_) | Err(Failure::Refused { errno: 1205 | 1213, .. }) => {}
            Err(Failure::Refused { errno, message }) => panic!("{errno} {message}"),
            Err(_) => return,
        }
    }
}

/// Compares what an index finds with what a scan finds.
fn check(client: &mut Client) {
    for value in 0..VALUES {
        for (by_index, by_scan) in
            [("a = ", "a + 0 = "), ("b = 0 AND a <= ", "b + 0 = 0 AND a + 0 <= ")]
        {
            // One statement has one snapshot, whatever writers do meanwhile.
            let ids = |condition: &str| {
                format!("(SELECT COALESCE(SUM(id * id), -1) FROM d.p WHERE {condition}{value})")
            };
            let sql = format!("SELECT {}, {}", ids(by_index), ids(by_scan));
            let row = &client.query(&sql).unwrap()[0];
            assert_eq!(row[0], row[1], "{sql}");
        }
    }
}

#[test]
fn an_index_finds_what_a_scan_finds_through_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    client.query("CREATE TABLE d.p (id INT PRIMARY KEY, a INT, b INT, KEY k (a))").unwrap();
    for crash in 0..CRASHES {
        let stop = Arc::new(AtomicBool::new(false));
        let writers = [0, 1].map(|writer| {
            let (port, stop) = (server.mysql_port, Arc::clone(&stop));
            thread::spawn(move || write(port, writer, &stop))
        });
        check(&mut client);
        match crash {
            0 => client.query("CREATE INDEX kb ON d.p (b, a)").map(drop).unwrap(),
            1 => client.query("DROP INDEX k ON d.p").map(drop).unwrap(),
            2 => client.query("CREATE INDEX k ON d.p (a, id)").map(drop).unwrap(),
            _ => {}
        }
        thread::sleep(Duration::from_millis(500));
        check(&mut client);
        server.kill();
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        setup.check_files().unwrap();
        server = setup.start().unwrap();
        client = Client::connect(server.mysql_port).unwrap();
        check(&mut client);
    }
    server.kill();
    setup.check_files().unwrap();
}
