//! Encodes values in statement order as rows in column order.

mod defaults;
mod mend;
mod sign;

use freshet_base::{Error, ErrorCode, Result as EndResult, err};
use freshet_schema::row::{Put, RowCells, RowWriter};
use freshet_schema::value::put_null;
use freshet_schema::{BadValue, Column, Literal, RowChecks, Rules};

use super::completion::GeneratedValues;
use super::divider::{Divider, Undivided};
use super::ids::{RowId, RowIds};
use super::plan::InsertPlan;
use super::warnings::Warnings;
use crate::counter::UsedIds;
use crate::rejects::reason;

use mend::{beginning, mend};

/// Why a row is rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A value does not fit its column.
    Value {
        column: usize,
        bad: BadValue,
        /// The beginning of the value, for messages.
        value: Vec<u8>,
    },
    /// The number of values differs from the number of named columns.
    Count {
        /// The expected number of values.
        expected: usize,
    },
    /// The row omits a column without a default.
    Missing { column: usize },
    /// No partition takes the row: its values of the columns of PARTITION BY.
    NoPartition { values: String },
    /// None of the partitions takes the row that the statement names.
    NotInPartitions { values: String },
    /// A constraint is violated, or it or a generated column cannot be evaluated.
    Check { code: ErrorCode, message: String },
    /// A generated column is given another value than DEFAULT.
    Generated { column: usize },
}

impl Fault {
    /// The error for this fault in row number `row`, counted from 1.
    pub fn error(&self, plan: &InsertPlan, row: u64) -> Error {
        let column = |at: usize| plan.column_at(at);
        match self {
            Self::Value { column: at, bad, value } => bad.error(column(*at), value, row),
            Self::Count { .. } => {
                err!(ColumnCount, "Column count doesn't match value count at row {row}")
            }
            Self::Missing { column: at } => {
                let name = &column(*at).name;
                err!(NoDefault, "Field '{name}' doesn't have a default value: row {row}")
            }
            Self::Check { code, message } => Error::new(*code, message.clone()),
            Self::Generated { column } => plan.generated_value(*column),
            Self::NotInPartitions { values } => err!(
                NotInPartitions,
                "Found a row not matching the given partition set: value {values} in row {row}"
            ),
            Self::NoPartition { values } => {
                err!(NoPartition, "Table has no partition for value {values}: row {row}")
            }
        }
    }
}

/// The result of encoding rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Encoded {
    /// Number of rows appended.
    pub rows: usize,
    /// Warnings about adjusted values and omitted rows.
    pub warnings: Warnings,
    /// The ids in these rows.
    pub ids: Option<UsedIds>,
    /// For each row, where each has its own, which columns of the table it has.
    pub given: Vec<bool>,
    /// For each row, where each says so, whether it deletes its key.
    pub deletes: Vec<bool>,
}

/// A cell of a row whose values are not in column order.
#[derive(Clone, Copy)]
enum Slot {
    Empty,
    Null,
    /// Start and end in the scratch buffer.
    Cell(usize, usize),
}

/// Encodes rows according to a plan.
pub struct RowEncoder<'a> {
    plan: &'a InsertPlan,
    rules: Rules,
    writer: RowWriter<'a>,
    /// The index of the next value in the row.
    position: usize,
    /// Whether cells are collected in `scratch` because they arrive in any order.
    scattered: bool,
    scratch: Vec<u8>,
    /// Of a plan whose rows have columns of their own.
    given: Vec<bool>,
    /// Whether the current row deletes its key, and the rows before it, where each says so.
    deletes: bool,
    marks: Vec<bool>,
    slots: Vec<Slot>,
    warnings: Warnings,
    row_first: u64,
    /// Why the current row will be omitted.
    fault: Option<Box<Fault>>,
    /// The number of the last row, if it was omitted.
    omitted: Option<u64>,
    /// The columns whose values are not simply written ([`InsertPlan::is_odd`]).
    odd: u64,
    /// The column of generated ids, or none of the columns.
    id_column: usize,
    ids: RowIds,
    /// Where the rows begin in what is written.
    begin: usize,
    /// The key of a row in PARTITION BY.
    key: Vec<u8>,
}

impl<'a> RowEncoder<'a> {
    /// An encoder that appends rows to `out`.
    pub fn new(plan: &'a InsertPlan, rules: &Rules, out: &'a mut Vec<u8>) -> Self {
        Self::with_order(plan, rules, out, !plan.in_order)
    }

    /// Like [`Self::new`], for sources that provide the values of a row in any order by
    /// [`Self::seek`].
    pub fn scattered(plan: &'a InsertPlan, rules: &Rules, out: &'a mut Vec<u8>) -> Self {
        Self::with_order(plan, rules, out, true)
    }

