//! The key table: the last version of every key that is not in files yet (keys.md K13).

use std::ops::Range;

use hashbrown::HashTable;

use crate::segment::key_part::hash;

/// Keys of up to this length stand in their entry, longer ones in the arena.
const INLINE_BYTES: usize = 16;

/// The last version of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    /// Its row in the delta.
    pub row: u64,
    /// Whether it removed the key, so that the row was never alive.
    pub is_removal: bool,
}

struct Entry {
    /// The key, or where it begins in the arena.
    key: [u8; INLINE_BYTES],
    length: u32,
    hash: u32,
    version: Version,
}

impl Entry {
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
    fn find(&self, key: &[u8], hash: u64) -> Option<Version> {
        let is = |entry: &Entry| entry.hash == hash as u32 && entry.key(&self.arena) == key;
        self.entries.find(hash, is).map(|entry| entry.version)
    }

    fn enter(&mut self, key: &[u8], hash: u64, version: Version) {
        self.rows = match self.rows.is_empty() {
            true => version.row..version.row + 1,
            false => self.rows.start.min(version.row)..self.rows.end.max(version.row + 1),
        };
        let Self { entries, arena, .. } = self;
        let is = |entry: &Entry| entry.hash == hash as u32 && entry.key(arena) == key;
        if let Some(entry) = entries.find_mut(hash, is) {
            entry.version = version;
            return;
        }
        let length = u32::try_from(key.len()).expect("keys have a limit");
        let mut inline = [0; INLINE_BYTES];
        match key.len() <= INLINE_BYTES {
            true => inline[..key.len()].copy_from_slice(key),
            false => {
                inline[..8].copy_from_slice(&(arena.len() as u64).to_le_bytes());
                arena.extend_from_slice(key);
            }
        }
        let entry = Entry { key: inline, length, hash: hash as u32, version };
        entries.insert_unique(hash, entry, |entry| super::hash(entry.key(arena)));
    }

    fn remove(&mut self, key: &[u8], hash: u64) {
        let Self { entries, arena, .. } = self;
        let is = |entry: &Entry| entry.hash == hash as u32 && entry.key(arena) == key;
        if let Ok(entry) = entries.find_entry(hash, is) {
            entry.remove();
        }
    }

    fn versions(&self) -> impl Iterator<Item = (&[u8], Version)> {
        self.entries.iter().map(|entry| (entry.key(&self.arena), entry.version))
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
        let hash = hash(key);
        self.young.find(key, hash).or_else(|| self.old.find(key, hash))
    }

    /// Sets the last version of a key.
    pub fn enter(&mut self, key: &[u8], version: Version) {
        self.young.enter(key, hash(key), version);
    }

    /// Removes a key, whose last version is not in the delta any more.
    pub fn remove(&mut self, key: &[u8]) {
        let hash = hash(key);
        self.young.remove(key, hash);
        self.old.remove(key, hash);
    }

    /// Lets what is entered from now on be of another generation than what is there, unless there
    /// are two: then [`Self::from`] takes longer.
    pub fn begin_generation(&mut self) {
        if self.old.entries.is_empty() {
            self.old = std::mem::take(&mut self.young);
        }
    }

    /// The keys of the older generation whose last version is not before `row`; `None` if the
    /// younger one has keys before it as well.
    pub fn left_of_old(&self, row: u64) -> Option<Vec<(Box<[u8]>, Version)>> {
        if !self.young.rows.is_empty() && self.young.rows.start < row {
            return None;
        }
        if self.old.rows.is_empty() || self.old.rows.end <= row {
            return Some(Vec::new());
        }
        let left = self.old.versions().filter(|(_, version)| version.row >= row);
        let left = left.filter(|(key, _)| self.young.find(key, hash(key)).is_none());
        Some(left.map(|(key, version)| (key.into(), version)).collect())
    }

    /// Forgets the older generation but for what is left of it ([`Self::left_of_old`]).
    pub fn forget_old(&mut self, left: &[(Box<[u8]>, Version)]) {
        left.iter().for_each(|(key, version)| self.enter(key, *version));
        self.old = Generation::default();
    }

    /// Forgets the keys whose last version is before `row`, at once where they are a generation.
    pub fn keep_from(&mut self, row: u64) {
        match self.left_of_old(row) {
            Some(left) => self.forget_old(&left),
            None => *self = self.from(row),
        }
    }

    /// The keys whose last version is not before `row`, in no more memory than they need.
    pub fn from(&self, row: u64) -> Self {
        let mut kept = Self::default();
        let versions = self.versions().filter(|(_, version)| version.row >= row);
        versions.for_each(|(key, version)| kept.enter(key, version));
        kept
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
        let old = old.filter(|(key, _)| self.young.find(key, hash(key)).is_none());
        self.young.versions().chain(old)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

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
                        table = table.from(row / 2);
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
                    _ => {
                        let version = Version { row, is_removal };
                        table.enter(&key(number), version);
                        model.insert(number, version);
                    }
                }
                prop_assert_eq!(table.versions().count(), model.len());
            }
            for number in 0..60 {
                prop_assert_eq!(table.find(&key(number)), model.get(&number).copied());
            }
        }
    }
}
