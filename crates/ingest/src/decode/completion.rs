//! What completes a row, before it is stored: the values of its generated columns, and constraints.

use std::fmt;
use std::sync::Arc;

use freshet_base::Result;
use freshet_schema::{Put, RowChecks, Rules};

use super::warnings::Warnings;

/// The generated columns of a table, ready to be computed over rows.
pub trait GeneratedValues: Send + Sync + fmt::Debug {
    /// Appends an encoded row with the values of generated columns, whatever it has in their
    /// place; `number` is that of the row, for messages.
    ///
    /// # Errors
    /// Those of the expressions; values that the columns do not take.
    fn compute(
        &self,
        row: &[u8],
        number: u64,
        rules: &Rules,
        warnings: &mut Warnings,
        out: &mut Vec<u8>,
    ) -> Result<()>;
}

/// The defaults of a schema that are expressions, ready to be computed.
pub trait ComputedDefaults: Send + Sync + fmt::Debug {
    /// Appends the encoded cell of a column that has such a default; `number` is that of the row,
    /// for messages.
    ///
    /// # Errors
    /// Those of the expression; a value that the column does not take.
    fn compute(
        &self,
        column: usize,
        number: u64,
        rules: &Rules,
        warnings: &mut Warnings,
        out: &mut Vec<u8>,
    ) -> Result<Put>;

    /// Whether they hold for one statement only, as with the time.
    fn is_of_statement(&self) -> bool;
}

/// What completes the rows of a table.
#[derive(Clone, Debug, Default)]
pub struct Completion {
    pub generated: Option<Arc<dyn GeneratedValues>>,
    pub checks: Option<Arc<dyn RowChecks>>,
}

impl Completion {
    /// Whether rows stay as they are.
    pub fn is_nothing(&self) -> bool {
        self.generated.is_none() && self.checks.is_none()
    }

    /// Completes the row that `out` has from `start` on; `number` is for messages.
    ///
    /// # Errors
    /// Those of [`GeneratedValues::compute`]; 3819.
    pub fn complete(
        &self,
        out: &mut Vec<u8>,
        start: usize,
        number: u64,
        rules: &Rules,
        warnings: &mut Warnings,
    ) -> Result<()> {
        if let Some(generated) = &self.generated {
            let row = out.split_off(start);
            generated.compute(&row, number, rules, warnings, out)?;
        }
        match &self.checks {
            Some(checks) => checks.check(&out[start..]),
            None => Ok(()),
        }
    }
}
