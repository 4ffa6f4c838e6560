//! Unique keys beside a primary key under `kill -9`: writers insert, replace, change and remove
//! rows of few values, for themselves and in transactions; no value is ever of two rows, before a
//! crash or after it, and what was acknowledged last stays.

use std::sync::Arc;

use super::*;

const WRITERS: u64 = 4;
const CRASHES: u64 = 8;
const KEYS: u64 = 60;
const VALUES: u64 = 80;
const LOAD: Load = Load { ms: 300..1200, work_min: 30 * WRITERS };
/// Where the server dies in every other life, and how often that is passed before.
const FAILPOINTS: [Failpoint; 4] = [
    ("marks-written", 3),
    ("flush-after-publish", 3),
    ("compaction-before-publish", 1),
    ("flush-after-write", 3),
];
const NO_VALUE_TWICE: &str = "SELECT COUNT(u), COUNT(DISTINCT u), COUNT(w), COUNT(DISTINCT w), \
                              COUNT(*), COUNT(DISTINCT id) FROM q.q";

/// Errors that a statement may have here: 1062, 1205, 1213.
fn may_be(error: &str) -> bool {
    ["Duplicate entry", "Lock wait timeout", "Deadlock"].iter().any(|one| error.contains(one))
}

/// What the keys are.
#[derive(Clone, Copy)]
enum Keys {
    Numbers,
    /// Texts that are compared by collations, each written in several ways.
    Texts,
    /// Numbers in a table without a primary key, whose rows a hidden column names.
    Unnamed,
}

impl Keys {
    const fn table(self) -> &'static str {
        match self {
            Self::Numbers => {
                "CREATE TABLE q.q (id BIGINT PRIMARY KEY, u INT, w VARCHAR(20), v BIGINT, \
                 UNIQUE KEY (u), UNIQUE KEY (w)) DISTRIBUTED BY HASH(id) BUCKETS 2"
            }
            Self::Unnamed => {
                "CREATE TABLE q.q (id BIGINT, u INT, w VARCHAR(20), v BIGINT, UNIQUE KEY (id), \
                 UNIQUE KEY (u), UNIQUE KEY (w))"
            }
            Self::Texts => {
                "CREATE TABLE q.q (id VARCHAR(20) PRIMARY KEY, u INT, \
                 w VARCHAR(20) COLLATE utf8mb4_unicode_ci, v BIGINT, UNIQUE KEY (u), \
                 UNIQUE KEY (w)) COLLATE utf8mb4_0900_ai_ci PARTITION BY KEY (id) PARTITIONS 2"
            }
        }
    }

    fn id(self, id: u64, version: u64) -> String {
        match self {
            Self::Numbers | Self::Unnamed => id.to_string(),
            Self::Texts => {
                format!("'{}{id:02}'", ["key", "KEY", "k\u{e9}y"][version as usize % 3])
            }
        }
    }

    const fn value(self, version: u64) -> &'static str {
        match (self, version % 3) {
            (Self::Texts, 1) => "W",
            (Self::Texts, 2) => "\u{175}",
            _ => "w",
        }
    }
}

fn statement(random: &mut StdRng, keys: Keys, version: u64) -> String {
    let mut row = || {
        let id = keys.id(random.random_range(0..KEYS), version);
        let value = |random: &mut StdRng| match random.random_range(0..8) {
            0 => "NULL".to_owned(),
            _ => random.random_range(0..VALUES).to_string(),
        };
        let (u, w) = (value(random), value(random));
        (id, u, w)
    };
    let start = keys.value(version);
    let text =
        |(id, u, w): &(String, String, String)| format!("({id}, {u}, '{start}{w}', {version})");
    let (one, two) = (row(), row());
    let (id, u, _) = &one;
    match random.random_range(0..9) {
        0 | 1 => format!("INSERT INTO q.q VALUES {}", text(&one)),
        2 => format!("INSERT IGNORE INTO q.q VALUES {}, {}", text(&one), text(&two)),
        3 => format!("REPLACE INTO q.q VALUES {}", text(&one)),
        4 => format!("REPLACE INTO q.q VALUES {}, {}", text(&one), text(&two)),
        5 => format!(
            "INSERT INTO q.q VALUES {} ON DUPLICATE KEY UPDATE v = VALUES(v), u = VALUES(u)",
            text(&one)
        ),
        6 => format!("UPDATE q.q SET u = {u}, v = {version} WHERE id = {id}"),
        7 => format!("UPDATE q.q SET u = u + 1, v = {version} WHERE id > {id}"),
        _ => format!("DELETE FROM q.q WHERE id = {id} OR u = {u}"),
    }
}

