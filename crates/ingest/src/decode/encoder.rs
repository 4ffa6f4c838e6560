//! Values of a row, in the order of a statement, into the one encoding of rows.

use freshet_base::{Error, err};
use freshet_schema::row::{Put, RowWriter};
use freshet_schema::value::{adjust, put_null};
use freshet_schema::{BadValue, Column, Literal, Rules};

use super::plan::{Filler, InsertPlan};

/// Most bytes of a value that an error or warning carries along.
const VALUE_BYTES_MAX: usize = 256;
/// Most warnings of a load that are kept; the others are counted.
const WARNINGS_MAX: usize = 64;

/// Why a row is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A value does not fit its column.
    Value {
        /// The column's position in the schema.
        column: usize,
        /// What is wrong.
        bad: BadValue,
        /// The beginning of the value.
        value: Vec<u8>,
    },
    /// The row has more or fewer values than columns were named.
    Count {
        /// Values wanted.
        expected: usize,
    },
    /// The row leaves out a column that has no default.
    Missing {
        /// The column's position in the schema.
        column: usize,
    },
}

impl Fault {
    /// The error of a statement whose row `row`, counted from 1, has this fault.
    pub fn error(&self, plan: &InsertPlan, row: u64) -> Error {
        let column = |at: usize| &plan.schema().columns[at];
        match self {
            Self::Value { column: at, bad, value } => bad.error(column(*at), value, row),
            Self::Count { .. } => {
                err!(ColumnCount, "Column count doesn't match value count at row {row}")
            }
            Self::Missing { column: at } => {
                let name = &column(*at).name;
                err!(NoDefault, "Field '{name}' doesn't have a default value: row {row}")
            }
        }
    }
}

/// Values that a lax mode changed to make them fit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Warnings {
    /// How many there were.
    pub count: u64,
    /// The first of them: errno and message.
    pub first: Vec<(u16, String)>,
    /// Rows that were left out; each is a warning too.
    pub filtered: u64,
}

impl Warnings {
    /// Takes up those of a later part of the same load.
    pub fn append(&mut self, later: Self) {
        self.count += later.count;
        self.filtered += later.filtered;
        let room = WARNINGS_MAX - self.first.len();
        self.first.extend(later.first.into_iter().take(room));
    }

    fn add(&mut self, column: &Column, bad: &BadValue, value: &[u8], row: u64) {
        self.count += 1;
        if self.first.len() < WARNINGS_MAX {
            self.first.push((bad.code().errno(), bad.message(column, value, row)));
        }
    }

    fn filter(&mut self, fault: &Fault, plan: &InsertPlan, row: u64) {
        self.count += 1;
        self.filtered += 1;
        if self.first.len() < WARNINGS_MAX {
            let error = fault.error(plan, row);
            let message = format!("{}: the row was left out", error.message());
            self.first.push((error.code().errno(), message));
        }
    }
}

/// A cell of a row whose values do not come in the order of the columns.
#[derive(Clone, Copy)]
enum Slot {
    /// No value yet.
    Empty,
    Null,
    /// From and to, in the scratch bytes.
    Cell(usize, usize),
}

/// Encodes rows under a plan.
pub struct RowEncoder<'a> {
    plan: &'a InsertPlan,
    rules: Rules,
    writer: RowWriter<'a>,
    /// The position of the next value.
    position: usize,
    /// Cells go to `scratch` first, since they come in any order.
    scattered: bool,
    scratch: Vec<u8>,
    slots: Vec<Slot>,
    warnings: Warnings,
    row_first: u64,
    /// Why the row that was begun will be left out.
    fault: Option<Box<Fault>>,
}

impl<'a> RowEncoder<'a> {
    /// An encoder that appends rows to `out`.
    pub fn new(plan: &'a InsertPlan, rules: &Rules, out: &'a mut Vec<u8>) -> Self {
        Self::with_order(plan, rules, out, !plan.in_order)
    }

