//! The key table: the last version of every key that is not in files yet (keys.md K13).

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

/// A hash table from keys to their last version in the delta.
#[derive(Default)]
pub struct KeyTable {
    entries: HashTable<Entry>,
    /// The bytes of long keys.
    arena: Vec<u8>,
}

impl KeyTable {
    pub fn find(&self, key: &[u8]) -> Option<Version> {
        let hash = hash(key);
        let found = self.entries.find(hash, |entry| self.is(entry, key, hash));
        found.map(|entry| entry.version)
    }

    /// Sets the last version of a key.
    pub fn enter(&mut self, key: &[u8], version: Version) {
        let hash = hash(key);
        let Self { entries, arena } = self;
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

    /// Removes a key, whose last version is not in the delta any more.
    pub fn remove(&mut self, key: &[u8]) {
        let hash = hash(key);
        let Self { entries, arena } = self;
        let is = |entry: &Entry| entry.hash == hash as u32 && entry.key(arena) == key;
        if let Ok(entry) = entries.find_entry(hash, is) {
            entry.remove();
        }
    }

    /// The keys whose last version is not before `row`, in no more memory than they need.
    pub fn from(&self, row: u64) -> Self {
        let mut kept = Self::default();
        let entries = self.entries.iter().filter(|entry| entry.version.row >= row);
        entries.for_each(|entry| kept.enter(entry.key(&self.arena), entry.version));
        kept
    }

    /// Removes some keys, and gives their memory back.
    pub fn forget(&mut self, mut is_gone: impl FnMut(&[u8], Version) -> bool) {
        let before = std::mem::take(self);
        let kept = before.entries.iter().map(|entry| (entry.key(&before.arena), entry.version));
        kept.filter(|(key, version)| !is_gone(key, *version))
            .for_each(|(key, version)| self.enter(key, version));
    }

    /// Approximate memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.entries.allocation_size() + self.arena.capacity()) as u64
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn is(&self, entry: &Entry, key: &[u8], hash: u64) -> bool {
        entry.hash == hash as u32 && entry.key(&self.arena) == key
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
            steps in prop::collection::vec((0u16..60, 0u8..12, any::<bool>()), 0..400),
        ) {
            let (mut table, mut model) = (KeyTable::default(), BTreeMap::new());
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
                        table = table.from(row / 2);
                        model.retain(|_, version: &mut Version| version.row >= row / 2);
                    }
                    _ => {
                        let version = Version { row, is_removal };
                        table.enter(&key(number), version);
                        model.insert(number, version);
                    }
                }
                prop_assert_eq!(table.len(), model.len());
            }
            for number in 0..60 {
                prop_assert_eq!(table.find(&key(number)), model.get(&number).copied());
            }
        }
    }
}
