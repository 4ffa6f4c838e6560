//! The CHECK constraints of tables, compiled once for each of their schema versions.

use std::sync::Arc;

use freshet_base::{Result, bail};
use freshet_ingest::LoadTarget;
use freshet_query::engine::StatementContext;
use freshet_query::mapping::BODY;
use freshet_query::row_checks::CompiledChecks;
use freshet_query::session::{Session, SqlMode};
use freshet_query::tables::{Table, Tables};
use freshet_schema::{RowChecks, TableSchema, Zone};

use crate::reader::{SessionVariables, limits};
use crate::shared::Shared;

impl Shared {
    /// What rows of a table have to satisfy; `None` without constraints.
    ///
    /// # Errors
    /// When a constraint cannot be planned.
    pub fn checks(&self, target: &LoadTarget) -> Result<Option<Arc<dyn RowChecks>>> {
        let schema = target.schema();
        if !schema.is_checked() {
            return Ok(None);
        }
        let key = (target.id(), schema.version);
        if let Some(known) = self.compiled.get(key) {
            return Ok(Some(known));
        }
        let compiled = Arc::new(self.compile_checks(schema)?);
        self.compiled.put(key, &compiled);
        Ok(Some(compiled))
    }

    /// Compiles the constraints of a schema.
    ///
    /// # Errors
    /// Those of [`freshet_query::engine::QueryEngine::compiled_checks`].
    pub fn compile_checks(&self, schema: &TableSchema) -> Result<CompiledChecks> {
        let variables = || SessionVariables::of_globals(&self.globals, 0);
        self.query.compiled_checks(schema, |table| -> Arc<dyn StatementContext> {
            Arc::new(CheckContext { table, variables: variables() })
        })
    }
}

/// What a condition sees: the columns of its table, and no session.
struct CheckContext {
    table: Table,
    variables: SessionVariables,
}

impl StatementContext for CheckContext {
    fn session(&self) -> Session<'_> {
        Session {
            database: Some(""),
            user: "",
            current_user: "",
            current_role: "NONE",
            version: "",
            connection_id: 0,
            last_insert_id: 0,
            row_count: 0,
            found_rows: 0,
            now_micros: 0,
            zone: Zone::UTC,
            zone_name: "UTC",
            mode: SqlMode::default(),
            limits: limits(self.variables.globals()),
            variables: &self.variables,
        }
    }
}

impl Tables for CheckContext {
    fn table(&self, _database: &str, name: &str) -> Result<Table> {
        if name != BODY {
            bail!(NotSupported, "a check constraint reads its row alone, and not table '{name}'");
        }
        Ok(self.table.clone())
    }
}
