//! Changes of columns and keys that copy the rows of a table (RFC 0039), under `kill -9`, beside
//! writers whom nothing may be refused: rows afterwards are exactly those that were acknowledged,
//! and perhaps the last statement of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;

const WRITERS: u64 = 3;
const CRASHES: u64 = 10;
const LOAD: Load = Load { ms: 300..1500, work_min: 60 * WRITERS };
/// Where the server dies in every other life, and how often that is passed before.
const FAILPOINTS: [Failpoint; 5] = [
    ("rewrite-exchange", 2),
    ("barrier-durable", 8),
    ("rewrite-copied", 3),
    ("flush-after-publish", 6),
    ("rewrite-exchange", 4),
];
/// Each of them copies the rows of a table.
const CHANGES: [&str; 16] = [
    "ALTER TABLE r.k MODIFY v BIGINT",
    "ALTER TABLE r.d PARTITION BY LIST (w) (PARTITION a VALUES IN (0, 2), PARTITION b VALUES IN \
     (1))",
    "ALTER TABLE r.k PARTITION BY KEY (id) PARTITIONS 4",
    "ALTER TABLE r.d MODIFY n VARCHAR(30)",
    "ALTER TABLE r.g MODIFY v BIGINT SUM, MODIFY r BIGINT REPLACE",
    "ALTER TABLE r.k COALESCE PARTITION 1",
    "ALTER TABLE r.g PARTITION BY LIST (w) (PARTITION a VALUES IN ('0', '2'), PARTITION b VALUES \
     IN ('1'))",
    "ALTER TABLE r.k DROP PRIMARY KEY",
    "ALTER TABLE r.k MODIFY v VARCHAR(30)",
    "ALTER TABLE r.d MODIFY n BIGINT",
    "ALTER TABLE r.g MODIFY r VARCHAR(30) REPLACE, MODIFY v INT SUM",
    "ALTER TABLE r.k ADD PARTITION PARTITIONS 1",
    "ALTER TABLE r.k PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (500), PARTITION q \
     VALUES LESS THAN MAXVALUE)",
    "ALTER TABLE r.d REMOVE PARTITIONING",
    "ALTER TABLE r.g REMOVE PARTITIONING",
    "ALTER TABLE r.k ADD PRIMARY KEY (id)",
];

/// What one writer has in all tables.
#[derive(Clone, Default)]
struct Rows {
    last: u64,
    /// The versions of its ids in `r.k`.
    keyed: BTreeMap<u64, u64>,
    /// Its numbers in `r.d`.
    plain: BTreeMap<u64, ()>,
    /// How many rows of its key in `r.g`, and the last version.
    parts: (u64, u64),
}

/// A statement, and what it makes of the rows of its writer.
fn statement(random: &mut StdRng, writer: u64, rows: &Rows) -> (Vec<String>, Rows) {
    let mut next = rows.clone();
    next.last += 1;
    let version = next.last;
    let own = version * WRITERS + writer;
    let known = rows.keyed.keys().nth(random.random_range(0..rows.keyed.len().max(1))).copied();
    let sql = match (random.random_range(0..10), known) {
        (0..3, _) | (_, None) => {
            next.keyed.insert(own, version);
            format!("INSERT INTO r.k VALUES ({own}, '{version}')")
        }
        (3, Some(id)) => {
            next.keyed.remove(&id);
            format!("DELETE FROM r.k WHERE id = {id}")
        }
        (4 | 5, Some(id)) => {
            next.keyed.insert(id, version);
            format!("UPDATE r.k SET v = '{version}' WHERE id = {id}")
        }
        (6, _) => {
            next.plain.insert(own, ());
            format!("INSERT INTO r.d VALUES ({writer}, '{own}')")
        }
        (7 | 8, _) => {
            next.parts = (rows.parts.0 + 1, version);
            format!("INSERT INTO r.g VALUES ({writer}, 1, '{version}')")
        }
        _ => {
            let gone = rows.plain.keys().next().copied().unwrap_or_default();
            next.plain.remove(&gone);
            format!("DELETE FROM r.d WHERE n = '{gone}'")
        }
    };
    if random.random_range(0..4) > 0 {
        return (vec![sql], next);
    }
    next.plain.insert(own + 1_000_000_000, ());
    let more = format!("INSERT INTO r.d VALUES ({writer}, '{}')", own + 1_000_000_000);
    (vec!["BEGIN".to_owned(), sql, more, "COMMIT".to_owned()], next)
}

/// Writes until the server dies; returns what was acknowledged, and what may have happened behind.
fn write(port: u16, (writer, seed): (u64, u64), rows: Rows, done: &AtomicU64) -> (Rows, Rows) {
    let Ok(mut client) = Client::connect(port) else { return (rows.clone(), rows) };
    let mut random = StdRng::seed_from_u64(seed);
    let mode = ["off_mode", "sync_mode", "async_mode"][writer as usize];
    client.query(&format!("SET group_commit = '{mode}'")).ok();
    let mut rows = rows;
    loop {
        let (statements, next) = statement(&mut random, writer, &rows);
        let mut is_done = true;
        for sql in &statements {
            match client.query(sql) {
                Ok(_) => {}
                Err(Failure::Lost(_)) => return (rows, next),
                // Rows that were read have changed their columns.
                Err(error) if error.to_string().contains("Deadlock") => {
                    is_done = false;
                    client.query("ROLLBACK").ok();
                    break;
                }
                Err(error) => panic!("{sql}: {error}"),
            }
        }
        if is_done {
            rows = next;
            done.fetch_add(1, Ordering::Relaxed);
        } else {
            rows.last = next.last;
        }
    }
}

