//! Rows of a result whose values are assigned to user variables while they go to the client.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema};
use freshet_base::{Result, bail};
use freshet_query::RecordBatch;
use freshet_query::assign::{AssignedColumn, Place};
use freshet_query::coercibility::Strength;
use freshet_query::result::{Cells, ResultColumn};
use freshet_query::session::Value;
use freshet_schema::Collation;

use crate::session::Session;
use crate::variables;

/// Columns whose values go to variables.
pub struct Watched(Vec<WatchedColumn>);

struct WatchedColumn {
    at: usize,
    variable: String,
    collation: Option<Collation>,
    takes: Takes,
}

enum Takes {
    /// The value of the last row.
    Last(Option<Value>),
    /// A number that rises by `step`; none if it began with NULL.
    Count { step: i64, now: Option<i64> },
}

impl Watched {
    /// # Errors
    /// 1235 for a count that does not begin with a whole number.
    pub fn new(
        session: &Session,
        columns: Vec<AssignedColumn>,
        shown: &[ResultColumn],
    ) -> Result<Self> {
        let column = |column: AssignedColumn| {
            let takes = match column.step {
                None => Takes::Last(None),
                Some(step) => Takes::Count { step, now: number(session, &column.variable)? },
            };
            let at = match column.place {
                Place::FromStart(at) => at,
                Place::FromEnd(at) => shown.len() - 1 - at,
            };
            let collation = kept_collation(session, &shown[at]);
            Ok(WatchedColumn { at, variable: column.variable, collation, takes })
        };
        columns.into_iter().map(column).collect::<Result<_>>().map(Self)
    }

    /// The rows as the client gets them.
    ///
    /// # Errors
    /// 1690 for a count that is out of range.
    pub fn pass(&mut self, batch: RecordBatch, columns: &[ResultColumn]) -> Result<RecordBatch> {
        let mut batch = batch;
        for column in &mut self.0 {
            match &mut column.takes {
                Takes::Last(last) => {
                    if let Some(row) = batch.num_rows().checked_sub(1) {
                        let cells = Cells::of(&batch, columns)?;
                        *last = Some(cell_value(&cells[column.at], row));
                    }
                }
                Takes::Count { step, now } => {
                    batch = counted(&batch, column.at, *step, now)?;
                }
            }
        }
        Ok(batch)
    }

    /// Assigns the values, once all rows have passed.
    ///
    /// # Errors
    /// 1041 when they take too much memory.
    pub fn finish(self, session: &mut Session) -> Result<()> {
        for column in self.0 {
            let value = match column.takes {
                Takes::Last(value) => value,
                Takes::Count { now, .. } => now.map(Value::Int),
            };
            if let Some(value) = value {
                session.set_user_variable(&column.variable, (value, column.collation))?;
            }
        }
        Ok(())
    }
}

/// The whole number that a count begins with.
fn number(session: &Session, variable: &str) -> Result<Option<i64>> {
    let wrong = match session.user_variables.get(variable) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Int(number)) => return Ok(Some(*number)),
        Some(Value::UInt(number)) => i64::try_from(*number).ok(),
        Some(Value::Decimal(text) | Value::Text(text)) => text.parse().ok(),
        Some(Value::Double(_)) => None,
    };
    match wrong {
        Some(number) => Ok(Some(number)),
        None => {
            bail!(NotSupported, "a count by ':=' begins with a whole number: SET @{variable} = 0")
        }
    }
}

/// The rows with a count in a column.
fn counted(
    batch: &RecordBatch,
    at: usize,
    step: i64,
    now: &mut Option<i64>,
) -> Result<RecordBatch> {
    let mut values = Vec::with_capacity(batch.num_rows());
    for _ in 0..batch.num_rows() {
        if let Some(before) = *now {
            let Some(after) = before.checked_add(step) else {
                bail!(ExpressionRange, "BIGINT value is out of range in '{before} + {step}'");
            };
            *now = Some(after);
        }
        values.push(*now);
    }
    with_numbers(batch, at, Int64Array::from(values))
}

/// The rows with these numbers in a column.
///
/// # Errors
/// Never, as long as there is one for each row.
pub fn with_numbers(batch: &RecordBatch, at: usize, numbers: Int64Array) -> Result<RecordBatch> {
    let mut fields = batch.schema().fields().iter().cloned().collect::<Vec<_>>();
    let counts = Field::new(fields[at].name(), DataType::Int64, true);
    fields[at] = Arc::new(counts.with_metadata(fields[at].metadata().clone()));
    let mut arrays = batch.columns().to_vec();
    let numbers: ArrayRef = Arc::new(numbers);
    arrays[at] = numbers;
    match RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays) {
        Ok(batch) => Ok(batch),
        Err(error) => bail!(Internal, "numbers do not fit their column: {error}"),
    }
}

/// The collation that a variable keeps of a column; `None` for that of literals, and for what is no
/// text.
pub fn kept_collation(session: &Session, column: &ResultColumn) -> Option<Collation> {
    match column.derived {
        Some(derived) if derived.strength >= Strength::Coercible => {
            let id = variables::find("collation_connection");
            let of_literals = match id.map(|id| id.of(&session.variables)) {
                Some(Value::Text(name)) => Collation::standing_for(name),
                _ => None,
            };
            Some(derived.collation)
                .filter(|known| *known != of_literals.unwrap_or(Collation::Utf8mb4Bin))
        }
        Some(derived) => Some(derived.collation),
        None => column.is_bytes().then_some(Collation::Binary),
    }
}

/// A value of a result, for a variable.
pub fn cell_value(cells: &Cells, row: usize) -> Value {
    if cells.is_null(row) {
        return Value::Null;
    }
    match cells {
        Cells::Bool(values) => Value::Int(values.value(row).into()),
        Cells::Int(values) => Value::Int(values.value(row)),
        Cells::UInt(values) | Cells::Year(values) | Cells::Bits(values, _) => {
            Value::UInt(values.value(row))
        }
        Cells::Float(values) => Value::Double(values.value(row).into()),
        Cells::Double(values, _) => Value::Double(values.value(row)),
        Cells::Decimal(..) | Cells::Large(..) => {
            let mut digits = Vec::new();
            cells.exact(row, &mut digits);
            Value::Decimal(String::from_utf8_lossy(&digits).into_owned())
        }
        _ => {
            let mut text = Vec::new();
            cells.text(row, &mut text);
            Value::Text(String::from_utf8_lossy(&text).into_owned())
        }
    }
}
