//! The values of a column of Arrow, in the few forms in which they are stored.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    Decimal256Array, Float32Array, Float64Array, Int64Array, StringViewArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int64Type,
    TimeUnit, UInt64Type,
};
use freshet_base::{Result, err};
use freshet_schema::nested::Shown;
use freshet_schema::row::{MICROS_MAX, MICROS_MIN, MICROS_PER_DAY};
use freshet_schema::value::{
    self, Encoding, LocalDateTime, put_decimal, put_f64, put_i64, put_i128, put_text,
};
use freshet_schema::{BadValue, ColumnType, Literal, TEXT_BYTES_MAX, Zone};

use crate::decode::{Fault, RowEncoder};

/// The text of a number, whatever its type.
const NUMBER_BYTES_MAX: usize = 96;

pub(super) enum Cells {
    Null,
    Bool(BooleanArray),
    Int(Int64Array),
    UInt(UInt64Array),
    Float(Float32Array),
    Double(Float64Array),
    Decimal(Decimal128Array),
    Wide(Decimal256Array),
    Text(StringViewArray),
    Bytes(BinaryViewArray),
    Date(Date32Array),
    /// Of this unit; an instant, or a local time.
    Moment(Int64Array, TimeUnit, bool),
    /// The time of a day.
    Clock(Int64Array, TimeUnit),
    /// Indexes, where not NULL, into values.
    Dictionary(Vec<usize>, ArrayRef, Box<Cells>),
    /// Lists, maps and structs.
    Nested(Shown),
}