/// Changes tables until the server dies; returns how many changes were done.
fn alter(port: u16, from: usize) -> usize {
    let Ok(mut client) = Client::connect(port) else { return 0 };
    let mut done = 0;
    loop {
        let sql = CHANGES[(from + done) % CHANGES.len()];
        match client.query(sql) {
            Ok(_) => done += 1,
            Err(Failure::Lost(_)) => return done,
            // Done in a life before, whose answer was lost.
            Err(error) if error.to_string().contains("primary key") => done += 1,
            Err(error) if error.to_string().contains("Can't DROP") => done += 1,
            Err(error) if error.to_string().contains("not partitioned") => done += 1,
            Err(error) => panic!("{sql}: {error}"),
        }
    }
}

/// What a writer has by the tables.
fn seen(client: &mut Client, writer: u64, last: u64) -> Rows {
    let sql = format!("SELECT id, v FROM r.k WHERE id % {WRITERS} = {writer}");
    let mut rows = Rows { last, ..Rows::default() };
    for row in client.query(&sql).unwrap() {
        let before = rows.keyed.insert(row[0].parse().unwrap(), row[1].parse().unwrap());
        assert_eq!(before, None, "id {} is there twice", row[0]);
    }
    let sql = format!("SELECT n FROM r.d WHERE w = {writer}");
    for row in client.query(&sql).unwrap() {
        let before = rows.plain.insert(row[0].parse().unwrap(), ());
        assert_eq!(before, None, "number {} is there twice", row[0]);
    }
    let sql = format!("SELECT v, r FROM r.g WHERE w = {writer}");
    for row in client.query(&sql).unwrap() {
        rows.parts = (row[0].parse().unwrap(), row[1].parse().unwrap());
    }
    rows
}

/// What is there is what was acknowledged, or the last statement besides.
fn compare(client: &mut Client, writers: &mut [(Rows, Rows)]) {
    for (writer, (acknowledged, sent)) in writers.iter_mut().enumerate() {
        let rows = seen(client, writer as u64, sent.last);
        let of = |rows: &Rows| (rows.keyed.clone(), rows.plain.clone(), rows.parts);
        let is = |other: &Rows| of(&rows) == of(other);
        if !is(acknowledged) && !is(sent) {
            let lost = acknowledged.keyed.iter().find(|(id, v)| rows.keyed.get(id) != Some(v));
            let plain = acknowledged.plain.keys().find(|n| !rows.plain.contains_key(n));
            panic!(
                "writer {writer}: {} and {} of {} and {} rows; differs at {lost:?}, {plain:?}; \
                 {:?} of {:?}",
                rows.keyed.len(),
                rows.plain.len(),
                acknowledged.keyed.len(),
                acknowledged.plain.len(),
                rows.parts,
                acknowledged.parts
            );
        }
        (*acknowledged, *sent) = (rows.clone(), rows);
    }
    let names = client.query("SHOW TABLES FROM r").unwrap();
    assert_eq!(names, [["d"], ["g"], ["k"]]);
}

#[test]
fn rows_that_are_copied_are_those_that_were_acknowledged() {
    let world = world();
    let mut writers = vec![<(Rows, Rows)>::default(); WRITERS as usize];
    let mut random = StdRng::seed_from_u64(34);
    let done = Arc::new(AtomicU64::new(0));
    let mut changes = 0;
    for crash in 0..CRASHES {
        let server = world.begin_life(crash, &FAILPOINTS, &mut random, |client| {
            if crash == 0 {
                client.query("CREATE DATABASE r").unwrap();
                client.query("CREATE TABLE r.k (id BIGINT PRIMARY KEY, v VARCHAR(30))").unwrap();
                client.query("CREATE TABLE r.d (w INT, n BIGINT)").unwrap();
                let parts = "CREATE TABLE r.g (w INT, v INT SUM, r VARCHAR(30) REPLACE) AGGREGATE \
                             KEY(w) DISTRIBUTED BY HASH(w) BUCKETS 2";
                client.query(parts).unwrap();
            }
            compare(client, &mut writers);
        });
        let Some(server) = server else { continue };
        let port = server.mysql_port;
        let running = writers.drain(..).zip(0..).map(|((rows, _), writer)| {
            let (seed, done) = (random.random(), Arc::clone(&done));
            thread::spawn(move || write(port, (writer, seed), rows, &done))
        });
        let running = running.collect::<Vec<_>>();
        let altering = thread::spawn(move || alter(port, changes));
        end_life(server, crash, LOAD, &done, &mut random);
        writers.extend(running.into_iter().map(|writer| writer.join().unwrap()));
        changes += altering.join().unwrap();
    }
    assert!(changes > 2 * CHANGES.len(), "only {changes} changes were done");
    world.end("r.k", |client| compare(client, &mut writers));
}
