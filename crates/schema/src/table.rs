//! The definition of a table: columns, keys, distribution, properties, history.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use freshet_base::{ColumnId, DbId, Incarnation, PartitionId, SchemaVersion, TableId, TabletId};
use serde::{Deserialize, Serialize};

use crate::types::ColumnType;

/// Most columns of a table.
pub const COLUMNS_MAX: usize = 1024;
/// Most buckets of a partition.
pub const BUCKETS_MAX: u32 = 1024;

/// How text of a column compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collation {
    /// By bytes: tables of the Doris form.
    Binary,
    /// `utf8mb4_bin`: tables of the MySQL form, until others work.
    Utf8mb4Bin,
}

/// What the length of a CHAR or VARCHAR counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthUnit {
    /// Bytes of UTF-8: the Doris form.
    Bytes,
    /// Characters: the MySQL form.
    Characters,
}

/// What a column takes when an INSERT does not name it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultValue {
    /// A literal, in the text form that an INSERT would take.
    Literal(String),
    /// The bytes of a hex or bit literal, as hex digits.
    Bits(String),
    /// CURRENT_TIMESTAMP, at the column's precision.
    CurrentTimestamp,
    /// CURRENT_DATE.
    CurrentDate,
}

impl DefaultValue {
    /// Whether it depends on when a row comes.
    pub fn asks_clock(&self) -> bool {
        matches!(self, Self::CurrentTimestamp | Self::CurrentDate)
    }
}

/// The bytes that hex digits stand for; `None` where they are none. An odd one stands alone.
pub fn bytes_of_hex(digits: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let mut bytes = digits.as_bytes().rchunks(2).map(byte).collect::<Option<Vec<_>>>()?;
    bytes.reverse();
    is_hex.then_some(bytes)
}

/// A column of one schema version.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// The same through renames; never given to another column.
    pub id: ColumnId,
    /// As written; compared without case.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
    /// UNSIGNED of a DECIMAL, FLOAT or DOUBLE: it takes nothing below zero. Types of integers say
    /// it themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub non_negative: bool,
    /// Whether it takes NULL.
    pub nullable: bool,
    /// What it takes when not named; `None` means NULL where nullable, else an error.
    pub default: Option<DefaultValue>,
    /// COMMENT.
    pub comment: String,
    /// How text compares.
    pub collation: Collation,
    /// What a length counts.
    pub length_unit: LengthUnit,
    /// What rows of before the column was added show in it, as a literal, where the default
    /// would not be the same for all of them at all times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

impl Column {
    /// A column that takes NULL and says nothing else: no default, no comment, texts are bytes.
    pub fn new(id: ColumnId, name: impl Into<String>, ty: ColumnType) -> Self {
        Self {
            id,
            name: name.into(),
            ty,
            non_negative: false,
            nullable: true,
            default: None,
            comment: String::new(),
            collation: Collation::Binary,
            length_unit: LengthUnit::Bytes,
            before: None,
        }
    }

    /// The type as it is written and shown: `decimal(10,2) unsigned`.
    pub fn type_text(&self) -> String {
        let unsigned = if self.non_negative { " unsigned" } else { "" };
        format!("{}{unsigned}", self.ty)
    }
}

/// The columns of a table at one schema version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableSchema {
    /// Rises by one with every ALTER.
    pub version: SchemaVersion,
    /// In the order users see.
    pub columns: Vec<Column>,
    /// Positions in `columns` that rows are sorted by in files.
    pub sort_key: Vec<usize>,
    arrow: SchemaRef,
}

/// What is stored of a [`TableSchema`]; the Arrow schema follows from it.
#[derive(Serialize, Deserialize)]
struct StoredSchema {
    version: u32,
    columns: Vec<Column>,
    sort_key: Vec<usize>,
}

impl TableSchema {
    /// A schema of these columns.
    ///
    /// # Panics
    /// When the sort key names a position that is no column.
    pub fn new(version: SchemaVersion, columns: Vec<Column>, sort_key: Vec<usize>) -> Self {
        assert!(sort_key.iter().all(|&at| at < columns.len()), "the sort key names columns");
        let fields = columns
            .iter()
            .map(|column| Field::new(&column.name, column.ty.arrow(), column.nullable))
            .collect::<Vec<_>>();
        Self { version, columns, sort_key, arrow: Arc::new(Schema::new(fields)) }
    }

    /// The Arrow schema of chunks and segments of this version.
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    /// The position of the column of this name, whatever its case.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// The position of the column of this id.
    pub fn position_of(&self, id: ColumnId) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }
}

impl Serialize for TableSchema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        StoredSchema {
            version: self.version.get(),
            columns: self.columns.clone(),
            sort_key: self.sort_key.clone(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TableSchema {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = StoredSchema::deserialize(deserializer)?;
        Ok(Self::new(SchemaVersion(stored.version), stored.columns, stored.sort_key))
    }
}

/// Whose form a table was written in; it decides collation, unit of length and SHOW CREATE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableForm {
    /// `ENGINE=OLAP`, keys after the column list.
    Olap,
    /// MySQL's, keys inside the column list.
    MySql,
}

