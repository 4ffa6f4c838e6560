//! Rows that stand in place of those of a table.

use std::sync::Arc;

use freshet_base::TableId;
use freshet_query::RecordBatch;
use freshet_query::through::Through;
use freshet_schema::TableSchema;

/// Rows that a statement reads in place of those of a table.
pub struct GivenRows {
    pub table: TableId,
    /// The columns of the rows.
    pub schema: Arc<TableSchema>,
    pub rows: RecordBatch,
    /// Whether the statement has brought them itself, so that reading them needs no right.
    pub is_own: bool,
    /// Whether they stand only where the statement says so, and other mentions of the table read
    /// the snapshot.
    pub is_marked: bool,
    /// Whether they have the columns of a view that the statement writes through. Where they stand
    /// they are read without a right, which was asked for, and elsewhere the table needs its own.
    pub of_view: bool,
    /// The view through which the statement finds and changes them.
    pub view: Option<Arc<Through>>,
}

impl GivenRows {
    /// Rows that stand wherever the statement reads the table, which takes the right to read it.
    pub fn of(table: TableId, schema: Arc<TableSchema>, rows: RecordBatch) -> Self {
        Self { table, schema, rows, is_own: false, is_marked: false, of_view: false, view: None }
    }
}
