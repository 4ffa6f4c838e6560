//! Which rows of a result are returned, where its query does not say so itself.

use arrow::array::RecordBatch;

/// A part of the rows of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Portion {
    /// Rows that come first and are not returned.
    pub skip: u64,
    /// Rows that are returned behind those, at most.
    pub take: u64,
    /// Whether the others are counted as well.
    pub counts: bool,
}

impl Portion {
    pub const ALL: Self = Self::first(u64::MAX);

    /// The first rows, at most so many.
    pub const fn first(rows_max: u64) -> Self {
        Self { skip: 0, take: rows_max, counts: false }
    }
}

/// What of a portion is still to come.
pub struct Progress {
    left: Portion,
    found: u64,
}

impl Progress {
    pub const fn of(portion: Portion) -> Self {
        Self { left: portion, found: 0 }
    }

    /// Whether no further row is of interest.
    pub const fn is_over(&self) -> bool {
        self.left.take == 0 && !self.left.counts
    }

    /// The rows of a batch that are returned.
    pub fn pass(&mut self, batch: &RecordBatch) -> RecordBatch {
        let rows = batch.num_rows() as u64;
        self.found += rows;
        let skipped = rows.min(self.left.skip);
        let taken = (rows - skipped).min(self.left.take);
        self.left.skip -= skipped;
        self.left.take -= taken;
        batch.slice(skipped as usize, taken as usize)
    }

    /// The rows so far, if all are counted.
    pub fn found(&self) -> Option<u64> {
        self.left.counts.then_some(self.found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int32Array};
    use arrow::datatypes::Int32Type;

    use super::*;

    fn returned(portion: Portion) -> (Vec<i32>, Option<u64>) {
        let (mut progress, mut rows) = (Progress::of(portion), Vec::new());
        for numbers in [vec![0, 1, 2], vec![], vec![3], vec![4, 5]] {
            if progress.is_over() {
                break;
            }
            let array: ArrayRef = Arc::new(Int32Array::from(numbers));
            let batch = RecordBatch::try_from_iter([("n", array)]).unwrap();
            let passed = progress.pass(&batch);
            rows.extend_from_slice(passed.column(0).as_primitive::<Int32Type>().values());
        }
        (rows, progress.found())
    }

    #[test]
    fn a_portion_is_cut_from_batches() {
        assert_eq!(returned(Portion::ALL), (vec![0, 1, 2, 3, 4, 5], None));
        assert_eq!(returned(Portion::first(2)), (vec![0, 1], None));
        assert_eq!(returned(Portion::first(0)), (vec![], None));
        let counted = |skip, take| returned(Portion { skip, take, counts: true });
        assert_eq!(counted(2, 2), (vec![2, 3], Some(6)));
        assert_eq!(counted(5, 9), (vec![5], Some(6)));
        assert_eq!(counted(7, 1), (vec![], Some(6)));
        assert_eq!(counted(0, 0), (vec![], Some(6)));
    }
}
