//! CHECK constraints as they are evaluated over encoded rows, before these are stored.

use std::fmt;
use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_schema::row::RowCells;
use freshet_schema::{Check, RowChecks, TableSchema};

use crate::engine::{QueryEngine, StatementContext};
use crate::evaluation::Losses;
use crate::mapping::is_false;
use crate::parser::load_condition;
use crate::result::Cells;
use crate::row_expr::{Compiling, RowExpr};
use crate::tables::Table;

/// The enforced constraints of a schema version.
pub struct CompiledChecks {
    /// With their names; whether each is false.
    all: Vec<(String, RowExpr)>,
    cells: RowCells,
}

impl fmt::Debug for CompiledChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|(name, _)| name)).finish()
    }
}

impl RowChecks for CompiledChecks {
    fn check(&self, row: &[u8]) -> Result<()> {
        for (name, is_false) in &self.all {
            let mut is_violated = false;
            is_false.evaluate(
                |at| self.cells.encoded(row, at),
                |cells, row| {
                    is_violated |= match cells {
                        Cells::Bool(values) => values.value(row),
                        Cells::Int(values) => values.value(row) != 0,
                        _ => bail!(Internal, "IS FALSE gives something else than a truth value"),
                    };
                    Ok(())
                },
            )?;
            if is_violated {
                bail!(CheckViolated, "Check constraint '{name}' is violated.");
            }
        }
        Ok(())
    }
}

impl QueryEngine {
    /// Plans the enforced constraints of a schema; `context` is the session of a query that reads
    /// this table alone.
    ///
    /// # Errors
    /// Unknown functions and columns; 3815 for a condition whose value depends on more than a row.
    pub fn compiled_checks(
        &self,
        schema: &TableSchema,
        context: impl Fn(Table) -> Arc<dyn StatementContext>,
    ) -> Result<CompiledChecks> {
        let compiled = |check: &Check| {
            let what = format!("Check constraint '{}'", check.name);
            let compiling = Compiling {
                what: &what,
                columns: &check.columns,
                expr: is_false(load_condition(&check.text)?),
                losses: Losses::default(),
            };
            let Some(expr) = self.row_expr(schema, compiling, &context)? else {
                bail!(
                    CheckFunction,
                    "An expression of a check constraint '{}' contains disallowed function: its \
                     value depends on more than the row",
                    check.name
                );
            };
            Ok((check.name.clone(), expr))
        };
        let all = schema.checks.iter().filter(|check| check.is_enforced).map(compiled);
        Ok(CompiledChecks { all: all.collect::<Result<_>>()?, cells: RowCells::new(schema) })
    }
}
