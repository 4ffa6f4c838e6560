//! Whole numbers that PARTITION BY computes of a column, as `MONTH(d)` or `a MOD 4` (RFC 0066).
//! Rows on disk are divided by these numbers, so they must never change.

use arrow::array::{Array, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal256Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};

use crate::key::KeyCodec;
use crate::row::MICROS_PER_DAY;
use crate::value::temporal::{date_of, days_of};
use crate::{Column, ColumnType, TableSchema};

/// An expression over one column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionExpr {
    /// As it is shown, with the column in backquotes.
    pub text: String,
    pub steps: Vec<Step>,
    /// The type of the column.
    pub of: ColumnType,
    /// Whether the column takes NULL, of which the number is NULL, too.
    pub nullable: bool,
    /// Stands for the column where partitions have values: these are BIGINTs, or NULL.
    pub numbers: Column,
}

/// A step, which takes its operands from a stack of numbers and puts its result there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The column, which is a whole number.
    Value,
    Number(i64),
    /// Of the column, which is a DATE or DATETIME.
    Part(DatePart),
    Add,
    Subtract,
    Multiply,
    /// DIV, towards zero.
    Divide,
    /// MOD, with the sign of the dividend.
    Modulo,
    Negate,
    Absolute,
}

/// What functions of MySQL make of a date or moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatePart {
    Year,
    Quarter,
    Month,
    Day,
    DayOfYear,
    /// From 1, a Sunday.
    DayOfWeek,
    /// From 0, a Monday.
    Weekday,
    ToDays,
    ToSeconds,
    Hour,
    Minute,
    Second,
    Microsecond,
}

/// TO_DAYS of 1970-01-01.
const TO_DAYS_OF_1970: i64 = 719_528;
const SECONDS_PER_DAY: i64 = 86_400;
const MICROS_PER_SECOND: i64 = 1_000_000;

impl DatePart {
    /// The function of this name, in any case of letters.
    pub fn parse(function: &str) -> Option<Self> {
        Some(match &*function.to_ascii_lowercase() {
            "year" => Self::Year,
            "quarter" => Self::Quarter,
            "month" => Self::Month,
            "day" | "dayofmonth" => Self::Day,
            "dayofyear" => Self::DayOfYear,
            "dayofweek" => Self::DayOfWeek,
            "weekday" => Self::Weekday,
            "to_days" => Self::ToDays,
            "to_seconds" => Self::ToSeconds,
            "hour" => Self::Hour,
            "minute" => Self::Minute,
            "second" => Self::Second,
            "microsecond" => Self::Microsecond,
            _ => return None,
        })
    }

    /// Of a day, in days since 1970-01-01, `micros` after midnight.
    pub fn number(self, days: i32, micros: i64) -> i64 {
        let (year, month, day) = date_of(days);
        let (year, month) = (i64::from(year), i64::from(month));
        let since_year_0 = i64::from(days) + TO_DAYS_OF_1970;
        let seconds = micros / MICROS_PER_SECOND;
        match self {
            Self::Year => year,
            // 0 in the zero date.
            Self::Quarter => (month + 2) / 3,
            Self::Month => month,
            Self::Day => i64::from(day),
            Self::DayOfYear => {
                let first = u32::try_from(year).ok().and_then(|year| days_of(year, 1, 1));
                i64::from(days - first.unwrap_or(days)) + 1
            }
            // 1970-01-01 was a Thursday.
            Self::DayOfWeek => (i64::from(days) + 4).rem_euclid(7) + 1,
            Self::Weekday => (i64::from(days) + 3).rem_euclid(7),
            Self::ToDays => since_year_0,
            Self::ToSeconds => since_year_0 * SECONDS_PER_DAY + seconds,
            Self::Hour => seconds / 3600,
            Self::Minute => seconds / 60 % 60,
            Self::Second => seconds % 60,
            Self::Microsecond => micros % MICROS_PER_SECOND,
        }
    }
}

impl PartitionExpr {
    /// Whether its steps are an expression over a column of its type.
    pub fn is_valid(&self) -> bool {
        let mut depth = 0_usize;
        for step in &self.steps {
            let (takes, fits) = match step {
                Step::Value => (0, self.of.is_integer()),
                Step::Part(_) => (0, is_moment(self.of)),
                Step::Number(_) => (0, true),
                Step::Negate | Step::Absolute => (1, true),
                Step::Add | Step::Subtract | Step::Multiply | Step::Divide | Step::Modulo => {
                    (2, true)
                }
            };
            if !fits || depth < takes {
                return false;
            }
            depth = depth - takes + 1;
        }
        let names_column = |step: &Step| matches!(step, Step::Value | Step::Part(_));
        depth == 1 && self.steps.iter().any(names_column)
    }

