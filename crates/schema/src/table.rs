//! Table definitions: columns, keys, distribution, properties, schema history.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use freshet_base::{ColumnId, DbId, Incarnation, PartitionId, SchemaVersion, TableId, TabletId};

use crate::aggregate::Aggregate;
use crate::check::Check;
use crate::collation::Collation;
use crate::distribution::Distribution;
use crate::foreign::ForeignKey;
use crate::generated::Generated;
use crate::global::GlobalIndex;
use crate::key_form::KeyForm;
use crate::partition::{PartitionBy, PartitionValues, Router};
use crate::policy::RowPolicy;
use crate::sequence::Sequence;
use crate::types::{ColumnType, LobSize};

/// The maximum number of columns of a table.
pub const COLUMNS_MAX: usize = 1024;
/// The maximum number of buckets of a partition.
pub const BUCKETS_MAX: u32 = 1024;

/// What the length of a CHAR or VARCHAR counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LengthUnit {
    /// Bytes of UTF-8: tables in Doris syntax.
    Bytes,
    /// Characters: tables in MySQL syntax.
    Characters,
}

/// The DEFAULT of a column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DefaultValue {
    /// A literal, in the text form that an INSERT accepts.
    Literal(String),
    /// The bytes of a hex or bit literal, as hex digits.
    Bits(String),
    /// At the column's precision.
    CurrentTimestamp,
    CurrentDate,
    /// An expression as SQL, without parentheses around it, which names no columns. Each row that
    /// has no value for the column computes it.
    Expression(String),
}

impl DefaultValue {
    /// Whether the value depends on the time of the insert.
    pub fn asks_clock(&self) -> bool {
        matches!(self, Self::CurrentTimestamp | Self::CurrentDate)
    }

    /// Whether the value is not written as it is.
    pub fn is_computed(&self) -> bool {
        self.asks_clock() || matches!(self, Self::Expression(_))
    }
}

/// A column of one schema version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Kept by renames; never given to another column.
    pub id: ColumnId,
    /// As written; compared case-insensitively.
    pub name: String,
    pub ty: ColumnType,
    /// UNSIGNED of a DECIMAL, FLOAT or DOUBLE, which then refuses negative values. Integer types
    /// have an `unsigned` of their own.
    pub non_negative: bool,
    pub nullable: bool,
    /// `None`: NULL if the column is nullable, else a value is required.
    pub default: Option<DefaultValue>,
    pub comment: String,
    pub collation: Collation,
    /// Whether keys and indexes have its texts by their weights, where `collation` is not by bytes;
    /// by their bytes in columns that are older than RFC 0025.
    pub keyed_by_weights: bool,
    pub length_unit: LengthUnit,
    /// The literal that rows older than the column show, set where the default is not constant.
    pub before: Option<String>,
    /// AUTO_INCREMENT: its values are generated, from this one on in a new table.
    pub auto_increment: Option<u64>,
    /// How the values of equal keys become one: of the columns behind the key of a table with
    /// [`KeyModel::Aggregate`], and of no others.
    pub aggregate: Option<Aggregate>,
    /// ON UPDATE CURRENT_TIMESTAMP: a statement that changes another column of a row, and gives
    /// this one no value, sets it to the time of the statement.
    pub on_update_now: bool,
    /// The texts that its values consist of, from number 1 on; empty unless it is an ENUM or SET.
    pub labels: Arc<[String]>,
    /// What its values consist of, of which type and length alone count: of an ARRAY the item, of
    /// a MAP key and value, of a STRUCT the fields; empty for all other types.
    pub elements: Arc<[Column]>,
    /// Of a generated column, which has no default.
    pub generated: Option<Generated>,
    /// Of a TEXT or BLOB of a table in MySQL's syntax; plain of all others.
    pub lob_size: LobSize,
}

