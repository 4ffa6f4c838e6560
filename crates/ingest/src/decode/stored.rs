//! Columns of values that all fit their column of a table: they are looked at together, and then
//! written as they stand, row by row.

use std::ops::RangeInclusive;

use arrow::array::{
    Array, ArrowPrimitiveType, Date32Array, Decimal128Array, Int64Array, PrimitiveArray,
    StringViewArray,
};
use arrow::buffer::NullBuffer;
use freshet_schema::row::put_bytes;
use freshet_schema::value::LocalDateTime;
use freshet_schema::{Column, ColumnType, DECIMAL_PRECISION_I64_MAX};

use super::{Fault, InsertPlan, RowEncoder};

/// The values of a column as rows hold them. What does not fit in one of its values has no such
/// form: it is converted value by value, each with an error of its own.
pub struct StoredValues {
    values: Values,
    /// If there are any.
    nulls: Option<NullBuffer>,
}

enum Values {
    One(Vec<[u8; 1]>),
    Two(Vec<[u8; 2]>),
    Four(Vec<[u8; 4]>),
    Eight(Vec<[u8; 8]>),
    Text(StringViewArray),
}

impl InsertPlan {
    /// The column of the value at `position`, if values of it are simply written.
    pub fn simple_column(&self, position: usize) -> Option<&Column> {
        let at = *self.columns.get(position)?;
        (!Self::is_odd(self.odd, at)).then(|| &self.schema().columns[at])
    }
}

impl StoredValues {
    /// Integers for TINYINT, SMALLINT, INT or BIGINT.
    pub fn of_ints(values: &Int64Array, column: &Column) -> Option<Self> {
        macro_rules! as_type {
            ($form:ident, $type:ty) => {
                Values::$form(all(values, |value: i64| {
                    <$type>::try_from(value).ok().map(<$type>::to_le_bytes)
                })?)
            };
        }
        let stored = match column.ty {
            ColumnType::TinyInt { unsigned: false } => as_type!(One, i8),
            ColumnType::TinyInt { unsigned: true } => as_type!(One, u8),
            ColumnType::SmallInt { unsigned: false } => as_type!(Two, i16),
            ColumnType::SmallInt { unsigned: true } => as_type!(Two, u16),
            ColumnType::Int { unsigned: false } => as_type!(Four, i32),
            ColumnType::Int { unsigned: true } => as_type!(Four, u32),
            ColumnType::BigInt { unsigned: false } => as_type!(Eight, i64),
            _ => return None,
        };
        Some(Self::new(stored, values.nulls()))
    }

    /// Decimal numbers for a DECIMAL of as many digits behind the point that takes 8 bytes.
    pub fn of_decimals(values: &Decimal128Array, column: &Column) -> Option<Self> {
        let ColumnType::Decimal { precision, scale } = column.ty else { return None };
        let is_short = precision <= DECIMAL_PRECISION_I64_MAX;
        if !is_short || column.non_negative || i16::from(values.scale()) != i16::from(scale) {
            return None;
        }
        let end = 10i64.pow(u32::from(precision));
        let stored = |value: i128| {
            let value = i64::try_from(value).ok().filter(|value| (1 - end..end).contains(value));
            value.map(i64::to_le_bytes)
        };
        Some(Self::new(Values::Eight(all(values, stored)?), values.nulls()))
    }

    /// Days since 1970, within `days`, for DATE.
    pub fn of_days(
        values: &Date32Array,
        column: &Column,
        days: &RangeInclusive<i32>,
    ) -> Option<Self> {
        if column.ty != ColumnType::Date {
            return None;
        }
        let stored = |day: i32| days.contains(&day).then(|| day.to_le_bytes());
        Some(Self::new(Values::Four(all(values, stored)?), values.nulls()))
    }

    /// Numbers, each of which stands for a `moment` without an offset, for DATETIME.
    pub fn of_moments<T: ArrowPrimitiveType<Native = i64>>(
        values: &PrimitiveArray<T>,
        column: &Column,
        moment: impl Fn(i64) -> Option<LocalDateTime>,
    ) -> Option<Self> {
        let ColumnType::DateTime { fsp } = column.ty else { return None };
        let stored = |number: i64| moment(number)?.micros_rounded(fsp).map(i64::to_le_bytes);
        Some(Self::new(Values::Eight(all(values, stored)?), values.nulls()))
    }

    /// Texts for VARCHAR or TEXT.
    pub fn of_texts(values: &StringViewArray, column: &Column) -> Option<Self> {
        let limit = match column.ty {
            ColumnType::VarChar { len } => len,
            ColumnType::Text => column.lob_size.stored_bytes_max(),
            _ => return None,
        };
        // A text has no more characters than bytes.
        let fits = values.views().iter().all(|view| *view as u32 <= limit);
        fits.then(|| Self::new(Values::Text(values.clone()), values.nulls()))
    }

    fn new(values: Values, nulls: Option<&NullBuffer>) -> Self {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0).cloned();
        Self { values, nulls }
    }

    /// Writes the value of a row as the next one of `encoder`, which is at a column whose values
    /// are simply written ([`InsertPlan::simple_column`]).
    ///
    /// # Errors
    /// NULL for a column that takes none.
    #[inline]
    pub fn put(&self, row: usize, encoder: &mut RowEncoder<'_>) -> Result<(), Box<Fault>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return encoder.put_null();
        }
        match &self.values {
            Values::One(cells) => encoder.put_stored(|out| out.extend_from_slice(&cells[row])),
            Values::Two(cells) => encoder.put_stored(|out| out.extend_from_slice(&cells[row])),
            Values::Four(cells) => encoder.put_stored(|out| out.extend_from_slice(&cells[row])),
            Values::Eight(cells) => encoder.put_stored(|out| out.extend_from_slice(&cells[row])),
            Values::Text(texts) => {
                encoder.put_stored(|out| put_bytes(out, texts.value(row).as_bytes()))
            }
        }
    }
}

/// All values as rows hold them; `None` if there is one that `stored` has no form for. What stands
/// in the place of a NULL is nothing.
fn all<T: ArrowPrimitiveType, const BYTES: usize>(
    values: &PrimitiveArray<T>,
    stored: impl Fn(T::Native) -> Option<[u8; BYTES]>,
) -> Option<Vec<[u8; BYTES]>> {
    let cell = |(at, &value): (usize, &T::Native)| match stored(value) {
        None if values.is_null(at) => Some([0; BYTES]),
        cell => cell,
    };
    values.values().iter().enumerate().map(cell).collect()
}