    /// The same for a source that gives a row's values in any order, by [`Self::seek`].
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
            writer: RowWriter::new(columns, out),
            position: 0,
            scattered,
            scratch: Vec::new(),
            slots,
            warnings: Warnings::default(),
            row_first: 1,
            fault: None,
        }
    }

    /// The same with its first row counted as `row`.
    #[must_use]
    pub fn counting_from(mut self, row: u64) -> Self {
        self.row_first = row;
        self
    }

    /// Rows completed.
    pub fn rows(&self) -> usize {
        self.writer.rows()
    }

    /// The number of the current row in messages.
    pub fn row_number(&self) -> u64 {
        self.row_first + self.rows() as u64 + self.warnings.filtered
    }

    /// What was changed to fit, and what was left out.
    pub fn into_warnings(self) -> Warnings {
        self.warnings
    }

    /// Starts a row.
    #[inline]
    pub fn begin_row(&mut self) {
        self.position = 0;
        if self.scattered {
            self.scratch.clear();
            self.slots.fill(Slot::Empty);
        } else {
            self.writer.begin_row();
        }
    }

    /// The column that the next value is for, if the row has room for one.
    #[inline]
    pub fn column(&self) -> Option<&'a Column> {
        let at = *self.plan.columns.get(self.position)?;
        Some(&self.plan.schema().columns[at])
    }

    /// Goes on with the value at `position`.
    ///
    /// # Panics
    /// When the encoder was not made for values in any order.
    pub fn seek(&mut self, position: usize) {
        assert!(self.scattered, "values come in the order of the statement");
        self.position = position;
    }

    /// Writes the next value by one of the `put_` functions of `freshet_schema::value`;
    /// `literal` is the same value for the lax modes and for messages.
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
        let written = self.put_at(at, literal, write);
        self.filter(written)
    }

    #[inline]
    fn put_at(
        &mut self,
        at: usize,
        literal: Literal<'_>,
        write: impl FnOnce(&Column, &Rules, &mut Vec<u8>) -> Result<Put, BadValue>,
    ) -> Result<(), Box<Fault>> {
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
        while self.writer.column() < at {
            fill(plan, &mut self.writer)?;
        }
        self.writer.cell(write)
    }

    /// Where rows may be left out, a fault is kept until the row's end.
    #[inline]
    fn filter(&mut self, written: Result<(), Box<Fault>>) -> Result<(), Box<Fault>> {
        match written {
            Err(fault) if self.plan.filters => {
                self.fault = Some(fault);
                Ok(())
            }
            written => written,
        }
    }

    /// Writes NULL.
    #[inline]
    pub fn put_null(&mut self) -> Result<(), Box<Fault>> {
        self.put(Literal::Null, |column, _, _| put_null(column))
    }

    /// Writes the default of the column.
    pub fn put_default(&mut self) -> Result<(), Box<Fault>> {
        let Some(&at) = self.plan.columns.get(self.position) else {
            return Err(Box::new(Fault::Count { expected: self.plan.width() }));
        };
        match &self.plan.fillers[at] {
            Filler::Cell(cell) => self.put(Literal::Null, |_, _, out| {
                out.extend_from_slice(cell);
                Ok(Put::Value)
            }),
            Filler::Null => self.put_null(),
            filler => {
                self.position += 1;
                self.filter(Err(Box::new(no_filler(filler, at))))
            }
        }
    }

    /// Completes a row that must have given every value.
    #[inline]
    pub fn end_row(&mut self) -> Result<(), Box<Fault>> {
        if self.position != self.plan.width() {
            return Err(Box::new(Fault::Count { expected: self.plan.width() }));
        }
        self.end_partial_row()
    }

    /// Completes a row; what it did not give takes the columns' defaults.
    #[inline]
    pub fn end_partial_row(&mut self) -> Result<(), Box<Fault>> {
        if self.fault.is_none() {
            let completed = self.complete();
            self.filter(completed)?;
        }
        match self.fault.take() {
            None => self.writer.end_row(),
            Some(fault) => self.leave_out(&fault),
        }
        Ok(())
    }

    /// Gives the columns that the row did not name their values.
    #[inline]
    fn complete(&mut self) -> Result<(), Box<Fault>> {
        if self.scattered {
            return self.gather();
        }
        while self.writer.column() < self.plan.fillers.len() {
            fill(self.plan, &mut self.writer)?;
        }
        Ok(())
    }

    #[cold]
    fn leave_out(&mut self, fault: &Fault) {
        let row = self.row_number();
        self.abort_row();
        self.warnings.filter(fault, self.plan, row);
    }

    /// Moves the cells of a scattered row to their places.
    fn gather(&mut self) -> Result<(), Box<Fault>> {
        self.writer.begin_row();
        for slot in &self.slots {
            match *slot {
                Slot::Empty => {
                    if let Err(fault) = fill(self.plan, &mut self.writer) {
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

    /// Takes back the row that was begun and not completed.
    #[inline]
    pub fn abort_row(&mut self) {
        self.fault = None;
        if !self.scattered {
            self.writer.abort_row();
        }
    }
}

/// Writes the default of the next column.
#[inline]
fn fill(plan: &InsertPlan, writer: &mut RowWriter<'_>) -> Result<(), Box<Fault>> {
    let at = writer.column();
    match &plan.fillers[at] {
        Filler::Cell(cell) => writer.put_encoded(cell),
        Filler::Null => writer.put_null(),
        filler => return Err(Box::new(no_filler(filler, at))),
    }
    Ok(())
}

fn no_filler(filler: &Filler, column: usize) -> Fault {
    match filler {
        Filler::Bad(bad) => Fault::Value { column, bad: bad.clone(), value: b"DEFAULT".to_vec() },
        _ => Fault::Missing { column },
    }
}

#[cold]
fn mend(
    column: &Column,
    literal: Literal<'_>,
    bad: BadValue,
    rules: &Rules,
    row: u64,
    warnings: &mut Warnings,
    out: &mut Vec<u8>,
) -> Result<Put, BadValue> {
    let put = adjust(column, literal, bad.clone(), rules, out)?;
    warnings.add(column, &bad, &beginning(literal), row);
    Ok(put)
}

/// The beginning of a value, as it was written.
#[cold]
fn beginning(literal: Literal<'_>) -> Vec<u8> {
    let mut value = match literal {
        Literal::Null => b"NULL".to_vec(),
        Literal::Int(value) => value.to_string().into_bytes(),
        Literal::Float(value) => value.to_string().into_bytes(),
        Literal::Time(value) => value.to_string().into_bytes(),
        Literal::Number(text) | Literal::Text(text) | Literal::Binary(text) => {
            text[..text.len().min(VALUE_BYTES_MAX)].to_vec()
        }
    };
    value.truncate(VALUE_BYTES_MAX);
    value
}