impl Column {
    /// A nullable column without default or comment, with binary collation and byte lengths.
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
            keyed_by_weights: false,
            length_unit: LengthUnit::Bytes,
            before: None,
            auto_increment: None,
            aggregate: None,
            on_update_now: false,
            labels: Arc::default(),
            elements: Arc::default(),
            generated: None,
            lob_size: LobSize::Plain,
        }
    }

    /// The collation by whose weights keys and indexes have its texts; `None` where they have its
    /// values as they are.
    pub fn key_collation(&self) -> Option<Collation> {
        (self.keyed_by_weights && self.ty.is_collated() && !self.collation.is_by_bytes())
            .then_some(self.collation)
    }

    /// The type as SHOW prints it: `decimal(10,2) unsigned`, `enum('a','b')`, `array<int>`.
    pub fn type_text(&self) -> String {
        if self.ty.is_nested() {
            return crate::value::nested::type_text(self);
        }
        if self.ty.is_labelled() {
            let label = |label: &String| format!("'{}'", label.replace('\'', "''"));
            let labels = self.labels.iter().map(label).collect::<Vec<_>>().join(",");
            return format!("{}({labels})", self.ty);
        }
        let unsigned = if self.non_negative { " unsigned" } else { "" };
        format!("{}{}{unsigned}", self.lob_size.prefix(), self.ty)
    }

    /// The name of its type without length and signs: `decimal`, `longtext`.
    pub fn data_type_name(&self) -> String {
        format!("{}{}", self.lob_size.prefix(), self.ty.data_type_name())
    }

    /// The clock as a default of this column: `CURRENT_TIMESTAMP(3)`.
    pub fn now_text(&self) -> String {
        match self.ty {
            ColumnType::DateTime { fsp: fsp @ 1.. } | ColumnType::Timestamp { fsp: fsp @ 1.. } => {
                format!("CURRENT_TIMESTAMP({fsp})")
            }
            _ => "CURRENT_TIMESTAMP".to_owned(),
        }
    }

    /// The bytes of hex digits as a literal: `0x0F`, of a BIT `b'1111'`.
    pub fn bits_text(&self, digits: &str) -> String {
        match (self.ty, u64::from_str_radix(digits, 16)) {
            (ColumnType::Bit { .. }, Ok(bits)) => format!("b'{bits:b}'"),
            _ => format!("0x{digits}"),
        }
    }

    /// What MySQL shows as EXTRA: `DEFAULT_GENERATED on update CURRENT_TIMESTAMP`.
    pub fn extra_text(&self) -> String {
        let computed = self.default.as_ref().filter(|default| default.is_computed());
        let words = [
            self.auto_increment.map(|_| "auto_increment".to_owned()),
            computed.map(|_| "DEFAULT_GENERATED".to_owned()),
            self.generated.as_ref().map(|how| format!("{} GENERATED", how.kind())),
            self.on_update_now.then(|| format!("on update {}", self.now_text())),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// The columns of a table at one schema version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableSchema {
    /// Incremented by every ALTER.
    pub version: SchemaVersion,
    /// In the order that users see.
    pub columns: Vec<Column>,
    /// Indices into `columns` that rows in files are sorted by.
    pub sort_key: Vec<usize>,
    /// What its rows satisfy.
    pub checks: Vec<Check>,
    /// The sequence column, if one says which of several rows of a key stays.
    pub sequence: Option<ColumnId>,
    /// The position of the hidden column that names rows, see [`TableSchema::row_id`].
    pub(crate) row_id: Option<usize>,
    arrow: SchemaRef,
}

impl TableSchema {
    /// # Panics
    /// When `sort_key` has an index out of bounds.
    pub fn new(version: SchemaVersion, columns: Vec<Column>, sort_key: Vec<usize>) -> Self {
        assert!(sort_key.iter().all(|&at| at < columns.len()), "the sort key names columns");
        let fields = columns
            .iter()
            .map(|column| Field::new(&column.name, column.ty.arrow(), column.nullable))
            .collect::<Vec<_>>();
        let arrow = Arc::new(Schema::new(fields));
        let (checks, sequence, row_id) = (Vec::new(), None, None);
        Self { version, columns, sort_key, checks, sequence, row_id, arrow }
    }

    /// With these constraints.
    #[must_use]
    pub fn with_checks(self, checks: Vec<Check>) -> Self {
        Self { checks, ..self }
    }

    /// The Arrow schema of delta chunks and segments of this version.
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    /// The index of the column with this name, compared case-insensitively. Nobody names a row id.
    pub fn position(&self, name: &str) -> Option<usize> {
        let mut named = self.columns[..self.row_id.unwrap_or(self.columns.len())].iter();
        named.position(|column| column.name.eq_ignore_ascii_case(name))
    }

    /// Whether rows with equal keys become one ([`Column::aggregate`]).
    pub fn is_combined(&self) -> bool {
        self.columns.iter().any(|column| column.aggregate.is_some())
    }

    /// The index of the AUTO_INCREMENT column, if there is one.
    pub fn auto_increment(&self) -> Option<usize> {
        self.columns.iter().position(|column| column.auto_increment.is_some())
    }
}

/// The dialect of the CREATE TABLE; it decides collation, length unit and SHOW CREATE TABLE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableForm {
    /// Doris: `ENGINE=OLAP`, keys after the column list.
    Olap,
    /// MySQL: keys inside the column list.
    MySql,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeclaredKeyKind {
    Primary,
    /// UNIQUE, enforced beside an enforced primary key.
    Unique,
    /// UNIQUE that is only shown: without an enforced primary key, by a part of a column, or
    /// declared when it was not enforced anywhere.
    UniqueHint,
    /// KEY or INDEX.
    Index,
    /// KEY or INDEX that is INVISIBLE: files have it, and no query goes by it.
    InvisibleIndex,
}

impl DeclaredKeyKind {
    /// Whether it says that no two rows have the same key, enforced or not.
    pub const fn is_unique(self) -> bool {
        !matches!(self, Self::Index | Self::InvisibleIndex)
    }
}

/// A key of a table in MySQL syntax; [`Table::enforces`] says which are enforced, others are shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeclaredKey {
    pub kind: DeclaredKeyKind,
    /// `PRIMARY` for the primary key.
    pub name: String,
    /// Its columns; those of which only the first characters count by [`crate::key::first_of`].
    pub columns: Vec<ColumnId>,
    /// Its COMMENT; empty for none.
    pub comment: String,
    /// Of a GLOBAL or CLUSTERED INDEX.
    pub global: Option<GlobalIndex>,
    /// What SHOW says again.
    pub form: KeyForm,
}

