//! Foreign keys, as they were declared: they are shown, and nothing checks them (RFC 0069).

use freshet_base::ColumnId;

/// A foreign key of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignKey {
    /// Of its constraint; no other foreign key of the table has it.
    pub name: String,
    /// The columns that reference; not empty.
    pub columns: Vec<ColumnId>,
    /// The database of the other table; `None` for that of its own.
    pub database: Option<String>,
    /// The table that is referenced, which may not be there.
    pub table: String,
    /// The columns that are referenced, as many as `columns`.
    pub referenced: Vec<String>,
    pub on_delete: ReferenceAction,
    pub on_update: ReferenceAction,
}

/// What MySQL would do with rows that reference one that goes or changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReferenceAction {
    #[default]
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl ReferenceAction {
    pub const ALL: [Self; 5] =
        [Self::NoAction, Self::Restrict, Self::Cascade, Self::SetNull, Self::SetDefault];

    /// As it is written and shown.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NoAction => "NO ACTION",
            Self::Restrict => "RESTRICT",
            Self::Cascade => "CASCADE",
            Self::SetNull => "SET NULL",
            Self::SetDefault => "SET DEFAULT",
        }
    }
}
