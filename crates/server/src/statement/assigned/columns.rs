//! The columns of stored rows that a statement gives new values, however these are computed.

use std::sync::Arc;

use freshet_base::Result;
use freshet_ingest::decode::{Completion, Fault, InsertPlan, RowEncoder, Warnings};
use freshet_ingest::{LoadTarget, Ranks};
use freshet_query::through::Through;
use freshet_schema::row::{RowCells, RowWriter};
use freshet_schema::{DefaultValue, Rules, TableSchema};

use super::rules;
use crate::session::Session;

/// Columns that get values.
pub struct AssignedColumns {
    target: LoadTarget,
    /// Which columns of the table, ascending.
    columns: Vec<usize>,
    /// Those that get the time of the statement where another one changes (ON UPDATE).
    touched: Vec<usize>,
    /// Encodes rows of these columns alone.
    plan: InsertPlan,
    rules: Rules,
    /// What the rows get, and have to satisfy afterwards.
    completion: Completion,
    /// By a sequence column a row may come too late.
    ranks: Ranks,
    /// Whether a generated column is set to DEFAULT: it is computed in all rows.
    pub(super) computes_all: bool,
}

/// The values that rows get, each as a row of the assigned columns alone; `None` for a row that
/// the statement leaves as it is.
pub struct NewValues {
    rows: Vec<Option<Vec<u8>>>,
    pub warnings: Warnings,
}

/// The columns with ON UPDATE that no value is given.
pub fn touched_beside(schema: &TableSchema, is_given: impl Fn(usize) -> bool) -> Vec<usize> {
    let columns = schema.columns.iter().enumerate();
    let touched = columns.filter(|(at, column)| column.on_update_now && !is_given(*at));
    touched.map(|(at, _)| at).collect()
}

impl AssignedColumns {
    /// Columns of the target, ascending, among them those that are `touched`.
    ///
    /// # Errors
    /// Expressions of its constraints and generated columns that cannot be planned.
    pub fn new(
        session: &Session,
        target: &LoadTarget,
        (columns, touched): (Vec<usize>, Vec<usize>),
        ignores: bool,
    ) -> Result<Self> {
        let schema = target.schema();
        let column = |&at: &usize| {
            let mut column = schema.columns[at].clone();
            if touched.contains(&at) {
                column.default = Some(DefaultValue::CurrentTimestamp);
            }
            column
        };
        let alone = columns.iter().map(column).collect();
        let alone = Arc::new(TableSchema::new(schema.version, alone, Vec::new()));
        let rules = rules(session, target, ignores);
        let now = session.now_micros();
        let plan = InsertPlan::partial::<&str>(&alone, None, now, &rules)?;
        let losses = session.settings.losses(target.table().form);
        let plan = plan.computing(session.shared.defaults(&alone, losses, rules.zone)?);
        let completion = session.shared.completion(target, losses)?;
        let (ranks, target, computes_all) = (Ranks::of(target.schema()), target.clone(), false);
        Ok(Self { target, columns, touched, plan, rules, completion, ranks, computes_all })
    }

    /// Asks of rows what a view does that they are changed through, too.
    ///
    /// # Errors
    /// `NotSupported` for a condition that depends on more than a row.
    pub fn check(&mut self, session: &Session, view: &Through) -> Result<()> {
        if let Some(checks) = session.shared.view_check(&self.target, view)? {
            self.completion.checks = Some(checks);
        }
        Ok(())
    }

    pub fn target(&self) -> &LoadTarget {
        &self.target
    }

