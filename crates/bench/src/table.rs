//! The tables of the workloads, with CREATE statements for each dialect.

pub mod tpch;

use std::sync::LazyLock;

/// An SQL dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Freshet,
    /// MariaDB and MySQL.
    Mysql,
    Postgres,
    /// QuestDB over PostgreSQL's protocol.
    QuestDb,
    /// ClickHouse over HTTP.
    ClickHouse,
    /// The null server, which stores nothing.
    Null,
}

/// Column types common to all dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    SmallInt,
    Int,
    BigInt,
    /// DECIMAL(15, 2).
    Decimal,
    Char(u16),
    Varchar(u16),
    Date,
    DateTime,
}

impl Kind {
    fn sql(self, dialect: Dialect) -> String {
        use Dialect::{ClickHouse, Postgres, QuestDb};
        match (self, dialect) {
            (Self::SmallInt, QuestDb) => "SHORT".to_owned(),
            (Self::SmallInt, ClickHouse) => "Int16".to_owned(),
            (Self::SmallInt, _) => "SMALLINT".to_owned(),
            (Self::Int, ClickHouse) => "Int32".to_owned(),
            (Self::Int, _) => "INT".to_owned(),
            (Self::BigInt, QuestDb) => "LONG".to_owned(),
            (Self::BigInt, ClickHouse) => "Int64".to_owned(),
            (Self::BigInt, _) => "BIGINT".to_owned(),
            (Self::Decimal, QuestDb) => "DOUBLE".to_owned(),
            (Self::Decimal, ClickHouse) => "Decimal(15, 2)".to_owned(),
            (Self::Decimal, _) => "DECIMAL(15, 2)".to_owned(),
            (Self::Char(_) | Self::Varchar(_), QuestDb) => "VARCHAR".to_owned(),
            (Self::Char(_) | Self::Varchar(_), ClickHouse) => "String".to_owned(),
            (Self::Char(length), _) => format!("CHAR({length})"),
            (Self::Varchar(length), _) => format!("VARCHAR({length})"),
            (Self::Date | Self::DateTime, QuestDb) => "TIMESTAMP".to_owned(),
            (Self::Date, ClickHouse) => "Date".to_owned(),
            (Self::Date, _) => "DATE".to_owned(),
            (Self::DateTime, Postgres) => "TIMESTAMP".to_owned(),
            (Self::DateTime, ClickHouse) => "DateTime".to_owned(),
            (Self::DateTime, _) => "DATETIME".to_owned(),
        }
    }
}

/// A table of a workload.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    /// Names and types.
    pub columns: &'static [(&'static str, Kind)],
    /// The number of leading columns in Freshet's sort key.
    key_columns: usize,
    /// The distribution column in Freshet.
    distributed_by: &'static str,
    /// The number of buckets in Freshet.
    buckets: u32,
    /// Indexes in dialects that have them, as in the original table.
    indexes: &'static [&'static str],
    /// Partitions by the key in MySQL's dialect; 1 for a table without.
    partitions: u32,
    /// A comment in front of an INSERT.
    hint: &'static str,
    /// Whether an INSERT names its columns, so that the table may get more of them.
    names_columns: bool,
}

/// Two ints: the smallest row.
pub fn ints() -> Table {
    Table {
        name: "ints".to_owned(),
        columns: &[("a", Kind::Int), ("b", Kind::Int)],
        key_columns: 1,
        distributed_by: "a",
        buckets: 1,
        indexes: &[],
        partitions: 1,
        hint: "",
        names_columns: false,
    }
}

/// `lineitem` of TPC-H.
pub fn lineitem() -> Table {
    Table {
        name: "lineitem".to_owned(),
        columns: LINEITEM,
        key_columns: 4,
        distributed_by: "l_orderkey",
        buckets: 32,
        indexes: &[],
        partitions: 1,
        hint: "",
        names_columns: false,
    }
}