impl Cells {
    /// Instants inside of lists, maps and structs are local times of `zone`.
    ///
    /// # Errors
    /// `NotSupported` for types that no column has.
    pub fn of(name: &str, array: &ArrayRef, zone: Zone) -> Result<Self> {
        use DataType as T;
        let ty = array.data_type();
        let to = |ty: &DataType| {
            cast(array, ty)
                .map_err(|error| err!(WrongArguments, "column '{name}' of the body: {error}"))
        };
        let numbers = || Ok::<_, freshet_base::Error>(to(&T::Int64)?.as_primitive().clone());
        Ok(match ty {
            T::Null => Self::Null,
            T::Boolean => Self::Bool(array.as_boolean().clone()),
            T::Int8 | T::Int16 | T::Int32 | T::Int64 => Self::Int(numbers()?),
            T::UInt8 | T::UInt16 | T::UInt32 => Self::Int(numbers()?),
            T::UInt64 => Self::UInt(array.as_primitive::<UInt64Type>().clone()),
            T::Float16 => Self::Float(to(&T::Float32)?.as_primitive::<Float32Type>().clone()),
            T::Float32 => Self::Float(array.as_primitive::<Float32Type>().clone()),
            T::Float64 => Self::Double(array.as_primitive::<Float64Type>().clone()),
            T::Decimal32(precision, scale)
            | T::Decimal64(precision, scale)
            | T::Decimal128(precision, scale) => {
                let same = to(&T::Decimal128(*precision, *scale))?;
                Self::Decimal(same.as_primitive::<Decimal128Type>().clone())
            }
            T::Decimal256(..) => Self::Wide(array.as_primitive::<Decimal256Type>().clone()),
            T::Utf8 | T::LargeUtf8 | T::Utf8View => {
                Self::Text(to(&T::Utf8View)?.as_string_view().clone())
            }
            T::Binary | T::LargeBinary | T::BinaryView => {
                Self::Bytes(to(&T::BinaryView)?.as_binary_view().clone())
            }
            T::FixedSizeBinary(_) => {
                Self::Bytes(BinaryViewArray::from_iter(array.as_fixed_size_binary().iter()))
            }
            T::Date32 => Self::Date(array.as_primitive::<Date32Type>().clone()),
            T::Date64 => Self::Moment(numbers()?, TimeUnit::Millisecond, false),
            T::Timestamp(unit, zone) => Self::Moment(numbers()?, *unit, zone.is_some()),
            T::Time32(unit) | T::Time64(unit) => {
                // Only via its own width it is a number.
                let width = if matches!(ty, T::Time32(_)) { T::Int32 } else { T::Int64 };
                let numbers = cast(&to(&width)?, &T::Int64);
                let numbers = numbers.map_err(|error| err!(WrongArguments, "{error}"))?;
                Self::Clock(numbers.as_primitive::<Int64Type>().clone(), *unit)
            }
            T::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let values = Self::of(name, dictionary.values(), zone)?;
                let keys = match dictionary.values().is_empty() {
                    // All of them are NULL.
                    true => vec![0; array.len()],
                    false => dictionary.normalized_keys(),
                };
                Self::Dictionary(keys, make_keys(array), Box::new(values))
            }
            other if other.is_nested() => {
                Self::Nested(Shown::in_zone(array, zone).map_err(|_| not_loaded(name, other))?)
            }
            other => return Err(not_loaded(name, other)),
        })
    }

    /// The most bytes that a value has as a row holds it: how often a few bytes of a body stand for
    /// many.
    pub fn value_bytes_max(&self) -> usize {
        let longest = |views: &[u128]| views.iter().map(|view| *view as u32 as usize).max();
        match self {
            Self::Text(values) => longest(values.views()).unwrap_or(0),
            Self::Bytes(values) => longest(values.views()).unwrap_or(0),
            Self::Dictionary(_, _, values) => values.value_bytes_max(),
            Self::Nested(values) => values.bytes_max().min(TEXT_BYTES_MAX as usize),
            _ => NUMBER_BYTES_MAX,
        }
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(values) => values.is_null(row),
            Self::Int(values) | Self::Moment(values, ..) | Self::Clock(values, _) => {
                values.is_null(row)
            }
            Self::UInt(values) => values.is_null(row),
            Self::Float(values) => values.is_null(row),
            Self::Double(values) => values.is_null(row),
            Self::Decimal(values) => values.is_null(row),
            Self::Wide(values) => values.is_null(row),
            Self::Text(values) => values.is_null(row),
            Self::Bytes(values) => values.is_null(row),
            Self::Date(values) => values.is_null(row),
            Self::Dictionary(keys, array, values) => {
                array.is_null(row) || values.is_null(keys[row])
            }
            Self::Nested(values) => values.is_null(row),
        }
    }

    /// Writes the value of a row as the next one of `encoder`.
    #[inline]
    pub fn put(&self, row: usize, encoder: &mut RowEncoder<'_>) -> Result<(), Box<Fault>> {
        if self.is_null(row) {
            return encoder.put_null();
        }
        match self {
            Self::Null => encoder.put_null(),
            Self::Bool(values) => put_int(encoder, i64::from(values.value(row))),
            Self::Int(values) => put_int(encoder, values.value(row)),
            Self::UInt(values) => {
                let value = i128::from(values.value(row));
                encoder.put(Literal::Int(value), |column, rules, out| {
                    put_i128(column, value, rules, out)
                })
            }
            Self::Float(values) => put_float(encoder, values.value(row)),
            Self::Double(values) => {
                let value = values.value(row);
                encoder.put(Literal::Float(value), |column, rules, out| {
                    put_f64(column, value, rules, out)
                })
            }
            Self::Decimal(values) => put_exact(encoder, values, row),
            Self::Wide(values) => {
                let text = values.value_as_string(row);
                put(encoder, Literal::Number(text.as_bytes()))
            }
            Self::Text(values) => {
                let text = values.value(row).as_bytes();
                encoder.put(Literal::Text(text), |column, rules, out| {
                    put_text(column, text, Encoding::Utf8, rules, out)
                })
            }
            Self::Bytes(values) => put(encoder, Literal::Text(values.value(row))),
            Self::Date(values) => {
                let micros = i64::from(values.value(row)).checked_mul(MICROS_PER_DAY);
                put_moment(encoder, (micros, false), None, values.value(row).into())
            }
            Self::Moment(values, unit, is_instant) => {
                let number = values.value(row);
                let offset = is_instant.then_some(0);
                put_moment(encoder, micros(number, *unit), offset, number.into())
            }
            Self::Clock(values, unit) => {
                let text = clock(micros(values.value(row), *unit).0.unwrap_or_default());
                put(encoder, Literal::Text(text.as_bytes()))
            }
            Self::Dictionary(keys, _, values) => values.put(keys[row], encoder),
            Self::Nested(values) => put_nested(encoder, values, row),
        }
    }
}

/// The keys of a dictionary, which say what is NULL.
fn make_keys(array: &ArrayRef) -> ArrayRef {
    arrow::array::make_array(array.as_any_dictionary().keys().to_data())
}

/// The refusal of a column that no column of a table can hold.
pub(super) fn not_loaded(name: &str, ty: &DataType) -> freshet_base::Error {
    err!(
        NotSupported,
        "column '{name}' of the body is of type {ty}, which cannot be loaded: leave the column \
         out, or write it as text"
    )
}

