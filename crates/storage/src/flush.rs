//! Flushes the frozen rows of a table to synced files.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::io::FsRef;
use freshet_base::task::{Lane, PoolRef, run_in, yield_core};
use freshet_base::{Lsn, RowsetId, SegmentId, TableId, TabletId};
use freshet_meta::{RowsetMeta, SegmentMeta};
use freshet_schema::{Table, TableSchema};
use futures::future::join_all;

use crate::error::{Error, Result};
use crate::layout::{DataDir, segment_file};
use crate::memtable::Memtable;
use crate::rowset::Rowset;
use crate::segment::{SegmentAccess, SegmentSpec, SegmentWriter, Tier, Unsynced};
use crate::sort::Rows;

/// How often a segment is written before its flush fails.
const ATTEMPTS: u32 = 2;
/// Maximum number of segments that are written but not yet synced.
const OPEN_FILES_MAX: usize = 64;
/// Rows gathered at once. It bounds the memory of a job besides its rows and their encoding, and
/// the time before it yields the core. A page of the file has as many rows.
const GATHER_ROWS: usize = 4096;

/// Where files are written, and on which threads.
#[derive(Clone)]
pub struct Files {
    pub fs: FsRef,
    /// The directory of all data files.
    pub dir: DataDir,
    /// Threads that may block.
    pub pool: PoolRef,
    /// Through which new segments are opened.
    pub segments: Arc<SegmentAccess>,
}

impl Files {
    /// A rowset of `table` whose files are written in `schema`. Nothing is read yet.
    pub fn rowset(&self, table: TableId, meta: RowsetMeta, schema: &Arc<TableSchema>) -> Rowset {
        let dir = self.dir.tablet(table, meta.tablet);
        Rowset::new(&self.segments, &dir, meta, schema)
    }
}

/// The rows to flush: an LSN range without a large load inside.
pub struct FlushInput {
    /// The threads that write it.
    pub lane: Lane,
    /// Provides the tablets. It may have been altered after the range.
    pub table: Arc<Table>,
    /// The columns at the end of the range, or those with which a large load began. Both the
    /// batches and the files have them.
    pub schema: Arc<TableSchema>,
    /// The rows in log order.
    pub batches: Vec<RecordBatch>,
    /// The first and last LSN.
    pub lsns: (Lsn, Lsn),
    /// The number of rows flushed before, to distribute rows of RANDOM tables evenly.
    pub turn: u64,
}

impl FlushInput {
    fn has_keys(&self) -> bool {
        self.table.key_model.is_keyed()
    }
}

/// A rowset that a flush has written.
#[derive(Debug)]
pub struct Written {
    pub rowset: RowsetMeta,
    /// The index in the input of each of its rows, segment by segment: marks that are made on rows
    /// in memory until the files are shown follow them (keys.md K25).
    pub rows: Vec<u32>,
}

/// The sorted rows of one tablet, and the rowset they become.
struct TabletSort {
    tablet: TabletId,
    rowset: RowsetId,
    rows: Vec<u32>,
}

/// A segment to write.
#[derive(Clone)]
struct Job {
    rows: Arc<Rows>,
    sorted: Arc<TabletSort>,
    segment: SegmentId,
    part: Range<usize>,
}

/// Writes a rowset for each tablet that has rows. On return, files and directories are synced.
/// After a failure nothing refers to the written files, and those that could not be removed are
/// left to the sweep. `next_id` returns ids that were never used.
///
/// # Errors
/// [`Error::Io`] when a segment could not be written under either of two names.
pub async fn flush(
    files: &Files,
    input: FlushInput,
    segment_bytes_max: u64,
    next_id: impl FnMut() -> RowsetId,
) -> Result<Vec<Written>> {
    assert!(input.lsns.0 <= input.lsns.1, "the rows of a flush are of a stretch of the log");
    let handed = input.batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
    let bytes = input.batches.iter().map(|batch| batch.get_array_memory_size() as u64).sum::<u64>();
    let input = Arc::new(input);
    let (rows, tablets) = sort_tablets(files, &input, next_id).await?;
    let segment_rows = segment_bytes_max.saturating_mul(handed) / bytes.max(1);
    let jobs = jobs(&rows, &tablets, segment_rows.max(1) as usize);
    let to_write = jobs.iter().map(|job| job.part.len() as u64).sum::<u64>();
    assert_eq!(to_write, handed, "each row of a flush is of one segment");
    let mut written = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunks(OPEN_FILES_MAX) {
        written.extend(write_and_sync(files, &input, jobs.to_vec()).await);
    }
    assert_eq!(written.len(), jobs.len(), "each segment was written or has failed");
    let on = files.clone();
    let lane = input.lane;
    let finish = move || finish(&on, &input, &tablets, written);
    let written = run_in(&*files.pool, lane, finish).await?;
    let in_files = written.iter().map(|written| written.rowset.rows).sum::<u64>();
    assert_eq!(in_files, handed, "rows handed to a flush are rows in its files");
    Ok(written)
}

