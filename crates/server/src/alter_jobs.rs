//! Changes of columns since the start, for SHOW ALTER TABLE COLUMN.

use std::collections::VecDeque;
use std::sync::Arc;

use freshet_base::{SchemaVersion, TableId};
use freshet_ingest::Progress;
use parking_lot::Mutex;

/// Maximum number of changes remembered.
const JOBS_MAX: usize = 1000;

/// A change of the columns of a table.
#[derive(Clone, Debug)]
pub struct AlterJob {
    /// Given by [`AlterJobs::add`], from 1.
    pub id: u64,
    pub database: String,
    pub table: String,
    pub table_id: TableId,
    /// The version that it made.
    pub schema_version: Option<SchemaVersion>,
    /// Microseconds since 1970-01-01 UTC.
    pub began_micros: i64,
    pub end: JobEnd,
}

/// Whether a change is over.
#[derive(Clone, Debug)]
pub enum JobEnd {
    /// It copies rows.
    Runs(Arc<Progress>),
    /// At this time, in microseconds since 1970-01-01 UTC.
    Done(i64),
    /// Nothing was changed, and why.
    Refused(i64, String),
}

/// The changes since the start, oldest first.
#[derive(Default)]
pub struct AlterJobs {
    jobs: Mutex<(u64, VecDeque<AlterJob>)>,
}

impl AlterJobs {
    /// Adds a change, and returns its id.
    pub fn add(&self, job: AlterJob) -> u64 {
        let (last, jobs) = &mut *self.jobs.lock();
        *last += 1;
        if jobs.len() == JOBS_MAX {
            jobs.pop_front();
        }
        jobs.push_back(AlterJob { id: *last, ..job });
        *last
    }

    /// Says how a change ended.
    pub fn end(&self, id: u64, schema_version: Option<SchemaVersion>, end: JobEnd) {
        let jobs = &mut self.jobs.lock().1;
        if let Some(job) = jobs.iter_mut().find(|job| job.id == id) {
            (job.schema_version, job.end) = (schema_version, end);
        }
    }

    /// Lets the changes of a table end that copy rows; whether there were any.
    pub fn cancel(&self, table: TableId) -> bool {
        let jobs = &self.jobs.lock().1;
        let runs =
            jobs.iter().filter(|job| job.table_id == table).filter_map(|job| match &job.end {
                JobEnd::Runs(progress) => Some(progress),
                JobEnd::Done(_) | JobEnd::Refused(..) => None,
            });
        runs.inspect(|progress| progress.cancel()).count() > 0
    }

    pub fn list(&self) -> Vec<AlterJob> {
        self.jobs.lock().1.iter().cloned().collect()
    }
}
