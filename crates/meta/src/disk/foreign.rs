//! Foreign keys.

use freshet_base::ColumnId;
use freshet_schema::{ForeignKey, ReferenceAction};
use prost::Message;

use super::{OnDisk, Unreadable, ensure, numbered};

#[derive(Clone, PartialEq, Message)]
pub struct ForeignKeyForm {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(uint32, repeated, tag = "2")]
    columns: Vec<u32>,
    #[prost(string, optional, tag = "3")]
    database: Option<String>,
    #[prost(string, tag = "4")]
    table: String,
    #[prost(string, repeated, tag = "5")]
    referenced: Vec<String>,
    #[prost(uint32, tag = "6")]
    on_delete: u32,
    #[prost(uint32, tag = "7")]
    on_update: u32,
}

numbered!(ReferenceAction { NoAction = 1, Restrict = 2, Cascade = 3, SetNull = 4, SetDefault = 5 });

impl OnDisk for ForeignKey {
    type Form = ForeignKeyForm;

    fn form(&self) -> ForeignKeyForm {
        ForeignKeyForm {
            name: self.name.clone(),
            columns: self.columns.iter().map(|column| column.get()).collect(),
            database: self.database.clone(),
            table: self.table.clone(),
            referenced: self.referenced.clone(),
            on_delete: self.on_delete.form(),
            on_update: self.on_update.form(),
        }
    }

    fn from_form(form: ForeignKeyForm) -> Result<Self, Unreadable> {
        ensure(
            !form.columns.is_empty() && form.columns.len() == form.referenced.len(),
            "a foreign key references as many columns as it has",
        )?;
        Ok(Self {
            name: form.name,
            columns: form.columns.into_iter().map(ColumnId).collect(),
            database: form.database,
            table: form.table,
            referenced: form.referenced,
            on_delete: ReferenceAction::from_form(form.on_delete)?,
            on_update: ReferenceAction::from_form(form.on_update)?,
        })
    }
}
