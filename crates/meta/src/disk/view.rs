//! Views.

use freshet_base::DbId;
use prost::Message;

use super::column::ColumnForm;
use super::{OnDisk, Unreadable, ensure, forms, from_forms};
use crate::user::Account;
use crate::view::{CheckOption, TextMode, View, ViewAlgorithm};

#[derive(Clone, PartialEq, Message)]
pub struct ViewForm {
    #[prost(uint64, tag = "1")]
    db: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    query: String,
    #[prost(bool, tag = "4")]
    pipes_as_concat: bool,
    #[prost(bool, tag = "5")]
    ansi_quotes: bool,
    #[prost(bool, tag = "6")]
    no_backslash_escapes: bool,
    #[prost(string, optional, tag = "7")]
    database: Option<String>,
    #[prost(string, tag = "8")]
    definer_name: String,
    #[prost(string, tag = "9")]
    definer_host: String,
    #[prost(bool, tag = "10")]
    invoker: bool,
    #[prost(message, repeated, tag = "11")]
    columns: Vec<ColumnForm>,
    #[prost(string, repeated, tag = "12")]
    sources: Vec<String>,
    #[prost(int64, tag = "13")]
    created_micros: i64,
    #[prost(bool, tag = "14")]
    loose_group_by: bool,
    /// 0 undefined, 1 MERGE, 2 TEMPTABLE.
    #[prost(uint32, tag = "15")]
    algorithm: u32,
    /// 0 none, 1 LOCAL, 2 CASCADED.
    #[prost(uint32, tag = "16")]
    check_option: u32,
    /// Those of a view with CHECK OPTION. Versions that know none find a view without columns, and
    /// do not open the store: they would write the view without the option.
    #[prost(message, repeated, tag = "17")]
    checked_columns: Vec<ColumnForm>,
}

impl OnDisk for View {
    type Form = ViewForm;

    fn form(&self) -> ViewForm {
        let TextMode { pipes_as_concat, ansi_quotes, no_backslash_escapes, loose_group_by } =
            self.text_mode;
        let (columns, checked_columns) = match self.check_option {
            CheckOption::None => (forms(&self.columns), Vec::new()),
            CheckOption::Local | CheckOption::Cascaded => (Vec::new(), forms(&self.columns)),
        };
        ViewForm {
            db: self.db.get(),
            name: self.name.clone(),
            query: self.query.clone(),
            pipes_as_concat,
            ansi_quotes,
            no_backslash_escapes,
            database: self.database.clone(),
            definer_name: self.definer.name.clone(),
            definer_host: self.definer.host.clone(),
            invoker: self.invoker,
            columns,
            sources: self.sources.clone(),
            created_micros: self.created_micros,
            loose_group_by,
            algorithm: match self.algorithm {
                ViewAlgorithm::Undefined => 0,
                ViewAlgorithm::Merge => 1,
                ViewAlgorithm::TempTable => 2,
            },
            check_option: match self.check_option {
                CheckOption::None => 0,
                CheckOption::Local => 1,
                CheckOption::Cascaded => 2,
            },
            checked_columns,
        }
    }

    fn from_form(form: ViewForm) -> Result<Self, Unreadable> {
        let columns = [form.columns, form.checked_columns].concat();
        ensure(!columns.is_empty(), "a view has no columns")?;
        let sources = form.sources.len();
        ensure(
            sources == 0 || sources == columns.len(),
            "a view has a column that is none of its query",
        )?;
        let text_mode = TextMode {
            pipes_as_concat: form.pipes_as_concat,
            ansi_quotes: form.ansi_quotes,
            no_backslash_escapes: form.no_backslash_escapes,
            loose_group_by: form.loose_group_by,
        };
        let algorithm = match form.algorithm {
            0 => ViewAlgorithm::Undefined,
            1 => ViewAlgorithm::Merge,
            2 => ViewAlgorithm::TempTable,
            _ => return Err(Unreadable("a view has an unknown algorithm".to_owned())),
        };
        let check_option = match form.check_option {
            0 => CheckOption::None,
            1 => CheckOption::Local,
            2 => CheckOption::Cascaded,
            _ => return Err(Unreadable("a view has an unknown check option".to_owned())),
        };
        Ok(Self {
            db: DbId(form.db),
            name: form.name,
            query: form.query,
            text_mode,
            database: form.database,
            definer: Account { name: form.definer_name, host: form.definer_host },
            invoker: form.invoker,
            algorithm,
            check_option,
            columns: from_forms(columns)?,
            sources: form.sources,
            created_micros: form.created_micros,
        })
    }
}
