//! Changes of columns since the start, for SHOW ALTER TABLE COLUMN.

use std::collections::VecDeque;

use freshet_base::{SchemaVersion, TableId};
use parking_lot::Mutex;

/// Maximum number of changes remembered.
const JOBS_MAX: usize = 1000;

/// A change of the columns of a table, which is over.
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
    pub ended_micros: i64,
    /// Why nothing was changed.
    pub refused: Option<String>,
}

/// The changes since the start, oldest first.
#[derive(Default)]
pub struct AlterJobs {
    jobs: Mutex<(u64, VecDeque<AlterJob>)>,
}

impl AlterJobs {
    pub fn add(&self, job: AlterJob) {
        let (last, jobs) = &mut *self.jobs.lock();
        *last += 1;
        if jobs.len() == JOBS_MAX {
            jobs.pop_front();
        }
        jobs.push_back(AlterJob { id: *last, ..job });
    }

    pub fn list(&self) -> Vec<AlterJob> {
        self.jobs.lock().1.iter().cloned().collect()
    }
}
