//! A simulated file system that distinguishes durable from merely written data.
//!
//! A power failure keeps any subset of what was never synced: each sector, file length and name
//! independently. A direct write during the failure is torn in the same way. As with real page
//! caches, data whose sync failed remains readable and is never written. The end of the process
//! alone loses nothing and makes nothing durable. On demand the disk fills up, calls fail and bits
//! flip; all of it with one seeded source of random numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use freshet_base::io::{Entry, File, FileRef, Fs, Mode};
use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::StdRng;

/// Sectors are written atomically.
const SECTOR_BYTES: usize = 512;

/// A shared simulated disk, which outlives crashed processes.
#[derive(Clone)]
pub struct SimFs(Arc<Mutex<Disk>>);

struct Disk {
    chance: StdRng,
    inodes: Vec<Inode>,
    /// File names as processes see them.
    names: BTreeMap<PathBuf, usize>,
    /// File names that certainly survive a crash.
    durable_names: BTreeMap<PathBuf, usize>,
    dirs: BTreeSet<PathBuf>,
    /// Directories that certainly survive a crash; the contents of others are lost with them.
    durable_dirs: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
    capacity_bytes: u64,
    /// Incremented by each crash, so that handles opened before are invalid.
    life: u64,
    faults: Faults,
    /// Failing reads and writes affect only files below this directory.
    faulty_dir: PathBuf,
    /// Synced files, one entry per sync, including synchronous writes.
    synced: Vec<PathBuf>,
}

/// Faults that occur from now on.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    /// The process dies in this call of a write or sync, counting from 1; 0 means never.
    pub crash_in_calls: u64,
    /// This many further writes fail.
    pub failing_writes: u64,
    /// This many further reads fail.
    pub failing_reads: u64,
}

#[derive(Clone, Default)]
struct Inode {
    /// Contents as processes read them.
    now: Vec<u8>,
    /// Contents that certainly survive a crash.
    durable: Vec<u8>,
    /// Sectors that may differ from the durable ones.
    dirty: BTreeSet<usize>,
    /// Sectors whose sync failed: readable, but not written by any later sync.
    forgotten: BTreeSet<usize>,
}

impl SimFs {
    /// An empty disk with a capacity of `capacity_bytes`.
    pub fn new(chance: StdRng, capacity_bytes: u64) -> Self {
        Self(Arc::new(Mutex::new(Disk {
            chance,
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            dirs: BTreeSet::from([PathBuf::from("/")]),
            durable_dirs: BTreeSet::from([PathBuf::from("/")]),
            locked: BTreeSet::new(),
            capacity_bytes,
            life: 0,
            faults: Faults::default(),
            faulty_dir: PathBuf::from("/"),
            synced: Vec::new(),
        })))
    }

    /// A copy of the disk as processes see it, as if the process had just ended.
    pub fn copy(&self, chance: StdRng) -> Self {
        let disk = self.0.lock();
        let mut copy = Disk {
            chance,
            inodes: disk.inodes.clone(),
            names: disk.names.clone(),
            durable_names: disk.durable_names.clone(),
            dirs: disk.dirs.clone(),
            durable_dirs: disk.durable_dirs.clone(),
            locked: BTreeSet::new(),
            capacity_bytes: u64::MAX,
            life: disk.life,
            faults: Faults::default(),
            faulty_dir: disk.faulty_dir.clone(),
            synced: Vec::new(),
        };
        copy.end_process();
        Self(Arc::new(Mutex::new(copy)))
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    /// Lets the next writes and reads fail; other faults are unchanged.
    pub fn fail_next(&self, writes: u64, reads: u64) {
        let faults = &mut self.0.lock().faults;
        (faults.failing_writes, faults.failing_reads) = (writes, reads);
    }

    /// Restricts failing writes and reads to files below `dir`.
    pub fn set_faulty_dir(&self, dir: &Path) {
        self.0.lock().faulty_dir = dir.to_path_buf();
    }

    /// Files synced since the last call, one entry per sync.
    pub fn take_synced(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.0.lock().synced)
    }

