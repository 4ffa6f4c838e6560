//! Generated columns: their values are computed from others of the row, when it is stored.

use freshet_base::ColumnId;

/// How the values of a column are computed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Generated {
    /// The expression, as SQL without parentheses around it.
    pub text: String,
    /// The columns that it names, which keep their names.
    pub columns: Vec<ColumnId>,
    /// STORED, and not VIRTUAL. That is only shown: values of both kinds are stored.
    pub is_stored: bool,
}

impl Generated {
    /// STORED or VIRTUAL.
    pub const fn kind(&self) -> &'static str {
        if self.is_stored { "STORED" } else { "VIRTUAL" }
    }
}
