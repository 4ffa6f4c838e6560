//! Merges adjacent rowsets of a tablet into one, in bounded memory.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use freshet_base::task::yield_core;
use freshet_base::{ColumnId, Lsn, RowsetId, SegmentId, TableId, TabletId};
use freshet_meta::{RowsetMeta, SegmentMeta};
use freshet_schema::hash;
use freshet_schema::{Forgotten, TableSchema};

use super::deleted::{Ager, Aging};
use super::row_map::RowMap;
use crate::combine::Combiner;
use crate::error::{Error, Result};
use crate::flush::Files;
use crate::layout::segment_file;
use crate::marks::DeadRows;
use crate::merge::{Merge, Run};
use crate::rowset::Rowset;
use crate::segment::{ScanRequest, Segment, SegmentSpec, SegmentWriter, Share, Tier};

/// Rows per batch of a merge, which yields the core after each.
const BATCH_ROWS: usize = 4096;

/// A merge to run.
pub struct MergeJob {
    pub table: TableId,
    pub tablet: TabletId,
    /// The columns of the result: the newest schema of the rowsets.
    pub schema: Arc<TableSchema>,
    /// Adjacent rowsets at or below the flushed LSN, in the order of their LSNs.
    pub rowsets: Vec<Arc<Rowset>>,
    /// The id of the result, never used before.
    pub id: RowsetId,
    /// Approximate size at which a segment ends.
    pub segment_bytes_max: u64,
    /// A result of at least this size is compressed for long storage.
    pub cold_bytes_min: u64,
    /// Whether rows of the table can be looked up by their key.
    pub is_keyed: bool,
    /// Whether the table stores rows beside their keys.
    pub stores_rows: bool,
    /// The columns of each index of the table.
    pub indexes: Vec<Vec<ColumnId>>,
    /// What becomes of rows that delete, in a table with a sequence column; `None` leaves them.
    pub aging: Option<Aging>,
}

/// The number of rows and an order-independent hash of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Digest {
    rows: u64,
    sum: u64,
}

impl Digest {
    fn add(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
        self.sum = hash::of_rows(batch).into_iter().fold(self.sum, u64::wrapping_add);
    }
}

/// The result of a merge.
#[derive(Debug)]
pub struct Merged {
    /// The new rowset; without segments if all rows were dead.
    pub rowset: RowsetMeta,
    /// Where its rows come from; `None` where none had died in a table without a unique key, and in
    /// tables with an AGGREGATE KEY.
    pub rows: Option<RowMap>,
    /// Rows that delete and are old enough to be forgotten.
    pub forgotten: Vec<Forgotten>,
}