/// What happens to rows with equal keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyModel {
    /// All are kept.
    Duplicate,
    /// The last one replaces those before it (keys.md).
    Unique,
    /// There are none: who writes looks first, and a row whose key exists is refused, left out, or
    /// replaces the other, as the statement says (keys.md).
    Primary,
    /// They become one row, value by value ([`Column::aggregate`]): in the order of the log, when
    /// rows are read and when files are merged (keys.md, section 1).
    Aggregate,
}

impl KeyModel {
    /// Whether at most one row of a key is alive. Rows of other tables never die one by one.
    pub const fn is_keyed(self) -> bool {
        matches!(self, Self::Unique | Self::Primary)
    }
}

/// A clause of PolarDB-X that says where rows are; `Distribution` says what it means here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// As written.
    pub text: String,
    /// The columns in it, which keep their names.
    pub columns: Vec<ColumnId>,
}

/// A partition; a table without PARTITION BY has one, named like the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Not reused after a drop.
    pub id: PartitionId,
    pub name: String,
    /// Incremented by TRUNCATE.
    pub incarnation: Incarnation,
    /// One per bucket, in bucket order.
    pub tablets: Vec<TabletId>,
    /// Which rows it has; `None` without PARTITION BY.
    pub values: Option<PartitionValues>,
}

/// Table properties. Those without an effect are kept as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Properties {
    /// The maximum age of a commit group.
    pub group_commit_interval_ms: u64,
    /// The maximum size of a commit group.
    pub group_commit_data_bytes: u64,
    /// The mode of loads that do not specify one.
    pub group_commit_mode: GroupCommitMode,
    /// As written; without effect.
    pub replication_num: u32,
    /// Properties without effect, in the order written.
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