    fn with_order(
        plan: &'a InsertPlan,
        rules: &Rules,
        out: &'a mut Vec<u8>,
        scattered: bool,
    ) -> Self {
        let columns = plan.schema().columns.len();
        let slots = if scattered { vec![Slot::Empty; columns] } else { Vec::new() };
        Self {
            plan,
            rules: *rules,
            begin: out.len(),
            writer: RowWriter::new(columns, out),
            position: 0,
            scattered,
            scratch: Vec::new(),
            slots,
            warnings: Warnings::default(),
            row_first: 1,
            fault: None,
            omitted: None,
            odd: plan.odd,
            id_column: plan.ids.as_ref().map_or(usize::MAX, |ids| ids.column),
            ids: RowIds::new(),
            key: Vec::new(),
            given: Vec::new(),
            deletes: false,
            marks: Vec::new(),
        }
    }

    /// Sets the number of the first row in messages.
    #[must_use]
    pub fn counting_from(mut self, row: u64) -> Self {
        self.row_first = row;
        self
    }

    /// Number of completed rows.
    pub fn rows(&self) -> usize {
        self.writer.rows()
    }

    /// The number of the current row, for messages.
    pub fn row_number(&self) -> u64 {
        self.row_first + self.rows() as u64 + self.warnings.filtered
    }

    /// Ends the encoding: the rows get their generated ids.
    ///
    /// # Errors
    /// 1467 when there are not as many.
    pub fn finish(mut self) -> EndResult<Encoded> {
        let ids = match &self.plan.ids {
            Some(ids) => {
                let rows = (&**self.plan.schema(), self.begin);
                self.ids.fill(ids, rows, &mut self.writer)?
            }
            None => None,
        };
        let (warnings, given, deletes) = (self.warnings, self.given, self.marks);
        Ok(Encoded { rows: self.writer.rows(), warnings, ids, given, deletes })
    }

    /// Warnings about adjusted values and omitted rows, of a plan that generates no ids.
    pub fn into_warnings(self) -> Warnings {
        self.warnings
    }

    /// Where warnings about the current row go.
    pub fn warnings_mut(&mut self) -> &mut Warnings {
        &mut self.warnings
    }

    #[inline]
    pub fn begin_row(&mut self) {
        self.position = 0;
        self.ids.row = RowId::None;
        self.deletes = false;
        if self.scattered {
            self.scratch.clear();
            self.slots.fill(Slot::Empty);
        } else {
            self.writer.begin_row();
        }
    }