/// Writes the text of a list, map or struct, which is JSON where a column wants that.
fn put_nested(encoder: &mut RowEncoder<'_>, values: &Shown, row: usize) -> Result<(), Box<Fault>> {
    let (mut text, limit) = (Vec::new(), TEXT_BYTES_MAX as usize);
    if !values.text_within(row, limit, &mut text) {
        let actual = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let bad = BadValue::TooLong { actual, limit: TEXT_BYTES_MAX };
        return encoder.put(Literal::Text(&text), |_, _, _| Err(bad));
    }
    put(encoder, Literal::Text(&text))
}

#[inline]
fn put(encoder: &mut RowEncoder<'_>, literal: Literal<'_>) -> Result<(), Box<Fault>> {
    encoder.put(literal, |column, rules, out| value::put(column, literal, rules, out))
}

#[inline]
fn put_int(encoder: &mut RowEncoder<'_>, value: i64) -> Result<(), Box<Fault>> {
    encoder.put(Literal::Int(value.into()), |column, rules, out| put_i64(column, value, rules, out))
}

fn put_float(encoder: &mut RowEncoder<'_>, value: f32) -> Result<(), Box<Fault>> {
    let is_number = encoder.column().is_none_or(|column| {
        matches!(column.ty, ColumnType::Float | ColumnType::Double) || column.ty.is_integer()
    });
    if is_number || !value.is_finite() {
        let value = f64::from(value);
        return encoder
            .put(Literal::Float(value), |column, rules, out| put_f64(column, value, rules, out));
    }
    // With the digits that a FLOAT shows.
    put(encoder, Literal::Number(value.to_string().as_bytes()))
}

fn put_exact(
    encoder: &mut RowEncoder<'_>,
    values: &Decimal128Array,
    row: usize,
) -> Result<(), Box<Fault>> {
    let (unscaled, scale) = (values.value(row), values.scale());
    let is_same = encoder.column().is_some_and(|column| {
        let own = (values.precision(), scale.unsigned_abs());
        scale >= 0
            && !column.non_negative
            && matches!(column.ty, ColumnType::Decimal { precision, scale }
                if precision >= own.0 && scale == own.1)
    });
    let shown = if is_same { String::new() } else { values.value_as_string(row) };
    let shown = shown.as_bytes();
    encoder.put(Literal::Number(shown), |column, rules, out| {
        put_decimal(column, (unscaled, scale), shown, rules, out)
    })
}

/// Microseconds, where they fit, and whether what is behind them is half of one or more.
pub(super) fn micros(number: i64, unit: TimeUnit) -> (Option<i64>, bool) {
    match unit {
        TimeUnit::Second => (number.checked_mul(1_000_000), false),
        TimeUnit::Millisecond => (number.checked_mul(1_000), false),
        TimeUnit::Microsecond => (Some(number), false),
        TimeUnit::Nanosecond => (Some(number.div_euclid(1_000)), number.rem_euclid(1_000) >= 500),
    }
}

fn put_moment(
    encoder: &mut RowEncoder<'_>,
    (micros, round_up): (Option<i64>, bool),
    offset: Option<i32>,
    number: i128,
) -> Result<(), Box<Fault>> {
    let years = MICROS_MIN - MICROS_PER_DAY..=MICROS_MAX + MICROS_PER_DAY;
    let Some(micros) = micros.filter(|micros| years.contains(micros)) else {
        return encoder.put(Literal::Int(number), |_, _, _| Err(BadValue::NotTemporal));
    };
    let moment = LocalDateTime { round_up, offset, ..LocalDateTime::from_micros(micros) };
    encoder.put(Literal::Time(moment), |column, rules, out| {
        // What is no time shows an instant as the clocks of its zone do.
        let moment = if column.ty.is_temporal() { moment } else { moment.in_zone(rules.zone) };
        value::put(column, Literal::Time(moment), rules, out)
    })
}

/// `hh:mm:ss[.ffffff]`.
fn clock(micros: i64) -> String {
    let (sign, micros) = (if micros < 0 { "-" } else { "" }, micros.unsigned_abs());
    let (second, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    let whole = format!("{sign}{hour:02}:{minute:02}:{:02}", second % 60);
    if fraction == 0 { whole } else { format!("{whole}.{fraction:06}") }
}
