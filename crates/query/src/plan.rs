//! Plans of queries, which may be kept and used again.

use std::cell::Cell;

use datafusion::logical_expr::LogicalPlan;
use freshet_base::Result;
use freshet_schema::Collation;

use crate::error::{external, mapped};
use crate::evaluation::{Bounds, Losses, Warnings};
use crate::result::ResultColumn;
use crate::snapshot;
use crate::tables::Tables;
use crate::threads::PlanSize;

/// An optimized query plan with placeholders; it can be bound to any snapshot with the same
/// columns.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) logical: LogicalPlan,
    /// Whether types of placeholders are unknown, so that it is only optimized once they have
    /// values.
    pub(crate) untyped: bool,
    /// The collation of literals.
    pub(crate) collation: Collation,
    /// The threads on which its execution is planned.
    pub(crate) size: PlanSize,
    pub columns: Vec<ResultColumn>,
    /// Whether it contains values of the session or of the current time, so that it cannot be
    /// reused for another execution.
    pub of_session: bool,
    /// Limits on its results.
    pub(crate) bounds: Bounds,
    /// How lossy conversions and divisions by zero are handled.
    pub(crate) losses: Losses,
    /// Warnings from constant folding.
    pub(crate) warnings: Warnings,
}

impl Plan {
    /// Removes the snapshot that the plan was made on, for caching; it must be bound to another one
    /// before execution.
    ///
    /// # Errors
    /// When the plan cannot be rewritten.
    pub fn unbound(self) -> Result<Self> {
        let logical = snapshot::on_tables(self.logical, |provider| Ok(snapshot::unbound(provider)));
        Ok(Self { logical: logical.map_err(mapped)?, ..self })
    }

    /// Binds the plan to the tables of another snapshot; `None` if the columns of a table have
    /// changed, since plans refer to columns by position, and if not all of its rows are seen.
    ///
    /// # Errors
    /// When a table does not exist or the session may not access it.
    pub fn bound(&self, tables: &dyn Tables) -> Result<Option<Self>> {
        let fits = Cell::new(true);
        let logical = snapshot::on_tables(self.logical.clone(), |provider| {
            let Some((database, name)) = snapshot::place(provider) else { return Ok(None) };
            let own = tables.own_table(&database, &name).map_err(external)?;
            let table = own.map_or_else(|| tables.table(&database, &name), Ok);
            let table = table.map_err(external)?;
            let is_whole = table.row_filter.is_none();
            fits.set(fits.get() && is_whole && table.schema() == provider.schema());
            Ok(Some(table.provider))
        });
        let logical = logical.map_err(mapped)?;
        let (columns, warnings) = (self.columns.clone(), self.warnings.clone());
        Ok(fits.get().then(|| Self { logical, columns, warnings, ..*self }))
    }
}
