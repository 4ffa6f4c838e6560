//! Sorts the rows of a flush by the sort key.
//!
//! The first eight bytes of each row's normalised key are radix-sorted together with 32-bit row
//! indices. Ties are resolved by the rest of the key, and by columns only if the key is longer than
//! its words. The sort is stable, so rows with equal keys remain in log order.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use freshet_schema::TableSchema;
use freshet_schema::key::{KeyColumns, KeyComparator, KeyWords};

use crate::error::Result;

/// For fewer rows a comparison sort is faster than eight counting passes.
const RADIX_ROWS_MIN: usize = 512;

/// The rows of a flush, concatenated to one batch: gathering rows by index from one batch costs
/// half as much as from a hundred.
pub struct Rows {
    all: RecordBatch,
}

/// A row and the first eight bytes of its key.
#[derive(Clone, Copy, Default)]
struct Keyed {
    key: u64,
    row: u32,
}

impl Rows {
    /// Concatenates `batches`, which have the columns of `schema`. Text is not copied.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when batches cannot be concatenated.
    ///
    /// # Panics
    /// When a batch has other columns, or with more rows than 32 bits can number; flushes are far
    /// smaller.
    pub fn new(schema: &TableSchema, batches: &[RecordBatch]) -> Result<Self> {
        let has_columns = |batch: &RecordBatch| batch.schema_ref() == schema.arrow();
        assert!(batches.iter().all(has_columns), "rows are sorted in one version of their schema");
        let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        assert!(u32::try_from(rows).is_ok(), "a flush has fewer rows than 32 bits number");
        let all = match batches {
            [only] => only.clone(),
            _ => concat_batches(schema.arrow(), batches)?,
        };
        Ok(Self { all })
    }

    pub fn len(&self) -> usize {
        self.all.num_rows()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All rows in one batch.
    pub fn batch(&self) -> &RecordBatch {
        &self.all
    }

    /// Their sort keys by `schema`.
    pub fn keys(&self, schema: &TableSchema) -> Keys {
        let columns = KeyColumns::new(&self.all, schema);
        let words = KeyWords::of(&columns, schema);
        let columns = (!words.is_exact()).then_some(columns);
        Keys { words, columns }
    }

    /// The rows with these indices as one batch.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] for an index without a row.
    pub fn gather(&self, rows: &[u32]) -> Result<RecordBatch> {
        Ok(take_record_batch(&self.all, &UInt32Array::from(rows.to_vec()))?)
    }
}

/// The sort keys of [`Rows`], computed once for all tablets.
pub struct Keys {
    words: KeyWords,
    /// For keys that are longer than their words.
    columns: Option<KeyColumns>,
}

impl Keys {
    /// Sorts the rows with these ascending indices.
    pub fn sort(&self, rows: &[u32]) -> Vec<u32> {
        let words = &self.words;
        let first = |row: u32| words.row(row as usize)[0];
        let is_one_word = words.width() == 1 && words.is_exact();
        if is_one_word && let Some(sorted) = sort_packed(rows, first) {
            return sorted;
        }
        let mut keyed = rows.iter().map(|&row| Keyed { key: first(row), row }).collect();
        sort_by_first_word(&mut keyed);
        if !is_one_word {
            self.sort_ties(words, &mut keyed);
        }
        keyed.into_iter().map(|keyed| keyed.row).collect()
    }