    /// Whether the process has died in a call.
    pub fn has_crashed(&self) -> bool {
        self.0.lock().faults.crash_in_calls == u64::MAX
    }

    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        self.0.lock().capacity_bytes = capacity_bytes;
    }

    /// Total size of all files, including zeros.
    pub fn used_bytes(&self) -> u64 {
        self.0.lock().used_bytes()
    }

    /// Simulates a power failure: unsynced data is kept or lost at random. All open files become
    /// invalid.
    pub fn crash(&self) {
        self.0.lock().crash();
    }

    /// Simulates the end of the process only: nothing is lost, and nothing more becomes durable.
    pub fn end_process(&self) {
        self.0.lock().end_process();
    }

    /// Flips one bit of a file, on the device and in the cache.
    ///
    /// # Panics
    /// When there is no such file; a bit beyond its end is ignored.
    pub fn flip(&self, path: &Path, offset: usize, bit: u8) {
        let mut disk = self.0.lock();
        let inode = disk.names[path];
        let inode = &mut disk.inodes[inode];
        for bytes in [&mut inode.now, &mut inode.durable] {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte ^= 1 << bit;
            }
        }
    }

    /// All files with their lengths, ordered by name.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let disk = self.0.lock();
        let len = |inode: &usize| disk.inodes[*inode].now.len() as u64;
        disk.names.iter().map(|(path, inode)| (path.clone(), len(inode))).collect()
    }
}

impl Disk {
    fn used_bytes(&self) -> u64 {
        self.names.values().map(|inode| self.inodes[*inode].now.len() as u64).sum()
    }

    /// Counts a call that changes the disk; returns an error if the process dies in it or it fails.
    fn changing(&mut self, path: &Path) -> io::Result<()> {
        self.alive()?;
        match self.faults.crash_in_calls {
            0 => {}
            1 => {
                self.faults.crash_in_calls = u64::MAX;
                return Err(dead());
            }
            _ => self.faults.crash_in_calls -= 1,
        }
        if self.faults.failing_writes > 0 && path.starts_with(&self.faulty_dir) {
            self.faults.failing_writes -= 1;
            return Err(io::Error::other("simulated EIO"));
        }
        Ok(())
    }

    fn alive(&self) -> io::Result<()> {
        if self.faults.crash_in_calls == u64::MAX { Err(dead()) } else { Ok(()) }
    }

    fn crash(&mut self) {
        let Self { chance, inodes, .. } = self;
        for inode in inodes.iter_mut() {
            inode.crash(chance);
        }
        let changed = self
            .names
            .keys()
            .chain(self.durable_names.keys())
            .filter(|path| self.names.get(*path) != self.durable_names.get(*path))
            .cloned()
            .collect::<BTreeSet<_>>();
        for path in changed {
            let kept = if self.chance.random() { &self.names } else { &self.durable_names };
            match kept.get(&path).copied() {
                Some(inode) => self.durable_names.insert(path, inode),
                None => self.durable_names.remove(&path),
            };
        }
        self.crash_dirs();
        self.names.clone_from(&self.durable_names);
        self.forget_unnamed();
        self.end_process();
    }

    /// Directories whose names were not synced are kept or lost at random, with all their contents.
    fn crash_dirs(&mut self) {
        let changed = self.dirs.symmetric_difference(&self.durable_dirs).cloned();
        for dir in changed.collect::<Vec<_>>() {
            let kept = if self.chance.random() { &self.dirs } else { &self.durable_dirs };
            match kept.contains(&dir) {
                true => self.durable_dirs.insert(dir),
                false => self.durable_dirs.remove(&dir),
            };
        }
        let there = self.durable_dirs.clone();
        let is_reached = |path: &Path| path.ancestors().skip(1).all(|dir| there.contains(dir));
        self.durable_dirs.retain(|dir| is_reached(dir));
        self.durable_names.retain(|file, _| is_reached(file));
        self.dirs.clone_from(&self.durable_dirs);
    }

    fn end_process(&mut self) {
        self.locked.clear();
        self.life += 1;
        self.faults = Faults::default();
    }

