//! The recycle bin through a real server: dropped beside writers, recovered behind `kill -9`,
//! emptied by time and by hand.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use freshet_torture::client::Client;
use freshet_torture::server::Setup;

const WRITERS: u64 = 3;
const ROUNDS: u64 = 4;

/// Inserts until the table is gone; returns how many rows were acknowledged.
fn write(port: u16, writer: u64, round: u64) -> u64 {
    let mut client = Client::connect(port).unwrap();
    for row in 0.. {
        let id = (round << 40) + (writer << 32) + row;
        if let Err(failure) = client.query(&format!("INSERT INTO d.t VALUES ({id}, {id})")) {
            let text = failure.to_string();
            assert!(text.contains("1146"), "{text}");
            return row;
        }
    }
    unreachable!("it writes until the table is gone")
}

#[test]
fn a_table_comes_back_with_every_acknowledged_row() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    client.query("CREATE TABLE d.t (id BIGINT PRIMARY KEY, v BIGINT, KEY k (v))").unwrap();
    let mut written = 0;
    for round in 0..ROUNDS {
        let port = server.mysql_port;
        let writers = (0..WRITERS).map(|writer| thread::spawn(move || write(port, writer, round)));
        let writers = writers.collect::<Vec<_>>();
        thread::sleep(Duration::from_millis(300));
        if round == 1 {
            client.query("FLUSH TABLES d.t").unwrap();
        }
        client.query("DROP TABLE d.t").unwrap();
        written += writers.into_iter().map(|writer| writer.join().unwrap()).sum::<u64>();
        let bin = client.query("SHOW CATALOG RECYCLE BIN WHERE Name = 't'").unwrap();
        assert_eq!(bin.len(), 1);
        server.kill();
        server = setup.start().unwrap();
        client = Client::connect(server.mysql_port).unwrap();
        assert!(client.query("SELECT * FROM d.t").is_err(), "it is dropped behind a start, too");
        client.query("RECOVER TABLE d.t").unwrap();
        if round % 2 == 1 {
            server.kill();
            server = setup.start().unwrap();
            client = Client::connect(server.mysql_port).unwrap();
        }
        let rows = client.query("SELECT COUNT(*), COUNT(DISTINCT v) FROM d.t").unwrap();
        assert_eq!(rows, [vec![written.to_string(); 2]]);
    }
    assert!(written > ROUNDS * WRITERS, "{written} rows are no test");
    let some = client.query("SELECT v FROM d.t LIMIT 1").unwrap();
    let one = client.query(&format!("SELECT id FROM d.t WHERE v = {}", some[0][0])).unwrap();
    assert_eq!(one, some);
    server.kill();
    setup.check_files().unwrap();
}

/// Inserts into a partition until it is gone, or `stop` says so; returns how many rows were
/// acknowledged.
fn write_days(port: u16, (day, first): (&str, u64), stop: &AtomicBool) -> u64 {
    let mut client = Client::connect(port).unwrap();
    for row in 0.. {
        let id = (first << 32) + row;
        if stop.load(Ordering::Relaxed) {
            return row;
        }
        let insert = format!("INSERT INTO d.days VALUES ('{day}', {id}, {id})");
        if let Err(failure) = client.query(&insert) {
            let text = failure.to_string();
            assert!(text.contains("1526"), "{text}");
            return row;
        }
    }
    unreachable!("it writes until the partition is gone")
}

#[test]
fn a_partition_comes_back_with_every_acknowledged_row() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    let table = "CREATE TABLE d.days (day DATE NOT NULL, id BIGINT, v BIGINT) UNIQUE KEY(day, id) \
                 PARTITION BY RANGE(day) (PARTITION p1 VALUES LESS THAN ('2024-02-01'), \
                 PARTITION p2 VALUES LESS THAN ('2024-03-01')) DISTRIBUTED BY HASH(id) BUCKETS 2";
    client.query(table).unwrap();
    let (mut written, mut beside) = (0, 0);
    for round in 0..ROUNDS {
        let (port, stop) = (server.mysql_port, Arc::new(AtomicBool::new(false)));
        let writer = |day: &'static str, writer: u64| {
            let (first, stop) = (round * WRITERS + writer, Arc::clone(&stop));
            thread::spawn(move || write_days(port, (day, first), &stop))
        };
        let writers = [writer("2024-01-05", 0), writer("2024-01-06", 1)];
        let other = writer("2024-02-05", 2);
        thread::sleep(Duration::from_millis(300));
        if round % 2 == 0 {
            // Dead rows stay dead.
            let dead = client.query("SELECT COUNT(*) FROM d.days WHERE id % 7 = 0").unwrap();
            client.query("DELETE FROM d.days WHERE day < '2024-02-01' AND id % 7 = 0").unwrap();
            assert_ne!(dead[0][0], "0");
        }
        client.query("ALTER TABLE d.days DROP PARTITION p1").unwrap();
        written += writers.into_iter().map(|writer| writer.join().unwrap()).sum::<u64>();
        let alive = "SELECT COUNT(*) FROM d.days";
        stop.store(true, Ordering::Relaxed);
        beside += other.join().unwrap();
        assert_eq!(client.query(alive).unwrap()[0][0], beside.to_string());
        server.kill();
        server = setup.start().unwrap();
        client = Client::connect(server.mysql_port).unwrap();
        assert_eq!(client.query(alive).unwrap()[0][0], beside.to_string());
        client.query("RECOVER PARTITION p1 FROM d.days").unwrap();
        if round % 2 == 1 {
            server.kill();
            server = setup.start().unwrap();
            client = Client::connect(server.mysql_port).unwrap();
        }
        let rows =
            "SELECT COUNT(*), COUNT(DISTINCT id), SUM(id % 7 = 0) FROM d.days PARTITION (p1)";
        let rows = client.query(rows).unwrap();
        assert_eq!(rows[0][0], rows[0][1], "no row is there twice");
        let left = rows[0][0].parse::<u64>().unwrap();
        assert!(left > 0 && left <= written, "{left} of {written} rows");
        // What was deleted is no longer counted.
        written = left;
    }
    assert!(written > ROUNDS * WRITERS, "{written} rows are no test");
    server.kill();
    setup.check_files().unwrap();
}