/// Divides the rows by tablet and sorts each tablet in parallel.
async fn sort_tablets(
    files: &Files,
    input: &Arc<FlushInput>,
    mut next_id: impl FnMut() -> RowsetId,
) -> Result<(Arc<Rows>, Vec<Arc<TabletSort>>)> {
    let of = Arc::clone(input);
    let divide = move || {
        let memtable = Memtable::new(&of.table, &of.schema, &of.batches, of.turn)?;
        let keys = Arc::new(memtable.rows.keys(&of.schema));
        Ok::<_, Error>((memtable, keys))
    };
    let (Memtable { rows, tablets }, keys) = run_in(&*files.pool, input.lane, divide).await?;
    let sorts = tablets.into_iter().map(|part| {
        let (keys, rowset) = (Arc::clone(&keys), next_id());
        run_in(&*files.pool, input.lane, move || {
            let rows = keys.sort(&part.rows);
            assert_eq!(rows.len(), part.rows.len(), "sorting keeps every row");
            Arc::new(TabletSort { tablet: part.tablet, rowset, rows })
        })
    });
    let sorts = sorts.collect::<Vec<_>>();
    Ok((rows, join_all(sorts).await))
}

/// The segments to write, in order; ids are assigned here, before anything is written.
fn jobs(rows: &Arc<Rows>, tablets: &[Arc<TabletSort>], segment_rows: usize) -> Vec<Job> {
    let mut jobs = Vec::new();
    for tablet in tablets {
        for (segment, start) in (0..).zip((0..tablet.rows.len()).step_by(segment_rows)) {
            jobs.push(Job {
                rows: Arc::clone(rows),
                sorted: Arc::clone(tablet),
                segment: SegmentId(segment),
                part: start..(start + segment_rows).min(tablet.rows.len()),
            });
        }
    }
    jobs
}

/// Writes segments in parallel, then syncs one after the other: the first sync commits the file
/// system's journal for all of them, so that fewer syncs interfere with the log on the same device.
async fn write_and_sync(
    files: &Files,
    input: &Arc<FlushInput>,
    jobs: Vec<Job>,
) -> Vec<Result<(RowsetId, SegmentMeta)>> {
    let written = join_all(jobs.iter().cloned().map(|job| {
        let (on, input) = (files.clone(), Arc::clone(input));
        run_in(&*files.pool, input.lane, move || job.write(0, &on, &input))
    }));
    let (written, on, input) = (written.await, files.clone(), Arc::clone(input));
    let lane = input.lane;
    let sync = move || {
        let each = jobs.iter().zip(written);
        each.map(|(job, written)| job.sync(written, &on, &input)).collect()
    };
    run_in(&*files.pool, lane, sync).await
}

impl Job {
    /// Syncs a segment; after a failure, writes it once more under another name.
    fn sync(
        &self,
        mut written: Result<Unsynced>,
        files: &Files,
        input: &FlushInput,
    ) -> Result<(RowsetId, SegmentMeta)> {
        let mut attempt = 0;
        loop {
            match written.and_then(Unsynced::sync) {
                Ok(meta) => return Ok((self.sorted.rowset, meta)),
                Err(error) => {
                    // If this fails as well, the sweep removes the file.
                    let _ = files.fs.remove_file(&self.path(attempt, files, input));
                    attempt += 1;
                    if attempt == ATTEMPTS || !matches!(error, Error::Io { .. }) {
                        return Err(error);
                    }
                    written = self.write(attempt, files, input);
                }
            }
        }
    }

    fn path(&self, attempt: u32, files: &Files, input: &FlushInput) -> PathBuf {
        let dir = files.dir.tablet(input.table.id, self.sorted.tablet);
        dir.join(segment_file(self.sorted.rowset, self.segment, attempt))
    }