/// Which loads share a commit group and what replies report; without effect on their speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GroupCommitMode {
    /// Each load is a group of its own.
    #[default]
    Off,
    /// The loads of an interval share a group.
    Sync,
    /// As `Sync`.
    Async,
}

impl GroupCommitMode {
    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off_mode",
            Self::Sync => "sync_mode",
            Self::Async => "async_mode",
        }
    }

    /// Parses a name, case-insensitively.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Off, Self::Sync, Self::Async]
            .into_iter()
            .find(|mode| mode.name().eq_ignore_ascii_case(text))
    }
}

/// The schema versions of a table that rows in the log or in files may refer to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemaHistory {
    versions: Vec<Arc<TableSchema>>,
}

impl SchemaHistory {
    pub fn new(first: TableSchema) -> Self {
        Self { versions: vec![Arc::new(first)] }
    }

    /// The history with these versions, oldest first; `None` unless there is one and they rise.
    pub fn of(versions: Vec<Arc<TableSchema>>) -> Option<Self> {
        let rises = |pair: &[Arc<TableSchema>]| pair[0].version < pair[1].version;
        (!versions.is_empty() && versions.windows(2).all(rises)).then_some(Self { versions })
    }

    /// The newest version.
    pub fn current(&self) -> &Arc<TableSchema> {
        self.versions.last().expect("a table has at least one schema version")
    }

    pub fn at(&self, version: SchemaVersion) -> Option<&Arc<TableSchema>> {
        self.versions.iter().find(|schema| schema.version == version)
    }

    /// Oldest first.
    pub fn versions(&self) -> &[Arc<TableSchema>] {
        &self.versions
    }

    /// Appends a version. Those between it and the newest one were lost with their records.
    ///
    /// # Panics
    /// When the version is not above the newest one.
    #[must_use]
    pub fn with(&self, next: TableSchema) -> Self {
        assert!(next.version > self.current().version, "versions of a schema rise");
        let mut versions = self.versions.clone();
        versions.push(Arc::new(next));
        Self { versions }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Not reused after a drop.
    pub id: TableId,
    pub db: DbId,
    pub name: String,
    /// The dialect of its CREATE TABLE.
    pub form: TableForm,
    /// That of columns that name none.
    pub collation: Collation,
    pub key_model: KeyModel,
    /// The number of leading columns that rows are sorted by; 0 with a primary key, whose columns
    /// may stand anywhere.
    pub key_columns: usize,
    /// Keys in MySQL syntax; see [`Self::enforces`].
    pub declared_keys: Vec<DeclaredKey>,
    /// Those that are shown; none is enforced.
    pub foreign_keys: Vec<ForeignKey>,
    pub history: SchemaHistory,
    /// The id of the next column that is added.
    pub next_column: ColumnId,
    pub partition_by: Option<PartitionBy>,
    /// At least one, and exactly one without PARTITION BY.
    pub partitions: Vec<Partition>,
    /// The number of buckets of a new partition that says no other.
    pub buckets: u32,
    pub distribution: Distribution,
    /// What was written in place of DISTRIBUTED BY.
    pub placement: Option<Placement>,
    /// `BUCKETS AUTO`, or no bucket clause.
    pub buckets_auto: bool,
    pub properties: Properties,
    pub comment: String,
    /// Creation time, microseconds since 1970-01-01 UTC.
    pub created_micros: i64,
    /// Whether CREATE TABLE AS SELECT is still filling it: it has no name yet, and is dropped at
    /// the next start if a crash leaves it so.
    pub unlisted: bool,
    /// When it was dropped into the recycle bin, microseconds since 1970-01-01 UTC.
    pub dropped_micros: Option<i64>,
    /// The table whose temporary partitions it has: it is of its database, has its columns and
    /// keys, and no name.
    pub temporary_of: Option<TableId>,
    /// Of a sequence: it has no rows, and its counter has the numbers of the values.
    pub sequence: Option<Sequence>,
    /// Which rows somebody sees of it; their names differ.
    pub policies: Vec<RowPolicy>,
}

impl Table {
    /// The current columns.
    pub fn schema(&self) -> &Arc<TableSchema> {
        self.history.current()
    }

