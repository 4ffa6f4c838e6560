//! Metadata records of the log.

use std::sync::Arc;

use freshet_base::{
    DbId, Incarnation, Lsn, PartitionId, RowsetId, SchemaVersion, TableId, TabletId, Version,
};
use freshet_schema::{Collation, Properties, Sequence, Table, TableSchema};
use prost::{Message, Oneof};

use super::foreign::ForeignKeyForm;
use super::partition::{PartitionsForm, from_partitions_form, partitions_form};
use super::policy::PolicyForm;
use super::rowset::{MarkFileForm, RowsetForm};
use super::sequence::SequenceForm;
use super::table::{DeclaredKeyForm, PropertiesForm, SchemaForm, TableForm};
use super::term::{ReserveForm, TermForm};
use super::{OnDisk, Unreadable, ensure, forms, from_forms, required};
use crate::fold::{Definition, Divide, MetaEvent, Moved, NewMarks, Publish, Replacement, Truncate};
use crate::foreign::ForeignChange;
use crate::ids::IdEnds;
use crate::rowset::{MarkFileMeta, RowsetMeta};
use crate::term::TermRecord;

#[derive(Clone, PartialEq, Message)]
pub struct EventForm {
    #[prost(oneof = "EventKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 21, 31, 32, 33, 34")]
    kind: Option<EventKind>,
}

// A form lives while one record is written or read.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, Oneof)]
pub enum EventKind {
    #[prost(message, tag = "1")]
    Publish(PublishForm),
    #[prost(message, tag = "2")]
    Replace(ReplacementForm),
    #[prost(message, tag = "3")]
    Create(TableForm),
    #[prost(message, tag = "4")]
    Define(DefineForm),
    #[prost(message, tag = "5")]
    Truncate(TruncatesForm),
    #[prost(message, tag = "6")]
    Drop(DropForm),
    #[prost(uint64, tag = "7")]
    DropDatabase(u64),
    #[prost(message, tag = "8")]
    Reserve(ReserveForm),
    #[prost(message, tag = "9")]
    Term(TermForm),
    #[prost(message, tag = "10")]
    Counter(CounterForm),
    #[prost(message, tag = "20")]
    Rename(RenamesForm),
    #[prost(message, tag = "31")]
    Divide(DividesForm),
    #[prost(message, tag = "32")]
    BinDatabase(BinDatabaseForm),
    #[prost(message, tag = "33")]
    RecoverDatabase(RecoverDatabaseForm),
    #[prost(message, tag = "21")]
    Exchange(ExchangeForm),
    // A tag of its own, since who ignored the database would rename in place.
    #[prost(message, tag = "34")]
    Move(MovesForm),
}