    fn write(&self, attempt: u32, files: &Files, input: &FlushInput) -> Result<Unsynced> {
        let dir = files.dir.tablet(input.table.id, self.sorted.tablet);
        files.fs.create_dir_all(&dir).map_err(|error| Error::io("create", &dir, error))?;
        self.write_as(&self.path(attempt, files, input), files, input)
    }

    fn write_as(&self, path: &Path, files: &Files, input: &FlushInput) -> Result<Unsynced> {
        let spec = SegmentSpec {
            schema: &input.schema,
            table: input.table.id,
            tablet: self.sorted.tablet,
            lsns: input.lsns,
            tier: Tier::Fresh,
            has_keys: input.has_keys(),
            stores_rows: input.table.stores_rows(),
            indexes: &input.table.file_indexes(),
        };
        let mut parts = self.sorted.rows[self.part.clone()].chunks(GATHER_ROWS);
        let first = self.rows.gather(parts.next().expect("a segment has rows"))?;
        let mut writer = SegmentWriter::create(files.fs.as_ref(), path, &spec, &first)?;
        writer.write(&first)?;
        for part in parts {
            yield_core();
            let batch = self.rows.gather(part)?;
            yield_core();
            writer.write(&batch)?;
        }
        writer.end(self.segment)
    }
}

/// The rowsets with their rows, after all segments and their directories are durable.
fn finish(
    files: &Files,
    input: &FlushInput,
    tablets: &[Arc<TabletSort>],
    written: Vec<Result<(RowsetId, SegmentMeta)>>,
) -> Result<Vec<Written>> {
    let written = keep_all_or_none(files, input, tablets, written)?;
    sync_dirs(files, input, tablets)?;
    Ok(rowsets(input, tablets, written))
}

/// The segments if all were written; otherwise removes all and returns the first error.
fn keep_all_or_none(
    files: &Files,
    input: &FlushInput,
    tablets: &[Arc<TabletSort>],
    written: Vec<Result<(RowsetId, SegmentMeta)>>,
) -> Result<Vec<(RowsetId, SegmentMeta)>> {
    let (good, bad): (Vec<_>, Vec<_>) = written.into_iter().partition(Result::is_ok);
    let good = good.into_iter().flatten().collect::<Vec<_>>();
    let Some(Err(error)) = bad.into_iter().next() else { return Ok(good) };
    for (rowset, segment) in good {
        let of = tablets.iter().find(|tablet| tablet.rowset == rowset);
        let tablet = of.expect("a segment is of a tablet of its flush").tablet;
        let dir = files.dir.tablet(input.table.id, tablet);
        // If this fails as well, the sweep removes the file.
        let _ = files.fs.remove_file(&dir.join(segment.file));
    }
    Err(error)
}

/// Makes file names durable, from the tablet directories up to the data directory.
fn sync_dirs(files: &Files, input: &FlushInput, tablets: &[Arc<TabletSort>]) -> Result<()> {
    let tablets = tablets.iter().map(|tablet| files.dir.tablet(input.table.id, tablet.tablet));
    let above = [files.dir.table(input.table.id), files.dir.root().to_path_buf()];
    for dir in tablets.chain(above) {
        files.fs.sync_dir(&dir).map_err(|error| Error::io("sync", &dir, error))?;
    }
    Ok(())
}

fn rowsets(
    input: &FlushInput,
    tablets: &[Arc<TabletSort>],
    written: Vec<(RowsetId, SegmentMeta)>,
) -> Vec<Written> {
    let rowset = |tablet: &Arc<TabletSort>| {
        let own = written.iter().filter(|(rowset, _)| *rowset == tablet.rowset);
        let segments = own.map(|(_, segment)| segment.clone()).collect::<Vec<_>>();
        let in_order = segments.iter().zip(0..).all(|(segment, at)| segment.id == SegmentId(at));
        assert!(in_order, "segments are numbered in the order of their submission");
        let rows = segments.iter().map(|segment| segment.rows).sum::<u64>();
        assert_eq!(rows, tablet.rows.len() as u64, "a tablet's rows are in its segments");
        let rowset = RowsetMeta {
            id: tablet.rowset,
            tablet: tablet.tablet,
            lsn_first: input.lsns.0,
            lsn_last: input.lsns.1,
            schema_version: input.schema.version,
            rows,
            segments,
        };
        Written { rowset, rows: tablet.rows.clone() }
    };
    tablets.iter().map(rowset).collect()
}

#[cfg(test)]
mod tests;