    /// Whether a partition has more than one bucket.
    pub fn has_several_buckets(&self) -> bool {
        self.partitions.iter().any(|one| one.tablets.len() > 1)
    }

    /// The incarnation of its partitions.
    pub fn incarnation(&self) -> Incarnation {
        self.partitions.first().expect("a table has a partition").incarnation
    }

    /// Finds the partitions of rows, by their index; `None` without PARTITION BY.
    pub fn router(&self) -> Option<Router> {
        let by = self.partition_by.as_ref()?;
        Some(Router::new(by, self.partitions.iter().filter_map(|one| one.values.as_ref())))
    }

    /// Whether a row that no partition takes gets one ([`PartitionBy::auto`]).
    pub fn makes_partitions(&self) -> bool {
        self.partition_by.as_ref().is_some_and(|by| by.auto.is_some())
    }

    /// The partitions that users see, with their indices.
    pub fn shown_partitions(&self) -> impl Iterator<Item = (usize, &Partition)> + Clone {
        self.partitions.iter().enumerate().filter(|(_, partition)| !partition.is_hidden())
    }

    /// The index of the partition with a name, see [`Partition::is_named`].
    pub fn partition_at(&self, name: &str) -> Option<usize> {
        self.partitions.iter().position(|partition| partition.is_named(name))
    }

    /// The PRIMARY KEY that was declared, enforced or not.
    pub fn primary_key(&self) -> Option<&DeclaredKey> {
        self.declared_keys.iter().find(|key| key.kind == DeclaredKeyKind::Primary)
    }

    /// A key by which rows should be unique, and which is not enforced.
    pub fn unenforced_key(&self) -> Option<&DeclaredKey> {
        let is_unique = |key: &&DeclaredKey| key.kind.is_unique();
        self.declared_keys.iter().filter(is_unique).find(|key| !self.enforces(key))
    }

    /// Whether no two rows have the same key.
    pub fn enforces(&self, key: &DeclaredKey) -> bool {
        match key.kind {
            DeclaredKeyKind::Primary => self.key_model == KeyModel::Primary,
            DeclaredKeyKind::Unique => true,
            DeclaredKeyKind::UniqueHint
            | DeclaredKeyKind::Index
            | DeclaredKeyKind::InvisibleIndex => false,
        }
    }

    /// What MySQL shows as the key of a column: `PRI`, `UNI` or `MUL`.
    pub fn key_word(&self, column: ColumnId) -> Option<&'static str> {
        let word = |key: &DeclaredKey| match self.is_row_key(key) && key.columns.contains(&column) {
            true => Some("PRI"),
            false => key.word(column),
        };
        let words = self.declared_keys.iter().filter_map(word);
        words.max_by_key(|word| ["MUL", "UNI", "PRI"].iter().position(|other| other == word))
    }

    /// The columns of each enforced unique key, by which its files have indexes.
    pub fn indexed(&self) -> Vec<Vec<ColumnId>> {
        self.unique_keys().map(|key| key.columns.clone()).collect()
    }

    /// The keys by which new files have an index: all but the one that sorts the rows.
    pub fn index_keys(&self) -> impl Iterator<Item = &DeclaredKey> {
        let has_index =
            |key: &&DeclaredKey| key.kind != DeclaredKeyKind::Primary && !self.is_row_key(key);
        self.declared_keys.iter().filter(has_index)
    }

    /// The columns of each index that new files have.
    pub fn file_indexes(&self) -> Vec<Vec<ColumnId>> {
        let mut indexes = Vec::new();
        for key in self.index_keys() {
            if !indexes.contains(&key.columns) {
                indexes.push(key.columns.clone());
            }
        }
        indexes
    }

    /// All tablets, partition by partition.
    pub fn tablets(&self) -> impl Iterator<Item = TabletId> + '_ {
        self.partitions.iter().flat_map(|partition| partition.tablets.iter().copied())
    }
}
