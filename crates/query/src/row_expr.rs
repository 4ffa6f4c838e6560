//! Expressions of a table over one encoded row: those of CHECK constraints and generated columns.
//!
//! Each is planned like the condition of a load that computes, over the columns that it names. A
//! row is evaluated by itself, where it is encoded: so every road to a table takes the same
//! expressions, and knows which row they fail for.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use freshet_base::{ColumnId, Result, bail};
use freshet_schema::row::RowWriter;
use freshet_schema::{Column, ColumnType, ColumnsBuilder, Generated, TableSchema, Zone, nested};

use crate::body::BodyTable;
use crate::change::ROW;
use crate::coercibility::Derived;
use crate::convert;
use crate::engine::{PlanRequest, QueryEngine, StatementContext, size_of};
use crate::evaluation::Losses;
use crate::functions::column_default;
use crate::mapping::{Depends, Mapping, of_row};
use crate::origin::ColumnOrigin;
use crate::parser::load_condition;
use crate::result::Cells;
use crate::shown::displayed;
use crate::syntax::Scalar;
use crate::tables::Table;
use crate::threads::PlanSize;

/// An expression that is to be planned.
pub(crate) struct Compiling<'a> {
    /// What it is of, for messages.
    pub what: &'a str,
    /// The columns that it names.
    pub columns: &'a [ColumnId],
    pub expr: Scalar,
    pub losses: Losses,
}

/// A planned expression.
pub struct RowExpr {
    /// The places of the columns that it names.
    places: Vec<usize>,
    /// These columns alone.
    alone: TableSchema,
    /// The number of the row, and these columns, as the expression sees them.
    seen: SchemaRef,
    mapping: Mapping,
    depends: Depends,
}

impl QueryEngine {
    /// Plans an expression; `None` if its value depends on more than the row.
    ///
    /// # Errors
    /// Unknown functions and columns; `TooLarge`.
    pub(crate) fn row_expr(
        &self,
        schema: &TableSchema,
        compiling: Compiling<'_>,
        context: impl Fn(Table) -> Arc<dyn StatementContext>,
    ) -> Result<Option<RowExpr>> {
        let expr = self.any_expr(schema, compiling, context)?;
        let of_row = !expr.depends.on_session && !expr.depends.on_chance;
        Ok(of_row.then_some(expr))
    }

    /// Plans an expression.
    fn any_expr(
        &self,
        schema: &TableSchema,
        compiling: Compiling<'_>,
        context: impl Fn(Table) -> Arc<dyn StatementContext>,
    ) -> Result<RowExpr> {
        let Compiling { what, columns, expr, losses } = compiling;
        let mut places =
            columns.iter().filter_map(|id| schema.position_of(*id)).collect::<Vec<_>>();
        places.sort_unstable();
        let columns = places.iter().map(|&at| seen(&schema.columns[at])).collect();
        let alone = TableSchema::new(schema.version, columns, Vec::new());
        let seen = numbered(&alone);
        let table = Table::new(Arc::new(BodyTable { schema: Arc::clone(&seen) }));
        let asked = PlanRequest {
            query: of_row(expr),
            texts: Vec::new(),
            parameters: Vec::new(),
            origin: context(table),
            losses,
        };
        let size = size_of(&asked)?;
        if size != PlanSize::Small {
            bail!(TooLarge, "{what} has too many expressions");
        }
        let (mapping, depends) = self.mapping_of_rows(asked, size)?;
        Ok(RowExpr { places, alone, seen, mapping, depends })
    }

    /// Plans an expression that is the default of a column; `context` is the session of a query,
    /// with the time of the statement.
    ///
    /// # Errors
    /// Unknown functions; `TooLarge`.
    pub fn default_expr(
        &self,
        schema: &TableSchema,
        (column, text): (&Column, &str),
        losses: Losses,
        context: impl Fn(Table) -> Arc<dyn StatementContext>,
    ) -> Result<RowExpr> {
        let what = format!("The default of column '{}'", column.name);
        let expr = load_condition(text)?;
        let compiling = Compiling { what: &what, columns: &[], expr, losses };
        self.any_expr(schema, compiling, context)
    }

