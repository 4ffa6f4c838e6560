//! The key table: the last version of every key that is not in files yet (keys.md K13).

use std::ops::Range;

use hashbrown::{HashTable, hash_table};

use crate::segment::key_part;

/// Keys of up to this length stand in their entry, longer ones in the arena.
const INLINE_BYTES: usize = 16;

/// Keys whose hashes are known before the first of them is looked for.
const KEYS_IN_TURN: usize = 64;

/// The last version of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    /// Its row in the delta.
    pub row: u64,
    /// Whether it removed the key, so that the row was never alive.
    pub is_removal: bool,
}

/// Half a line of the cache: a table of many keys is in none, and each access to it fetches lines.
struct Entry {
    /// The key, or where it begins in the arena.
    key: [u8; INLINE_BYTES],
    length: u32,
    hash: Hash,
    version: Packed,
}

const _: () = assert!(size_of::<Entry>() == 32, "two entries are in a line of the cache");

/// The part of the hash of a key that is kept, so that a table that grows reads no keys.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Hash(u32);

impl Hash {
    fn of(key: &[u8]) -> Self {
        Self(key_part::hash(key) as u32)
    }

    /// What the table takes: the place of a key follows from the low bits, its tag from the high
    /// ones.
    fn wide(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

/// A version in a word: the highest bit says that it is a removal.
#[derive(Clone, Copy)]
struct Packed(u64);

impl Packed {
    const REMOVAL: u64 = 1 << 63;
}

impl From<Version> for Packed {
    fn from(Version { row, is_removal }: Version) -> Self {
        assert!(row < Self::REMOVAL, "rows are counted from zero");
        Self(row | if is_removal { Self::REMOVAL } else { 0 })
    }
}

impl From<Packed> for Version {
    fn from(Packed(word): Packed) -> Self {
        Self { row: word & !Packed::REMOVAL, is_removal: word & Packed::REMOVAL != 0 }
    }
}

impl Entry {
    /// Whether it is that of a key with this hash.
    fn is(&self, key: &[u8], hash: Hash, arena: &[u8]) -> bool {
        self.hash == hash && self.key(arena) == key
    }

    fn key<'a>(&'a self, arena: &'a [u8]) -> &'a [u8] {
        let length = self.length as usize;
        match length <= INLINE_BYTES {
            true => &self.key[..length],
            false => {
                let start = self.key.first_chunk().expect("an entry has eight bytes");
                let start = u64::from_le_bytes(*start) as usize;
                &arena[start..start + length]
            }
        }
    }
}

/// A hash table from keys to versions, and the range of their rows.
#[derive(Default)]
struct Generation {
    entries: HashTable<Entry>,
    /// The bytes of long keys.
    arena: Vec<u8>,
    /// Has the row of each entry, and is empty if there was none.
    rows: Range<u64>,
}

impl Generation {
    fn find(&self, key: &[u8], hash: Hash) -> Option<Version> {
        let found = self.entries.find(hash.wide(), |entry| entry.is(key, hash, &self.arena));
        found.map(|entry| entry.version.into())
    }

    fn enter(&mut self, key: &[u8], hash: Hash, version: Version) {
        self.rows = match self.rows.is_empty() {
            true => version.row..version.row + 1,
            false => self.rows.start.min(version.row)..self.rows.end.max(version.row + 1),
        };
        let Self { entries, arena, .. } = self;
        let is = |entry: &Entry| entry.is(key, hash, arena);
        let free = match entries.entry(hash.wide(), is, |entry| entry.hash.wide()) {
            hash_table::Entry::Occupied(mut known) => {
                known.get_mut().version = version.into();
                return;
            }
            hash_table::Entry::Vacant(free) => free,
        };
        let length = u32::try_from(key.len()).expect("keys have a limit");
        let mut inline = [0; INLINE_BYTES];
        match key.len() <= INLINE_BYTES {
            true => inline[..key.len()].copy_from_slice(key),
            false => {
                inline[..8].copy_from_slice(&(arena.len() as u64).to_le_bytes());
                arena.extend_from_slice(key);
            }
        }
        free.insert(Entry { key: inline, length, hash, version: version.into() });
    }

    fn remove(&mut self, key: &[u8], hash: Hash) {
        let Self { entries, arena, .. } = self;
        if let Ok(entry) = entries.find_entry(hash.wide(), |entry| entry.is(key, hash, arena)) {
            entry.remove();
        }
    }

    fn versions(&self) -> impl Iterator<Item = (&[u8], Version)> {
        self.entries.iter().map(|entry| (entry.key(&self.arena), entry.version.into()))
    }

    fn memory_bytes(&self) -> usize {
        self.entries.allocation_size() + self.arena.capacity()
    }
}

/// A hash table from keys to their last version in the delta. It has two generations, so that what
/// a flush has written can be forgotten at once: rows that come while it writes are of the younger
/// one.
#[derive(Default)]
pub struct KeyTable {
    young: Generation,
    /// Keys that are not among the younger ones have their last version here.
    old: Generation,
}

impl KeyTable {
    pub fn find(&self, key: &[u8]) -> Option<Version> {
        let hash = Hash::of(key);
        self.young.find(key, hash).or_else(|| self.old.find(key, hash))
    }

    /// [`Self::find`] of several keys.
    pub fn find_all<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<Option<Version>> {
        let mut found = Vec::with_capacity(keys.size_hint().0);
        in_turns(keys.map(|key| (key, Hash::of(key))), |some| {
            let from = found.len();
            found.extend(some.iter().map(|(key, hash)| self.young.find(key, *hash)));
            if self.old.entries.is_empty() {
                return;
            }
            for ((key, hash), found) in some.iter().zip(&mut found[from..]) {
                *found = found.or_else(|| self.old.find(key, *hash));
            }
        });
        found
    }

    /// [`Self::enter`] of several keys, one after the other.
    pub fn enter_all<'k>(&mut self, keys: impl Iterator<Item = (&'k [u8], Version)>) {
        in_turns(keys.map(|(key, version)| (key, Hash::of(key), version)), |some| {
            some.iter().for_each(|(key, hash, version)| self.young.enter(key, *hash, *version));
        });
    }

