//! Row policies.

use freshet_base::ColumnId;
use freshet_schema::{PolicyHolder, RowPolicy};
use prost::Message;

use super::{OnDisk, Unreadable, ensure};

#[derive(Clone, PartialEq, Message)]
pub struct PolicyForm {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bool, tag = "2")]
    is_restrictive: bool,
    #[prost(string, tag = "3")]
    holder_name: String,
    #[prost(string, tag = "4")]
    holder_host: String,
    #[prost(bool, tag = "5")]
    is_of_role: bool,
    #[prost(string, tag = "6")]
    text: String,
    #[prost(uint32, repeated, tag = "7")]
    columns: Vec<u32>,
}

impl OnDisk for RowPolicy {
    type Form = PolicyForm;

    fn form(&self) -> PolicyForm {
        PolicyForm {
            name: self.name.clone(),
            is_restrictive: self.is_restrictive,
            holder_name: self.holder.name.clone(),
            holder_host: self.holder.host.clone(),
            is_of_role: self.holder.is_role,
            text: self.text.clone(),
            columns: self.columns.iter().map(|column| column.get()).collect(),
        }
    }

    fn from_form(form: PolicyForm) -> Result<Self, Unreadable> {
        ensure(!form.text.is_empty(), "a row policy has no condition")?;
        let (name, host, is_role) = (form.holder_name, form.holder_host, form.is_of_role);
        Ok(Self {
            name: form.name,
            is_restrictive: form.is_restrictive,
            holder: PolicyHolder { name, host, is_role },
            text: form.text,
            columns: form.columns.into_iter().map(ColumnId).collect(),
        })
    }
}
