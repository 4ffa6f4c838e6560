//! Databases and labels.

use freshet_base::{DbId, Lsn, TxnId};
use freshet_schema::Collation;
use imbl::OrdMap;
use prost::Message;

use super::{OnDisk, Unreadable, numbered};
use crate::catalog::{Database, DatabaseMode};
use crate::label::{LabelKind, LabelRecord};

#[derive(Clone, PartialEq, Message)]
pub struct DatabaseForm {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(int64, tag = "3")]
    created_micros: i64,
    /// 0 if it has none.
    #[prost(uint32, tag = "4")]
    mode: u32,
    /// 0 in databases that are older than collations.
    #[prost(uint32, tag = "5")]
    collation: u32,
    #[prost(int64, optional, tag = "6")]
    dropped_micros: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LabelForm {
    #[prost(uint64, tag = "1")]
    db: u64,
    #[prost(string, tag = "2")]
    label: String,
    #[prost(uint64, tag = "3")]
    txn: u64,
    #[prost(uint64, tag = "4")]
    lsn: u64,
    #[prost(int64, tag = "5")]
    finished_micros: i64,
    #[prost(int64, tag = "6")]
    expires_micros: i64,
    /// 0 of a statement, and in labels that are older than this field.
    #[prost(uint32, tag = "7")]
    kind: u32,
}

numbered!(DatabaseMode { Auto = 1, Drds = 2 });

/// Without its tables, which have forms of their own.
impl OnDisk for Database {
    type Form = DatabaseForm;

    fn form(&self) -> DatabaseForm {
        let Self { id, ref name, created_micros, mode, collation, dropped_micros, .. } = *self;
        let mode = mode.map_or(0, |mode| mode.form());
        let collation = collation.map_or(0, |collation| collation.form());
        let (id, name) = (id.get(), name.clone());
        DatabaseForm { id, name, created_micros, mode, collation, dropped_micros }
    }

    fn from_form(form: DatabaseForm) -> Result<Self, Unreadable> {
        let DatabaseForm { id, name, created_micros, mode, collation, dropped_micros } = form;
        let mode = (mode != 0).then(|| DatabaseMode::from_form(mode)).transpose()?;
        let collation = (collation != 0).then(|| Collation::from_form(collation)).transpose()?;
        Ok(Self {
            id: DbId(id),
            name,
            created_micros,
            mode,
            collation,
            dropped_micros,
            tables: OrdMap::new(),
            sequences: OrdMap::new(),
        })
    }
}

impl OnDisk for LabelRecord {
    type Form = LabelForm;

    fn form(&self) -> LabelForm {
        LabelForm {
            db: self.db.get(),
            label: self.label.clone(),
            txn: self.txn.get(),
            lsn: self.lsn.get(),
            finished_micros: self.finished_micros,
            expires_micros: self.expires_micros,
            kind: match self.kind {
                LabelKind::Statement => 0,
                LabelKind::Streaming => 1,
            },
        }
    }

    fn from_form(form: LabelForm) -> Result<Self, Unreadable> {
        Ok(Self {
            db: DbId(form.db),
            label: form.label,
            txn: TxnId(form.txn),
            lsn: Lsn(form.lsn),
            finished_micros: form.finished_micros,
            expires_micros: form.expires_micros,
            kind: match form.kind {
                0 => LabelKind::Statement,
                1 => LabelKind::Streaming,
                other => return Err(Unreadable(format!("{other} is no kind of a label"))),
            },
        })
    }
}
