//! Row policies: which rows of a table somebody sees.

use freshet_base::ColumnId;

/// The maximum number of policies of a table.
pub const POLICIES_MAX: usize = 128;
/// The maximum length of a condition, in bytes.
pub const POLICY_BYTES_MAX: usize = 4096;

/// A policy of a table. A row for which the condition is NULL or false is hidden.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowPolicy {
    pub name: String,
    /// AS RESTRICTIVE: all of these have to hold, and of the others one.
    pub is_restrictive: bool,
    pub holder: PolicyHolder,
    /// The condition, as SQL in the default `sql_mode` without parentheses around it.
    pub text: String,
    /// The columns that it names, which keep their names.
    pub columns: Vec<ColumnId>,
}

/// The account or role that a policy restricts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyHolder {
    pub name: String,
    pub host: String,
    /// TO ROLE: whoever has the role.
    pub is_role: bool,
}
