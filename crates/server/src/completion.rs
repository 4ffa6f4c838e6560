//! What completes the rows of tables: CHECK constraints and generated columns, compiled once for
//! each of their schema versions.

use std::sync::Arc;

use freshet_base::{Result, bail, err};
use freshet_ingest::LoadTarget;
use freshet_ingest::decode::{Completion, ComputedDefaults, GeneratedValues, Warnings};
use freshet_query::engine::StatementContext;
use freshet_query::evaluation::Losses;
use freshet_query::mapping::BODY;
use freshet_query::row_checks::CompiledChecks;
use freshet_query::session::{Session, SqlMode};
use freshet_query::tables::{Table, Tables};
use freshet_query::through::Through;
use freshet_schema::row::take_length;
use freshet_schema::value::{cell_text, put as put_value};
use freshet_schema::{
    Column, DefaultValue, Layout, Literal, Put, RowChecks, Rules, TableSchema, Zone,
};

use crate::generated::{DefaultColumns, GeneratedColumns};
use crate::reader::{SessionVariables, limits};
use crate::shared::Shared;

impl Shared {
    /// What rows of a table get, and have to satisfy. `losses` says what generated columns do where
    /// their expressions lose something.
    ///
    /// # Errors
    /// When an expression cannot be planned.
    pub fn completion(&self, target: &LoadTarget, losses: Losses) -> Result<Completion> {
        let schema = target.schema();
        Ok(Completion {
            generated: match schema.is_generated() {
                true => Some(self.generated(target, losses)?),
                false => None,
            },
            checks: match schema.is_checked() {
                true => Some(self.checks(target)?),
                false => None,
            },
        })
    }

    /// What a view asks of rows, behind the constraints of their table; `None` if it asks nothing.
    ///
    /// # Errors
    /// Those of [`freshet_query::engine::QueryEngine::view_check`].
    pub fn view_check(
        &self,
        target: &LoadTarget,
        through: &Through,
    ) -> Result<Option<Arc<dyn RowChecks>>> {
        let schema = target.schema();
        let context = |table| self.of_row(table);
        let Some(check) = self.query.view_check(schema, through, context)? else {
            return Ok(None);
        };
        let constraints = match schema.is_checked() {
            true => Some(self.checks(target)?),
            false => None,
        };
        Ok(Some(Arc::new(check.behind(constraints))))
    }

    fn checks(&self, target: &LoadTarget) -> Result<Arc<dyn RowChecks>> {
        let key = (target.id(), target.schema().version);
        if let Some(known) = self.compiled_checks.get(&key) {
            return Ok(known);
        }
        let compiled: Arc<dyn RowChecks> = Arc::new(self.compile_checks(target.schema())?);
        self.compiled_checks.put(key, &compiled);
        Ok(compiled)
    }

    fn generated(&self, target: &LoadTarget, losses: Losses) -> Result<Arc<dyn GeneratedValues>> {
        let key = (target.id(), target.schema().version, losses);
        if let Some(known) = self.compiled_columns.get(&key) {
            return Ok(known);
        }
        let compiled = self.compile_generated(target.schema(), losses)?;
        let compiled: Arc<dyn GeneratedValues> = Arc::new(compiled);
        self.compiled_columns.put(key, &compiled);
        Ok(compiled)
    }

    /// Compiles the constraints of a schema.
    ///
    /// # Errors
    /// Those of [`freshet_query::engine::QueryEngine::compiled_checks`].
    pub fn compile_checks(&self, schema: &TableSchema) -> Result<CompiledChecks> {
        self.query.compiled_checks(schema, |table| self.of_row(table))
    }

    /// Compiles the generated columns of a schema.
    ///
    /// # Errors
    /// Those of [`freshet_query::engine::QueryEngine::generated_expr`].
    pub fn compile_generated(
        &self,
        schema: &TableSchema,
        losses: Losses,
    ) -> Result<GeneratedColumns> {
        let compile = |column: &Column| {
            let Some(how) = &column.generated else { return Ok(None) };
            let context = |table| self.of_row(table);
            self.query.generated_expr(schema, (column, how), losses, context).map(Some)
        };
        GeneratedColumns::new(schema, compile)
    }