    /// Plans the expression of a generated column of a schema; `context` is the session of a query
    /// that reads this table alone.
    ///
    /// # Errors
    /// Unknown functions and columns; 3763 for a value that depends on more than a row.
    pub fn generated_expr(
        &self,
        schema: &TableSchema,
        (column, how): (&Column, &Generated),
        losses: Losses,
        context: impl Fn(Table) -> Arc<dyn StatementContext>,
    ) -> Result<RowExpr> {
        let what = format!("Generated column '{}'", column.name);
        let expr = load_condition(&how.text)?;
        let compiling = Compiling { what: &what, columns: &how.columns, expr, losses };
        match self.row_expr(schema, compiling, context)? {
            Some(expr) => Ok(expr),
            None => bail!(
                GeneratedFunction,
                "Expression of generated column '{}' contains a disallowed function: its value \
                 depends on more than the row",
                column.name
            ),
        }
    }
}

impl RowExpr {
    /// Whether its value is that of one statement, as with the time.
    pub fn is_of_statement(&self) -> bool {
        self.depends.on_session
    }

    /// Whether its value is another one each time, as that of `UUID()`.
    pub fn is_of_chance(&self) -> bool {
        self.depends.on_chance
    }

    /// Evaluates it over the row whose encoded cells `cell` gives by their places, and passes the
    /// value to `each` as a row of cells.
    ///
    /// # Errors
    /// Those of the expression, and of `each`.
    pub fn evaluate<'r>(
        &self,
        cell: impl Fn(usize) -> Option<&'r [u8]>,
        mut each: impl FnMut(&Cells, usize) -> Result<()>,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        let mut writer = RowWriter::new(self.places.len(), &mut bytes);
        writer.begin_row();
        for &at in &self.places {
            match cell(at) {
                Some(cell) => writer.put_encoded(cell),
                None => writer.put_null(),
            }
        }
        writer.end_row();
        let number: ArrayRef = Arc::new(Int64Array::from(vec![0]));
        let mut arrays = vec![number];
        if !self.places.is_empty() {
            let columns = ColumnsBuilder::batch_of(&self.alone, &bytes, 1);
            let seen = displayed(&columns, &self.alone, Zone::UTC)?;
            arrays.extend_from_slice(seen.columns());
        }
        let batch = match RecordBatch::try_new(Arc::clone(&self.seen), arrays) {
            Ok(batch) => batch,
            Err(error) => bail!(Internal, "a row does not fit its columns: {error}"),
        };
        let each = |rows: &RecordBatch| {
            let cells = Cells::of(rows, &self.mapping.columns)?;
            (0..rows.num_rows()).try_for_each(|row| each(&cells[1], row))
        };
        // Nothing in such a plan waits: its only input is there.
        futures::executor::block_on(tokio::task::unconstrained(self.mapping.apply(batch, each)))
    }
}

/// A column as expressions see it. Their clock is UTC, whatever the session's is.
fn seen(column: &Column) -> Column {
    let ty = match column.ty {
        ColumnType::Timestamp { fsp } => ColumnType::DateTime { fsp },
        other => other,
    };
    let name = column.name.to_lowercase();
    let (auto_increment, generated) = (None, None);
    Column { name, ty, nullable: true, auto_increment, generated, ..column.clone() }
}

/// The columns behind the number of a row.
fn numbered(alone: &TableSchema) -> SchemaRef {
    let field = |column: &Column| {
        let origin = ColumnOrigin {
            database: String::new(),
            table: String::new(),
            column: column.name.clone(),
            ty: column.ty,
            flags: 0,
            labels: column.labels.to_vec(),
        };
        let mut metadata = HashMap::from([(ColumnOrigin::KEY.to_owned(), origin.encode())]);
        if let Some(derived) = Derived::stored(column) {
            metadata.insert(Derived::KEY.to_owned(), derived.encode());
        }
        column_default::say(column, &mut metadata);
        let ty = match column.ty {
            ty if ty.is_nested() => nested::query_type(column),
            ty if ty.sketch().is_some() => convert::SKETCH,
            ty => ty.arrow(),
        };
        Field::new(&column.name, ty, true).with_metadata(metadata)
    };
    let row = Field::new(ROW, DataType::Int64, true);
    let fields = [row].into_iter().chain(alone.columns.iter().map(field));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