#[test]
fn partitions_leave_the_bin_by_time_and_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    let table = "CREATE TABLE d.l (a INT NOT NULL) DUPLICATE KEY(a) PARTITION BY LIST(a) \
                 (PARTITION p1 VALUES IN ('1'), PARTITION p2 VALUES IN ('2'), PARTITION p3 VALUES \
                 IN ('3')) DISTRIBUTED BY HASH(a) BUCKETS 1";
    client.query(table).unwrap();
    client.query("INSERT INTO d.l VALUES (1), (2), (3)").unwrap();
    client.query("ALTER TABLE d.l DROP PARTITION p1").unwrap();
    client.query("ALTER TABLE d.l DROP PARTITION p2").unwrap();
    let bin = client.query("SHOW CATALOG RECYCLE BIN ORDER BY Name").unwrap();
    let names = bin.iter().map(|row| (&*row[0], &*row[1])).collect::<Vec<_>>();
    assert_eq!(names, [("Partition", "p1"), ("Partition", "p2")]);
    let purge = format!("DROP CATALOG RECYCLE BIN WHERE 'PartitionId' = {}", bin[0][4]);
    client.query(&purge).unwrap();
    assert!(client.query(&purge).is_err());
    assert!(client.query("RECOVER PARTITION p1 FROM d.l").is_err());
    let by_id = format!("RECOVER PARTITION p2 {} AS again FROM d.l", bin[1][4]);
    client.query(&by_id).unwrap();
    assert_eq!(client.query("SELECT a FROM d.l ORDER BY a").unwrap(), [["2"], ["3"]]);
    client.query("ALTER TABLE d.l DROP PARTITION p3").unwrap();
    server.stop().unwrap();

    let short = setup.clone().with("recycle_bin_keep", "1s");
    let mut server = short.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while !client.query("SHOW CATALOG RECYCLE BIN").unwrap().is_empty() {
        assert!(Instant::now() < patience, "it stays in the bin");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(client.query("RECOVER PARTITION p3 FROM d.l").is_err());
    server.stop().unwrap();
    setup.check_files().unwrap();
}

#[test]
fn the_bin_is_emptied_by_time_and_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE d").unwrap();
    for table in ["a", "b"] {
        client.query(&format!("CREATE TABLE d.{table} (id INT)")).unwrap();
        client.query(&format!("INSERT INTO d.{table} VALUES (1)")).unwrap();
        client.query(&format!("DROP TABLE d.{table}")).unwrap();
    }
    let bin = client.query("SHOW CATALOG RECYCLE BIN ORDER BY Name").unwrap();
    let names = bin.iter().map(|row| (&*row[0], &*row[1])).collect::<Vec<_>>();
    assert_eq!(names, [("Table", "a"), ("Table", "b")]);
    client.query(&format!("DROP CATALOG RECYCLE BIN WHERE 'TableId' = {}", bin[0][3])).unwrap();
    assert!(client.query("RECOVER TABLE d.a").is_err());
    let config = "ADMIN SHOW FRONTEND CONFIG LIKE 'catalog_trash_expire_second'";
    assert_eq!(client.query(config).unwrap()[0][1], "86400");
    server.stop().unwrap();

    let short = setup.clone().with("recycle_bin_keep", "1s");
    let mut server = short.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while !client.query("SHOW CATALOG RECYCLE BIN").unwrap().is_empty() {
        assert!(Instant::now() < patience, "it stays in the bin");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(client.query("RECOVER TABLE d.b").is_err());
    server.stop().unwrap();

    let none = setup.clone().with("recycle_bin_keep", "0");
    let mut server = none.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE TABLE d.c (id INT)").unwrap();
    client.query("DROP TABLE d.c").unwrap();
    assert!(client.query("SHOW CATALOG RECYCLE BIN").unwrap().is_empty());
    assert!(client.query("RECOVER TABLE d.c").is_err());
    server.stop().unwrap();
}
