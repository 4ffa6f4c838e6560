//! Unique keys under `kill -9`: writers replace rows of few keys, a reader never sees a key twice,
//! and after each start every key has its last acknowledged version, or a later one that was sent.

use std::collections::BTreeMap;

use super::versions::{Versions, Writer, lives, seen};
use super::*;

/// Keys of each writer.
const KEYS: u64 = 400;

/// Writes until the server dies.
fn write(port: u16, who: (u64, u64), mut versions: Versions, done: &AtomicU64) -> Versions {
    let Some(mut writer) = Writer::begin(port, who) else { return versions };
    loop {
        let mut load = BTreeMap::new();
        let count = writer.rows();
        let rows = (0..count).map(|_| {
            versions.last += 1;
            let (key, version) = (writer.key(KEYS), versions.last);
            load.insert(key, version);
            format!("({key}, {version}, 'v{version}')")
        });
        let sql = format!("INSERT INTO u.u VALUES {}", rows.collect::<Vec<_>>().join(","));
        versions.sent.extend(&load);
        if writer.client.query(&sql).is_err() {
            return versions;
        }
        done.fetch_add(load.len() as u64, Ordering::Relaxed);
        versions.acknowledged.extend(load);
        if !writer.flushes() {
            return versions;
        }
    }
}

/// What a started server has must be between what it acknowledged and what was sent.
fn compare(client: &mut Client, writers: &mut [Versions]) {
    let seen = seen(client);
    for versions in writers {
        for (key, acknowledged) in &versions.acknowledged {
            let found = seen.get(key).copied().unwrap_or(0);
            let possible = *acknowledged..=versions.sent[key];
            assert!(possible.contains(&found), "key {key} is {found}, not in {possible:?}");
        }
        // What had no answer is there or not.
        let sent = versions.sent.keys().filter_map(|key| Some((*key, *seen.get(key)?)));
        versions.acknowledged = sent.collect();
    }
}

#[test]
fn every_key_has_its_last_version_after_a_crash() {
    lives(("", KEYS, 2411), write, compare);
}
