//! How a statement finds its tables.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use freshet_base::Result;

/// A table that a query reads, as the planner takes it.
pub struct Table(pub(crate) Arc<dyn TableProvider>);

impl Table {
    /// A table that is not stored, or is wrapped.
    pub fn new(provider: Arc<dyn TableProvider>) -> Self {
        Self(provider)
    }

    /// The types of its columns as a query sees them.
    pub fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// Resolves table names for a statement: all its tables come from the same snapshot.
pub trait Tables: Send + Sync {
    /// The table of this name.
    ///
    /// # Errors
    /// 1049 for an unknown database, 1146 for an unknown table.
    fn table(&self, database: &str, name: &str) -> Result<Table>;
}
