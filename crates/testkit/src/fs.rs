//! The file system: names, directories, locks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use freshet_base::io::{Entry, FileRef, Fs, Mode};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::disk::{Disk, Faults, dirs_in, files_in, missing};
use crate::file::SimFile;
use crate::inode::{Fate, Inode};

/// A shared simulated disk, which outlives crashed processes.
#[derive(Clone)]
pub struct SimFs(Arc<Mutex<Disk>>);

impl SimFs {
    /// An empty disk with a capacity of `capacity_bytes`.
    pub fn new(chance: StdRng, capacity_bytes: u64) -> Self {
        Self(Arc::new(Mutex::new(Disk::new(chance, capacity_bytes))))
    }

    /// An empty disk without end.
    pub fn seeded(seed: u64) -> Self {
        Self::new(StdRng::seed_from_u64(seed), u64::MAX)
    }

    /// A copy of the disk as processes see it, as if the process had just ended.
    pub fn copy(&self, chance: StdRng) -> Self {
        let copy = self.0.lock().copy(chance);
        Self(Arc::new(Mutex::new(copy)))
    }

    /// A copy of the disk, as if the power had just failed.
    pub fn after_power_cut(&self, seed: u64) -> Self {
        let copy = self.copy(StdRng::seed_from_u64(seed));
        copy.crash();
        copy
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

    /// Lets the power fail during the write after `writes` more, whose blocks have these fates in
    /// turn. Other than faults, this outlives the process.
    pub fn cut_after(&self, writes: u64, fates: Vec<Fate>) {
        let mut disk = self.0.lock();
        disk.cut = Some((disk.writes + writes + 1, fates));
    }

    /// Restricts failing writes and reads to files below `dir`.
    pub fn set_faulty_dir(&self, dir: &Path) {
        self.0.lock().faulty_dir = dir.to_path_buf();
    }

    /// The number of writes so far.
    pub fn writes(&self) -> u64 {
        self.0.lock().writes
    }

    /// Files synced since the last call, one entry per sync.
    pub fn take_synced(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.0.lock().synced)
    }

    /// Whether the process has died in a call.
    pub fn has_crashed(&self) -> bool {
        self.0.lock().is_dead()
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
        self.edit(path, |bytes| {
            bytes.get_mut(offset).into_iter().for_each(|byte| *byte ^= 1 << bit);
        });
    }

    /// Changes the bytes of a file, on the device and in the cache, as a faulty disk would.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn edit(&self, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut disk = self.0.lock();
        let inode = disk.names[path];
        disk.inodes[inode].edit(edit);
    }

    /// All files with their lengths, ordered by name.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let disk = self.0.lock();
        let len = |inode: &usize| disk.inodes[*inode].now.len() as u64;
        disk.names.iter().map(|(path, inode)| (path.clone(), len(inode))).collect()
    }
}

impl Default for SimFs {
    fn default() -> Self {
        Self::seeded(0)
    }
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
        let (life, direct) = (disk.life, mode == Mode::Direct);
        let (disk, path) = (Arc::clone(&self.0), path.to_path_buf());
        Ok(Arc::new(SimFile { disk, inode, path, life, direct }))
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
        let dirs = dirs_in(&disk.dirs, path);
        let dirs = dirs.map(|dir| Entry { path: dir.clone(), is_dir: true, len_bytes: 0 });
        let files = files_in(&disk.names, path).map(|(file, inode)| {
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
        let Disk { dirs, durable_dirs, names, durable_names, .. } = &mut *disk;
        for gone in dirs_in(durable_dirs, path).cloned().collect::<Vec<_>>() {
            durable_dirs.remove(&gone);
        }
        durable_dirs.extend(dirs_in(dirs, path).cloned());
        let before = files_in(durable_names, path).map(|(file, _)| file.clone());
        for gone in before.collect::<Vec<_>>() {
            durable_names.remove(&gone);
        }
        let here = files_in(names, path).map(|(file, inode)| (file.clone(), *inode));
        durable_names.extend(here);
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

#[cfg(test)]
mod tests;
