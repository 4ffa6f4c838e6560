//! Generated ids are given once, through crashes and TRUNCATEs.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use freshet_torture::client::{Client, Failure};
use freshet_torture::server::Setup;
use freshet_wire::client::Outcome;

const WRITERS: u64 = 4;
const CRASHES: usize = 6;
/// How many values of sequences are taken at least before a crash.
const TAKEN_MIN: usize = 1_000;
/// How long that may take.
const LATE: Duration = Duration::from_secs(20);

/// The first id of a statement, as its OK packet says.
fn insert(client: &mut Client, sql: &str) -> Result<u64, Failure> {
    match client.outcome(sql)? {
        Outcome::Ok { last_insert_id, .. } => Ok(last_insert_id),
        other => panic!("an INSERT has no {other:?}"),
    }
}

/// Inserts until the server dies; returns the acknowledged ids.
fn write(port: u16, writer: u64, stop: &AtomicBool) -> Vec<u64> {
    let mut ids = Vec::new();
    let Ok(mut client) = Client::connect(port) else { return ids };
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let rows = 1 + (round + writer) % 700;
        let values = vec!["(1)"; rows as usize].join(",");
        let in_transaction = round % 5 == 4;
        let sql = format!("INSERT INTO d.t (v) VALUES {values}");
        let first = match in_transaction {
            false => insert(&mut client, &sql),
            true => client
                .query("BEGIN")
                .and_then(|_| insert(&mut client, &sql))
                .and_then(|first| client.query("COMMIT").map(|_| first)),
        };
        match first {
            Ok(first) => ids.extend(first..first + rows),
            Err(Failure::Refused { errno, message }) => panic!("{errno} {message}"),
            Err(_) => break,
        }
    }
    ids
}

#[test]
fn ids_are_given_once_through_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    client.query("CREATE TABLE d.t (id BIGINT AUTO_INCREMENT, v INT, KEY (id))").unwrap();
    let mut given = BTreeSet::new();
    let mut last = 0;
    for round in 0..CRASHES {
        let (port, stop) = (server.mysql_port, Arc::new(AtomicBool::new(false)));
        let writers = (0..WRITERS).map(|writer| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || write(port, writer, &stop))
        });
        let writers = writers.collect::<Vec<_>>();
        thread::sleep(Duration::from_millis(300 + 100 * round as u64));
        if round == 1 {
            let mut client = Client::connect(port).unwrap();
            client.query("INSERT INTO d.t VALUES (1000000, 0)").unwrap();
            assert!(given.insert(1_000_000), "nobody had this id");
        }
        server.kill();
        stop.store(true, Ordering::Relaxed);
        for id in writers.into_iter().flat_map(|writer| writer.join().unwrap()) {
            assert!(given.insert(id), "id {id} was given twice");
        }
        server = setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        let doubled = client.number("SELECT COUNT(*) - COUNT(DISTINCT id) FROM d.t").unwrap();
        assert_eq!(doubled, 0, "after crash {round}");
        let lost = client.query("SELECT id FROM d.t").unwrap();
        let stored = lost.iter().map(|row| row[0].parse::<u64>().unwrap()).collect::<BTreeSet<_>>();
        assert!(given.is_subset(&stored), "what was acknowledged is there");
        let next = insert(&mut client, "INSERT INTO d.t (v) VALUES (2)").unwrap();
        assert!(next > stored.last().copied().unwrap_or(0).max(last), "{next} is a new one");
        given.insert(next);
        last = next;
    }
}

#[test]
fn a_clean_stop_leaves_no_gap_and_a_truncate_begins_again_durably() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    let create = "CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) AUTO_INCREMENT = 10";
    client.query(create).unwrap();
    assert_eq!(insert(&mut client, "INSERT INTO d.t (v) VALUES (1), (2)").unwrap(), 10);
    server.stop().unwrap();
    server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    assert_eq!(insert(&mut client, "INSERT INTO d.t (v) VALUES (3)").unwrap(), 12);
    client.query("TRUNCATE TABLE d.t").unwrap();
    server.kill();
    server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    assert_eq!(insert(&mut client, "INSERT INTO d.t (v) VALUES (4)").unwrap(), 1);
    client.query("DELETE FROM d.t").unwrap();
    server.kill();
    server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    let next = insert(&mut client, "INSERT INTO d.t (v) VALUES (5)").unwrap();
    assert!(next > 1, "a DELETE does not begin again");
    server.kill();
}

