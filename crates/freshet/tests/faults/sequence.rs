//! Tables with a sequence column under `kill -9`: writers send versions of few keys in any order, a
//! reader never sees a key twice, and after each start every key has the greatest of the versions
//! that were acknowledged, or a greater one that was sent. Some of them delete their key.

use std::collections::BTreeMap;

use super::versions::{Versions, Writer, lives, seen};
use super::*;

/// Keys of each writer.
const KEYS: u64 = 300;
/// How far versions are sent from their order.
const APART: u64 = 500;

/// Whether a version of a key deletes it.
fn deletes(version: u64) -> bool {
    version.is_multiple_of(7)
}

fn raise(versions: &mut BTreeMap<u64, u64>, load: &BTreeMap<u64, u64>) {
    for (key, version) in load {
        let known = versions.entry(*key).or_default();
        *known = (*known).max(*version);
    }
}

/// Writes until the server dies.
fn write(port: u16, who: (u64, u64), mut versions: Versions, done: &AtomicU64) -> Versions {
    let Some(mut writer) = Writer::begin(port, who) else { return versions };
    loop {
        let mut load = BTreeMap::new();
        let count = writer.rows();
        let rows = (0..count).map(|_| {
            versions.last += 1;
            let version = versions.last + writer.random.random_range(0..APART);
            let key = writer.key(KEYS);
            raise(&mut load, &BTreeMap::from([(key, version)]));
            format!("({key}, {version}, 'v{version}', {})", u8::from(deletes(version)))
        });
        let columns = "k, v, s, __DORIS_DELETE_SIGN__";
        let rows = rows.collect::<Vec<_>>().join(",");
        raise(&mut versions.sent, &load);
        if writer.client.query(&format!("INSERT INTO u.u ({columns}) VALUES {rows}")).is_err() {
            return versions;
        }
        done.fetch_add(load.len() as u64, Ordering::Relaxed);
        raise(&mut versions.acknowledged, &load);
        if !writer.flushes() {
            return versions;
        }
    }
}

/// What a started server has must be between what it acknowledged and what was sent.
fn compare(client: &mut Client, writers: &mut [Versions]) {
    let seen = seen(client);
    for (key, version) in &seen {
        assert!(!deletes(*version), "key {key} is deleted by version {version}");
    }
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
    let properties = "PROPERTIES ('function_column.sequence_col' = 'v')";
    lives((properties, KEYS, 1830), write, compare);
}