    /// Which columns of the table, ascending.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The values that rows of the table have in these columns.
    pub fn of_rows(&self, rows: &[&[u8]]) -> NewValues {
        let cells = RowCells::new(self.target.schema());
        let taken = |row: &&[u8]| {
            let mut out = Vec::with_capacity(row.len());
            let mut writer = RowWriter::new(self.columns.len(), &mut out);
            writer.begin_row();
            for &at in &self.columns {
                match cells.encoded(row, at) {
                    Some(cell) => writer.put_encoded(cell),
                    None => writer.put_null(),
                }
            }
            writer.end_row();
            Some(out)
        };
        NewValues { rows: rows.iter().map(taken).collect(), warnings: Warnings::default() }
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Lets defaults be those of a statement that begins at this time.
    pub fn begin_statement(&mut self, now: i64) {
        if self.plan.depends_on_now() {
            self.plan.set_now(now, &self.rules);
        }
    }

    /// Whether a column of the key gets a value.
    pub fn sets_key(&self) -> bool {
        let key = &self.target.schema().sort_key;
        self.columns.iter().any(|column| key.contains(column))
    }

    /// Encodes the values of the row with this number, which `put` writes in the order of the
    /// columns; those that it has stay.
    ///
    /// # Errors
    /// Values that a column does not take.
    pub fn encode(
        &self,
        new: &mut NewValues,
        number: usize,
        put: impl FnOnce(&mut RowEncoder<'_>) -> std::result::Result<(), Box<Fault>>,
    ) -> Result<()> {
        let Some(slot @ None) = new.rows.get_mut(number) else { return Ok(()) };
        let row = number as u64 + 1;
        let mut out = Vec::new();
        let mut encoder = RowEncoder::new(&self.plan, &self.rules, &mut out).counting_from(row);
        encoder.begin_row();
        put(&mut encoder)
            .and_then(|()| encoder.end_row())
            .map_err(|fault| fault.error(&self.plan, row))?;
        new.warnings.append(encoder.into_warnings());
        *slot = Some(out);
        Ok(())
    }

    /// Appends the row that `old` becomes by these values, those of the row with this number; false
    /// if it stays as it is, also since this one has a lower value in the sequence column.
    ///
    /// # Errors
    /// 3819 when it violates a constraint; those of its generated columns.
    pub fn apply(
        &self,
        old: &[u8],
        (new, number): (&mut NewValues, usize),
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let Some(values) = new.rows[number].as_deref() else { return Ok(false) };
        let start = out.len();
        self.write(old, values, false, out);
        let differs = out[start..] != *old;
        if differs && !self.touched.is_empty() {
            out.truncate(start);
            self.write(old, values, true, out);
        }
        if !differs && !self.computes_all {
            return Ok(false);
        }
        let (rules, warnings) = (&self.rules, &mut new.warnings);
        self.completion.complete(out, start, number as u64 + 1, rules, warnings)?;
        Ok(out[start..] != *old && self.ranks.replaces(&out[start..], old))
    }

    /// Appends `old` with the assigned values, and with those of touched columns if it `touches`.
    fn write(&self, old: &[u8], values: &[u8], touches: bool, out: &mut Vec<u8>) {
        let schema = self.target.schema();
        let (of_row, of_values) = (RowCells::new(schema), RowCells::new(self.plan.schema()));
        let mut writer = RowWriter::new(schema.columns.len(), out);
        writer.begin_row();
        let mut assigned = self.columns.iter().zip(0..).peekable();
        for at in 0..schema.columns.len() {
            let is_left = !touches && self.touched.contains(&at);
            let cell = match assigned.next_if(|(column, _)| **column == at) {
                Some((_, position)) if !is_left => of_values.encoded(values, position),
                _ => of_row.encoded(old, at),
            };
            match cell {
                Some(cell) => writer.put_encoded(cell),
                None => writer.put_null(),
            }
        }
        writer.end_row();
    }
}

impl NewValues {
    /// Of so many rows, of which none has values yet.
    pub fn of(count: usize) -> Self {
        Self { rows: vec![None; count], warnings: Warnings::default() }
    }

    /// Whether a row gets values.
    pub fn has(&self, row: usize) -> bool {
        self.rows[row].is_some()
    }
}
