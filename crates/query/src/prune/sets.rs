//! Long lists of values: a part of a file is passed over where none of them is between its bounds.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;

/// For each part, false if none of the values is between its least and its greatest one; else it is
/// not known whether it has one. `None` where values and bounds cannot be compared.
pub fn contained(
    values: &HashSet<ScalarValue>,
    least: &ArrayRef,
    greatest: &ArrayRef,
) -> Option<BooleanArray> {
    let ty = least.data_type();
    // -0 and 0 are equal, and are not so here.
    if matches!(ty, DataType::Float32 | DataType::Float64) || greatest.data_type() != ty {
        return None;
    }
    // NULL is never equal.
    let values = values.iter().filter(|value| !value.is_null()).cloned().collect::<Vec<_>>();
    if values.is_empty() || values.iter().any(|value| value.data_type() != *ty) {
        return None;
    }
    let values = ScalarValue::iter_to_array(values).ok()?;
    let comparable = RowConverter::new(vec![SortField::new(ty.clone())]).ok()?;
    let rows = |array: &ArrayRef| comparable.convert_columns(std::slice::from_ref(array)).ok();
    let (of_values, least_rows, greatest_rows) = (rows(&values)?, rows(least)?, rows(greatest)?);
    let mut sorted = of_values.iter().collect::<Vec<_>>();
    sorted.sort_unstable();
    let may_have = |at: usize| {
        if least.is_null(at) || greatest.is_null(at) {
            return None;
        }
        let from = sorted.partition_point(|value| *value < least_rows.row(at));
        let is_between = sorted.get(from).is_some_and(|value| *value <= greatest_rows.row(at));
        (!is_between).then_some(false)
    };
    Some((0..least.len()).map(may_have).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int32Array, StringViewArray};

    use super::*;

    fn ints(values: &[Option<i32>]) -> ArrayRef {
        Arc::new(Int32Array::from(values.to_vec()))
    }

    #[test]
    fn parts_without_any_of_the_values_are_told() {
        let values = (0..200).map(|at| ScalarValue::Int32(Some(at * 100)));
        let values = values.chain([ScalarValue::Int32(None)]).collect::<HashSet<_>>();
        let least = ints(&[Some(1), Some(100), Some(-9), Some(19_901), None, Some(150)]);
        let greatest = ints(&[Some(99), Some(100), Some(0), Some(90_000), Some(5), None]);
        let known = contained(&values, &least, &greatest).unwrap();
        let known = known.iter().collect::<Vec<_>>();
        assert_eq!(known, [Some(false), None, None, Some(false), None, None]);
    }

    #[test]
    fn what_cannot_be_compared_says_nothing() {
        let values = HashSet::from([ScalarValue::Int64(Some(1))]);
        let one = ints(&[Some(5)]);
        assert_eq!(contained(&values, &one, &one), None);
        let values = HashSet::from([ScalarValue::Float64(Some(0.0))]);
        let zero: ArrayRef = Arc::new(Float64Array::from(vec![-0.0]));
        assert_eq!(contained(&values, &zero, &zero), None);
        let values = HashSet::from([ScalarValue::Utf8View(Some("b".to_owned()))]);
        let [least, greatest] =
            ["c", "d"].map(|text| Arc::new(StringViewArray::from(vec![text])) as ArrayRef);
        let known = contained(&values, &least, &greatest).unwrap();
        assert_eq!(known, BooleanArray::from(vec![Some(false)]));
    }
}