    /// Its number of a value, as it stands in a row, without length; `None` for NULL, and where
    /// there is no number, as behind a division by zero.
    fn number(&self, cell: Option<&[u8]>) -> Option<i64> {
        let cell = cell?;
        self.run(|part| match part {
            None => whole(self.of, cell),
            Some(part) => {
                let (days, micros) = moment(self.of, cell);
                part.number(days, micros).into()
            }
        })
    }

    /// The number of each value of an array of its column, without its sign, by whose remainder
    /// rows are divided; 0 where there is none. So does MySQL.
    pub(crate) fn numbers_of(&self, array: &dyn Array) -> Vec<u64> {
        match array.data_type() {
            DataType::Int8 => self.of_integers::<Int8Type>(array),
            DataType::Int16 => self.of_integers::<Int16Type>(array),
            DataType::Int32 => self.of_integers::<Int32Type>(array),
            DataType::Int64 => self.of_integers::<Int64Type>(array),
            DataType::UInt8 => self.of_integers::<UInt8Type>(array),
            DataType::UInt16 => self.of_integers::<UInt16Type>(array),
            DataType::UInt32 => self.of_integers::<UInt32Type>(array),
            DataType::UInt64 => self.of_integers::<UInt64Type>(array),
            DataType::Decimal256(..) => {
                let values = array.as_primitive::<Decimal256Type>();
                self.of_values(values, |value: i256, _| value.as_i128())
            }
            DataType::Date32 => {
                let days = array.as_primitive::<Date32Type>();
                self.of_values(days, |days, part| number_of(part, days, 0))
            }
            DataType::Timestamp(..) => {
                let moments = array.as_primitive::<TimestampMicrosecondType>();
                self.of_values(moments, |micros, part| {
                    let (days, micros) = days_and_micros(micros);
                    number_of(part, days, micros)
                })
            }
            other => unreachable!("an expression of {other} is not valid"),
        }
    }

    fn of_integers<T>(&self, array: &dyn Array) -> Vec<u64>
    where
        T: ArrowPrimitiveType,
        T::Native: Into<i128>,
    {
        self.of_values(array.as_primitive::<T>(), |value, _| value.into())
    }

    fn of_values<T: ArrowPrimitiveType>(
        &self,
        values: &PrimitiveArray<T>,
        operand: impl Fn(T::Native, Option<DatePart>) -> i128,
    ) -> Vec<u64> {
        let number = |value: Option<T::Native>| {
            let number = value.and_then(|value| self.run(|part| operand(value, part)));
            number.map_or(0, i64::unsigned_abs)
        };
        values.iter().map(number).collect()
    }

    /// Its number, of what `operand` has for the column or a part of it.
    fn run(&self, operand: impl Fn(Option<DatePart>) -> i128) -> Option<i64> {
        Step::run(&self.steps, |part| Some(operand(part)))
    }
}

impl Step {
    /// The number of steps that name no column; `None` if they do, and for a division by zero and
    /// what does not fit 38 digits.
    pub fn constant(steps: &[Self]) -> Option<i64> {
        Self::run(steps, |_| None)
    }

    fn run(steps: &[Self], operand: impl Fn(Option<DatePart>) -> Option<i128>) -> Option<i64> {
        let mut stack = Vec::<i128>::with_capacity(4);
        for step in steps {
            let number = match step {
                Step::Value => operand(None)?,
                Step::Number(number) => i128::from(*number),
                Step::Part(part) => operand(Some(*part))?,
                Step::Negate => stack.pop().and_then(i128::checked_neg)?,
                Step::Absolute => stack.pop().and_then(i128::checked_abs)?,
                Step::Add | Step::Subtract | Step::Multiply | Step::Divide | Step::Modulo => {
                    let (right, left) = (stack.pop()?, stack.pop()?);
                    match step {
                        Step::Add => left.checked_add(right)?,
                        Step::Subtract => left.checked_sub(right)?,
                        Step::Multiply => left.checked_mul(right)?,
                        Step::Divide => left.checked_div(right)?,
                        _ => left.checked_rem(right)?,
                    }
                }
            };
            stack.push(number);
        }
        let number = stack.pop()?;
        Some(number.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }
}

/// The number of a part of a day, or of the day itself.
fn number_of(part: Option<DatePart>, days: i32, micros: i64) -> i128 {
    part.map_or(days.into(), |part| part.number(days, micros).into())
}

/// The days since 1970-01-01, and the microseconds after midnight.
fn days_and_micros(micros: i64) -> (i32, i64) {
    (micros.div_euclid(MICROS_PER_DAY) as i32, micros.rem_euclid(MICROS_PER_DAY))
}

/// Whether a type has parts of time here.
const fn is_moment(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Date | ColumnType::DateTime { .. })
}

