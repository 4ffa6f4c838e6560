//! The files of one tablet.

use std::sync::Arc;

use freshet_base::{PartitionId, TabletId};

use crate::rowset::Rowset;

/// The files of a tablet, up to its table's flushed LSN.
#[derive(Clone)]
pub struct TabletFiles {
    pub id: TabletId,
    /// The tablet's partition.
    pub partition: PartitionId,
    /// Its rowsets, ordered by LSN and without overlap.
    pub rowsets: Vec<Arc<Rowset>>,
}
