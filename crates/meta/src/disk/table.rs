//! Tables and their schemas.

use std::sync::Arc;

use freshet_base::{ColumnId, DbId, SchemaVersion, TableId};
use freshet_schema::{
    Check, Collation, Column, DELETE_SIGN, DeclaredKey, DeclaredKeyKind, Distribution, GlobalIndex,
    GroupCommitMode, KeyForm, KeyModel, Partition, PartitionBy, PartitionExpr, Placement,
    Properties, ROW_ID, SchemaHistory, Sequence, Table, TableForm as Dialect, TableSchema,
    TimePart,
};
use prost::{Message, Oneof};

use super::column::ColumnForm;
use super::foreign::ForeignKeyForm;
use super::partition::{ExprForm, PartitionByForm, PartitionForm, check_partitions};
use super::policy::PolicyForm;
use super::sequence::SequenceForm;
use super::{OnDisk, Unreadable, ensure, forms, from_forms, numbered, required};
use crate::create::by_bytes;

#[derive(Clone, PartialEq, Message)]
pub struct TableForm {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    db: u64,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(uint32, tag = "4")]
    dialect: u32,
    #[prost(uint32, tag = "5")]
    key_model: u32,
    #[prost(uint32, tag = "6")]
    key_columns: u32,
    #[prost(message, repeated, tag = "7")]
    declared_keys: Vec<DeclaredKeyForm>,
    #[prost(message, repeated, tag = "8")]
    history: Vec<SchemaForm>,
    #[prost(uint32, tag = "9")]
    next_column: u32,
    #[prost(message, repeated, tag = "10")]
    partitions: Vec<PartitionForm>,
    #[prost(oneof = "DistributionForm", tags = "11, 12, 27, 28")]
    distribution: Option<DistributionForm>,
    #[prost(bool, tag = "13")]
    buckets_auto: bool,
    #[prost(message, optional, tag = "14")]
    properties: Option<PropertiesForm>,
    #[prost(string, tag = "15")]
    comment: String,
    #[prost(int64, tag = "16")]
    created_micros: i64,
    #[prost(bool, tag = "17")]
    unlisted: bool,
    #[prost(message, optional, tag = "18")]
    placement: Option<PlacementForm>,
    #[prost(message, optional, tag = "19")]
    sequence: Option<SequenceForm>,
    #[prost(message, optional, tag = "20")]
    partition_by: Option<PartitionByForm>,
    /// 0 in tables that are older than collations, which compare by bytes.
    #[prost(uint32, tag = "21")]
    collation: u32,
    #[prost(int64, optional, tag = "23")]
    dropped_micros: Option<i64>,
    #[prost(message, repeated, tag = "24")]
    policies: Vec<PolicyForm>,
    #[prost(uint64, optional, tag = "25")]
    temporary_of: Option<u64>,
    /// If they are others than those of the first partition.
    #[prost(uint32, optional, tag = "26")]
    buckets: Option<u32>,
    #[prost(message, repeated, tag = "29")]
    foreign_keys: Vec<ForeignKeyForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PlacementForm {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(uint32, repeated, tag = "2")]
    columns: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchemaForm {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(message, repeated, tag = "2")]
    columns: Vec<ColumnForm>,
    #[prost(uint32, repeated, tag = "3")]
    sort_key: Vec<u32>,
    #[prost(message, repeated, tag = "4")]
    checks: Vec<CheckForm>,
    #[prost(uint32, optional, tag = "5")]
    sequence: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CheckForm {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    text: String,
    #[prost(uint32, repeated, tag = "3")]
    columns: Vec<u32>,
    #[prost(bool, tag = "4")]
    is_enforced: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeclaredKeyForm {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint32, repeated, tag = "3")]
    columns: Vec<u32>,
    #[prost(message, optional, tag = "4")]
    global: Option<GlobalIndexForm>,
    #[prost(string, tag = "5")]
    comment: String,
    #[prost(bool, tag = "6")]
    is_btree: bool,
    #[prost(uint32, repeated, tag = "7")]
    descending: Vec<u32>,
    #[prost(uint32, repeated, tag = "8")]
    first_of: Vec<u32>,
    #[prost(uint32, repeated, tag = "9")]
    first: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GlobalIndexForm {
    #[prost(bool, tag = "1")]
    clustered: bool,
    #[prost(uint32, repeated, tag = "2")]
    covering: Vec<u32>,
    #[prost(message, optional, tag = "3")]
    placement: Option<PlacementForm>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum DistributionForm {
    #[prost(message, tag = "11")]
    Hash(HashForm),
    #[prost(message, tag = "12")]
    Random(()),
    #[prost(message, tag = "27")]
    Parts(PartsForm),
    #[prost(message, tag = "28")]
    Computed(Box<ExprForm>),
}

/// Of each column its part, or 0 for the column itself.
#[derive(Clone, PartialEq, Message)]
pub struct PartsForm {
    #[prost(uint32, repeated, tag = "1")]
    columns: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    parts: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct HashForm {
    #[prost(uint32, repeated, tag = "1")]
    columns: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PropertiesForm {
    #[prost(uint64, tag = "1")]
    group_commit_interval_ms: u64,
    #[prost(uint64, tag = "2")]
    group_commit_data_bytes: u64,
    #[prost(uint32, tag = "3")]
    group_commit_mode: u32,
    #[prost(uint32, tag = "4")]
    replication_num: u32,
    #[prost(message, repeated, tag = "5")]
    others: Vec<PropertyForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PropertyForm {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

numbered!(Dialect { Olap = 1, MySql = 2 });
numbered!(TimePart {
    Year = 1,
    Quarter = 2,
    Month = 3,
    YearMonth = 4,
    YearWeek = 5,
    YearDay = 6,
    MonthDay = 7,
    Day = 8,
    Weekday = 9,
    Second = 10,
});
numbered!(KeyModel { Duplicate = 1, Unique = 2, Primary = 3, Aggregate = 4 });
// Number 2 is older than enforcement: what wrote it let rows have equal keys.
numbered!(DeclaredKeyKind {
    Primary = 1,
    UniqueHint = 2,
    Index = 3,
    Unique = 4,
    InvisibleIndex = 5
});
numbered!(GroupCommitMode { Off = 1, Sync = 2, Async = 3 });

impl OnDisk for Table {
    type Form = TableForm;

    fn form(&self) -> TableForm {
        TableForm {
            id: self.id.get(),
            db: self.db.get(),
            name: self.name.clone(),
            dialect: self.form.form(),
            collation: match self.collation == by_bytes(self.form) {
                true => 0,
                false => self.collation.form(),
            },
            key_model: self.key_model.form(),
            key_columns: number_of(self.key_columns),
            declared_keys: forms(&self.declared_keys),
            history: self.history.versions().iter().map(|schema| schema.form()).collect(),
            next_column: self.next_column.get(),
            partitions: forms(&self.partitions),
            distribution: Some(self.distribution.form()),
            buckets_auto: self.buckets_auto,
            properties: Some(self.properties.form()),
            comment: self.comment.clone(),
            created_micros: self.created_micros,
            unlisted: self.unlisted,
            dropped_micros: self.dropped_micros,
            temporary_of: self.temporary_of.map(TableId::get),
            buckets: Some(self.buckets).filter(|count| *count != first_buckets(&self.partitions)),
            placement: self.placement.as_ref().map(Placement::form),
            sequence: self.sequence.as_ref().map(Sequence::form),
            partition_by: self.partition_by.as_ref().map(PartitionBy::form),
            policies: forms(&self.policies),
            foreign_keys: forms(&self.foreign_keys),
        }
    }

    fn from_form(form: TableForm) -> Result<Self, Unreadable> {
        let history =
            form.history.into_iter().map(|form| TableSchema::from_form(form).map(Arc::new));
        let history = SchemaHistory::of(history.collect::<Result<_, _>>()?)
            .ok_or_else(|| Unreadable("its schema versions do not rise by one".to_owned()))?;
        let dialect = Dialect::from_form(form.dialect)?;
        let partitions = from_forms(form.partitions)?;
        let table = Self {
            id: TableId(form.id),
            db: DbId(form.db),
            name: form.name,
            form: dialect,
            collation: match form.collation {
                0 => by_bytes(dialect),
                number => Collation::from_form(number)?,
            },
            key_model: KeyModel::from_form(form.key_model)?,
            key_columns: form.key_columns as usize,
            declared_keys: from_forms(form.declared_keys)?,
            history,
            next_column: ColumnId(form.next_column),
            buckets: form.buckets.unwrap_or_else(|| first_buckets(&partitions)),
            partitions,
            distribution: required(form.distribution, "distribution")?,
            buckets_auto: form.buckets_auto,
            properties: required(form.properties, "properties")?,
            comment: form.comment,
            created_micros: form.created_micros,
            unlisted: form.unlisted,
            dropped_micros: form.dropped_micros,
            temporary_of: form.temporary_of.map(TableId),
            placement: form.placement.map(Placement::from_form).transpose()?,
            sequence: form.sequence.map(Sequence::from_form).transpose()?,
            partition_by: form.partition_by.map(PartitionBy::from_form).transpose()?,
            policies: from_forms(form.policies)?,
            foreign_keys: from_forms(form.foreign_keys)?,
        };
        check(&table)?;
        Ok(table)
    }
}

/// The number of buckets of the first partition.
fn first_buckets(partitions: &[Partition]) -> u32 {
    partitions.first().map_or(1, Partition::buckets)
}

/// Checks what the parts of a table say of each other.
fn check(table: &Table) -> Result<(), Unreadable> {
    let schema = table.schema();
    ensure(table.unlisted || table.dropped_micros.is_none(), "it is dropped, and has its name")?;
    let is_own = table.temporary_of.is_none() || table.unlisted && table.partition_by.is_some();
    ensure(is_own, "it has partitions of another table, and a name or none of them")?;
    ensure(table.key_columns <= schema.columns.len(), "it has more key columns than columns")?;
    let has_key = match table.key_model {
        KeyModel::Duplicate => true,
        KeyModel::Unique | KeyModel::Aggregate => {
            table.key_columns > 0 && schema.sort_key.iter().copied().eq(0..table.key_columns)
        }
        KeyModel::Primary => table.row_key().is_some() || table.has_row_ids(),
    };
    let is_folded = |(at, column): (usize, &freshet_schema::Column)| {
        let is_value = table.key_model == KeyModel::Aggregate && at >= table.key_columns;
        column.aggregate.is_some() == is_value
    };
    let are_folded = schema.columns.iter().enumerate().all(is_folded);
    ensure(are_folded, "the columns of an aggregate key are others than its table says")?;
    ensure(has_key, "its rows are not sorted by its unique key")?;
    let may_have = table.key_model == KeyModel::Unique || schema.sequence.is_none();
    ensure(may_have, "it has a sequence column without a UNIQUE KEY")?;
    let is_looked_up = table.key_model == KeyModel::Primary || table.unique_keys().next().is_none();
    ensure(is_looked_up, "it has a unique key without a primary key")?;
    check_partitions(table.partition_by.as_ref(), &table.partitions)?;
    let counts = table.sequence.is_none() || schema.auto_increment().is_some();
    ensure(counts, "it is a sequence without a counter")?;
    let distributed = table.distribution.columns();
    let named = table.declared_keys.iter().flat_map(|key| &key.columns).chain(&distributed);
    let of_keys = table.declared_keys.iter().filter_map(DeclaredKey::placement);
    let placed = table.placement.iter().chain(of_keys).flat_map(|placement| &placement.columns);
    let covering = table.declared_keys.iter().filter_map(|key| key.global.as_ref());
    let placed = placed.chain(covering.flat_map(|global| &global.covering));
    let divides = table.partition_by.iter().flat_map(|by| &by.columns);
    let foreign = table.foreign_keys.iter().flat_map(|key| &key.columns);
    let mut named = named.chain(placed).chain(divides).chain(foreign);
    let has_column = |&column: &ColumnId| schema.position_of(column).is_some();
    ensure(named.all(has_column), "a key or its distribution has a column that it lacks")
}

impl OnDisk for TableSchema {
    type Form = SchemaForm;

    fn form(&self) -> SchemaForm {
        SchemaForm {
            version: self.version.get(),
            columns: forms(&self.columns),
            sort_key: self.sort_key.iter().map(|&at| number_of(at)).collect(),
            checks: forms(&self.checks),
            sequence: self.sequence.map(ColumnId::get),
        }
    }

    fn from_form(form: SchemaForm) -> Result<Self, Unreadable> {
        let columns: Vec<Column> = from_forms(form.columns)?;
        let checks: Vec<Check> = from_forms(form.checks)?;
        let of_checks = checks.iter().flat_map(|check| &check.columns);
        let generated = columns.iter().filter_map(|column| column.generated.as_ref());
        let mut named = of_checks.chain(generated.flat_map(|how| &how.columns));
        let has = |id: &ColumnId| columns.iter().any(|column| column.id == *id);
        ensure(named.all(has), "a constraint or a generated column names a column that it lacks")?;
        let sort_key = form.sort_key.into_iter().map(|at| at as usize).collect::<Vec<_>>();
        let is_column = |&at: &usize| at < columns.len();
        ensure(sort_key.iter().all(is_column), "its sort key has a column that it lacks")?;
        let sequence = form.sequence.map(ColumnId);
        let is_sequence =
            |id| columns.iter().any(|column| column.id == id && column.ty.is_sequence());
        ensure(sequence.is_none_or(is_sequence), "its sequence column is none")?;
        let has_sign = columns.last().is_some_and(|last| last.name == DELETE_SIGN);
        ensure(sequence.is_none() || has_sign, "it has a sequence without a delete sign")?;
        let names_rows = columns.last().is_some_and(|last| last.name == ROW_ID);
        let is_sorted_so = sort_key.last().is_some_and(|&at| at + 1 == columns.len());
        ensure(!names_rows || is_sorted_so, "its row id does not end its sort key")?;
        let schema = Self::new(SchemaVersion(form.version), columns, sort_key);
        Ok(schema.with_checks(checks).sequenced_by(sequence).hiding_row_id())
    }
}

impl OnDisk for Check {
    type Form = CheckForm;

    fn form(&self) -> CheckForm {
        CheckForm {
            name: self.name.clone(),
            text: self.text.clone(),
            columns: self.columns.iter().map(|column| column.get()).collect(),
            is_enforced: self.is_enforced,
        }
    }

    fn from_form(form: CheckForm) -> Result<Self, Unreadable> {
        let CheckForm { name, text, columns, is_enforced } = form;
        ensure(!text.is_empty(), "a constraint has no condition")?;
        Ok(Self { name, text, columns: columns.into_iter().map(ColumnId).collect(), is_enforced })
    }
}

fn number_of(columns: usize) -> u32 {
    u32::try_from(columns).expect("a table has few columns")
}

impl OnDisk for DeclaredKey {
    type Form = DeclaredKeyForm;

    fn form(&self) -> DeclaredKeyForm {
        let columns = self.columns.iter().map(|column| column.get()).collect();
        let global = self.global.as_ref().map(GlobalIndex::form);
        let (name, comment) = (self.name.clone(), self.comment.clone());
        let KeyForm { is_btree, descending, first } = &self.form;
        DeclaredKeyForm {
            kind: self.kind.form(),
            name,
            columns,
            global,
            comment,
            is_btree: *is_btree,
            descending: descending.iter().map(|column| column.get()).collect(),
            first_of: first.iter().map(|(column, _)| column.get()).collect(),
            first: first.iter().map(|(_, length)| *length).collect(),
        }
    }

    fn from_form(form: DeclaredKeyForm) -> Result<Self, Unreadable> {
        let columns = form.columns.into_iter().map(ColumnId).collect();
        let global = form.global.map(GlobalIndex::from_form).transpose()?;
        let kind = DeclaredKeyKind::from_form(form.kind)?;
        ensure(form.first_of.len() == form.first.len(), "a key lacks a length of a column")?;
        let first = form.first_of.into_iter().map(ColumnId).zip(form.first).collect();
        let descending = form.descending.into_iter().map(ColumnId).collect();
        let written = KeyForm { is_btree: form.is_btree, descending, first };
        Ok(Self { kind, name: form.name, columns, comment: form.comment, global, form: written })
    }
}

impl OnDisk for GlobalIndex {
    type Form = GlobalIndexForm;

    fn form(&self) -> GlobalIndexForm {
        GlobalIndexForm {
            clustered: self.clustered,
            covering: self.covering.iter().map(|column| column.get()).collect(),
            placement: self.placement.as_ref().map(Placement::form),
        }
    }

    fn from_form(form: GlobalIndexForm) -> Result<Self, Unreadable> {
        Ok(Self {
            clustered: form.clustered,
            covering: form.covering.into_iter().map(ColumnId).collect(),
            placement: form.placement.map(Placement::from_form).transpose()?,
        })
    }
}

impl OnDisk for Distribution {
    type Form = DistributionForm;

    fn form(&self) -> DistributionForm {
        match self {
            Self::Hash(columns) => {
                let columns = columns.iter().map(|column| column.get()).collect();
                DistributionForm::Hash(HashForm { columns })
            }
            Self::Parts(parts) => {
                let (columns, parts) = parts
                    .iter()
                    .map(|(id, part)| (id.get(), part.map_or(0, |part| part.form())))
                    .unzip();
                DistributionForm::Parts(PartsForm { columns, parts })
            }
            Self::Computed(expr) => DistributionForm::Computed(Box::new(expr.form())),
            Self::Random => DistributionForm::Random(()),
        }
    }

    fn from_form(form: DistributionForm) -> Result<Self, Unreadable> {
        Ok(match form {
            DistributionForm::Hash(HashForm { columns }) => {
                Self::Hash(columns.into_iter().map(ColumnId).collect())
            }
            DistributionForm::Parts(PartsForm { columns, parts }) => {
                ensure(columns.len() == parts.len(), "a column of its distribution has no part")?;
                let part = |number| match number {
                    0 => Ok(None),
                    number => TimePart::from_form(number).map(Some),
                };
                let all = columns.into_iter().zip(parts);
                let all = all.map(|(id, number)| Ok((ColumnId(id), part(number)?)));
                Self::Parts(all.collect::<Result<_, Unreadable>>()?)
            }
            DistributionForm::Computed(form) => {
                Self::Computed(Box::new(PartitionExpr::from_form(*form)?))
            }
            DistributionForm::Random(()) => Self::Random,
        })
    }
}

impl OnDisk for Placement {
    type Form = PlacementForm;

    fn form(&self) -> PlacementForm {
        let columns = self.columns.iter().map(|column| column.get()).collect();
        PlacementForm { text: self.text.clone(), columns }
    }

    fn from_form(PlacementForm { text, columns }: PlacementForm) -> Result<Self, Unreadable> {
        ensure(!text.is_empty(), "a clause of its distribution is empty")?;
        Ok(Self { text, columns: columns.into_iter().map(ColumnId).collect() })
    }
}

impl OnDisk for Properties {
    type Form = PropertiesForm;

    fn form(&self) -> PropertiesForm {
        let others = self.others.iter().cloned();
        PropertiesForm {
            group_commit_interval_ms: self.group_commit_interval_ms,
            group_commit_data_bytes: self.group_commit_data_bytes,
            group_commit_mode: self.group_commit_mode.form(),
            replication_num: self.replication_num,
            others: others.map(|(name, value)| PropertyForm { name, value }).collect(),
        }
    }

    fn from_form(form: PropertiesForm) -> Result<Self, Unreadable> {
        let others = form.others.into_iter();
        Ok(Self {
            group_commit_interval_ms: form.group_commit_interval_ms,
            group_commit_data_bytes: form.group_commit_data_bytes,
            group_commit_mode: GroupCommitMode::from_form(form.group_commit_mode)?,
            replication_num: form.replication_num,
            others: others.map(|PropertyForm { name, value }| (name, value)).collect(),
        })
    }
}
