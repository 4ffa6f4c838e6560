//! Rows of a body that are computed before they are stored: by the expressions and conditions of a
//! stream load, or by the SELECT of an Http Stream.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use freshet_base::budget::Permit;
use freshet_base::clock::{ClockRef, Deadline};
use freshet_base::{Error, ErrorCode, Result, bail};
use freshet_ingest::UsedIds;
use freshet_ingest::decode::{InsertPlan, PartialColumns, RowEncoder};
use freshet_ingest::rejects::{Rejects, reason};
use freshet_query::engine::QueryEngine;
use freshet_query::mapping::Mapping;
use freshet_query::result::Cells;
use freshet_query::{RecordBatch, Task};
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::{Rules, TableSchema};

use super::piece::{BodySummary, Decoded};
use crate::statement::cells::{put_cell, row_numbers, stored};

/// How the rows of a body become rows of the table.
pub(super) struct Mapped {
    pub query: Arc<QueryEngine>,
    pub mapping: Mapping,
    /// The fields of the body.
    pub fields: Arc<TableSchema>,
    /// The fields behind the number of the row, as the expressions see them.
    pub seen: Arc<TableSchema>,
    /// Of the computed columns into the table.
    pub plan: InsertPlan,
    pub rules: Rules,
    /// Whether the second column says which rows delete.
    pub marks: bool,
    /// Of a partial update of which rows may delete.
    pub partial: Option<Arc<PartialColumns>>,
    pub limits: Limits,
}

/// What ends a computation early.
pub(super) struct Limits {
    pub clock: ClockRef,
    pub deadline: Deadline,
    /// Whether the load may have rejected rows at all.
    pub takes_rejects: bool,
}

/// What is computed of a part of a body may be so many times as long as its rows, or have
/// [`RESULT_BYTES_MIN`].
const RESULT_FACTOR: usize = 8;
const RESULT_BYTES_MIN: usize = 64 << 20;

/// Rows of the table, and what became of the others.
#[derive(Default)]
struct Computed {
    rows: Vec<u8>,
    count: usize,
    rejects: Rejects,
    ids: Option<UsedIds>,
    deletes: Vec<bool>,
}

/// How far a computation was before a range of rows.
type Mark = (usize, usize, (u64, usize, usize), Option<UsedIds>, usize);

impl Computed {
    fn mark(&self) -> Mark {
        (self.rows.len(), self.count, self.rejects.mark(), self.ids, self.deletes.len())
    }

    /// Forgets what came behind a mark.
    fn back_to(&mut self, (bytes, count, rejects, ids, deletes): Mark) {
        self.rows.truncate(bytes);
        self.deletes.truncate(deletes);
        self.rejects.back_to(rejects);
        (self.count, self.ids) = (count, ids);
    }
}

impl Mapped {
    /// Computes the rows of a piece on the threads of queries.
    pub(super) fn start(self: &Arc<Self>, piece: Decoded) -> Task<Decoded> {
        let mapped = Arc::clone(self);
        self.query.start(async move { mapped.map(piece).await })
    }

    async fn map(&self, piece: Decoded) -> Result<Decoded> {
        if piece.count == 0 {
            return Ok(piece);
        }
        let Decoded { rows, count, summary, mut permit, .. } = piece;
        let batch = self.batch(&rows, count)?;
        let bytes = rows.len();
        drop(rows);
        let mut computed = self.compute(&batch, bytes, &mut permit).await?;
        if computed.rows.len() < computed.rows.capacity() / 2 {
            computed.rows.shrink_to_fit();
        }
        permit.resize_over(computed.rows.len() as u64);
        let BodySummary { rows, mut rejects, unselected: _, ids: _ } = summary;
        let rejected = computed.rejects.count();
        rejects.append(std::mem::take(&mut computed.rejects), 0);
        let unselected = count as u64 - rejected - computed.count as u64;
        let summary = BodySummary { rows, rejects, unselected, ids: computed.ids };
        let Computed { rows, count, deletes, .. } = computed;
        let (deletes, given) = match &self.partial {
            None => (deletes, Vec::new()),
            Some(columns) => (Vec::new(), columns.of_each(&deletes)),
        };
        Ok(Decoded { rows, count, summary, permit, deletes, given })
    }