#[test]
fn truncates_beside_writers_double_no_id_and_fail_none() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    client.query("CREATE TABLE d.t (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT)").unwrap();
    let (port, stop) = (server.mysql_port, Arc::new(AtomicBool::new(false)));
    let writers = (0..WRITERS).map(|_| {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let mut client = Client::connect(port).unwrap();
            while !stop.load(Ordering::Relaxed) {
                for behind in ["", " ON DUPLICATE KEY UPDATE v = 2"] {
                    let sql = format!("INSERT INTO d.t (v) VALUES (1), (1){behind}");
                    insert(&mut client, &sql).unwrap();
                }
            }
        })
    });
    let writers = writers.collect::<Vec<_>>();
    for _ in 0..40 {
        thread::sleep(Duration::from_millis(40));
        client.query("TRUNCATE TABLE d.t").unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let doubled = client.number("SELECT COUNT(*) - COUNT(DISTINCT id) FROM d.t").unwrap();
    assert_eq!(doubled, 0);
    let met = client.number("SELECT COUNT(*) FROM d.t WHERE v = 2").unwrap();
    assert_eq!(met, 0, "a new id meets no row");
    server.kill();
}

/// Takes values of sequences until the server dies, some into rows; returns those that it was told.
fn take(port: u16, writer: usize, count: &AtomicUsize, stop: &AtomicBool) -> Vec<u64> {
    let mut told = Vec::new();
    let Ok(mut client) = Client::connect(port) else { return told };
    let of = ["d.s", "d.time"][writer % 2];
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let several = 1 + (round * 37 + writer) % 900;
        let sql = match round % 4 {
            0 => format!("SELECT {of}.NEXTVAL"),
            1 => format!("SELECT NEXTVAL({of}) FROM DUAL"),
            2 => format!("SELECT {of}.NEXTVAL FROM DUAL WHERE COUNT = {several}"),
            _ => {
                let values = vec![format!("({of}.NEXTVAL)"); 1 + several % 50].join(",");
                format!("INSERT INTO d.t VALUES {values}")
            }
        };
        // What a transaction takes and rolls back is not given again either.
        let rolled_back = round % 7 == 0;
        let taken = match rolled_back {
            false => client.query(&sql),
            true => client
                .query("BEGIN")
                .and_then(|_| client.query(&sql))
                .and_then(|rows| client.query("ROLLBACK").map(|_| rows)),
        };
        match taken {
            Ok(rows) => {
                count.fetch_add(rows.len(), Ordering::Relaxed);
                told.extend(rows.iter().map(|row| row[0].parse::<u64>().unwrap()));
            }
            Err(Failure::Refused { errno, message }) => panic!("{errno} {message}"),
            Err(_) => break,
        }
    }
    assert!(told.is_sorted_by(|a, b| a < b), "the values of a connection rise");
    told
}

#[test]
fn values_of_sequences_are_given_once_through_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    client.query("CREATE SEQUENCE d.s START WITH 10").unwrap();
    client.query("CREATE TIME SEQUENCE d.time").unwrap();
    client.query("CREATE TABLE d.t (id BIGINT)").unwrap();
    let mut told = BTreeSet::new();
    for round in 0..CRASHES {
        let (port, stop) = (server.mysql_port, Arc::new(AtomicBool::new(false)));
        let count = Arc::new(AtomicUsize::new(0));
        let writers = (0..WRITERS as usize).map(|writer| {
            let (count, stop) = (Arc::clone(&count), Arc::clone(&stop));
            thread::spawn(move || take(port, writer, &count, &stop))
        });
        let writers = writers.collect::<Vec<_>>();
        thread::sleep(Duration::from_millis(300 + 100 * round as u64));
        // A machine that is busy with other tests takes longer for as many.
        let late = Instant::now() + LATE;
        while count.load(Ordering::Relaxed) <= TAKEN_MIN && Instant::now() < late {
            thread::sleep(Duration::from_millis(10));
        }
        server.kill();
        stop.store(true, Ordering::Relaxed);
        let before = told.len();
        for value in writers.into_iter().flat_map(|writer| writer.join().unwrap()) {
            assert!(told.insert(value), "value {value} was given twice");
        }
        assert!(told.len() > before + TAKEN_MIN, "many were taken: {}", told.len() - before);
        server = setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        let doubled = client.number("SELECT COUNT(*) - COUNT(DISTINCT id) FROM d.t").unwrap();
        assert_eq!(doubled, 0, "after crash {round}");
        for row in client.query("SELECT id FROM d.t").unwrap() {
            let id = row[0].parse::<u64>().unwrap();
            assert!(!told.contains(&id), "{id} is in a row, and was told to somebody else");
        }
    }
    let last = Client::connect(server.mysql_port).unwrap().number("SELECT d.s.NEXTVAL").unwrap();
    server.stop().unwrap();
    server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    let next = client.number("SELECT d.s.NEXTVAL").unwrap();
    assert_eq!(next, last + 1, "a clean stop leaves no gap");
    client.query("ALTER SEQUENCE d.s START WITH 5 INCREMENT BY 5 MAXVALUE 12 CYCLE").unwrap();
    server.kill();
    server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    let four = client.query("SELECT d.s.NEXTVAL FROM DUAL WHERE COUNT = 4").unwrap();
    assert_eq!(four, [["5"], ["10"], ["5"], ["10"]], "an ALTER outlives a crash");
    client.query("DROP SEQUENCE d.s").unwrap();
    server.kill();
    server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    assert!(client.query("SELECT d.s.NEXTVAL").is_err(), "so does a DROP");
    server.kill();
}
