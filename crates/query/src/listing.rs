//! Filters rows in memory, for the WHERE clause of SHOW.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::datasource::MemTable;
use freshet_base::Result;
use sqlparser::ast::SetExpr;

use crate::engine::{PlanRequest, QueryEngine, StatementContext};
use crate::error::mapped;
use crate::evaluation::Losses;
use crate::parser::{Statement, parse};
use crate::session::Session;
use crate::syntax::Scalar;
use crate::tables::{Table, Tables};

/// The rows as the only table, with the statement's origin.
struct Listing(Arc<MemTable>, Arc<dyn StatementContext>);

impl Tables for Listing {
    fn table(&self, _database: &str, _name: &str) -> Result<Table> {
        Ok(Table::new(Arc::clone(&self.0) as _))
    }
}

impl StatementContext for Listing {
    fn session(&self) -> Session<'_> {
        self.1.session()
    }
}

impl QueryEngine {
    /// The rows of `batch` that satisfy a condition on its columns.
    ///
    /// # Errors
    /// Unknown columns, and errors of evaluation.
    pub async fn filter(
        &self,
        batch: &RecordBatch,
        condition: &Scalar,
        origin: Arc<dyn StatementContext>,
    ) -> Result<Vec<RecordBatch>> {
        let lower = |field: &Arc<arrow::datatypes::Field>| {
            field.as_ref().clone().with_name(field.name().to_lowercase())
        };
        let fields = batch.schema().fields().iter().map(lower).collect::<Vec<_>>();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec())
            .expect("names do not change columns");
        let table = MemTable::try_new(schema, vec![vec![batch]]).map_err(mapped)?;
        let mut statements = parse("SELECT * FROM listing.listing", origin.session().mode)?;
        let Statement::Query(mut query) = statements.remove(0).statement else {
            unreachable!("the text above is a query")
        };
        if let SetExpr::Select(select) = &mut *query.0.body {
            select.selection = Some(condition.0.clone());
        }
        let origin = Arc::new(Listing(Arc::new(table), origin));
        let losses = Losses::default();
        let asked =
            PlanRequest { query, texts: Vec::new(), parameters: Vec::new(), origin, losses };
        let (_, mut rows) = self.select(asked, Vec::new()).await?;
        rows.collect().await
    }
}
