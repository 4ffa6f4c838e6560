//! Encodes batches of columns as rows, a step at a time.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use freshet_base::Result;
use freshet_schema::Rules;

use super::cells::Cells;
use super::plain::stored;
use super::{BodySchema, project};
use crate::counter::UsedIds;
use crate::decode::{RowEncoder, SourcePlan, StoredValues};
use crate::rejects::{Rejects, reason};

/// Rows between looks at the size of what was made, at most.
const SLICE_ROWS_MAX: usize = 256;
/// About how many rows, and bytes of rows, a step makes at most.
const STEP_ROWS: u64 = 64 << 10;
const STEP_BYTES: usize = 2 << 20;

/// The values of a column.
enum Values {
    /// They are written as they stand.
    Stored(StoredValues),
    /// Each of them is converted.
    Any(Cells),
}

/// A batch whose first rows are encoded.
struct Pending {
    batch: RecordBatch,
    columns: Vec<Values>,
    at: usize,
    /// Rows between looks at the size of what was made.
    slice_rows: usize,
}

pub(super) struct BatchEncoder {
    source: Arc<SourcePlan>,
    rules: Rules,
    pending: Option<Pending>,
    rows: usize,
    /// Rows seen, accepted or rejected.
    seen: u64,
    rejects: Rejects,
    ids: Option<UsedIds>,
}

impl BatchEncoder {
    pub fn new(source: &Arc<SourcePlan>, rules: &Rules) -> Self {
        let (rows, seen, pending) = (0, 0, None);
        let (rejects, ids) = (Rejects::default(), None);
        Self { source: Arc::clone(source), rules: *rules, pending, rows, seen, rejects, ids }
    }

    /// The positions in a body of the columns that are loaded, in the order of their values.
    ///
    /// # Errors
    /// When the body lacks one of them.
    pub fn positions(source: &SourcePlan, body: &BodySchema) -> Result<Vec<usize>> {
        let named = source.names.iter().zip(&source.fields);
        named.filter(|(_, field)| field.is_some()).map(|(name, _)| body.position(name)).collect()
    }

    /// Takes a batch of all columns of a body.
    ///
    /// # Errors
    /// When a column is of a type that cannot be loaded.
    pub fn begin(&mut self, batch: &RecordBatch, positions: &[usize]) -> Result<()> {
        assert!(self.is_idle(), "a batch is through before the next one begins");
        let batch = project(batch, positions)?;
        let columns = batch.columns().iter().zip(batch.schema_ref().fields());
        let cells = columns.map(|(array, field)| Cells::of(field.name(), array, self.rules.zone));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let row_bytes_max = cells.iter().map(Cells::value_bytes_max).sum::<usize>();
        let slice_rows = (STEP_BYTES / row_bytes_max.max(1)).clamp(1, SLICE_ROWS_MAX);
        let form = |(at, cells): (usize, Cells)| {
            let column = self.source.plan.simple_column(at);
            match column.and_then(|column| stored(&cells, column)) {
                Some(values) => Values::Stored(values),
                None => Values::Any(cells),
            }
        };
        let columns = cells.into_iter().enumerate().map(form).collect();
        self.pending = Some(Pending { columns, batch, at: 0, slice_rows });
        Ok(())
    }

    /// Whether it needs the next batch.
    pub fn is_idle(&self) -> bool {
        self.pending.is_none()
    }

    /// The number of rows seen at which a step that begins now ends, however small its rows are.
    pub fn step_end(&self) -> u64 {
        self.seen + STEP_ROWS
    }

    /// Whether a step has come to its end.
    pub fn is_at(&self, until: u64, out: &[u8]) -> bool {
        self.seen >= until || out.len() >= STEP_BYTES
    }

    /// Encodes rows until the batch or the step is through.
    ///
    /// # Errors
    /// When there are not enough ids for an AUTO_INCREMENT column.
    pub fn encode(&mut self, out: &mut Vec<u8>, until: u64) -> Result<()> {
        while !self.is_at(until, out)
            && let Some(mut pending) = self.pending.take()
        {
            self.encode_slice(&mut pending, out)?;
            self.pending = Some(pending).filter(|pending| pending.at < pending.batch.num_rows());
        }
        Ok(())
    }

    fn encode_slice(&mut self, pending: &mut Pending, out: &mut Vec<u8>) -> Result<()> {
        let Pending { batch, columns, at, slice_rows } = pending;
        let end = (*at + *slice_rows).min(batch.num_rows());
        let encoder = RowEncoder::new(&self.source.plan, &self.rules, out);
        let mut encoder = encoder.counting_from(self.rows as u64 + 1);
        for row in *at..end {
            self.seen += 1;
            encoder.begin_row();
            let put = columns.iter().try_for_each(|values| match values {
                Values::Stored(values) => values.put(row, &mut encoder),
                Values::Any(cells) => cells.put(row, &mut encoder),
            });
            if let Err(fault) = put.and_then(|()| encoder.end_row()) {
                encoder.abort_row();
                let line = if self.rejects.is_full() { Vec::new() } else { line(batch, row) };
                self.rejects.add(self.seen, &line, || reason(&fault, &self.source.plan));
            }
        }
        *at = end;
        let encoded = encoder.finish()?;
        self.rows += encoded.rows;
        self.ids = UsedIds::join(self.ids, encoded.ids);
        Ok(())
    }

    /// Number of rows seen, accepted or rejected.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn into_rejects(self) -> (u64, Rejects, Option<UsedIds>) {
        (self.seen, self.rejects, self.ids)
    }
}

/// A row as it is shown with the reason of its rejection.
fn line(batch: &RecordBatch, row: usize) -> Vec<u8> {
    let format = FormatOptions::default().with_null("\\N");
    let field = |column| match ArrayFormatter::try_new(column, &format) {
        Ok(shown) => shown.value(row).to_string(),
        Err(_) => String::new(),
    };
    let fields = batch.columns().iter().map(|column| field(column.as_ref()));
    fields.collect::<Vec<_>>().join(",").into_bytes()
}
