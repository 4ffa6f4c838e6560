//! Rows of many batches in the order of the sort key.
//!
//! The first eight bytes of a row's normalised key are sorted by radix, rows beside them as
//! 32-bit indices; where those tie the rest of the key is compared, and columns only where the
//! key is longer than its words. Stable, so equal keys stay in the order in which they came,
//! which is the order of the log.

use std::cmp::Ordering;

use arrow::array::RecordBatch;
use arrow::compute::{concat_batches, interleave_record_batch};
use freshet_schema::TableSchema;
use freshet_schema::key::{KeyComparator, KeyWords};

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
    /// The least and the greatest first word; `None` without rows.
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

    /// Their sort keys under `schema`.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when columns contradict the schema.
    pub fn keys(&self, schema: &TableSchema) -> Result<Keys> {
        let mut each = self.batches.iter().map(|batch| KeyWords::new(batch, schema));
        let words = each.next().map(|first| {
            each.fold(first, |mut all, words| {
                all.append(words);
                all
            })
        });
        let is_exact = words.as_ref().is_none_or(KeyWords::is_exact);
        let columns = if is_exact { None } else { Some(self.key_columns(schema)?) };
        Ok(Keys { words, columns })
    }

    /// The columns of the sort key in one batch, and a schema of them alone.
    fn key_columns(&self, schema: &TableSchema) -> Result<(RecordBatch, TableSchema)> {
        let columns = schema.sort_key.iter().map(|&at| schema.columns[at].clone()).collect();
        let sort_key = (0..schema.sort_key.len()).collect();
        let key_schema = TableSchema::new(schema.version, columns, sort_key);
        let projected = self.batches.iter().map(|batch| batch.project(&schema.sort_key));
        let projected = projected.collect::<Result<Vec<_>, _>>()?;
        let arrow = projected.first().expect("a key that is not exact has rows").schema();
        Ok((concat_batches(&arrow, &projected)?, key_schema))
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

/// The sort keys of [`Rows`], made once for all tablets.
pub struct Keys {
    /// `None` without batches.
    words: Option<KeyWords>,
    /// The columns of keys that are longer than their words.
    columns: Option<(RecordBatch, TableSchema)>,
}

impl Keys {
    /// Sorts the rows of these numbers, which ascend.
    pub fn sort(&self, rows: &[u32]) -> Sorted {
        let Some(words) = &self.words else {
            return Sorted { rows: Vec::new(), keys: None };
        };
        let first = |&row: &u32| Keyed { key: words.row(row as usize)[0], row };
        let mut keyed = rows.iter().map(first).collect();
        sort_by_first_word(&mut keyed);
        if words.width() > 1 || !words.is_exact() {
            self.settle_ties(words, &mut keyed);
        }
        let keys = keyed.first().zip(keyed.last()).map(|(first, last)| (first.key, last.key));
        Sorted { rows: keyed.into_iter().map(|keyed| keyed.row).collect(), keys }
    }

    /// Sorts runs of equal first words by the rest of their keys.
    fn settle_ties(&self, words: &KeyWords, keyed: &mut [Keyed]) {
        let columns = self.columns.as_ref();
        let columns = columns.map(|(keys, schema)| KeyComparator::new(keys, keys, schema));
        let compare = |a: &Keyed, b: &Keyed| {
            let (left, right) = (a.row as usize, b.row as usize);
            let order = words.row(left)[1..].cmp(&words.row(right)[1..]);
            let columns = || columns.as_ref().map_or(Ordering::Equal, |c| c.compare(left, right));
            order.then_with(columns)
        };
        for run in keyed.chunk_by_mut(|a, b| a.key == b.key) {
            if run.len() > 1 {
                run.sort_by(compare);
            }
        }
    }
}

/// Stable.
fn sort_by_first_word(rows: &mut Vec<Keyed>) {
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
            let sorted = rows.keys(&schema).unwrap().sort(&picked);
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
        let sorted = rows.keys(&schema).unwrap().sort(&[0, 1, 2, 3, 4, 5]);
        // NULL first, then by text: "... to 1", "... to 12", "... to 3", "... to 31", "... to 4".
        assert_eq!(keys([&rows.gather(&sorted.rows).unwrap()]), [5, 1, 12, 3, 31, 4]);
    }
}
