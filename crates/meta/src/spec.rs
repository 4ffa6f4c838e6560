//! What the SQL side hands in: a CREATE TABLE without its syntax.

use freshet_schema::{ColumnType, DeclaredKeyKind, DefaultValue, TableForm};

/// What DEFAULT says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum DefaultSpec {
    /// Nothing: NULL where the column takes it.
    #[default]
    Unset,
    /// DEFAULT NULL.
    Null,
    /// A value.
    Value(DefaultValue),
    /// A value that the clock gives, for a column that is added: its rows of before show a
    /// literal.
    Clock {
        /// What new rows take.
        default: DefaultValue,
        /// What rows of before show.
        before: String,
    },
}

/// A column as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnSpec {
    /// Its name.
    pub name: String,
    /// Its type; bounds of lengths and digits are checked here, not by the parser.
    pub ty: ColumnType,
    /// UNSIGNED of a type whose name does not say it: DECIMAL, FLOAT, DOUBLE.
    pub non_negative: bool,
    /// False for NOT NULL.
    pub nullable: bool,
    /// DEFAULT.
    pub default: DefaultSpec,
    /// COMMENT, empty for none.
    pub comment: String,
}

impl ColumnSpec {
    /// A name and a type, and nothing behind them.
    pub fn new(name: impl Into<String>, ty: ColumnType) -> Self {
        let (name, comment) = (name.into(), String::new());
        let default = DefaultSpec::Unset;
        Self { name, ty, non_negative: false, nullable: true, default, comment }
    }
}

/// The model of rows with equal keys, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyModelSpec {
    /// DUPLICATE KEY.
    Duplicate,
    /// UNIQUE KEY.
    Unique,
    /// AGGREGATE KEY.
    Aggregate,
}

/// The key clause behind the columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySpec {
    /// Its model.
    pub model: KeyModelSpec,
    /// Its columns.
    pub columns: Vec<String>,
}

/// PRIMARY KEY, UNIQUE KEY or KEY among the columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeclaredKeySpec {
    /// Which of them.
    pub kind: DeclaredKeyKind,
    /// Its name, if one was given.
    pub name: Option<String>,
    /// Its columns.
    pub columns: Vec<String>,
}

/// DISTRIBUTED BY.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DistributionSpec {
    /// HASH of these columns.
    Hash(Vec<String>),
    /// RANDOM.
    Random,
}

/// BUCKETS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BucketsSpec {
    /// Not written: as AUTO.
    #[default]
    Unset,
    /// BUCKETS AUTO.
    Auto,
    /// BUCKETS n.
    Count(u64),
}

/// A CREATE TABLE as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableSpec {
    /// Its name, without database.
    pub name: String,
    /// Whose form it is written in.
    pub form: TableForm,
    /// Its columns.
    pub columns: Vec<ColumnSpec>,
    /// The key clause behind the columns.
    pub key: Option<KeySpec>,
    /// The keys among the columns, `PRIMARY KEY` of a column included.
    pub declared_keys: Vec<DeclaredKeySpec>,
    /// DISTRIBUTED BY.
    pub distribution: Option<DistributionSpec>,
    /// BUCKETS.
    pub buckets: BucketsSpec,
    /// PROPERTIES, in the order written.
    pub properties: Vec<(String, String)>,
    /// COMMENT, empty for none.
    pub comment: String,
    /// ENGINE, if one was given.
    pub engine: Option<String>,
}

impl TableSpec {
    /// A name and columns in one of the forms, and nothing behind them.
    pub fn new(name: impl Into<String>, form: TableForm, columns: Vec<ColumnSpec>) -> Self {
        Self {
            name: name.into(),
            form,
            columns,
            key: None,
            declared_keys: Vec::new(),
            distribution: None,
            buckets: BucketsSpec::Unset,
            properties: Vec::new(),
            comment: String::new(),
            engine: None,
        }
    }
}
