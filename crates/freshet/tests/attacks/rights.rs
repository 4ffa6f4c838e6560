//! Privileges: every statement and every HTTP endpoint requires its privileges, and refusals reveal
//! nothing.
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use freshet_wire::client::Outcome;

use crate::client::Client;
use crate::web::authorization;
use crate::{TestServer, failure};

/// A statement with all the privileges it requires.
struct Guarded {
    /// Statements that root runs before each attempt.
    before: &'static str,
    statement: &'static str,
    rights: &'static [&'static str],
}

const fn guarded(
    before: &'static str,
    statement: &'static str,
    rights: &'static [&'static str],
) -> Guarded {
    Guarded { before, statement, rights }
}

const T: &str = "CREATE TABLE IF NOT EXISTS d.t (a INT, b INT)";
const U: &str = "DROP TABLE IF EXISTS d.u";
const VIEW: &str = "CREATE TABLE IF NOT EXISTS d.t (a INT, b INT); \
    CREATE OR REPLACE VIEW d.seen AS SELECT * FROM d.t";
const SEQUENCE: &str = "CREATE SEQUENCE IF NOT EXISTS d.s";
const VICTIM: &str = "CREATE USER IF NOT EXISTS victim";

const STATEMENTS: &[Guarded] = &[
    guarded(T, "SELECT * FROM d.t", &["SELECT ON d.t"]),
    guarded(T, "SELECT (SELECT COUNT(*) FROM d.t)", &["SELECT ON d.t"]),
    guarded(T, "WITH x AS (SELECT a FROM d.t) SELECT 1 UNION SELECT a FROM x", &["SELECT ON d.t"]),
    guarded(T, "SELECT 1 FROM DUAL WHERE EXISTS (SELECT 1 FROM d.t)", &["SELECT ON d.t"]),
    guarded(T, "EXPLAIN SELECT * FROM d.t", &["SELECT ON d.t"]),
    guarded(T, "EXPLAIN ANALYZE SELECT * FROM d.t", &["SELECT ON d.t"]),
    guarded(T, "DO (SELECT COUNT(*) FROM d.t)", &["SELECT ON d.t"]),
    guarded(T, "SET @x = (SELECT COUNT(*) FROM d.t)", &["SELECT ON d.t"]),
    guarded(T, "DESCRIBE d.t", &["SELECT ON d.t"]),
    guarded(T, "SHOW COLUMNS FROM d.t", &["SELECT ON d.t"]),
    guarded(T, "SHOW INDEX FROM d.t", &["SELECT ON d.t"]),
    guarded(T, "SHOW CREATE TABLE d.t", &["SELECT ON d.t"]),
    guarded(T, "SHOW PARTITIONS FROM d.t", &["SELECT ON d.t"]),
    guarded(T, "SHOW TABLETS FROM d.t", &["SELECT ON d.t"]),
    guarded(T, "INSERT INTO d.t VALUES (1, 2)", &["INSERT ON d.t"]),
    guarded(T, "INSERT INTO d.t VALUES (1, 1 + 1)", &["INSERT ON d.t"]),
    guarded(
        "CREATE TABLE IF NOT EXISTS d.s (a INT, b INT)",
        "INSERT INTO d.t SELECT * FROM d.s",
        &["INSERT ON d.t", "SELECT ON d.s"],
    ),
    guarded("DROP DATABASE IF EXISTS e", "CREATE DATABASE e", &["CREATE ON e.*"]),
    guarded("CREATE DATABASE IF NOT EXISTS e", "DROP DATABASE e", &["DROP ON e.*"]),
    guarded(U, "CREATE TABLE d.u (a INT)", &["CREATE ON d.u"]),
    guarded(U, "CREATE TABLE d.u LIKE d.t", &["CREATE ON d.u", "SELECT ON d.t"]),
    guarded(
        U,
        "CREATE TABLE d.u AS SELECT * FROM d.t",
        &["CREATE ON d.u", "INSERT ON d.u", "SELECT ON d.t"],
    ),
    guarded("CREATE TABLE IF NOT EXISTS d.u (a INT)", "DROP TABLE d.u", &["DROP ON d.u"]),
    guarded(T, "TRUNCATE TABLE d.t", &["DROP ON d.t"]),
    guarded(T, "ALTER TABLE d.t ADD COLUMN c INT", &["ALTER ON d.t"]),
    guarded(
        "DROP TABLE IF EXISTS d.open; DROP TABLE IF EXISTS d.shut; CREATE TABLE d.shut (a INT)",
        "ALTER TABLE d.shut RENAME TO open",
        &["ALTER ON d.shut", "DROP ON d.shut", "CREATE ON d.open", "INSERT ON d.open"],
    ),
    guarded(
        "DROP TABLE IF EXISTS d.open; DROP TABLE IF EXISTS d.shut; CREATE TABLE d.shut (a INT)",
        "RENAME TABLE d.shut TO d.open",
        &["ALTER ON d.shut", "DROP ON d.shut", "CREATE ON d.open", "INSERT ON d.open"],
    ),
    guarded(
        "CREATE TABLE IF NOT EXISTS d.t (a INT, b INT); DROP VIEW IF EXISTS d.seen",
        "CREATE VIEW d.seen AS SELECT * FROM d.t",
        &["CREATE VIEW ON d.seen", "SELECT ON d.t"],
    ),
    guarded(
        "CREATE TABLE IF NOT EXISTS d.t (a INT, b INT)",
        "CREATE OR REPLACE VIEW d.seen AS SELECT a FROM d.t",
        &["CREATE VIEW ON d.seen", "DROP ON d.seen", "SELECT ON d.t"],
    ),
    guarded(VIEW, "SELECT * FROM d.seen", &["SELECT ON d.seen"]),
    guarded(VIEW, "DESCRIBE d.seen", &["SELECT ON d.seen"]),
    guarded(VIEW, "SHOW CREATE VIEW d.seen", &["SELECT ON d.seen", "SHOW VIEW ON d.seen"]),
    guarded(VIEW, "DROP VIEW d.seen", &["DROP ON d.seen"]),
    guarded("DROP SEQUENCE IF EXISTS d.s", "CREATE SEQUENCE d.s", &["CREATE ON d.s"]),
    guarded(SEQUENCE, "SELECT d.s.NEXTVAL", &["INSERT ON d.s"]),
    guarded(SEQUENCE, "SELECT d.s.NEXTVAL FROM DUAL WHERE COUNT = 2", &["INSERT ON d.s"]),
    guarded(
        SEQUENCE,
        "INSERT INTO d.t (a) VALUES (d.s.NEXTVAL)",
        &["INSERT ON d.t", "INSERT ON d.s"],
    ),
    guarded(SEQUENCE, "ALTER SEQUENCE d.s START WITH 5", &["ALTER ON d.s"]),
    guarded(
        "CREATE SEQUENCE IF NOT EXISTS d.s; DROP SEQUENCE IF EXISTS d.r",
        "RENAME SEQUENCE d.s TO d.r",
        &["ALTER ON d.s", "DROP ON d.s", "CREATE ON d.r", "INSERT ON d.r"],
    ),
    guarded(SEQUENCE, "DROP SEQUENCE d.s", &["DROP ON d.s"]),
    guarded("", "ALTER INSTANCE RELOAD TLS", &["SUPER ON *.*"]),
    guarded(T, "FLUSH TABLES", &["RELOAD ON *.*"]),
    guarded(T, "FLUSH TABLES d.t", &["RELOAD ON *.*"]),
    guarded("DROP USER IF EXISTS victim", "CREATE USER victim", &["CREATE USER ON *.*"]),
    guarded(VICTIM, "ALTER USER victim IDENTIFIED BY 'x'", &["CREATE USER ON *.*"]),
    guarded(VICTIM, "ALTER USER victim REQUIRE SSL", &["CREATE USER ON *.*"]),
    guarded(VICTIM, "SET PASSWORD FOR victim = 'x'", &["CREATE USER ON *.*"]),
    guarded(VICTIM, "SHOW GRANTS FOR victim", &["CREATE USER ON *.*"]),
    guarded(VICTIM, "SHOW CREATE USER victim", &["CREATE USER ON *.*"]),
    guarded(VICTIM, "DROP USER victim", &["CREATE USER ON *.*"]),
    guarded(VICTIM, "GRANT SELECT ON d.t TO victim", &["SELECT ON d.t", "GRANT OPTION ON d.t"]),
    guarded(VICTIM, "REVOKE SELECT ON d.t FROM victim", &["SELECT ON d.t", "GRANT OPTION ON d.t"]),
    guarded("", "SET GLOBAL wait_timeout = 28800", &["SUPER ON *.*"]),
    guarded("", "SELECT * FROM information_schema.wal", &["PROCESS ON *.*"]),
    guarded("", "SELECT * FROM mysql.user", &["SELECT ON mysql.user"]),
    guarded("CREATE DATABASE IF NOT EXISTS e", "USE e", &["SELECT ON e.*"]),
    guarded("CREATE DATABASE IF NOT EXISTS e", "SHOW TABLES FROM e", &["SELECT ON e.*"]),
    guarded("CREATE DATABASE IF NOT EXISTS e", "SHOW TABLE STATUS FROM e", &["SELECT ON e.*"]),
    guarded("CREATE DATABASE IF NOT EXISTS e", "SHOW CREATE DATABASE e", &["SELECT ON e.*"]),
    guarded("CREATE DATABASE IF NOT EXISTS e", "SHOW TRANSACTION FROM e", &["SELECT ON e.*"]),
];