/// The columns of the sort key come first.
const LINEITEM: &[(&str, Kind)] = &[
    ("l_orderkey", Kind::BigInt),
    ("l_partkey", Kind::BigInt),
    ("l_suppkey", Kind::BigInt),
    ("l_linenumber", Kind::Int),
    ("l_quantity", Kind::Decimal),
    ("l_extendedprice", Kind::Decimal),
    ("l_discount", Kind::Decimal),
    ("l_tax", Kind::Decimal),
    ("l_returnflag", Kind::Char(1)),
    ("l_linestatus", Kind::Char(1)),
    ("l_shipdate", Kind::Date),
    ("l_commitdate", Kind::Date),
    ("l_receiptdate", Kind::Date),
    ("l_shipinstruct", Kind::Char(25)),
    ("l_shipmode", Kind::Char(10)),
    ("l_comment", Kind::Varchar(44)),
];

/// `sbtest1` of sysbench.
pub fn sbtest1() -> Table {
    Table {
        name: "sbtest1".to_owned(),
        columns: &[
            ("id", Kind::Int),
            ("k", Kind::Int),
            ("c", Kind::Char(120)),
            ("pad", Kind::Char(60)),
        ],
        key_columns: 1,
        distributed_by: "id",
        buckets: 1,
        indexes: &["PRIMARY KEY (id)", "KEY k_1 (k)"],
        partitions: 1,
        hint: "",
        names_columns: false,
    }
}

/// The log of a web server.
pub fn httplogs() -> Table {
    Table {
        name: "httplogs".to_owned(),
        columns: &[
            ("ts", Kind::DateTime),
            ("clientip", Kind::Varchar(20)),
            ("request", Kind::Varchar(500)),
            ("status", Kind::SmallInt),
            ("size", Kind::Int),
        ],
        key_columns: 1,
        distributed_by: "clientip",
        buckets: 1,
        indexes: &[],
        partitions: 1,
        hint: "",
        names_columns: false,
    }
}

/// A table of `count` ints.
pub fn columns(count: usize) -> Table {
    let columns = &WIDE[..count.min(WIDE.len())];
    Table { name: "wide".to_owned(), columns, distributed_by: columns[0].0, ..ints() }
}

/// An int and a text of `bytes` bytes.
pub fn width(bytes: usize) -> Table {
    let columns = WIDTHS.iter().find(|columns| columns[1].1 == Kind::Varchar(bytes as u16));
    let columns = columns.expect("a width of the sweep");
    Table { name: "long".to_owned(), columns, ..ints() }
}

/// The columns of the widest table; narrower tables use the first ones.
static WIDE: LazyLock<Vec<(&'static str, Kind)>> = LazyLock::new(|| {
    let name = |number| -> &'static str { String::leak(format!("c{number:04}")) };
    (0..COLUMNS_MAX).map(|number| (name(number), Kind::Int)).collect()
});
const COLUMNS_MAX: usize = 1000;

