//! What a database says of new tables is durable, and what the server says comes from its settings.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;

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
fn a_collation_that_is_not_known_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let setup = setup.with("collation_server", "utf8mb4_klingon_ci");
    let mut server = setup.spawn().unwrap();
    let why = server.wait_ready().unwrap_err() + &server.said();
    assert!(why.contains("'utf8mb4_klingon_ci' is not a known collation"), "{why}");
}
