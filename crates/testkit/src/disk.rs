//! The state of the simulated disk, and what crashes do to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::rngs::StdRng;

use crate::inode::{Fate, Inode};

/// Faults that occur from now on.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    /// The process dies in this call of a write or sync, counting from 1; 0 means never.
    pub crash_in_calls: u64,
    /// This many further writes fail.
    pub failing_writes: u64,
    /// This many further reads fail.
    pub failing_reads: u64,
    /// This many further syncs of files fail.
    pub failing_syncs: u64,
}

pub(crate) struct Disk {
    pub chance: StdRng,
    pub inodes: Vec<Inode>,
    /// File names as processes see them.
    pub names: BTreeMap<PathBuf, usize>,
    /// File names that certainly survive a crash.
    pub durable_names: BTreeMap<PathBuf, usize>,
    pub dirs: BTreeSet<PathBuf>,
    /// Directories that certainly survive a crash; the contents of others are lost with them.
    pub durable_dirs: BTreeSet<PathBuf>,
    pub locked: BTreeSet<PathBuf>,
    pub capacity_bytes: u64,
    /// Incremented by each crash, so that handles opened before are invalid.
    pub life: u64,
    pub faults: Faults,
    /// Failing reads and writes affect only files below this directory.
    pub faulty_dir: PathBuf,
    pub writes: u64,
    /// The number of the write during which the power fails, and the fates of its blocks.
    pub cut: Option<(u64, Vec<Fate>)>,
    /// Synced files, one entry per sync, including synchronous writes.
    pub synced: Vec<PathBuf>,
}

impl Disk {
    pub fn new(chance: StdRng, capacity_bytes: u64) -> Self {
        Self {
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
            writes: 0,
            cut: None,
            synced: Vec::new(),
        }
    }

    /// What a process after this one would find, on an endless disk without faults.
    pub fn copy(&self, chance: StdRng) -> Self {
        Self {
            inodes: self.inodes.clone(),
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            dirs: self.dirs.clone(),
            durable_dirs: self.durable_dirs.clone(),
            faulty_dir: self.faulty_dir.clone(),
            life: self.life + 1,
            ..Self::new(chance, u64::MAX)
        }
    }

    pub fn used_bytes(&self) -> u64 {
        self.names.values().map(|inode| self.inodes[*inode].now.len() as u64).sum()
    }

    /// Counts a call that changes the disk; returns an error if the process dies in it or it fails.
    pub fn changing(&mut self, path: &Path) -> io::Result<()> {
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

    /// Whether the process has died in a call.
    pub fn is_dead(&self) -> bool {
        self.faults.crash_in_calls == u64::MAX
    }

    pub fn alive(&self) -> io::Result<()> {
        if self.is_dead() { Err(dead()) } else { Ok(()) }
    }

    /// Counts a write; the fates of its blocks if the power fails in it.
    pub fn cut_in_write(&mut self) -> Option<Vec<Fate>> {
        self.writes += 1;
        let (_, fates) = self.cut.take_if(|(write, _)| *write == self.writes)?;
        self.faults.crash_in_calls = u64::MAX;
        Some(fates)
    }

    /// Returns an error if the disk has no room for a file to grow to `len` bytes.
    pub fn check_room(&self, inode: usize, len: usize) -> io::Result<()> {
        let growth = len.saturating_sub(self.inodes[inode].now.len());
        match self.used_bytes() + growth as u64 > self.capacity_bytes {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    pub fn crash(&mut self) {
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

    pub fn end_process(&mut self) {
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

/// The directories that stand in `dir` itself. In the order of paths all that is below it follows
/// it, so that nobody looks at the whole disk.
pub(crate) fn dirs_in<'a>(
    dirs: &'a BTreeSet<PathBuf>,
    dir: &'a Path,
) -> impl Iterator<Item = &'a PathBuf> {
    let behind = dirs.range::<Path, _>((Bound::Excluded(dir), Bound::Unbounded));
    let below = behind.take_while(move |path| path.starts_with(dir));
    below.filter(move |path| path.parent() == Some(dir))
}

/// The files that stand in `dir` itself, with their inodes.
pub(crate) fn files_in<'a>(
    names: &'a BTreeMap<PathBuf, usize>,
    dir: &'a Path,
) -> impl Iterator<Item = (&'a PathBuf, &'a usize)> {
    let behind = names.range::<Path, _>((Bound::Excluded(dir), Bound::Unbounded));
    let below = behind.take_while(move |(path, _)| path.starts_with(dir));
    below.filter(move |(path, _)| path.parent() == Some(dir))
}

pub(crate) fn dead() -> io::Error {
    io::Error::other("the simulated process is dead")
}

pub(crate) fn missing(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} is not there", path.display()))
}
