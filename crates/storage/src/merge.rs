//! Merges sorted runs to one sorted stream, holding one batch per run in memory.

use std::cmp::Ordering;

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use freshet_base::task::yield_core;
use freshet_schema::TableSchema;
use freshet_schema::key::{KeyColumns, KeyComparator, KeyWords};

use crate::error::Result;

/// A sorted run: its batches in order.
pub type Run = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// Merges runs by sort key; rows with equal keys are ordered by run.
pub struct Merge {
    runs: Vec<Run>,
    schema: TableSchema,
    /// The current row of each run; `None` at its end.
    cursors: Vec<Option<Cursor>>,
    /// The runs that have not ended, ordered by their current rows.
    order: Vec<usize>,
    /// Comparators between the batches of two runs, created when first needed.
    comparators: Vec<Option<KeyComparator>>,
    batch_rows: usize,
    /// Batches that contain rows of the next result batch.
    held: Vec<RecordBatch>,
    /// The run of each row of the last result batch.
    origins: Vec<u16>,
    failed: bool,
}

struct Cursor {
    batch: RecordBatch,
    columns: KeyColumns,
    keys: KeyWords,
    row: usize,
    /// The batch's index in `held`, after a row of it was selected.
    slot: Option<usize>,
}

impl Merge {
    /// Merges `runs`, whose batches have the columns of `schema`.
    ///
    /// # Errors
    /// The first error of a run.
    pub fn new(runs: Vec<Run>, schema: &TableSchema, batch_rows: usize) -> Result<Self> {
        let count = runs.len();
        assert!(u16::try_from(count).is_ok(), "a merge has few runs");
        let mut merge = Self {
            runs,
            schema: schema.clone(),
            cursors: (0..count).map(|_| None).collect(),
            order: Vec::with_capacity(count),
            comparators: (0..count * count).map(|_| None).collect(),
            batch_rows,
            held: Vec::new(),
            origins: Vec::new(),
            failed: false,
        };
        for run in 0..count {
            if merge.refill(run)? {
                merge.place(run);
            }
        }
        Ok(merge)
    }

    /// Loads a run's next non-empty batch; false at its end.
    fn refill(&mut self, run: usize) -> Result<bool> {
        self.cursors[run] = None;
        let count = self.runs.len();
        for other in 0..count {
            self.comparators[run * count + other] = None;
            self.comparators[other * count + run] = None;
        }
        for batch in self.runs[run].by_ref() {
            yield_core();
            let batch = batch?;
            if batch.num_rows() > 0 {
                let columns = KeyColumns::new(&batch, &self.schema);
                let keys = KeyWords::of(&columns, &self.schema);
                self.cursors[run] = Some(Cursor { batch, columns, keys, row: 0, slot: None });
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Inserts a run in `order` by its current row.
    fn place(&mut self, run: usize) {
        let (mut low, mut high) = (0, self.order.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.before(run, self.order[middle]) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        self.order.insert(low, run);
    }

    /// Whether the current row of `a` comes before that of `b`.
    fn before(&mut self, a: usize, b: usize) -> bool {
        let cursor = |run: usize| self.cursors[run].as_ref().expect("the run has not ended");
        let (left, right) = (cursor(a), cursor(b));
        let short = left.keys.row(left.row).cmp(right.keys.row(right.row));
        let whole = match short {
            Ordering::Equal if !left.keys.is_exact() => {
                let comparator = &mut self.comparators[a * self.runs.len() + b];
                let comparator = comparator
                    .get_or_insert_with(|| KeyComparator::of(&left.columns, &right.columns));
                comparator.compare(left.row, right.row)
            }
            short => short,
        };
        whole.then(a.cmp(&b)) == Ordering::Less
    }

    /// The index of the run of each row of the batch that was returned last.
    pub fn origins(&self) -> &[u16] {
        &self.origins
    }

    /// The next batch; `None` at the end.
    fn fill(&mut self) -> Result<Option<RecordBatch>> {
        self.held.clear();
        self.origins.clear();
        for cursor in self.cursors.iter_mut().flatten() {
            cursor.slot = None;
        }
        let mut places = Vec::with_capacity(self.batch_rows);
        while places.len() < self.batch_rows && !self.order.is_empty() {
            let run = self.order[0];
            let cursor = self.cursors[run].as_mut().expect("the run has not ended");
            let slot = *cursor.slot.get_or_insert_with(|| {
                self.held.push(cursor.batch.clone());
                self.held.len() - 1
            });
            places.push((slot, cursor.row));
            self.origins.push(run as u16);
            cursor.row += 1;
            let more = cursor.row < cursor.batch.num_rows() || self.refill(run)?;
            // Usually the first run remains first, which takes a single comparison.
            if more && self.order.get(1).copied().is_none_or(|second| self.before(run, second)) {
                continue;
            }
            self.order.remove(0);
            if more {
                self.place(run);
            }
        }
        if places.is_empty() {
            return Ok(None);
        }
        let held = self.held.iter().collect::<Vec<_>>();
        let merged = interleave_record_batch(&held, &places)?;
        assert_eq!(merged.num_rows(), places.len(), "a merge hands on each row that it takes");
        Ok(Some(merged))
    }
}

impl Iterator for Merge {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.fill().transpose()?;
        self.failed = item.is_err();
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Error;
    use crate::testing::{batch, keys, schema};

    fn run(sorted: &[i64], piece: usize) -> Run {
        let schema = schema(1);
        let pieces = sorted.chunks(piece).map(|keys| Ok(batch(&schema, keys)));
        Box::new(pieces.collect::<Vec<_>>().into_iter())
    }

    proptest! {
        #[test]
        fn merging_is_sorting(
            mut runs in prop::collection::vec(prop::collection::vec(-50i64..50, 0..200), 0..6),
            piece in 1usize..50,
            batch_rows in 1usize..100,
        ) {
            runs.iter_mut().for_each(|run| run.sort_unstable());
            let sources = runs.iter().map(|keys| run(keys, piece)).collect();
            let merge = Merge::new(sources, &schema(1), batch_rows).unwrap();
            let batches = merge.map(Result::unwrap).collect::<Vec<_>>();
            prop_assert!(batches.iter().all(|batch| batch.num_rows() <= batch_rows));
            let mut expected = runs.concat();
            expected.sort_unstable();
            prop_assert_eq!(keys(&batches), expected);
        }
    }

    #[test]
    fn equal_keys_stay_in_the_order_of_the_runs() {
        let mut by_text = schema(1).as_ref().clone();
        by_text.sort_key = vec![1];
        // Every fifth key has no text, so these are equal as sort keys.
        let source = |keys: &[i64]| -> Run { Box::new([Ok(batch(&by_text, keys))].into_iter()) };
        let runs = vec![source(&[10, 5]), source(&[20, 0]), source(&[15])];
        let merged = Merge::new(runs, &by_text, 10).unwrap().map(Result::unwrap);
        assert_eq!(keys(&merged.collect::<Vec<_>>()), [10, 5, 20, 0, 15]);
    }

    #[test]
    fn an_error_of_a_run_ends_the_merge() {
        let bad = [Ok(batch(&schema(1), &[1])), Err(Error::Internal("broken".to_owned()))];
        let runs = vec![run(&[2, 3], 1), Box::new(bad.into_iter()) as Run];
        let mut merge = Merge::new(runs, &schema(1), 1).unwrap();
        assert!(merge.any(|batch| batch.is_err()));
        assert!(merge.next().is_none());
    }
}
