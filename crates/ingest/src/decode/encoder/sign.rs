//! Rows that delete their key.

use freshet_schema::row::Put;
use freshet_schema::{BadValue, Column, Literal, Rules};

use super::mend::{beginning, mend};
use super::{Fault, RowEncoder};

impl RowEncoder<'_> {
    /// Says whether the current row deletes its key: constraints do not concern it then, and where
    /// rows have columns of their own, it is given none. The last word counts.
    pub fn set_deletes(&mut self, deletes: bool) {
        self.deletes = deletes;
    }

    /// Reads whether the current row deletes its key: its value is not 0.
    #[inline(never)]
    pub(super) fn put_sign(
        &mut self,
        at: usize,
        literal: Literal<'_>,
        write: impl FnOnce(&Column, &Rules, &mut Vec<u8>) -> Result<Put, BadValue>,
    ) -> Result<(), Box<Fault>> {
        let (column, row) = (self.plan.column_at(at), self.row_number());
        let (rules, warnings) = (&self.rules, &mut self.warnings);
        let mut cell = Vec::new();
        let put = write(column, rules, &mut cell)
            .or_else(|bad| mend(column, literal, bad, rules, row, warnings, &mut cell))
            .map_err(|bad| Box::new(Fault::Value { column: at, bad, value: beginning(literal) }))?;
        self.set_deletes(matches!(put, Put::Value) && cell != [0]);
        Ok(())
    }
}
