//! From first words of sort keys back to bounds of the leading column.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewArray, PrimitiveArray, StringViewArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use freshet_base::ColumnId;

use super::{SIGN, WORD_BITS, width};
use crate::TableSchema;

/// What is known of the leading column of the sort key in some rows.
#[derive(Clone, Debug)]
pub struct KeyBounds {
    /// One element that no value is less than; NULL where not known.
    pub min: ArrayRef,
    /// One element that no value is greater than; NULL where not known.
    pub max: ArrayRef,
    /// How many NULLs there are, where known.
    pub null_count: Option<u64>,
}

/// The leading column of the sort key, if there is a sort key.
pub fn leading_column(schema: &TableSchema) -> Option<ColumnId> {
    Some(schema.columns[*schema.sort_key.first()?].id)
}

impl KeyBounds {
    /// The bounds of so many rows, the first words of whose keys lie between `min` and `max`.
    ///
    /// # Panics
    /// When `schema` has no sort key.
    pub fn of_words(schema: &TableSchema, (min, max): (u64, u64), rows: u64) -> Self {
        let column = &schema.columns[schema.sort_key[0]];
        let ty = column.ty.arrow();
        let flag = u32::from(column.nullable);
        let bits = width(&ty).0.min(WORD_BITS - flag as usize);
        // The word may go on with the next column, and end before the last bit of this one.
        let of_column = u64::MAX << (WORD_BITS - bits);
        let is_null = |word: u64| flag == 1 && word & SIGN == 0;
        let least = (!is_null(min)).then_some((min << flag) & of_column);
        let greatest = (!is_null(max)).then_some((max << flag) | !of_column);
        let ends = Ends { least, greatest, whole_bytes: bits / 8 };
        let null_count = match (least, greatest) {
            (Some(_), _) => Some(0),
            (None, None) => Some(rows),
            // NULL is before every value.
            (None, Some(_)) => None,
        };
        // Weights tell nothing of bytes.
        let ends = match column.key_collation() {
            Some(_) => Ends { least: None, greatest: None, ..ends },
            None => ends,
        };
        let (min, max) = ends.arrays(&ty);
        Self { min, max, null_count }
    }
}

/// The order bits of the least and the greatest value, the column's first bit first; `None` where
/// there is no such value.
struct Ends {
    least: Option<u64>,
    greatest: Option<u64>,
    /// Bytes of text that the bits hold.
    whole_bytes: usize,
}

impl Ends {
    fn arrays(&self, ty: &DataType) -> (ArrayRef, ArrayRef) {
        macro_rules! integers {
            ($type:ty, $native:ty, $sign:expr) => {{
                let shift = u64::BITS - <$native>::BITS;
                self.map::<$type>(ty, |bits| ((bits ^ $sign) >> shift) as $native)
            }};
        }
        match ty {
            DataType::Int8 => integers!(Int8Type, i8, SIGN),
            DataType::Int16 => integers!(Int16Type, i16, SIGN),
            DataType::Int32 => integers!(Int32Type, i32, SIGN),
            DataType::Date32 => integers!(Date32Type, i32, SIGN),
            DataType::Int64 => integers!(Int64Type, i64, SIGN),
            DataType::Timestamp(..) => integers!(TimestampMicrosecondType, i64, SIGN),
            DataType::Duration(_) => integers!(DurationMicrosecondType, i64, SIGN),
            DataType::UInt8 => integers!(UInt8Type, u8, 0),
            DataType::UInt16 => integers!(UInt16Type, u16, 0),
            DataType::UInt32 => integers!(UInt32Type, u32, 0),
            DataType::UInt64 => integers!(UInt64Type, u64, 0),
            DataType::Float32 => self.pair::<Float32Type>(
                ty,
                |bits| float32(bits).map(|value| if value == 0.0 { -0.0 } else { value }),
                |bits| float32(bits).map(|value| if value == 0.0 { 0.0 } else { value }),
            ),
            DataType::Float64 => self.pair::<Float64Type>(
                ty,
                |bits| float64(bits).map(|value| if value == 0.0 { -0.0 } else { value }),
                |bits| float64(bits).map(|value| if value == 0.0 { 0.0 } else { value }),
            ),
            DataType::Decimal128(..) => self.pair::<Decimal128Type>(
                ty,
                |bits| clamped(bits, i64::MIN).map(i128::from),
                |bits| clamped(bits, i64::MAX).map(i128::from),
            ),
            DataType::Decimal256(..) => self.pair::<Decimal256Type>(
                ty,
                |bits| clamped(bits, i64::MIN).map(|value| i256::from_i128(value.into())),
                |bits| clamped(bits, i64::MAX).map(|value| i256::from_i128(value.into())),
            ),
            DataType::Utf8View => {
                let least = self.least.map(|bits| text(&bits.to_be_bytes()).to_owned());
                let greatest = self
                    .greatest
                    .and_then(|bits| above_text(text(&bits.to_be_bytes()[..self.whole_bytes])));
                let array = |end: Option<String>| Arc::new(StringViewArray::from_iter([end]));
                (array(least.map(|text| text.trim_end_matches('\0').to_owned())), array(greatest))
            }
            DataType::BinaryView => {
                let least = self.least.map(|bits| {
                    let bytes = bits.to_be_bytes();
                    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
                    bytes[..end].to_vec()
                });
                let greatest = self
                    .greatest
                    .and_then(|bits| above_bytes(&bits.to_be_bytes()[..self.whole_bytes]));
                let array = |end: Option<Vec<u8>>| Arc::new(BinaryViewArray::from_iter([end]));
                (array(least), array(greatest))
            }
            other => unreachable!("no column type is held as {other}"),
        }
    }

