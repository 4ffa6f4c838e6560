//! The contents of a file: those that processes read, and those on the device.

use std::collections::BTreeSet;
use std::ops::Range;

use freshet_base::io::DIRECT_ALIGN_BYTES;
use rand::Rng;
use rand::rngs::StdRng;

/// Sectors are written atomically.
pub(crate) const SECTOR_BYTES: usize = 512;

/// What becomes of a block of 4 KiB when the power fails during its write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Old,
    New,
    /// Readable until the power fails again; only another write makes it durable.
    Volatile,
    Garbage,
}

#[derive(Clone, Default)]
pub(crate) struct Inode {
    /// Contents as processes read them.
    pub now: Vec<u8>,
    /// Contents that certainly survive a crash.
    durable: Vec<u8>,
    /// Sectors that may differ from the durable ones.
    dirty: BTreeSet<usize>,
    /// Sectors whose sync failed: readable, but not written by any later sync.
    forgotten: BTreeSet<usize>,
    /// Sectors that the next crash leaves readable, but not durable.
    volatile: BTreeSet<usize>,
}

impl Inode {
    /// Changes the contents that processes read. After a torn write the other sectors are not
    /// written later.
    pub fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[offset..end].copy_from_slice(bytes);
        for sector in sectors(offset, bytes.len()) {
            self.dirty.insert(sector);
            self.forgotten.remove(&sector);
            self.volatile.remove(&sector);
        }
    }

    pub fn resize(&mut self, len: usize) {
        let before = self.now.len();
        self.now.resize(len, 0);
        self.dirty.extend(before.min(len) / SECTOR_BYTES..len.div_ceil(SECTOR_BYTES));
    }

    pub fn sync(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        self.sync_sectors(dirty);
    }

    /// Makes the sectors of a direct write at `offset` durable.
    pub fn sync_range(&mut self, offset: usize, len: usize) {
        for sector in sectors(offset, len) {
            self.dirty.remove(&sector);
        }
        self.sync_sectors(sectors(offset, len));
    }

    fn sync_sectors(&mut self, sectors: impl IntoIterator<Item = usize>) {
        let len = self.now.len();
        self.durable.resize(len, 0);
        for sector in sectors {
            let range = sector_range(sector, len);
            self.durable[range.clone()].copy_from_slice(&self.now[range]);
        }
    }

    /// Simulates a failed sync: the system no longer considers these sectors dirty.
    pub fn fail_sync(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        self.forgotten.extend(dirty);
    }

    /// Writes blocks during a power failure, with these fates in turn.
    pub fn tear(&mut self, bytes: &[u8], offset: usize, fates: &[Fate]) {
        self.now.resize(self.now.len().max(offset + bytes.len()), 0);
        for (at, new) in bytes.chunks(DIRECT_ALIGN_BYTES).enumerate() {
            let begin = offset + at * DIRECT_ALIGN_BYTES;
            match fates[at % fates.len()] {
                Fate::Old => continue,
                Fate::New | Fate::Volatile => self.write(new, begin),
                // A write does not damage bytes that it does not change.
                Fate::Garbage => {
                    let old = self.now[begin..].iter().zip(new);
                    let garbage = old.map(|(old, new)| if old == new { *old } else { old ^ 0x5a });
                    self.write(&garbage.collect::<Vec<_>>(), begin);
                }
            }
            match fates[at % fates.len()] {
                Fate::Volatile => {
                    self.dirty.retain(|sector| !sectors(begin, new.len()).contains(sector));
                    self.volatile.extend(sectors(begin, new.len()));
                }
                _ => self.sync_range(begin, new.len()),
            }
        }
    }

    /// Changes the contents on the device and in the cache.
    pub fn edit(&mut self, edit: impl FnOnce(&mut Vec<u8>)) {
        let before = self.now.clone();
        edit(&mut self.now);
        let len = self.now.len();
        let is_changed = |sector: &usize| {
            let range = sector_range(*sector, len);
            before.get(range.clone()) != Some(&self.now[range])
        };
        let changed = (0..len.div_ceil(SECTOR_BYTES)).filter(is_changed).collect::<Vec<_>>();
        self.sync_sectors(changed);
    }

    /// Lets the next read come from the device.
    pub fn drop_cache(&mut self) {
        let len = self.now.len();
        for sector in std::mem::take(&mut self.forgotten) {
            let range = sector_range(sector, len);
            self.now[range.clone()].copy_from_slice(&self.durable[range]);
        }
    }

    pub fn crash(&mut self, chance: &mut StdRng) {
        let len = match self.now.len() == self.durable.len() || chance.random() {
            true => self.now.len(),
            false => self.durable.len(),
        };
        self.durable.resize(len, 0);
        self.now.resize(len, 0);
        for sector in std::mem::take(&mut self.dirty) {
            let range = sector_range(sector, len);
            if chance.random() {
                self.durable[range.clone()].copy_from_slice(&self.now[range]);
            }
        }
        self.forgotten.clear();
        let written = std::mem::replace(&mut self.now, self.durable.clone());
        for sector in std::mem::take(&mut self.volatile) {
            let range = sector_range(sector, len);
            self.now[range.clone()].copy_from_slice(&written[range]);
        }
    }
}

fn sectors(offset: usize, len: usize) -> Range<usize> {
    offset / SECTOR_BYTES..(offset + len).div_ceil(SECTOR_BYTES)
}

fn sector_range(sector: usize, len: usize) -> Range<usize> {
    (sector * SECTOR_BYTES).min(len)..((sector + 1) * SECTOR_BYTES).min(len)
}
