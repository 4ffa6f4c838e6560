//! Decides by a sample which text columns get page bounds in the footer.
//!
//! Computing bounds compares each value twice, which takes a tenth of the time to write a file with
//! a few text columns. They help a reader to skip pages only if adjacent rows have similar values.
//! Numbers and dates always get bounds, which cost almost nothing.

use arrow::array::{Array, ArrayAccessor, AsArray};
use arrow::datatypes::DataType;

/// Number of runs of adjacent rows in the sample.
const RUNS: usize = 8;
/// Rows per run.
const RUN_ROWS: usize = 32;

/// Whether page bounds of the column would allow a reader to skip pages.
pub(super) fn are_worth_it(sample: &dyn Array) -> bool {
    match sample.data_type() {
        DataType::Utf8View => tell_apart(sample.as_string_view()),
        DataType::BinaryView => tell_apart(sample.as_binary_view()),
        _ => true,
    }
}

/// Whether the bounds of a run exclude at least a quarter of all distinct values on average.
fn tell_apart<'a, T: AsRef<[u8]> + Ord + ?Sized + 'a>(
    sample: impl ArrayAccessor<Item = &'a T> + Copy,
) -> bool {
    if sample.len() < RUNS * RUN_ROWS {
        return true;
    }
    let step = sample.len() / RUNS;
    let values = |run: usize| {
        let rows = run * step..run * step + RUN_ROWS;
        rows.filter(move |&row| sample.is_valid(row)).map(move |row| sample.value(row))
    };
    let mut distinct = (0..RUNS).flat_map(values).collect::<Vec<_>>();
    distinct.sort_unstable();
    distinct.dedup();
    // With a single value, the bounds exclude the file for any other value.
    if distinct.len() < 2 {
        return true;
    }
    let covered = |run| {
        let Some((min, max)) = values(run).min().zip(values(run).max()) else { return 0 };
        let below = distinct.partition_point(|value| *value < min);
        distinct.partition_point(|value| *value <= max) - below
    };
    (0..RUNS).map(covered).sum::<usize>() * 4 <= RUNS * distinct.len() * 3
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    fn worth_it(value: impl Fn(u64) -> Option<String>) -> bool {
        are_worth_it(&StringViewArray::from_iter((0..4096).map(value)))
    }

    fn scattered(row: u64) -> u64 {
        row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
    }

    #[test]
    fn values_in_no_order_get_none() {
        assert!(!worth_it(|row| Some(format!("comment {}", scattered(row)))));
        assert!(!worth_it(|row| Some(["AIR", "MAIL", "RAIL", "SHIP"][row as usize % 4].into())));
        assert!(!worth_it(|row| (row % 3 > 0).then(|| format!("{}", scattered(row)))));
    }

    #[test]
    fn values_near_their_like_get_them() {
        assert!(worth_it(|row| Some(format!("2026-11-21 12:{:02}", row / 70))));
        assert!(worth_it(|row| Some(format!("{:07}", row + scattered(row) % 100))));
    }

    #[test]
    fn what_is_nearly_always_the_same_gets_them() {
        assert!(worth_it(|_| Some(String::new())));
        assert!(worth_it(|_| None));
        let rare = |row| if row % 1000 == 5 { "an error".to_owned() } else { String::new() };
        assert!(worth_it(|row| Some(rare(row))));
    }

    #[test]
    fn small_files_and_numbers_get_them() {
        assert!(are_worth_it(&StringViewArray::from(vec!["b", "a", "c"])));
        assert!(are_worth_it(&Int64Array::from_iter_values((0..4096).map(|row| row % 2))));
    }
}
