//! Writers that send versions of few keys of `u.u` under `kill -9`, and a reader beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;

const WRITERS: u64 = 3;
const CRASHES: u64 = 8;
/// Where the server dies in every other life, and how often that is passed before.
const FAILPOINTS: [Failpoint; 4] = [
    ("marks-written", 4),
    ("flush-after-publish", 3),
    ("compaction-before-publish", 1),
    ("flush-after-write", 3),
];

/// The versions of the keys of one writer.
#[derive(Clone, Default)]
pub struct Versions {
    pub last: u64,
    pub acknowledged: BTreeMap<u64, u64>,
    pub sent: BTreeMap<u64, u64>,
}

/// One of the writers, with a mode of group commit of its own.
pub struct Writer {
    pub client: Client,
    pub random: StdRng,
    number: u64,
}

impl Writer {
    /// `None` where the server is gone.
    pub fn begin(port: u16, (number, seed): (u64, u64)) -> Option<Self> {
        let mut client = Client::connect(port).ok()?;
        let modes = ["off_mode", "sync_mode", "async_mode"];
        let mode = modes[number as usize % modes.len()];
        client.query(&format!("SET group_commit = '{mode}'")).ok();
        Some(Self { client, random: StdRng::seed_from_u64(seed), number })
    }

    /// How many rows the next load has.
    pub fn rows(&mut self) -> u64 {
        match self.random.random_range(0..10) {
            0 => self.random.random_range(200..2000),
            _ => self.random.random_range(1..20),
        }
    }

    /// One of so many keys that are those of this writer alone.
    pub fn key(&mut self, keys: u64) -> u64 {
        self.random.random_range(0..keys) * WRITERS + self.number
    }

    /// Flushes the table now and then; false where the server is gone.
    pub fn flushes(&mut self) -> bool {
        self.random.random_range(0..40) != 0 || self.client.query("FLUSH TABLES u.u").is_ok()
    }
}

/// What a table with `properties` has, life after life; `write` writes until the server dies, and
/// `compare` looks at what a started one has. Each writer has so many `keys`.
pub fn lives(
    (properties, keys, seed): (&str, u64, u64),
    write: fn(u16, (u64, u64), Versions, &AtomicU64) -> Versions,
    compare: fn(&mut Client, &mut [Versions]),
) {
    let world = world();
    let mut writers = vec![Versions::default(); WRITERS as usize];
    let mut random = StdRng::seed_from_u64(seed);
    let done = Arc::new(AtomicU64::new(0));
    for crash in 0..CRASHES {
        let server = world.begin_life(crash, &FAILPOINTS, &mut random, |client| {
            if crash == 0 {
                client.query("CREATE DATABASE u").unwrap();
                let table = "CREATE TABLE u.u (k BIGINT, v BIGINT, s VARCHAR(30)) UNIQUE KEY(k) \
                             DISTRIBUTED BY HASH(k) BUCKETS 2";
                client.query(&format!("{table} {properties}")).unwrap();
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
        let load = Load { ms: 100..900, work_min: WRITERS * 2 * keys };
        end_life(server, crash, load, &done, &mut random);
        writers.extend(running.into_iter().map(|writer| writer.join().unwrap()));
        reader.join().unwrap();
    }
    let replaces = |writer: &Versions| writer.last > 5 * keys;
    assert!(writers.iter().all(replaces), "a key has few versions");
    world.end("u.u", |client| compare(client, &mut writers));
}

/// Compares counts until the server dies.
fn read(port: u16) {
    let Ok(mut client) = Client::connect(port) else { return };
    while let Ok(rows) = client.query("SELECT COUNT(*), COUNT(DISTINCT k) FROM u.u") {
        assert_eq!(rows[0][0], rows[0][1], "a key is there twice");
    }
}

/// The version of each key that is there.
pub fn seen(client: &mut Client) -> BTreeMap<u64, u64> {
    let rows = client.query("SELECT k, v, s FROM u.u").unwrap();
    let mut seen = BTreeMap::new();
    for row in &rows {
        let (key, version) = (row[0].parse::<u64>().unwrap(), row[1].parse::<u64>().unwrap());
        assert_eq!(row[2], format!("v{version}"));
        assert_eq!(seen.insert(key, version), None, "key {key} is there twice");
    }
    assert_eq!(client.number("SELECT COUNT(*) FROM u.u").unwrap(), seen.len() as i64);
    seen
}
