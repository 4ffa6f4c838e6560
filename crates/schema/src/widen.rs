//! Types that hold all values of others, and the conversion of columns to them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use crate::ColumnType;

/// Whether every value of `from` is a value of `to`, and means the same there.
pub fn holds_all_of(to: ColumnType, from: ColumnType) -> bool {
    use ColumnType as T;
    if to == from {
        return true;
    }
    match (from, to) {
        (T::Char { .. } | T::VarChar { .. }, T::Text)
        | (T::Binary { .. } | T::VarBinary { .. }, T::Blob) => true,
        (T::Char { len: from } | T::VarChar { len: from }, T::VarChar { len: to })
        | (T::Char { len: from }, T::Char { len: to })
        | (T::Binary { len: from } | T::VarBinary { len: from }, T::VarBinary { len: to }) => {
            from <= to
        }
        (T::Enum { .. } | T::Set { .. }, T::Text) => true,
        // Whether the list begins like the old one is for who knows both.
        (T::Enum { len: from }, T::Enum { len: to })
        | (T::Set { len: from }, T::Set { len: to })
        | (T::Enum { len: from } | T::Set { len: from }, T::VarChar { len: to }) => from <= to,
        (T::Float, T::Double) | (T::Date, T::DateTime { .. }) => true,
        (T::DateTime { fsp: from }, T::DateTime { fsp: to })
        | (T::Timestamp { fsp: from }, T::Timestamp { fsp: to }) => from <= to,
        (T::Decimal { precision, scale }, T::Decimal { precision: digits, scale: fraction }) => {
            fraction >= scale && digits - fraction >= precision - scale
        }
        // Years are shown and read unlike other numbers.
        (T::Year, _) | (_, T::Year) => false,
        (T::Bit { len: from }, T::Bit { len: to }) => from <= to,
        (T::Bit { .. }, _) | (_, T::Bit { .. }) => false,
        (from, to) if from.is_integer() => holds_integers(to, from),
        _ => false,
    }
}

fn holds_integers(to: ColumnType, from: ColumnType) -> bool {
    let (min, max) = range_of(from);
    match to {
        to if to.is_integer() => {
            let (to_min, to_max) = range_of(to);
            // A BOOLEAN is shown unlike other numbers, and keeps 0 and 1 by custom only.
            to != ColumnType::Boolean && to_min <= min && max <= to_max
        }
        ColumnType::Double => max <= 1 << 53 && min >= -(1 << 53),
        ColumnType::Decimal { precision, scale } => {
            let digits = u32::from(precision - scale);
            let limit = 10_i128.pow(digits.min(38)) - 1;
            from != ColumnType::LargeInt && max <= limit && min >= -limit
        }
        ColumnType::VarChar { len } => {
            let chars = |number: i128| number.to_string().len() as u32;
            from != ColumnType::LargeInt && len >= chars(min).max(chars(max))
        }
        ColumnType::Text => from != ColumnType::LargeInt,
        _ => false,
    }
}

fn range_of(ty: ColumnType) -> (i128, i128) {
    let (bits, unsigned) = match ty {
        ColumnType::Boolean => (8, false),
        ColumnType::TinyInt { unsigned } => (8, unsigned),
        ColumnType::SmallInt { unsigned } => (16, unsigned),
        ColumnType::MediumInt { unsigned } => (24, unsigned),
        ColumnType::Int { unsigned } => (32, unsigned),
        ColumnType::BigInt { unsigned } => (64, unsigned),
        _ => return (i128::MIN, i128::MAX),
    };
    match unsigned {
        true => (0, (1 << bits) - 1),
        false => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// Values of another type as values of `to`, which holds all of them.
///
/// # Panics
/// When it does not.
pub(crate) fn widened(values: &ArrayRef, to: ColumnType) -> ArrayRef {
    let wanted = to.arrow();
    if *values.data_type() == wanted {
        return Arc::clone(values);
    }
    let wide = match wanted {
        // Numbers become views by way of other texts.
        DataType::Utf8View => cast(values, &DataType::Utf8).and_then(|texts| cast(&texts, &wanted)),
        _ => cast(values, &wanted),
    };
    let wide = wide.expect("a wider type is one that Arrow casts to");
    assert_eq!(wide.null_count(), values.null_count(), "no value is lost in a wider type");
    wide
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, StringViewArray};

    use super::*;
    use ColumnType as T;

    const fn int(unsigned: bool) -> T {
        T::Int { unsigned }
    }

    #[test]
    fn wider_types_hold_all_values() {
        let big = T::BigInt { unsigned: false };
        let decimal = |precision, scale| T::Decimal { precision, scale };
        for (from, to, holds) in [
            (int(false), big, true),
            (int(true), big, true),
            (int(true), int(false), false),
            (int(false), T::BigInt { unsigned: true }, false),
            (big, int(false), false),
            (big, T::LargeInt, true),
            (T::BigInt { unsigned: true }, T::LargeInt, true),
            (T::LargeInt, big, false),
            (int(false), T::Double, true),
            (big, T::Double, false),
            (int(false), decimal(10, 0), true),
            (int(false), decimal(12, 2), true),
            (int(false), decimal(11, 2), false),
            (decimal(10, 2), decimal(12, 4), true),
            (decimal(10, 2), decimal(11, 4), false),
            (decimal(10, 2), decimal(10, 1), false),
            (T::Float, T::Double, true),
            (T::Double, T::Float, false),
            (T::VarChar { len: 5 }, T::VarChar { len: 6 }, true),
            (T::VarChar { len: 5 }, T::VarChar { len: 4 }, false),
            (T::VarChar { len: 5 }, T::Text, true),
            (T::VarChar { len: 5 }, int(false), false),
            (int(false), T::VarChar { len: 11 }, true),
            (int(false), T::VarChar { len: 10 }, false),
            (T::Date, T::DateTime { fsp: 0 }, true),
            (T::DateTime { fsp: 0 }, T::Date, false),
            (T::TinyInt { unsigned: false }, T::Boolean, false),
            (T::Boolean, int(false), true),
        ] {
            assert_eq!(holds_all_of(to, from), holds, "{from} to {to}");
        }
    }

    #[test]
    fn every_type_that_holds_another_takes_its_ends() {
        let ints = |unsigned| {
            [
                T::TinyInt { unsigned },
                T::SmallInt { unsigned },
                T::MediumInt { unsigned },
                T::Int { unsigned },
                T::BigInt { unsigned },
            ]
        };
        let mut all = ints(false).into_iter().chain(ints(true)).collect::<Vec<_>>();
        all.extend([T::Boolean, T::LargeInt, T::Double, T::Text, T::VarChar { len: 30 }]);
        all.extend([
            T::Decimal { precision: 20, scale: 0 },
            T::Decimal { precision: 38, scale: 9 },
        ]);
        for from in all.iter().filter(|from| from.is_integer() && **from != T::LargeInt) {
            let (min, max) = range_of(*from);
            let texts =
                StringViewArray::from(vec![Some(min.to_string()), None, Some(max.to_string())]);
            let values = cast(&texts, &from.arrow()).unwrap();
            for to in all.iter().filter(|to| holds_all_of(**to, *from)) {
                let wide = widened(&values, *to);
                assert_eq!((wide.data_type(), wide.len()), (&to.arrow(), 3), "{from} to {to}");
                if to.is_text() {
                    assert_eq!(wide.as_string_view().value(0), min.to_string());
                    assert_eq!(wide.as_string_view().value(2), max.to_string());
                }
            }
        }
    }
}