    /// The decoded rows as columns, numbered.
    fn batch(&self, rows: &[u8], count: usize) -> Result<RecordBatch> {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count as i64));
        let fields = ColumnsBuilder::batch_of(&self.fields, rows, count);
        let arrays = [numbers].into_iter().chain(fields.columns().iter().cloned()).collect();
        match RecordBatch::try_new(Arc::clone(self.seen.arrow()), arrays) {
            Ok(batch) => Ok(batch),
            Err(error) => bail!(Internal, "the rows of a body do not fit its fields: {error}"),
        }
    }

    /// Computes all rows at once, of which the body had so many bytes. Where that fails for a
    /// value, halves are computed by themselves, until the rows are found that have to be rejected.
    async fn compute(
        &self,
        batch: &RecordBatch,
        bytes: usize,
        permit: &mut Permit,
    ) -> Result<Computed> {
        let bytes_max = bytes.saturating_mul(RESULT_FACTOR).max(RESULT_BYTES_MIN);
        // Most are about as long as those of the body.
        let mut done = Computed { rows: Vec::with_capacity(bytes), ..Computed::default() };
        let mut left = vec![(0, batch.num_rows())];
        while let Some((start, count)) = left.pop() {
            if self.limits.deadline.left(&*self.limits.clock).is_zero() {
                bail!(QueryTimeout, "the load took longer than its timeout allows");
            }
            let before = done.mark();
            let each = |rows: &RecordBatch| {
                self.encode(rows, batch, &mut done)?;
                if done.rows.len() > bytes_max {
                    bail!(
                        OutOfRoom,
                        "the expressions of the load make more than {bytes_max} bytes of {} rows",
                        batch.num_rows()
                    );
                }
                permit.resize_over(permit.bytes().max(done.rows.len() as u64));
                Ok(())
            };
            let Err(error) = self.mapping.apply(batch.slice(start, count), each).await else {
                continue;
            };
            if !is_of_a_value(&error) {
                return Err(error);
            }
            done.back_to(before);
            if count == 1 {
                reject(&mut done, batch, start, &error);
                self.check_rejects(&done)?;
            } else {
                let half = count / 2;
                left.push((start + half, count - half));
                left.push((start, half));
            }
        }
        Ok(done)
    }

    /// Ends a load that may have no rejected rows, once as many are known as are described.
    fn check_rejects(&self, done: &Computed) -> Result<()> {
        if self.limits.takes_rejects || !done.rejects.is_full() {
            return Ok(());
        }
        let first = done.rejects.first_reason().unwrap_or_default();
        bail!(
            TooManyFiltered,
            "too many filtered rows: {} of a part of the body, the first since {first}",
            done.rejects.count()
        )
    }

    fn encode(&self, rows: &RecordBatch, source: &RecordBatch, done: &mut Computed) -> Result<()> {
        let cells = Cells::of(rows, &self.mapping.columns)?;
        let numbers = row_numbers(&cells)?;
        let first = if self.marks { 2 } else { 1 };
        let mut text = Vec::new();
        let of_column = |(at, cells): (usize, &Cells)| {
            let column = self.plan.simple_column(at);
            column.and_then(|column| stored(cells, column))
        };
        let columns = cells[first..].iter().enumerate().map(of_column).collect::<Vec<_>>();
        let mut encoder = RowEncoder::new(&self.plan, &self.rules, &mut done.rows);
        for (row, number) in numbers.into_iter().enumerate() {
            encoder.begin_row();
            let deletes = self.marks && is_true(&cells[1], row)?;
            encoder.set_deletes(deletes);
            let mut encode = || {
                let mut values = columns.iter().zip(&cells[first..]);
                values.try_for_each(|(column, cells)| match column {
                    Some(values) => values.put(row, &mut encoder),
                    None => put_cell(&mut encoder, cells, row, &mut text),
                })?;
                encoder.end_row()
            };
            if let Err(fault) = encode() {
                encoder.abort_row();
                let is_full = done.rejects.is_full();
                let line = if is_full { Vec::new() } else { line(source, number) };
                done.rejects.add(number as u64 + 1, &line, || reason(&fault, &self.plan));
            } else if self.marks {
                done.deletes.push(deletes);
            }
        }
        let encoded = encoder.finish()?;
        done.count += encoded.rows;
        done.deletes.extend(encoded.deletes);
        done.ids = UsedIds::join(done.ids, encoded.ids);
        Ok(())
    }
}

/// A truth value of the query.
fn is_true(cells: &Cells, row: usize) -> Result<bool> {
    match cells {
        Cells::Bool(values) => Ok(values.value(row)),
        Cells::Int(values) => Ok(values.value(row) != 0),
        _ => bail!(Internal, "IS TRUE gives something else than a truth value"),
    }
}

fn reject(done: &mut Computed, source: &RecordBatch, row: usize, error: &Error) {
    let line = if done.rejects.is_full() { Vec::new() } else { line(source, row) };
    done.rejects.add(row as u64 + 1, &line, || error.message().to_owned());
}

/// Whether the error is one of the values in a row, and not of the whole load.
fn is_of_a_value(error: &Error) -> bool {
    use ErrorCode as E;
    matches!(
        error.code(),
        E::OutOfRange
            | E::Truncated
            | E::WrongValue
            | E::DivisionByZero
            | E::WrongFieldValue
            | E::TooLong
            | E::WrongArgument
            | E::DateOverflow
            | E::ExpressionRange
            | E::NoLogarithm
            | E::InvalidJson
            | E::JsonKey
    )
}

/// A row of the body as it is shown with the reason of its rejection.
fn line(source: &RecordBatch, row: usize) -> Vec<u8> {
    let format = FormatOptions::default().with_null("\\N");
    let field = |column: &ArrayRef| match ArrayFormatter::try_new(column.as_ref(), &format) {
        Ok(shown) => shown.value(row).to_string(),
        Err(_) => String::new(),
    };
    source.columns()[1..].iter().map(field).collect::<Vec<_>>().join(",").into_bytes()
}
