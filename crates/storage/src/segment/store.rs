//! Where segments are stored, and access to them with a cache of footers.

use std::future::ready;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use freshet_base::ByteSize;
use freshet_base::budget::{Budget, Permit};
use freshet_base::io::{File, FileRef, FsRef, Mode};
use freshet_base::metrics::Metrics;
use freshet_base::task::{InlinePool, Lane, PoolRef, run_in};
use futures::future::BoxFuture;

use super::blocks::Blocks;
use super::footers::{Footers, WaitMode};

/// Stores the bytes of segments; currently in files.
pub trait SegmentStore: Send + Sync + 'static {
    /// Reads byte ranges of a segment, one buffer each, without blocking the caller's thread.
    ///
    /// # Errors
    /// `UnexpectedEof` when a range exceeds the segment.
    fn read(
        &self,
        path: &Path,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'static, io::Result<Vec<Bytes>>>;

    /// Like [`Self::read`] on the caller's thread, which may block: a merge or a tool.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    fn read_blocking(&self, path: &Path, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>>;

    /// A segment's file, for reads of what is in memory; `None` without files.
    fn open(&self, _path: &Path) -> Option<FileRef> {
        None
    }

    /// The pool with the threads for reads; `None` without any.
    fn pool(&self) -> Option<PoolRef> {
        None
    }
}

/// The most files that are kept open.
const KEPT_FILES_MAX: u64 = 256;

/// Segments in files, read on the pool's threads for reads. The queue there is bounded by the
/// number of parallel parts of scans, since each waits for one read at a time.
pub struct FileStore {
    fs: FsRef,
    pool: PoolRef,
}

impl FileStore {
    pub fn new(fs: FsRef, pool: PoolRef) -> Self {
        Self { fs, pool }
    }
}

impl SegmentStore for FileStore {
    fn read(
        &self,
        path: &Path,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'static, io::Result<Vec<Bytes>>> {
        let file = match self.fs.open(path, Mode::Read) {
            Ok(file) => file,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        // To copy what is in the page cache takes less time than to wake another thread for it.
        let mut read = Vec::with_capacity(ranges.len());
        read.extend(ranges.iter().map_while(|range| read_cached(&*file, range)));
        if read.len() == ranges.len() {
            return Box::pin(ready(Ok(read)));
        }
        // Who waits for a thread holds no open file: there may be many.
        drop(file);
        let (fs, pool, path) = (Arc::clone(&self.fs), Arc::clone(&self.pool), path.to_path_buf());
        Box::pin(async move {
            run_in(&*pool, Lane::Read, move || {
                let file = fs.open(&path, Mode::Read)?;
                for range in &ranges[read.len()..] {
                    read.push(read_range(&*file, range)?);
                }
                Ok(read)
            })
            .await
        })
    }

    fn read_blocking(&self, path: &Path, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        let file = self.fs.open(path, Mode::Read)?;
        ranges.iter().map(|range| read_range(&*file, range)).collect()
    }

    fn open(&self, path: &Path) -> Option<FileRef> {
        self.fs.open(path, Mode::Read).ok()
    }

    fn pool(&self) -> Option<PoolRef> {
        Some(Arc::clone(&self.pool))
    }
}

/// A file that is kept open, since single blocks of it are read often.
pub(super) struct KeptFile {
    file: FileRef,
    _permit: Permit,
}

impl KeptFile {
    /// The bytes of each range if all of them are in the page cache.
    pub fn read_cached(&self, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
        ranges.iter().map(|range| read_cached(&*self.file, range)).collect()
    }
}

/// The bytes of a range if all of them are in the page cache. An error comes again where it is
/// reported.
fn read_cached(file: &dyn File, range: &Range<u64>) -> Option<Bytes> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let is_cached = file.read_cached_at(&mut bytes, range.start).ok()?;
    is_cached.then(|| Bytes::from(bytes))
}

fn read_range(file: &dyn File, range: &Range<u64>) -> io::Result<Bytes> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(Bytes::from(bytes))
}

/// Access to segments: their store, a cache of footers, metrics.
pub struct SegmentAccess {
    store: Arc<dyn SegmentStore>,
    pub(super) footers: Footers,
    pub(super) blocks: Blocks,
    metrics: Arc<Metrics>,
    /// Files that may be kept open.
    kept: Budget,
}

impl SegmentAccess {
    /// Access to segments in `store`; footers are cached within `memory`, and `blocks` bytes of
    /// blocks of keys.
    pub fn new(
        store: Arc<dyn SegmentStore>,
        memory: Budget,
        blocks: ByteSize,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let footers = Footers::new(memory, Arc::clone(&metrics));
        let kept = Budget::new("open files", KEPT_FILES_MAX);
        Arc::new(Self { store, footers, blocks: Blocks::new(blocks), metrics, kept })
    }

    /// Access to files of `fs`, read on the caller's thread, with an unlimited footer cache: for
    /// tests and tools that read one file after another.
    pub fn of_files(fs: &FsRef) -> Arc<Self> {
        let store = FileStore::new(Arc::clone(fs), Arc::new(InlinePool));
        let memory = Budget::new("memory of footers", u64::MAX);
        Self::new(Arc::new(store), memory, ByteSize(0), Arc::default())
    }

    /// The pool with the threads for reads; `None` without any.
    pub(super) fn pool(&self) -> Option<PoolRef> {
        self.store.pool()
    }

    /// The memory of blocks of keys.
    pub fn block_bytes(&self) -> u64 {
        self.blocks.memory_bytes()
    }

    /// The memory of footers, including those in use.
    pub fn footer_memory(&self) -> &Budget {
        self.footers.memory()
    }

    /// Counts parts of tables that were checked by pruning (`of`) and those that remained (`left`).
    pub fn count_pruning(&self, level: &str, of: usize, left: usize) {
        self.metrics.scan_parts.with_label_values(&[level]).inc_by(of as u64);
        self.metrics.scan_parts_left.with_label_values(&[level]).inc_by(left as u64);
    }

    /// Keeps a segment's file open, unless enough are.
    pub(super) fn keep_open(&self, path: &Path) -> Option<KeptFile> {
        let permit = self.kept.try_acquire(1)?;
        Some(KeptFile { file: self.store.open(path)?, _permit: permit })
    }

    /// As [`Self::read`], of what is in the page cache and in a file that is kept open.
    pub(super) fn read_kept(&self, file: &KeptFile, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
        let read = file.read_cached(ranges)?;
        self.count_read(ranges);
        Some(read)
    }

    fn count_read(&self, ranges: &[Range<u64>]) {
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        self.metrics.segment_reads.inc_by(ranges.len() as u64);
        self.metrics.segment_read_bytes.inc_by(bytes);
    }

    pub(super) async fn read(
        &self,
        wait_mode: WaitMode,
        path: &Path,
        ranges: Vec<Range<u64>>,
    ) -> io::Result<Vec<Bytes>> {
        self.count_read(&ranges);
        match wait_mode {
            WaitMode::Awaiting => self.store.read(path, ranges).await,
            WaitMode::Blocking => self.store.read_blocking(path, &ranges),
        }
    }
}
