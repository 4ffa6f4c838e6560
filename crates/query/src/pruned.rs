//! What a scan does not have to read, for EXPLAIN.

use std::fmt;
use std::sync::Arc;

use crate::indexes::IndexUse;

/// What pruning by metadata left: remaining and total numbers; and what indexes found there.
#[derive(Clone, Debug)]
pub struct PruningCounts {
    /// Of the partitions that are left, where PARTITION BY divides the table.
    pub names: Option<Arc<str>>,
    pub partitions: [usize; 2],
    pub tablets: [usize; 2],
    pub rowsets: [usize; 2],
    pub segments: [usize; 2],
    pub index: IndexUse,
}

impl PruningCounts {
    /// The names of the partitions that are left, if some are not.
    pub fn write_names(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.names {
            Some(names) if self.partitions[0] < self.partitions[1] => {
                write!(f, ", partitions: {names}")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for PruningCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partitions, tablets, rowsets, segments, .. } = self;
        write!(
            f,
            "{} of {} partitions, {} of {} tablets, {} of {} rowsets, {} of {} segments",
            partitions[0],
            partitions[1],
            tablets[0],
            tablets[1],
            rowsets[0],
            rowsets[1],
            segments[0],
            segments[1],
        )
    }
}
