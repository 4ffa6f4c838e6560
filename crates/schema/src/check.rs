//! CHECK constraints: conditions that no row of a table makes false.

use std::fmt;

use freshet_base::{ColumnId, Result};

/// The maximum number of constraints of a table.
pub const CHECKS_MAX: usize = 64;
/// The maximum length of a condition, in bytes.
pub const CHECK_BYTES_MAX: usize = 4096;

/// A constraint of one schema version. A row for which the condition is NULL satisfies it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    pub name: String,
    /// The condition, as SQL without parentheses around it.
    pub text: String,
    /// The columns that it names, which keep their names.
    pub columns: Vec<ColumnId>,
    /// Without NOT ENFORCED.
    pub is_enforced: bool,
}

/// The enforced constraints of a table, ready to be evaluated over rows.
pub trait RowChecks: Send + Sync + fmt::Debug {
    /// # Errors
    /// 3819 with the name of the first constraint that an encoded row violates; those of its
    /// expressions.
    fn check(&self, row: &[u8]) -> Result<()>;
}
