//! CHECK constraints, and CHECK OPTION of views, as they are evaluated over encoded rows, before
//! these are stored.

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
use crate::through::Through;

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
            if is_true(is_false, &self.cells, row)? {
                bail!(CheckViolated, "Check constraint '{name}' is violated.");
            }
        }
        Ok(())
    }
}

/// Whether an expression that is IS TRUE or IS FALSE holds for an encoded row.
fn is_true(expr: &RowExpr, cells: &RowCells, row: &[u8]) -> Result<bool> {
    let mut holds = false;
    expr.evaluate(
        |at| cells.encoded(row, at),
        |cells, row| {
            holds |= match cells {
                Cells::Bool(values) => values.value(row),
                Cells::Int(values) => values.value(row) != 0,
                _ => bail!(Internal, "IS TRUE gives something else than a truth value"),
            };
            Ok(())
        },
    )?;
    Ok(holds)
}

/// What rows have to satisfy that are written through a view, behind the constraints of its table.
pub struct ViewCheck {
    /// Database and name of the view.
    view: (String, String),
    /// Whether the row is one that the view shows.
    holds: RowExpr,
    cells: RowCells,
    constraints: Option<Arc<dyn RowChecks>>,
}

impl ViewCheck {
    /// The same, behind these.
    #[must_use]
    pub fn behind(self, constraints: Option<Arc<dyn RowChecks>>) -> Self {
        Self { constraints, ..self }
    }
}

impl fmt::Debug for ViewCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ViewCheck").field(&self.view).field(&self.constraints).finish()
    }
}

impl RowChecks for ViewCheck {
    fn check(&self, row: &[u8]) -> Result<()> {
        self.constraints.as_ref().map_or(Ok(()), |constraints| constraints.check(row))?;
        if is_true(&self.holds, &self.cells, row)? {
            return Ok(());
        }
        let (database, view) = &self.view;
        bail!(CheckOptionFailed, "CHECK OPTION failed '{database}.{view}'")
    }
}

impl QueryEngine {
    /// Plans what a view asks of the rows of its table, which has this schema; `context` is the
    /// session of a query that reads this table alone. `None` if it asks nothing.
    ///
    /// # Errors
    /// As [`Self::compiled_checks`]; `NotSupported` for a condition that depends on more than a
    /// row.
    pub fn view_check(
        &self,
        schema: &TableSchema,
        through: &Through,
        context: impl Fn(Table) -> Arc<dyn StatementContext>,
    ) -> Result<Option<ViewCheck>> {
        let Some((expr, columns)) = through.check(schema)? else { return Ok(None) };
        let (database, view) = &through.views[0];
        let what = format!("The condition of view '{}'", view.name);
        let losses = Losses::default();
        let compiling = Compiling { what: &what, columns: &columns, expr, losses };
        let Some(holds) = self.row_expr(schema, compiling, context)? else {
            bail!(
                NotSupported,
                "WITH CHECK OPTION of view '{}' is not supported: the value of its condition \
                 depends on more than a row",
                view.name
            );
        };
        let (view, cells) = ((database.clone(), view.name.clone()), RowCells::new(schema));
        Ok(Some(ViewCheck { view, holds, cells, constraints: None }))
    }

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