/// A whole number of a column of integers.
fn whole(ty: ColumnType, cell: &[u8]) -> i128 {
    let is_negative = !ty.is_unsigned() && cell.last().is_some_and(|high| *high >= 0x80);
    let mut bytes = [if is_negative { 0xff } else { 0 }; 16];
    bytes[..cell.len()].copy_from_slice(cell);
    i128::from_le_bytes(bytes)
}

/// The days since 1970-01-01, and the microseconds after midnight.
fn moment(ty: ColumnType, cell: &[u8]) -> (i32, i64) {
    let number = whole(ColumnType::BigInt { unsigned: false }, cell) as i64;
    match ty {
        ColumnType::Date => (number as i32, 0),
        _ => days_and_micros(number),
    }
}

/// Makes of keys of the column those of the numbers, by which partitions are found.
pub(super) struct Numbers {
    expr: PartitionExpr,
    column: KeyCodec,
    numbers: KeyCodec,
}

impl Numbers {
    pub fn new(expr: &PartitionExpr) -> Self {
        let column = Column {
            nullable: expr.nullable,
            ..Column::new(expr.numbers.id, &expr.numbers.name, expr.of)
        };
        let codec = |column: Column| {
            KeyCodec::of_sort_key(&TableSchema::new(Default::default(), vec![column], vec![0]))
        };
        Self { expr: expr.clone(), column: codec(column), numbers: codec(expr.numbers.clone()) }
    }

