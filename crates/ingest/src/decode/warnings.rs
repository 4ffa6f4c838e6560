//! Warnings about the rows of a load.

use freshet_base::{Error, ErrorCode};

use crate::rejects::{Rejects, Why};

/// Maximum number of warnings kept per load; further ones are only counted.
const WARNINGS_MAX: usize = 1024;

/// Warnings about values that a lax SQL mode adjusted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Warnings {
    /// The total number of warnings.
    pub count: u64,
    /// Errno and message of the first ones.
    pub first: Vec<(u16, String)>,
    /// Number of omitted rows; each also counts as a warning.
    pub filtered: u64,
    /// These rows; those of a plan that filters.
    pub rejects: Rejects,
}

impl Warnings {
    /// Appends the warnings of a later part of the same load.
    pub fn append(&mut self, later: Self) {
        self.count += later.count;
        self.filtered += later.filtered;
        // They are counted from the first row of the load on.
        self.rejects.append(later.rejects, 0);
        assert!(self.first.len() <= WARNINGS_MAX, "few warnings are kept");
        let room = WARNINGS_MAX - self.first.len();
        self.first.extend(later.first.into_iter().take(room));
    }

    /// Adds a warning, which is spelled out only as long as few are.
    pub fn tell(&mut self, code: ErrorCode, message: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < WARNINGS_MAX {
            self.first.push((code.errno(), message()));
        }
    }

    /// Counts a row that is left out.
    pub(super) fn filter(
        &mut self,
        row: u64,
        error: impl FnOnce() -> Error,
        why: impl FnOnce() -> Why,
    ) {
        self.count += 1;
        self.filtered += 1;
        self.rejects.add(row, b"", why);
        if self.first.len() < WARNINGS_MAX {
            let error = error();
            let message = format!("{}: the row was left out", error.message());
            self.first.push((error.code().errno(), message));
        }
    }
}