/// Writes until the server dies; returns its last version that was acknowledged.
fn write(
    port: u16,
    keys: Keys,
    (writer, seed): (u64, u64),
    mut last: u64,
    done: &AtomicU64,
) -> u64 {
    let Ok(mut client) = Client::connect(port) else { return last };
    let mut random = StdRng::seed_from_u64(seed);
    let mode = ["off_mode", "sync_mode", "async_mode"][writer as usize % 3];
    client.query(&format!("SET group_commit = '{mode}'")).ok();
    client.query("SET innodb_lock_wait_timeout = 1").ok();
    let mut version = last;
    loop {
        version += 1;
        let own = format!("REPLACE INTO q.last VALUES ({writer}, {version})");
        let is_transaction = random.random_range(0..3) == 0;
        let mut statements = Vec::new();
        if is_transaction {
            statements.push("BEGIN".to_owned());
            let changes = random.random_range(1..4);
            statements.extend((0..changes).map(|_| statement(&mut random, keys, version)));
            statements.push(own.clone());
            statements.push(
                ["COMMIT", "ROLLBACK"][usize::from(random.random_range(0..4) == 0)].to_owned(),
            );
        } else {
            statements.push(statement(&mut random, keys, version));
            statements.push(own.clone());
        }
        let mut committed = true;
        for sql in &statements {
            match client.query(sql) {
                Ok(_) => committed &= sql != "ROLLBACK",
                Err(error) if may_be(&error.to_string()) => committed &= !is_transaction,
                Err(_) => return last,
            }
        }
        if committed {
            last = version;
            done.fetch_add(1, Ordering::Relaxed);
        }
        if random.random_range(0..60) == 0 && client.query("FLUSH TABLES q.q").is_err() {
            return last;
        }
    }
}

fn compare(client: &mut Client) {
    let rows = client.query(NO_VALUE_TWICE).unwrap();
    let counts = &rows[0];
    assert_eq!(counts[0], counts[1], "a value of u is there twice");
    assert_eq!(counts[2], counts[3], "a value of w is there twice");
    assert_eq!(counts[4], counts[5], "a key is there twice");
}

/// Compares counts until the server dies.
fn read(port: u16) {
    let Ok(mut client) = Client::connect(port) else { return };
    while let Ok(rows) = client.query(NO_VALUE_TWICE) {
        let counts = &rows[0];
        assert!(counts[0] == counts[1] && counts[2] == counts[3], "a value is there twice");
        assert_eq!(counts[4], counts[5], "a key is there twice");
    }
}

#[test]
fn no_value_of_a_unique_key_is_ever_of_two_rows() {
    no_value_twice(Keys::Numbers);
}

#[test]
fn no_two_rows_have_keys_that_a_collation_calls_equal() {
    no_value_twice(Keys::Texts);
}

#[test]
fn no_value_is_of_two_rows_that_a_hidden_column_names() {
    no_value_twice(Keys::Unnamed);
}