    fn map<T: ArrowPrimitiveType>(
        &self,
        ty: &DataType,
        value: impl Fn(u64) -> T::Native,
    ) -> (ArrayRef, ArrayRef) {
        self.pair::<T>(ty, |bits| Some(value(bits)), |bits| Some(value(bits)))
    }

    fn pair<T: ArrowPrimitiveType>(
        &self,
        ty: &DataType,
        least: impl Fn(u64) -> Option<T::Native>,
        greatest: impl Fn(u64) -> Option<T::Native>,
    ) -> (ArrayRef, ArrayRef) {
        let array = |value: Option<T::Native>| {
            let one = PrimitiveArray::<T>::from_iter([value]);
            Arc::new(one.with_data_type(ty.clone())) as ArrayRef
        };
        (array(self.least.and_then(least)), array(self.greatest.and_then(greatest)))
    }
}

/// The number of its order bits; `None` for one that is none.
fn float32(bits: u64) -> Option<f32> {
    let bits = (bits >> 32) as u32;
    let sign = 1 << 31;
    let value = f32::from_bits(if bits & sign == 0 { !bits } else { bits ^ sign });
    (!value.is_nan()).then_some(value)
}

fn float64(bits: u64) -> Option<f64> {
    let value = f64::from_bits(if bits & SIGN == 0 { !bits } else { bits ^ SIGN });
    (!value.is_nan()).then_some(value)
}

/// The number of its order bits, unless it is `end`, which stands for all beyond it.
fn clamped(bits: u64, end: i64) -> Option<i64> {
    let value = (bits ^ SIGN).cast_signed();
    (value != end).then_some(value)
}

/// The longest start that is text: nothing that begins with these bytes is less.
fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("so far it is valid")
        }
    }
}

/// A text above every text that begins with `start`.
fn above_text(start: &str) -> Option<String> {
    let mut above = start.to_owned();
    while let Some(last) = above.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            above.push(next);
            return Some(above);
        }
    }
    None
}

