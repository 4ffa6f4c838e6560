//! Rows that delete their key, in a merge of a table with a sequence column (keys.md K30, RFC
//! 0047): they get the moment from which they age, and those that are old are named.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int8Array, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int8Type;
use freshet_schema::key::KeyCodec;
use freshet_schema::{DeleteClock, Forgotten, RowCells, TableSchema, encode};

/// The most rows that a merge names; the next one names others.
const FORGOTTEN_MAX: usize = 50_000;

/// What a merge does with rows that delete.
#[derive(Clone, Copy, Debug)]
pub struct Aging {
    pub clock: DeleteClock,
    /// Whether the oldest rowset of the tablet is among its inputs, so that old rows are named.
    pub has_oldest: bool,
}

/// Dates the rows of a merge.
pub(super) struct Ager {
    aging: Aging,
    /// The position of the delete sign.
    sign: usize,
    /// The position of the sequence column.
    sequence: usize,
    pub forgotten: Vec<Forgotten>,
}

impl Ager {
    /// For a merge into these columns; `None` in tables without a sequence column.
    pub fn new(aging: Option<Aging>, schema: &TableSchema) -> Option<Self> {
        let (aging, sign) = aging.zip(schema.delete_sign())?;
        let sequence = schema.position_of(schema.sequence?)?;
        Some(Self { aging, sign, sequence, forgotten: Vec::new() })
    }

    /// The same rows, of which each that deletes has the moment of a merge. Notes those that are
    /// old.
    pub fn age(&mut self, batch: RecordBatch, schema: &TableSchema) -> RecordBatch {
        let signs = batch.column(self.sign).as_primitive::<Int8Type>();
        if signs.values().iter().all(|sign| *sign == 0) {
            return batch;
        }
        if self.aging.has_oldest {
            self.note_old(&batch, signs, schema);
        }
        let dated = signs.values().iter().map(|sign| self.aging.clock.dated(*sign));
        let dated: ArrayRef = Arc::new(Int8Array::from_iter_values(dated));
        let mut columns = batch.columns().to_vec();
        columns[self.sign] = dated;
        RecordBatch::try_new(batch.schema(), columns).expect("the sign is a TINYINT")
    }

    fn note_old(&mut self, batch: &RecordBatch, signs: &Int8Array, schema: &TableSchema) {
        let mut left = FORGOTTEN_MAX.saturating_sub(self.forgotten.len());
        let is_old = signs.values().iter().map(|sign| {
            let is_old = left > 0 && self.aging.clock.is_old(*sign);
            left -= usize::from(is_old);
            Some(is_old)
        });
        let is_old = is_old.collect::<BooleanArray>();
        if is_old.true_count() == 0 {
            return;
        }
        let old = filter_record_batch(batch, &is_old).expect("the mask has the rows of the batch");
        let mut rows = Vec::new();
        encode(&old, schema, &mut rows);
        let keys = KeyCodec::of_sort_key(schema).of_rows(&rows);
        let signs = old.column(self.sign).as_primitive::<Int8Type>();
        let cells = RowCells::new(schema);
        let forgotten = cells.rows(&rows).enumerate().map(|(at, row)| Forgotten {
            key: keys.key(at).into(),
            sequence: cells.encoded(row, self.sequence).map(Box::from),
            sign: signs.value(at),
        });
        self.forgotten.extend(forgotten);
    }
}
