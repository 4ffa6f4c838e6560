//! Metadata records of the log.

use freshet_base::{Lsn, RowsetId, SchemaVersion, TableId, Version};
use prost::{Message, Oneof};

use super::rowset::RowsetForm;
use super::{OnDisk, Unreadable, ensure, forms, from_forms, required};
use crate::fold::{MetaEvent, Publish, Replacement};
use crate::rowset::RowsetMeta;

#[derive(Clone, PartialEq, Message)]
pub struct EventForm {
    #[prost(oneof = "EventKind", tags = "1, 2")]
    kind: Option<EventKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum EventKind {
    #[prost(message, tag = "1")]
    Publish(PublishForm),
    #[prost(message, tag = "2")]
    Replace(ReplacementForm),
}

#[derive(Clone, PartialEq, Message)]
pub struct PublishForm {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(uint64, tag = "2")]
    from: u64,
    #[prost(uint64, tag = "3")]
    to: u64,
    #[prost(uint64, tag = "4")]
    version: u64,
    #[prost(uint32, tag = "5")]
    schema_version: u32,
    #[prost(message, repeated, tag = "6")]
    rowsets: Vec<RowsetForm>,
}

/// Its tablet is that of the new rowset.
#[derive(Clone, PartialEq, Message)]
pub struct ReplacementForm {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(uint64, repeated, tag = "2")]
    removed: Vec<u64>,
    #[prost(message, optional, tag = "3")]
    added: Option<RowsetForm>,
}

impl OnDisk for MetaEvent {
    type Form = EventForm;

    fn form(&self) -> EventForm {
        let kind = match self {
            Self::Publish(publish) => EventKind::Publish(publish.form()),
            Self::Replace(replacement) => EventKind::Replace(replacement.form()),
        };
        EventForm { kind: Some(kind) }
    }

    fn from_form(form: EventForm) -> Result<Self, Unreadable> {
        match form.kind {
            Some(EventKind::Publish(form)) => Publish::from_form(form).map(Self::Publish),
            Some(EventKind::Replace(form)) => Replacement::from_form(form).map(Self::Replace),
            None => Err(Unreadable("its kind is missing".to_owned())),
        }
    }
}

impl OnDisk for Publish {
    type Form = PublishForm;

    fn form(&self) -> PublishForm {
        PublishForm {
            table: self.table.get(),
            from: self.from.get(),
            to: self.to.get(),
            version: self.version.get(),
            schema_version: self.schema_version.get(),
            rowsets: forms(&self.rowsets),
        }
    }

    fn from_form(form: PublishForm) -> Result<Self, Unreadable> {
        let (from, to) = (Lsn(form.from), Lsn(form.to));
        let rowsets = from_forms::<RowsetMeta>(form.rowsets)?;
        let lies_within = |rowset: &RowsetMeta| from < rowset.lsn_first && rowset.lsn_last <= to;
        let holds = from <= to && rowsets.iter().all(lies_within);
        ensure(holds, "rowsets of a flush lie outside of its range")?;
        Ok(Self {
            table: TableId(form.table),
            from,
            to,
            version: Version(form.version),
            schema_version: SchemaVersion(form.schema_version),
            rowsets,
        })
    }
}

impl OnDisk for Replacement {
    type Form = ReplacementForm;

    fn form(&self) -> ReplacementForm {
        assert_eq!(self.tablet, self.added.tablet, "a merge stays in its tablet");
        ReplacementForm {
            table: self.table.get(),
            removed: self.removed.iter().map(|rowset| rowset.get()).collect(),
            added: Some(self.added.form()),
        }
    }

    fn from_form(form: ReplacementForm) -> Result<Self, Unreadable> {
        let added = required::<RowsetMeta>(form.added, "new rowset")?;
        let removed = form.removed.into_iter().map(RowsetId).collect::<Vec<_>>();
        let holds = !removed.is_empty() && !removed.contains(&added.id);
        ensure(holds, "a merge has no inputs, or writes one of them")?;
        Ok(Self { table: TableId(form.table), tablet: added.tablet, removed, added })
    }
}
