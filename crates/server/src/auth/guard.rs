//! Slows down password guessing, like MySQL's connection control: the first failures in a row have
//! no consequence, each further one lengthens the delay of the next attempt, and a success resets
//! it.
//!
//! Failures are counted per pair of user name and address, so that nobody can lock out other users
//! or addresses, and per address, so that trying many names does not help; an address delays only
//! names that have not logged in from it. Delays are bounded, well below the login timeout, so no
//! client is locked out.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::slots::network;

/// Limit on remembered pairs, and on remembered addresses; the least recently failed is dropped.
const RECORDS_MAX: usize = 10_000;
/// Failures are forgotten this long after the last one.
const MEMORY: Duration = Duration::from_secs(900);
/// The threshold of an address is this many times that of a name.
const ADDRESS_FACTOR: u64 = 10;

/// How failures delay later attempts.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// Failures in a row without a delay; 0 switches delays off.
    pub threshold: u64,
    pub min: Duration,
    pub max: Duration,
}

impl Delays {
    /// The delay of the attempt after `failures` failures in a row.
    fn after(&self, failures: u64, threshold: u64) -> Duration {
        if threshold == 0 || failures < threshold {
            return Duration::ZERO;
        }
        let seconds = Duration::from_secs(failures + 1 - threshold);
        seconds.max(self.min).min(self.max)
    }
}

/// Remembered failures.
#[derive(Default)]
pub struct Guard {
    hasher: RandomState,
    /// The number of remembered pairs; while it is 0, no lock is taken.
    remembered: AtomicUsize,
    records: Mutex<Records>,
}

#[derive(Default)]
struct Records {
    /// By the hash of name and address.
    pairs: HashMap<u64, Record>,
    addresses: HashMap<IpAddr, Record>,
}

#[derive(Clone, Copy, Default)]
struct Record {
    failures: u64,
    /// Whether this name logged in from this address since the address last failed.
    logged_in: bool,
    last: Duration,
}

impl Guard {
    /// How long an attempt has to wait.
    pub fn delay(&self, user: &str, peer: IpAddr, delays: &Delays, now: Duration) -> Duration {
        if self.remembered.load(Ordering::Relaxed) == 0 {
            return Duration::ZERO;
        }
        let (pair, address) = (self.pair(user, peer), network(peer));
        let records = self.records.lock();
        let failures = |record: Option<&Record>| {
            let fresh = record.filter(|record| now.saturating_sub(record.last) < MEMORY);
            fresh.map_or(0, |record| record.failures)
        };
        let own = records.pairs.get(&pair);
        let by_name = delays.after(failures(own), delays.threshold);
        if own.is_some_and(|own| own.logged_in) {
            return by_name;
        }
        let by_address = failures(records.addresses.get(&address));
        by_name.max(delays.after(by_address, delays.threshold * ADDRESS_FACTOR))
    }

    /// Records an attempt with a wrong password.
    pub fn failed(&self, user: &str, peer: IpAddr, now: Duration) {
        let pair = self.pair(user, peer);
        let mut records = self.records.lock();
        fail(&mut records.pairs, pair, now);
        fail(&mut records.addresses, network(peer), now);
        self.remembered.store(records.pairs.len(), Ordering::Relaxed);
    }

    /// Records a successful attempt.
    pub fn logged_in(&self, user: &str, peer: IpAddr, now: Duration) {
        if self.remembered.load(Ordering::Relaxed) == 0 {
            return;
        }
        let pair = self.pair(user, peer);
        let mut records = self.records.lock();
        match records.addresses.get(&network(peer)) {
            Some(record) if now.saturating_sub(record.last) < MEMORY => {
                make_room(&mut records.pairs, &pair, now);
                records.pairs.insert(pair, Record { failures: 0, logged_in: true, last: now });
            }
            Some(_) => {
                records.pairs.remove(&pair);
                records.addresses.remove(&network(peer));
            }
            None => {
                records.pairs.remove(&pair);
            }
        }
        self.remembered.store(records.pairs.len(), Ordering::Relaxed);
    }

    fn pair(&self, user: &str, peer: IpAddr) -> u64 {
        self.hasher.hash_one((user, network(peer)))
    }
}

fn fail<K: Eq + Hash + Copy>(records: &mut HashMap<K, Record>, key: K, now: Duration) {
    make_room(records, &key, now);
    let record = records.entry(key).or_default();
    if now.saturating_sub(record.last) >= MEMORY {
        record.failures = 0;
    }
    record.failures += 1;
    record.last = now;
}

fn make_room<K: Eq + Hash + Copy>(records: &mut HashMap<K, Record>, key: &K, now: Duration) {
    if records.len() < RECORDS_MAX || records.contains_key(key) {
        return;
    }
    records.retain(|_, record| now.saturating_sub(record.last) < MEMORY);
    if records.len() >= RECORDS_MAX {
        let oldest = records.iter().min_by_key(|(_, record)| record.last);
        if let Some(key) = oldest.map(|(key, _)| *key) {
            records.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAYS: Delays =
        Delays { threshold: 3, min: Duration::from_secs(1), max: Duration::from_secs(5) };

    fn at(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn delays_grow_with_failures_and_end_with_a_success() {
        let guard = Guard::default();
        let delay = |guard: &Guard| guard.delay("root", at(1), &DELAYS, seconds(1)).as_secs();
        let mut seen = Vec::new();
        for _ in 0..10 {
            seen.push(delay(&guard));
            guard.failed("root", at(1), seconds(1));
        }
        assert_eq!(seen, [0, 0, 0, 1, 2, 3, 4, 5, 5, 5]);
        assert_eq!(guard.delay("root", at(2), &DELAYS, seconds(1)), Duration::ZERO);
        assert_eq!(guard.delay("other", at(1), &DELAYS, seconds(1)), Duration::ZERO);
        assert_eq!(guard.delay("root", at(1), &DELAYS, seconds(1000)), Duration::ZERO);
        guard.logged_in("root", at(1), seconds(1));
        assert_eq!(delay(&guard), 0);
        let off = Delays { threshold: 0, ..DELAYS };
        guard.failed("root", at(1), seconds(1));
        assert_eq!(guard.delay("root", at(1), &off, seconds(1)), Duration::ZERO);
    }

    #[test]
    fn many_names_from_one_address_wait_but_not_those_that_came_in_from_there() {
        let guard = Guard::default();
        for name in 0..35 {
            guard.failed(&name.to_string(), at(1), seconds(1));
        }
        let delay = |name: &str, from| guard.delay(name, at(from), &DELAYS, seconds(1)).as_secs();
        assert_eq!((delay("root", 1), delay("root", 2)), (5, 0));
        guard.logged_in("root", at(1), seconds(1));
        assert_eq!((delay("root", 1), delay("other", 1)), (0, 5));
    }

    #[test]
    fn what_is_remembered_has_an_end() {
        let guard = Guard::default();
        for name in 0..2 * RECORDS_MAX {
            let [.., a, b] = (name as u32).to_be_bytes();
            guard.failed(
                &name.to_string(),
                IpAddr::from([10, 1, a, b]),
                seconds(name as u64 / 1000),
            );
        }
        let records = guard.records.lock();
        assert!(records.pairs.len() <= RECORDS_MAX && records.addresses.len() <= RECORDS_MAX);
    }
}
