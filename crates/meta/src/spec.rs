//! Specifications of tables from the SQL layer, independent of syntax.

use freshet_schema::{
    Aggregate, AutoPartition, Collation, ColumnType, DeclaredKeyKind, DefaultValue, LobSize,
    PartitionFunction, PartitionMethod, ReferenceAction, Step, TableForm, TimePart, TimeUnit,
};

/// The DEFAULT clause.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum DefaultSpec {
    /// Not written: NULL if the column is nullable.
    #[default]
    Unset,
    Null,
    Value(DefaultValue),
    /// A default that is computed, of a column that is added: existing rows get a literal.
    Computed {
        /// The default for new rows.
        default: DefaultValue,
        /// The value of existing rows; `None` for NULL.
        before: Option<String>,
    },
}

/// The specification of a column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnSpec {
    pub name: String,
    /// Its type. Maximum lengths and digits are checked in this crate, not by the parser.
    pub ty: ColumnType,
    /// UNSIGNED of a type whose name does not contain it: DECIMAL, FLOAT, DOUBLE.
    pub non_negative: bool,
    pub nullable: bool,
    pub default: DefaultSpec,
    /// The COMMENT; empty if none was given.
    pub comment: String,
    pub auto_increment: bool,
    /// The first generated id, if given with it.
    pub first_id: Option<u64>,
    /// How values of equal keys become one, if that is written.
    pub aggregate: Option<Aggregate>,
    /// ON UPDATE CURRENT_TIMESTAMP.
    pub on_update_now: bool,
    /// The texts of an ENUM or SET, in their order.
    pub labels: Vec<String>,
    /// What an ARRAY, MAP or STRUCT consists of.
    pub elements: Vec<ColumnSpec>,
    /// The COLLATE, if given.
    pub collation: Option<Collation>,
    /// The collation that its CHARACTER SET means alone, if given.
    pub of_charset: Option<Collation>,
    /// The CHECK constraints behind it.
    pub checks: Vec<CheckSpec>,
    /// AS (expression), if given.
    pub generated: Option<GeneratedSpec>,
    /// Of a TEXT or BLOB.
    pub lob_size: LobSize,
}

/// What follows AS in the definition of a column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GeneratedSpec {
    /// The expression, without parentheses around it.
    pub text: String,
    /// The columns that it names.
    pub columns: Vec<String>,
    /// STORED, and not VIRTUAL, which it is without a word.
    pub is_stored: bool,
}

impl ColumnSpec {
    /// A column with a name and a type only.
    pub fn new(name: impl Into<String>, ty: ColumnType) -> Self {
        Self {
            name: name.into(),
            ty,
            non_negative: false,
            nullable: true,
            default: DefaultSpec::Unset,
            comment: String::new(),
            auto_increment: false,
            first_id: None,
            aggregate: None,
            on_update_now: false,
            labels: Vec::new(),
            elements: Vec::new(),
            collation: None,
            of_charset: None,
            checks: Vec::new(),
            generated: None,
            lob_size: LobSize::Plain,
        }
    }
}

/// The key model as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyModelSpec {
    Duplicate,
    Unique,
    Aggregate,
}

/// The key clause after the columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySpec {
    pub model: KeyModelSpec,
    pub columns: Vec<String>,
}

/// PRIMARY KEY, UNIQUE KEY or KEY in the list of columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeclaredKeySpec {
    pub kind: DeclaredKeyKind,
    /// Its name, if given.
    pub name: Option<String>,
    pub columns: Vec<String>,
    /// Those that stand there with a number of first characters, which count in a unique key.
    pub first: Vec<(String, u32)>,
    /// Those with DESC.
    pub descending: Vec<String>,
    /// USING BTREE.
    pub is_btree: bool,
    /// Its COMMENT; empty for none.
    pub comment: String,
    /// Of a GLOBAL or CLUSTERED INDEX.
    pub global: Option<GlobalIndexSpec>,
}

impl DeclaredKeySpec {
    /// A key of these columns, with nothing else.
    pub fn new(kind: DeclaredKeyKind, columns: Vec<String>) -> Self {
        Self {
            kind,
            name: None,
            columns,
            first: Vec::new(),
            descending: Vec::new(),
            is_btree: false,
            comment: String::new(),
            global: None,
        }
    }
}

/// What a GLOBAL INDEX of PolarDB-X has beside its columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GlobalIndexSpec {
    /// CLUSTERED: it covers all columns.
    pub clustered: bool,
    /// The columns of COVERING.
    pub covering: Vec<String>,
    /// Its PARTITION BY or DBPARTITION BY.
    pub placement: Option<PlacementSpec>,
    /// The same clause, where it is RANGE or LIST.
    pub partition_by: Option<Box<PartitionBySpec>>,
    /// The number that the clause says.
    pub buckets: BucketsSpec,
}

/// A CHECK constraint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckSpec {
    /// Its name, if given.
    pub name: Option<String>,
    /// The condition, without parentheses around it.
    pub text: String,
    /// The columns that it names.
    pub columns: Vec<String>,
    pub is_enforced: bool,
}

