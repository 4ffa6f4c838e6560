//! Of which databases and tables a query wants rows, and a system table that makes no others:
//! drivers ask for one table after the other, and a server may have very many.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};
use datafusion::physical_plan::ExecutionPlan;
use freshet_meta::{Database, RESERVED_DATABASES};
use freshet_schema::Table;

use crate::functions::meaning;

/// The column that has the name of the database, in lower case.
const DATABASE: &str = "table_schema";
/// The column that has the name of the table, in lower case.
const TABLE: &str = "table_name";

/// The databases and tables that may have rows that satisfy a condition; `None` for all. Their
/// names are compared by bytes, as those of the columns are.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Wanted {
    databases: Option<BTreeSet<String>>,
    tables: Option<BTreeSet<String>>,
}

impl Wanted {
    /// All databases and tables.
    pub const ALL: Self = Self { databases: None, tables: None };

    pub fn has_database(&self, name: &str) -> bool {
        self.databases.as_ref().is_none_or(|wanted| wanted.contains(name))
    }

    pub fn has_table(&self, name: &str) -> bool {
        self.tables.as_ref().is_none_or(|wanted| wanted.contains(name))
    }

    /// The tables of a database that are wanted, ordered by name.
    pub fn tables_of<'a>(
        &'a self,
        database: &'a Database,
    ) -> Box<dyn Iterator<Item = &'a Arc<Table>> + 'a> {
        match &self.tables {
            Some(names) => Box::new(names.iter().filter_map(|name| database.tables.get(name))),
            None => Box::new(database.tables.values()),
        }
    }

    /// Whether rows of the system databases are wanted.
    pub fn has_system(&self) -> bool {
        RESERVED_DATABASES.iter().any(|name| self.has_database(name))
    }

    /// What else a condition that must be true, too, leaves of it.
    fn narrow(&mut self, condition: &Arc<dyn PhysicalExpr>) {
        for LiteralGuarantee { column, guarantee, literals } in LiteralGuarantee::analyze(condition)
        {
            let of_column = match column.name.as_str() {
                DATABASE => &mut self.databases,
                TABLE => &mut self.tables,
                _ => continue,
            };
            // What is no text is compared in another way than by bytes.
            let texts = literals.iter().map(|literal| literal.try_as_str());
            let Some(texts) = texts.collect::<Option<Vec<_>>>() else { continue };
            if guarantee == Guarantee::In {
                // Nothing equals NULL.
                let names = texts.into_iter().flatten();
                let kept =
                    names.filter(|name| of_column.as_ref().is_none_or(|of| of.contains(*name)));
                *of_column = Some(kept.map(str::to_owned).collect());
            }
        }
    }
}

/// Makes at least the rows that are wanted.
type MakeRows = dyn Fn(&Wanted) -> Vec<RecordBatch> + Send + Sync;

/// A system table that names databases and tables. Its rows are made when a plan has chosen which
/// of them it reads; the plan looks at its conditions again.
pub struct NamedPlaces {
    schema: SchemaRef,
    batches: Box<MakeRows>,
}

impl NamedPlaces {
    /// A table of this schema; `batches` gives at least the rows that are wanted.
    pub fn new(
        schema: SchemaRef,
        batches: impl Fn(&Wanted) -> Vec<RecordBatch> + Send + Sync + 'static,
    ) -> Self {
        Self { schema, batches: Box::new(batches) }
    }

    fn wanted(&self, state: &dyn Session, filters: &[Expr]) -> Result<Wanted> {
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let mut wanted = Wanted::ALL;
        for filter in filters {
            let filter = meaning::bare(filter.clone())?;
            wanted.narrow(&state.create_physical_expr(filter, &schema)?);
        }
        Ok(wanted)
    }
}

impl fmt::Debug for NamedPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedPlaces").finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for NamedPlaces {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let is_of_place = |filter: &&Expr| {
            let columns = filter.column_refs();
            columns.iter().any(|column| [DATABASE, TABLE].contains(&column.name.as_str()))
        };
        let support = |filter| match is_of_place(filter) {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batches = (self.batches)(&self.wanted(state, filters)?);
        let rows = MemTable::try_new(self.schema(), vec![batches])?;
        rows.scan(state, projection, &[], limit).await
    }
}
