//! Over to Freshet from MariaDB and back, and INSERTs in place of Stream Load.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use freshet_torture::client::Client;

use crate::{World, ended};

const START_TIME_MAX: Duration = Duration::from_secs(60);
const ROWS: i64 = 20_000;

/// A MariaDB of its own, which listens on a port that was free a moment ago.
struct MariaDb {
    _dir: tempfile::TempDir,
    process: Child,
    port: u16,
}

impl MariaDb {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let socket = dir.path().join("socket");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let root = rustix::process::getuid().is_root();
        let user: &[&str] = if root { &["--user=root"] } else { &[] };
        // A MariaDB that starts deletes the temporary tables it finds, those of another one too:
        // each has a folder for them alone.
        let made = Command::new("mariadb-install-db")
            .env("TMPDIR", dir.path())
            .args(["--no-defaults", "--auth-root-authentication-method=normal"])
            .args(user)
            .arg(option("datadir", &data))
            .output()
            .expect("MariaDB is there: apt-get install mariadb-server");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let process = Command::new("mariadbd")
            .env("TMPDIR", dir.path())
            .args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-log-bin"])
            .args(user)
            .args([option("datadir", &data), option("socket", &socket)])
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while Client::connect(port).is_err() {
            assert!(began.elapsed() < START_TIME_MAX, "MariaDB does not start");
            sleep(Duration::from_millis(50));
        }
        Self { _dir: dir, process, port }
    }

    fn client(&self) -> Client {
        Client::connect(self.port).unwrap()
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn option(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// The tool on another server of the MySQL protocol.
fn tool(world: &World, port: u16, arguments: &[&str]) -> Command {
    let mut command = Command::new(crate::FRESHET);
    command.args(arguments).args(["-P", &port.to_string()]);
    command.env("XDG_STATE_HOME", world.path("state"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

const TABLE: &str = "CREATE TABLE orders (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, \
    name VARCHAR(100), price DECIMAL(12,3), weight DOUBLE, at DATETIME(3), seen TIMESTAMP NULL, \
    note TEXT, day DATE, code VARBINARY(20), KEY (name)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4";
const SPECIAL: &str = r#"INSERT INTO orders VALUES
    (1, 'plain', 1.5, 2.25, '2026-01-02 03:04:05.678', '2026-01-02 03:04:05', 'x', '2026-02-03',
        NULL),
    (2, '\\N', NULL, NULL, NULL, NULL, '\\N', NULL, NULL),
    (3, '', -0.001, 1e100, '1999-12-31', '2020-01-01', 'line\nline2\t"q" \\', NULL, NULL)"#;
/// Everything in text that servers write in the same way.
const ALL: &str = "SELECT id, name, price, weight, at, seen, note, day, HEX(code) FROM orders \
    ORDER BY id";

/// A database `shop` with a table of rows of all kinds.
fn shop(client: &mut Client) {
    client.query("CREATE DATABASE shop").unwrap();
    client.query("USE shop").unwrap();
    client.query("SET time_zone = '+00:00'").unwrap();
    client.query(TABLE).unwrap();
    client.query(SPECIAL).unwrap();
    let row = |id: i64| format!("({id}, 'row {id}', {id}.125, '{}')", "z".repeat(id as usize % 50));
    for from in (4..ROWS).step_by(1000) {
        let rows = (from..(from + 1000).min(ROWS)).map(row).collect::<Vec<_>>().join(",");
        let insert = format!("INSERT INTO orders (id, name, price, note) VALUES {rows}");
        client.query(&insert).unwrap();
    }
}

fn all(client: &mut Client) -> Vec<Vec<String>> {
    client.query("USE shop").unwrap();
    client.query("SET time_zone = '+00:00'").unwrap();
    client.query(ALL).unwrap()
}

#[test]
#[ignore = "needs MariaDB; a step of make test runs it"]
fn a_database_moves_from_mariadb_and_back() {
    let mut world = World::new();
    let maria = MariaDb::start();
    let mut there = maria.client();
    shop(&mut there);
    let rows = all(&mut there);
    let (out, back) = (path(&world, "out"), path(&world, "back"));
    let dump = ["dump", "-D", "shop", "--ddl", "with", "--compression", "zstd", "-o"];
    let said = tool(&world, maria.port, &[&dump[..], &[&out]].concat()).output().unwrap();
    ended(&said, 0);
    let load = ["load", "-D", "shop", "--ddl", "with"];
    let (port, http_port) = (world.server.mysql_port, world.server.http_port.to_string());
    let here = [&load[..], &[&out, "--http-port", &http_port]].concat();
    ended(&tool(&world, port, &here).output().unwrap(), 0);
    assert!(all(&mut world.client) == rows, "Freshet has other rows");
    // Bytes that are no text go by SQL alone, so there is one only now.
    world.client.query("UPDATE orders SET code = X'00ff27' WHERE id = 1").unwrap();
    let rows = all(&mut world.client);
    ended(
        &tool(&world, port, &[&dump[..], &[&back, "--drop-table"]].concat()).output().unwrap(),
        0,
    );
    there.query("ALTER TABLE orders DROP COLUMN note").unwrap();
    std::fs::write(
        Path::new(&back).join("orders.schema.sql"),
        format!("DROP TABLE orders;\n{TABLE};\n"),
    )
    .unwrap();
    let again = [&load[..], &[&back, "--transport", "sql", "--block-size", "100KiB"]].concat();
    ended(&tool(&world, maria.port, &again).output().unwrap(), 0);
    assert!(all(&mut there) == rows, "MariaDB has other rows");
}

#[test]
#[ignore = "needs MariaDB; a step of make test runs it"]
fn types_that_freshet_has_not_move_as_others() {
    let mut world = World::new();
    let maria = MariaDb::start();
    let mut there = maria.client();
    there.query("CREATE DATABASE shop").unwrap();
    there.query("USE shop").unwrap();
    there
        .query(
            "CREATE TABLE odd (id INT PRIMARY KEY, e ENUM('a b', 'c') DEFAULT 'c', \
             s SET('x', 'y'), t TIME, y YEAR, b BIT(9) DEFAULT b'101', j JSON, \
             g INT AS (id + 1) STORED, n VARCHAR(9) COLLATE utf8mb4_general_ci, \
             CONSTRAINT low CHECK (y < 2100 OR b > 1), \
             at TIMESTAMP DEFAULT NOW() ON UPDATE NOW(), bytes VARBINARY(9)) \
             PARTITION BY HASH (id) PARTITIONS 2",
        )
        .unwrap();
    there
        .query(
            "INSERT INTO odd (id, e, s, t, y, b, j, n, bytes) VALUES \
             (1, 'a b', 'x,y', '-10:11:12', 2026, b'100000001', '{\"a\": 1}', 'Zo', X'00ff'), \
             (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        )
        .unwrap();
    let out = path(&world, "odd");
    let dump = ["dump", "-D", "shop", "--ddl", "with", "--for-freshet", "-o", &out];
    ended(&tool(&world, maria.port, &dump).output().unwrap(), 0);
    let load = ["load", "-D", "shop", "--ddl", "with", "--transport", "sql", &out];
    ended(&tool(&world, world.server.mysql_port, &load).output().unwrap(), 0);
    let odd = "SELECT g, e, s, t, y, b + 0, j, n = 'zO', HEX(bytes) FROM shop.odd ORDER BY id";
    let expected = [
        ["2", "a b", "x,y", "-10:11:12", "2026", "257", "{\"a\": 1}", "1", "00FF"],
        ["3", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"],
    ];
    assert_eq!(world.client.query(odd).unwrap(), expected.map(|row| row.map(str::to_owned)));
    let refused = world.client.query("INSERT INTO shop.odd (id, y, b) VALUES (3, 2150, 0)");
    assert!(refused.is_err(), "{refused:?}");
}

fn path(world: &World, name: &str) -> String {
    world.path(name).display().to_string()
}

/// INSERTs of a table without a key, through kills of the tool, leave every row once.
#[track_caller]
fn check_kills(world: &mut World, port: u16) {
    let mut client = Client::connect(port).unwrap();
    let _ = client.query("CREATE DATABASE bulk");
    client.query("CREATE TABLE bulk.u (id BIGINT, name VARCHAR(100))").unwrap();
    let rows = (0..ROWS).map(|id| format!("{id},\"it's\n{id}\"\n")).collect::<String>();
    let file = world.write("u.csv", rows);
    let load = ["load", "-D", "bulk", "-t", "u", "--transport", "sql", "--block-size", "4KiB"];
    let load = [&load[..], &[&file]].concat();
    let mut count = || client.number("SELECT COUNT(*) FROM bulk.u").unwrap();
    for _ in 0..3 {
        let seen = count();
        let slow = [&load[..], &["--rows-per-second", "10000"]].concat();
        let mut process = tool(world, port, &slow).spawn().unwrap();
        while count() < seen + 1000 {
            assert_eq!(process.try_wait().unwrap(), None, "it ended by itself");
            sleep(Duration::from_millis(5));
        }
        process.kill().unwrap();
        process.wait().unwrap();
    }
    // The table of labels tells what arrived.
    std::fs::remove_dir_all(world.path("state")).unwrap();
    ended(&tool(world, port, &load).output().unwrap(), 0);
    assert_eq!(count(), ROWS);
    assert_eq!(client.number("SELECT COUNT(DISTINCT name) FROM bulk.u").unwrap(), ROWS);
}

#[test]
#[ignore = "needs MariaDB; a step of make test runs it"]
fn inserts_into_mariadb_come_once() {
    let maria = MariaDb::start();
    check_kills(&mut World::new(), maria.port);
}

#[test]
fn inserts_into_freshet_come_once() {
    let mut world = World::new();
    let port = world.server.mysql_port;
    check_kills(&mut world, port);
}

#[test]
fn bad_rows_of_inserts_are_shown_with_their_line() {
    let mut world = World::new();
    let bad: PathBuf = world.path("bad.txt");
    let file = world.write("t.csv", "1,\"a\nb\",\\N\nx,c,\\N\n3,d,\\N\n4,e\n");
    let load = ["load", &file, "--transport", "sql"];
    let said = world.run(&load, 3);
    assert!(said.contains("t.csv:5: it has 2 fields instead of 3"), "{said}");
    assert!(said.contains("2 bad rows in this block"), "{said}");
    assert!(world.rows().is_empty());
    let allowed = ["--max-errors", "2", "--bad-rows", bad.to_str().unwrap()];
    world.run(&[&load[..], &allowed[..]].concat(), 0);
    assert_eq!(world.rows().len(), 2);
    let bad = std::fs::read_to_string(bad).unwrap();
    assert!(bad.contains("t.csv:3: error 1366:"), "{bad}");
    world.clear();
    let file =
        world.write("t.json", "{\"id\":1,\"at\":\"2026-01-02\"}\n{\"id\":\"2\",\"name\":7}\n");
    world.run(&["load", &file, "--transport", "sql"], 0);
    let rows = world.rows().concat().join(" ");
    assert_eq!(rows, "1 NULL 2026-01-02 00:00:00 2 7 NULL");
}