/// Merges the rowsets, blocking, without the rows that are dead at the flushed LSN of their view.
/// `pace` is called before each batch; it may block to reduce the load, or cancel the merge. The
/// result is read back and must contain exactly the input rows that are alive; in tables with an
/// AGGREGATE KEY, what they have become together.
/// Files and directory are synced on return; `None` after cancellation.
///
/// # Errors
/// [`Error::Corruption`] of an input rowset, which is not changed; [`Error::Io`].
///
/// # Panics
/// When the rows read back differ from the input: the process must not continue.
pub fn merge(
    files: &Files,
    job: &MergeJob,
    pace: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Option<Merged>> {
    let in_order = job.rowsets.is_sorted_by(|a, b| a.lsns().1 < b.lsns().0);
    assert!(in_order, "the inputs of a merge follow each other");
    let is_newest = job.rowsets.iter().all(|rowset| rowset.schema().version <= job.schema.version);
    assert!(is_newest, "a merge has the newest columns of its inputs");
    let are_own = job.rowsets.iter().all(|rowset| rowset.meta().tablet == job.tablet);
    assert!(are_own, "the inputs of a merge are of one tablet");
    let dir = files.dir.tablet(job.table, job.tablet);
    let loses_rows = job.rowsets.iter().any(|rowset| rowset.loses_rows());
    // Rows that become one have no place that a mark could follow.
    let is_mapped = (job.is_keyed || loses_rows) && !job.schema.is_combined();
    let origins = is_mapped.then(Vec::new);
    let ager = Ager::new(job.aging, &job.schema);
    let mut output = Output { files, job, dir, open: None, segments: Vec::new(), origins, ager };
    let merged = write(&mut output, job, pace);
    let finished = match merged {
        Ok(Some(before)) => output.verify(before).map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    if !matches!(finished, Ok(Some(_))) {
        output.remove();
    }
    finished
}

/// Checks the number of rows that a merge has written.
///
/// # Panics
/// When they are not the living rows of its inputs, or in a table with an AGGREGATE KEY, whose rows
/// become fewer, cannot be.
pub fn check_rows(inputs: &[Arc<Rowset>], written: u64, schema: &TableSchema) {
    let handed = inputs.iter().map(|rowset| rowset.flushed_rows()).sum::<u64>();
    let is_whole = written == handed;
    let are_combined = schema.is_combined() && (1..=handed).contains(&written);
    assert!(is_whole || are_combined, "a merge of {handed} living rows has written {written}");
}

fn write(
    output: &mut Output<'_>,
    job: &MergeJob,
    pace: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Option<Digest>> {
    let request = request(job);
    // Each segment is a sorted run of its own: the segments of a large load may overlap.
    let run = |(segment, dead): (&Arc<Segment>, DeadRows)| {
        Ok(Box::new(segment.scan(&request, Share::WHOLE, &dead)?) as Run)
    };
    let runs = inputs(job).map(run).collect::<Result<Vec<_>>>()?;
    let (mut read, mut before) = (0, Digest::default());
    let mut merge = Merge::new(runs, &job.schema, BATCH_ROWS)?;
    let mut combiner = Combiner::new(&job.schema);
    assert!(combiner.is_none() || output.origins.is_none(), "rows that are combined have no map");
    while let Some(batch) = merge.next() {
        if pace().is_break() {
            return Ok(None);
        }
        let mut batch = batch?;
        yield_core();
        read += batch.num_rows() as u64;
        if let Some(combiner) = &mut combiner {
            batch = combiner.push(&batch)?;
        }
        if let Some(ager) = &mut output.ager {
            batch = ager.age(batch, &job.schema);
        }
        before.add(&batch);
        output.write(&batch)?;
        if let Some(origins) = &mut output.origins {
            origins.extend_from_slice(merge.origins());
        }
        yield_core();
    }
    if let Some(last) = combiner.as_mut().and_then(Combiner::end) {
        before.add(&last);
        output.write(&last)?;
    }
    output.end_segment()?;
    let handed = job.rowsets.iter().map(|rowset| rowset.flushed_rows()).sum::<u64>();
    assert_eq!(read, handed, "rows of the rowsets are rows in the merge");
    check_rows(&job.rowsets, before.rows, &job.schema);
    Ok(Some(before))
}

/// The segments to merge, with the rows that are left out.
fn inputs(job: &MergeJob) -> impl Iterator<Item = (&Arc<Segment>, DeadRows)> {
    job.rowsets.iter().flat_map(|rowset| rowset.segments().iter().zip(rowset.flushed_dead()))
}

fn request(job: &MergeJob) -> ScanRequest {
    ScanRequest { batch_rows: BATCH_ROWS, ..ScanRequest::all(&job.schema) }
}

struct Output<'a> {
    files: &'a Files,
    job: &'a MergeJob,
    dir: PathBuf,
    open: Option<SegmentWriter>,
    segments: Vec<SegmentMeta>,
    /// The input of each row, in tables whose rows die.
    origins: Option<Vec<u16>>,
    /// In tables with a sequence column.
    ager: Option<Ager>,
}

impl Output<'_> {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let writer = match &mut self.open {
            Some(writer) => writer,
            none => {
                let path = path(&self.dir, self.job.id, self.segments.len());
                none.insert(create(self.files, self.job, &path, batch)?)
            }
        };
        writer.write(batch)?;
        match writer.bytes() >= self.job.segment_bytes_max || writer.is_full() {
            true => self.end_segment(),
            false => Ok(()),
        }
    }

    fn end_segment(&mut self) -> Result<()> {
        if let Some(writer) = self.open.take() {
            self.segments.push(writer.finish(SegmentId(self.segments.len() as u32))?);
        }
        Ok(())
    }

    /// Syncs the directory, reads the result back and compares the digests.
    fn verify(&mut self, before: Digest) -> Result<Merged> {
        let sync = self.files.fs.sync_dir(&self.dir);
        sync.map_err(|error| Error::io("sync", &self.dir, error))?;
        let job = self.job;
        let lsns = lsns(job);
        let meta = RowsetMeta {
            id: job.id,
            tablet: job.tablet,
            lsn_first: lsns.0,
            lsn_last: lsns.1,
            schema_version: job.schema.version,
            segments: self.segments.clone(),
            rows: before.rows,
        };
        let rowset = Rowset::new(&self.files.segments, &self.dir, meta.clone(), &job.schema);
        let mut after = Digest::default();
        for batch in rowset.scan(request(job)) {
            after.add(&batch?);
            yield_core();
        }
        assert_eq!(before, after, "compaction keeps every row of {meta:?}");
        let segments = meta.segments.iter().map(|segment| {
            u32::try_from(segment.rows).expect("the rows of a segment have numbers of 32 bits")
        });
        let dead = inputs(job).map(|(_, dead)| dead);
        let map = |origins| RowMap::new(dead.collect(), origins, segments.collect());
        let forgotten = self.ager.take().map_or_else(Vec::new, |ager| ager.forgotten);
        Ok(Merged { rows: self.origins.take().map(map), rowset: meta, forgotten })
    }

    /// Removes written files; any that cannot be removed are left to the sweep.
    fn remove(&mut self) {
        let written = self.segments.len() + usize::from(self.open.take().is_some());
        for segment in 0..=written {
            let _ = self.files.fs.remove_file(&path(&self.dir, self.job.id, segment));
        }
    }
}

fn path(dir: &Path, rowset: RowsetId, segment: usize) -> PathBuf {
    dir.join(segment_file(rowset, SegmentId(segment as u32), 0))
}

fn create(
    files: &Files,
    job: &MergeJob,
    path: &Path,
    sample: &RecordBatch,
) -> Result<SegmentWriter> {
    let bytes = job.rowsets.iter().map(|rowset| rowset.bytes()).sum::<u64>();
    let has_key_part = |segment: &Segment| segment.meta().key_part.is_some();
    let has_keys = job.is_keyed && inputs(job).all(|(segment, _)| has_key_part(segment));
    let spec = SegmentSpec {
        schema: &job.schema,
        table: job.table,
        tablet: job.tablet,
        lsns: lsns(job),
        tier: if bytes >= job.cold_bytes_min { Tier::Cold } else { Tier::Fresh },
        has_keys,
        stores_rows: job.stores_rows,
        // Indexes stand beside keys, or alone in tables that have none.
        indexes: if has_keys || !job.is_keyed { &job.indexes } else { &[] },
    };
    SegmentWriter::create(files.fs.as_ref(), path, &spec, sample)
}

fn lsns(job: &MergeJob) -> (Lsn, Lsn) {
    let (first, last) = job.rowsets.first().zip(job.rowsets.last()).expect("a merge has rowsets");
    (first.meta().lsn_first, last.meta().lsn_last)
}

#[cfg(test)]
mod tests;
