//! Rows whose values SET computes from the fields of a file: a query over the fields, some rows at
//! a time.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use freshet_base::{ColumnId, Result, bail};
use freshet_ingest::decode::fields::FieldReader;
use freshet_ingest::decode::{Encoded, InsertPlan, RowEncoder};
use freshet_query::RecordBatch;
use freshet_query::change::{Assignments, ROW};
use freshet_query::field_values::{VARIABLE, over_fields, over_variables};
use freshet_query::parser::{FieldTarget, LoadData};
use freshet_query::result::Cells;
use freshet_query::syntax::Select;
use freshet_schema::row::RowCells;
use freshet_schema::{Column, ColumnType, ColumnsBuilder, TableSchema};

use super::fields::{Slot, encode_row, note_variables};
use super::{Tally, Target};
use crate::given::GivenRows;
use crate::session::Session;
use crate::statement::assigned::note;
use crate::statement::cells::{line_of_cells, put_cell, row_numbers};
use crate::statement::query;

/// Rows that are computed by one query.
const ROWS_TOGETHER: usize = 16384;

pub struct Computed {
    /// The columns and variables that fields are read into.
    fields: InsertPlan,
    slots: Vec<Slot>,
    /// The names of the variables among the fields.
    variables: Vec<Slot>,
    select: Select,
    /// For each value of a row, whether the query computes it; others are DEFAULT.
    is_computed: Vec<bool>,
}

