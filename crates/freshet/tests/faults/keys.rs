//! Unique keys that come and go beside writers under `kill -9`: once a key is acknowledged no
//! value is of two rows, before a crash or after it, until it is dropped; and a crash within the
//! statement leaves the key as a whole or not at all.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;

const WRITERS: u64 = 3;
const CRASHES: u64 = 10;
const VALUES: u64 = 200_000;
/// The key is added so often at least.
const LOAD: Load = Load { ms: 400..1500, work_min: 2 };
/// Where the server dies in every other life, and how often that is passed before.
const FAILPOINTS: [Failpoint; 5] = [
    ("barrier-durable", 12),
    ("compaction-before-publish", 3),
    ("flush-after-publish", 3),
    ("marks-written", 3),
    ("flush-after-write", 3),
];
const COUNTS: &str = "SELECT COUNT(u), COUNT(DISTINCT u), COUNT(*), COUNT(DISTINCT id) FROM k.k";
const IS_UNIQUE: &str = "SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = \
                         'k' AND index_name = 'uk' AND non_unique = 0 AND index_comment = ''";

/// Writes rows of few values until the server dies or nobody wants it any more.
fn write(port: u16, seed: u64, is_over: &AtomicBool) {
    let Ok(mut client) = Client::connect(port) else { return };
    let mut random = StdRng::seed_from_u64(seed);
    client.query("SET innodb_lock_wait_timeout = 1").ok();
    while !is_over.load(Ordering::Acquire) {
        let (id, u) = (random.random_range(0..100_000), random.random_range(0..VALUES));
        let statements = match random.random_range(0..8) {
            0 | 1 => vec![format!("INSERT INTO k.k VALUES ({id}, {u})")],
            2 => vec![format!("INSERT IGNORE INTO k.k VALUES ({id}, {u}), ({}, -{u})", id + 1)],
            3 => vec![format!("REPLACE INTO k.k VALUES ({id}, {u})")],
            4 => vec![format!("UPDATE k.k SET u = {u} WHERE id > {id} ORDER BY id LIMIT 1")],
            5 => vec![format!("DELETE FROM k.k WHERE u = {u}")],
            6 => vec!["FLUSH TABLES k.k".to_owned()],
            _ => vec![
                "BEGIN".to_owned(),
                format!("INSERT INTO k.k VALUES ({id}, {u}), ({}, {})", id + 1, (u + 1) % VALUES),
                format!("UPDATE k.k SET u = u + 1 WHERE id = {id}"),
                "COMMIT".to_owned(),
            ],
        };
        for sql in statements {
            match client.query(&sql) {
                Ok(_) => {}
                Err(error) if may_be(&error.to_string()) => {}
                Err(_) => return,
            }
        }
    }
}

/// Errors that a statement may have here: 1062, 1205, 1213.
fn may_be(error: &str) -> bool {
    ["Duplicate entry", "Lock wait timeout", "Deadlock", "restarting transaction"]
        .iter()
        .any(|one| error.contains(one))
}

fn check_unique(client: &mut Client) -> bool {
    let Ok(rows) = client.query(COUNTS) else { return false };
    assert_eq!(rows[0][0], rows[0][1], "a value is of two rows");
    assert_eq!(rows[0][2], rows[0][3], "a key is there twice");
    true
}

/// Whether the key was acknowledged last, or dropped; unknown within a statement.
fn toggle(port: u16, seed: u64, added: &AtomicU64) -> Option<bool> {
    let Ok(mut client) = Client::connect(port) else { return None };
    let mut random = StdRng::seed_from_u64(seed);
    let is_there = client.number(IS_UNIQUE);
    let Ok(mut is_there) = is_there.map(|count| count > 0) else { return None };
    loop {
        if is_there {
            for _ in 0..random.random_range(1..10) {
                if !check_unique(&mut client) {
                    return Some(true);
                }
            }
            if client.query("ALTER TABLE k.k DROP INDEX uk").is_err() {
                return None;
            }
            is_there = false;
        }
        if random.random() {
            sleep(Duration::from_millis(random.random_range(0..30)));
        }
        match client.query("ALTER TABLE k.k ADD UNIQUE KEY uk (u)") {
            Ok(_) => {
                is_there = true;
                added.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.to_string().contains("Duplicate entry") => {
                // So that it comes through now and then.
                if client.query("DELETE FROM k.k").is_err() {
                    return Some(false);
                }
            }
            Err(_) => return None,
        }
    }
}

#[test]
fn unique_keys_come_and_go_as_a_whole() {
    let world = world();
    let mut random = StdRng::seed_from_u64(32);
    let (mut known, done) = (Some(false), Arc::new(AtomicU64::new(0)));
    for crash in 0..CRASHES {
        let server = world.begin_life(crash, &FAILPOINTS, &mut random, |client| {
            if crash == 0 {
                client.query("CREATE DATABASE k").unwrap();
                let table = "CREATE TABLE k.k (id BIGINT PRIMARY KEY, u INT) \
                             DISTRIBUTED BY HASH(id) BUCKETS 2";
                client.query(table).unwrap();
            }
            let is_there = client.number(IS_UNIQUE).unwrap() > 0;
            assert!(known.is_none_or(|known| known == is_there), "{known:?} was acknowledged");
            known = Some(is_there);
            if is_there {
                assert!(check_unique(client));
            }
        });
        let Some(server) = server else { continue };
        let port = server.mysql_port;
        let is_over = Arc::new(AtomicBool::new(false));
        let writers = (0..WRITERS).map(|_| {
            let (seed, is_over) = (random.random(), Arc::clone(&is_over));
            thread::spawn(move || write(port, seed, &is_over))
        });
        let writers = writers.collect::<Vec<_>>();
        let (seed, added) = (random.random(), Arc::clone(&done));
        let toggler = thread::spawn(move || toggle(port, seed, &added));
        end_life(server, crash, LOAD, &done, &mut random);
        known = toggler.join().unwrap();
        is_over.store(true, Ordering::Release);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    }
    let added = done.load(Ordering::Relaxed);
    assert!(added > 5, "the key was added {added} times");
    let mut names = ["again", "behind_the_flush"].iter();
    world.end("k.k", |client| {
        let add = format!("ALTER TABLE k.k ADD UNIQUE KEY {} (u)", names.next().unwrap());
        while client.query(&add).is_err() {
            client.query("DELETE FROM k.k WHERE id > 3000").unwrap();
            client.query("DELETE FROM k.k ORDER BY id LIMIT 20").unwrap();
        }
        assert!(check_unique(client));
    });
}