/// Bytes above all that begin with `start`.
fn above_bytes(start: &[u8]) -> Option<Vec<u8>> {
    let last = start.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut above = start[..=last].to_vec();
    above[last] += 1;
    Some(above)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, RecordBatch, make_comparator};
    use arrow::compute::SortOptions;
    use freshet_base::SchemaVersion;
    use proptest::prelude::*;

    use super::*;
    use crate::key::KeyWords;
    use crate::{Column, ColumnType, ColumnsBuilder, Layout, RowWriter};

    fn types() -> Vec<ColumnType> {
        let mut types = vec![
            ColumnType::Boolean,
            ColumnType::LargeInt,
            ColumnType::Float,
            ColumnType::Double,
            ColumnType::Decimal { precision: 9, scale: 2 },
            ColumnType::Decimal { precision: 38, scale: 10 },
            ColumnType::Date,
            ColumnType::DateTime { fsp: 6 },
            ColumnType::Timestamp { fsp: 0 },
            ColumnType::VarChar { len: 100 },
            ColumnType::VarBinary { len: 100 },
        ];
        for unsigned in [false, true] {
            types.extend([
                ColumnType::TinyInt { unsigned },
                ColumnType::SmallInt { unsigned },
                ColumnType::Int { unsigned },
                ColumnType::BigInt { unsigned },
            ]);
        }
        types
    }

    /// A schema of a leading column of this type and another one behind it.
    fn schema(ty: ColumnType, nullable: bool) -> TableSchema {
        let first = Column { nullable, ..Column::new(ColumnId(1), "a", ty) };
        let next = Column::new(ColumnId(2), "b", ColumnType::Int { unsigned: false });
        TableSchema::new(SchemaVersion(1), vec![first, next], vec![0, 1])
    }

    /// Rows of these numbers, NULL for `None`.
    fn rows(schema: &TableSchema, numbers: &[Option<i128>], texts: &[Vec<u8>]) -> RecordBatch {
        let mut bytes = Vec::new();
        let mut rows = RowWriter::new(2, &mut bytes);
        for (at, number) in numbers.iter().enumerate() {
            rows.begin_row();
            match (number, schema.columns[0].ty.layout()) {
                (None, _) if schema.columns[0].nullable => rows.put_null(),
                (number, Layout::Fixed(width)) => {
                    rows.put_encoded(&number.unwrap_or(0).to_le_bytes()[..width]);
                }
                (_, Layout::Bytes) => {
                    let mut cell = Vec::new();
                    crate::row::put_bytes(&mut cell, &texts[at % texts.len()]);
                    rows.put_encoded(&cell);
                }
            }
            rows.put_encoded(&(at as i32).to_le_bytes());
            rows.end_row();
        }
        ColumnsBuilder::batch_of(schema, &bytes, numbers.len())
    }

    fn check(schema: &TableSchema, batch: &RecordBatch) {
        let keys = KeyWords::new(batch, schema);
        let words = (0..batch.num_rows()).map(|row| keys.row(row)[0]);
        let words = (words.clone().min().unwrap(), words.max().unwrap());
        let bounds = KeyBounds::of_words(schema, words, batch.num_rows() as u64);
        let column = batch.column(0);
        let nulls = column.null_count() as u64;
        assert!(bounds.null_count.is_none_or(|count| count == nulls));
        assert_eq!(bounds.null_count.is_none(), nulls > 0 && nulls < batch.num_rows() as u64);
        for (end, wrong) in
            [(&bounds.min, std::cmp::Ordering::Less), (&bounds.max, std::cmp::Ordering::Greater)]
        {
            assert_eq!(end.data_type(), column.data_type());
            if end.is_null(0) {
                continue;
            }
            let compare = make_comparator(column, end, SortOptions::default()).unwrap();
            for row in (0..column.len()).filter(|&row| column.is_valid(row)) {
                assert_ne!(compare(row, 0), wrong, "row {row} of {column:?} against {end:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_value_lies_within_its_bounds(
            numbers in prop::collection::vec(
                prop::option::weighted(0.9, prop_oneof![
                    any::<i128>().prop_map(|number| number >> 64),
                    (-1000i128..1000),
                    any::<i128>().prop_map(|number| number >> 3),
                ]),
                1..20,
            ),
            words in prop::collection::vec("[a-c\u{0}\u{e9}\u{10ffff}\u{d7ff}]{0,10}", 1..20),
            nullable in any::<bool>(),
        ) {
            let texts = words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
            for ty in types() {
                let schema = schema(ty, nullable);
                let fits = |number: &Option<i128>| number.map(|number| match ty {
                    // What a column of the type may hold.
                    ColumnType::Decimal { precision, .. } if precision < 19 => number % 1_000_000,
                    ColumnType::Decimal { .. } => number % 10i128.pow(38),
                    ColumnType::Date => number % 100_000,
                    _ => number,
                });
                let numbers = numbers.iter().map(fits).collect::<Vec<_>>();
                check(&schema, &rows(&schema, &numbers, &texts));
            }
        }
    }

    #[test]
    fn bounds_of_numbers_are_exact_and_those_of_texts_close() {
        let of = |ty, numbers: &[Option<i128>], texts: &[&str]| {
            let schema = schema(ty, false);
            let texts = texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
            let batch = rows(&schema, numbers, &texts);
            let keys = KeyWords::new(&batch, &schema);
            let words = (keys.row(0)[0], keys.row(numbers.len() - 1)[0]);
            let bounds = KeyBounds::of_words(&schema, words, numbers.len() as u64);
            let show =
                |end: &ArrayRef| arrow::util::display::array_value_to_string(end, 0).unwrap();
            (show(&bounds.min), show(&bounds.max), bounds.null_count)
        };
        let int = ColumnType::Int { unsigned: false };
        let exact = of(int, &[Some(-7), Some(9)], &[]);
        assert_eq!(exact, ("-7".to_owned(), "9".to_owned(), Some(0)));
        let text = ColumnType::VarChar { len: 100 };
        let close = of(text, &[Some(0), Some(0)], &["abc", "freshet water"]);
        assert_eq!(close, ("abc".to_owned(), "freshet!".to_owned(), Some(0)));
        let none = of(text, &[Some(0)], &["\u{10ffff}\u{10ffff}"]);
        assert_eq!(none.1, "");
    }
}
