//! Values that a lax SQL mode adjusts.

use freshet_schema::row::Put;
use freshet_schema::value::adjust;
use freshet_schema::{BadValue, Column, Literal, Rules};

use super::super::warnings::Warnings;

/// Maximum length of the value quoted in an error or warning.
const VALUE_BYTES_MAX: usize = 256;

/// Writes a value that does not fit its column as the mode adjusts it, with a warning.
#[cold]
pub(super) fn mend(
    column: &Column,
    literal: Literal<'_>,
    bad: BadValue,
    rules: &Rules,
    row: u64,
    warnings: &mut Warnings,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let put = adjust(column, literal, bad.clone(), rules, out)?;
    let (code, message) = bad.warning(column, &beginning(literal), row, put);
    warnings.tell(code, || message);
    Ok(put)
}

/// The beginning of a value as it was written.
#[cold]
pub(super) fn beginning(literal: Literal<'_>) -> Vec<u8> {
    let mut value = match literal {
        Literal::Null => b"NULL".to_vec(),
        Literal::Int(value) => value.to_string().into_bytes(),
        Literal::Float(value) => value.to_string().into_bytes(),
        Literal::Time(value) => value.to_string().into_bytes(),
        Literal::Number(text) | Literal::Text(text) | Literal::Binary(text) => {
            text[..text.len().min(VALUE_BYTES_MAX)].to_vec()
        }
        Literal::Sketch(_) => b"a sketch".to_vec(),
    };
    value.truncate(VALUE_BYTES_MAX);
    value
}