const fn of_width(bytes: u16) -> [(&'static str, Kind); 2] {
    [("a", Kind::Int), ("b", Kind::Varchar(bytes))]
}
static WIDTHS: [[(&str, Kind); 2]; 4] =
    [of_width(10), of_width(100), of_width(1000), of_width(10_000)];

impl Table {
    /// One of many tables with this schema.
    pub fn numbered(&self, number: usize) -> Self {
        Self { name: format!("t{number:04}"), ..self.clone() }
    }

    /// With another number of buckets.
    pub fn with_buckets(self, buckets: u32) -> Self {
        Self { buckets, ..self }
    }

    /// Divided into so many parts: buckets of Freshet's form, partitions of MySQL's.
    pub fn with_partitions(self, partitions: u32) -> Self {
        Self { partitions, ..self.with_buckets(partitions) }
    }

    /// With INSERTs behind a comment.
    pub fn with_hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    /// With INSERTs that name their columns.
    pub fn with_named_columns(self) -> Self {
        Self { names_columns: true, ..self }
    }

    /// The statements that drop and create the table.
    pub fn recreate(&self, dialect: Dialect) -> Vec<String> {
        let drop = format!("DROP TABLE IF EXISTS {}", self.name);
        match dialect {
            Dialect::Null => Vec::new(),
            Dialect::Postgres => {
                let mut statements = vec![drop, self.create(dialect)];
                let secondary = self.indexes.iter().filter_map(|index| index.strip_prefix("KEY "));
                statements.extend(secondary.map(|index| {
                    let (_, columns) = index.split_once(' ').unwrap_or_default();
                    format!("CREATE INDEX ON {} {columns}", self.name)
                }));
                statements
            }
            _ => vec![drop, self.create(dialect)],
        }
    }

    fn create(&self, dialect: Dialect) -> String {
        let mut items: Vec<String> = self
            .columns
            .iter()
            .map(|(name, kind)| format!("{name} {}", kind.sql(dialect)))
            .collect();
        match dialect {
            Dialect::Mysql => items.extend(self.indexes.iter().map(|index| (*index).to_owned())),
            Dialect::Postgres => {
                let primary = self.indexes.iter().filter(|index| index.starts_with("PRIMARY"));
                items.extend(primary.map(|index| (*index).to_owned()));
            }
            Dialect::QuestDb if self.arrives() => items.push("arrived TIMESTAMP".to_owned()),
            _ => {}
        }
        format!("CREATE TABLE {} ({}){}", self.name, items.join(", "), self.tail(dialect))
    }

    fn tail(&self, dialect: Dialect) -> String {
        let name = |(name, _): &(&'static str, Kind)| *name;
        let key: Vec<&str> = self.columns[..self.key_columns].iter().map(name).collect();
        let key = key.join(", ");
        match dialect {
            Dialect::Freshet => format!(
                " DUPLICATE KEY({key}) DISTRIBUTED BY HASH({}) BUCKETS {} \
                 PROPERTIES(\"replication_num\" = \"1\")",
                self.distributed_by, self.buckets
            ),
            Dialect::Mysql => {
                let parts = match self.partitions {
                    1 => String::new(),
                    count => format!(" PARTITION BY KEY ({key}) PARTITIONS {count}"),
                };
                format!(" ENGINE = InnoDB DEFAULT CHARSET = utf8mb4{parts}")
            }
            Dialect::QuestDb => {
                let time = if self.arrives() { "arrived" } else { "ts" };
                format!(" TIMESTAMP({time}) PARTITION BY DAY WAL")
            }
            Dialect::ClickHouse => format!(" ENGINE = MergeTree ORDER BY ({key})"),
            Dialect::Postgres | Dialect::Null => String::new(),
        }
    }

    /// Whether QuestDB needs an additional timestamp column, which its tables with a WAL require.
    pub fn arrives(&self) -> bool {
        self.columns.iter().all(|(_, kind)| *kind != Kind::DateTime)
    }

    /// The target of an INSERT: the table, with its columns if there is, or may be, an additional
    /// one.
    pub fn insert_into(&self, dialect: Dialect) -> String {
        let arrives = dialect == Dialect::QuestDb && self.arrives();
        if !arrives && !self.names_columns {
            return format!("{}INSERT INTO {} VALUES ", self.hint, self.name);
        }
        let mut names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        if arrives {
            names.push("arrived");
        }
        format!("{}INSERT INTO {} ({}) VALUES ", self.hint, self.name, names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_gets_its_own_statement() {
        assert_eq!(
            ints().create(Dialect::Freshet),
            "CREATE TABLE ints (a INT, b INT) DUPLICATE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 1 \
             PROPERTIES(\"replication_num\" = \"1\")"
        );
        let named = ints().with_named_columns();
        assert_eq!(named.insert_into(Dialect::Mysql), "INSERT INTO ints (a, b) VALUES ");
        assert!(sbtest1().create(Dialect::Mysql).contains("PRIMARY KEY (id), KEY k_1 (k))"));
        let parted = sbtest1().with_partitions(32).with_hint("/* x */ ");
        let (theirs, own) = (parted.create(Dialect::Mysql), parted.create(Dialect::Freshet));
        assert!(theirs.ends_with(" PARTITION BY KEY (id) PARTITIONS 32"), "{theirs}");
        assert!(own.contains("BUCKETS 32"), "{own}");
        assert!(parted.insert_into(Dialect::Mysql).starts_with("/* x */ INSERT INTO sbtest1"));
        assert!(ints().create(Dialect::QuestDb).contains("TIMESTAMP(arrived)"));
        assert!(httplogs().create(Dialect::QuestDb).contains("TIMESTAMP(ts)"));
        let postgres = sbtest1().recreate(Dialect::Postgres);
        assert_eq!(postgres[2], "CREATE INDEX ON sbtest1 (k)");
        assert!(!postgres[1].contains("KEY k_1"));
    }
}
