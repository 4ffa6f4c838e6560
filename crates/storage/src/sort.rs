//! Rows of many batches in the order of the sort key.
//!
//! Eight bytes of normalised key a row are sorted by radix, rows beside them as 32-bit indices;
//! only where those eight bytes tie are columns compared. Stable, so equal keys stay in the
//! order in which they came, which is the order of the log.

use arrow::array::RecordBatch;
use arrow::compute::{concat_batches, interleave_record_batch};
use freshet_schema::TableSchema;
use freshet_schema::key::{KeyComparator, prefixes};

use crate::error::Result;

/// Below this many rows a comparison sort is faster than eight counting passes.
const RADIX_ROWS_MIN: usize = 512;

/// Batches of one schema, their rows numbered through.
pub struct Rows {
    batches: Vec<RecordBatch>,
    /// The number of the first row of each batch.
    starts: Vec<u32>,
    rows: u32,
}

/// A row and the first eight bytes of its key.
#[derive(Clone, Copy, Default)]
struct Keyed {
    key: u64,
    row: u32,
}

/// Rows in the order of their keys, and what their eight bytes span.
pub struct Sorted {
    /// Numbers of rows.
    pub rows: Vec<u32>,
    /// The least and the greatest prefix; `None` without rows.
    pub keys: Option<(u64, u64)>,
}