#[derive(Clone, PartialEq, Message)]
pub struct BinDatabaseForm {
    #[prost(uint64, tag = "1")]
    database: u64,
    #[prost(int64, tag = "2")]
    at_micros: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RecoverDatabaseForm {
    #[prost(uint64, tag = "1")]
    database: u64,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct DividesForm {
    #[prost(message, repeated, tag = "1")]
    tables: Vec<DivideForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DivideForm {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(message, optional, tag = "2")]
    partitions: Option<PartitionsForm>,
    #[prost(int64, optional, tag = "3")]
    rests_micros: Option<i64>,
    #[prost(uint64, repeated, tag = "4")]
    forgotten: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ExchangeForm {
    #[prost(uint64, tag = "1")]
    old: u64,
    #[prost(uint64, tag = "2")]
    new: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RenamesForm {
    #[prost(message, repeated, tag = "1")]
    tables: Vec<RenameForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RenameForm {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct MovesForm {
    #[prost(message, repeated, tag = "1")]
    tables: Vec<MoveForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MoveForm {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(uint64, tag = "2")]
    database: u64,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct CounterForm {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(uint64, tag = "2")]
    end: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct DefineForm {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(oneof = "ChangeForm", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14")]
    change: Option<ChangeForm>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum ChangeForm {
    #[prost(string, tag = "2")]
    Name(String),
    #[prost(bool, tag = "3")]
    Listed(bool),
    #[prost(message, tag = "4")]
    Properties(PropertiesForm),
    #[prost(message, tag = "5")]
    Schema(SchemaForm),
    #[prost(message, tag = "6")]
    Sequence(SequenceForm),
    #[prost(message, tag = "7")]
    Keys(KeysForm),
    #[prost(message, tag = "8")]
    Partitions(PartitionsForm),
    #[prost(int64, tag = "9")]
    Dropped(i64),
    #[prost(string, tag = "10")]
    Recovered(String),
    #[prost(message, tag = "11")]
    Policies(PoliciesForm),
    #[prost(string, tag = "12")]
    Comment(String),
    #[prost(uint32, tag = "13")]
    Collation(u32),
    #[prost(message, tag = "14")]
    Buckets(BucketsForm),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct BucketsForm {
    #[prost(uint32, tag = "1")]
    count: u32,
    #[prost(bool, tag = "2")]
    auto: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PoliciesForm {
    #[prost(message, repeated, tag = "1")]
    policies: Vec<PolicyForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeysForm {
    #[prost(message, repeated, tag = "1")]
    keys: Vec<DeclaredKeyForm>,
    #[prost(message, repeated, tag = "2")]
    added: Vec<ForeignKeyForm>,
    #[prost(string, repeated, tag = "3")]
    dropped: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TruncatesForm {
    #[prost(message, repeated, tag = "1")]
    tables: Vec<TruncateForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TruncateForm {
    #[prost(uint64, tag = "1")]
    table: u64,
    #[prost(uint64, tag = "2")]
    version: u64,
    #[prost(uint32, tag = "3")]
    incarnation: u32,
    #[prost(uint64, repeated, tag = "4")]
    tablets: Vec<u64>,
    #[prost(bool, tag = "5")]
    keeps_counter: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct DropForm {
    #[prost(uint64, repeated, tag = "1")]
    tables: Vec<u64>,
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
    #[prost(message, optional, tag = "7")]
    marks: Option<MarkFileForm>,
    #[prost(bool, tag = "8")]
    marks_are_whole: bool,
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
    #[prost(message, optional, tag = "4")]
    marks: Option<MarkFileForm>,
}

impl OnDisk for MetaEvent {
    type Form = EventForm;

    fn form(&self) -> EventForm {
        let kind = match self {
            Self::Publish(publish) => EventKind::Publish(publish.form()),
            Self::Replace(replacement) => EventKind::Replace(replacement.form()),
            Self::Create(table) => EventKind::Create(table.form()),
            Self::Define { table, change } => {
                EventKind::Define(DefineForm { table: table.get(), change: Some(change.form()) })
            }
            Self::Rename(tables) => {
                let form = |(id, name): &(TableId, String)| RenameForm {
                    table: id.get(),
                    name: name.clone(),
                };
                EventKind::Rename(RenamesForm { tables: tables.iter().map(form).collect() })
            }
            Self::Move(tables) => {
                let form = |moved: &Moved| MoveForm {
                    table: moved.table.get(),
                    database: moved.database.get(),
                    name: moved.name.clone(),
                };
                EventKind::Move(MovesForm { tables: tables.iter().map(form).collect() })
            }
            Self::Divide(tables) => {
                let form = |change: &Divide| DivideForm {
                    table: change.table.get(),
                    partitions: Some(partitions_form(&change.partitions)),
                    rests_micros: change.rests_micros,
                    forgotten: change.forgotten.iter().map(|id| id.get()).collect(),
                };
                EventKind::Divide(DividesForm { tables: tables.iter().map(form).collect() })
            }
            Self::Exchange { old, new } => {
                EventKind::Exchange(ExchangeForm { old: old.get(), new: new.get() })
            }
            Self::Truncate(tables) => EventKind::Truncate(TruncatesForm { tables: forms(tables) }),
            Self::Drop(tables) => {
                EventKind::Drop(DropForm { tables: tables.iter().map(|id| id.get()).collect() })
            }
            Self::DropDatabase(id) => EventKind::DropDatabase(id.get()),
            Self::BinDatabase { database, at_micros } => EventKind::BinDatabase(BinDatabaseForm {
                database: database.get(),
                at_micros: *at_micros,
            }),
            Self::RecoverDatabase { database, name } => {
                let (database, name) = (database.get(), name.clone());
                EventKind::RecoverDatabase(RecoverDatabaseForm { database, name })
            }
            Self::Reserve(ends) => EventKind::Reserve(ends.form()),
            Self::Term(term) => EventKind::Term(term.form()),
            Self::Counter { table, end } => {
                EventKind::Counter(CounterForm { table: table.get(), end: *end })
            }
        };
        EventForm { kind: Some(kind) }
    }

    fn from_form(form: EventForm) -> Result<Self, Unreadable> {
        match form.kind {
            Some(EventKind::Publish(form)) => Publish::from_form(form).map(Self::Publish),
            Some(EventKind::Replace(form)) => Replacement::from_form(form).map(Self::Replace),
            Some(EventKind::Create(form)) => Table::from_form(form).map(Arc::new).map(Self::Create),
            Some(EventKind::Define(form)) => {
                let change = required::<Definition>(form.change, "change")?;
                Ok(Self::Define { table: TableId(form.table), change })
            }
            Some(EventKind::Rename(form)) => {
                let pair = |form: RenameForm| (TableId(form.table), form.name);
                Ok(Self::Rename(form.tables.into_iter().map(pair).collect()))
            }
            Some(EventKind::Move(form)) => {
                let moved = |form: MoveForm| Moved {
                    table: TableId(form.table),
                    database: DbId(form.database),
                    name: form.name,
                };
                Ok(Self::Move(form.tables.into_iter().map(moved).collect()))
            }
            Some(EventKind::Divide(form)) => {
                let change = |form: DivideForm| {
                    let partitions = from_partitions_form(form.partitions.unwrap_or_default())?;
                    Ok(Divide {
                        table: TableId(form.table),
                        partitions,
                        rests_micros: form.rests_micros,
                        forgotten: form.forgotten.into_iter().map(PartitionId).collect(),
                    })
                };
                form.tables.into_iter().map(change).collect::<Result<_, _>>().map(Self::Divide)
            }
            Some(EventKind::Exchange(ExchangeForm { old, new })) => {
                Ok(Self::Exchange { old: TableId(old), new: TableId(new) })
            }
            Some(EventKind::Truncate(form)) => from_forms(form.tables).map(Self::Truncate),
            Some(EventKind::Drop(form)) => {
                Ok(Self::Drop(form.tables.into_iter().map(TableId).collect()))
            }
            Some(EventKind::DropDatabase(id)) => Ok(Self::DropDatabase(DbId(id))),
            Some(EventKind::BinDatabase(BinDatabaseForm { database, at_micros })) => {
                Ok(Self::BinDatabase { database: DbId(database), at_micros })
            }
            Some(EventKind::RecoverDatabase(RecoverDatabaseForm { database, name })) => {
                Ok(Self::RecoverDatabase { database: DbId(database), name })
            }
            Some(EventKind::Reserve(form)) => IdEnds::from_form(form).map(Self::Reserve),
            Some(EventKind::Term(form)) => TermRecord::from_form(form).map(Self::Term),
            Some(EventKind::Counter(CounterForm { table, end })) => {
                Ok(Self::Counter { table: TableId(table), end })
            }
            None => Err(Unreadable("its kind is missing".to_owned())),
        }
    }
}

impl OnDisk for Definition {
    type Form = ChangeForm;

    fn form(&self) -> ChangeForm {
        match self {
            Self::Name(name) => ChangeForm::Name(name.clone()),
            Self::Listed => ChangeForm::Listed(true),
            Self::Dropped { at_micros } => ChangeForm::Dropped(*at_micros),
            Self::Recovered(name) => ChangeForm::Recovered(name.clone()),
            Self::Properties(properties) => ChangeForm::Properties(properties.form()),
            Self::Comment(comment) => ChangeForm::Comment(comment.clone()),
            Self::Collation(collation) => ChangeForm::Collation(collation.form()),
            Self::Buckets { count, auto } => {
                ChangeForm::Buckets(BucketsForm { count: *count, auto: *auto })
            }
            Self::Schema(schema) => ChangeForm::Schema(schema.form()),
            Self::Sequence(sequence) => ChangeForm::Sequence(sequence.form()),
            Self::Keys(keys, ForeignChange { dropped, added }) => ChangeForm::Keys(KeysForm {
                keys: forms(keys),
                added: forms(added),
                dropped: dropped.clone(),
            }),
            Self::Partitions(partitions) => ChangeForm::Partitions(partitions_form(partitions)),
            Self::Policies(policies) => {
                ChangeForm::Policies(PoliciesForm { policies: forms(policies) })
            }
        }
    }

    fn from_form(form: ChangeForm) -> Result<Self, Unreadable> {
        match form {
            ChangeForm::Name(name) => Ok(Self::Name(name)),
            ChangeForm::Listed(listed) => {
                ensure(listed, "a table is never taken out of the list")?;
                Ok(Self::Listed)
            }
            ChangeForm::Dropped(at_micros) => Ok(Self::Dropped { at_micros }),
            ChangeForm::Recovered(name) => Ok(Self::Recovered(name)),
            ChangeForm::Properties(form) => Properties::from_form(form).map(Self::Properties),
            ChangeForm::Comment(comment) => Ok(Self::Comment(comment)),
            ChangeForm::Collation(form) => Collation::from_form(form).map(Self::Collation),
            ChangeForm::Buckets(BucketsForm { count, auto }) => {
                ensure(count > 0, "a partition has a bucket")?;
                Ok(Self::Buckets { count, auto })
            }
            ChangeForm::Schema(form) => {
                TableSchema::from_form(form).map(Arc::new).map(Self::Schema)
            }
            ChangeForm::Sequence(form) => Sequence::from_form(form).map(Self::Sequence),
            ChangeForm::Keys(form) => {
                let foreign =
                    ForeignChange { dropped: form.dropped, added: from_forms(form.added)? };
                Ok(Self::Keys(from_forms(form.keys)?, foreign))
            }
            ChangeForm::Partitions(form) => from_partitions_form(form).map(Self::Partitions),
            ChangeForm::Policies(form) => from_forms(form.policies).map(Self::Policies),
        }
    }
}

impl OnDisk for Truncate {
    type Form = TruncateForm;

    fn form(&self) -> TruncateForm {
        TruncateForm {
            table: self.table.get(),
            version: self.version.get(),
            incarnation: self.incarnation.get(),
            tablets: self.tablets.iter().map(|tablet| tablet.get()).collect(),
            keeps_counter: self.keeps_counter,
        }
    }

    fn from_form(form: TruncateForm) -> Result<Self, Unreadable> {
        Ok(Self {
            table: TableId(form.table),
            version: Version(form.version),
            incarnation: Incarnation(form.incarnation),
            tablets: form.tablets.into_iter().map(TabletId).collect(),
            keeps_counter: form.keeps_counter,
        })
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
            marks: self.marks.map(|marks| marks.file.form()),
            marks_are_whole: self.marks.is_some_and(|marks| marks.is_whole),
        }
    }

    fn from_form(form: PublishForm) -> Result<Self, Unreadable> {
        let (from, to) = (Lsn(form.from), Lsn(form.to));
        let rowsets = from_forms::<RowsetMeta>(form.rowsets)?;
        let lies_within = |rowset: &RowsetMeta| from < rowset.lsn_first && rowset.lsn_last <= to;
        let holds = from <= to && rowsets.iter().all(lies_within);
        ensure(holds, "rowsets of a flush lie outside of its range")?;
        let file = form.marks.map(MarkFileMeta::from_form).transpose()?;
        ensure(file.is_none_or(|file| file.lsns.1 == to), "marks of a flush end elsewhere")?;
        let marks = file.map(|file| NewMarks { file, is_whole: form.marks_are_whole });
        Ok(Self {
            table: TableId(form.table),
            from,
            to,
            version: Version(form.version),
            schema_version: SchemaVersion(form.schema_version),
            rowsets,
            marks,
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
            marks: self.marks.map(|marks| marks.form()),
        }
    }

    fn from_form(form: ReplacementForm) -> Result<Self, Unreadable> {
        let added = required::<RowsetMeta>(form.added, "new rowset")?;
        let removed = form.removed.into_iter().map(RowsetId).collect::<Vec<_>>();
        let holds = !removed.is_empty() && !removed.contains(&added.id);
        ensure(holds, "a merge has no inputs, or writes one of them")?;
        let marks = form.marks.map(MarkFileMeta::from_form).transpose()?;
        Ok(Self { table: TableId(form.table), tablet: added.tablet, removed, added, marks })
    }
}
