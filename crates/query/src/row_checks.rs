//! CHECK constraints as they are evaluated over encoded rows, before these are stored.
//!
//! Each is planned like the condition of a load that computes, over the columns that it names. A
//! row is evaluated by itself, where it is encoded: so every road to a table takes the same check,
//! and knows which row violates it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use freshet_base::{Result, bail};
use freshet_schema::row::{RowCells, RowWriter};
use freshet_schema::{
    Check, Column, ColumnType, ColumnsBuilder, RowChecks, TableSchema, Zone, nested,
};

use crate::body::BodyTable;
use crate::change::ROW;
use crate::coercibility::Derived;
use crate::convert;
use crate::engine::{PlanRequest, QueryEngine, StatementContext, size_of};
use crate::evaluation::Losses;
use crate::mapping::{Mapping, violations};
use crate::origin::ColumnOrigin;
use crate::parser::load_condition;
use crate::result::Cells;
use crate::shown::displayed;
use crate::tables::Table;
use crate::threads::PlanSize;

/// The enforced constraints of a schema version.
pub struct CompiledChecks {
    all: Vec<Compiled>,
    cells: RowCells,
}

struct Compiled {
    name: String,
    /// The places of the columns that it names.
    places: Vec<usize>,
    /// These columns alone.
    alone: TableSchema,
    /// The number of the row, and these columns, as the condition sees them.
    seen: SchemaRef,
    /// Whether the condition is false.
    mapping: Mapping,
}

impl fmt::Debug for CompiledChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|check| &check.name)).finish()
    }
}

impl RowChecks for CompiledChecks {
    fn check(&self, row: &[u8]) -> Result<()> {
        for check in &self.all {
            if check.is_violated(&self.cells, row)? {
                bail!(CheckViolated, "Check constraint '{}' is violated.", check.name);
            }
        }
        Ok(())
    }
}

impl QueryEngine {
    /// Plans the enforced constraints of a schema; `context` is the session of a query that reads
    /// this table alone.
    ///
    /// # Errors
    /// Unknown functions and columns; 3815 for a condition whose value depends on more than a row.
    pub fn compiled_checks(
        &self,
        schema: &TableSchema,
        context: impl Fn(Table) -> Arc<dyn StatementContext>,
    ) -> Result<CompiledChecks> {
        let enforced = schema.checks.iter().filter(|check| check.is_enforced);
        let all = enforced.map(|check| self.compiled(schema, check, &context));
        Ok(CompiledChecks { all: all.collect::<Result<_>>()?, cells: RowCells::new(schema) })
    }

    fn compiled(
        &self,
        schema: &TableSchema,
        check: &Check,
        context: impl Fn(Table) -> Arc<dyn StatementContext>,
    ) -> Result<Compiled> {
        let mut places =
            check.columns.iter().filter_map(|id| schema.position_of(*id)).collect::<Vec<_>>();
        places.sort_unstable();
        let columns = places.iter().map(|&at| seen(&schema.columns[at])).collect();
        let alone = TableSchema::new(schema.version, columns, Vec::new());
        let seen = numbered(&alone);
        let table = Table::new(Arc::new(BodyTable { schema: Arc::clone(&seen) }));
        let asked = PlanRequest {
            query: violations(&load_condition(&check.text)?),
            texts: Vec::new(),
            parameters: Vec::new(),
            origin: context(table),
            losses: Losses::default(),
        };
        let size = size_of(&asked)?;
        if size != PlanSize::Small {
            bail!(TooLarge, "Check constraint '{}' has too many expressions", check.name);
        }
        let Some(mapping) = self.mapping_of_rows(asked, size)? else {
            bail!(
                CheckFunction,
                "An expression of a check constraint '{}' contains disallowed function: its value \
                 depends on more than the row",
                check.name
            );
        };
        Ok(Compiled { name: check.name.clone(), places, alone, seen, mapping })
    }
}

impl Compiled {
    fn is_violated(&self, cells: &RowCells, row: &[u8]) -> Result<bool> {
        let mut bytes = Vec::new();
        let mut writer = RowWriter::new(self.places.len(), &mut bytes);
        writer.begin_row();
        for &at in &self.places {
            match cells.encoded(row, at) {
                Some(cell) => writer.put_encoded(cell),
                None => writer.put_null(),
            }
        }
        writer.end_row();
        let number: ArrayRef = Arc::new(Int64Array::from(vec![0]));
        let mut arrays = vec![number];
        if !self.places.is_empty() {
            let mut columns = ColumnsBuilder::new(&self.alone, 1);
            columns.append(&bytes, 1);
            let seen = displayed(&columns.finish(), &self.alone, Zone::UTC)?;
            arrays.extend_from_slice(seen.columns());
        }
        let batch = match RecordBatch::try_new(Arc::clone(&self.seen), arrays) {
            Ok(batch) => batch,
            Err(error) => bail!(Internal, "a row does not fit its columns: {error}"),
        };
        let mut is_violated = false;
        let each = |rows: &RecordBatch| {
            let cells = Cells::of(rows, &self.mapping.columns)?;
            for row in 0..rows.num_rows() {
                is_violated |= match &cells[1] {
                    Cells::Bool(values) => values.value(row),
                    Cells::Int(values) => values.value(row) != 0,
                    _ => bail!(Internal, "IS FALSE gives something else than a truth value"),
                };
            }
            Ok(())
        };
        // Nothing in such a plan waits: its only input is there.
        futures::executor::block_on(tokio::task::unconstrained(self.mapping.apply(batch, each)))?;
        Ok(is_violated)
    }
}

/// A column as conditions see it. The clock of a check is UTC, whatever the session's is.
fn seen(column: &Column) -> Column {
    let ty = match column.ty {
        ColumnType::Timestamp { fsp } => ColumnType::DateTime { fsp },
        other => other,
    };
    let name = column.name.to_lowercase();
    Column { name, ty, nullable: true, auto_increment: None, ..column.clone() }
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
