//! What a database says of new tables is durable, and what the server says comes from its settings.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use freshet_torture::client::Client;
use freshet_torture::server::Setup;

/// The collation of a new table of `database`.
fn of_new_table(client: &mut Client, database: &str) -> String {
    client.query(&format!("CREATE TABLE {database}.new (a VARCHAR(10))")).unwrap();
    let rows = client.query(&format!("SHOW TABLE STATUS FROM {database} LIKE 'new'")).unwrap();
    client.query(&format!("DROP TABLE {database}.new FORCE")).unwrap();
    rows[0][14].clone()
}

#[test]
fn a_database_keeps_its_collation_through_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE own").unwrap();
    client.query("CREATE DATABASE said COLLATE utf8mb4_general_ci").unwrap();
    client.query("CREATE DATABASE altered").unwrap();
    client.query("CREATE TABLE altered.old (a VARCHAR(10) PRIMARY KEY)").unwrap();
    client.query("INSERT INTO altered.old VALUES ('a')").unwrap();
    client.query("ALTER DATABASE altered COLLATE utf8mb4_bin").unwrap();
    server.kill();
    // The setting is of databases that are created from here on.
    let setup = setup.with("collation_server", "utf8mb4_unicode_ci");
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE late").unwrap();
    client.query("SET GLOBAL collation_server = 'utf8mb4_0900_as_cs'").unwrap();
    client.query("CREATE DATABASE of_session").unwrap();
    let mut other = Client::connect(server.mysql_port).unwrap();
    other.query("CREATE DATABASE of_global").unwrap();
    server.kill();
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    for (database, wanted) in [
        ("own", "utf8mb4_0900_ai_ci"),
        ("said", "utf8mb4_general_ci"),
        ("altered", "utf8mb4_bin"),
        ("late", "utf8mb4_unicode_ci"),
        ("of_session", "utf8mb4_unicode_ci"),
        ("of_global", "utf8mb4_0900_as_cs"),
    ] {
        assert_eq!(of_new_table(&mut client, database), wanted, "{database}");
    }
    let shown = client.query("SELECT @@collation_server, @@collation_database").unwrap();
    assert_eq!(shown, [["utf8mb4_unicode_ci", "utf8mb4_unicode_ci"]]);
    // The table is older than what its database says now.
    let twice = client.query("INSERT INTO altered.old VALUES ('A')").unwrap_err().to_string();
    assert!(twice.contains("1062"), "{twice}");
    server.kill();
    setup.check_files().unwrap();
}

#[test]
fn a_table_that_was_converted_and_an_account_that_was_renamed_stay_so_through_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    for sql in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(10))",
        "INSERT INTO d.t VALUES (1, 'x')",
        "CREATE INDEX of_b ON d.t (b)",
        "FLUSH TABLES d.t",
        "INSERT INTO d.t VALUES (2, 'X')",
        "ALTER TABLE d.t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "CREATE USER old IDENTIFIED BY 'secret'",
        "GRANT SELECT ON d.* TO old",
        "RENAME USER old TO new",
    ] {
        client.query(sql).unwrap();
    }
    for _ in 0..2 {
        server.kill();
        server = setup.start().unwrap();
        client = Client::connect(server.mysql_port).unwrap();
        let found = client.query("SELECT a FROM d.t WHERE b = 'x'").unwrap();
        assert_eq!(found, [["1"]], "by bytes, and by an index from before");
        let table = client.query("SHOW TABLE STATUS FROM d LIKE 't'").unwrap();
        assert_eq!(table[0][14], "utf8mb4_bin");
        let grants = client.query("SHOW GRANTS FOR new").unwrap();
        assert!(grants.iter().any(|row| row[0].contains("GRANT SELECT ON `d`.*")), "{grants:?}");
        assert!(client.query("SHOW GRANTS FOR old").is_err());
    }
    server.kill();
    setup.check_files().unwrap();
}

#[test]
fn a_collation_that_is_not_known_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let setup = setup.with("collation_server", "utf8mb4_klingon_ci");
    let mut server = setup.spawn().unwrap();
    let why = server.wait_ready().unwrap_err() + &server.said();
    assert!(why.contains("'utf8mb4_klingon_ci' is not a known collation"), "{why}");
}

#[test]
fn a_table_that_went_to_another_database_is_there_after_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    for sql in [
        "CREATE DATABASE a",
        "CREATE DATABASE b",
        "CREATE TABLE a.t (id INT PRIMARY KEY, n INT)",
        "INSERT INTO a.t VALUES (1, 0)",
        "FLUSH TABLES a.t",
        "INSERT INTO a.t VALUES (2, 0)",
    ] {
        client.query(sql).unwrap();
    }
    // Somebody writes beside each RENAME, and is told where the table is not.
    let (port, is_over) = (server.mysql_port, Arc::new(AtomicBool::new(false)));
    let watched = Arc::clone(&is_over);
    let writer = thread::spawn(move || {
        let mut client = Client::connect(port).unwrap();
        let mut acknowledged = 0;
        for at in (0..).take_while(|_| !watched.load(Ordering::Acquire)) {
            for database in ["a", "b"] {
                let id = 10 + 2 * at + i32::from(database == "b");
                match client.query(&format!("INSERT INTO {database}.t VALUES ({id}, 1)")) {
                    Ok(_) => acknowledged += 1,
                    Err(error) => assert!(error.to_string().contains("1146"), "{error}"),
                }
            }
        }
        acknowledged
    });
    for (from, to) in [("a", "b"), ("b", "a")].into_iter().cycle().take(21) {
        client.query(&format!("RENAME TABLE {from}.t TO {to}.t")).unwrap();
    }
    is_over.store(true, Ordering::Release);
    let acknowledged: i32 = writer.join().unwrap();
    let wanted = acknowledged.to_string();
    client.query("DROP DATABASE a FORCE").unwrap();
    for _ in 0..2 {
        let found = client.query("SELECT COUNT(*), SUM(n) FROM b.t").unwrap();
        assert_eq!(found, [[(acknowledged + 2).to_string(), wanted.clone()]]);
        server.kill();
        server = setup.start().unwrap();
        client = Client::connect(server.mysql_port).unwrap();
    }
    let twice = client.query("INSERT INTO b.t VALUES (2, 0)").unwrap_err().to_string();
    assert!(twice.contains("1062"), "{twice}");
    client.query("DROP DATABASE b FORCE").unwrap();
    server.kill();
    setup.check_files().unwrap();
}
