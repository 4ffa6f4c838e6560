//! The table of `numbers("number" = "10")` of Doris: the numbers from 0 on, or one number again and
//! again. Its rows are made while they are read.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use freshet_schema::ColumnType;

use crate::origin::ColumnOrigin;
use crate::tables::Table;

/// The name of the function.
pub const FUNCTION: &str = "numbers";
/// The name of its only column.
const COLUMN: &str = "number";
/// The rows of a batch.
const ROWS_AT_ONCE: i64 = 8192;

/// What the function is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// How many rows there are, 0 or more.
    pub count: i64,
    /// The number in each of them; without it they are numbered.
    pub constant: Option<i64>,
}

impl Numbers {
    /// The name of its table in `information_schema`, which says all of it.
    pub fn name(self) -> String {
        let constant = self.constant.map(|number| format!(" {number}"));
        format!("{FUNCTION} {}{}", self.count, constant.unwrap_or_default())
    }

    /// What a name of [`Self::name`] says; `None` for other names.
    pub fn of(name: &str) -> Option<Self> {
        let mut words = name.strip_prefix(FUNCTION)?.strip_prefix(' ')?.split(' ');
        let count = words.next()?.parse().ok().filter(|count| *count >= 0)?;
        let constant = words.next().map(str::parse).transpose().ok()?;
        words.next().is_none().then_some(Self { count, constant })
    }

    /// The table.
    pub fn table(self) -> Table {
        let schema = schema();
        let rows = Rows { schema: Arc::clone(&schema), numbers: self };
        let table = StreamingTable::try_new(schema, vec![Arc::new(rows)]);
        Table::new(Arc::new(table.expect("both have the same schema")))
    }

    fn batch(self, schema: &SchemaRef, from: i64) -> RecordBatch {
        let to = from.saturating_add(ROWS_AT_ONCE).min(self.count);
        let number = |at| self.constant.unwrap_or(at);
        let values = (from..to).map(number).collect::<Vec<_>>();
        RecordBatch::try_new(Arc::clone(schema), vec![Arc::new(Int64Array::from(values))])
            .expect("the column is as its field says")
    }
}

fn schema() -> SchemaRef {
    let origin = ColumnOrigin {
        database: String::new(),
        table: FUNCTION.to_owned(),
        column: COLUMN.to_owned(),
        ty: ColumnType::BigInt { unsigned: false },
        flags: 0,
        labels: Vec::new(),
    };
    let metadata = HashMap::from([(ColumnOrigin::KEY.to_owned(), origin.encode())]);
    let field = Field::new(COLUMN, DataType::Int64, true).with_metadata(metadata);
    Arc::new(Schema::new(vec![field]))
}

#[derive(Debug)]
struct Rows {
    schema: SchemaRef,
    numbers: Numbers,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, numbers) = (Arc::clone(&self.schema), self.numbers);
        let starts = (0..numbers.count).step_by(ROWS_AT_ONCE as usize);
        let batch = move |from| -> Result<RecordBatch> { Ok(numbers.batch(&schema, from)) };
        let stream = futures::stream::iter(starts.map(batch));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_all_of_it() {
        for (count, constant) in [(0, None), (5, None), (i64::MAX, Some(-7)), (1, Some(i64::MIN))] {
            let numbers = Numbers { count, constant };
            assert_eq!(Numbers::of(&numbers.name()), Some(numbers));
        }
        for name in ["numbers", "numbers ", "numbers -1", "numbers 1 2 3", "number 1", "numbers x"]
        {
            assert_eq!(Numbers::of(name), None, "{name}");
        }
    }

    #[test]
    fn the_last_batch_has_the_rest() {
        let numbers = Numbers { count: ROWS_AT_ONCE + 3, constant: None };
        let batch = numbers.batch(&schema(), ROWS_AT_ONCE);
        assert_eq!(batch.num_rows(), 3);
        let last = Numbers { count: i64::MAX, constant: Some(4) };
        assert_eq!(last.batch(&schema(), i64::MAX - 2).num_rows(), 2);
    }
}