/// FOREIGN KEY in the list of columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignKeySpec {
    /// Whether a table has it already, of which this one becomes a copy: of such a key nothing is
    /// said, and its index is among those of the table, unless it was dropped.
    pub is_copied: bool,
    /// The name of the constraint, if given.
    pub name: Option<String>,
    pub columns: Vec<String>,
    /// The database of the table that it references, if written.
    pub database: Option<String>,
    /// The table that it references, as written.
    pub table: String,
    /// The columns that it references.
    pub referenced: Vec<String>,
    pub on_delete: ReferenceAction,
    pub on_update: ReferenceAction,
}

/// FULLTEXT KEY or SPATIAL KEY in the list of columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnkeptKeySpec {
    /// FULLTEXT or SPATIAL.
    pub word: &'static str,
    /// Its name, if given.
    pub name: Option<String>,
    pub columns: Vec<String>,
}

/// The DISTRIBUTED BY clause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DistributionSpec {
    /// HASH of the named columns.
    Hash(Vec<String>),
    Random,
}

/// A clause of PolarDB-X that says where rows are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacementSpec {
    /// As written.
    pub text: String,
    /// The columns that it names.
    pub columns: Vec<String>,
    /// Those of which it names but a part, in a function of time.
    pub parts: Vec<(String, TimePart)>,
    /// The expression over the only column.
    pub computed: Option<ComputedSpec>,
}

/// A value of a partition, as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueSpec {
    Null,
    MaxValue,
    /// Of a list: all that no other one has.
    Default,
    /// A literal, in the text form that an INSERT accepts.
    Literal(String),
    /// The function of PARTITION BY, of this value of the column.
    Call(PartitionFunction, String),
}

/// The values of a partition, as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValuesSpec {
    LessThan(Vec<ValueSpec>),
    /// From the first bound on, and below the second.
    Range(Vec<ValueSpec>, Vec<ValueSpec>),
    In(Vec<Vec<ValueSpec>>),
    /// Several partitions, which have no name yet.
    Steps(StepsSpec),
}

/// `FROM (from) TO (to) INTERVAL count unit`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepsSpec {
    pub from: ValueSpec,
    pub to: ValueSpec,
    pub count: u64,
    /// Of dates.
    pub unit: Option<TimeUnit>,
}

/// A partition of PARTITION BY or ADD PARTITION.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionSpec {
    pub name: String,
    pub if_not_exists: bool,
    pub values: ValuesSpec,
}

/// An expression in PARTITION BY, or in a clause of PolarDB-X.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ComputedSpec {
    /// As it is shown.
    pub text: String,
    pub steps: Vec<Step>,
}

/// The PARTITION BY clause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionBySpec {
    pub method: PartitionMethod,
    pub columns: Vec<String>,
    pub function: Option<PartitionFunction>,
    /// The expression over the only column.
    pub computed: Option<ComputedSpec>,
    pub has_columns_word: bool,
    pub auto: Option<AutoPartition>,
    pub partitions: Vec<PartitionSpec>,
}

/// The BUCKETS clause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BucketsSpec {
    /// Not written; same as AUTO.
    #[default]
    Unset,
    Auto,
    Count(u64),
}

/// The specification of a CREATE TABLE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableSpec {
    /// Its name without the database.
    pub name: String,
    /// Whether it is in MySQL or Doris syntax.
    pub form: TableForm,
    pub columns: Vec<ColumnSpec>,
    /// The key clause after the columns.
    pub key: Option<KeySpec>,
    /// The keys in the list of columns, including `PRIMARY KEY` of a single column.
    pub declared_keys: Vec<DeclaredKeySpec>,
    /// Not enforced, with a warning.
    pub foreign_keys: Vec<ForeignKeySpec>,
    /// Not kept, with a warning.
    pub unkept_keys: Vec<UnkeptKeySpec>,
    /// The CHECK constraints in the list of columns; columns have those behind them.
    pub checks: Vec<CheckSpec>,
    pub distribution: Option<DistributionSpec>,
    /// In place of `distribution`.
    pub placement: Option<PlacementSpec>,
    pub partition_by: Option<PartitionBySpec>,
    pub buckets: BucketsSpec,
    /// PROPERTIES in the order written.
    pub properties: Vec<(String, String)>,
    /// The COMMENT; empty if none was given.
    pub comment: String,
    /// The ENGINE, if given.
    pub engine: Option<String>,
    /// The first generated id, if given.
    pub auto_increment: Option<u64>,
    /// The COLLATE behind the columns, if given.
    pub collation: Option<Collation>,
    /// The collation that CHARACTER SET behind the columns means alone, if given.
    pub of_charset: Option<Collation>,
}

impl TableSpec {
    /// The first generated id, as the table or its column says.
    pub fn first_id(&self) -> Option<u64> {
        self.auto_increment.or_else(|| self.columns.iter().find_map(|column| column.first_id))
    }

    /// A table with a name and columns only.
    pub fn new(name: impl Into<String>, form: TableForm, columns: Vec<ColumnSpec>) -> Self {
        Self {
            name: name.into(),
            form,
            columns,
            key: None,
            declared_keys: Vec::new(),
            foreign_keys: Vec::new(),
            unkept_keys: Vec::new(),
            checks: Vec::new(),
            distribution: None,
            placement: None,
            partition_by: None,
            buckets: BucketsSpec::Unset,
            properties: Vec::new(),
            comment: String::new(),
            engine: None,
            auto_increment: None,
            collation: None,
            of_charset: None,
        }
    }
}
