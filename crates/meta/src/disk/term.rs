//! The first record of a term, and what it reserves.

use std::time::Duration;

use freshet_base::{TableId, TxnId, Version};
use prost::Message;

use super::{OnDisk, Unreadable, ensure, forms, from_forms, required};
use crate::ids::{IdEnds, IdKind};
use crate::label::LabelLimits;
use crate::term::{LeftOpen, TermRecord};

/// The end of the reserved ids of each kind.
#[derive(Clone, PartialEq, Message)]
pub struct ReserveForm {
    #[prost(uint64, tag = "1")]
    database: u64,
    #[prost(uint64, tag = "2")]
    table: u64,
    #[prost(uint64, tag = "3")]
    partition: u64,
    #[prost(uint64, tag = "4")]
    tablet: u64,
    #[prost(uint64, tag = "5")]
    rowset: u64,
    #[prost(uint64, tag = "6")]
    txn: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct TermForm {
    #[prost(message, repeated, tag = "1")]
    ended: Vec<LeftOpenForm>,
    #[prost(message, optional, tag = "2")]
    ids: Option<ReserveForm>,
    #[prost(message, optional, tag = "3")]
    labels: Option<LimitsForm>,
    #[prost(bool, tag = "4")]
    more: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct LeftOpenForm {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(uint64, tag = "2")]
    txn: u64,
    #[prost(uint64, tag = "3")]
    version: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct LimitsForm {
    #[prost(uint64, tag = "1")]
    keep_micros: u64,
    #[prost(uint64, tag = "2")]
    keep_streaming_micros: u64,
    #[prost(uint64, tag = "3")]
    finished_max: u64,
    #[prost(uint64, tag = "4")]
    running_max: u64,
}

impl OnDisk for IdEnds {
    type Form = ReserveForm;

    fn form(&self) -> ReserveForm {
        ReserveForm {
            database: self.of(IdKind::Database),
            table: self.of(IdKind::Table),
            partition: self.of(IdKind::Partition),
            tablet: self.of(IdKind::Tablet),
            rowset: self.of(IdKind::Rowset),
            txn: self.of(IdKind::Txn),
        }
    }

    fn from_form(form: ReserveForm) -> Result<Self, Unreadable> {
        let ReserveForm { database, table, partition, tablet, rowset, txn } = form;
        Ok(Self::default()
            .with(IdKind::Database, database)
            .with(IdKind::Table, table)
            .with(IdKind::Partition, partition)
            .with(IdKind::Tablet, tablet)
            .with(IdKind::Rowset, rowset)
            .with(IdKind::Txn, txn))
    }
}

impl OnDisk for TermRecord {
    type Form = TermForm;

    fn form(&self) -> TermForm {
        TermForm {
            ended: forms(&self.ended),
            ids: Some(self.ids.form()),
            labels: Some(self.labels.form()),
            more: self.more,
        }
    }

    fn from_form(form: TermForm) -> Result<Self, Unreadable> {
        let ended = from_forms::<LeftOpen>(form.ended)?;
        let rise = ended.is_sorted_by(|a, b| a.table < b.table);
        ensure(rise, "tables of groups that it ends do not rise")?;
        let ids = required::<IdEnds>(form.ids, "reservation of ids")?;
        let labels = required(form.labels, "label limits")?;
        Ok(Self { ended, more: form.more, ids, labels })
    }
}

impl OnDisk for LeftOpen {
    type Form = LeftOpenForm;

    fn form(&self) -> LeftOpenForm {
        let Self { table, txn, version } = *self;
        LeftOpenForm { table: table.get(), txn: txn.get(), version: version.get() }
    }

    fn from_form(LeftOpenForm { table, txn, version }: LeftOpenForm) -> Result<Self, Unreadable> {
        Ok(Self { table: TableId(table), txn: TxnId(txn), version: Version(version) })
    }
}

impl OnDisk for LabelLimits {
    type Form = LimitsForm;

    fn form(&self) -> LimitsForm {
        // More than the clock of the log can count is for ever.
        let micros = |keep: Duration| u64::try_from(keep.as_micros()).unwrap_or(u64::MAX);
        LimitsForm {
            keep_micros: micros(self.keep),
            keep_streaming_micros: micros(self.keep_streaming),
            finished_max: self.finished_max as u64,
            running_max: self.running_max as u64,
        }
    }

    fn from_form(form: LimitsForm) -> Result<Self, Unreadable> {
        let count = |count: u64| {
            usize::try_from(count).map_err(|_| Unreadable(format!("{count} labels are too many")))
        };
        Ok(Self {
            keep: Duration::from_micros(form.keep_micros),
            keep_streaming: Duration::from_micros(form.keep_streaming_micros),
            finished_max: count(form.finished_max)?,
            running_max: count(form.running_max)?,
        })
    }
}
