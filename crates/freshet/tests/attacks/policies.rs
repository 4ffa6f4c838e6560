//! Row policies over `kill -9`, and beside changes of their table.
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use freshet_torture::server::{Server, Setup};
use freshet_wire::Param;
use freshet_wire::client::{Outcome, Value};

use crate::TestServer;
use crate::client::Client;

fn log_in(server: &Server, user: &str) -> Client {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.mysql_port));
    Client::connect(address, user, "", None).unwrap()
}

#[test]
fn what_was_answered_holds_behind_each_crash() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::new(Path::new(env!("CARGO_BIN_EXE_freshet")), dir.path());
    let mut server = setup.start().unwrap();
    let mut root = log_in(&server, "root");
    root.run("CREATE DATABASE d");
    root.run("CREATE TABLE d.t (id INT PRIMARY KEY, tenant INT)");
    root.run("INSERT INTO d.t VALUES (1, 1), (2, 2), (3, 3)");
    root.run("CREATE USER u");
    root.run("GRANT SELECT ON d.* TO u");
    for (statement, seen) in [
        ("CREATE ROW POLICY a ON d.t AS PERMISSIVE TO u USING (tenant = 1)", "1"),
        ("CREATE ROW POLICY b ON d.t AS PERMISSIVE TO u USING (tenant = 2)", "1,2"),
        ("RENAME TABLE d.t TO d.s, d.s TO d.t", "1,2"),
        ("CREATE ROW POLICY c ON d.t AS RESTRICTIVE TO u USING (id > 1)", "2"),
        ("FLUSH TABLES", "2"),
        ("DROP ROW POLICY c ON d.t", "1,2"),
        ("DROP TABLE d.t", ""),
        ("RECOVER TABLE d.t", "1,2"),
        ("DROP ROW POLICY b", "1"),
    ] {
        root.run(statement);
        server.kill();
        server = setup.start().unwrap();
        root = log_in(&server, "root");
        let mut user = log_in(&server, "u");
        match user.query("SELECT id FROM d.t ORDER BY id") {
            Outcome::Rows(rows) => {
                let ids = rows.rows.iter().map(|row| crate::client::text(&row[0]));
                assert_eq!(ids.collect::<Vec<_>>().join(","), seen, "{statement}");
            }
            other => assert_eq!(seen, "", "{statement}: {other:?}"),
        }
    }
    assert!(root.fails("DROP USER u").message.contains("row policies restrict it"));
    root.run("DROP TABLE d.t");
    assert_eq!(root.texts("SHOW ROW POLICY").len(), 0, "it rests in the recycle bin");
    root.run("DROP USER u");
    root.run("RECOVER TABLE d.t");
    root.run("CREATE USER u");
    root.run("GRANT SELECT ON d.* TO u");
    assert_eq!(log_in(&server, "u").texts("SELECT id FROM d.t"), [["1"]]);
    drop(root);
    server.stop().unwrap();
    setup.check_files().unwrap();
}

#[test]
fn no_hidden_row_is_seen_beside_changes_of_the_table() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("CREATE TABLE t (id INT PRIMARY KEY, tenant INT, v INT)");
    root.run("CREATE USER u");
    root.run("GRANT SELECT, UPDATE, DELETE ON d.* TO u");
    root.run("CREATE ROW POLICY p ON d.t AS PERMISSIVE TO u USING (tenant = 1)");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for reader in 0..3 {
            let (server, over) = (&server, &over);
            scope.spawn(move || {
                let mut user = server.log_in("u").unwrap();
                user.run("USE d");
                // The table may be called otherwise just now.
                let sql = "SELECT COUNT(*) FROM t WHERE tenant <> ?";
                let prepared = loop {
                    if let Ok(prepared) = user.prepare(sql) {
                        break prepared.statement_id;
                    }
                };
                let mut looks = 0;
                while !over.load(Ordering::Relaxed) || looks < 5 {
                    looks += 1;
                    if let Outcome::Rows(rows) = user.execute(prepared, &[Param::Int(1)]) {
                        assert_eq!(rows.rows[0][0], Value::Int(0));
                    }
                    for sql in [
                        "SELECT tenant FROM t WHERE tenant > 1",
                        "SELECT tenant FROM t WHERE id = 2",
                        "SELECT a.tenant FROM t a JOIN t b ON a.id = b.id WHERE b.tenant = 2",
                    ] {
                        // A table that is just being altered or is gone fails by name.
                        if let Outcome::Rows(rows) = user.query(sql) {
                            assert!(rows.rows.is_empty(), "{sql}: {rows:?}");
                        }
                    }
                    let changed = user.query(match reader {
                        0 => "UPDATE t SET v = -1 WHERE tenant = 2",
                        1 => "DELETE FROM t WHERE id = 2",
                        _ => "UPDATE t SET v = -1 WHERE id = 2",
                    });
                    if let Outcome::Ok { affected_rows, .. } = changed {
                        assert_eq!(affected_rows, 0);
                    }
                }
            });
        }
        for round in 0..6 {
            root.run("INSERT INTO t (id, tenant, v) VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)");
            root.run(&format!("ALTER TABLE t ADD COLUMN c{round} INT DEFAULT 7"));
            root.run("FLUSH TABLES t");
            root.run("RENAME TABLE t TO other");
            root.run("RENAME TABLE other TO t");
            assert_eq!(root.one("SELECT SUM(v) FROM t WHERE id > 1"), "5");
            root.run("TRUNCATE TABLE t");
        }
        over.store(true, Ordering::Relaxed);
    });
}
