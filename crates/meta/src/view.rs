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
    pub algorithm: ViewAlgorithm,
    pub check_option: CheckOption,
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

/// ALGORITHM of a view. Each is planned as a part of the query that reads it; through one with
/// TEMPTABLE nothing is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ViewAlgorithm {
    #[default]
    Undefined,
    Merge,
    TempTable,
}

impl ViewAlgorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Undefined => "UNDEFINED",
            Self::Merge => "MERGE",
            Self::TempTable => "TEMPTABLE",
        }
    }
}

/// WITH CHECK OPTION of a view: which rows are written through it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CheckOption {
    #[default]
    None,
    /// Those that satisfy its condition.
    Local,
    /// Those that satisfy its condition, and those of all views that it reads.
    Cascaded,
}

impl CheckOption {
    /// As `information_schema.views` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Local => "LOCAL",
            Self::Cascaded => "CASCADED",
        }
    }
}

impl View {
    /// The statement that creates it, as SHOW CREATE VIEW shows it.
    pub fn show_create(&self) -> String {
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        let security = if self.invoker { "INVOKER" } else { "DEFINER" };
        let names = self.columns.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>();
        let check = match self.check_option {
            CheckOption::None => String::new(),
            option => format!(" WITH {} CHECK OPTION", option.name()),
        };
        format!(
            "CREATE ALGORITHM={} DEFINER={}@{} SQL SECURITY {security} VIEW {} ({}) AS {}{check}",
            self.algorithm.name(),
            quoted(&self.definer.name),
            quoted(&self.definer.host),
            quoted(&self.name),
            names.join(", "),
            self.query
        )
    }
}
