//! The generated columns of a table, as they are computed over encoded rows.

use std::fmt;
use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_ingest::decode::{GeneratedValues, InsertPlan, RowEncoder, Warnings};
use freshet_query::row_expr::RowExpr;
use freshet_schema::row::{RowCells, RowWriter};
use freshet_schema::{Column, Rules, TableSchema, Zone};

use crate::statement::cells::put_cell;

/// The generated columns of a schema version.
pub struct GeneratedColumns {
    /// In the order in which they are computed.
    all: Vec<GeneratedColumn>,
    /// Of the row.
    cells: RowCells,
    columns: usize,
}

struct GeneratedColumn {
    /// Its place in the table.
    at: usize,
    expr: RowExpr,
    /// Encodes a row of this column alone.
    plan: InsertPlan,
    /// Of such a row.
    cells: RowCells,
}

impl fmt::Debug for GeneratedColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|column| column.at)).finish()
    }
}

impl GeneratedColumns {
    /// Those of a schema; `compile` plans the expression of a column.
    ///
    /// # Errors
    /// Those of `compile`.
    pub fn new(
        schema: &TableSchema,
        compile: impl Fn(&Column) -> Result<Option<RowExpr>>,
    ) -> Result<Self> {
        let mut all = Vec::new();
        for (at, column) in schema.columns.iter().enumerate() {
            let Some(expr) = compile(column)? else { continue };
            let plain = Column { generated: None, ..column.clone() };
            let alone = Arc::new(TableSchema::new(schema.version, vec![plain], Vec::new()));
            let plan = InsertPlan::partial::<&str>(&alone, None, 0, &Rules::default())?;
            all.push(GeneratedColumn { at, expr, plan, cells: RowCells::new(&alone) });
        }
        Ok(Self { all, cells: RowCells::new(schema), columns: schema.columns.len() })
    }

    /// The cell of a column: a computed one if it was computed already.
    fn cell<'r>(&'r self, row: &'r [u8], computed: &'r [Vec<u8>], at: usize) -> Option<&'r [u8]> {
        match self.all.iter().zip(computed).find(|(column, _)| column.at == at) {
            Some((column, alone)) => column.cells.encoded(alone, 0),
            None => self.cells.encoded(row, at),
        }
    }
}

impl GeneratedValues for GeneratedColumns {
    fn compute(
        &self,
        row: &[u8],
        number: u64,
        rules: &Rules,
        warnings: &mut Warnings,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        // The clock of expressions is UTC, whatever the session's is.
        let rules = Rules { zone: Zone::UTC, ..*rules };
        let mut computed = Vec::with_capacity(self.all.len());
        for column in &self.all {
            let mut alone = Vec::new();
            column.expr.evaluate(
                |at| self.cell(row, &computed, at),
                |cells, at| {
                    let encoder = RowEncoder::new(&column.plan, &rules, &mut alone);
                    let mut encoder = encoder.counting_from(number);
                    encoder.begin_row();
                    put_cell(&mut encoder, cells, at, &mut Vec::new())
                        .and_then(|()| encoder.end_row())
                        .map_err(|fault| fault.error(&column.plan, number))?;
                    warnings.append(encoder.into_warnings());
                    Ok(())
                },
            )?;
            if alone.is_empty() {
                bail!(Internal, "the expression of a generated column has no value");
            }
            computed.push(alone);
        }
        let mut writer = RowWriter::new(self.columns, out);
        writer.begin_row();
        for at in 0..self.columns {
            match self.cell(row, &computed, at) {
                Some(cell) => writer.put_encoded(cell),
                None => writer.put_null(),
            }
        }
        writer.end_row();
        Ok(())
    }
}