    /// Sets the last version of a key.
    pub fn enter(&mut self, key: &[u8], version: Version) {
        self.young.enter(key, Hash::of(key), version);
    }

    /// Removes a key, whose last version is not in the delta any more.
    pub fn remove(&mut self, key: &[u8]) {
        let hash = Hash::of(key);
        self.young.remove(key, hash);
        self.old.remove(key, hash);
    }

    /// Lets what is entered from now on be of another generation than what is there, unless there
    /// are two: then [`Self::kept_from`] takes longer.
    pub fn begin_generation(&mut self) {
        if self.old.entries.is_empty() {
            self.old = std::mem::take(&mut self.young);
        }
    }

    /// What stays of the keys when those are forgotten whose last version is before `row`. Others
    /// may read meanwhile, and nobody writes until [`Self::keep`].
    pub fn kept_from(&self, row: u64) -> Kept {
        let generations = [&self.young, &self.old];
        if generations.iter().all(|keys| keys.rows.is_empty() || keys.rows.start >= row) {
            return Kept::All;
        }
        if !self.young.rows.is_empty() && self.young.rows.start < row {
            // In no more memory than they need.
            let mut kept = Self::default();
            let versions = self.versions().filter(|(_, version)| version.row >= row);
            versions.for_each(|(key, version)| kept.enter(key, version));
            return Kept::Copied(kept);
        }
        if self.old.rows.is_empty() || self.old.rows.end <= row {
            return Kept::Young(Vec::new());
        }
        let left = self.old.versions().filter(|(_, version)| version.row >= row);
        let left = left.filter(|(key, _)| self.young.find(key, Hash::of(key)).is_none());
        Kept::Young(left.map(|(key, version)| (key.into(), version)).collect())
    }

    /// Goes on with what stays.
    pub fn keep(&mut self, kept: Kept) {
        match kept {
            Kept::All => {}
            Kept::Young(left) => {
                left.iter().for_each(|(key, version)| self.enter(key, *version));
                self.old = Generation::default();
            }
            Kept::Copied(kept) => *self = kept,
        }
    }

    /// Forgets the keys whose last version is before `row`, at once where they are a generation.
    pub fn keep_from(&mut self, row: u64) {
        let kept = self.kept_from(row);
        self.keep(kept);
    }

    /// Removes some keys, and gives their memory back.
    pub fn forget(&mut self, mut is_gone: impl FnMut(&[u8], Version) -> bool) {
        let before = std::mem::take(self);
        let kept = before.versions().filter(|(key, version)| !is_gone(key, *version));
        kept.for_each(|(key, version)| self.enter(key, version));
    }