/// The errors for missing privileges on a database, a table, the server.
const REFUSALS: [u16; 3] = [1044, 1142, 1227];

fn account() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("u{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs the statement as a new account with these privileges.
fn attempt(server: &TestServer, root: &mut Client, one: &Guarded, rights: &[&str]) -> Outcome {
    for text in one.before.split(';').filter(|text| !text.trim().is_empty()) {
        root.run(text);
    }
    let name = account();
    root.run(&format!("CREATE USER {name}"));
    for right in rights {
        root.run(&format!("GRANT {right} TO {name}"));
    }
    let mut client = server.log_in(&name).unwrap();
    client.query(one.statement)
}

#[test]
fn every_statement_takes_all_of_its_rights_and_no_more() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run(T);
    let mut wrong = Vec::new();
    for one in STATEMENTS {
        for missing in 0..one.rights.len() {
            let mut rights = one.rights.to_vec();
            let lacks = rights.remove(missing);
            match failure(attempt(&server, &mut root, one, &rights)) {
                Ok(refused) if REFUSALS.contains(&refused.errno) => {}
                other => wrong.push(format!("{} without {lacks}: {other:?}", one.statement)),
            }
        }
        if let Ok(refused) = failure(attempt(&server, &mut root, one, one.rights)) {
            wrong.push(format!("{} with {:?}: {refused:?}", one.statement, one.rights));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn who_may_make_users_does_not_become_root() {
    let server = TestServer::start();
    let mut root = server.connect();
    root.run("CREATE USER clerk");
    root.run("GRANT CREATE USER ON *.* TO clerk");
    root.run("CREATE USER chief IDENTIFIED BY 'c'");
    root.run("GRANT SUPER ON *.* TO chief");
    let mut clerk = server.log_in("clerk").unwrap();
    for statement in [
        "ALTER USER root IDENTIFIED BY 'mine'",
        "SET PASSWORD FOR root = 'mine'",
        "ALTER USER chief IDENTIFIED BY 'mine'",
        "SET PASSWORD FOR chief = 'mine'",
        "DROP USER chief",
        "CREATE USER root@'127.0.0.1' IDENTIFIED BY 'mine'",
        "CREATE USER chief@localhost",
        "GRANT SUPER ON *.* TO clerk",
        "REVOKE SUPER ON *.* FROM chief",
    ] {
        assert_eq!(clerk.fails(statement).errno, 1227, "{statement}");
    }
    assert!(Client::connect(server.address, "root", "mine", None).is_err());
    assert!(Client::connect(server.address, "root", "", None).is_ok());
    assert!(Client::connect(server.address, "chief", "c", None).is_ok());
    clerk.run("CREATE USER app IDENTIFIED BY 'a'");
    clerk.run("ALTER USER app IDENTIFIED BY 'b'");
    clerk.run("ALTER USER clerk IDENTIFIED BY 'own'");
    clerk.run("DROP USER app");
}

#[test]
fn what_is_missing_and_what_is_forbidden_look_the_same() {
    let server = TestServer::start();
    let mut root = server.database("present_db");
    root.run("CREATE TABLE tt (a INT)");
    root.run("CREATE USER nobody");
    let mut nobody = server.log_in("nobody").unwrap();
    for statement in [
        "USE {d}",
        "SHOW CREATE DATABASE {d}",
        "SHOW TRANSACTION FROM {d}",
        "SHOW TABLES FROM {d}",
        "SHOW TABLE STATUS FROM {d}",
        "SHOW COLUMNS FROM {d}.tt",
        "SHOW CREATE TABLE {d}.tt",
        "SELECT * FROM {d}.tt",
        "SELECT a FROM {d}.tt WHERE a = 1",
        "INSERT INTO {d}.tt VALUES (1)",
        "TRUNCATE TABLE {d}.tt",
        "DROP TABLE {d}.tt",
        "DROP DATABASE {d}",
        "ALTER TABLE {d}.tt ADD COLUMN x INT",
        "CREATE TABLE {d}.v (a INT)",
        "CREATE DATABASE {d}",
    ] {
        let mut ask = |database: &str| {
            let refused = nobody.fails(&statement.replace("{d}", database));
            (refused.errno, refused.message.replace(database, "{d}"))
        };
        let (there, missing) = (ask("present_db"), ask("missing_db"));
        assert_eq!(there, missing, "{statement}");
        assert!(REFUSALS.contains(&there.0), "{statement}: {there:?}");
    }
    for path in ["/api/{d}/get_load_state?label=l", "/api/{d}/_load_info?label=l"] {
        let ask = |database: &str| {
            let answer = server.get(&path.replace("{d}", database), "nobody");
            (answer.status, answer.body.replace(database, "{d}"))
        };
        assert_eq!(ask("present_db"), ask("missing_db"), "{path}");
    }
    let schema = |table: &str| {
        let answer = server.get(&format!("/api/present_db/{table}/_schema"), "nobody");
        (answer.status, answer.body.replace(table, "{t}"))
    };
    assert_eq!(schema("tt"), schema("zz"));
}

#[test]
fn views_show_to_nobody_what_others_own() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run(T);
    root.run("INSERT INTO d.t WITH LABEL secret_label VALUES (1, 2)");
    root.run("SET group_commit = async_mode");
    root.run("INSERT INTO d.t VALUES (3, 4)");
    root.run("FLUSH TABLES d.t");
    let groups = "SELECT COUNT(*) FROM information_schema.group_commits";
    assert_ne!(root.one(groups), "0");
    let flushes = "SELECT COUNT(*) FROM information_schema.flushes";
    assert_ne!(root.one(flushes), "0");
    root.run("CREATE USER nobody");
    let mut nobody = server.log_in("nobody").unwrap();
    let empty_for_nobody = |nobody: &mut Client| {
        for view in ["tables", "columns", "partitions", "statistics"] {
            let sql =
                format!("SELECT COUNT(*) FROM information_schema.{view} WHERE table_schema = 'd'");
            assert_eq!(nobody.one(&sql), "0", "{view}");
        }
        assert_eq!(nobody.one(groups), "0");
        assert_eq!(nobody.one(flushes), "0");
        assert_eq!(nobody.one("SELECT COUNT(*) FROM information_schema.load_rejects"), "0");
    };
    empty_for_nobody(&mut nobody);
    let privileges = "SELECT DISTINCT grantee FROM information_schema.user_privileges";
    let expected: [Vec<String>; 0] = [];
    assert_eq!(nobody.texts(privileges), expected, "an account without rights has no row");
    root.run("GRANT PROCESS ON *.* TO nobody");
    assert_eq!(nobody.texts(privileges), [["'nobody'@'%'"]], "its own and no other");
    root.run("REVOKE PROCESS ON *.* FROM nobody");
    root.run("DROP TABLE d.t");
    empty_for_nobody(&mut nobody);
    assert_ne!(root.one(groups), "0", "who may see all sees groups of dropped tables");
    assert_ne!(root.one(flushes), "0", "and flushes");
}

#[test]
fn passwords_are_hidden_where_statements_are_shown() {
    let server = TestServer::start();
    let address = server.address;
    let running = std::thread::spawn(move || {
        let mut client = Client::connect(address, "root", "", None).unwrap();
        client.query_all("SELECT SLEEP(3); CREATE USER u IDENTIFIED BY 'hunter2'")
    });
    let mut root = server.connect();
    let listed = "SELECT info FROM information_schema.processlist WHERE info LIKE '%SLEEP(3)%' \
                  AND id <> CONNECTION_ID()";
    let mut shown = root.texts(listed);
    for _ in 0..200 {
        if !shown.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        shown = root.texts(listed);
    }
    assert_eq!(shown, [["SELECT SLEEP(3); CREATE USER u IDENTIFIED <secret>"]]);
    for row in root.texts("SHOW FULL PROCESSLIST") {
        assert!(row.iter().all(|cell| !cell.contains("hunter2")), "{row:?}");
    }
    running.join().unwrap();
}

#[test]
fn every_address_takes_its_rights() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run(T);
    root.run("CREATE USER nobody");
    root.run("CREATE USER reader");
    root.run("GRANT SELECT ON d.t TO reader");
    root.run("CREATE USER loader");
    root.run("GRANT INSERT ON d.t TO loader");
    for path in ["/api/bootstrap", "/api/backends", "/api/get_wal_size"] {
        assert_eq!(server.get(path, "stranger").status, 401, "{path}");
        assert_eq!(server.get(path, "nobody").status, 200, "{path}");
    }
    let may = |path: &str, user: &str| !server.get(path, user).body.contains("denied");
    assert!(may("/api/d/t/_schema", "reader"));
    assert!(!may("/api/d/t/_schema", "loader") && !may("/api/d/t/_schema", "nobody"));
    for path in ["/api/d/get_load_state?label=l", "/api/d/_load_info?label=l"] {
        assert!(may(path, "reader") && may(path, "loader") && !may(path, "nobody"), "{path}");
    }
    for mode in ["off_mode", "sync_mode", "async_mode"] {
        let loads = |user: &str| {
            let mode = format!("group_commit: {mode}");
            let headers = [&*mode, "column_separator: ,", &authorization(user, "")];
            let answer = server.web().request("PUT", "/api/d/t/_stream_load", &headers, b"1,2\n");
            answer.json()["Status"] == "Success"
        };
        assert!(loads("loader"), "{mode}");
        assert!(!loads("reader") && !loads("nobody") && !loads("stranger"), "{mode}");
    }
    assert_eq!(root.one("SELECT COUNT(*) FROM d.t"), "3");
}

/// CREATE TABLE AS SELECT that fails leaves no table behind, whatever privileges the user lacks.
#[test]
fn a_table_of_a_query_takes_no_right_to_drop_it() {
    let server = TestServer::start();
    let mut root = server.database("d");
    root.run("CREATE TABLE t (a INT, b VARCHAR(10))");
    root.run("INSERT INTO t VALUES (1, 'too long')");
    root.run("CREATE USER maker");
    root.run("GRANT SELECT, INSERT, CREATE ON d.* TO maker");
    let mut maker = server.log_in("maker").unwrap();
    let failing = "CREATE TABLE d.u (a INT, b VARCHAR(2)) AS SELECT * FROM d.t";
    assert_eq!(maker.fails(failing).errno, 1406, "it says why");
    assert_eq!(root.texts("SHOW TABLES"), [["t"]], "and leaves nothing");
    assert_eq!(maker.run("CREATE TABLE d.u AS SELECT * FROM d.t").0, 1);
    assert_eq!(root.one("SELECT COUNT(*) FROM u"), "1");
}