    /// The key of the number of a key of the column.
    pub fn key(&self, key: &[u8]) -> Vec<u8> {
        let cells = self.column.decode(key).expect("the key of a row is a key");
        let number = self.expr.number(cells[0].as_deref()).map(i64::to_le_bytes);
        let mut out = Vec::with_capacity(1 + size_of::<i64>());
        self.numbers.put_cells(std::iter::once(number.as_ref().map(<[u8; 8]>::as_slice)), &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Date32Array, Decimal256Array, Int32Array, Int64Array, TimestampMicrosecondArray,
        UInt8Array, UInt64Array,
    };
    use freshet_base::ColumnId;

    use super::super::value_key;
    use super::*;
    use crate::value::temporal::parse;

    fn expr(of: ColumnType, steps: &[Step]) -> PartitionExpr {
        let numbers = Column::new(ColumnId(1), "a", ColumnType::BigInt { unsigned: false });
        let (text, steps) = (String::new(), steps.to_vec());
        PartitionExpr { text, steps, of, nullable: true, numbers }
    }

    /// The number of a value, by way of keys.
    fn number(of: ColumnType, steps: &[Step], value: Option<&str>) -> Vec<u8> {
        let expr = expr(of, steps);
        assert!(expr.is_valid(), "{steps:?}");
        let column = Column::new(ColumnId(1), "a", of);
        Numbers::new(&expr).key(&value_key(&column, value).unwrap())
    }

    fn is(number: Option<i64>) -> Vec<u8> {
        let column = Column::new(ColumnId(1), "a", ColumnType::BigInt { unsigned: false });
        value_key(&column, number.map(|number| number.to_string()).as_deref()).unwrap()
    }

    #[test]
    fn numbers_of_whole_numbers() {
        use Step::{Absolute, Add, Divide, Modulo, Multiply, Negate, Number, Subtract, Value};
        let int = ColumnType::Int { unsigned: false };
        for (steps, value, wanted) in [
            (&[Value, Number(4), Modulo][..], "-7", Some(-3)),
            (&[Value, Number(10), Divide], "-25", Some(-2)),
            (&[Value, Absolute], "-5", Some(5)),
            (&[Value, Negate, Number(1), Subtract], "5", Some(-6)),
            (&[Value, Value, Multiply, Number(2), Add], "9", Some(83)),
            (&[Number(7), Value, Divide], "0", None),
        ] {
            assert_eq!(number(int, steps, Some(value)), is(wanted), "{steps:?}");
        }
        assert_eq!(number(int, &[Value, Number(1), Add], None), is(None));
        let unsigned = ColumnType::BigInt { unsigned: true };
        let largest = "18446744073709551615";
        assert_eq!(number(unsigned, &[Value, Number(10), Modulo], Some(largest)), is(Some(5)));
        assert_eq!(number(unsigned, &[Value, Absolute], Some(largest)), is(Some(i64::MAX)));
        assert_eq!(
            number(ColumnType::Year, &[Value, Number(2000), Subtract], Some("2024")),
            is(Some(24))
        );
    }

    #[test]
    fn numbers_of_moments_are_those_of_mysql() {
        let moment = "2024-02-29 13:14:15.000016";
        for (function, wanted) in [
            ("year", 2024),
            ("quarter", 1),
            ("MONTH", 2),
            ("day", 29),
            ("dayofyear", 60),
            ("dayofweek", 5),
            ("weekday", 3),
            ("to_days", 739_310),
            ("to_seconds", 739_310 * 86_400 + 13 * 3600 + 14 * 60 + 15),
            ("hour", 13),
            ("minute", 14),
            ("second", 15),
            ("microsecond", 16),
        ] {
            let part = DatePart::parse(function).unwrap();
            let parsed = parse(moment.as_bytes()).unwrap();
            assert_eq!(part.number(parsed.days, parsed.micros), wanted, "{function}");
            let of = ColumnType::DateTime { fsp: 6 };
            assert_eq!(number(of, &[Step::Part(part)], Some(moment)), is(Some(wanted)));
        }
        let month = DatePart::parse("month").unwrap();
        let of_date = number(ColumnType::Date, &[Step::Part(month)], Some("1969-12-31"));
        assert_eq!(of_date, is(Some(12)));
        assert_eq!(DatePart::parse("yearweek"), None);
    }

    #[test]
    fn numbers_of_arrays_are_those_of_values_without_sign() {
        use Step::{Modulo, Number, Part, Value};
        let hundred = expr(ColumnType::BigInt { unsigned: false }, &[Value, Number(100), Modulo]);
        let array = Int64Array::from(vec![Some(205), Some(-205), None, Some(i64::MIN)]);
        assert_eq!(hundred.numbers_of(&array), [5, 5, 0, 8]);
        // Wider types have the same numbers.
        let narrow = UInt8Array::from(vec![205]);
        assert_eq!(hundred.numbers_of(&narrow), [5]);
        let by_value = expr(ColumnType::Int { unsigned: false }, &[Number(7), Value, Modulo]);
        assert_eq!(by_value.numbers_of(&Int32Array::from(vec![4, 0])), [3, 0]);
        let largest = expr(ColumnType::BigInt { unsigned: true }, &[Value, Number(10), Modulo]);
        assert_eq!(largest.numbers_of(&UInt64Array::from(vec![u64::MAX])), [5]);
        let wide = expr(ColumnType::LargeInt, &[Value, Number(10), Modulo]);
        let values = Decimal256Array::from_iter_values([i256::from_i128(-(1 << 100))]);
        assert_eq!(wide.numbers_of(&values), [6]);
        let date = expr(ColumnType::Date, &[Part(DatePart::Month)]);
        assert_eq!(date.numbers_of(&Date32Array::from(vec![Some(-1), Some(0), None])), [12, 1, 0]);
        let at = expr(ColumnType::DateTime { fsp: 0 }, &[Part(DatePart::Hour)]);
        let moments = TimestampMicrosecondArray::from(vec![-1, 3_600_000_000]);
        assert_eq!(at.numbers_of(&moments), [23, 1]);
    }

    #[test]
    fn what_is_no_expression_of_the_column_is_told() {
        let int = ColumnType::Int { unsigned: false };
        for steps in [
            &[][..],
            &[Step::Number(1)],
            &[Step::Value, Step::Add],
            &[Step::Value, Step::Value],
            &[Step::Part(DatePart::Year)],
        ] {
            assert!(!expr(int, steps).is_valid(), "{steps:?}");
        }
    }
}