    /// The column of the next value; `None` if the row already has all values.
    #[inline]
    pub fn column(&self) -> Option<&'a Column> {
        let at = *self.plan.columns.get(self.position)?;
        Some(self.plan.column_at(at))
    }

    /// Continues with the value at `position`.
    ///
    /// # Panics
    /// Unless values may come in any order, as with [`Self::scattered`].
    pub fn seek(&mut self, position: usize) {
        assert!(self.scattered, "values come in the order of the statement");
        self.position = position;
    }

    /// Writes the next value with one of the `put_` functions of `freshet_schema::value`. `literal`
    /// is the same value, for adjustments in lax SQL modes and for messages.
    #[inline]
    pub fn put(
        &mut self,
        literal: Literal<'_>,
        write: impl FnOnce(&Column, &Rules, &mut Vec<u8>) -> Result<Put, BadValue>,
    ) -> Result<(), Box<Fault>> {
        let plan = self.plan;
        let Some(&at) = plan.columns.get(self.position) else {
            return Err(Box::new(Fault::Count { expected: plan.width() }));
        };
        self.position += 1;
        if self.fault.is_some() {
            return Ok(());
        }
        let written = match InsertPlan::is_odd(self.odd, at) {
            false => self.put_at(at, literal, write),
            true => self.put_odd(at, literal, write),
        };
        self.filter(written)
    }

    /// Writes the next value, of a column whose values are simply written, as rows hold it.
    #[inline]
    pub(super) fn put_stored(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Box<Fault>> {
        self.put(Literal::Null, |_, _, out| {
            write(out);
            Ok(Put::Value)
        })
    }

    #[inline(never)]
    fn put_odd(
        &mut self,
        at: usize,
        literal: Literal<'_>,
        write: impl FnOnce(&Column, &Rules, &mut Vec<u8>) -> Result<Put, BadValue>,
    ) -> Result<(), Box<Fault>> {
        if at == self.id_column {
            return self.put_id(at, literal, write);
        }
        if at == self.plan.sign_place() {
            return self.put_sign(at, literal, write);
        }
        if !self.plan.generates(at) {
            return self.put_at(at, literal, write);
        }
        let fault = Fault::Generated { column: at };
        if self.rules.strict() {
            return Err(Box::new(fault));
        }
        // Dumps of MariaDB have the values of generated columns, and no strict mode.
        let (plan, row) = (self.plan, self.row_number());
        self.warnings
            .tell(ErrorCode::GeneratedValue, || fault.error(plan, row).message().to_owned());
        self.leave_place(at)
    }

    /// Writes a value of the AUTO_INCREMENT column, or leaves a place for a generated one.
    fn put_id(
        &mut self,
        at: usize,
        literal: Literal<'_>,
        write: impl FnOnce(&Column, &Rules, &mut Vec<u8>) -> Result<Put, BadValue>,
    ) -> Result<(), Box<Fault>> {
        let plan = self.plan;
        if matches!(literal, Literal::Null) {
            return self.leave_place(at);
        }
        if !self.scattered {
            self.fill_up_to(at)?;
        }
        let start = if self.scattered { self.scratch.len() } else { self.writer.offset() };
        self.put_at(at, literal, write)?;
        let Some(ids) = &plan.ids else { return Ok(()) };
        let cell = match self.scattered {
            true => &self.scratch[start..],
            false => self.writer.bytes_from(start),
        };
        self.ids.row = match ids.explicit(cell) {
            RowId::Wanted if self.scattered => {
                self.slots[at] = Slot::Empty;
                RowId::None
            }
            RowId::Wanted => RowId::Place(start),
            id => id,
        };
        Ok(())
    }

    fn leave_place(&mut self, at: usize) -> Result<(), Box<Fault>> {
        if self.scattered {
            self.slots[at] = Slot::Empty;
            return Ok(());
        }
        self.fill_up_to(at + 1)
    }

    /// Writes the defaults of the columns in front of `end`.
    #[inline]
    fn fill_up_to(&mut self, end: usize) -> Result<(), Box<Fault>> {
        while self.writer.column() < end {
            self.fill()?;
        }
        Ok(())
    }

    #[inline]
    fn put_at(
        &mut self,
        at: usize,
        literal: Literal<'_>,
        write: impl FnOnce(&Column, &Rules, &mut Vec<u8>) -> Result<Put, BadValue>,
    ) -> Result<(), Box<Fault>> {
        if !self.scattered {
            self.fill_up_to(at)?;
        }
        let plan = self.plan;
        let column = &plan.schema().columns[at];
        let row = self.row_number();
        let (rules, warnings) = (&self.rules, &mut self.warnings);
        let write = |out: &mut Vec<u8>| {
            write(column, rules, out)
                .or_else(|bad| mend(column, literal, bad, rules, row, warnings, out))
                .map_err(|bad| {
                    Box::new(Fault::Value { column: at, bad, value: beginning(literal) })
                })
        };
        if self.scattered {
            let start = self.scratch.len();
            self.slots[at] = match write(&mut self.scratch)? {
                Put::Value => Slot::Cell(start, self.scratch.len()),
                Put::Null => Slot::Null,
            };
            return Ok(());
        }
        self.writer.cell(write)
    }

    /// If the plan omits faulty rows, keeps the fault until the end of the row.
    #[inline]
    fn filter(&mut self, written: Result<(), Box<Fault>>) -> Result<(), Box<Fault>> {
        match written {
            Err(fault) if self.omits(&fault) => {
                self.fault = Some(fault);
                Ok(())
            }
            written => written,
        }
    }

    fn omits(&self, fault: &Fault) -> bool {
        let is_undivided = || {
            matches!(
                fault,
                Fault::NoPartition { .. } | Fault::NotInPartitions { .. } | Fault::Check { .. }
            )
        };
        self.plan.filters || self.plan.skips_undivided && is_undivided()
    }

    #[inline]
    pub fn put_null(&mut self) -> Result<(), Box<Fault>> {
        self.put(Literal::Null, |column, _, _| put_null(column))
    }

    /// Completes a row that must contain all values, or none: `VALUES ()` is a row of defaults.
    #[inline]
    pub fn end_row(&mut self) -> Result<(), Box<Fault>> {
        let is_empty = self.position == 0 && self.plan.takes_empty;
        if self.position != self.plan.width() && !is_empty {
            return Err(Box::new(Fault::Count { expected: self.plan.width() }));
        }
        self.end_partial_row()
    }

    /// Completes a row; omitted columns get their defaults.
    #[inline]
    pub fn end_partial_row(&mut self) -> Result<(), Box<Fault>> {
        if self.fault.is_none() {
            let mut completed = self.complete();
            if let (Ok(()), Some(generated)) = (&completed, &self.plan.completion.generated) {
                completed = self.generate(&**generated);
            }
            if let (Ok(()), Some(divider)) = (&completed, &self.plan.divider) {
                completed = self.divide(divider);
            }
            if let (Ok(()), Some(checks), false) =
                (&completed, &self.plan.completion.checks, self.deletes)
            {
                completed = self.check(&**checks);
            }
            self.filter(completed)?;
        }
        match self.fault.take() {
            None => {
                self.writer.end_row();
                self.ids.end_row();
                if self.plan.is_flexible {
                    let deletes = self.deletes;
                    let is_given = |slot: &Slot| !deletes && !matches!(slot, Slot::Empty);
                    self.given.extend(self.slots.iter().map(is_given));
                } else if self.plan.sign.is_some() {
                    self.marks.push(self.deletes);
                }
            }
            Some(fault) => self.leave_out(&fault),
        }
        Ok(())
    }

    /// Computes the generated columns of a complete row.
    #[inline(never)]
    fn generate(&mut self, generated: &dyn GeneratedValues) -> Result<(), Box<Fault>> {
        let (number, mut whole) = (self.row_number(), Vec::new());
        let (row, rules, warnings) = (self.writer.row_bytes(), &self.rules, &mut self.warnings);
        let computed = generated.compute(row, number, rules, warnings, &mut whole);
        computed.map_err(|error| self.rejected(&error))?;
        self.writer.replace_row(&whole);
        if let RowId::Place(place) = &mut self.ids.row {
            let cells = RowCells::new(self.plan.schema());
            *place = self.writer.offset() - whole.len() + cells.offset(&whole, self.id_column);
        }
        Ok(())
    }

    fn rejected(&mut self, error: &Error) -> Box<Fault> {
        // Scattered rows are begun only when they are complete.
        if self.scattered {
            self.writer.abort_row();
        }
        Box::new(Fault::Check { code: error.code(), message: error.message().to_owned() })
    }

    #[inline(never)]
    fn check(&mut self, checks: &dyn RowChecks) -> Result<(), Box<Fault>> {
        checks.check(self.writer.row_bytes()).map_err(|error| self.rejected(&error))
    }

    #[inline(never)]
    fn divide(&mut self, divider: &Divider) -> Result<(), Box<Fault>> {
        let (row, schema) = (self.writer.row_bytes(), self.plan.schema());
        match divider.refused(row, schema, &mut self.key) {
            None => Ok(()),
            Some(Undivided { values, is_elsewhere }) => {
                // Scattered rows are begun only when they are complete.
                if self.scattered {
                    self.writer.abort_row();
                }
                Err(Box::new(match is_elsewhere {
                    true => Fault::NotInPartitions { values },
                    false => Fault::NoPartition { values },
                }))
            }
        }
    }

    /// Says what the source of the row is that has just ended, if it was omitted.
    #[inline]
    pub fn source<L: AsRef<[u8]>>(&mut self, line: impl FnOnce() -> L) {
        if let Some(row) = self.omitted.take() {
            self.warnings.rejects.set_line(row, line().as_ref());
        }
    }

    /// Fills in columns that the row omits.
    #[inline]
    fn complete(&mut self) -> Result<(), Box<Fault>> {
        if self.scattered {
            return self.gather();
        }
        self.fill_up_to(self.plan.fillers.len())
    }

    #[cold]
    fn leave_out(&mut self, fault: &Fault) {
        let row = self.row_number();
        self.abort_row();
        let plan = self.plan;
        self.warnings.filter(row, || fault.error(plan, row), || reason(fault, plan));
        self.omitted = Some(row);
    }

    /// Writes the cells of a scattered row in column order.
    fn gather(&mut self) -> Result<(), Box<Fault>> {
        if self.plan.is_flexible {
            let keys = &self.plan.schema().sort_key;
            if let Some(&column) = keys.iter().find(|&&at| matches!(self.slots[at], Slot::Empty)) {
                return Err(Box::new(Fault::Missing { column }));
            }
        }
        self.writer.begin_row();
        for at in 0..self.slots.len() {
            match self.slots[at] {
                Slot::Empty => {
                    if let Err(fault) = self.fill() {
                        self.writer.abort_row();
                        return Err(fault);
                    }
                }
                Slot::Null => self.writer.put_null(),
                Slot::Cell(from, to) => self.writer.put_encoded(&self.scratch[from..to]),
            }
        }
        Ok(())
    }

    /// Removes the incomplete row.
    #[inline]
    pub fn abort_row(&mut self) {
        self.fault = None;
        if !self.scattered {
            self.writer.abort_row();
        }
    }
}
