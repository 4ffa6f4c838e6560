//! Columns of tables around a subquery that reads a column with the name of such a table. In
//! `SELECT .. FROM p WHERE EXISTS (SELECT 1 FROM q WHERE q.p = p.id)` DataFusion takes `p.id` for a
//! field of the column `q.p`, without looking at the tables around.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{Column, Result, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use parking_lot::Mutex;
use sqlparser::ast::TableFactor;

use crate::set_operation::SetOperations;

/// What plans parts of a query.
pub(super) struct Planners {
    pub relations: [Arc<dyn RelationPlanner>; 2],
    pub exprs: Vec<Arc<dyn ExprPlanner>>,
    names: Arc<TableNames>,
}

impl Planners {
    pub fn new(state: &SessionState) -> Self {
        let names = Arc::new(TableNames::default());
        let own = Arc::clone(&names) as Arc<dyn ExprPlanner>;
        // A column of a STRUCT is left to those behind it.
        let exprs = std::iter::once(own).chain(state.expr_planners().iter().cloned()).collect();
        Self { relations: [Arc::new(SetOperations), Arc::clone(&names) as _], exprs, names }
    }

    /// Notes the columns of a table that was found.
    pub fn found(&self, table: &str, schema: SchemaRef) {
        let mut found = self.names.found.lock();
        let known = found.schemas.entry(table.to_owned()).or_insert_with(|| Arc::clone(&schema));
        // Of two tables with one name nothing is said.
        if *known != schema {
            *known = Arc::new(Schema::empty());
        }
    }
}

/// The tables that a query has read so far: those of FROM come before its subqueries.
#[derive(Debug, Default)]
struct TableNames {
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    /// What tables with an alias are called.
    tables: HashMap<String, String>,
    schemas: HashMap<String, SchemaRef>,
}

impl RelationPlanner for TableNames {
    fn plan_relation(
        &self,
        relation: TableFactor,
        _context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let TableFactor::Table { name, alias: Some(alias), .. } = &relation
            && let Some(table) = name.0.last().and_then(|part| part.as_ident())
        {
            let alias = alias.name.value.clone();
            let mut found = self.found.lock();
            let known = found.tables.entry(alias).or_insert_with(|| table.value.clone());
            // An alias of two tables is that of none.
            if *known != table.value {
                known.clear();
            }
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

impl ExprPlanner for TableNames {
    fn plan_compound_identifier(
        &self,
        field: &Field,
        _qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let ([name], false) = (nested_names, field.data_type().is_nested()) else {
            return Ok(PlannerResult::Original(Vec::new()));
        };
        let found = self.found.lock();
        let called = field.name();
        let table = found.tables.get(called).unwrap_or(called);
        let column = found.schemas.get(table).and_then(|schema| schema.field_with_name(name).ok());
        Ok(match column {
            Some(column) => PlannerResult::Planned(Expr::OuterReferenceColumn(
                Arc::new(column.clone()),
                Column::new(Some(TableReference::bare(called.as_str())), name),
            )),
            None => PlannerResult::Original(Vec::new()),
        })
    }
}
