//! Rows of a prepared INSERT: its parameters alone, or literals with `?` among them.

use freshet_base::Result;
use freshet_schema::Rules;

use super::params::{ParamReader, Params};
use super::values::{Dialect, NoRows, Scanned, scan};
use super::{Fault, InsertPlan, RowEncoder};

/// The text after VALUES of a prepared INSERT.
#[derive(Clone, Debug)]
pub struct PreparedRows {
    text: Vec<u8>,
    dialect: Dialect,
    /// Whether every value is a `?`, so that the text need not be scanned for each execution.
    only_params: bool,
}

impl PreparedRows {
    /// Checks `text`, which begins after VALUES, for other values than `?`.
    pub fn new(text: &[u8], dialect: Dialect) -> Self {
        let plain =
            |byte: &u8| matches!(byte, b'(' | b')' | b',' | b'?') || byte.is_ascii_whitespace();
        Self { text: text.to_vec(), dialect, only_params: text.iter().all(plain) }
    }

    /// Encodes the rows of one execution and appends them to `out`; on error `out` is unchanged.
    pub fn rows(
        &self,
        params: Params<'_>,
        plan: &InsertPlan,
        rules: &Rules,
        out: &mut Vec<u8>,
    ) -> Result<Scanned, NoRows> {
        if self.only_params && plan.width() > 0 {
            return params_to_rows(params, plan, rules, out).map_err(NoRows::Bad);
        }
        let mut reader = ParamReader::new(params);
        scan(&self.text, plan, rules, self.dialect, Some(&mut reader), out)
    }
}

/// Encodes parameters as rows with the values of the plan, row by row.
fn params_to_rows(
    params: Params<'_>,
    plan: &InsertPlan,
    rules: &Rules,
    out: &mut Vec<u8>,
) -> Result<Scanned> {
    let width = plan.width();
    if width == 0 || !params.count().is_multiple_of(width) {
        return Err(Fault::Count { expected: width }.error(plan, 1));
    }
    let length_before = out.len();
    let mut encoder = RowEncoder::new(plan, rules, out);
    let mut reader = ParamReader::new(params);
    let mut encode = || {
        for _ in 0..params.count() / width {
            encoder.begin_row();
            for _ in 0..width {
                reader.put_next(&mut encoder)?;
            }
            encoder.end_row()?;
        }
        Ok(())
    };
    let encoded: Result<(), Box<Fault>> = encode();
    let result = encoded.map_err(|fault| {
        reader.broken().unwrap_or_else(|| fault.error(plan, encoder.row_number()))
    });
    let scanned = result
        .and_then(|()| Ok(Scanned { encoded: encoder.finish()?, consumed: 0, is_plain: true }));
    if scanned.is_err() {
        out.truncate(length_before);
    }
    scanned
}

#[cfg(test)]
mod tests;
