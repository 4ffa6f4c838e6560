//! What clients do to the log, as the model knows it.

use std::ops::Range;
use std::sync::Arc;

use freshet_base::{Lsn, PartitionId, TableId, TxnId};
use freshet_schema::TableSchema;

use crate::rows::RowKind;

/// The rows of one record in one table.
#[derive(Clone, Debug)]
pub struct Part {
    pub table: TableId,
    /// The ids of the rows, which are unique in the run.
    pub ids: Range<i64>,
    pub kind: RowKind,
    /// The schema that the rows were written with.
    pub schema: Arc<TableSchema>,
    /// The reported transaction id, which loads of a group share.
    pub txn: TxnId,
    /// Whether other loads may share its group.
    pub grouped: bool,
}

/// A record of the log.
#[derive(Clone, Debug)]
pub enum Event {
    /// Rows of one or more tables, and the client's label.
    Load(Vec<Part>, Option<String>),
    /// These tables are empty from here on.
    Truncate(Vec<TableId>),
    /// The table has this schema from here on.
    Alter(TableId, Arc<TableSchema>),
    /// The rows of partitions that the table has lost here: the ranges of their dividers.
    Cut(TableId, Vec<Range<i64>>),
    /// The rows of a partition, which is put into the recycle bin: the range of its dividers.
    Rest(TableId, PartitionId, Range<i64>),
    /// They are back, as they were.
    Recover(TableId, PartitionId, Range<i64>),
    /// Rows of the table with these keys that delete, up to an LSN, are forgotten.
    Forget(TableId, Vec<i64>, Lsn),
    /// These tables are dropped.
    Drop(Vec<TableId>),
}

impl Event {
    /// The tables that it changes.
    pub fn tables(&self) -> Vec<TableId> {
        match self {
            Self::Load(parts, _) => parts.iter().map(|part| part.table).collect(),
            Self::Truncate(tables) | Self::Drop(tables) => tables.clone(),
            Self::Alter(table, _) | Self::Cut(table, _) | Self::Forget(table, ..) => vec![*table],
            Self::Rest(table, ..) | Self::Recover(table, ..) => vec![*table],
        }
    }
}
