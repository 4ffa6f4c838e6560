//! How the values of rows with equal keys become one, in AGGREGATE KEY tables.

use arrow::datatypes::i256;

use crate::sketch::SketchKind;
use crate::types::ColumnType;

/// The sum of two LARGEINTs: beyond their 128 bits it wraps around.
pub fn large_sum(one: i256, other: i256) -> i256 {
    i256::from_i128(one.as_i128().wrapping_add(other.as_i128()))
}

/// The function of a value column (keys.md, section 1).
///
/// Each is associative, so that it does not matter which neighbours in the log become one row
/// first: what merges have done already, and what a reader does, give the same value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aggregate {
    /// NULL counts as nothing. Beyond the range of its type the sum wraps around, as in Doris.
    Sum,
    Min,
    Max,
    /// The last one in the order of the log, also if it is NULL.
    Replace,
    /// The last one that is not NULL.
    ReplaceIfNotNull,
    /// A BITMAP with the numbers of all.
    BitmapUnion,
    /// An HLL that has seen the values of all.
    HllUnion,
}

impl Aggregate {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Replace,
        Self::ReplaceIfNotNull,
        Self::BitmapUnion,
        Self::HllUnion,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "SUM",
            Self::Min => "MIN",
            Self::Max => "MAX",
            Self::Replace => "REPLACE",
            Self::ReplaceIfNotNull => "REPLACE_IF_NOT_NULL",
            Self::BitmapUnion => "BITMAP_UNION",
            Self::HllUnion => "HLL_UNION",
        }
    }

    /// The kind of sketches that it joins.
    pub const fn joins(self) -> Option<SketchKind> {
        match self {
            Self::BitmapUnion => Some(SketchKind::Bitmap),
            Self::HllUnion => Some(SketchKind::Hll),
            _ => None,
        }
    }

    /// The function of this name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name().eq_ignore_ascii_case(name))
    }

    /// Whether it is defined for the values of a type.
    pub const fn is_of(self, ty: ColumnType) -> bool {
        match self {
            Self::Sum => {
                ty.is_numeric()
                    && !matches!(
                        ty,
                        ColumnType::Boolean | ColumnType::Year | ColumnType::Bit { .. }
                    )
            }
            Self::Min | Self::Max => !ty.is_document() && ty.sketch().is_none(),
            Self::Replace | Self::ReplaceIfNotNull => true,
            Self::BitmapUnion => matches!(ty, ColumnType::Bitmap),
            Self::HllUnion => matches!(ty, ColumnType::Hll),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for function in Aggregate::ALL {
            assert_eq!(Aggregate::parse(&function.name().to_lowercase()), Some(function));
        }
        assert_eq!(Aggregate::parse("QUANTILE_UNION"), None);
    }

    #[test]
    fn a_large_sum_wraps_around_where_largeint_ends() {
        let [most, one] = [i128::MAX, 1].map(i256::from_i128);
        assert_eq!(large_sum(most, one), i256::from_i128(i128::MIN));
        assert_eq!(large_sum(large_sum(most, one), most), i256::from_i128(-1));
    }
}
