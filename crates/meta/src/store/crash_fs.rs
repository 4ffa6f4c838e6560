//! An in-memory file system that can lose or tear unsynced writes, and become full.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use freshet_base::io::{Entry, File, FileRef, Fs, Mode};
use parking_lot::Mutex;

/// Blocks are written atomically.
const BLOCK_BYTES: usize = 512;

#[derive(Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    name_is_durable: bool,
}

/// Returns for each unsynced block whether it survives a power failure.
pub(crate) type Survives = Box<dyn FnMut() -> bool + Send>;

#[derive(Default)]
struct State {
    files: Mutex<BTreeMap<PathBuf, Arc<Mutex<Content>>>>,
    capacity: AtomicU64,
    syncs_fail: AtomicBool,
    /// The number of further syncs until a power failure.
    cut: Mutex<Option<(u64, Survives)>>,
    image: Mutex<Option<CrashFs>>,
}

#[derive(Clone, Default)]
pub(crate) struct CrashFs(Arc<State>);

struct Open {
    content: Arc<Mutex<Content>>,
    state: Arc<State>,
}

impl CrashFs {
    pub fn new(capacity: u64) -> Self {
        let fs = Self::default();
        fs.set_capacity(capacity);
        fs
    }

    pub fn set_capacity(&self, bytes: u64) {
        self.0.capacity.store(bytes, Ordering::Relaxed);
    }

    pub fn fail_syncs(&self) {
        self.0.syncs_fail.store(true, Ordering::Relaxed);
    }

    pub fn used(&self) -> u64 {
        self.0.files.lock().values().map(|content| content.lock().now.len() as u64).sum()
    }

    /// Schedules a power failure in the middle of a sync, after `syncs` successful ones. The file
    /// system continues to work; [`CrashFs::image`] has the contents of the device at that time.
    pub fn cut_power(&self, syncs: u64, survives: Survives) {
        *self.0.cut.lock() = Some((syncs, survives));
    }

    /// The contents of the device at the power failure, if it has happened.
    pub fn image(&self) -> Option<Self> {
        self.0.image.lock().clone()
    }

    fn pass_sync(&self) {
        let mut cut = self.0.cut.lock();
        match &mut *cut {
            Some((0, survives)) => {
                *self.0.image.lock() = Some(self.after_power_cut(survives));
                *cut = None;
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
    }

    /// The contents of the device after a power failure now; `survives` decides for each unsynced
    /// block.
    pub fn after_power_cut(&self, mut survives: impl FnMut() -> bool) -> Self {
        let after = Self::new(self.0.capacity.load(Ordering::Relaxed));
        for (path, content) in self.0.files.lock().iter() {
            let content = content.lock();
            if !content.name_is_durable {
                continue;
            }
            let longer = content.now.len() > content.durable.len() && survives();
            let mut durable = content.durable.clone();
            if longer {
                durable.resize(content.now.len(), 0);
            }
            let blocks = durable.chunks_mut(BLOCK_BYTES).zip(content.now.chunks(BLOCK_BYTES));
            for (block, newer) in blocks {
                let both = block.len().min(newer.len());
                if block[..both] != newer[..both] && survives() {
                    block[..both].copy_from_slice(&newer[..both]);
                }
            }
            let content = Content { now: durable.clone(), durable, name_is_durable: true };
            after.0.files.lock().insert(path.clone(), Arc::new(Mutex::new(content)));
        }
        after
    }
}

impl Fs for CrashFs {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<FileRef> {
        let mut files = self.0.files.lock();
        let content = match (files.get(path), mode) {
            (Some(_), Mode::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(content), _) => content.clone(),
            (None, Mode::CreateNew) => files.entry(path.to_owned()).or_default().clone(),
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(Open { content, state: self.0.clone() }))
    }

    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let files = self.0.files.lock();
        let inside = files.iter().filter(|(name, _)| name.parent() == Some(path));
        let entry = |(path, content): (&PathBuf, &Arc<Mutex<Content>>)| Entry {
            path: path.clone(),
            is_dir: false,
            len_bytes: content.lock().now.len() as u64,
        };
        Ok(inside.map(entry).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.0.files.lock();
        let content = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        // Until its directory is synced, a crash loses this name.
        content.lock().name_is_durable = false;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.files.lock().remove(path).map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.files.lock().retain(|name, _| !name.starts_with(path));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        for (name, content) in self.0.files.lock().iter() {
            if name.parent() == Some(path) {
                content.lock().name_is_durable = true;
            }
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.files.lock().contains_key(path)
    }

    fn available_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.0.capacity.load(Ordering::Relaxed).saturating_sub(self.used()))
    }

    fn lock(&self, _path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }
}

impl Open {
    fn used(&self) -> u64 {
        CrashFs(self.state.clone()).used()
    }
}

impl File for Open {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let content = self.content.lock();
        let from = usize::try_from(offset).unwrap();
        let bytes = content.now.get(from..from + buffer.len());
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).unwrap();
        let to = from + bytes.len();
        let grown = to.saturating_sub(self.content.lock().now.len()) as u64;
        if grown > 0 && self.used() + grown > self.state.capacity.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut content = self.content.lock();
        if content.now.len() < to {
            content.now.resize(to, 0);
        }
        content.now[from..to].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.state.syncs_fail.load(Ordering::Relaxed) {
            return Err(io::Error::other("sync failed"));
        }
        CrashFs(self.state.clone()).pass_sync();
        let mut content = self.content.lock();
        content.durable = content.now.clone();
        Ok(())
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.content.lock().now.resize(usize::try_from(len_bytes).unwrap(), 0);
        Ok(())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.content.lock().now.len() as u64)
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.sync()
    }
}
