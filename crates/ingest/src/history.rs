//! The groups that ended lately, for `information_schema.group_commits`.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::group::EndedGroup;

/// How many ended groups are remembered.
const GROUPS_MAX: usize = 1000;

/// The groups that ended lately, newest last.
#[derive(Default)]
pub struct History(Mutex<VecDeque<EndedGroup>>);

impl History {
    /// All of them, oldest first.
    pub fn groups(&self) -> Vec<EndedGroup> {
        self.0.lock().iter().cloned().collect()
    }

    pub(crate) fn push(&self, group: EndedGroup) {
        let mut groups = self.0.lock();
        if groups.len() == GROUPS_MAX {
            groups.pop_front();
        }
        groups.push_back(group);
    }
}