/// What a key of the MySQL form was declared as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclaredKeyKind {
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE KEY.
    Unique,
    /// KEY or INDEX.
    Index,
}

/// A key of the MySQL form: shown, and not enforced for the life of its table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeclaredKey {
    /// What it was declared as.
    pub kind: DeclaredKeyKind,
    /// `PRIMARY` for the primary key.
    pub name: String,
    /// Its columns.
    pub columns: Vec<ColumnId>,
}

/// What rows of equal keys become.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyModel {
    /// All are kept.
    Duplicate,
}

/// How rows spread over the tablets of a partition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// By the hash of these columns.
    Hash(Vec<ColumnId>),
    /// Evenly, as they come.
    Random,
}

/// A partition: a table without PARTITION BY has one, named like the table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Partition {
    /// Never used again.
    pub id: PartitionId,
    /// Its name.
    pub name: String,
    /// Raised by TRUNCATE.
    pub incarnation: Incarnation,
    /// One per bucket, in bucket order.
    pub tablets: Vec<TabletId>,
}

/// The table properties that do something; all others that Doris knows are kept as written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Properties {
    /// Ceiling on the age of a group.
    pub group_commit_interval_ms: u64,
    /// Ceiling on the bytes of a group.
    pub group_commit_data_bytes: u64,
    /// Mode of stream loads that name none.
    pub group_commit_mode: GroupCommitMode,
    /// `replication_num` as written.
    pub replication_num: u32,
    /// The others, in the order written.
    pub others: Vec<(String, String)>,
}

impl Default for Properties {
    fn default() -> Self {
        Self {
            group_commit_interval_ms: 10_000,
            group_commit_data_bytes: 64 << 20,
            group_commit_mode: GroupCommitMode::Off,
            replication_num: 1,
            others: Vec::new(),
        }
    }
}

/// Which loads share a group, and what a reply calls them; never how fast they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupCommitMode {
    /// Each load is a group of its own.
    #[default]
    Off,
    /// The loads of a window share a group.
    Sync,
    /// The loads of a window share a group.
    Async,
}

impl GroupCommitMode {
    /// The name users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off_mode",
            Self::Sync => "sync_mode",
            Self::Async => "async_mode",
        }
    }

    /// The mode of a name, whatever its case.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Off, Self::Sync, Self::Async]
            .into_iter()
            .find(|mode| mode.name().eq_ignore_ascii_case(text))
    }
}

/// Every version of a table's columns that rows in the log or in files may name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SchemaHistory {
    versions: Vec<Arc<TableSchema>>,
}

impl SchemaHistory {
    /// The history of a new table.
    pub fn new(first: TableSchema) -> Self {
        Self { versions: vec![Arc::new(first)] }
    }

    /// The newest version.
    pub fn current(&self) -> &Arc<TableSchema> {
        self.versions.last().expect("a table has at least one schema version")
    }

    /// The columns at `version`.
    pub fn at(&self, version: SchemaVersion) -> Option<&Arc<TableSchema>> {
        self.versions.iter().find(|schema| schema.version == version)
    }

    /// All versions, oldest first.
    pub fn versions(&self) -> &[Arc<TableSchema>] {
        &self.versions
    }

    /// The history with one more version.
    ///
    /// # Panics
    /// When the version is not the next one.
    #[must_use]
    pub fn with(&self, next: TableSchema) -> Self {
        assert_eq!(next.version, self.current().version.next(), "versions rise by one");
        let mut versions = self.versions.clone();
        versions.push(Arc::new(next));
        Self { versions }
    }
}

/// The definition of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Never used again.
    pub id: TableId,
    /// The database it is in.
    pub db: DbId,
    /// Its name.
    pub name: String,
    /// Whose form it was written in.
    pub form: TableForm,
    /// What rows of equal keys become.
    pub key_model: KeyModel,
    /// How many leading columns DUPLICATE KEY names; 0 where there is none.
    pub key_columns: usize,
    /// Keys of the MySQL form, not enforced.
    pub declared_keys: Vec<DeclaredKey>,
    /// Its columns, now and before.
    pub history: SchemaHistory,
    /// The id that the next new column gets.
    pub next_column: ColumnId,
    /// Its partitions; exactly one until PARTITION BY works.
    pub partitions: Vec<Partition>,
    /// How rows spread over tablets.
    pub distribution: Distribution,
    /// Whether `BUCKETS AUTO` was written, or no bucket clause at all.
    pub buckets_auto: bool,
    /// Its properties.
    pub properties: Properties,
    /// COMMENT.
    pub comment: String,
    /// When it was created, microseconds since 1970-01-01 UTC.
    pub created_micros: i64,
    /// Whether no name leads to it yet: it is being filled with its first rows. One that a crash
    /// left so goes with the next start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlisted: bool,
}

impl Table {
    /// Its columns now.
    pub fn schema(&self) -> &Arc<TableSchema> {
        self.history.current()
    }

    /// All tablets, partition by partition.
    pub fn tablets(&self) -> impl Iterator<Item = TabletId> + '_ {
        self.partitions.iter().flat_map(|partition| partition.tablets.iter().copied())
    }
}