    /// The defaults of a schema that are expressions, for a statement that begins now in a time
    /// zone.
    ///
    /// # Errors
    /// Those of [`freshet_query::engine::QueryEngine::default_expr`].
    pub fn defaults(
        &self,
        schema: &TableSchema,
        losses: Losses,
        zone: Zone,
    ) -> Result<Option<Arc<dyn ComputedDefaults>>> {
        if !schema.has_expression_defaults() {
            return Ok(None);
        }
        let now_micros = self.engine.clock().wall_micros();
        let compile = |column: &Column| {
            let Some(DefaultValue::Expression(text)) = &column.default else { return Ok(None) };
            let context = |table| self.at_time(table, now_micros, zone);
            self.query.default_expr(schema, (column, text), losses, context).map(Some)
        };
        Ok(Some(Arc::new(DefaultColumns::new(schema, compile)?)))
    }

    /// What rows that are there show of a new column whose default is this expression: its value
    /// now, as a text, and `None` for NULL.
    ///
    /// # Errors
    /// Those of the expression, and of a value that the column does not take; `NotSupported` for
    /// one that is another for each row, or that no text says.
    pub fn value_before(
        &self,
        column: &Column,
        text: &str,
        rules: &Rules,
    ) -> Result<Option<String>> {
        let refuse = |why: &str| {
            err!(
                NotSupported,
                "This version of Freshet doesn't yet support 'ADD COLUMN with a default that is \
                 an expression' {why}, as ({text}) of column '{0}': add it without, give the rows \
                 their values by UPDATE, then ALTER TABLE .. ALTER COLUMN {0} SET DEFAULT",
                column.name
            )
        };
        let schema = TableSchema::new(Default::default(), vec![column.clone()], Vec::new());
        let now_micros = self.engine.clock().wall_micros();
        let context = |table| self.at_time(table, now_micros, rules.zone);
        let losses = Losses::default();
        let expr = self.query.default_expr(&schema, (column, text), losses, context)?;
        if expr.is_of_chance() {
            return Err(refuse("of another value for each row"));
        }
        let Some(defaults) = self.defaults(&schema, losses, rules.zone)? else {
            bail!(Internal, "the default of column '{}' is no expression", column.name)
        };
        let mut cell = Vec::new();
        let put = defaults.compute(0, 1, rules, &mut Warnings::default(), &mut cell)?;
        if put == Put::Null {
            return Ok(None);
        }
        let content = match column.ty.layout() {
            Layout::Bytes => take_length(&cell).map_or(&[][..], |(_, at)| &cell[at..]),
            Layout::Fixed(_) => &cell,
        };
        let before = cell_text(column.ty, content);
        // As it is read for these rows.
        let mut again = Vec::new();
        let literal = Literal::Text(before.as_bytes());
        match put_value(column, literal, &Rules::default(), &mut again) {
            Ok(Put::Value) if again == cell => Ok(Some(before)),
            _ => Err(refuse("of this type")),
        }
    }

    /// What an expression sees that reads one row.
    fn of_row(&self, table: Table) -> Arc<dyn StatementContext> {
        self.at_time(table, 0, Zone::UTC)
    }

    fn at_time(&self, table: Table, now_micros: i64, zone: Zone) -> Arc<dyn StatementContext> {
        let variables = SessionVariables::of_globals(&self.globals, 0);
        Arc::new(RowContext { table, variables, now_micros, zone })
    }
}

/// What an expression sees: the columns of its table, and no session.
struct RowContext {
    table: Table,
    variables: SessionVariables,
    /// In microseconds since 1970 UTC.
    now_micros: i64,
    zone: Zone,
}

impl StatementContext for RowContext {
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
            now_micros: self.now_micros,
            clock_micros: self.now_micros,
            zone: self.zone,
            zone_name: "UTC",
            mode: SqlMode::default(),
            limits: limits(self.variables.globals()),
            variables: &self.variables,
        }
    }
}

impl Tables for RowContext {
    fn table(&self, _database: &str, name: &str) -> Result<Table> {
        if name != BODY {
            bail!(
                NotSupported,
                "an expression of a table reads its row alone, and not table '{name}'"
            );
        }
        Ok(self.table.clone())
    }
}
