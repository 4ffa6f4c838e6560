//! Values of a SELECT that ON DUPLICATE KEY UPDATE reads beside the rows that it inserts.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{concat_batches, take};
use freshet_base::{ColumnId, Result, bail, err};
use freshet_query::RecordBatch;
use freshet_query::carried;
use freshet_query::result::ResultColumn;
use freshet_query::shown::stored;
use freshet_schema::{Column, TableSchema};

use super::result_columns::column_spec;
use crate::accounts::SessionMemory;
use crate::given::GivenRows;

/// The carried columns of all rows that a statement inserts, in their order.
pub struct Carried {
    columns: Vec<Column>,
    values: Vec<ArrayRef>,
    _memory: SessionMemory,
}

impl Carried {
    /// The columns of these batches, and the memory that they take.
    ///
    /// # Errors
    /// Types that no column has.
    pub fn of(
        result: &[ResultColumn],
        batches: &[RecordBatch],
        memory: SessionMemory,
    ) -> Result<Self> {
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        let Some(first) = batches.first() else {
            return Ok(Self { columns, values, _memory: memory });
        };
        let all = concat_batches(&first.schema(), batches);
        let all = all.map_err(|error| err!(Internal, "rows of one query differ: {error}"))?;
        for (at, (column, array)) in result.iter().zip(all.columns()).enumerate() {
            let ty = column_spec(column).ty;
            let collation = column.derived.map(|derived| derived.collation);
            let column = Column::new(ColumnId(0), carried::name(at), ty);
            let collation = collation.unwrap_or(column.collation);
            columns.push(Column { nullable: true, collation, ..column });
            values.push(stored(array, &ty.arrow())?);
        }
        Ok(Self { columns, values, _memory: memory })
    }

    /// Stored rows with the carried values of the new rows that meet them, which have these
    /// numbers.
    ///
    /// # Errors
    /// Never, as long as there are as many numbers as rows.
    pub fn beside(&self, given: GivenRows, numbers: Vec<u32>) -> Result<GivenRows> {
        let numbers = UInt32Array::from(numbers);
        let mut columns = given.schema.columns.clone();
        let mut arrays = given.rows.columns().to_vec();
        let next = columns.iter().map(|column| column.id.0).max().unwrap_or(0) + 1;
        for ((column, values), id) in self.columns.iter().zip(&self.values).zip(next..) {
            columns.push(Column { id: ColumnId(id), ..column.clone() });
            let taken = take(values, &numbers, None);
            arrays.push(taken.map_err(|error| err!(Internal, "a row is missing: {error}"))?);
        }
        let (version, sort_key) = (given.schema.version, given.schema.sort_key.clone());
        let schema = Arc::new(TableSchema::new(version, columns, sort_key));
        match RecordBatch::try_new(Arc::clone(schema.arrow()), arrays) {
            Ok(rows) => Ok(GivenRows { schema, rows, ..given }),
            Err(error) => bail!(Internal, "carried values do not fit their columns: {error}"),
        }
    }
}
