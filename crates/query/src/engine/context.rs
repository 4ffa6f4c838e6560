//! What a query finds by name: tables with the rights of who reads, views, functions.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::datasource::ViewTable;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner};
use datafusion::logical_expr::{
    AggregateUDF, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use freshet_base::{Result, err};
use freshet_meta::{Account, View, is_reserved_database};
use sqlparser::ast::Query;

use super::around::Planners;
use super::{Planner, StatementContext, no_database};
use crate::error::{external, mapped};
use crate::policies::{self, VisibleRows};
use crate::tables::Table;
use crate::through::Below;
use crate::{aggregated, functions, interrupt, through, views};

/// The views inside one another: each takes some of the stack while it is planned.
const LEVELS_MAX: usize = 64;

/// The plans of views that a statement has made, by whose rights the view is found with, its
/// database, and what it is called in FROM. A query may be planned several times to be understood,
/// and its views would be planned as often at each level.
pub(super) type ViewPlans = RefCell<HashMap<(Option<Account>, String, String), LogicalPlan>>;

pub(super) struct Context<'a> {
    pub planner: &'a Planner,
    pub planners: Planners,
    pub tables: &'a dyn StatementContext,
    pub database: Option<&'a str>,
    /// The account with whose rights tables are read; `None` for the session's.
    pub reader: Option<&'a Account>,
    /// The views around the query, with their databases.
    pub within: Vec<(&'a str, &'a View)>,
    /// The only table that there is, whatever its name.
    pub only: Option<&'a Arc<dyn TableProvider>>,
    pub view_plans: &'a ViewPlans,
    /// Set when the plan depends on who reads, and when: by views, policies and system tables.
    pub of_reader: &'a Cell<bool>,
}

impl Context<'_> {
    /// Whether the query of a view reads another one at this place of its FROM, and no table.
    pub fn reads_view(&self, query: &Query, place: usize) -> Result<bool> {
        let Some(source) = through::source(query, place) else { return Ok(false) };
        let Some(database) = source.database.as_deref().or(self.database) else {
            return Ok(false);
        };
        self.tables.view(self.reader, database, &source.table).map(|found| found.is_some())
    }

    /// What a view stands for; it shows what is `below` it, too.
    fn view(
        &self,
        (database, full_name): (&str, &str),
        view: &View,
        below: Option<&Below<'_>>,
    ) -> Result<Arc<dyn TableSource>> {
        self.of_reader.set(true);
        let key = (self.reader.cloned(), database.to_owned(), full_name.to_owned());
        if let Some(plan) = self.view_plans.borrow().get(&key) {
            return Ok(provider_as_source(Arc::new(ViewTable::new(plan.clone(), None))));
        }
        let name = &view.name;
        if self.within.iter().any(|(_, outer)| outer.db == view.db && outer.name == *name) {
            return Err(err!(ViewRecursion, "`{database}`.`{name}` contains view recursion"));
        }
        if self.within.len() >= LEVELS_MAX {
            return Err(err!(
                TooDeep,
                "Thread stack overrun: more than {LEVELS_MAX} views read one another, at \
                 `{database}`.`{name}`: let it read tables"
            ));
        }
        let plan = self.planner.view((database, view), below, self);
        let plan = plan.map_err(|error| views::hidden(error, database, view))?;
        check_tables(&plan, self.tables.session().limits.tables)?;
        self.view_plans.borrow_mut().insert(key, plan.clone());
        Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
    }

    /// A table or view, as the reader sees it.
    fn source(&self, name: &TableReference) -> Result<Arc<dyn TableSource>, DataFusionError> {
        if let Some(only) = self.only {
            return Ok(provider_as_source(Arc::clone(only)));
        }
        let database = match (name.schema(), self.database) {
            (Some(database), _) | (None, Some(database)) => database,
            (None, None) => return Err(external(no_database())),
        };
        if self.within.is_empty()
            && let Some(own) = self.tables.own_table(database, name.table()).map_err(external)?
        {
            return Ok(provider_as_source(own.provider));
        }
        // Whether the target of a statement may be read is known to who runs it.
        let (alone, below) = through::shown(name.table());
        let looked = if self.within.is_empty() { name.table() } else { alone };
        let found = self.tables.view(self.reader, database, looked).map_err(external)?;
        if let Some(view) = found {
            let place = (database, name.table());
            return self.view(place, &view, below.as_ref()).map_err(external);
        }
        if is_reserved_database(database) {
            self.of_reader.set(true);
        }
        let table = match self.reader {
            Some(reader) => self.tables.table_of(reader, database, name.table()),
            None => self.tables.table(database, name.table()),
        };
        let table = table.map_err(external)?;
        let Table { provider, row_filter } = match self.within.last() {
            Some((home, view)) => table.denying(|error| views::hidden(error, home, view)),
            None => table,
        };
        Ok(provider_as_source(match row_filter {
            None => aggregated::as_seen(provider)?,
            Some(filter) => {
                self.of_reader.set(true);
                let whole = policies::whole(&provider)?;
                let plan = self.planner.row_filter(&filter, &whole, (database, self));
                let plan = plan.map_err(external)?;
                Arc::new(VisibleRows::new(&provider, &whole, plan))
            }
        }))
    }
}

/// Checks that a plan, with its views, does not read too many tables: views that join one another
/// make many of few words.
///
/// # Errors
/// 1116.
pub(super) fn check_tables(plan: &LogicalPlan, tables_max: usize) -> Result<()> {
    let mut count = 0;
    let counted = plan.apply_with_subqueries(|node| {
        // Constants, too, are read: views of them can be joined as often.
        count += usize::from(node.inputs().is_empty());
        Ok(match count > tables_max {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    });
    counted.map_err(mapped)?;
    match count > tables_max {
        true => Err(err!(
            TooManyTables,
            "Too many tables; a statement has at most {tables_max} of them (max_statement_tables), \
             counting those that its views read"
        )),
        false => Ok(()),
    }
}

impl ContextProvider for Context<'_> {
    fn get_table_source(
        &self,
        name: TableReference,
    ) -> Result<Arc<dyn TableSource>, DataFusionError> {
        interrupt::check()?;
        let source = self.source(&name)?;
        self.planners.found(name.table(), source.schema());
        Ok(source)
    }

    fn create_cte_work_table(
        &self,
        name: &str,
        schema: SchemaRef,
    ) -> Result<Arc<dyn TableSource>, DataFusionError> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners.exprs
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.planners.relations
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        functions::scalars().get(name).cloned()
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        functions::aggregate(name)
            .or_else(|| self.planner.state.aggregate_functions().get(name).cloned())
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.planner.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.planner.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        functions::scalars().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.planner.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.planner.state.window_functions().keys().cloned().collect()
    }
}
