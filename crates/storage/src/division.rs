//! A change of a table's partitions at its place in the log (RFC 0019, keys.md K37).

use std::collections::HashSet;
use std::fmt;

use freshet_base::TabletId;
use freshet_schema::{Partition, PartitionBy, RoutedKeys, Router, TableSchema};

/// What a table loses where its partitions change: rows before that place which stand in the ranges
/// of partitions that are gone, and the files of these. What comes behind is of other partitions.
pub struct Division {
    tablets: HashSet<TabletId>,
    lost: Option<RoutedKeys>,
    /// The partitions behind it that were not there before, or had another name or other values.
    changed: Option<Vec<Partition>>,
}

impl Division {
    /// The loss of these partitions of a table with the columns `schema`. `changed` are those that
    /// are new or others behind it; `None` where views have them before it enters, as in a replay.
    pub fn new(
        by: &PartitionBy,
        schema: &TableSchema,
        removed: &[Partition],
        changed: Option<Vec<Partition>>,
    ) -> Self {
        let router = Router::new(by, removed.iter().filter_map(|one| one.values.as_ref()));
        Self {
            tablets: removed.iter().flat_map(|one| one.tablets.iter().copied()).collect(),
            lost: (!removed.is_empty()).then(|| RoutedKeys::new(router, schema)),
            changed,
        }
    }

    /// Whether views have its partitions only once it has settled.
    pub fn changes(&self) -> bool {
        self.changed.is_some()
    }

    /// Makes the partitions before it those behind it; in which order is open, and where it has
    /// been done, nothing changes.
    pub fn change(&self, partitions: &mut Vec<Partition>) {
        partitions.retain(|one| !one.tablets.iter().any(|tablet| self.loses(*tablet)));
        for changed in self.changed.iter().flatten() {
            match partitions.iter_mut().find(|one| one.id == changed.id) {
                Some(one) => one.clone_from(changed),
                None => partitions.push(changed.clone()),
            }
        }
    }

    /// Which rows are lost; `None` if none are.
    pub fn lost(&self) -> Option<&RoutedKeys> {
        self.lost.as_ref()
    }

    /// Whether the files of this tablet are lost.
    pub fn loses(&self, tablet: TabletId) -> bool {
        self.tablets.contains(&tablet)
    }

    pub fn tablets(&self) -> impl Iterator<Item = TabletId> {
        self.tablets.iter().copied()
    }
}

impl fmt::Debug for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Division").field("tablets", &self.tablets).finish_non_exhaustive()
    }
}
