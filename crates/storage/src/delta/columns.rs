//! Converts the encoded rows of a chunk to columns.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::compute::filter_record_batch;
use freshet_base::task::yield_core;
use freshet_schema::TableSchema;
use freshet_schema::columns::ColumnsBuilder;
use freshet_schema::history::adapt;
use freshet_schema::{encode, encode_rows};

use super::encoded::{EncodedRows, Entry, Place};
use crate::error::Result;

/// For more visible ranges than this, one filter is cheaper than many small batches.
const SLICES_MAX: usize = 4;
/// Bytes converted before yielding the core: about 200 us.
const TURN_BYTES: usize = 128 << 10;

/// The columns of a chunk.
pub(super) struct Columns {
    runs: Vec<Run>,
}

/// Consecutive entries encoded under one schema version.
struct Run {
    schema: Arc<TableSchema>,
    batch: RecordBatch,
    /// The chunk's rows in the batch.
    rows: Range<usize>,
}

impl Columns {
    pub fn new(entries: &[Entry], schemas: &[Arc<TableSchema>], encoded: &EncodedRows) -> Self {
        let mut runs = Vec::new();
        let mut arena_at = 0;
        let mut rows_at = 0;
        let mut turn_bytes = 0;
        for run in entries.chunk_by(|a, b| a.schema == b.schema) {
            let schema = &schemas[usize::from(run[0].schema)];
            let rows_end = run[run.len() - 1].rows_end as usize;
            let mut builder = ColumnsBuilder::new(schema, rows_end - rows_at);
            let first = rows_at;
            for entry in run {
                let mut append = |rows: &[u8]| {
                    builder.append_all(rows);
                    turn_bytes += rows.len();
                    if turn_bytes >= TURN_BYTES {
                        turn_bytes = 0;
                        yield_core();
                    }
                };
                match entry.place {
                    Place::Arena { end } => {
                        let start = std::mem::replace(&mut arena_at, end as usize);
                        append(&encoded.arena[start..arena_at]);
                    }
                    Place::Shared { first, end } => {
                        encoded.pieces(first, end).iter().for_each(|piece| append(piece));
                    }
                }
                rows_at = entry.rows_end as usize;
                assert_eq!(
                    builder.rows(),
                    rows_at - first,
                    "rows acknowledged are rows in columns"
                );
            }
            runs.push(Run {
                schema: Arc::clone(schema),
                batch: builder.finish(),
                rows: first..rows_end,
            });
        }
        assert_eq!(arena_at, encoded.arena.len(), "all bytes of a chunk become columns");
        Self { runs }
    }

    /// A row of the chunk, encoded with the columns of `schema`.
    pub fn encoded_row(&self, at: usize, schema: &TableSchema) -> Vec<u8> {
        let run =
            self.runs.iter().find(|run| run.rows.contains(&at)).expect("a chunk has its rows");
        let (in_run, mut row) = (at - run.rows.start, Vec::new());
        if run.schema.version == schema.version {
            encode_rows(&run.batch, in_run..in_run + 1, schema, &mut row);
        } else {
            encode(&adapt(&run.batch.slice(in_run, 1), &run.schema, schema), schema, &mut row);
        }
        row
    }

    /// Memory of the columns.
    pub fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.batch.get_array_memory_size()).sum()
    }

    /// The rows in these ascending ranges of the chunk; each batch with its schema.
    pub fn select(
        &self,
        ranges: &[Range<usize>],
        out: &mut Vec<(Arc<TableSchema>, RecordBatch)>,
    ) -> Result<()> {
        for run in &self.runs {
            let inside = ranges
                .iter()
                .map(|range| range.start.max(run.rows.start)..range.end.min(run.rows.end))
                .filter(|range| !range.is_empty())
                .map(|range| range.start - run.rows.start..range.end - run.rows.start)
                .collect::<Vec<_>>();
            if inside.len() <= SLICES_MAX {
                for range in inside {
                    let slice = run.batch.slice(range.start, range.len());
                    out.push((Arc::clone(&run.schema), slice));
                }
            } else {
                let mask = mask(&inside, run.rows.len());
                out.push((Arc::clone(&run.schema), filter_record_batch(&run.batch, &mask)?));
            }
        }
        Ok(())
    }
}

fn mask(ranges: &[Range<usize>], rows: usize) -> BooleanArray {
    let mut bits = BooleanBufferBuilder::new(rows);
    for range in ranges {
        bits.append_n(range.start - bits.len(), false);
        bits.append_n(range.len(), true);
    }
    bits.append_n(rows - bits.len(), false);
    BooleanArray::new(bits.finish(), None)
}
