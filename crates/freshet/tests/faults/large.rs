//! Large loads of which rows delete, or keep columns of stored ones, under `kill -9`: the server
//! dies between the files of one, or before or behind its record, and a start finds all that the
//! load did, or nothing.

use freshet_torture::http::ask;

use super::*;

const KEYS: u64 = 20_000;
/// Where the server dies, and how often that is passed before.
const FAILPOINTS: [(&str, u64); 6] = [
    ("flush-before-write", 0),
    // Between rows that delete and rows that replace.
    ("flush-before-write", 1),
    ("flush-after-write", 1),
    ("flush-after-publish", 0),
    ("marks-written", 0),
    ("flush-before-write", 2),
];

/// What a load does with the rows of all keys.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Every third key goes.
    Merge,
    /// `w` stays.
    Partial,
}

fn load(port: u16, headers: &[(&str, &str)], body: &str) -> Result<String, Failure> {
    let head = load_head("d", headers, body.len());
    ask(port, [head.as_bytes(), body.as_bytes()].concat().as_slice()).map(|answer| answer.body)
}

/// Gives all keys that stay the value `v`.
fn change(port: u16, kind: Kind, label: &str, v: usize) -> Result<String, Failure> {
    let (headers, line): (&[_], fn(u64, usize) -> String) = match kind {
        Kind::Merge => (
            &[("columns", "k,v,op,w = 5"), ("merge_type", "MERGE"), ("delete", "op = 1")],
            |key, v| format!("{key},{v},{}\n", u8::from(key.is_multiple_of(3))),
        ),
        Kind::Partial => {
            (&[("columns", "k,v"), ("partial_columns", "true")], |key, v| format!("{key},{v}\n"))
        }
    };
    let body = (0..KEYS).map(|key| line(key, v)).collect::<String>();
    load(port, &[headers, &[("label", label)]].concat(), &body)
}

/// How many rows there are, and the least and the greatest of their values.
fn seen(client: &mut Client) -> [i64; 5] {
    ["COUNT(*)", "MIN(v)", "MAX(v)", "MIN(w)", "MAX(w)"]
        .map(|what| client.number(&format!("SELECT {what} FROM torture.d")).unwrap())
}

fn is_there_or_not(kind: Kind) {
    let mut world = world();
    world.setup = world.setup.clone().with("wal_load_bytes_max", "64KiB");
    let all = KEYS as i64;
    let kept = match kind {
        Kind::Merge => all - KEYS.div_ceil(3) as i64,
        Kind::Partial => all,
    };
    for (life, (point, passes)) in (1..).zip(FAILPOINTS) {
        let mut server = world.setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        if life == 1 {
            client.query("CREATE DATABASE torture").unwrap();
            let table = "CREATE TABLE torture.d (k BIGINT NOT NULL, v BIGINT, w BIGINT) \
                         UNIQUE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 2";
            client.query(table).unwrap();
        }
        let body = (0..KEYS).map(|key| format!("{key},0,5\n")).collect::<String>();
        let reply = load(server.http_port, &[], &body).unwrap();
        assert!(reply.contains("\"Success\""), "{reply}");
        client.query("FLUSH TABLES torture.d").unwrap();
        server.stop().unwrap();
        let setup = world.setup.clone().with("failpoints", format!("{point}=abort@{passes}"));
        let mut server = setup.start().unwrap();
        let label = format!("life-{life}");
        let reply = change(server.http_port, kind, &label, life);
        let is_acknowledged = reply.is_ok_and(|reply| reply.contains("\"Success\""));
        // Behind its record, what makes its files part of the table may still die.
        sleep(Duration::from_millis(300));
        server.kill();
        let server = world.setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        let done = [kept, life as i64, life as i64, 5, 5];
        let found = seen(&mut client);
        let is_one = found == done || (found == [all, 0, 0, 5, 5] && !is_acknowledged);
        assert!(is_one, "{point}@{passes}: {found:?}, acknowledged: {is_acknowledged}");
        let again = change(server.http_port, kind, &label, life).unwrap();
        let wanted = if found == done { "Label Already Exists" } else { "\"Success\"" };
        assert!(again.contains(wanted), "{again}");
        assert_eq!(seen(&mut client), done);
    }
    world.end("torture.d", |client| assert_eq!(seen(client), [kept, 6, 6, 5, 5]));
}

#[test]
fn a_large_load_that_deletes_is_there_or_not() {
    is_there_or_not(Kind::Merge);
}

#[test]
fn a_large_partial_update_is_there_or_not() {
    is_there_or_not(Kind::Partial);
}

#[test]
fn a_transaction_in_files_is_there_or_not() {
    const ROWS: u64 = 6000;
    let mut world = world();
    let setup = world.setup.clone().with("transaction_bytes_max", "128KiB");
    world.setup = setup.with("wal_load_bytes_max", "64KiB");
    let mut server = world.setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE torture").unwrap();
    let table = "CREATE TABLE torture.d (k BIGINT, v VARCHAR(200)) DUPLICATE KEY(k) DISTRIBUTED BY \
                 HASH(k) BUCKETS 2";
    client.query(table).unwrap();
    server.stop().unwrap();
    let row = |k: u64| format!("({k}, '{}')", "y".repeat(150));
    let mut there = 0;
    let of_log = (1..5).map(|passes| format!("wal-after-write=abort@{passes}"));
    let points = ["flush-before-write=abort@0", "flush-after-write=abort@1", "", ""];
    let points = points.into_iter().map(str::to_owned).chain(of_log);
    for (life, point) in points.enumerate() {
        let setup = world.setup.clone().with("failpoints", &point);
        // A start writes to the log, too.
        let Ok(mut server) = setup.start() else { continue };
        let Ok(mut client) = Client::connect(server.mysql_port) else { continue };
        let mut write = || {
            client.query("BEGIN")?;
            for first in (0..ROWS).step_by(500) {
                let rows = (first..first + 500).map(row).collect::<Vec<_>>().join(",");
                client.query(&format!("INSERT INTO torture.d VALUES {rows}"))?;
            }
            // One that has not come to COMMIT.
            if life == 2 { Ok(false) } else { client.query("COMMIT").map(|_| true) }
        };
        let is_acknowledged = write().unwrap_or(false);
        server.kill();
        let mut server = world.setup.start().unwrap();
        let mut client = Client::connect(server.mysql_port).unwrap();
        let seen = client.number("SELECT COUNT(*) FROM torture.d").unwrap() as u64;
        let is_whole = seen == there + ROWS || (seen == there && !is_acknowledged);
        assert!(is_whole, "{point}: {seen} of {there}, acknowledged: {is_acknowledged}");
        assert!(life != 2 || seen == there, "nothing is there without COMMIT");
        there = seen;
        server.stop().unwrap();
    }
    assert!(there >= 2 * ROWS, "some were committed");
    world.end("torture.d", |client| {
        assert_eq!(client.number("SELECT COUNT(*) FROM torture.d").unwrap() as u64, there);
    });
}
