//! Tables with a sequence column under `kill -9`: writers send versions of few keys in any order, a
//! reader never sees a key twice, and after each start every key has the greatest of the versions
//! that were acknowledged, or a greater one that was sent. Some of them delete their key.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;

const WRITERS: u64 = 3;
/// Keys of each writer.
const KEYS: u64 = 300;
const CRASHES: u64 = 8;
const LOAD: Load = Load { ms: 100..900, work_min: WRITERS * 2 * KEYS };
/// Where the server dies in every other life, and how often that is passed before.
const FAILPOINTS: [Failpoint; 4] = [
    ("marks-written", 4),
    ("flush-after-publish", 3),
    ("compaction-before-publish", 1),
    ("flush-after-write", 3),
];
/// How far versions are sent from their order.
const APART: u64 = 500;

/// Whether a version of a key deletes it.
fn deletes(version: u64) -> bool {
    version.is_multiple_of(7)
}

/// The greatest versions of the keys of one writer.
#[derive(Clone, Default)]
struct Versions {
    last: u64,
    acknowledged: BTreeMap<u64, u64>,
    sent: BTreeMap<u64, u64>,
}

fn raise(versions: &mut BTreeMap<u64, u64>, load: &BTreeMap<u64, u64>) {
    for (key, version) in load {
        let known = versions.entry(*key).or_default();
        *known = (*known).max(*version);
    }
}

/// Writes until the server dies.
fn write(
    port: u16,
    (writer, seed): (u64, u64),
    mut versions: Versions,
    done: &AtomicU64,
) -> Versions {
    let Ok(mut client) = Client::connect(port) else { return versions };
    let mut random = StdRng::seed_from_u64(seed);
    let modes = ["off_mode", "sync_mode", "async_mode"];
    let mode = modes[writer as usize % modes.len()];
    client.query(&format!("SET group_commit = '{mode}'")).ok();
    loop {
        let rows = match random.random_range(0..10) {
            0 => random.random_range(200..2000),
            _ => random.random_range(1..20),
        };
        let mut load = BTreeMap::new();
        let rows = (0..rows).map(|_| {
            versions.last += 1;
            let version = versions.last + random.random_range(0..APART);
            let key = random.random_range(0..KEYS) * WRITERS + writer;
            raise(&mut load, &BTreeMap::from([(key, version)]));
            format!("({key}, {version}, 'v{version}', {})", u8::from(deletes(version)))
        });
        let columns = "k, v, s, __DORIS_DELETE_SIGN__";
        let rows = rows.collect::<Vec<_>>().join(",");
        raise(&mut versions.sent, &load);
        if client.query(&format!("INSERT INTO u.u ({columns}) VALUES {rows}")).is_err() {
            return versions;
        }
        done.fetch_add(load.len() as u64, Ordering::Relaxed);
        raise(&mut versions.acknowledged, &load);
        if random.random_range(0..40) == 0 && client.query("FLUSH TABLES u.u").is_err() {
            return versions;
        }
    }
}

/// Compares counts until the server dies.
fn read(port: u16) {
    let Ok(mut client) = Client::connect(port) else { return };
    while let Ok(rows) = client.query("SELECT COUNT(*), COUNT(DISTINCT k) FROM u.u") {
        assert_eq!(rows[0][0], rows[0][1], "a key is there twice");
    }
}

/// What a started server has must be between what it acknowledged and what was sent.
fn compare(client: &mut Client, writers: &mut [Versions]) {
    let rows = client.query("SELECT k, v, s FROM u.u").unwrap();
    let mut seen = BTreeMap::new();
    for row in &rows {
        let (key, version) = (row[0].parse::<u64>().unwrap(), row[1].parse::<u64>().unwrap());
        assert_eq!(row[2], format!("v{version}"));
        assert!(!deletes(version), "key {key} is deleted by version {version}");
        assert_eq!(seen.insert(key, version), None, "key {key} is there twice");
    }
    assert_eq!(client.number("SELECT COUNT(*) FROM u.u").unwrap(), seen.len() as i64);
    for versions in writers {
        for (key, acknowledged) in &mut versions.acknowledged {
            let mut possible = *acknowledged..=versions.sent[key];
            match seen.get(key) {
                Some(found) => {
                    assert!(possible.contains(found), "key {key} is {found}, not in {possible:?}");
                    *acknowledged = *found;
                }
                None => assert!(possible.any(deletes), "key {key} is none of {possible:?}"),
            }
        }
    }
}

#[test]
fn every_key_has_its_greatest_version_after_a_crash() {
    let world = world();
    let mut writers = vec![Versions::default(); WRITERS as usize];
    let mut random = StdRng::seed_from_u64(1830);
    let done = Arc::new(AtomicU64::new(0));
    for crash in 0..CRASHES {
        let server = world.begin_life(crash, &FAILPOINTS, &mut random, |client| {
            if crash == 0 {
                client.query("CREATE DATABASE u").unwrap();
                let table = "CREATE TABLE u.u (k BIGINT, v BIGINT, s VARCHAR(30)) UNIQUE KEY(k) \
                             DISTRIBUTED BY HASH(k) BUCKETS 2 \
                             PROPERTIES ('function_column.sequence_col' = 'v')";
                client.query(table).unwrap();
            }
            compare(client, &mut writers);
        });
        let Some(server) = server else { continue };
        let port = server.mysql_port;
        let running = writers.drain(..).zip(0..).map(|(versions, writer)| {
            let (seed, done) = (random.random(), Arc::clone(&done));
            thread::spawn(move || write(port, (writer, seed), versions, &done))
        });
        let running = running.collect::<Vec<_>>();
        let reader = thread::spawn(move || read(port));
        end_life(server, crash, LOAD, &done, &mut random);
        writers.extend(running.into_iter().map(|writer| writer.join().unwrap()));
        reader.join().unwrap();
    }
    let replaces = |writer: &Versions| writer.last > 5 * KEYS;
    assert!(writers.iter().all(replaces), "a key has few versions");
    world.end("u.u", |client| compare(client, &mut writers));
}