    /// Frees the memory of files without a name.
    fn forget_unnamed(&mut self) {
        let named = self.names.values().copied().collect::<BTreeSet<_>>();
        for (at, inode) in self.inodes.iter_mut().enumerate() {
            if !named.contains(&at) {
                *inode = Inode::default();
            }
        }
    }
}

impl Inode {
    /// Changes the contents that processes read. After a torn write the other sectors are not
    /// written later.
    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
            self.dirty.insert(sector);
            self.forgotten.remove(&sector);
        }
    }

    fn sync(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        self.sync_sectors(dirty);
    }

    /// Makes the sectors of a direct write at `offset` durable.
    fn sync_range(&mut self, offset: usize, len: usize) {
        let sectors = offset / SECTOR_BYTES..(offset + len).div_ceil(SECTOR_BYTES);
        for sector in sectors.clone() {
            self.dirty.remove(&sector);
        }
        self.sync_sectors(sectors);
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
    fn fail_sync(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        self.forgotten.extend(dirty);
    }

    /// Lets the next read come from the device.
    fn drop_cache(&mut self) {
        let len = self.now.len();
        for sector in std::mem::take(&mut self.forgotten) {
            let range = sector_range(sector, len);
            self.now[range.clone()].copy_from_slice(&self.durable[range]);
        }
    }

    fn crash(&mut self, chance: &mut StdRng) {
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
        self.now.clone_from(&self.durable);
    }
}

fn sector_range(sector: usize, len: usize) -> std::ops::Range<usize> {
    (sector * SECTOR_BYTES).min(len)..((sector + 1) * SECTOR_BYTES).min(len)
}

fn dead() -> io::Error {
    io::Error::other("the simulated process is dead")
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} is not there", path.display()))
}

struct SimFile {
    fs: SimFs,
    inode: usize,
    path: PathBuf,
    life: u64,
    direct: bool,
}

