//! The fields of a row as the values of columns.

use freshet_base::{ErrorCode, Result};
use freshet_ingest::decode::fields::FieldRow;
use freshet_ingest::decode::{Fault, InsertPlan, RowEncoder};
use freshet_schema::value::put_implicit;
use freshet_schema::{Literal, OnBad, Put, Rules};

use crate::statement::cells::{line_of, put};

/// What becomes of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Slot {
    /// It is the next value of the row.
    Value,
    /// It goes to a user variable, and the value of the last row stays there.
    Variable(String),
    /// It is of a generated column, and nothing becomes of it.
    Ignored,
}

/// Encodes a row; `number` and `plan` are for messages.
///
/// # Errors
/// Values that a column does not take, in strict mode also too few or too many fields.
pub fn encode_row(
    encoder: &mut RowEncoder<'_>,
    row: &FieldRow,
    slots: &[Slot],
    (number, plan): (u64, &InsertPlan),
    rules: &Rules,
) -> Result<()> {
    encoder.begin_row();
    let mut fields = row.fields();
    for slot in slots {
        let field = fields.next();
        if *slot != Slot::Value {
            continue;
        }
        let done = match field {
            Some(Some(text)) => put(encoder, Literal::Text(text)),
            Some(None) => put_null(encoder, number, rules)?,
            None => {
                let message = || format!("Row {number} doesn't contain data for all columns");
                tell(encoder, ErrorCode::TooFewFields, rules, message)?;
                encoder.put_default()
            }
        };
        done.map_err(|fault| fault.error(plan, number))?;
    }
    if row.has_more {
        let message = || {
            format!(
                "Row {number} was truncated; it contained more data than there were input columns"
            )
        };
        tell(encoder, ErrorCode::TooManyFields, rules, message)?;
    }
    encoder.end_row().map_err(|fault| fault.error(plan, number))?;
    encoder.source(|| line_of(row.fields()));
    Ok(())
}

fn put_null(
    encoder: &mut RowEncoder<'_>,
    number: u64,
    rules: &Rules,
) -> Result<Result<(), Box<Fault>>> {
    let Some(column) = encoder.column() else { return Ok(encoder.put_null()) };
    if column.nullable || column.auto_increment.is_some() || rules.on_bad == OnBad::Null {
        return Ok(encoder.put_null());
    }
    let name = &column.name;
    let message = || {
        format!(
            "Column set to default value; NULL supplied to NOT NULL column '{name}' at row {number}"
        )
    };
    tell(encoder, ErrorCode::NullToNotNull, rules, message)?;
    Ok(encoder.put(Literal::Null, |column, _, out| {
        put_implicit(column.ty, out);
        Ok(Put::Value)
    }))
}

/// Warns, or in strict mode fails.
fn tell(
    encoder: &mut RowEncoder<'_>,
    code: ErrorCode,
    rules: &Rules,
    message: impl FnOnce() -> String,
) -> Result<()> {
    if rules.strict() {
        return Err(freshet_base::Error::new(code, message()));
    }
    encoder.warnings_mut().tell(code, message);
    Ok(())
}

/// Remembers the fields of user variables.
pub fn note_variables(
    row: &FieldRow,
    slots: &[Slot],
    variables: &mut Vec<(String, Option<Vec<u8>>)>,
) {
    if !slots.iter().any(|slot| *slot != Slot::Value) {
        return;
    }
    variables.clear();
    let mut fields = row.fields();
    for slot in slots {
        let field = fields.next().flatten();
        if let Slot::Variable(name) = slot {
            variables.push((name.clone(), field.map(<[u8]>::to_vec)));
        }
    }
}