    /// Approximate memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.young.memory_bytes() + self.old.memory_bytes()) as u64
    }

    /// Each key with its last version.
    fn versions(&self) -> impl Iterator<Item = (&[u8], Version)> {
        let old = self.old.versions();
        let old = old.filter(|(key, _)| self.young.find(key, Hash::of(key)).is_none());
        self.young.versions().chain(old)
    }
}

/// Does one thing after another for some keys: while the memory for one is fetched, that for others
/// is asked for already, as long as little else is done between.
fn in_turns<T>(mut all: impl Iterator<Item = T>, mut each: impl FnMut(&[T])) {
    let mut some = Vec::with_capacity(KEYS_IN_TURN);
    loop {
        some.clear();
        some.extend(all.by_ref().take(KEYS_IN_TURN));
        if some.is_empty() {
            return;
        }
        each(&some);
    }
}

/// What stays of a key table ([`KeyTable::kept_from`]).
pub enum Kept {
    /// All of it, in its generations: a merge that ends while a flush writes forgets nothing.
    All,
    /// The younger generation, and these keys of the older one.
    Young(Vec<(Box<[u8]>, Version)>),
    /// These keys, which others had between them.
    Copied(KeyTable),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn where_nothing_is_forgotten_the_generations_stay() {
        let mut table = KeyTable::default();
        let version = |row| Version { row, is_removal: false };
        table.enter(&key(1), version(5));
        table.begin_generation();
        table.enter(&key(2), version(6));
        table.keep_from(5);
        assert_eq!((table.old.entries.len(), table.young.entries.len()), (1, 1));
        // So what the flush has written goes at once.
        assert!(matches!(table.kept_from(6), Kept::Young(left) if left.is_empty()));
        table.keep_from(6);
        assert_eq!((table.find(&key(1)), table.find(&key(2))), (None, Some(version(6))));
    }

    fn key(number: u16) -> Vec<u8> {
        let length = usize::from(number % 5) * 8 + 2;
        let mut key = vec![0; length];
        key[..2].copy_from_slice(&number.to_le_bytes());
        key
    }

    proptest! {
        #[test]
        fn it_is_a_map(
            steps in prop::collection::vec((0u16..60, 0u8..24, any::<bool>()), 0..400),
        ) {
            let (mut table, mut model) = (KeyTable::default(), BTreeMap::new());
            let mut began = 0;
            for ((number, step, is_removal), row) in steps.into_iter().zip(0..) {
                match step {
                    0 => {
                        table.remove(&key(number));
                        model.remove(&number);
                    }
                    2 => {
                        table.forget(|other, _| other == key(number));
                        model.remove(&number);
                    }
                    1 => {
                        table.keep_from(row / 2);
                        model.retain(|_, version: &mut Version| version.row >= row / 2);
                    }
                    3 => {
                        let kept = table.kept_from(row / 2);
                        table.keep(kept);
                        model.retain(|_, version: &mut Version| version.row >= row / 2);
                    }
                    4 => {
                        table.begin_generation();
                        began = row;
                    }
                    5 => {
                        // As behind a flush of what was there when it began.
                        table.keep_from(began);
                        model.retain(|_, version: &mut Version| version.row >= began);
                    }
                    6 => {
                        // Of one key the later one counts, in whatever turn it comes.
                        let keys = (0..100).map(|at| key((number + at) % 60)).collect::<Vec<_>>();
                        let versions = keys.iter().zip(0..).map(|(key, at)| {
                            (key.as_slice(), Version { row: row + at / 60, is_removal })
                        });
                        table.enter_all(versions);
                        model.extend((0..100).map(|at| {
                            let row = row + u64::from(at / 60);
                            ((number + at) % 60, Version { row, is_removal })
                        }));
                    }
                    _ => {
                        let version = Version { row, is_removal };
                        table.enter(&key(number), version);
                        model.insert(number, version);
                    }
                }
                prop_assert_eq!(table.versions().count(), model.len());
            }
            let keys = (0..60).map(key).collect::<Vec<_>>();
            let found = table.find_all(keys.iter().map(Vec::as_slice));
            for (number, found) in (0..60).zip(found) {
                prop_assert_eq!(found, model.get(&number).copied());
                prop_assert_eq!(found, table.find(&keys[usize::from(number)]));
            }
        }
    }
}
