//! The recycle bin through a real server: dropped beside writers, recovered behind `kill -9`,
//! emptied by time and by hand.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
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
