//! Recently ended groups, for `information_schema.group_commits`.

use std::collections::VecDeque;
use std::sync::Arc;

use freshet_base::metrics::Metrics;
use freshet_base::{TableId, Version};
use parking_lot::Mutex;

use crate::group::{EndedGroup, FlushTimes};

/// Maximum number of groups kept.
const GROUPS_MAX: usize = 1000;

/// Recently ended groups, newest last.
pub struct History {
    metrics: Arc<Metrics>,
    groups: Mutex<VecDeque<EndedGroup>>,
}

impl History {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, groups: Mutex::default() }
    }

    /// All of them, oldest first.
    pub fn groups(&self) -> Vec<EndedGroup> {
        self.groups.lock().iter().cloned().collect()
    }

    pub(crate) fn push(&self, group: EndedGroup) {
        self.metrics.groups_ended.with_label_values(&[group.reason.name()]).inc();
        let mut groups = self.groups.lock();
        if groups.len() == GROUPS_MAX {
            groups.pop_front();
        }
        groups.push_back(group);
        assert!(groups.len() <= GROUPS_MAX, "the oldest makes room for the newest");
    }

    /// Marks the groups of a table with versions above the first and up to the second as flushed.
    pub(crate) fn flushed(
        &self,
        table: TableId,
        (from, to): (Version, Version),
        times: FlushTimes,
    ) {
        assert!(from <= to, "versions of a table rise");
        for group in self.groups.lock().iter_mut().filter(|group| group.table == table) {
            if from < group.version && group.version <= to {
                assert!(group.flushed.is_none(), "the rows of a group are flushed once");
                group.flushed = Some(times);
            }
        }
    }
}
