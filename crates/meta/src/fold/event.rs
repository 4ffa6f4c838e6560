//! What records of the log change in metadata.

use std::sync::Arc;

use freshet_base::{
    DbId, Incarnation, Lsn, PartitionId, RowsetId, SchemaVersion, TableId, TabletId, Version,
};
use freshet_schema::{
    Collation, DeclaredKey, Partition, Properties, RowPolicy, Sequence, Table, TableSchema,
};

use crate::foreign::ForeignChange;
use crate::ids::IdEnds;
use crate::rowset::{MarkFileMeta, RowsetMeta};
use crate::term::TermRecord;

/// The result of a flush: its rowsets become part of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Publish {
    pub table: TableId,
    /// The flushed LSN before it.
    pub from: Lsn,
    /// The flushed LSN after it.
    pub to: Lsn,
    /// The table's version at `to`.
    pub version: Version,
    /// The schema version at `to`.
    pub schema_version: SchemaVersion,
    /// The new rowsets; empty if the range contains no rows.
    pub rowsets: Vec<RowsetMeta>,
    /// The rows of earlier rowsets that died in the range; `None` if none did.
    pub marks: Option<NewMarks>,
}

/// The mark file of a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewMarks {
    pub file: MarkFileMeta,
    /// Whether it has all marks of the table, so that earlier files of marks are not needed.
    pub is_whole: bool,
}

/// The result of a merge: the new rowset replaces the merged ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replacement {
    pub table: TableId,
    pub tablet: TabletId,
    /// The merged rowsets: adjacent ones, in LSN order.
    pub removed: Vec<RowsetId>,
    /// The new rowset.
    pub added: RowsetMeta,
    /// Its rows that died while the merge ran; `None` if none did.
    pub marks: Option<MarkFileMeta>,
}

/// A TRUNCATE of one table: new, empty tablets from its record on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Truncate {
    pub table: TableId,
    /// The table's version there.
    pub version: Version,
    /// The incarnation of its partitions from there on.
    pub incarnation: Incarnation,
    /// The new tablets of all partitions, in the order of the old ones.
    pub tablets: Vec<TabletId>,
    /// Whether generated ids go on: it is a DELETE of all rows.
    pub keeps_counter: bool,
}

/// A change of a table's definition that leaves its rows alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Definition {
    /// RENAME inside its database.
    Name(String),
    /// A table created by CREATE TABLE AS SELECT appears under its name.
    Listed,
    /// DROP TABLE into the recycle bin.
    Dropped { at_micros: i64 },
    /// RECOVER TABLE: it is listed under this name.
    Recovered(String),
    /// SET.
    Properties(Properties),
    /// Has this comment from then on.
    Comment(String),
    /// ALTER .. DEFAULT CHARACTER SET: that of columns which are added without one.
    Collation(Collation),
    /// ALTER .. MODIFY DISTRIBUTION: how many buckets partitions have that are added without a
    /// number, and whether that was left to the server.
    Buckets { count: u32, auto: bool },
    /// ALTER of columns: the next schema version.
    Schema(Arc<TableSchema>),
    /// ALTER SEQUENCE.
    Sequence(Sequence),
    /// CREATE and DROP INDEX, ALTER .. ADD and DROP FOREIGN KEY: all keys that the table has
    /// behind it, and what becomes of its foreign keys.
    Keys(Vec<DeclaredKey>, ForeignChange),
    /// The partitions that it has from there on: those with ids that it had keep their rows.
    Partitions(Vec<Partition>),
    /// CREATE and DROP ROW POLICY: all policies that it has from there on.
    Policies(Vec<RowPolicy>),
}

/// The place of a table behind a RENAME.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    pub table: TableId,
    pub database: DbId,
    pub name: String,
}

/// Other partitions of one table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Divide {
    pub table: TableId,
    /// Those that it has from there on: those with ids that it had keep their rows.
    pub partitions: Vec<Partition>,
    /// Whether those that are gone go to the recycle bin: when, in microseconds since 1970-01-01
    /// UTC.
    pub rests_micros: Option<i64>,
    /// Partitions that are in the recycle bin no longer.
    pub forgotten: Vec<PartitionId>,
}

impl MetaEvent {
    /// The tables that it gives other names.
    pub fn renames(&self) -> Vec<TableId> {
        match self {
            Self::Rename(tables) => tables.iter().map(|(table, _)| *table).collect(),
            Self::Move(tables) => tables.iter().map(|moved| moved.table).collect(),
            _ => Vec::new(),
        }
    }
}

/// The effect of a record of the log on metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetaEvent {
    /// A flush.
    Publish(Publish),
    /// A merge.
    Replace(Replacement),
    /// CREATE TABLE.
    Create(Arc<Table>),
    Define {
        table: TableId,
        change: Definition,
    },
    /// RENAME of tables inside their databases: the names that they have behind all of it.
    Rename(Vec<(TableId, String)>),
    /// RENAME of tables of which some go to other databases (RFC 0054).
    Move(Vec<Moved>),
    /// Tables that get other partitions, at one position.
    Divide(Vec<Divide>),
    /// A change of columns that has copied the rows of a table: the new table is listed under its
    /// name from here on, and the old one is not (RFC 0039).
    Exchange {
        old: TableId,
        new: TableId,
    },
    /// TRUNCATE of several tables at one position.
    Truncate(Vec<Truncate>),
    /// DROP TABLE.
    Drop(Vec<TableId>),
    DropDatabase(DbId),
    /// DROP DATABASE into the recycle bin, with all its tables.
    BinDatabase {
        database: DbId,
        at_micros: i64,
    },
    /// RECOVER DATABASE, under this name.
    RecoverDatabase {
        database: DbId,
        name: String,
    },
    /// Ids below these ends are reserved.
    Reserve(IdEnds),
    /// A term begins.
    Term(TermRecord),
    /// Generated ids of a table below `end` may have been given from here on.
    Counter {
        table: TableId,
        end: u64,
    },
}
