//! How a statement finds its tables.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use freshet_base::{Error, Result, bail};
use freshet_meta::{Account, View};

use crate::provider::StoredTable;

/// A table that a query reads, as the planner takes it.
#[derive(Clone)]
pub struct Table {
    pub(crate) provider: Arc<dyn TableProvider>,
    /// The condition of the rows that the query sees; `None` if these are all.
    pub(crate) row_filter: Option<Arc<str>>,
}

impl Table {
    /// A table that is not stored, or is wrapped.
    pub fn new(provider: Arc<dyn TableProvider>) -> Self {
        Self { provider, row_filter: None }
    }

    /// The same, of which a query sees the rows that satisfy a condition of their columns, as its
    /// text in the default `sql_mode` says.
    #[must_use]
    pub fn filtered(self, condition: Option<String>) -> Self {
        Self { row_filter: condition.map(Arc::from), ..self }
    }

    /// The same, of which a query that reads a column fails with what `denied` says of it.
    ///
    /// # Errors
    /// `NotSupported` for a table that is not stored.
    pub fn guarded(self, denied: impl Fn(&str) -> Option<Error>) -> Result<Self> {
        let Some(stored) = self.provider.downcast_ref::<StoredTable>() else {
            bail!(NotSupported, "privileges on columns are those of stored tables");
        };
        Ok(Self { provider: Arc::new(stored.guarded(denied)), ..self })
    }

    /// The same, where what it says of a column that must not be read becomes what `told` makes of
    /// it.
    #[must_use]
    pub(crate) fn denying(self, told: impl Fn(Error) -> Error) -> Self {
        match self.provider.downcast_ref::<StoredTable>().and_then(|table| table.denying(told)) {
            Some(table) => Self { provider: Arc::new(table), ..self },
            None => self,
        }
    }

    /// The types of its columns as a query sees them.
    pub fn schema(&self) -> SchemaRef {
        self.provider.schema()
    }
}

/// Resolves table names for a statement: all its tables come from the same snapshot.
///
/// Views are read with the rights of an account of their own: `reader` is that account, and `None`
/// stands for the session's.
pub trait Tables: Send + Sync {
    /// The table of this name.
    ///
    /// # Errors
    /// 1049 for an unknown database, 1146 for an unknown table.
    fn table(&self, database: &str, name: &str) -> Result<Table>;

    /// The temporary table of the session that has this name; `None` if there is none. Views do
    /// not read them.
    ///
    /// # Errors
    /// When it may not be read here.
    fn own_table(&self, _database: &str, _name: &str) -> Result<Option<Table>> {
        Ok(None)
    }

    /// As [`Self::table`], with the rights of `reader`.
    ///
    /// # Errors
    /// As [`Self::table`].
    fn table_of(&self, _reader: &Account, database: &str, name: &str) -> Result<Table> {
        self.table(database, name)
    }

    /// The view of this name; `None` if there is none.
    ///
    /// # Errors
    /// When `reader` may not read it.
    fn view(
        &self,
        _reader: Option<&Account>,
        _database: &str,
        _name: &str,
    ) -> Result<Option<Arc<View>>> {
        Ok(None)
    }
}
