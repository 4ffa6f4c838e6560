//! Views: queries that are read under a name.
//!
//! A view is kept as the text of its query, which is planned anew by every statement that reads it.

use freshet_base::DbId;
use freshet_schema::Column;

use crate::user::Account;

#[derive(Clone, PartialEq, Debug)]
pub struct View {
    pub db: DbId,
    pub name: String,
    /// The text of its query.
    pub query: String,
    /// What the text means depends on these flags of `sql_mode`.
    pub text_mode: TextMode,
    /// The database of names in it that name none.
    pub database: Option<String>,
    pub definer: Account,
    /// SQL SECURITY INVOKER: its tables are read with the rights of who reads it.
    pub invoker: bool,
    pub columns: Vec<Column>,
    /// The columns of the query that its columns are, where the query has a `*`, so that columns
    /// which its tables get later are left out; else empty: all of them, in order.
    pub sources: Vec<String>,
    pub created_micros: i64,
}

/// Flags of `sql_mode` that decide what a text means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TextMode {
    pub pipes_as_concat: bool,
    pub ansi_quotes: bool,
    pub no_backslash_escapes: bool,
    /// ONLY_FULL_GROUP_BY was not set.
    pub loose_group_by: bool,
}

impl View {
    /// The statement that creates it, as SHOW CREATE VIEW shows it.
    pub fn show_create(&self) -> String {
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        let security = if self.invoker { "INVOKER" } else { "DEFINER" };
        let names = self.columns.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>();
        format!(
            "CREATE ALGORITHM=UNDEFINED DEFINER={}@{} SQL SECURITY {security} VIEW {} ({}) AS {}",
            quoted(&self.definer.name),
            quoted(&self.definer.host),
            quoted(&self.name),
            names.join(", "),
            self.query
        )
    }
}