    /// Sorts rows with equal first words by the rest of their keys.
    fn sort_ties(&self, words: &KeyWords, keyed: &mut [Keyed]) {
        let columns = self.columns.as_ref().map(|keys| KeyComparator::of(keys, keys));
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

/// A stable sort of ascending rows by their keys, with key and row packed to one word: half the
/// memory of [`Keyed`], and passes only over bits by which keys differ. `None` if these bits have
/// no room beside the row.
fn sort_packed(rows: &[u32], key: impl Fn(u32) -> u64) -> Option<Vec<u32>> {
    let (Some(min), Some(last)) = (rows.iter().map(|row| key(*row)).min(), rows.last()) else {
        return Some(Vec::new());
    };
    let differ = rows.iter().fold(0, |differ, row| differ | (key(*row) - min));
    let row_bits = u32::BITS - last.leading_zeros();
    // Times without microseconds, say, end in the same bits.
    let unused = differ.checked_ilog2().map_or(0, |_| differ.trailing_zeros());
    let end = row_bits + u64::BITS - (differ >> unused).leading_zeros();
    if end > u64::BITS {
        return None;
    }
    let pack = |row: &u32| ((key(*row) - min) >> unused) << row_bits | u64::from(*row);
    let mut packed = rows.iter().map(pack).collect::<Vec<_>>();
    if !packed.is_sorted() {
        radix_sort_bits(&mut packed, row_bits..end);
    }
    let row_of = |packed: u64| (packed & ((1 << row_bits) - 1)) as u32;
    Some(packed.into_iter().map(row_of).collect())
}

/// An LSD radix sort by some bits of words.
fn radix_sort_bits(words: &mut Vec<u64>, bits: Range<u32>) {
    let mut other = vec![0; words.len()];
    for shift in bits.step_by(u8::BITS as usize) {
        let digit = |word: u64| usize::from((word >> shift) as u8);
        let mut counts = [0u32; 256];
        words.iter().for_each(|word| counts[digit(*word)] += 1);
        let mut at = 0;
        for count in &mut counts {
            at += std::mem::replace(count, at);
        }
        for word in words.iter() {
            let place = &mut counts[digit(*word)];
            other[*place as usize] = *word;
            *place += 1;
        }
        std::mem::swap(words, &mut other);
    }
}

/// A stable sort.
fn sort_by_first_word(rows: &mut Vec<Keyed>) {
    if rows.is_sorted_by_key(|row| row.key) {
        return;
    }
    match rows.len() < RADIX_ROWS_MIN {
        true => rows.sort_by_key(|row| row.key),
        false => radix_sort(rows),
    }
}

/// An LSD radix sort; bytes shared by all keys are skipped.
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
        /// The result is a stably sorted vector, however rows are divided into batches.
        #[test]
        fn rows_are_a_stably_sorted_vector(
            loads in prop::collection::vec(prop::collection::vec(-300i64..300, 0..400), 1..8),
            part in 1u32..4,
        ) {
            let schema = schema(1);
            let batches = loads.iter().map(|keys| batch(&schema, keys)).collect::<Vec<_>>();
            let rows = Rows::new(&schema, &batches).unwrap();
            let all = loads.concat();
            let picked = (0..all.len() as u32).filter(|row| row % part == 0).collect::<Vec<_>>();
            let sorted = rows.keys(&schema).sort(&picked);
            let mut expected = picked.clone();
            expected.sort_by_key(|&row| all[row as usize]);
            prop_assert_eq!(&sorted, &expected);
            if !expected.is_empty() {
                let gathered = rows.gather(&sorted).unwrap();
                let expected = expected.iter().map(|&row| all[row as usize]).collect::<Vec<_>>();
                prop_assert_eq!(keys([&gathered]), expected);
            }
        }

        #[test]
        fn packed_is_a_stable_sort(
            keys in prop::collection::vec(any::<u64>(), 0..2000),
            mask in any::<u64>(),
            above in any::<u64>(),
            part in 1u32..4,
        ) {
            let key = |row: u32| keys[row as usize] & mask | above & !mask;
            let rows = (0..keys.len() as u32).filter(|row| row % part == 0).collect::<Vec<_>>();
            let mut expected = rows.clone();
            expected.sort_by_key(|row| key(*row));
            let sorted = sort_packed(&rows, key);
            let span = u64::BITS - mask.leading_zeros() - mask.trailing_zeros().min(u64::BITS - 1);
            prop_assert!(sorted.is_some() || span > 48);
            prop_assert_eq!(sorted.unwrap_or_else(|| expected.clone()), expected);
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
        let batches = [batch(&schema, &[31, 4, 12]), batch(&schema, &[5, 1, 3])];
        let rows = Rows::new(&schema, &batches).unwrap();
        let sorted = rows.keys(&schema).sort(&[0, 1, 2, 3, 4, 5]);
        // NULL first, then by text: "... to 1", "... to 12", "... to 3", "... to 31", "... to 4".
        assert_eq!(keys([&rows.gather(&sorted).unwrap()]), [5, 1, 12, 3, 31, 4]);
    }
}
