//! The generated columns of a table, as they are computed over encoded rows, and defaults that are
//! expressions.

use std::fmt;
use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_ingest::decode::{ComputedDefaults, GeneratedValues, InsertPlan, RowEncoder, Warnings};
use freshet_query::row_expr::RowExpr;
use freshet_schema::row::{Put, RowCells, RowWriter};
use freshet_schema::{Column, Rules, TableSchema, Zone};

use crate::statement::cells::put_cell;

/// The generated columns of a schema version.
pub struct GeneratedColumns {
    /// In the order in which they are computed.
    all: Vec<ComputedColumn>,
    /// Of the row.
    cells: RowCells,
    columns: usize,
}

struct ComputedColumn {
    /// Its place in the table.
    at: usize,
    expr: RowExpr,
    /// Encodes a row of this column alone.
    plan: InsertPlan,
    /// Of such a row.
    cells: RowCells,
}

impl ComputedColumn {
    /// Those of a schema for which `compile` gives an expression.
    fn all(
        schema: &TableSchema,
        compile: impl Fn(&Column) -> Result<Option<RowExpr>>,
    ) -> Result<Vec<Self>> {
        let columns = schema.columns.iter().enumerate();
        let computed = columns.filter_map(|(at, column)| {
            let expr = compile(column).transpose()?;
            Some(expr.and_then(|expr| Self::new(schema, at, expr)))
        });
        computed.collect()
    }

    fn new(schema: &TableSchema, at: usize, expr: RowExpr) -> Result<Self> {
        let plain = Column { generated: None, default: None, ..schema.columns[at].clone() };
        let alone = Arc::new(TableSchema::new(schema.version, vec![plain], Vec::new()));
        let plan = InsertPlan::partial::<&str>(&alone, None, 0, &Rules::default())?;
        Ok(Self { at, expr, plan, cells: RowCells::new(&alone) })
    }

    /// A row of this column alone, computed over the cells of a row.
    fn compute<'r>(
        &self,
        cell: impl Fn(usize) -> Option<&'r [u8]>,
        number: u64,
        rules: &Rules,
        warnings: &mut Warnings,
    ) -> Result<Vec<u8>> {
        let mut alone = Vec::new();
        self.expr.evaluate(cell, |cells, at| {
            let encoder = RowEncoder::new(&self.plan, rules, &mut alone);
            let mut encoder = encoder.counting_from(number);
            encoder.begin_row();
            put_cell(&mut encoder, cells, at, &mut Vec::new())
                .and_then(|()| encoder.end_row())
                .map_err(|fault| fault.error(&self.plan, number))?;
            warnings.append(encoder.into_warnings());
            Ok(())
        })?;
        if alone.is_empty() {
            bail!(Internal, "the expression of a column has no value");
        }
        Ok(alone)
    }
}

/// The defaults of a schema that are expressions.
pub struct DefaultColumns(Vec<ComputedColumn>);

impl DefaultColumns {
    /// Those of a schema; `compile` plans the default of a column, if it is an expression.
    ///
    /// # Errors
    /// Those of `compile`.
    pub fn new(
        schema: &TableSchema,
        compile: impl Fn(&Column) -> Result<Option<RowExpr>>,
    ) -> Result<Self> {
        ComputedColumn::all(schema, compile).map(Self)
    }
}

impl fmt::Debug for DefaultColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|column| column.at)).finish()
    }
}

impl ComputedDefaults for DefaultColumns {
    fn compute(
        &self,
        column: usize,
        number: u64,
        rules: &Rules,
        warnings: &mut Warnings,
        out: &mut Vec<u8>,
    ) -> Result<Put> {
        let Some(computed) = self.0.iter().find(|computed| computed.at == column) else {
            bail!(Internal, "the default of a column is no expression");
        };
        let alone = computed.compute(|_| None, number, rules, warnings)?;
        match computed.cells.encoded(&alone, 0) {
            Some(cell) => out.extend_from_slice(cell),
            None => return Ok(Put::Null),
        }
        Ok(Put::Value)
    }

    fn is_of_statement(&self) -> bool {
        self.0.iter().any(|computed| computed.expr.is_of_statement())
    }
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
        let all = ComputedColumn::all(schema, compile)?;
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
            let cell = |at| self.cell(row, &computed, at);
            let alone = column.compute(cell, number, &rules, warnings)?;
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
