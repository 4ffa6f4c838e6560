//! E1: the cost of a key table.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Random, least, nanos_each, setting, timed_on_core};

const STRIPES: usize = 64;
const INLINE_BYTES: usize = 16;
/// Slots of an empty stripe.
const SLOTS_MIN: usize = 64;

fn hash(key: &[u8]) -> u64 {
    let mut hash = key.len() as u64 ^ 0x9e37_79b9_7f4a_7c15;
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let product = u128::from(hash ^ u64::from_le_bytes(word)) * 0xd6e8_feb8_6659_fd93;
        hash = (product >> 64) as u64 ^ product as u64;
    }
    hash
}

fn stripe_of(hash: u64) -> usize {
    (hash >> 58) as usize
}

/// A key with what is known of it, 48 bytes.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// The key, or where it is in the arena.
    key: [u8; INLINE_BYTES],
    hash: u32,
    /// 0 for an empty slot.
    length: u32,
    version: u64,
    row: u64,
    _holder: u64,
}

#[derive(Default)]
struct Stripe {
    slots: Vec<Entry>,
    used: usize,
    arena: Vec<u8>,
}

impl Stripe {
    /// The slot of a key, or the empty one where it belongs.
    fn slot(&self, key: &[u8], hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let entry = &self.slots[at];
            let same = entry.hash == hash as u32 && entry.length as usize == key.len();
            if entry.length == 0 || same && self.key(entry) == key {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    fn key<'a>(&'a self, entry: &'a Entry) -> &'a [u8] {
        let length = entry.length as usize;
        if length <= INLINE_BYTES {
            return &entry.key[..length];
        }
        let start = u64::from_le_bytes(*entry.key.first_chunk().unwrap()) as usize;
        &self.arena[start..start + length]
    }

    /// Enters a key, and gives its earlier version.
    fn enter(&mut self, key: &[u8], hash: u64, version: u64) -> u64 {
        if self.used * 8 >= self.slots.len() * 7 {
            self.resize((self.slots.len() * 2).max(SLOTS_MIN), |_| true);
        }
        let at = self.slot(key, hash);
        if self.slots[at].length == 0 {
            let mut entry =
                Entry { hash: hash as u32, length: key.len() as u32, ..Entry::default() };
            if key.len() <= INLINE_BYTES {
                entry.key[..key.len()].copy_from_slice(key);
            } else {
                entry.key[..8].copy_from_slice(&(self.arena.len() as u64).to_le_bytes());
                self.arena.extend_from_slice(key);
            }
            self.slots[at] = entry;
            self.used += 1;
        }
        let entry = &mut self.slots[at];
        entry.row = version;
        std::mem::replace(&mut entry.version, version)
    }

    /// Moves the entries that are kept to another number of slots. The low half of a hash is enough
    /// for that many.
    fn resize(&mut self, slots: usize, keep: impl Fn(&Entry) -> bool) {
        let before = std::mem::replace(&mut self.slots, vec![Entry::default(); slots]);
        self.used = 0;
        for entry in before.into_iter().filter(|entry| entry.length > 0 && keep(entry)) {
            let mut at = entry.hash as usize & (slots - 1);
            while self.slots[at].length > 0 {
                at = (at + 1) & (slots - 1);
            }
            self.slots[at] = entry;
            self.used += 1;
        }
        if self.used == 0 {
            self.arena.clear();
        }
    }

    fn prefetch(&self, hash: u64) {
        #[cfg(target_arch = "x86_64")]
        if !self.slots.is_empty() {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let at = hash as usize & (self.slots.len() - 1);
            // SAFETY: a prefetch of any address does nothing but warm a cache.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.slots.as_ptr().add(at).cast()) };
        }
    }
}

/// A hash table in stripes.
struct Striped(Vec<Mutex<Stripe>>);

impl Striped {
    fn new() -> Self {
        Self((0..STRIPES).map(|_| Mutex::default()).collect())
    }

    fn enter_plain(&self, keys: &[Vec<u8>], version: u64) -> u64 {
        let enter = |key: &Vec<u8>| {
            let hash = hash(key);
            self.0[stripe_of(hash)].lock().enter(key, hash, version)
        };
        keys.iter().map(enter).fold(0, u64::wrapping_add)
    }

    /// Takes each stripe once for all keys of a record.
    fn enter_by_stripe(&self, keys: &[Vec<u8>], version: u64, prefetch: bool) -> u64 {
        let hashes = keys.iter().map(|key| hash(key)).collect::<Vec<_>>();
        let mut ends = [0u32; STRIPES + 1];
        hashes.iter().for_each(|&hash| ends[stripe_of(hash) + 1] += 1);
        (0..STRIPES).for_each(|at| ends[at + 1] += ends[at]);
        let mut order = vec![0u32; keys.len()];
        let mut next = ends;
        for (key, &hash) in hashes.iter().enumerate() {
            let place = &mut next[stripe_of(hash)];
            order[*place as usize] = key as u32;
            *place += 1;
        }
        let mut sum = 0u64;
        for (stripe, ends) in self.0.iter().zip(ends.windows(2)) {
            let keys_here = &order[ends[0] as usize..ends[1] as usize];
            if keys_here.is_empty() {
                continue;
            }
            let mut stripe = stripe.lock();
            if prefetch {
                keys_here.iter().for_each(|&key| stripe.prefetch(hashes[key as usize]));
            }
            for &key in keys_here {
                let earlier = stripe.enter(&keys[key as usize], hashes[key as usize], version);
                sum = sum.wrapping_add(earlier);
            }
        }
        sum
    }

    /// What a flush does: removes the entries up to a version.
    fn sweep(&self, version: u64) {
        for stripe in &self.0 {
            let mut stripe = stripe.lock();
            let slots = stripe.slots.len();
            stripe.resize(slots, |entry| entry.version > version);
        }
    }

    fn bytes(&self) -> usize {
        let of = |stripe: &Mutex<Stripe>| {
            let stripe = stripe.lock();
            stripe.slots.len() * size_of::<Entry>() + stripe.arena.capacity()
        };
        self.0.iter().map(of).sum()
    }
}

/// The keys of a record as a sorted array of hashes; one filter tells which keys are in none.
struct Arrays {
    filter: Vec<AtomicU64>,
    records: Mutex<Vec<Vec<(u64, u32)>>>,
}

impl Arrays {
    fn new(keys: usize) -> Self {
        let words = (keys * 16 / 64).next_power_of_two();
        Self { filter: (0..words).map(|_| AtomicU64::new(0)).collect(), records: Mutex::default() }
    }

    fn enter(&self, keys: &[Vec<u8>]) -> u64 {
        let mut found = 0;
        let mut array = Vec::with_capacity(keys.len());
        for (key, row) in keys.iter().zip(0..) {
            let hash = hash(key);
            let word = &self.filter[(hash >> 12) as usize & (self.filter.len() - 1)];
            let bits = 1u64 << (hash & 63) | 1 << (hash >> 6 & 63);
            found += u64::from(word.fetch_or(bits, Ordering::Relaxed) & bits == bits);
            array.push((hash, row));
        }
        array.sort_unstable();
        self.records.lock().push(array);
        found
    }

    /// What a key costs that the filter does not exclude.
    fn find(&self, key: &[u8]) -> Option<u32> {
        let hash = hash(key);
        self.records.lock().iter().rev().find_map(|record| {
            let at = record.partition_point(|&(other, _)| other < hash);
            record.get(at).filter(|(other, _)| *other == hash).map(|(_, row)| *row)
        })
    }
}

/// Runs `work` on the keys, divided among threads and then into records: the time of all cores.
fn enter_all(
    keys: &[Vec<u8>],
    threads: usize,
    record_rows: usize,
    work: impl Fn(&[Vec<u8>], u64) -> u64 + Sync,
) -> Duration {
    let work = &work;
    let share = keys.len() / threads;
    let enter = |keys: &[Vec<u8>]| {
        for (record, version) in keys.chunks(record_rows).zip(1..) {
            black_box(work(record, version));
        }
    };
    std::thread::scope(|scope| {
        let shares = keys.chunks(share);
        let threads = shares.map(|keys| scope.spawn(move || timed_on_core(|| enter(keys)).0));
        let threads = threads.collect::<Vec<_>>();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

type Way<'a> = &'a (dyn Fn(&Striped, &[Vec<u8>], u64) -> u64 + Sync);

fn compare(name: &str, keys: &[Vec<u8>]) {
    for threads in [1, 2] {
        for record_rows in [1, 1000] {
            let each = |way: &dyn Fn() -> Duration| nanos_each(least(way), keys.len());
            let enter = |table: &Striped, way: Way| {
                enter_all(keys, threads, record_rows, |keys, at| way(table, keys, at))
            };
            // As after a flush: the slots are there, and empty.
            let striped = |way: Way| {
                let table = Striped::new();
                enter(&table, way);
                each(&|| {
                    table.sweep(u64::MAX);
                    enter(&table, way)
                })
            };
            let grown = each(&|| enter(&Striped::new(), &Striped::enter_plain));
            let plain = striped(&Striped::enter_plain);
            let sorted = striped(&|table, keys, at| table.enter_by_stripe(keys, at, false));
            let prefetched = striped(&|table, keys, at| table.enter_by_stripe(keys, at, true));
            let arrays = each(&|| {
                let arrays = Arrays::new(keys.len());
                enter_all(keys, threads, record_rows, |keys, _| arrays.enter(keys))
            });
            println!(
                "{name}, {threads} threads, {record_rows:4} rows a record: plain {plain:4.0} (from \
                 empty {grown:4.0}), by stripe {sorted:4.0}, and prefetched {prefetched:4.0}, \
                 arrays {arrays:4.0} ns a row"
            );
        }
    }
}

pub fn run() {
    let count = setting("KEYS", 400_000);
    let encoded = |key: &u64| key.to_be_bytes().to_vec();
    let mut numbers = (0..count as u64).collect::<Vec<_>>();
    compare("rising keys of 8 bytes", &numbers.iter().map(encoded).collect::<Vec<_>>());
    Random::new().shuffle(&mut numbers);
    let short = numbers.iter().map(encoded).collect::<Vec<_>>();
    compare("scattered keys of 8 bytes", &short);
    let long = |key: &Vec<u8>| [b"customer/", key.as_slice(), b"/orders/of/day"].concat();
    compare("scattered keys of 31 bytes", &short.iter().map(long).collect::<Vec<_>>());

    let table = Striped::new();
    enter_all(&short, 1, 1000, |keys, at| table.enter_by_stripe(keys, at, true));
    println!("{:.0} bytes an entry, empty slots included", table.bytes() as f64 / count as f64);
    let again = least(|| enter_all(&short, 1, 1000, |keys, at| table.enter_plain(keys, at)));
    println!("a key that is there: {:.0} ns", nanos_each(again, count));
    let (time, ()) = timed_on_core(|| table.sweep(u64::MAX));
    println!("a key removed by a flush: {:.0} ns", nanos_each(time, count));
    let arrays = Arrays::new(count);
    enter_all(&short, 1, 1000, |keys, _| arrays.enter(keys));
    let looked_up = &short[..1000];
    let (time, _) = timed_on_core(|| looked_up.iter().filter_map(|key| arrays.find(key)).count());
    let records = count / 1000;
    let each = nanos_each(time, looked_up.len());
    println!("a key that is in one of {records} arrays: {each:.0} ns");
}