fn no_value_twice(keys: Keys) {
    let world = world();
    let mut lasts = vec![0; WRITERS as usize];
    let mut random = StdRng::seed_from_u64(1062);
    let done = Arc::new(AtomicU64::new(0));
    for crash in 0..CRASHES {
        let server = world.begin_life(crash, &FAILPOINTS, &mut random, |client| {
            if crash == 0 {
                client.query("CREATE DATABASE q").unwrap();
                client.query(keys.table()).unwrap();
                client.query("CREATE TABLE q.last (writer INT PRIMARY KEY, v BIGINT)").unwrap();
            }
            compare(client);
            for (writer, last) in lasts.iter_mut().enumerate() {
                let sql = format!("SELECT COALESCE(MAX(v), 0) FROM q.last WHERE writer = {writer}");
                let found = client.number(&sql).unwrap() as u64;
                assert!(found >= *last, "writer {writer} lost what it was told");
                *last = found;
            }
        });
        let Some(server) = server else { continue };
        let port = server.mysql_port;
        let running = lasts.iter().zip(0..).map(|(&last, writer)| {
            let (seed, done) = (random.random(), Arc::clone(&done));
            thread::spawn(move || write(port, keys, (writer, seed), last, &done))
        });
        let running = running.collect::<Vec<_>>();
        let reader = thread::spawn(move || read(port));
        end_life(server, crash, LOAD, &done, &mut random);
        lasts = running.into_iter().map(|writer| writer.join().unwrap()).collect();
        reader.join().unwrap();
    }
    assert!(lasts.iter().all(|last| *last > 20), "few statements came through: {lasts:?}");
    world.end("q.q", compare);
}

#[test]
fn large_loads_follow_collations() {
    let mut world = world();
    world.setup = world.setup.clone().with("wal_load_bytes_max", "64KiB");
    let mut server = world.setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    client.query("CREATE DATABASE q").unwrap();
    let table = "CREATE TABLE q.q (a VARCHAR(200) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, \
                 b VARCHAR(20) COLLATE utf8mb4_general_ci, UNIQUE KEY (b))";
    client.query(table).unwrap();
    let rows = |verb: &str, a: &str, b: &str, from: u64| {
        format!(
            "{verb} INTO q.q WITH RECURSIVE r (n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM r \
             WHERE n < {from} + 899) SELECT CONCAT('{a} ', n, REPEAT('x', 150)), CONCAT('{b}', n) \
             FROM r"
        )
    };
    client.query(&rows("INSERT", "schl\u{fc}ssel", "v", 100)).unwrap();
    let refused = |client: &mut Client, sql: &str, wanted: &str| {
        let error = client.query(sql).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    };
    let exists = format!("Duplicate entry 'SCHLUSSEL 999{}' for key 'q.PRIMARY'", "x".repeat(150));
    refused(&mut client, &rows("INSERT", "SCHLUSSEL", "w", 999), &exists);
    let exists = "Duplicate entry 'V999' for key 'q.b'";
    refused(&mut client, &rows("INSERT", "other", "V", 999), exists);
    client.query(&rows("REPLACE", "SCHLUSSEL", "\u{1e7d}", 100)).unwrap();
    let counts = "SELECT COUNT(*), COUNT(DISTINCT a), SUM(a LIKE 'SCHL%' COLLATE utf8mb4_bin), \
                  SUM(b = 'V500') FROM q.q";
    let wanted = ["900", "900", "900", "1"];
    assert_eq!(client.query(counts).unwrap()[0], wanted);
    server.kill();
    let mut server = world.setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    assert_eq!(client.query(counts).unwrap()[0], wanted);
    client.query("FLUSH TABLES q.q").unwrap();
    assert_eq!(client.query(counts).unwrap()[0], wanted);
    client.query("DELETE FROM q.q WHERE b < 'V200'").unwrap();
    server.kill();
    let mut server = world.setup.start().unwrap();
    let mut client = Client::connect(server.mysql_port).unwrap();
    assert_eq!(client.number("SELECT COUNT(*) FROM q.q").unwrap(), 800);
    server.kill();
    world.setup.check_files().unwrap();
}