impl Rows {
    /// Numbers the rows of `batches`.
    ///
    /// # Panics
    /// When there are more than 32 bits can number: a flush is bounded far below.
    pub fn new(batches: Vec<RecordBatch>) -> Self {
        let mut starts = Vec::with_capacity(batches.len());
        let mut rows = 0usize;
        for batch in &batches {
            starts.push(u32::try_from(rows).expect("a flush has fewer rows than 32 bits number"));
            rows += batch.num_rows();
        }
        let rows = u32::try_from(rows).expect("a flush has fewer rows than 32 bits number");
        Self { batches, starts, rows }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The batches.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Sorts the rows of these numbers, ascending, by the sort key of `schema`.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict the schema.
    pub fn sort(&self, rows: &[u32], schema: &TableSchema) -> Result<Sorted> {
        let mut exact = true;
        let mut all = Vec::with_capacity(self.len());
        for batch in &self.batches {
            let prefixes = prefixes(batch, schema);
            exact &= prefixes.exact;
            all.extend(prefixes.keys);
        }
        let mut keyed = rows.iter().map(|&row| Keyed { key: all[row as usize], row }).collect();
        drop(all);
        sort_by_prefix(&mut keyed);
        if !exact {
            self.settle_ties(&mut keyed, schema)?;
        }
        let keys = keyed.first().zip(keyed.last()).map(|(first, last)| (first.key, last.key));
        Ok(Sorted { rows: keyed.into_iter().map(|keyed| keyed.row).collect(), keys })
    }

    /// Sorts runs of equal prefixes by their columns.
    fn settle_ties(&self, keyed: &mut [Keyed], schema: &TableSchema) -> Result<()> {
        if keyed.windows(2).all(|pair| pair[0].key != pair[1].key) {
            return Ok(());
        }
        let columns = schema.sort_key.iter().map(|&at| schema.columns[at].clone()).collect();
        let sort_key = (0..schema.sort_key.len()).collect();
        let key_schema = TableSchema::new(schema.version, columns, sort_key);
        let projected = self.batches.iter().map(|batch| batch.project(&schema.sort_key));
        let projected = projected.collect::<Result<Vec<_>, _>>()?;
        let Some(first) = projected.first() else { return Ok(()) };
        let keys = concat_batches(&first.schema(), &projected)?;
        let compare = KeyComparator::new(&keys, &keys, &key_schema);
        for run in keyed.chunk_by_mut(|a, b| a.key == b.key) {
            if run.len() > 1 {
                run.sort_by(|a, b| compare.compare(a.row as usize, b.row as usize));
            }
        }
        Ok(())
    }

    /// The rows of these numbers as one batch.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when batches contradict each other.
    pub fn gather(&self, rows: &[u32]) -> Result<RecordBatch> {
        let place = |&row: &u32| {
            let batch = self.starts.partition_point(|&start| start <= row) - 1;
            (batch, (row - self.starts[batch]) as usize)
        };
        let places = rows.iter().map(place).collect::<Vec<_>>();
        let batches = self.batches.iter().collect::<Vec<_>>();
        Ok(interleave_record_batch(&batches, &places)?)
    }
}

/// Stable.
fn sort_by_prefix(rows: &mut Vec<Keyed>) {
    if rows.is_sorted_by_key(|row| row.key) {
        return;
    }
    match rows.len() < RADIX_ROWS_MIN {
        true => rows.sort_by_key(|row| row.key),
        false => radix_sort(rows),
    }
}

/// Byte by byte from the last; a byte that all keys share costs nothing.
fn radix_sort(rows: &mut Vec<Keyed>) {
    let mut counts = [[0u32; 256]; 8];
    for row in rows.iter() {
        for (counts, byte) in counts.iter_mut().zip(row.key.to_le_bytes()) {
            counts[usize::from(byte)] += 1;
        }
    }
    let mut other = vec![Keyed::default(); rows.len()];
    for (digit, counts) in counts.iter_mut().enumerate() {
        if counts.iter().any(|&count| count as usize == rows.len()) {
            continue;
        }
        let mut at = 0;
        for count in counts.iter_mut() {
            at += std::mem::replace(count, at);
        }
        for row in rows.iter() {
            let place = &mut counts[usize::from(row.key.to_le_bytes()[digit])];
            other[*place as usize] = *row;
            *place += 1;
        }
        std::mem::swap(rows, &mut other);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{batch, keys, schema};

    proptest! {
        /// Whatever the batches, the result is a stably sorted vector.
        #[test]
        fn rows_are_a_stably_sorted_vector(
            loads in prop::collection::vec(prop::collection::vec(-300i64..300, 0..400), 1..8),
            part in 1u32..4,
        ) {
            let schema = schema(1);
            let rows = Rows::new(loads.iter().map(|keys| batch(&schema, keys)).collect());
            let all = loads.concat();
            let picked = (0..all.len() as u32).filter(|row| row % part == 0).collect::<Vec<_>>();
            let sorted = rows.sort(&picked, &schema).unwrap();
            let mut expected = picked.clone();
            expected.sort_by_key(|&row| all[row as usize]);
            prop_assert_eq!(&sorted.rows, &expected);
            if !expected.is_empty() {
                let gathered = rows.gather(&sorted.rows).unwrap();
                let expected = expected.iter().map(|&row| all[row as usize]).collect::<Vec<_>>();
                prop_assert_eq!(keys([&gathered]), expected);
            }
        }

        #[test]
        fn radix_is_a_stable_sort(
            keys in prop::collection::vec(any::<u64>(), 0..2000),
            mask in any::<u64>(),
        ) {
            let keyed = keys.iter().zip(0..).map(|(key, row)| Keyed { key: key & mask, row });
            let mut rows = keyed.collect::<Vec<_>>();
            let mut expected = rows.clone();
            expected.sort_by_key(|row| row.key);
            radix_sort(&mut rows);
            let numbers = |rows: &[Keyed]| rows.iter().map(|row| row.row).collect::<Vec<_>>();
            prop_assert_eq!(numbers(&rows), numbers(&expected));
        }
    }

    #[test]
    fn keys_longer_than_eight_bytes_are_compared_whole() {
        let mut schema = schema(1).as_ref().clone();
        schema.sort_key = vec![1, 0];
        let rows = Rows::new(vec![batch(&schema, &[31, 4, 12]), batch(&schema, &[5, 1, 3])]);
        let sorted = rows.sort(&[0, 1, 2, 3, 4, 5], &schema).unwrap();
        // NULL first, then by text: "... to 1", "... to 12", "... to 3", "... to 31", "... to 4".
        assert_eq!(keys([&rows.gather(&sorted.rows).unwrap()]), [5, 1, 12, 3, 31, 4]);
    }
}