impl Fs for SimFs {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<FileRef> {
        let mut disk = self.0.lock();
        let inode = match (mode, disk.names.get(path).copied()) {
            (Mode::CreateNew, Some(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Mode::CreateNew, None) => {
                disk.changing(path)?;
                let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
                if !disk.dirs.contains(parent) {
                    return Err(missing(parent));
                }
                disk.inodes.push(Inode::default());
                let inode = disk.inodes.len() - 1;
                disk.names.insert(path.to_path_buf(), inode);
                inode
            }
            (_, Some(inode)) => {
                disk.alive()?;
                inode
            }
            (_, None) => return Err(missing(path)),
        };
        let (fs, life, direct) = (self.clone(), disk.life, mode == Mode::Direct);
        let path = path.to_path_buf();
        Ok(Arc::new(SimFile { fs, inode, path, life, direct }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.alive()?;
        disk.dirs.extend(path.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let disk = self.0.lock();
        disk.alive()?;
        if !disk.dirs.contains(path) {
            return Err(missing(path));
        }
        let in_dir = |child: &Path| child.parent() == Some(path);
        let dirs = disk.dirs.iter().filter(|dir| in_dir(dir));
        let dirs = dirs.map(|dir| Entry { path: dir.clone(), is_dir: true, len_bytes: 0 });
        let files = disk.names.iter().filter(|(file, _)| in_dir(file)).map(|(file, inode)| {
            let len_bytes = disk.inodes[*inode].now.len() as u64;
            Entry { path: file.clone(), is_dir: false, len_bytes }
        });
        let mut entries = dirs.chain(files).collect::<Vec<_>>();
        entries.sort();
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.changing(from)?;
        let inode = disk.names.remove(from).ok_or_else(|| missing(from))?;
        disk.names.insert(to.to_path_buf(), inode);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.changing(path)?;
        disk.names.remove(path).map(|_| ()).ok_or_else(|| missing(path))
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.changing(path)?;
        disk.names.retain(|file, _| !file.starts_with(path));
        disk.dirs.retain(|dir| !dir.starts_with(path));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.changing(path)?;
        if !disk.dirs.contains(path) {
            return Err(missing(path));
        }
        let in_dir = |file: &&PathBuf| file.parent() == Some(path);
        disk.durable_dirs.retain(|dir| !in_dir(&dir));
        let dirs = disk.dirs.iter().filter(in_dir).cloned().collect::<Vec<_>>();
        disk.durable_dirs.extend(dirs);
        let gone = disk.durable_names.keys().filter(in_dir).cloned().collect::<Vec<_>>();
        for file in gone {
            disk.durable_names.remove(&file);
        }
        let here = disk.names.iter().filter(|(file, _)| in_dir(file));
        let here = here.map(|(file, inode)| (file.clone(), *inode)).collect::<Vec<_>>();
        disk.durable_names.extend(here);
        Ok(())
    }

    fn exists(&self, path: &Path) -> bool {
        let disk = self.0.lock();
        disk.names.contains_key(path) || disk.dirs.contains(path)
    }

    fn available_bytes(&self, _path: &Path) -> io::Result<u64> {
        let disk = self.0.lock();
        disk.alive()?;
        Ok(disk.capacity_bytes.saturating_sub(disk.used_bytes()))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut disk = self.0.lock();
        disk.alive()?;
        if !disk.locked.insert(path.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(LockGuard { fs: self.clone(), path: path.to_path_buf(), life: disk.life }))
    }
}

struct LockGuard {
    fs: SimFs,
    path: PathBuf,
    life: u64,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut disk = self.fs.0.lock();
        if disk.life == self.life {
            disk.locked.remove(&self.path);
        }
    }
}

impl SimFile {
    fn of_this_life(&self, disk: &Disk) -> io::Result<()> {
        if disk.life == self.life { Ok(()) } else { Err(dead()) }
    }
}

impl File for SimFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut disk = self.fs.0.lock();
        self.of_this_life(&disk)?;
        disk.alive()?;
        if disk.faults.failing_reads > 0 && self.path.starts_with(&disk.faulty_dir) {
            disk.faults.failing_reads -= 1;
            return Err(io::Error::other("simulated EIO"));
        }
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = disk.inodes[self.inode].now.get(start..start + buffer.len());
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.fs.0.lock();
        self.of_this_life(&disk)?;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let allowed = disk.changing(&self.path);
        if allowed.is_err() && disk.faults.crash_in_calls != u64::MAX {
            return allowed;
        }
        let growth = (start + bytes.len()).saturating_sub(disk.inodes[self.inode].now.len());
        if disk.used_bytes() + growth as u64 > disk.capacity_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = &mut disk.inodes[self.inode];
        inode.write(bytes, start);
        // The call in which the process dies has written an unknown part of the data.
        allowed?;
        if self.direct {
            inode.sync_range(start, bytes.len());
            disk.synced.push(self.path.clone());
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.fs.0.lock();
        self.of_this_life(&disk)?;
        let allowed = disk.changing(&self.path);
        let dying = disk.faults.crash_in_calls == u64::MAX;
        let inode = &mut disk.inodes[self.inode];
        match allowed {
            Ok(()) => {
                inode.sync();
                disk.synced.push(self.path.clone());
            }
            // If the process dies during a sync, the system may still write everything.
            Err(_) if dying => {}
            Err(_) => inode.fail_sync(),
        }
        allowed
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        let mut disk = self.fs.0.lock();
        self.of_this_life(&disk)?;
        disk.changing(&self.path)?;
        let len = usize::try_from(len_bytes).map_err(io::Error::other)?;
        let growth = len.saturating_sub(disk.inodes[self.inode].now.len());
        if disk.used_bytes() + growth as u64 > disk.capacity_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = &mut disk.inodes[self.inode];
        let before = inode.now.len();
        inode.now.resize(len, 0);
        inode.dirty.extend(before.min(len) / SECTOR_BYTES..len.div_ceil(SECTOR_BYTES));
        Ok(())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        let disk = self.fs.0.lock();
        self.of_this_life(&disk)?;
        Ok(disk.inodes[self.inode].now.len() as u64)
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.sync()?;
        self.fs.0.lock().inodes[self.inode].drop_cache();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
