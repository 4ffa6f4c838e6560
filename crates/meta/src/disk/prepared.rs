//! Notes of prepared loads.

use freshet_base::{DbId, Incarnation, SchemaVersion, TableId, TxnId};
use prost::Message;

use super::rowset::RowsetForm;
use super::{OnDisk, Unreadable, ensure, forms, from_forms};
use crate::prepared::{NotedPartial, NotedRows, PreparedNote};

#[derive(Clone, PartialEq, Message)]
pub struct PreparedForm {
    #[prost(uint64, tag = "1")]
    txn: u64,
    #[prost(uint64, tag = "2")]
    db: u64,
    #[prost(string, tag = "3")]
    label: String,
    #[prost(uint64, tag = "4")]
    table: u64,
    #[prost(uint32, tag = "5")]
    incarnation: u32,
    #[prost(uint32, tag = "6")]
    schema_version: u32,
    #[prost(uint32, tag = "7")]
    rows: u32,
    #[prost(message, repeated, tag = "8")]
    rowsets: Vec<RowsetForm>,
    #[prost(uint64, optional, tag = "9")]
    highest_id: Option<u64>,
    #[prost(int64, tag = "10")]
    expires_micros: i64,
    #[prost(message, optional, tag = "11")]
    noted: Option<NotedForm>,
    #[prost(message, optional, tag = "12")]
    partial: Option<PartialForm>,
    /// An older version refuses a note that has it.
    #[prost(bool, tag = "13")]
    is_grouped: bool,
}

/// Among the required columns of a partial update that has rows which delete: an older version
/// would not delete where it is large, and refuses the column.
const DELETES: u32 = u32::MAX;

#[derive(Clone, PartialEq, Message)]
pub struct PartialForm {
    #[prost(bool, repeated, tag = "1")]
    given: Vec<bool>,
    #[prost(uint32, repeated, tag = "2")]
    required: Vec<u32>,
    #[prost(bool, tag = "3")]
    is_flexible: bool,
    #[prost(bool, tag = "4")]
    refuses_new: bool,
}

impl PartialForm {
    fn of(partial: &NotedPartial) -> Self {
        let NotedPartial { given, mut required, is_flexible, refuses_new, deletes } =
            partial.clone();
        required.extend(deletes.then_some(DELETES));
        Self { given, required, is_flexible, refuses_new }
    }

    fn read(self) -> Result<NotedPartial, Unreadable> {
        let Self { given, mut required, is_flexible, refuses_new } = self;
        let deletes = required.pop_if(|last| *last == DELETES).is_some();
        let are_there = required.iter().all(|at| (*at as usize) < given.len());
        ensure(are_there, "a partial update requires columns that there are not")?;
        ensure(!deletes || is_flexible, "rows delete that do not say so")?;
        Ok(NotedPartial { given, required, is_flexible, refuses_new, deletes })
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct NotedForm {
    #[prost(uint64, tag = "1")]
    bytes: u64,
    #[prost(uint32, tag = "2")]
    checksum: u32,
}

impl OnDisk for PreparedNote {
    type Form = PreparedForm;

    fn form(&self) -> PreparedForm {
        PreparedForm {
            txn: self.txn.get(),
            db: self.db.get(),
            label: self.label.clone(),
            table: self.table.get(),
            incarnation: self.incarnation.get(),
            schema_version: self.schema_version.get(),
            rows: self.rows,
            rowsets: forms(&self.rowsets),
            highest_id: self.highest_id,
            expires_micros: self.expires_micros,
            noted: self.noted.map(|NotedRows { bytes, checksum }| NotedForm { bytes, checksum }),
            partial: self.partial.as_ref().map(PartialForm::of),
            is_grouped: self.is_grouped,
        }
    }

    fn from_form(form: PreparedForm) -> Result<Self, Unreadable> {
        let rowsets = from_forms::<crate::RowsetMeta>(form.rowsets)?;
        let in_files = rowsets.iter().try_fold(0u64, |sum, rowset| sum.checked_add(rowset.rows));
        let expected = if form.noted.is_some() { 0 } else { form.rows.into() };
        ensure(in_files == Some(expected), "its rows are not those of its files")?;
        let is_behind = form.partial.is_none() || form.noted.is_some();
        ensure(is_behind, "rows of a partial update are not behind its note")?;
        Ok(Self {
            txn: TxnId(form.txn),
            db: DbId(form.db),
            label: form.label,
            table: TableId(form.table),
            incarnation: Incarnation(form.incarnation),
            schema_version: SchemaVersion(form.schema_version),
            rows: form.rows,
            rowsets,
            highest_id: form.highest_id,
            expires_micros: form.expires_micros,
            noted: form.noted.map(|NotedForm { bytes, checksum }| NotedRows { bytes, checksum }),
            partial: form.partial.map(PartialForm::read).transpose()?,
            is_grouped: form.is_grouped,
        })
    }
}