impl Computed {
    /// The columns that get a value: those of fields that are not set, then those that are.
    pub fn names<'a>(kept: &[&'a str], set: &'a Assignments) -> Vec<&'a str> {
        let mut names = kept.to_vec();
        for (name, _) in set {
            if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                names.push(name);
            }
        }
        names
    }

    /// # Errors
    /// 1054 for a field of no column, 1093 for a value that reads the table.
    pub fn new(
        session: &Session,
        target: &Target,
        load: &LoadData,
        fields: &[FieldTarget],
        kept: &[&str],
    ) -> Result<Self> {
        let schema = target.into.schema();
        let mut columns: Vec<Column> = Vec::new();
        for (field, id) in fields.iter().zip(0..) {
            let column = match field {
                FieldTarget::Column(name) => {
                    let view = target.through.as_deref();
                    let below = view.map_or(Ok(name.as_str()), |view| view.assigned(name))?;
                    let Some(at) = schema.position(below) else {
                        bail!(UnknownColumn, "Unknown column '{name}' in 'field list'");
                    };
                    let own = &schema.columns[at];
                    let name = if view.is_some() { name } else { &own.name };
                    Column { name: name.clone(), ..own.clone() }
                }
                FieldTarget::Variable(name) => {
                    Column::new(ColumnId(0), format!("{VARIABLE}{name}"), ColumnType::Text)
                }
            };
            if columns.iter().any(|known| known.name.eq_ignore_ascii_case(&column.name)) {
                bail!(ColumnTwice, "Column '{}' specified twice", column.name);
            }
            // NULL is judged when the row is complete.
            let plain = Column { auto_increment: None, generated: None, ..column };
            columns.push(Column { id: ColumnId(id), nullable: true, ..plain });
        }
        let alone = Arc::new(TableSchema::new(schema.version, columns, Vec::new()));
        let now = session.now_micros();
        let slot = |field: &FieldTarget| match field {
            FieldTarget::Column(_) => Slot::Value,
            FieldTarget::Variable(name) => Slot::Variable(name.clone()),
        };
        let variables = fields.iter().filter_map(|field| match field {
            FieldTarget::Variable(name) => Some(name.as_str()),
            FieldTarget::Column(_) => None,
        });
        let set = over_variables(&load.set, &variables.collect::<Vec<_>>())?;
        let names = Self::names(kept, &load.set);
        let values = names[kept.len()..].iter().map(|name| {
            // The last of several values for a column counts.
            let last = set.iter().rfind(|(set, _)| set.eq_ignore_ascii_case(name));
            last.and_then(|(_, value)| value.as_ref())
        });
        let values = values.collect::<Vec<_>>();
        let computed = values.iter().flatten().copied().collect::<Vec<_>>();
        Ok(Self {
            fields: InsertPlan::partial::<&str>(&alone, None, now, &target.rules)?,
            slots: vec![Slot::Value; fields.len()],
            variables: fields.iter().map(slot).collect(),
            select: over_fields((&load.table, target.through.as_deref()), kept, &computed)?,
            is_computed: kept
                .iter()
                .map(|_| true)
                .chain(values.iter().map(|value| value.is_some()))
                .collect(),
        })
    }

    /// Reads rows, computes them, and encodes them into the session's buffer; returns how many were
    /// read.
    ///
    /// # Errors
    /// Those of the query, and values that a column does not take.
    pub async fn encode(
        &self,
        session: &mut Session,
        target: &Target,
        reader: &mut FieldReader,
        tally: &mut Tally,
    ) -> Result<(usize, Encoded)> {
        let (rows, given) = self.read(target, reader, tally)?;
        if rows == 0 {
            return Ok((0, Encoded::default()));
        }
        let losses = session.settings.losses(target.into.table().form);
        let over = query::over(session, &self.select, given, Vec::new(), losses).await?;
        note(session, &target.rules, over.warnings)?;
        let batches = over.batches.iter().map(|batch| Cells::of(batch, &over.columns));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        let mut order = vec![None; rows];
        for (batch, cells) in batches.iter().enumerate() {
            for (at, number) in row_numbers(cells)?.into_iter().enumerate() {
                order[number] = Some((batch, at));
            }
        }
        let first = tally.rows + 1;
        let out = session.buffer.resume();
        let mut encoder = RowEncoder::new(&target.plan, &target.rules, out).counting_from(first);
        let mut text = Vec::new();
        for (number, place) in order.into_iter().enumerate() {
            let Some((batch, at)) = place else {
                bail!(Internal, "the query over the fields leaves out a row");
            };
            encoder.begin_row();
            let mut encode = || {
                let mut cells = batches[batch][1..].iter();
                for is_computed in &self.is_computed {
                    match is_computed.then(|| cells.next()).flatten() {
                        Some(cells) => put_cell(&mut encoder, cells, at, &mut text)?,
                        None => encoder.put_default()?,
                    }
                }
                encoder.end_row()
            };
            encode().map_err(|fault| fault.error(&target.plan, first + number as u64))?;
            encoder.source(|| line_of_cells(&batches[batch][1..], at));
        }
        Ok((rows, encoder.finish()?))
    }

    /// Reads some rows as they stand in place of the table.
    fn read(
        &self,
        target: &Target,
        reader: &mut FieldReader,
        tally: &mut Tally,
    ) -> Result<(usize, GivenRows)> {
        let mut bytes = Vec::new();
        let mut rows = 0;
        let encoder = RowEncoder::new(&self.fields, &target.rules, &mut bytes);
        let mut encoder = encoder.counting_from(tally.rows + 1);
        while rows < ROWS_TOGETHER
            && let Some(row) = reader.next_row()?
        {
            let number = tally.rows + rows as u64 + 1;
            rows += 1;
            encode_row(&mut encoder, row, &self.slots, (number, &self.fields), &target.rules)?;
            note_variables(row, &self.variables, &mut tally.variables);
        }
        tally.warnings.append(encoder.into_warnings());
        Ok((rows, self.given(target, &bytes, rows)?))
    }

    fn given(&self, target: &Target, mut bytes: &[u8], rows: usize) -> Result<GivenRows> {
        let schema = self.fields.schema();
        let (cells, mut columns) = (RowCells::new(schema), ColumnsBuilder::new(schema, rows));
        while !bytes.is_empty() {
            let (row, rest) = bytes.split_at(cells.row_bytes(bytes));
            columns.append(row, 1);
            bytes = rest;
        }
        let mut arrays = columns.finish().columns().to_vec();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        arrays.push(numbers);
        let mut columns = schema.columns.clone();
        let id = ColumnId(u32::try_from(columns.len()).unwrap_or(u32::MAX));
        let number = Column::new(id, ROW, ColumnType::BigInt { unsigned: false });
        columns.push(Column { nullable: false, ..number });
        let schema = Arc::new(TableSchema::new(schema.version, columns, Vec::new()));
        match RecordBatch::try_new(Arc::clone(schema.arrow()), arrays) {
            Ok(rows) => {
                let of_view = target.through.is_some();
                let (is_own, is_marked) = (!of_view, of_view);
                let given = GivenRows::of(target.into.id(), schema, rows);
                Ok(GivenRows { is_own, is_marked, of_view, ..given })
            }
            Err(error) => bail!(Internal, "fields do not fit their columns: {error}"),
        }
    }
}
